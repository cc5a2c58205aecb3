//===- GPUAttentionTiles.cpp - tiles of scores and of the mask ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See GPUAttention.h.
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/Attention/GPUAttention.h"
#include "Kernels/GPU/GPUReduce.h"
#include "Kernels/GPU/GPUWarpgroup.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;

namespace mpcomm::kernels {

int64_t stepOf(int64_t size) {
  // 48 KiB are there without being asked for.
  return size <= 80 ? 64 : 32;
}

/// Where each part of scratch is aligned to.
static constexpr int64_t kScratchAlignment = 256;

void AttentionScratch::setMask(int64_t rows, int64_t columns,
                               int64_t ofTileRows, int64_t ofTileColumns) {
  tileRows = ofTileRows, tileColumns = ofTileColumns;
  classes = llvm::alignTo(bytes, kScratchAlignment);
  bytes = classes + llvm::divideCeil(rows, tileRows) *
                        llvm::divideCeil(columns, tileColumns);
}

void AttentionScratch::setNumbers(int64_t all, int64_t rows, bool hasBias) {
  paddedRows = llvm::alignTo(rows, kOwnRows);
  numbers = llvm::alignTo(bytes, kScratchAlignment);
  numberBytes = hasBias ? 16 : 8;
  bytes = numbers + all * paddedRows * numberBytes;
}

void AttentionScratch::setBiasSums(int64_t sumBytes) {
  biasSums = llvm::alignTo(bytes, kScratchAlignment);
  bytes = biasSums + sumBytes;
}

/// The strides of a layout, which are known.
static SmallVector<int64_t> stridesOf(MemRefType layout) {
  return layout.getStridesAndOffset().first;
}

AttentionCode::AttentionCode(mprt::AttentionOp op, ArrayRef<MemRefType> layouts,
                             ArrayRef<uint64_t> alignments,
                             const AttentionScratch &scratch,
                             const GPUKernel &kernel)
    : TileCode(kernel.function, layouts[0].getElementType(), kernel.threads),
      op(op), scratch(scratch), hasMask(op.getMask() != nullptr),
      hasBias(op.getBias() != nullptr), layouts(layouts),
      alignments(alignments) {
  MemRefType q = layouts[op.isGradient() ? 1 : 0],
             k = layouts[op.isGradient() ? 2 : 1];
  batch = q.getDimSize(0), rows = q.getDimSize(1), heads = q.getDimSize(2),
  size = q.getDimSize(3), columns = k.getDimSize(1);
}

/// Blocks of attention that a device computes at a time, about: two on each of
/// 132 processors. Nothing but their order depends on it, so that it need not
/// be exact.
static constexpr int64_t kBlocksAtATime = 264;

/// The least divisor of `all` heads whose parts are as many blocks; all of
/// them, where one is not enough.
static int64_t headsAtATime(int64_t all, int64_t parts) {
  for (int64_t group = 1; group < all; ++group)
    if (all % group == 0 && group * parts >= kBlocksAtATime)
      return group;
  return all;
}

unsigned AttentionCode::maskArgument() { return op.getNumOthers(); }

void AttentionCode::openBlock(int64_t parts, bool firstIsLongest) {
  // Blocks side by side share the operands that all parts of a head read,
  // unless some parts are longer.
  Value head;
  if (hasMask) {
    // Heads in groups that the device computes at the same time, so that the
    // parts of a head find its operands in the cache; longest parts first.
    int64_t all = batch * heads, group = headsAtATime(all, parts);
    Value place = remainder(block, group * parts);
    head =
        add(mul(divide(block, group * parts), group), remainder(place, group));
    part = divide(place, group);
    if (!firstIsLongest)
      part = sub(number(parts - 1), part);
  } else {
    part = remainder(block, parts);
    head = divide(block, parts);
  }
  batchIndex = divide(head, heads);
  headIndex = remainder(head, heads);
}

GPURows viewOf(MemRefType layout, uint64_t alignment) {
  SmallVector<int64_t> strides = stridesOf(layout);
  GPURows view;
  view.count = layout.getDimSize(1), view.size = layout.getDimSize(3);
  view.rowBytes = strides[1] * 2, view.elementBytes = strides[3] * 2;
  for (unsigned d = 0; d < 3; ++d)
    if (layout.getDimSize(d) > 1)
      alignment = std::gcd(alignment, static_cast<uint64_t>(strides[d] * 2));
  view.access =
      strides[3] == 1
          ? std::max<int64_t>(static_cast<int64_t>(std::gcd(alignment, 16u)), 2)
          : 2;
  return view;
}

GPURows AttentionCode::rowsOf(unsigned argument) {
  GPURows view = viewOf(layouts[argument], alignments[argument]);
  SmallVector<int64_t> strides = stridesOf(layouts[argument]);
  view.base = advance(global(argument), batchIndex, strides[0] * 2);
  view.base = advance(view.base, headIndex, strides[2] * 2);
  return view;
}

Value AttentionCode::lse(unsigned argument) {
  SmallVector<int64_t> strides = stridesOf(layouts[argument]);
  Value base = advance(global(argument), batchIndex, strides[0] * 4);
  return advance(base, headIndex, strides[1] * 4);
}

Value AttentionCode::scratchAt(int64_t offset) {
  return advance(global(layouts.size()), offset);
}

Value AttentionCode::numbers() {
  Value head = add(mul(batchIndex, heads), headIndex);
  return advance(scratchAt(scratch.numbers), head,
                 scratch.paddedRows * scratch.numberBytes);
}

Value AttentionCode::classOf(Value row, Value column) {
  int64_t perRow = llvm::divideCeil(columns, scratch.tileColumns);
  Value classes = scratchAt(scratch.classes);
  Value at = advance(advance(classes, row, perRow), column, 1);
  return load(b.getI8Type(), at, 1);
}

AttentionCode::Carried AttentionCode::overTiles(
    int64_t count, int64_t stageBytes, Carried carried,
    llvm::function_ref<std::pair<Value, Value>(Value)> classAt,
    llvm::function_ref<void(Value, Value)> issue,
    llvm::function_ref<void()> prologue,
    llvm::function_ref<Carried(Value, Value, Value, Carried)> body) {
  auto classOfTile = [&](Value tile) {
    auto [row, column] = classAt(tile);
    return classOf(row, column);
  };
  // The first tile from `from` on that has something to it.
  auto next = [&](Value from) -> Value {
    if (!hasMask)
      return from;
    auto search = scf::WhileOp::create(b, loc, TypeRange(i32), from);
    OpBuilder::InsertionGuard guard(b);
    Block *before = b.createBlock(&search.getBefore(), {}, {i32}, {loc});
    Value tile = before->getArgument(0);
    Value isNone =
        equal(classOfTile(least(tile, count - 1)), AttentionScratch::None);
    scf::ConditionOp::create(b, loc, both(less(tile, count), isNone), tile);
    Block *after = b.createBlock(&search.getAfter(), {}, {i32}, {loc});
    scf::YieldOp::create(b, loc, add(after->getArgument(0), 1));
    return search.getResult(0);
  };
  auto issueIfAny = [&](Value tile, Value stage) {
    emitIf(b, loc, less(tile, count), [&] { issue(tile, stage); });
    commit();
  };
  Value first = next(number(0));
  issueIfAny(first, number(0));
  prologue();

  SmallVector<Value> start{first, number(0)};
  llvm::append_range(start, carried);
  SmallVector<Type> types = llvm::to_vector(ValueRange(start).getTypes());
  SmallVector<Location> places(types.size(), loc);
  auto loop = scf::WhileOp::create(b, loc, types, start);
  OpBuilder::InsertionGuard guard(b);
  Block *before = b.createBlock(&loop.getBefore(), {}, types, places);
  scf::ConditionOp::create(b, loc, less(before->getArgument(0), count),
                           before->getArguments());
  Block *after = b.createBlock(&loop.getAfter(), {}, types, places);
  Value tile = after->getArgument(0), stage = after->getArgument(1);
  Value following = next(add(tile, 1));
  // One barrier: the tile is there, and nobody reads the one before it.
  wait(0);
  if (ofWarpgroups)
    fenceTiles(*this);
  barrier();
  Value other = sub(number(stageBytes), stage);
  issueIfAny(following, other);
  Value kind = hasMask ? classOfTile(tile) : Value();
  Carried made =
      body(tile, stage, kind, Carried(after->getArguments().drop_front(2)));
  SmallVector<Value> yielded{following, other};
  llvm::append_range(yielded, made);
  scf::YieldOp::create(b, loc, yielded);
  // Where there was no tile, what came before the first is still on its way.
  if (ofWarpgroups) {
    b.setInsertionPointAfter(loop);
    wait(0);
  }
  return Carried(loop.getResults().drop_front(2));
}

Value AttentionCode::isPartial(Value kind, Value tile, int64_t step) {
  Value partial;
  if (kind)
    partial = equal(kind, AttentionScratch::Some);
  if (columns % step != 0)
    partial = either(partial, equal(tile, columns / step));
  return partial;
}

SmallVector<Value> AttentionCode::keptOf(const Scores &scores) {
  SmallVector<Value> kept;
  if (!hasMask) {
    for (auto [down, right] : scores.places)
      kept.push_back(less(add(scores.column, right), columns));
    return kept;
  }
  MemRefType layout = layouts[maskArgument()];
  SmallVector<int64_t> strides = stridesOf(layout);
  Value mask = global(maskArgument());
  auto isNonZero = [&](Value x) -> Value {
    return arith::CmpIOp::create(
        b, loc, arith::CmpIPredicate::ne, x,
        arith::ConstantOp::create(b, loc, b.getZeroAttr(x.getType())));
  };
  if (!scores.isInside) {
    for (auto [down, right] : scores.places) {
      Value row = add(scores.row, down), column = add(scores.column, right);
      Value at = advance(mask, least(row, rows - 1), strides[0]);
      at = advance(at, least(column, columns - 1), strides[1]);
      kept.push_back(
          both(less(column, columns), isNonZero(load(b.getI8Type(), at, 1))));
    }
    return kept;
  }
  // One address does for the whole tile.
  Value first =
      advance(advance(mask, scores.row, strides[0]), scores.column, strides[1]);
  bool inPairs = strides[1] == 1 && strides[0] % 2 == 0 &&
                 alignments[maskArgument()] % 2 == 0;
  for (size_t i = 0; i < scores.places.size(); ++i) {
    auto [down, right] = scores.places[i];
    Value at = advance(first, down * strides[0] + right * strides[1]);
    bool isPair = inPairs && right % 2 == 0 && i + 1 < scores.places.size() &&
                  scores.places[i + 1] == std::pair(down, right + 1);
    if (!isPair) {
      kept.push_back(isNonZero(load(b.getI8Type(), at, 1)));
      continue;
    }
    Value pair = load(b.getI16Type(), at, 2);
    Value eight = arith::ConstantOp::create(b, loc, b.getI16IntegerAttr(8));
    kept.push_back(
        isNonZero(arith::TruncIOp::create(b, loc, b.getI8Type(), pair)));
    kept.push_back(isNonZero(arith::ShRUIOp::create(b, loc, pair, eight)));
    ++i;
  }
  return kept;
}

SmallVector<Value>
AttentionCode::choose(Value condition, ArrayRef<Value> values,
                      llvm::function_ref<SmallVector<Value>()> made) {
  if (!condition)
    return SmallVector<Value>(values);
  auto branch =
      scf::IfOp::create(b, loc, ValueRange(values).getTypes(), condition, true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, loc, values);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, loc, made());
  return SmallVector<Value>(branch.getResults());
}

