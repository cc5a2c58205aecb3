//===- GPUSchedule.cpp - how threads share a kernel -----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See GPUSchedule.h. The figures are those of chips from sm_80 on: 64 Ki
// registers and 2,048 threads a multiprocessor (NVIDIA, "CUDA C++ Programming
// Guide", compute capabilities).
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/GPUSchedule.h"
#include "Kernels/Model/LaneOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;

namespace mpcomm::kernels {

/// Bytes that a thread should have under way.
static constexpr int64_t kBytesInFlight = 64;
static constexpr int64_t kThreads = 256;
static constexpr int64_t kMaxThreads = 1024;
/// Blocks a multiprocessor, where their number is fixed; of small blocks as
/// many as have so many threads, of 100 registers each.
static constexpr int64_t kBlocksAtATime = 2;
static constexpr int64_t kThreadsAtATime = 512;
/// Values of a row and of sums of its columns that a thread may have where a
/// warp has the row: no barrier, and more loads under way, for fewer threads.
static constexpr int64_t kValuesOfWarp = 144;
static constexpr int64_t kThreadsOfWarps = 128;
static constexpr int64_t kBlocksOfWarps = 3;
/// With more values than these there is room for a block less. Of so many of a
/// row alone, smaller blocks fill a multiprocessor better.
static constexpr int64_t kValuesOfThirdBlock = 128;
static constexpr int64_t kValuesOfSmallBlock = 32;
/// Threads of a row that no group can keep: two rows under way, so that one
/// computes while the other adds up or loads.
static constexpr int64_t kThreadsOfLongRow = 512;
/// Rows of each group, at least, before rows of a sum are split further.
static constexpr int64_t kRowsOfGroup = 4;
/// Columns from which on they are cut, and into pieces of about so many.
static constexpr int64_t kLongColumns = 8192;
static constexpr int64_t kPieceOfColumns = 4096;
/// Chunks that are written out side by side.
static constexpr int64_t kMaxChunks = 16;
/// Bytes of shared memory, of 48 KiB, that groups have their sums of columns
/// in.
static constexpr int64_t kSharedSumBytes = 40 << 10;

/// What reductions have in shared memory beside rows, at most.
static constexpr int64_t kStaticShared = 512;

/// Registers of a thread that may hold a row: of 255, or of the 64 Ki of a
/// multiprocessor for one block and its neighbour.
static int64_t registersForRow(int64_t threads) {
  if (threads <= 256)
    return 64;
  return threads <= 512 ? 48 : 24;
}

static int64_t product(ArrayRef<int64_t> sizes) {
  int64_t result = 1;
  for (int64_t size : sizes)
    result *= size;
  return result;
}

int64_t GPUSchedule::keptSize(const KernelModel &model) const {
  int64_t size = 1;
  for (int dim : kept)
    size *= model.sizes[dim];
  return size;
}

int64_t GPUSchedule::rowsOfBlock(const KernelModel &model) const {
  int64_t size = 1;
  for (auto [dim, rows] : llvm::enumerate(model.rows()))
    if (!llvm::is_contained(kept, static_cast<int>(dim)))
      size *= rows;
  return size;
}

/// A result whose destination other threads of the row read before.
static bool replacesRowScalar(const KernelModel &model, const Store &store) {
  if (model.results.find(store.value)->second.kind != ResultKind::RowScalar)
    return false;
  return llvm::any_of(model.accesses, [&](const auto &entry) {
    return entry.second.argument == store.access.argument;
  });
}

namespace {
class GPUPlanner {
public:
  GPUPlanner(const KernelModel &model, const GPULimits &limits,
             GPUSchedule &schedule)
      : model(model), limits(limits), schedule(schedule) {}
  void run();

private:
  void readKernel();
  void chooseVector();
  void planItems();
  void planRows();
  void chooseGroup();
  void addReads(linalg::LinalgOp op,
                llvm::SmallVectorImpl<KernelAccess> &reads) const;
  void chooseShared();
  void chooseGrid();
  bool giveGroupsSums(int64_t rows);
  int64_t bytesOf(unsigned argument) const {
    return memoryType(model.layouts[argument].getElementType())
               .getIntOrFloatBitWidth() /
           8;
  }
  /// Calls `visit` for each distinct operand along the column.
  void eachLoad(llvm::function_ref<void(const KernelAccess &)> visit) const;

