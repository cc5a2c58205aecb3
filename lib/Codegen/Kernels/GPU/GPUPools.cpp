//===- GPUPools.cpp - pools and their gradients on a GPU ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread makes one element of the result, or with the channels last those of
// as many channels as an access has, from the windows that it lies in:
// gradients gather, so that nothing is added in an order that varies. The
// elements of a window come from the caches after the first. Whether an element
// is the one that a maximum came from is asked of it alone: no element of the
// window before it may be as great, none after it greater; a NaN is greater
// than all numbers.
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/GPUEmitter.h"
#include "Kernels/GPU/GPUReduce.h"
#include "Kernels/Model/LaneOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Dialect/MPComm/IR/SlidingWindow.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include "mpcomm/Runtime/mprt.h"
#include "llvm/Support/MathExtras.h"
#include <map>

using namespace mlir;

namespace mpcomm::kernels {

static constexpr int64_t kThreads = 256;
/// Elements of a patch, and elements of all its windows, at most.
static constexpr int64_t kMostOfPatch = 8;
static constexpr int64_t kMostSteps = 64;

namespace {
/// An operand in the logical order of dimensions: batch, feature, height,
/// width.
struct Image {
  Value flat;
  Type element;
  SmallVector<int64_t> sizes, strides;
};

class PoolEmitter {
public:
  PoolEmitter(mprt::PoolOp op, gpu::GPUFuncOp function, int64_t lanes,
              std::array<int64_t, 2> patch)
      : op(op), function(function), lanes(lanes), patch(patch),
        b(function.getBody().front().getTerminator()), loc(function.getLoc()),
        kind(*op.getKindNumber()), windows(op.getGeometry()) {}
  void run();

private:
  using Terms = SmallVector<Value>;
  Value number(int64_t value) { return indexConstant(b, loc, value); }
  Value real(double value) {
    return same(arith::ConstantOp::create(
        b, loc, b.getFloatAttr(getElementTypeOrSelf(compute), value)));
  }
  /// A number in all lanes.
  Value same(Value scalar) {
    return lanes == 1 ? scalar : splat(b, loc, scalar, lanes);
  }
  Image imageOf(unsigned argument);
  /// What is in memory, and the same as it is computed with.
  Value loadRaw(const Image &image, ValueRange place);
  Value load(const Image &image, ValueRange place) {
    return fromMemory(b, loc, loadRaw(image, place), image.element);
  }
  /// Bytes at which an access to the image lies.
  llvm::Align alignmentOf(const Image &image) const {
    return llvm::Align(static_cast<uint64_t>(
        lanes * memoryType(image.element).getIntOrFloatBitWidth() / 8));
  }
  /// A loop that carries one value.
  Value loop(Value begin, Value end, Value start,
             llvm::function_ref<Value(Value, Value)> body);
  /// Goes through the elements of the window at output (p, q): `body` gets the
  /// element's place, whether it exists (and a place that does), and what is
  /// carried.
  Value overWindow(Value p, Value q, Value start,
                   llvm::function_ref<Value(Value, Value, Value, Value)> body);
  /// Goes through the output positions whose windows have (h, w).
  Value overOutputs(Value h, Value w, Value start,
                    llvm::function_ref<Value(Value, Value, Value)> body);
  /// Elements that a mean is taken of.
  Value countOf(Value p, Value q);
  Value isMaximum(Value p, Value q, Value n, Value c, Value h, Value w,
                  Value own);
  Value valueAt(ArrayRef<Value> place);
  void storeAt(const Image &image, ValueRange place, Value value);
  /// The gradient of a maximum for the patch whose first element is at `place`.
  void emitPatch(ArrayRef<Value> place);