SmallVector<Value> AttentionCode::keep(Value isPartial, const Scores &scores,
                                       ArrayRef<Value> values,
                                       Value otherwise) {
  return choose(isPartial, values, [&] {
    SmallVector<Value> made;
    for (auto [value, isKept] : llvm::zip(values, keptOf(scores)))
      made.push_back(select(isKept, value, otherwise));
    return made;
  });
}

Value AttentionCode::keptBits(Value isPartial, const Scores &scores) {
  if (!isPartial)
    return Value();
  return choose(isPartial, number(-1),
                [&] {
                  Value bits = number(0);
                  for (auto [i, isKept] : llvm::enumerate(keptOf(scores)))
                    bits = arith::OrIOp::create(
                        b, loc, bits,
                        select(isKept,
                               number(static_cast<int32_t>(uint32_t(1) << i)),
                               number(0)));
                  return SmallVector<Value>{bits};
                })
      .front();
}

SmallVector<Value> AttentionCode::keepBits(Value isPartial, Value bits,
                                           int64_t first,
                                           ArrayRef<Value> values,
                                           Value otherwise) {
  return choose(isPartial, values, [&] {
    SmallVector<Value> made;
    for (auto [i, value] : llvm::enumerate(values)) {
      auto bit = static_cast<int32_t>(uint32_t(1) << (first + i));
      Value masked = arith::AndIOp::create(b, loc, bits, number(bit));
      made.push_back(select(equal(masked, 0), otherwise, value));
    }
    return made;
  });
}

