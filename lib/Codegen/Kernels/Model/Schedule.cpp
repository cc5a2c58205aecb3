//===- Schedule.cpp - passes over a row -----------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A reduction along the row ends its pass; what depends on it comes in the
// next. Elements that several passes need are computed again in each if that
// is cheaper than a store and a load, and buffered otherwise.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Model/Schedule.h"
#include "Kernels/Model/LaneOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using llvm::SmallBitVector;

namespace mpcomm::kernels {

/// Vector instructions, roughly, where a buffered value costs about 3.
static constexpr int kCostOfBuffer = 12;
/// Registers that rows kept between passes may take, of 32.
static constexpr int64_t kRegistersForRow = 24;
/// Rows at a time where these are all terms of a sum.
static constexpr int64_t kMostTermsAtATime = 8;
/// Places of memory that are read side by side as fast as one after the other.
static constexpr int64_t kMostStreams = 32;
/// Bytes of buffers, on the stack, of such rows.
static constexpr int64_t kMostBufferedInBlock = 1 << 20;
/// Instructions of a chunk that may be repeated for each row of a tile.
static constexpr int kCostOfTile = 40;
/// Bytes of stack that one buffered row may take.
static constexpr int64_t kMaxBufferBytes = 1 << 18;

bool loopsOverColumn(const KernelModel &model, Operation *op) {
  return llvm::is_contained(model.loops.find(op)->second, model.column()) &&
         model.hasColumn();
}

bool Schedule::isTiled(const KernelModel &model, const KernelAccess &access) {
  int64_t along = access.strides[model.column()];
  return !model.rows().empty() && along != 0 && along != 1 &&
         access.strides[model.column() - 1] == 1;
}

static int costOf(Operation &op) {
  if (isa<math::PowFOp>(op))
    return 60;
  if (isa<math::ErfOp, math::TanhOp, math::LogOp>(op))
    return 25;
  if (isa<math::ExpOp, arith::DivFOp, math::RsqrtOp, math::SqrtOp>(op))
    return 15;
  if (isa_and_nonnull<math::MathDialect>(op.getDialect()) &&
      !isa<math::AbsFOp>(op))
    return 30;
  return 1;
}

namespace {
class Planner {
public:
  Planner(const KernelModel &model, Schedule &schedule)
      : model(model), schedule(schedule) {}
  void run(unsigned vectorBits, unsigned unrollColumns, int64_t cacheBytes);

private:
  const KernelResult *resultOf(Value value) const {
    auto it = model.results.find(value);
    return it == model.results.end() ? nullptr : &it->second;
  }
  void findPasses();
  void findCosts();
  void findNeeds();
  void chooseWidth(unsigned vectorBits);
  void chooseRowOrder(int64_t cacheBytes);
  void chooseRowBlock();
  void chooseTiles();
  /// Registers that a row takes if its values live on between passes.
  int64_t registersOfRow() const;