  mprt::PoolOp op;
  gpu::GPUFuncOp function;
  int64_t lanes;
  /// Rows and columns of the elements that a thread has.
  std::array<int64_t, 2> patch;
  OpBuilder b;
  Location loc;
  unsigned kind;
  SlidingWindow windows;
  Type compute;
  SmallVector<Image> images;
  /// Sizes of what windows slide over, and of what they make.
  int64_t height = 0, width = 0, rows = 0, columns = 0;
};
} // namespace

Image PoolEmitter::imageOf(unsigned argument) {
  Value buffer = function.getArgument(argument);
  auto type = cast<MemRefType>(buffer.getType());
  auto [strides, offset] = type.getStridesAndOffset();
  Image image;
  image.element = type.getElementType();
  for (unsigned d = 0; d < 4; ++d) {
    image.sizes.push_back(type.getDimSize(windows.position(d)));
    image.strides.push_back(strides[windows.position(d)]);
  }
  int64_t span = *mprt::spanOf(type); // layouts have known strides
  image.flat = memref::ReinterpretCastOp::create(
      b, loc, MemRefType::get({span}, type.getElementType()), buffer, 0,
      ArrayRef<int64_t>{span}, ArrayRef<int64_t>{1});
  return image;
}

Value PoolEmitter::loadRaw(const Image &image, ValueRange place) {
  Value at = number(0);
  for (auto [coordinate, stride] : llvm::zip(place, image.strides))
    at = addScaled(b, loc, at, coordinate, stride);
  if (lanes == 1)
    return memref::LoadOp::create(b, loc, image.flat, at);
  return loadLanes(b, loc, image.flat, at, 1, lanes, Value(),
                   alignmentOf(image));
}

void PoolEmitter::storeAt(const Image &image, ValueRange place, Value value) {
  value = toMemory(b, loc, value, image.element);
  Value at = number(0);
  for (auto [coordinate, stride] : llvm::zip(place, image.strides))
    at = addScaled(b, loc, at, coordinate, stride);
  if (lanes == 1)
    memref::StoreOp::create(b, loc, value, image.flat, at);
  else
    storeLanes(b, loc, image.flat, at, 1, value, Value(), alignmentOf(image));
}

Value PoolEmitter::loop(Value begin, Value end, Value start,
                        llvm::function_ref<Value(Value, Value)> body) {
  auto op = scf::ForOp::create(b, loc, begin, end, number(1), start);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(op.getBody());
  Value next = body(op.getInductionVar(), op.getRegionIterArgs()[0]);
  scf::YieldOp::create(b, loc, next);
  return op.getResult(0);
}

/// Row or column `index` of an image of `size`: whether it is there, and the
/// nearest that is.
static std::pair<Value, Value> clampTo(OpBuilder &b, Location loc, Value index,
                                       int64_t size) {
  Value zero = indexConstant(b, loc, 0), last = indexConstant(b, loc, size - 1);
  Value isThere = arith::AndIOp::create(
      b, loc,
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, index, zero),
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, index, last));
  Value near = arith::MinSIOp::create(
      b, loc, arith::MaxSIOp::create(b, loc, index, zero), last);
  return {isThere, near};
}

Value PoolEmitter::overWindow(
    Value p, Value q, Value start,
    llvm::function_ref<Value(Value, Value, Value, Value)> body) {
  auto first = [&](Value position, unsigned d) {
    Value scaled = addScaled(b, loc, number(0), position, windows.strides[d]);
    return arith::SubIOp::create(b, loc, scaled, number(windows.low[d]))
        .getResult();
  };
  Value h0 = first(p, 0), w0 = first(q, 1);
  return loop(
      number(0), number(windows.size[0]), start, [&](Value i, Value outer) {
        auto [hThere, h] =
            clampTo(b, loc, arith::AddIOp::create(b, loc, h0, i), height);
        return loop(number(0), number(windows.size[1]), outer,
                    [&, hThere = hThere, h = h](Value j, Value carried) {
                      auto [wThere, w] = clampTo(
                          b, loc, arith::AddIOp::create(b, loc, w0, j), width);
                      return body(h, w, both(b, loc, hThere, wThere), carried);
                    });
      });
}

Value PoolEmitter::overOutputs(
    Value h, Value w, Value start,
    llvm::function_ref<Value(Value, Value, Value)> body) {
  // Positions p with 0 <= h + low - p * stride < window.
  auto range = [&](Value at, unsigned d,
                   int64_t count) -> std::pair<Value, Value> {
    Value stride = number(windows.strides[d]);
    Value from = arith::AddIOp::create(b, loc, at, number(windows.low[d]));
    Value begin = arith::AddIOp::create(
        b, loc, from, number(windows.strides[d] - windows.size[d]));
    begin = arith::MaxSIOp::create(b, loc, begin, number(0));
    begin = arith::DivUIOp::create(b, loc, begin, stride);
    Value end = arith::DivUIOp::create(b, loc, from, stride);
    end = arith::AddIOp::create(b, loc, end, number(1));
    return {begin, arith::MinSIOp::create(b, loc, end, number(count))};
  };
  auto [p0, p1] = range(h, 0, rows);
  auto [q0, q1] = range(w, 1, columns);
  return loop(p0, p1, start, [&, q0 = q0, q1 = q1](Value p, Value outer) {
    return loop(q0, q1, outer,
                [&](Value q, Value carried) { return body(p, q, carried); });
  });
}