  const KernelModel &model;
  const GPULimits &limits;
  GPUSchedule &schedule;
  bool hasRowReduce = false, hasSums = false, ownsRows = false;
  /// There is a sum that is not of each column apart.
  bool hasOtherSums = false;
  /// Values a column that live on through a row, and through all rows.
  int64_t rowValues = 0, columnSums = 0;
  /// Types in which columns are summed: each has a buffer of its own.
  llvm::SmallDenseSet<Type> sumTypes;
};
} // namespace

void GPUPlanner::eachLoad(
    llvm::function_ref<void(const KernelAccess &)> visit) const {
  SmallVector<const KernelAccess *> seen;
  for (const auto &entry : model.accesses) {
    const KernelAccess &access = entry.second;
    OpOperand *operand = entry.first;
    if (!model.alongColumn(access) ||
        !cast<linalg::LinalgOp>(operand->getOwner())
             .payloadUsesValueFromOperand(operand) ||
        llvm::any_of(seen, [&](const KernelAccess *a) { return *a == access; }))
      continue;
    seen.push_back(&access);
    visit(access);
  }
}

void GPUPlanner::readKernel() {
  for (Value value : model.order) {
    const KernelResult &result = model.results.find(value)->second;
    hasRowReduce |= result.kind == ResultKind::RowReduce;
    if (result.kind != ResultKind::Accumulate)
      continue;
    hasSums = true;
    hasOtherSums |=
        !result.dims.test(model.column()) || !loopsOverColumn(model, result.op);
    if (result.dims.test(model.column())) {
      ++columnSums;
      sumTypes.insert(memoryType(computeType(getElementTypeOrSelf(value))));
    }
    for (int dim = 0; dim < model.column(); ++dim)
      if (result.dims.test(dim) && !llvm::is_contained(schedule.kept, dim))
        schedule.kept.push_back(dim);
  }
  llvm::sort(schedule.kept);
  ownsRows = llvm::any_of(model.stores, [&](const Store &store) {
    return replacesRowScalar(model, store);
  });
  eachLoad([&](const KernelAccess &access) {
    rowValues += llvm::any_of(ArrayRef(access.strides).drop_back(),
                              [](int64_t stride) { return stride != 0; }) ||
                 model.rows().empty();
  });
}

void GPUPlanner::chooseVector() {
  int64_t narrowest = 0, narrow = 0;
  auto see = [&](const KernelAccess &access) {
    if (access.strides[model.column()] != 1)
      return;
    int64_t bytes = bytesOf(access.argument);
    narrowest = narrowest ? std::min(narrowest, bytes) : bytes;
    // Masks of a byte do not make vectors of sixteen floats.
    if (bytes > 1)
      narrow = narrow ? std::min(narrow, bytes) : bytes;
  };
  eachLoad(see);
  for (const Store &store : model.stores)
    if (!store.access.strides.empty())
      see(store.access);
  if (narrow)
    narrowest = narrow;
  schedule.vector = narrowest ? kAccessBytes / narrowest : 1;
  while (schedule.vector > 1 && model.columns() % schedule.vector != 0)
    schedule.vector /= 2;
}

void GPUPlanner::planItems() {
  schedule.mapping = GPUSchedule::Items;
  schedule.threads = kThreads;
  int64_t bytes = 0, loads = 0;
  eachLoad([&](const KernelAccess &access) {
    bytes += bytesOf(access.argument) * schedule.vector;
    ++loads;
  });
  int64_t chunks = product(model.rows()) * (model.columns() / schedule.vector);
  auto isBusy = [&](int64_t unroll) {
    return chunks >= kThreads * unroll * limits.processors * kBlocksAtATime;
  };
  while (bytes && bytes * schedule.unroll < kBytesInFlight &&
         schedule.unroll < 4 && loads * schedule.unroll < 6 &&
         isBusy(2 * schedule.unroll))
    schedule.unroll *= 2;
  schedule.blocks = std::max<int64_t>(
      llvm::divideCeil(chunks, kThreads * schedule.unroll), 1);
}

void GPUPlanner::chooseGroup() {
  int64_t columns = model.columns(), vector = schedule.vector;
  int64_t pieces = std::max<int64_t>(llvm::divideCeil(columns, vector), 1);
  int64_t rows = product(model.rows());
  schedule.group = std::min<int64_t>(llvm::PowerOf2Ceil(pieces), kWarp);
  if (!hasRowReduce && columnSums > 0 && !ownsRows) {
    // Warps side by side along the rows; blocks along the columns.
    schedule.threads = kThreads;
    schedule.chunks = 1;
    schedule.columnBlocks = llvm::divideCeil(pieces, schedule.group);
    return;
  }
  auto chunksFor = [&](int64_t group) {
    return llvm::divideCeil(pieces, group);
  };
  bool keeps = schedule.passes.passes > 1 || columnSums > 0;
  auto fits = [&](int64_t group) {
    int64_t chunks = chunksFor(group);
    return chunks <= kMaxChunks &&
           chunks * vector * std::max<int64_t>(rowValues + columnSums, 1) <=
               registersForRow(std::max(group, kThreads));
  };
  // Groups add up their sums of columns in shared memory.
  auto limitGroups = [&] {
    int64_t sumBytes = 0;
    for (Type type : sumTypes)
      sumBytes += schedule.chunks * schedule.group * vector *
                  llvm::divideCeil(type.getIntOrFloatBitWidth(), 8);
    while (schedule.threads > schedule.group &&
           schedule.groups() * sumBytes > kSharedSumBytes)
      schedule.threads /= 2;
  };
  int64_t chunksOfWarp = chunksFor(kWarp);
  int64_t valuesOfWarp = chunksOfWarp * vector * (rowValues + columnSums);
  if (hasRowReduce && columnSums > 0 && schedule.group == kWarp &&
      chunksOfWarp <= kMaxChunks && !fits(kWarp) &&
      valuesOfWarp <= kValuesOfWarp &&
      rows >= limits.processors * kBlocksOfWarps * (kThreadsOfWarps / kWarp)) {
    schedule.threads = kThreadsOfWarps;
    schedule.chunks = chunksOfWarp;
    schedule.blocksAtATime =
        kBlocksOfWarps - (valuesOfWarp > kValuesOfThirdBlock);
    limitGroups();
    return;
  }
  // Wider groups where a row does not fit, or rows are too few to fill the
  // device.
  int64_t enough = limits.processors * kThreads * kBlocksAtATime;
  int64_t most = fits(kMaxThreads) ? kMaxThreads : kThreadsOfLongRow;
  while (schedule.group < kMaxThreads && schedule.group < pieces &&
         ((keeps && schedule.group < most && !fits(schedule.group)) ||
          rows * schedule.group < enough))
    schedule.group *= 2;
  schedule.threads = std::max(schedule.group, kThreads);
  if (schedule.group > kWarp)
    schedule.threads = schedule.group;
  schedule.chunks = chunksFor(schedule.group);
  if (schedule.group == kWarp && columnSums == 0 && keeps &&
      schedule.chunks * vector * rowValues > kValuesOfSmallBlock)
    schedule.threads = kThreadsOfWarps;
  limitGroups();
  bool unrolls = keeps ? fits(schedule.group) : schedule.chunks <= 4;
  if (unrolls)
    return;
  schedule.keepsRow = false;
  schedule.sumsInScratch = columnSums > 0;
  // Groups of a block would add to the same places.
  if (schedule.sumsInScratch)
    schedule.group = schedule.threads;
  schedule.chunks = std::min<int64_t>(chunksFor(schedule.group), 4);
  // What is loaded at a time, as it is in memory, and of one chunk what is
  // computed and sums of a row.
  int64_t words = 0;
  eachLoad([&](const KernelAccess &access) {
    words += llvm::divideCeil(bytesOf(access.argument) * vector, 4);
  });
  while (schedule.chunks > 1 &&
         schedule.chunks * words + vector * (1 + hasRowReduce) >
             registersForRow(schedule.threads))
    schedule.chunks /= 2;
}

/// What the body of an op reads of operands of the kernel along the column, by
/// way of results that are computed again in each pass.
void GPUPlanner::addReads(linalg::LinalgOp op,
                          SmallVectorImpl<KernelAccess> &reads) const {
  SmallVector<linalg::LinalgOp> work{op};
  llvm::SmallPtrSet<Operation *, 8> seen;
  while (!work.empty()) {
    linalg::LinalgOp next = work.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    for (OpOperand &operand : next->getOpOperands()) {
      if (!next.payloadUsesValueFromOperand(&operand))
        continue;
      auto access = model.accesses.find(&operand);
      if (access != model.accesses.end()) {
        if (model.alongColumn(access->second) &&
            !llvm::is_contained(reads, access->second))
          reads.push_back(access->second);
        continue;
      }
      auto result = model.results.find(operand.get());
      if (result != model.results.end() && result->second.reduced.none())
        work.push_back(result->second.op);
    }
  }
}

/// Keeps rows in shared memory where they do not fit the registers, and a later
/// pass reads what the first one has read: it would come from the cache.
void GPUPlanner::chooseShared() {
  if (schedule.keepsRow || schedule.passes.passes < 2 ||
      schedule.group != schedule.threads)
    return;
  SmallVector<KernelAccess> first, later;
  for (Value value : model.order) {
    const KernelResult &result = model.results.find(value)->second;
    if (result.reduced.any())
      addReads(result.op,
               schedule.passes.pass.lookup(value) == 0 ? first : later);
  }
  for (const Store &store : model.stores)
    if (model.results.find(store.value)->second.kind == ResultKind::Element)
      addReads(model.results.find(store.value)->second.op, later);
  int64_t bytes = 0;
  SmallVector<GPUSchedule::SharedRow> rows;
  for (const KernelAccess &access : first) {
    bool isSame = llvm::all_of(ArrayRef(access.strides).drop_back(),
                               [](int64_t stride) { return stride == 0; });
    if (isSame || access.strides[model.column()] != 1 ||
        !llvm::is_contained(later, access))
      continue;
    rows.push_back({access, bytes});
    bytes +=
        llvm::alignTo(bytesOf(access.argument) * model.columns(), kAccessBytes);
  }
  if (rows.empty() ||
      bytes + kAccessBytes + kStaticShared > limits.launchShared)
    return;
  schedule.sharedRows = std::move(rows);
  schedule.sharedRowBytes = bytes + kAccessBytes;
}

void GPUPlanner::chooseGrid() {
  int64_t rows = std::max<int64_t>(schedule.rowsOfBlock(model), 1);
  int64_t perBlock = schedule.groups();
  int64_t pieces = llvm::divideCeil(rows, perBlock);
  // Several rows in flight where one is little.
  int64_t bytes = 0;
  eachLoad([&](const KernelAccess &access) {
    bytes += bytesOf(access.argument) * schedule.vector * schedule.chunks;
  });
  int64_t live =
      schedule.chunks * schedule.vector * std::max<int64_t>(rowValues, 1);
  while (schedule.keepsRow && !ownsRows && bytes &&
         bytes * schedule.rowsAtATime < kBytesInFlight &&
         schedule.rowsAtATime < 4 && live * 2 * schedule.rowsAtATime <= 64 &&
         pieces >=
             2 * schedule.rowsAtATime * limits.processors * kBlocksAtATime)
    schedule.rowsAtATime *= 2;
  if (!hasSums) {
    schedule.blocks = llvm::divideCeil(pieces, schedule.rowsAtATime);
    return;
  }
  schedule.gridStride = false;
  if (giveGroupsSums(rows))
    return;
  int64_t others =
      std::max<int64_t>(schedule.keptSize(model), 1) * schedule.columnBlocks;
  int64_t blocks = schedule.blocksAtATime;
  if (!blocks)
    blocks = std::max(kBlocksAtATime, kThreadsAtATime / schedule.threads);
  int64_t wanted = llvm::divideCeil(limits.processors * blocks, others);
  int64_t most = std::max<int64_t>(
      rows / (perBlock * std::max(kRowsOfGroup, schedule.rowsAtATime)), 1);
  schedule.splits = std::max<int64_t>(std::min(wanted, most), 1);
  schedule.blocks = others * schedule.splits;
}

/// Where the `rows` of a sum are no work for the groups of a block, and there
/// are enough sums for all groups of all blocks.
bool GPUPlanner::giveGroupsSums(int64_t rows) {
  int64_t sums = schedule.keptSize(model), groups = schedule.groups();
  if (hasOtherSums || hasRowReduce || ownsRows ||
      rows >= groups * kRowsOfGroup || sums % groups != 0 ||
      sums / groups * schedule.columnBlocks <
          limits.processors * kBlocksAtATime)
    return false;
  schedule.sumsOfGroups = true;
  schedule.rowsAtATime = 1;
  while (schedule.rowsAtATime < 4 && rows % (2 * schedule.rowsAtATime) == 0)
    schedule.rowsAtATime *= 2;
  schedule.blocks = sums / groups * schedule.columnBlocks;
  return true;
}

void GPUPlanner::planRows() {
  schedule.mapping = GPUSchedule::Rows;
  chooseGroup();
  chooseShared();
  chooseGrid();
}

void GPUPlanner::run() {
  schedule.passes = Schedule::compute(model, /*vectorBits=*/32,
                                      /*unrollColumns=*/0,
                                      std::numeric_limits<int64_t>::max());
  // What several passes need is kept with its row, or computed again.
  schedule.passes.bufferedIn.clear();
  schedule.passes.tiled = false;
  schedule.passes.rowBlock = 1;
  readKernel();
  chooseVector();
  if (hasRowReduce || hasSums || ownsRows)
    planRows();
  else
    planItems();
}

GPUSchedule GPUSchedule::compute(const KernelModel &model,
                                 const GPULimits &limits) {
  GPUSchedule schedule;
  if (model.hasColumn()) {
    GPUPlanner(model, limits, schedule).run();
  } else {
    schedule.threads = model.fills.empty() ? kWarp : kThreads;
  }
  // What is only filled has work for more blocks.
  for (const auto &fill : model.fills) {
    auto type = model.layouts[fill.first];
    int64_t bytes = type.getNumElements() *
                    memoryType(type.getElementType()).getIntOrFloatBitWidth() /
                    8;
    int64_t blocks = llvm::divideCeil(bytes, kAccessBytes * schedule.threads);
    if (schedule.gridStride)
      schedule.blocks = std::max(schedule.blocks, blocks);
  }
  return schedule;
}

//===----------------------------------------------------------------------===//
// Long columns
//===----------------------------------------------------------------------===//

/// True where all that is done along the column is to add it up.
static bool onlySumsColumns(const KernelModel &model) {
  for (Value value : model.order) {
    const KernelResult &result = model.results.find(value)->second;
    if (result.kind == ResultKind::RowScalar && model.storeOf(value))
      return false;
    if (result.reduced.none())
      continue;
    if (result.kind == ResultKind::Accumulate)
      continue;
    // A sum of a row that other blocks would have to know.
    Value init = result.op.getDpsInitOperand(result.index)->get();
    auto argument = dyn_cast<BlockArgument>(init);
    const Store *store = model.storeOf(value);
    bool starts = matchUniformTensor(init) ||
                  (argument && store &&
                   argument.getArgNumber() == store->access.argument);
    if (!store || !value.hasOneUse() || !starts)
      return false;
  }
  for (const auto &entry : model.loops)
    for (Operation &op :
         cast<linalg::LinalgOp>(entry.first).getBlock()->getOperations())
      if (auto index = dyn_cast<linalg::IndexOp>(op))
        if (entry.second[index.getDim()] == model.column())
          return false;
  return true;
}

/// How many pieces of about kPieceOfColumns divide `columns`, each a multiple
/// of 8; 1: none.
static int64_t piecesOf(int64_t columns) {
  int64_t least = llvm::divideCeil(columns, kPieceOfColumns);
  for (int64_t piece = columns / least / 8 * 8;
       piece > 0 && 4 * least * piece >= columns; piece -= 8)
    if (columns % piece == 0)
      return columns / piece;
  return 1;
}

void splitColumns(KernelModel &model, const GPULimits &limits) {
  if (!model.hasColumn() || model.columns() < kLongColumns ||
      product(model.rows()) >= limits.processors * kBlocksAtATime)
    return;
  bool sums = llvm::any_of(model.results, [](const auto &entry) {
    return entry.second.reduced.any();
  });
  int64_t pieces = piecesOf(model.columns());
  if (!sums || pieces == 1 || !onlySumsColumns(model))
    return;
  int column = model.column();
  int64_t piece = model.columns() / pieces;
  // A dimension of pieces before the column.
  auto split = [&](KernelAccess &access) {
    if (!access.strides.empty())
      access.strides.insert(access.strides.begin() + column,
                            access.strides[column] * piece);
  };
  auto splitBits = [&](llvm::SmallBitVector &bits) {
    bool has = bits.size() > static_cast<unsigned>(column) && bits.test(column);
    bits.resize(column + 2);
    bits[column + 1] = has;
  };
  for (auto &entry : model.accesses)
    split(entry.second);
  for (Store &store : model.stores)
    split(store.access);
  for (auto &entry : model.results) {
    splitBits(entry.second.dims);
    splitBits(entry.second.reduced);
    if (entry.second.kind == ResultKind::RowReduce)
      entry.second.kind = ResultKind::Accumulate;
  }
  for (auto &entry : model.loops)
    for (int &dim : entry.second)
      if (dim == column)
        dim = column + 1;
  model.sizes[column] = pieces;
  model.sizes.push_back(piece);
}

} // namespace mpcomm::kernels