  const KernelModel &model;
  Schedule &schedule;
  llvm::DenseMap<Value, int> cost;
  llvm::DenseMap<Value, SmallBitVector> needs;
  int total = 0; ///< instructions of one chunk of one register
};
} // namespace

void Planner::findPasses() {
  for (Value value : model.order) {
    const KernelResult &result = model.results.find(value)->second;
    int pass = 0;
    for (Value operand : result.op->getOperands())
      if (const KernelResult *source = resultOf(operand))
        pass =
            std::max(pass, schedule.pass[operand] +
                               (source->kind == ResultKind::RowReduce ? 1 : 0));
    schedule.pass[value] = pass;
    bool runs = result.kind == ResultKind::Element ||
                (result.reduced.any() && loopsOverColumn(model, result.op));
    if (runs)
      schedule.passes = std::max(schedule.passes, pass + 1);
  }
}

void Planner::findCosts() {
  for (Value value : model.order) {
    const KernelResult &result = model.results.find(value)->second;
    if (!loopsOverColumn(model, result.op))
      continue;
    int own = 0;
    for (Operation &op : *result.op.getBlock())
      own += costOf(op);
    total += own;
    for (OpOperand &operand : result.op->getOpOperands()) {
      auto access = model.accesses.find(&operand);
      if (access != model.accesses.end() && model.alongColumn(access->second))
        ++own;
      auto it = cost.find(operand.get());
      if (it != cost.end())
        own += it->second;
    }
    if (result.kind == ResultKind::Element)
      cost[value] = own;
  }
}

void Planner::findNeeds() {
  for (Value value : llvm::reverse(model.order)) {
    const KernelResult &result = model.results.find(value)->second;
    if (result.kind != ResultKind::Element)
      continue;
    SmallBitVector need(schedule.passes);
    if (model.storeOf(value))
      need.set(schedule.lastPass());
    for (Operation *user : value.getUsers())
      for (Value read : user->getResults()) {
        const KernelResult *reader = resultOf(read);
        if (!reader)
          continue;
        if (reader->kind != ResultKind::Element)
          need.set(schedule.pass[read]);
        else if (auto it = schedule.bufferedIn.find(read);
                 it != schedule.bufferedIn.end())
          need.set(it->second);
        else
          need |= needs[read];
      }
    int64_t bytes = model.columns() *
                    (getElementTypeOrSelf(value).getIntOrFloatBitWidth() + 7) /
                    8;
    if (need.count() > 1 && cost[value] >= kCostOfBuffer &&
        bytes <= kMaxBufferBytes)
      schedule.bufferedIn[value] = need.find_first();
    needs[value] = need;
  }
}

int64_t Planner::registersOfRow() const {
  int64_t values = schedule.bufferedIn.size();
  SmallVector<const KernelAccess *> seen;
  for (const auto &entry : model.accesses) {
    const KernelAccess &access = entry.second;
    bool ofRow = llvm::any_of(ArrayRef(access.strides).drop_back(),
                              [](int64_t stride) { return stride != 0; });
    if (model.alongColumn(access) && ofRow &&
        llvm::none_of(seen, [&](const KernelAccess *other) {
          return *other == access;
        })) {
      seen.push_back(&access);
      ++values;
    }
  }
  return values * llvm::divideCeil(model.columns(), schedule.lanes);
}

void Planner::chooseWidth(unsigned vectorBits) {
  // One register holds the widest float that lanes compute in.
  unsigned bits = 32;
  bool has32 = false, has64 = false;
  auto see = [&](Type type) {
    if (auto floating = dyn_cast<FloatType>(getElementTypeOrSelf(type)))
      (floating.getWidth() == 64 ? has64 : has32) = true;
  };
  for (Value value : model.order)
    see(value.getType());
  for (Type type : model.kernel.getArgumentTypes())
    see(type);
  if (has64 && !has32)
    bits = 64;
  schedule.lanes = std::max(1u, vectorBits / bits);
  // Short rows leave no lane idle: half a register costs as much as a whole
  // one, which would need a mask.
  while (schedule.lanes > 4 && schedule.lanes / 2 >= model.columns())
    schedule.lanes /= 2;
  int64_t registers = total > 60 || model.accesses.size() > 8 ? 2 : 4;
  if (schedule.rowBlock > 1)
    registers = 2;
  schedule.width = schedule.lanes * registers;
  while (schedule.width > schedule.lanes &&
         schedule.width / 2 >= model.columns())
    schedule.width /= 2;
}

/// Sums of columns that do not fit into a cache are not gone through once for
/// each of their few terms: rows that are summed come innermost.
void Planner::chooseRowOrder(int64_t cacheBytes) {
  llvm::append_range(schedule.rowOrder, llvm::seq<int>(0, model.rows().size()));
  SmallBitVector reduced;
  int64_t bytes = 0;
  bool canStartLast = true;
  for (const Store &store : model.stores) {
    const KernelResult &result = model.results.find(store.value)->second;
    if (result.kind != ResultKind::Accumulate ||
        !result.dims.test(model.column()) || result.reduced.none() ||
        (!reduced.empty() && result.reduced != reduced))
      return;
    reduced = result.reduced;
    Value start = result.op.getDpsInitOperand(result.index)->get();
    canStartLast &= mayStartLast(matchUniformTensor(start), result.combiner);
    MemRefType layout = model.layouts[store.access.argument];
    bytes = std::max(bytes, layout.getNumElements() *
                                layout.getElementTypeBitWidth() / 8);
  }
  int64_t terms = 1;
  for (int dim : reduced.set_bits())
    terms *= model.sizes[dim];
  if (reduced.none() || bytes <= cacheBytes || terms < 1 ||
      terms > kMostStreams)
    return;
  llvm::stable_sort(schedule.rowOrder, [&](int one, int other) {
    return reduced.test(one) < reduced.test(other);
  });
  int64_t rows = model.sizes[schedule.innermostRow()];
  int64_t buffered = schedule.bufferedIn.size() * model.columns() * rows * 8;
  schedule.sumsInBlock = canStartLast && reduced.count() == 1 &&
                         rows <= kMostTermsAtATime &&
                         buffered <= kMostBufferedInBlock;
}

void Planner::chooseRowBlock() {
  if (model.rows().empty())
    return;
  int64_t rows = model.sizes[schedule.innermostRow()];
  if (schedule.sumsInBlock) {
    schedule.rowBlock = rows;
    return;
  }
  // A sum of terms that were not innermost adds them one by one. Where they
  // were, they still are: in groups, as they would be without the permutation.
  bool isMoved =
      schedule.innermostRow() != static_cast<int>(model.rows().size()) - 1;
  if (rows < Schedule::kRowsAtATime || isMoved)
    return;
  for (Value value : model.order) {
    const KernelResult &result = model.results.find(value)->second;
    if (result.kind == ResultKind::Accumulate &&
        result.dims.test(model.column()) &&
        result.reduced.test(schedule.innermostRow()))
      schedule.rowBlock = Schedule::kRowsAtATime;
  }
}

void Planner::chooseTiles() {
  // The code of a chunk is repeated for each row of the tile.
  if (schedule.rowBlock > 1 || schedule.permutesRows() ||
      schedule.passes != 1 || total > kCostOfTile || model.rows().empty() ||
      model.rows().back() < schedule.lanes)
    return;
  for (const auto &entry : model.accesses)
    schedule.tiled |= Schedule::isTiled(model, entry.second);
  if (!schedule.tiled)
    return;
  schedule.rowBlock = schedule.lanes;
  schedule.width = schedule.lanes;
}

void Planner::run(unsigned vectorBits, unsigned unrollColumns,
                  int64_t cacheBytes) {
  findPasses();
  findCosts();
  findNeeds();
  chooseRowOrder(cacheBytes);
  chooseRowBlock();
  chooseWidth(vectorBits);
  chooseTiles();
  if (schedule.passes > 1 && schedule.rowBlock == 1 &&
      model.columns() <= unrollColumns &&
      registersOfRow() <= kRegistersForRow) {
    schedule.keepRow = true;
    schedule.bufferedIn.clear();
  }
}

Schedule Schedule::compute(const KernelModel &model, unsigned vectorBits,
                           unsigned unrollColumns, int64_t cacheBytes) {
  Schedule schedule;
  if (model.hasColumn())
    Planner(model, schedule).run(vectorBits, unrollColumns, cacheBytes);
  return schedule;
}

} // namespace mpcomm::kernels