Value PoolEmitter::countOf(Value p, Value q) {
  if (op.getCountPadding())
    return real(static_cast<double>(windows.size[0] * windows.size[1]));
  auto along = [&](Value position, unsigned d, int64_t size) {
    Value begin = arith::SubIOp::create(
        b, loc, addScaled(b, loc, number(0), position, windows.strides[d]),
        number(windows.low[d]));
    Value end = arith::AddIOp::create(b, loc, begin, number(windows.size[d]));
    end = arith::MinSIOp::create(b, loc, end, number(size));
    begin = arith::MaxSIOp::create(b, loc, begin, number(0));
    return arith::SubIOp::create(b, loc, end, begin).getResult();
  };
  Value count =
      arith::MulIOp::create(b, loc, along(p, 0, height), along(q, 1, width));
  count = arith::IndexCastOp::create(b, loc, b.getI32Type(), count);
  return same(
      arith::SIToFPOp::create(b, loc, getElementTypeOrSelf(compute), count));
}

Value PoolEmitter::isMaximum(Value p, Value q, Value n, Value c, Value h,
                             Value w, Value own) {
  using arith::CmpFPredicate;
  auto compare = [&](CmpFPredicate predicate, Value x, Value y) -> Value {
    return arith::CmpFOp::create(b, loc, predicate, x, y);
  };
  Value ownIsNaN = compare(CmpFPredicate::UNO, own, own);
  Value no = same(arith::ConstantIntOp::create(b, loc, 0, 1));
  Value beaten = overWindow(
      p, q, no, [&](Value i, Value j, Value isThere, Value carried) -> Value {
        Value other = load(images[1], {n, c, i, j});
        Value isNaN = compare(CmpFPredicate::UNO, other, other);
        // Row-major order of places.
        Value above =
            arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, i, h);
        Value beside = both(
            b, loc,
            arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, i, h),
            arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, j, w));
        Value before = arith::OrIOp::create(b, loc, above, beside);
        Value beatsBefore = arith::SelectOp::create(
            b, loc, ownIsNaN, isNaN, compare(CmpFPredicate::UGE, other, own));
        Value beatsAfter = arith::SelectOp::create(
            b, loc, ownIsNaN, no, compare(CmpFPredicate::UGT, other, own));
        Value beats =
            arith::SelectOp::create(b, loc, before, beatsBefore, beatsAfter);
        beats = arith::SelectOp::create(b, loc, isThere, beats, no);
        return arith::OrIOp::create(b, loc, carried, beats);
      });
  return arith::XOrIOp::create(
      b, loc, beaten, same(arith::ConstantIntOp::create(b, loc, 1, 1)));
}

Value PoolEmitter::valueAt(ArrayRef<Value> place) {
  Value n = place[0], c = place[1], y = place[2], x = place[3];
  switch (kind) {
  case MPRT_MAX_POOL: {
    Value lowest = real(-std::numeric_limits<double>::infinity());
    return overWindow(
        y, x, lowest,
        [&](Value h, Value w, Value isThere, Value best) -> Value {
          Value value = load(images[0], {n, c, h, w});
          value = arith::SelectOp::create(b, loc, isThere, value, lowest);
          return arith::MaximumFOp::create(b, loc, best, value);
        });
  }
  case MPRT_AVG_POOL: {
    Value zero = real(0);
    Value sum = overWindow(
        y, x, zero, [&](Value h, Value w, Value isThere, Value total) -> Value {
          Value value = load(images[0], {n, c, h, w});
          value = arith::SelectOp::create(b, loc, isThere, value, zero);
          return arith::AddFOp::create(b, loc, total, value);
        });
    return arith::DivFOp::create(b, loc, sum, countOf(y, x));
  }
  case MPRT_MAX_POOL_GRAD: {
    Value zero = real(0);
    Value own = load(images[1], {n, c, y, x});
    return overOutputs(y, x, zero, [&](Value p, Value q, Value total) -> Value {
      Value dy = load(images[0], {n, c, p, q});
      Value takes = isMaximum(p, q, n, c, y, x, own);
      dy = arith::SelectOp::create(b, loc, takes, dy, zero);
      return arith::AddFOp::create(b, loc, total, dy);
    });
  }
  default: // MPRT_AVG_POOL_GRAD
    return overOutputs(
        y, x, real(0), [&](Value p, Value q, Value total) -> Value {
          Value dy = load(images[0], {n, c, p, q});
          Value part = arith::DivFOp::create(b, loc, dy, countOf(p, q));
          return arith::AddFOp::create(b, loc, total, part);
        });
  }
}

