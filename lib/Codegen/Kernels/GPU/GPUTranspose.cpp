//===- GPUTranspose.cpp - copies in another order of dimensions -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See GPUTranspose.h. A block has one tile of 64 x 64 elements. A thread loads
// parts of rows, all before the first arrives, and leaves them in shared
// memory; after a barrier it collects parts of columns, an element from each
// row. Rows of a tile lie four bytes more apart than they are long, so elements
// that a warp collects are in different banks, or two in one.
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/GPUTranspose.h"
#include "Kernels/GPU/GPUTiles.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace mpcomm::kernels {

static constexpr int64_t kThreads = 256;
static constexpr int64_t kTile = 64; // rows and columns
/// Of fewer rows or columns a tile would be empty for the most part.
static constexpr int64_t kLeast = 16;
static constexpr int64_t kWordBytes = 4;

using Dim = TransposePlan::Dim;

int64_t TransposePlan::countTiles() const {
  int64_t tiles =
      llvm::divideCeil(row.size, kTile) * llvm::divideCeil(column.size, kTile);
  for (const Dim &dim : batch)
    tiles *= dim.size;
  return tiles;
}

//===----------------------------------------------------------------------===//
// What is a transpose
//===----------------------------------------------------------------------===//

/// Makes one dimension of each two that are one in both tensors.
static void mergeDims(SmallVectorImpl<Dim> &dims) {
  for (size_t i = 0; i < dims.size(); ++i)
    for (size_t j = 0; j < dims.size(); ++j) {
      const Dim &outer = dims[i];
      Dim &inner = dims[j];
      if (i == j || outer.from != inner.from * inner.size ||
          outer.to != inner.to * inner.size)
        continue;
      inner.size *= outer.size;
      dims.erase(dims.begin() + static_cast<ptrdiff_t>(i));
      i = j = static_cast<size_t>(-1);
      break;
    }
}

/// Takes the dimension along which elements are contiguous out of `dims`.
static std::optional<Dim> takeContiguous(SmallVectorImpl<Dim> &dims,
                                         int64_t Dim::*stride) {
  auto *found =
      llvm::find_if(dims, [&](const Dim &dim) { return dim.*stride == 1; });
  if (found == dims.end())
    return std::nullopt;
  Dim dim = *found;
  dims.erase(found);
  return dim;
}

/// Elements of an access along `along`, where the other dimensions step by
/// `stride`.
static int64_t chooseAccess(const TransposePlan &plan, const Dim &along,
                            const Dim &across, int64_t Dim::*stride,
                            int64_t offset, uint64_t alignment) {
  int64_t elements = kAccessBytes / plan.bytes;
  auto fits = [&](int64_t value) { return value % elements == 0; };
  while (elements > 1 &&
         !(fits(along.size) && fits(across.*stride) && fits(offset) &&
           alignment % static_cast<uint64_t>(elements * plan.bytes) == 0 &&
           llvm::all_of(plan.batch,
                        [&](const Dim &dim) { return fits(dim.*stride); })))
    elements /= 2;
  return elements;
}

