//===- DomainBuilder.cpp - one iteration space for a kernel ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See DomainBuilder.h. Two neighbours merge where every access steps over them
// as over one, every op loops over both or none and every result reduces both
// or none.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Model/DomainBuilder.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using llvm::SmallBitVector;

namespace mpcomm::kernels {

LogicalResult DomainBuilder::place(ArrayRef<linalg::LinalgOp> allOps,
                                   EmitError emitError) {
  ops.assign(allOps.begin(), allOps.end());
  const linalg::LinalgOp *widest = nullptr;
  for (const linalg::LinalgOp &op : llvm::reverse(ops)) {
    auto loops = const_cast<linalg::LinalgOp &>(op).getNumLoops();
    if (!widest ||
        loops > const_cast<linalg::LinalgOp &>(*widest).getNumLoops())
      widest = &op;
  }
  if (widest)
    model.sizes = const_cast<linalg::LinalgOp &>(*widest).getStaticLoopRanges();
  // So that no product of sizes overflows.
  int64_t points = 1;
  for (int64_t size : model.sizes)
    points = ::mpcomm::detail::multiplySaturated(points, size);
  if (points > int64_t(1) << 48)
    return emitError(*widest) << "loops over " << points
                              << " points or more, expected at most 2^48";
  column.resize(model.sizes.size());
  indexed.resize(model.sizes.size());
  // Readers before writers.
  for (linalg::LinalgOp op : llvm::reverse(ops))
    if (failed(placeOp(op, emitError)))
      return failure();
  return success();
}

LogicalResult DomainBuilder::placeOp(linalg::LinalgOp op, EmitError emitError) {
  unsigned rank = model.sizes.size();
  unsigned count = op.getNumLoops();
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  SmallVector<int> &loops = model.loops[op];
  loops.assign(count, -1);
  SmallBitVector taken(rank);
  for (OpResult result : op->getResults()) {
    AffineMap map = op.getIndexingMapMatchingResult(result);
    for (OpOperand &use : result.getUses()) {
      auto reader = dyn_cast<linalg::LinalgOp>(use.getOwner());
      auto found = reader ? model.loops.find(reader) : model.loops.end();
      if (found == model.loops.end() ||
          (reader.isDpsInit(&use) && !reader.payloadUsesValueFromOperand(&use)))
        continue;
      AffineMap readMap = reader.getMatchingIndexingMap(&use);
      for (auto [to, from] :
           llvm::zip(readMap.getResults(), map.getResults())) {
        auto toDim = dyn_cast<AffineDimExpr>(to);
        auto fromDim = dyn_cast<AffineDimExpr>(from);
        if (!toDim || !fromDim)
          continue;
        int dim = found->second[toDim.getPosition()];
        int &loop = loops[fromDim.getPosition()];
        if (loop < 0 && dim >= 0 && !taken.test(dim)) {
          loop = dim;
          taken.set(dim);
        }
      }
    }
  }
  // What no reader fixes: in order, and if that does not fit, from the end.
  for (unsigned i = 0; i < count; ++i) {
    if (loops[i] >= 0)
      continue;
    for (unsigned dim : {i, rank - count + i})
      if (loops[i] < 0 && !taken.test(dim) && model.sizes[dim] == ranges[i]) {
        loops[i] = dim;
        taken.set(dim);
      }
  }
  for (unsigned i = 0; i < count; ++i)
    if (loops[i] < 0 || model.sizes[loops[i]] != ranges[i])
      return emitError(op) << "loop " << i << " of length " << ranges[i]
                           << " is none of the row space ("
                           << llvm::ArrayRef(model.sizes) << ")";
  op->walk([&](linalg::IndexOp index) {
    if (index.getDim() < count)
      indexed.set(loops[index.getDim()]);
  });
  return success();
}

SmallVector<MapEntry> DomainBuilder::entries(linalg::LinalgOp op,
                                             AffineMap map) const {
  const SmallVector<int> &loops = model.loops.find(op)->second;
  SmallVector<MapEntry> result;
  for (AffineExpr expr : map.getResults()) {
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      result.push_back({loops[dim.getPosition()], 0});
    else
      result.push_back({-1, cast<AffineConstantExpr>(expr).getValue()});
  }
  return result;
}

KernelAccess DomainBuilder::accessOf(unsigned argument,
                                     ArrayRef<MapEntry> entries) const {
  KernelAccess access;
  access.argument = argument;
  access.strides.assign(model.sizes.size(), 0);
  auto [strides, offset] = model.layouts[argument].getStridesAndOffset();
  for (auto [entry, stride] : llvm::zip(entries, strides)) {
    if (ShapedType::isDynamic(stride)) // of no elements: never computed with
      continue;
    if (entry.dim >= 0)
      access.strides[entry.dim] += stride;
    else
      access.offset += entry.constant * stride;
  }
  return access;
}

void DomainBuilder::addAccess(linalg::LinalgOp op, OpOperand &operand) {
  unsigned argument = cast<BlockArgument>(operand.get()).getArgNumber();
  model.accesses[&operand] =
      accessOf(argument, entries(op, op.getMatchingIndexingMap(&operand)));
}

void DomainBuilder::addStore(Value value, unsigned destination) {
  auto result = cast<OpResult>(value);
  auto op = cast<linalg::LinalgOp>(result.getOwner());
  model.stores.push_back(
      {value, accessOf(destination,
                       entries(op, op.getIndexingMapMatchingResult(result)))});
}

void DomainBuilder::setDims(KernelResult &result, AffineMap map) const {
  unsigned rank = model.sizes.size();
  result.dims.resize(rank);
  result.reduced.resize(rank);
  for (const MapEntry &entry : entries(result.op, map))
    if (entry.dim >= 0)
      result.dims.set(entry.dim);
  for (int dim : model.loops.find(result.op)->second)
    if (!result.dims.test(dim))
      result.reduced.set(dim);
}

void DomainBuilder::mustBeColumn(const SmallBitVector &dims) { column |= dims; }

unsigned DomainBuilder::bestColumn() const {
  // By elements accessed; stores count more than loads: a scatter costs more
  // than a gather.
  SmallVector<double> score(model.sizes.size(), 0);
  auto count = [&](const KernelAccess &access, double weight) {
    for (unsigned dim = 0; dim < score.size(); ++dim)
      if (access.strides[dim] != 0)
        weight *= model.sizes[dim];
    for (unsigned dim = 0; dim < score.size(); ++dim)
      if (access.strides[dim] == 1 && model.sizes[dim] > 1)
        score[dim] += weight;
  };
  for (const auto &entry : model.accesses)
    count(entry.second, 1);
  for (const Store &store : model.stores)
    count(store.access, 3);
  unsigned best = score.size() - 1;
  for (unsigned dim = best; dim-- > 0;)
    if (score[dim] > score[best] ||
        (model.sizes[best] == 1 && model.sizes[dim] > 1))
      best = dim;
  return best;
}

int DomainBuilder::transposedDim(unsigned column) const {
  int found = -1;
  for (const auto &entry : model.accesses) {
    ArrayRef<int64_t> strides = entry.second.strides;
    if (strides[column] == 0 || strides[column] == 1)
      continue;
    for (unsigned dim = 0; dim < strides.size(); ++dim)
      if (dim != column && strides[dim] == 1 && model.sizes[dim] > 1)
        found = std::max(found, static_cast<int>(dim));
  }
  return found;
}

SmallVector<unsigned> DomainBuilder::chooseOrder() const {
  SmallBitVector last = column;
  int innermostRow = -1;
  if (last.none() && !model.sizes.empty()) {
    unsigned best = bestColumn();
    last.set(best);
    innermostRow = transposedDim(best);
  }
  SmallBitVector reduced(model.sizes.size());
  for (const auto &entry : model.results)
    reduced |= entry.second.reduced;
  SmallVector<unsigned> order;
  for (bool atEnd : {false, true})
    for (unsigned dim = 0; dim < model.sizes.size(); ++dim)
      if (last.test(dim) == atEnd &&
          (model.sizes[dim] != 1 || reduced.test(dim)))
        order.push_back(dim);
  if (innermostRow >= 0) {
    llvm::erase(order, static_cast<unsigned>(innermostRow));
    order.insert(order.end() - 1, static_cast<unsigned>(innermostRow));
  }
  return order;
}

bool DomainBuilder::canMerge(unsigned outer, unsigned inner) const {
  if (indexed.test(outer) || indexed.test(inner))
    return false;
  for (const auto &entry : model.loops) {
    bool hasOuter = llvm::is_contained(entry.second, static_cast<int>(outer));
    bool hasInner = llvm::is_contained(entry.second, static_cast<int>(inner));
    if (hasOuter != hasInner)
      return false;
  }
  for (const auto &entry : model.results)
    if (entry.second.dims.test(outer) != entry.second.dims.test(inner) ||
        entry.second.reduced.test(outer) != entry.second.reduced.test(inner))
      return false;
  if (model.sizes[outer] == 1 || model.sizes[inner] == 1)
    return true;
  auto inLine = [&](const KernelAccess &access) {
    return access.strides[outer] == access.strides[inner] * model.sizes[inner];
  };
  for (const auto &entry : model.accesses)
    if (!inLine(entry.second))
      return false;
  return llvm::all_of(model.stores,
                      [&](const Store &store) { return inLine(store.access); });
}

LogicalResult DomainBuilder::finish(EmitError emitError) {
  // Merging keeps the inner dimension's number; the outer one becomes it.
  SmallVector<unsigned> order = chooseOrder();
  SmallVector<int> becomes(model.sizes.size(), -1);
  auto forEachAccess = [&](llvm::function_ref<void(KernelAccess &)> visit) {
    for (auto &entry : model.accesses)
      visit(entry.second);
    for (Store &store : model.stores)
      visit(store.access);
  };
  SmallVector<unsigned> kept;
  for (unsigned dim : order) {
    if (!kept.empty() && canMerge(kept.back(), dim)) {
      unsigned outer = kept.back();
      if (model.sizes[dim] == 1)
        forEachAccess([&](KernelAccess &access) {
          access.strides[dim] = access.strides[outer];
        });
      model.sizes[dim] *= model.sizes[outer];
      for (int &to : becomes)
        if (to == static_cast<int>(outer))
          to = dim;
      becomes[dim] = dim;
      kept.back() = dim;
      continue;
    }
    becomes[dim] = dim;
    kept.push_back(dim);
  }
  // Reductions that are read run along the column, and it is all of them.
  for (int dim : column.set_bits())
    if (becomes[dim] != static_cast<int>(kept.back()))
      return emitError(model.kernel)
             << "reduced dimensions that are read again do not lie together";
  // Renumber.
  SmallVector<int> number(model.sizes.size(), -1);
  SmallVector<int64_t> sizes;
  for (auto [i, dim] : llvm::enumerate(kept)) {
    number[dim] = i;
    sizes.push_back(model.sizes[dim]);
  }
  auto renumber = [&](int dim) {
    return dim < 0 || becomes[dim] < 0 ? -1 : number[becomes[dim]];
  };
  auto renumberBits = [&](SmallBitVector &bits) {
    SmallBitVector result(sizes.size());
    for (int dim : bits.set_bits())
      if (int to = renumber(dim); to >= 0)
        result.set(to);
    bits = result;
  };
  for (auto &entry : model.loops)
    for (int &loop : entry.second)
      loop = renumber(loop);
  for (auto &entry : model.results) {
    renumberBits(entry.second.dims);
    renumberBits(entry.second.reduced);
  }
  forEachAccess([&](KernelAccess &access) {
    SmallVector<int64_t> strides;
    for (unsigned dim : kept)
      strides.push_back(access.strides[dim]);
    access.strides = strides;
  });
  model.sizes = sizes;
  return success();
}

} // namespace mpcomm::kernels