/// Along an axis: which windows, counted from the patch's number, have an
/// element of it.
static std::pair<int64_t, int64_t> windowsOf(const SlidingWindow &windows,
                                             unsigned d) {
  int64_t stride = windows.strides[d], low = windows.low[d];
  return {llvm::divideCeilSigned(low - windows.size[d] + 1, stride),
          llvm::divideFloorSigned(stride - 1 + low, stride)};
}

void PoolEmitter::emitPatch(ArrayRef<Value> place) {
  using arith::CmpFPredicate;
  using arith::CmpIPredicate;
  Type scalar = getElementTypeOrSelf(compute);
  Value zero = real(0);
  // Of 16 bits, two are compared at a time.
  Type element = images[1].element;
  bool isNarrow = element.isBF16() || element.isF16();
  if (!isNarrow)
    element = scalar;
  Value lowest = same(arith::ConstantOp::create(
      b, loc,
      b.getFloatAttr(element, -std::numeric_limits<double>::infinity())));
  std::array<int64_t, 2> extents{height, width}, counts{rows, columns};
  /// A coordinate along axis `d`, `shift` from that of the patch times
  /// `scale` / stride: brought into the image, and whether it was (null: yes).
  auto at = [&](unsigned d, int64_t scale, int64_t shift,
                int64_t size) -> std::pair<Value, Value> {
    Value base = place[2 + d];
    if (scale != windows.strides[d])
      base = arith::DivUIOp::create(b, loc, base, number(windows.strides[d]));
    Value index = arith::AddIOp::create(b, loc, base, number(shift));
    int64_t last =
        (llvm::divideCeil(extents[d], windows.strides[d]) - 1) * scale + shift;
    Value isThere;
    auto limit = [&](CmpIPredicate predicate, int64_t bound) {
      Value edge = number(bound);
      Value within = arith::CmpIOp::create(b, loc, predicate, index, edge);
      isThere = both(b, loc, isThere, within);
      index = arith::SelectOp::create(b, loc, within, index, edge);
    };
    if (last >= size)
      limit(CmpIPredicate::sle, size - 1);
    if (shift < 0)
      limit(CmpIPredicate::sge, 0);
    return {index, isThere};
  };
  auto orElse = [&](Value isThere, Value value, Value otherwise) -> Value {
    return isThere ? arith::SelectOp::create(b, loc, isThere, value, otherwise)
                         .getResult()
                   : value;
  };
  auto [p0, p1] = windowsOf(windows, 0);
  auto [q0, q1] = windowsOf(windows, 1);
  // Elements by their place, counted from that of the patch.
  std::map<std::pair<int64_t, int64_t>, Value> elements;
  std::map<int64_t, std::pair<Value, Value>> rowsAt, columnsAt;
  auto elementAt = [&](int64_t y, int64_t x) -> Value {
    Value &known = elements[{y, x}];
    if (known)
      return known;
    if (!rowsAt.count(y))
      rowsAt[y] = at(0, windows.strides[0], y, height);
    if (!columnsAt.count(x))
      columnsAt[x] = at(1, windows.strides[1], x, width);
    auto [h, hThere] = rowsAt[y];
    auto [w, wThere] = columnsAt[x];
    SmallVector<Value> one{place[0], place[1], h, w};
    Value value = isNarrow ? loadRaw(images[1], one) : load(images[1], one);
    return known = orElse(both(b, loc, hThere, wThere), value, lowest);
  };
  struct Window {
    int64_t y, x; ///< of its first element
    Value gradient, greatest;
  };
  SmallVector<Window> found;
  Value total;
  for (int64_t p = p0; p <= p1; ++p)
    for (int64_t q = q0; q <= q1; ++q) {
      Window window;
      window.y = p * windows.strides[0] - windows.low[0];
      window.x = q * windows.strides[1] - windows.low[1];
      auto [row, rowThere] = at(0, 1, p, counts[0]);
      auto [column, columnThere] = at(1, 1, q, counts[1]);
      window.gradient = load(images[0], {place[0], place[1], row, column});
      window.gradient =
          orElse(both(b, loc, rowThere, columnThere), window.gradient, zero);
      for (int64_t i = 0; i < windows.size[0]; ++i)
        for (int64_t j = 0; j < windows.size[1]; ++j) {
          Value value = elementAt(window.y + i, window.x + j);
          window.greatest =
              window.greatest
                  ? arith::MaximumFOp::create(b, loc, window.greatest, value)
                  : value;
        }
      window.greatest = fromMemory(b, loc, window.greatest, element);
      total = total ? arith::AddFOp::create(b, loc, total, window.greatest)
                    : window.greatest;
      found.push_back(window);
    }
  // Finite only if all are.
  if (lanes > 1)
    total =
        vector::ReductionOp::create(b, loc, vector::CombiningKind::ADD, total);
  Value isUsual = arith::CmpFOp::create(
      b, loc, CmpFPredicate::OLT, math::AbsFOp::create(b, loc, total),
      arith::ConstantOp::create(
          b, loc,
          b.getFloatAttr(scalar, std::numeric_limits<double>::infinity())));
  SmallVector<Type> types(patch[0] * patch[1], compute);
  auto branch = scf::IfOp::create(b, loc, types, isUsual,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(branch.thenBlock());
  SmallVector<Value> sums(types.size(), zero);
  for (const Window &window : found) {
    Value left = window.gradient;
    int64_t steps = windows.size[0] * windows.size[1], last = -1;
    auto sumOf = [&](int64_t step) -> Value * {
      int64_t y = window.y + step / windows.size[1];
      int64_t x = window.x + step % windows.size[1];
      bool has = y >= 0 && y < patch[0] && x >= 0 && x < patch[1];
      return has ? &sums[y * patch[1] + x] : nullptr;
    };
    for (int64_t step = 0; step < steps; ++step)
      if (sumOf(step))
        last = step;
    for (int64_t step = 0; step <= last; ++step) {
      Value value = elementAt(window.y + step / windows.size[1],
                              window.x + step % windows.size[1]);
      Value takes = arith::CmpFOp::create(b, loc, CmpFPredicate::OEQ,
                                          fromMemory(b, loc, value, element),
                                          window.greatest);
      if (Value *sum = sumOf(step))
        *sum = arith::AddFOp::create(
            b, loc, *sum, arith::SelectOp::create(b, loc, takes, left, zero));
      if (step < last)
        left = arith::SelectOp::create(b, loc, takes, zero, left);
    }
  }
  scf::YieldOp::create(b, loc, sums);
  b.setInsertionPointToEnd(branch.elseBlock());
  auto eachPlace =
      [&](llvm::function_ref<void(int64_t, SmallVector<Value>, Value)> visit) {
        for (int64_t i = 0; i < patch[0] * patch[1]; ++i) {
          auto [h, hThere] = at(0, windows.strides[0], i / patch[1], height);
          auto [w, wThere] = at(1, windows.strides[1], i % patch[1], width);
          visit(i, {place[0], place[1], h, w}, both(b, loc, hThere, wThere));
        }
      };
  SmallVector<Value> single;
  eachPlace([&](int64_t, SmallVector<Value> one, Value) {
    single.push_back(valueAt(one));
  });
  scf::YieldOp::create(b, loc, single);
  b.setInsertionPointAfter(branch);
  eachPlace([&](int64_t i, SmallVector<Value> one, Value isThere) {
    emitIf(b, loc, isThere,
           [&] { storeAt(images.back(), one, branch.getResult(i)); });
  });
}

void PoolEmitter::run() {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    images.push_back(imageOf(i));
  const Image &output = images.back();
  bool isGradient = kind == MPRT_MAX_POOL_GRAD || kind == MPRT_AVG_POOL_GRAD;
  const Image &slidOver = isGradient ? output : images[0];
  const Image &made = isGradient ? images[0] : output;
  height = slidOver.sizes[2], width = slidOver.sizes[3];
  rows = made.sizes[2], columns = made.sizes[3];
  compute = computeType(output.element);
  if (lanes > 1)
    compute = VectorType::get({lanes}, compute);
  // Neighbouring threads make neighbours in memory.
  SmallVector<unsigned> order{0, 1, 2, 3};
  llvm::sort(order, [&](unsigned x, unsigned y) {
    return std::pair(output.strides[y], x) < std::pair(output.strides[x], y);
  });
  SmallVector<int64_t> sizes;
  int64_t elements = 1;
  for (unsigned d : order) {
    sizes.push_back(d == 1   ? output.sizes[d] / lanes
                    : d >= 2 ? llvm::divideCeil(output.sizes[d], patch[d - 2])
                             : output.sizes[d]);
    elements *= sizes.back();
  }
  Value thread = gpu::ThreadIdOp::create(b, loc, gpu::Dimension::x);
  Value block = gpu::BlockIdOp::create(b, loc, gpu::Dimension::x);
  Value grid = gpu::GridDimOp::create(b, loc, gpu::Dimension::x);
  Value begin = addScaled(b, loc, thread, block, kThreads);
  Value step = arith::MulIOp::create(b, loc, grid, number(kThreads));
  auto items = scf::ForOp::create(b, loc, begin, number(elements), step);
  b.setInsertionPoint(items.getBody()->getTerminator());
  SmallVector<Value> place(4);
  for (auto [d, coordinate] :
       llvm::zip(order, delinearize(b, loc, items.getInductionVar(), sizes)))
    place[d] = addScaled(b, loc, number(0), coordinate,
                         d == 1   ? lanes
                         : d >= 2 ? patch[d - 2]
                                  : 1);
  if (patch[0] * patch[1] > 1)
    emitPatch(place);
  else
    storeAt(output, place, valueAt(place));
}

/// Channels that a thread has: as many as an access of each image has, where
/// they are side by side in all of them.
static int64_t lanesOf(mprt::PoolOp op, ArrayRef<MemRefType> layouts,
                       ArrayRef<uint64_t> alignments, int64_t accessBytes) {
  SlidingWindow windows = op.getGeometry();
  int64_t lanes = accessBytes;
  for (auto [type, alignment] : llvm::zip(layouts, alignments)) {
    int64_t bytes =
        memoryType(type.getElementType()).getIntOrFloatBitWidth() / 8;
    lanes = std::min(lanes, accessBytes / bytes);
    SmallVector<int64_t> strides = type.getStridesAndOffset().first;
    unsigned channel = windows.position(1);
    auto isUneven = [&](int64_t value) { return value % lanes != 0; };
    while (lanes > 1 &&
           (strides[channel] != 1 || isUneven(type.getDimSize(channel)) ||
            alignment % static_cast<uint64_t>(lanes * bytes) != 0 ||
            llvm::any_of(llvm::seq(4u), [&](unsigned d) {
              return d != channel && isUneven(strides[d]);
            })))
      lanes /= 2;
  }
  return lanes;
}

/// Rows and columns of what a thread has: of the gradient of a maximum the
/// elements from one window to the next, unless that would be too much code.
static std::array<int64_t, 2> patchOf(mprt::PoolOp op) {
  SlidingWindow windows = op.getGeometry();
  if (*op.getKindNumber() != MPRT_MAX_POOL_GRAD)
    return {1, 1};
  int64_t steps = windows.size[0] * windows.size[1];
  for (unsigned d = 0; d < 2; ++d) {
    auto [first, last] = windowsOf(windows, d);
    steps *= last - first + 1;
  }
  int64_t patch = windows.strides[0] * windows.strides[1];
  if (patch > kMostOfPatch || steps > kMostSteps)
    return {1, 1};
  return {windows.strides[0], windows.strides[1]};
}

GPUKernel emitGPUPool(mprt::PoolOp op, ArrayRef<MemRefType> layouts,
                      ArrayRef<uint64_t> alignments, OpBuilder &b,
                      StringRef name) {
  GPUKernel kernel =
      createGPUKernel(b, op.getLoc(), name, layouts, kThreads, 0);
  std::array<int64_t, 2> patch = patchOf(op);
  // All elements of its windows are in a thread's registers.
  bool isPatch = patch[0] * patch[1] > 1;
  int64_t lanes = lanesOf(op, layouts, alignments,
                          isPatch ? kAccessBytes / 2 : kAccessBytes);
  int64_t work = kThreads * lanes * patch[0] * patch[1];
  kernel.blocks = std::max<int64_t>(
      llvm::divideCeil(layouts.back().getNumElements(), work), 1);
  kernel.gridStride = true;
  if (layouts.back().getNumElements() > 0)
    PoolEmitter(op, kernel.function, lanes, patch).run();
  return kernel;
}

} // namespace mpcomm::kernels