void AttentionCode::storeRows(const GPURows &target, Value first,
                              ArrayRef<Quad> columns,
                              std::array<Value, 2> scales) {
  Value pair = mul(remainder(lane, 4), 2);
  for (int64_t half = 0; half < 2; ++half) {
    Value row = add(first, half * 8);
    emitIf(b, loc, less(row, target.count), [&] {
      Value to = advance(target.base, row, target.rowBytes);
      to = advance(to, pair, target.elementBytes);
      for (auto [i, quad] : llvm::enumerate(columns)) {
        Value low = mulF(quad[2 * half], scales[half]),
              high = mulF(quad[2 * half + 1], scales[half]);
        Value at =
            advance(to, static_cast<int64_t>(i) * 8 * target.elementBytes);
        if (target.access >= 4) {
          store(pack(low, high), at, 4);
        } else {
          store(round(low), at, 2);
          store(round(high), advance(at, target.elementBytes), 2);
        }
      }
    });
  }
}

//===----------------------------------------------------------------------===//
// Classes of the mask's tiles
//===----------------------------------------------------------------------===//

GPUKernel emitMaskClasses(mprt::AttentionOp op, ArrayRef<MemRefType> layouts,
                          ArrayRef<uint64_t> alignments,
                          const AttentionScratch &scratch, OpBuilder &b,
                          StringRef name) {
  GPUKernel kernel =
      createGPUKernel(b, op.getLoc(), name, layouts, kWarp, scratch.bytes);
  kernel.gridStride = true;
  AttentionCode code(op, layouts, alignments, scratch, kernel);
  OpBuilder &at = code.b;
  Location loc = code.loc;
  unsigned argument = op.getNumOthers();
  SmallVector<int64_t> strides = stridesOf(layouts[argument]);
  int64_t perColumn = llvm::divideCeil(code.rows, scratch.tileRows),
          perRow = llvm::divideCeil(code.columns, scratch.tileColumns);
  kernel.blocks = std::min<int64_t>(perColumn * perRow, INT32_MAX);
  // As many bytes at a time as lie side by side, up to 8.
  int64_t width = 1;
  if (strides[1] == 1)
    width = static_cast<int64_t>(
        std::gcd(std::gcd(alignments[argument], uint64_t(8)),
                 std::gcd(static_cast<uint64_t>(code.rows > 1 ? strides[0] : 0),
                          static_cast<uint64_t>(code.columns))));
  IntegerType word = at.getIntegerType(static_cast<unsigned>(width * 8));
  uint64_t ones = 0;
  for (int64_t i = 0; i < width; ++i)
    ones |= uint64_t(1) << (8 * i);
  Value mask = code.global(argument);
  Value classes = code.advance(code.global(layouts.size()), scratch.classes);
  auto wide = [&](Value x) -> Value {
    return arith::ExtUIOp::create(at, loc, code.i64, x);
  };
  auto wideNumber = [&](int64_t x) -> Value {
    return arith::ConstantOp::create(at, loc, at.getI64IntegerAttr(x));
  };
  Value grid = arith::IndexCastUIOp::create(
      at, loc, code.i64, gpu::GridDimOp::create(at, loc, gpu::Dimension::x));
  auto tiles = scf::ForOp::create(at, loc, wide(code.block),
                                  wideNumber(perColumn * perRow), grid);
  at.setInsertionPointToStart(tiles.getBody());
  Value tile = tiles.getInductionVar();
  auto narrow = [&](Value x) -> Value {
    return arith::TruncIOp::create(at, loc, code.i32, x);
  };
  Value firstRow = code.mul(
      narrow(arith::DivUIOp::create(at, loc, tile, wideNumber(perRow))),
      scratch.tileRows);
  Value firstColumn = code.mul(
      narrow(arith::RemUIOp::create(at, loc, tile, wideNumber(perRow))),
      scratch.tileColumns);
  // Bit 0: something is kept; bit 1: something is not.
  int64_t words = scratch.tileColumns / width;
  auto loop = scf::ForOp::create(at, loc, code.number(0),
                                 code.number(scratch.tileRows * words / kWarp),
                                 code.number(1), code.number(0));
  {
    OpBuilder::InsertionGuard guard(at);
    at.setInsertionPointToStart(loop.getBody());
    Value unit = code.add(code.mul(loop.getInductionVar(), kWarp), code.lane);
    Value row = code.add(firstRow, code.divide(unit, words));
    Value column =
        code.add(firstColumn, code.mul(code.remainder(unit, words), width));
    Value isThere =
        code.both(code.less(row, code.rows), code.less(column, code.columns));
    Value from = code.advance(mask, code.least(row, code.rows - 1), strides[0]);
    from = code.advance(from, code.least(column, code.columns - width),
                        strides[1]);
    Value bytes = code.load(word, from, width);
    auto compare = [&](uint64_t to) -> Value {
      Value all = arith::ConstantOp::create(
          at, loc,
          at.getIntegerAttr(word, APInt(static_cast<unsigned>(width * 8), to)));
      Value differs =
          arith::CmpIOp::create(at, loc, arith::CmpIPredicate::ne, bytes, all);
      return code.both(isThere, differs);
    };
    Value found = code.select(compare(0), code.number(1), code.number(0));
    found = arith::OrIOp::create(
        at, loc, found,
        code.select(compare(ones), code.number(2), code.number(0)));
    scf::YieldOp::create(at, loc,
                         ValueRange(arith::OrIOp::create(
                             at, loc, loop.getRegionIterArgs()[0], found)));
  }
  Value found = loop.getResult(0);
  for (int64_t offset = 1; offset < kWarp; offset *= 2)
    found =
        arith::OrIOp::create(at, loc, found, code.shuffleXor(found, offset));
  // 1: all is kept; 2: nothing; 3: some.
  Value kind = code.select(
      code.equal(found, 1), code.number(AttentionScratch::All),
      code.select(code.equal(found, 2), code.number(AttentionScratch::None),
                  code.number(AttentionScratch::Some)));
  kind = arith::TruncIOp::create(at, loc, at.getI8Type(), kind);
  emitIf(at, loc, code.equal(code.lane, 0), [&] {
    Value to = LLVM::GEPOp::create(at, loc, classes.getType(), at.getI8Type(),
                                   classes, ValueRange(tile));
    code.store(kind, to, 1);
  });
  return kernel;
}

} // namespace mpcomm::kernels