std::optional<TransposePlan> matchTranspose(const KernelModel &model) {
  if (model.stores.size() != 1 || model.order.size() != 1 ||
      !model.fills.empty())
    return std::nullopt;
  const KernelAccess &to = model.stores.front().access;
  auto op = model.stores.front().value.getDefiningOp<linalg::LinalgOp>();
  if (!op || op->getNumResults() != 1 || op.getNumDpsInputs() != 1)
    return std::nullopt;
  OpOperand *operand = op.getDpsInputOperand(0);
  auto access = model.accesses.find(operand);
  if (access == model.accesses.end() ||
      op.getBlock()->getTerminator()->getOperand(0) !=
          op.getMatchingBlockArgument(operand))
    return std::nullopt;
  const KernelAccess &from = access->second;
  TransposePlan plan;
  plan.source = from.argument;
  plan.target = to.argument;
  plan.from = from.offset;
  plan.to = to.offset;
  unsigned bits = model.layouts[plan.source].getElementTypeBitWidth();
  if (model.layouts[plan.target].getElementTypeBitWidth() != bits ||
      (bits != 8 && bits != 16 && bits != 32))
    return std::nullopt;
  // Places in a tensor are numbers of 32 bits.
  if (llvm::any_of(model.sizes, [](int64_t size) {
        return size == 0 || size > INT32_MAX - kTile;
      }))
    return std::nullopt;
  plan.bytes = bits / 8;
  for (auto [size, source, target] :
       llvm::zip_equal(model.sizes, from.strides, to.strides))
    if (size != 1)
      plan.batch.push_back({size, source, target});
  mergeDims(plan.batch);
  std::optional<Dim> column = takeContiguous(plan.batch, &Dim::from);
  std::optional<Dim> row = takeContiguous(plan.batch, &Dim::to);
  // Where one dimension is contiguous in both there is nothing to turn.
  if (!column || !row || column->size < kLeast || row->size < kLeast ||
      column->to == 0 || row->from == 0)
    return std::nullopt;
  plan.column = *column;
  plan.row = *row;
  auto alignmentOf = [&](unsigned argument) -> uint64_t {
    return model.alignments.empty() ? static_cast<uint64_t>(plan.bytes)
                                    : model.alignments[argument];
  };
  plan.loads = chooseAccess(plan, plan.column, plan.row, &Dim::from, plan.from,
                            alignmentOf(plan.source));
  plan.stores = chooseAccess(plan, plan.row, plan.column, &Dim::to, plan.to,
                             alignmentOf(plan.target));
  return plan;
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

namespace {
class TransposeEmitter {
public:
  TransposeEmitter(const TransposePlan &plan, gpu::GPUFuncOp function)
      : plan(plan), function(function),
        code(function, IntegerType::get(function.getContext(), 32), kThreads),
        element(IntegerType::get(function.getContext(),
                                 static_cast<unsigned>(8 * plan.bytes))),
        pitch(kTile * plan.bytes + kWordBytes) {}
  void run();

private:
  void findTile();
  void load();
  void store();
  /// `elements` as they are in memory.
  Type typeOf(int64_t elements) const {
    return elements == 1 ? element : VectorType::get({elements}, element);
  }
  /// What `emit` does, where all places are in their dimensions.
  void where(ArrayRef<std::pair<Value, const Dim &>> places,
             llvm::function_ref<void()> emit);

  const TransposePlan &plan;
  gpu::GPUFuncOp function;
  TileCode code;
  Type element;
  int64_t pitch; ///< bytes from a row of the tile to the next
  Value tile;    ///< in shared memory
  Value firstRow, firstColumn;
  Value source, target; ///< of the tile's batch
};
} // namespace

void TransposeEmitter::findTile() {
  int64_t columns = llvm::divideCeil(plan.column.size, kTile);
  int64_t rows = llvm::divideCeil(plan.row.size, kTile);
  firstColumn = code.mul(code.remainder(code.block, columns), kTile);
  Value rest = code.divide(code.block, columns);
  firstRow = code.mul(code.remainder(rest, rows), kTile);
  rest = code.divide(rest, rows);
  source = code.advance(code.global(plan.source), plan.from * plan.bytes);
  target = code.advance(code.global(plan.target), plan.to * plan.bytes);
  for (const Dim &dim : plan.batch) {
    Value at = code.remainder(rest, dim.size);
    source = code.advance(source, at, dim.from * plan.bytes);
    target = code.advance(target, at, dim.to * plan.bytes);
    rest = code.divide(rest, dim.size);
  }
}

void TransposeEmitter::where(ArrayRef<std::pair<Value, const Dim &>> places,
                             llvm::function_ref<void()> emit) {
  Value condition;
  for (const auto &[place, dim] : places)
    if (dim.size % kTile != 0)
      condition = code.both(condition, code.less(place, dim.size));
  if (!condition)
    return emit();
  auto branch = scf::IfOp::create(code.b, code.loc, condition);
  OpBuilder::InsertionGuard guard(code.b);
  code.b.setInsertionPointToStart(branch.thenBlock());
  emit();
}

void TransposeEmitter::load() {
  struct Part {
    Value place, value;
  };
  SmallVector<Part> parts;
  int64_t perRow = kTile / plan.loads;
  Type type = typeOf(plan.loads);
  for (int64_t first = 0; first < kTile * perRow; first += kThreads) {
    Value unit = code.add(code.thread, first);
    Value row = code.divide(unit, perRow);
    Value column = code.mul(code.remainder(unit, perRow), plan.loads);
    // Beyond the last row or column what is there once more: nobody reads it.
    auto clamp = [&](Value at, Value begin, const Dim &dim, int64_t step) {
      Value place = code.add(begin, at);
      return dim.size % kTile == 0 ? place : code.least(place, dim.size - step);
    };
    Value from = code.advance(source, clamp(row, firstRow, plan.row, 1),
                              plan.row.from * plan.bytes);
    from = code.advance(
        from, clamp(column, firstColumn, plan.column, plan.loads), plan.bytes);
    Value place = code.advance(tile, row, pitch);
    parts.push_back({code.advance(place, column, plan.bytes),
                     code.load(type, from, plan.loads * plan.bytes)});
  }
  for (const Part &part : parts)
    code.store(part.value, part.place,
               std::min(kWordBytes, plan.loads * plan.bytes));
}

void TransposeEmitter::store() {
  int64_t perColumn = kTile / plan.stores;
  for (int64_t first = 0; first < kTile * perColumn; first += kThreads) {
    Value unit = code.add(code.thread, first);
    Value row = code.mul(code.remainder(unit, perColumn), plan.stores);
    Value column = code.divide(unit, perColumn);
    SmallVector<Value> elements;
    Value from =
        code.advance(code.advance(tile, row, pitch), column, plan.bytes);
    for (int64_t i = 0; i < plan.stores; ++i)
      elements.push_back(
          code.load(element, code.advance(from, i * pitch), plan.bytes));
    Value value = elements.front();
    if (plan.stores > 1)
      value = vector::FromElementsOp::create(
          code.b, code.loc, cast<VectorType>(typeOf(plan.stores)), elements);
    Value atRow = code.add(firstRow, row),
          atColumn = code.add(firstColumn, column);
    where({{atRow, plan.row}, {atColumn, plan.column}}, [&] {
      Value to = code.advance(target, atColumn, plan.column.to * plan.bytes);
      code.store(value, code.advance(to, atRow, plan.bytes),
                 plan.stores * plan.bytes);
    });
  }
}

void TransposeEmitter::run() {
  tile = code.shared(kTile * pitch);
  findTile();
  load();
  code.barrier();
  store();
}

GPUKernel emitGPUTranspose(const KernelModel &model, const TransposePlan &plan,
                           OpBuilder &b, StringRef name) {
  GPUKernel kernel = createGPUKernel(b, model.kernel.getLoc(), name,
                                     model.layouts, kThreads, 0);
  kernel.blocks = plan.countTiles();
  kernel.movedBytes = countMovedBytes(model);
  TransposeEmitter(plan, kernel.function).run();
  return kernel;
}

} // namespace mpcomm::kernels
