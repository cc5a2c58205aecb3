//===- GPUTiles.cpp - tiles of matrices on tensor cores -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See GPUTiles.h.
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/GPUTiles.h"
#include "Kernels/GPU/GPUReduce.h"
#include "Kernels/GPU/GPUSchedule.h"
#include "Kernels/GPU/GPUWarpgroup.h"
#include "Kernels/Model/LaneOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace mpcomm::kernels {

static constexpr unsigned kGlobal = 1, kShared = 3; // address spaces

SmallVector<Value> valuesOf(ArrayRef<Quad> quads) {
  SmallVector<Value> values;
  for (const Quad &quad : quads)
    llvm::append_range(values, quad);
  return values;
}

SmallVector<Quad> quadsOf(ArrayRef<Value> values) {
  SmallVector<Quad> quads(values.size() / 4);
  for (auto [i, value] : llvm::enumerate(values))
    quads[i / 4][i % 4] = value;
  return quads;
}

TileCode::TileCode(gpu::GPUFuncOp function, Type element, int64_t threads)
    : function(function), b(function.getBody().front().getTerminator()),
      loc(function.getLoc()), element(element), i32(b.getI32Type()),
      i64(b.getI64Type()), f32(b.getF32Type()), threads(threads) {
  auto number = [&](Value index) -> Value {
    return arith::IndexCastUIOp::create(b, loc, i32, index);
  };
  thread = number(gpu::ThreadIdOp::create(b, loc, gpu::Dimension::x));
  block = number(gpu::BlockIdOp::create(b, loc, gpu::Dimension::x));
  lane = remainder(thread, kWarp);
  warp = divide(thread, kWarp);
}

//===----------------------------------------------------------------------===//
// Numbers and addresses
//===----------------------------------------------------------------------===//

Value TileCode::constant(Type type, int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, value));
}

Value TileCode::number(int64_t value) { return constant(i32, value); }

Value TileCode::real(double value) {
  return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value));
}

Value TileCode::add(Value x, Value y) {
  return b.createOrFold<arith::AddIOp>(loc, x, y);
}
Value TileCode::add(Value x, int64_t y) { return add(x, number(y)); }
Value TileCode::sub(Value x, Value y) {
  return b.createOrFold<arith::SubIOp>(loc, x, y);
}
Value TileCode::mul(Value x, int64_t y) {
  return b.createOrFold<arith::MulIOp>(loc, x, number(y));
}
Value TileCode::divide(Value x, int64_t y) {
  return b.createOrFold<arith::DivUIOp>(loc, x, number(y));
}
Value TileCode::remainder(Value x, int64_t y) {
  return b.createOrFold<arith::RemUIOp>(loc, x, number(y));
}
Value TileCode::exclusiveOr(Value x, Value y) {
  return arith::XOrIOp::create(b, loc, x, y);
}
Value TileCode::least(Value x, int64_t y) {
  return arith::MinSIOp::create(b, loc, x, number(y));
}
Value TileCode::less(Value x, Value y) {
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, y);
}
Value TileCode::less(Value x, int64_t y) { return less(x, number(y)); }
Value TileCode::equal(Value x, int64_t y) {
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, x,
                               constant(x.getType(), y));
}
Value TileCode::both(Value x, Value y) {
  if (!x || !y)
    return x ? x : y;
  return arith::AndIOp::create(b, loc, x, y);
}
Value TileCode::either(Value x, Value y) {
  if (!x || !y)
    return x ? x : y;
  return arith::OrIOp::create(b, loc, x, y);
}
Value TileCode::select(Value condition, Value x, Value y) {
  return arith::SelectOp::create(b, loc, condition, x, y);
}

Value TileCode::advance(Value base, Value x, int64_t y) {
  Value bytes = x;
  if (cast<LLVM::LLVMPointerType>(base.getType()).getAddressSpace() ==
      kShared) {
    bytes = mul(x, y);
  } else {
    bytes = arith::ExtUIOp::create(b, loc, i64, x);
    if (y != 1)
      bytes = arith::MulIOp::create(b, loc, bytes, constant(i64, y));
  }
  return LLVM::GEPOp::create(b, loc, base.getType(), b.getI8Type(), base,
                             ValueRange(bytes));
}

Value TileCode::advance(Value base, int64_t bytes) {
  if (bytes == 0)
    return base;
  return LLVM::GEPOp::create(b, loc, base.getType(), b.getI8Type(), base,
                             ValueRange(constant(i64, bytes)));
}

Value TileCode::load(Type type, Value pointer, int64_t alignment) {
  return LLVM::LoadOp::create(b, loc, type, pointer, alignment);
}

void TileCode::store(Value value, Value pointer, int64_t alignment) {
  LLVM::StoreOp::create(b, loc, value, pointer, alignment);
}

Value TileCode::global(unsigned argument) {
  Value address = memref::ExtractAlignedPointerAsIndexOp::create(
      b, loc, function.getArgument(argument));
  address = arith::IndexCastUIOp::create(b, loc, i64, address);
  Value generic = LLVM::IntToPtrOp::create(
      b, loc, LLVM::LLVMPointerType::get(b.getContext()), address);
  return LLVM::AddrSpaceCastOp::create(
      b, loc, LLVM::LLVMPointerType::get(b.getContext(), kGlobal), generic);
}

Value TileCode::shared(int64_t bytes, int64_t alignment) {
  Value buffer = addShared(function, b.getI8Type(), bytes);
  function.setWorkgroupAttributionAttr(
      function.getNumWorkgroupAttributions() - 1,
      LLVM::LLVMDialect::getAlignAttrName(), b.getI64IntegerAttr(alignment));
  Value address =
      memref::ExtractAlignedPointerAsIndexOp::create(b, loc, buffer);
  address = arith::IndexCastUIOp::create(b, loc, i64, address);
  return LLVM::IntToPtrOp::create(
      b, loc, LLVM::LLVMPointerType::get(b.getContext(), kShared), address);
}

void TileCode::barrier() { gpu::BarrierOp::create(b, loc); }

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

Value TileCode::addF(Value x, Value y) {
  return arith::AddFOp::create(b, loc, x, y);
}
Value TileCode::subF(Value x, Value y) {
  return arith::SubFOp::create(b, loc, x, y);
}
Value TileCode::mulF(Value x, Value y) {
  return arith::MulFOp::create(b, loc, x, y);
}
Value TileCode::fma(Value x, Value y, Value z) {
  return LLVM::FMAOp::create(b, loc, f32, x, y, z);
}
Value TileCode::maxF(Value x, Value y) {
  return arith::MaxNumFOp::create(b, loc, x, y);
}

static Value callIntrinsic(OpBuilder &b, Location loc, StringRef name,
                           Value x) {
  return LLVM::CallIntrinsicOp::create(b, loc, x.getType(),
                                       b.getStringAttr(name), ValueRange(x))
      .getResult(0);
}

Value TileCode::exp2(Value x) {
  return callIntrinsic(b, loc, "llvm.nvvm.ex2.approx.ftz.f32", x);
}
Value TileCode::log2(Value x) {
  return callIntrinsic(b, loc, "llvm.nvvm.lg2.approx.ftz.f", x);
}

Value TileCode::shuffleXor(Value x, int64_t offset) {
  return kernels::shuffleXor(b, loc, x, offset);
}
Value TileCode::sumOfRow(Value x) {
  x = addF(x, shuffleXor(x, 1));
  return addF(x, shuffleXor(x, 2));
}
Value TileCode::maxOfRow(Value x) {
  x = maxF(x, shuffleXor(x, 1));
  return maxF(x, shuffleXor(x, 2));
}

Value TileCode::pack(Value low, Value high) {
  Value pair = vector::FromElementsOp::create(b, loc, VectorType::get({2}, f32),
                                              ValueRange{low, high});
  Value rounded =
      arith::TruncFOp::create(b, loc, VectorType::get({2}, element), pair);
  return LLVM::BitcastOp::create(b, loc, i32, rounded);
}

Value TileCode::round(Value x) {
  return arith::TruncFOp::create(b, loc, element, x);
}

Quad TileCode::leftOf(const Quad &first, const Quad &second) {
  return {pack(first[0], first[1]), pack(first[2], first[3]),
          pack(second[0], second[1]), pack(second[2], second[3])};
}

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//

/// The four fields of a struct of one type.
static Quad fieldsOf(OpBuilder &b, Location loc, Value all) {
  Quad fields;
  for (int64_t i = 0; i < 4; ++i)
    fields[i] = LLVM::ExtractValueOp::create(b, loc, all, i);
  return fields;
}

Quad TileCode::zeros() {
  Value zero = real(0);
  return {zero, zero, zero, zero};
}

void TileCode::multiply(Quad &acc, const Quad &a, Value b0, Value b1) {
  using namespace NVVM;
  bool isBF16 = element.isBF16();
  SmallVector<Value> lhs(a.begin(), a.end()), rhs{b0, b1};
  if (!isBF16) {
    Type pair = VectorType::get({2}, element);
    for (SmallVector<Value> *words : {&lhs, &rhs})
      for (Value &word : *words)
        word = LLVM::BitcastOp::create(b, loc, pair, word);
  }
  MMATypes type = isBF16 ? MMATypes::bf16 : MMATypes::f16;
  Type result =
      LLVM::LLVMStructType::getLiteral(b.getContext(), {f32, f32, f32, f32});
  Value sum =
      MmaOp::create(b, loc, result, lhs, rhs, ValueRange(ArrayRef<Value>(acc)),
                    ArrayRef<int64_t>{16, 8, 16}, std::nullopt, std::nullopt,
                    std::array<MMATypes, 2>{type, type},
                    std::array<MMALayout, 2>{MMALayout::row, MMALayout::col});
  acc = fieldsOf(b, loc, sum);
}

Quad TileCode::fragment(Value pointer, bool transposed) {
  using namespace NVVM;
  MLIRContext *context = b.getContext();
  Type result = LLVM::LLVMStructType::getLiteral(context, {i32, i32, i32, i32});
  Value words = LdMatrixOp::create(
      b, loc, result, pointer, 4, transposed ? MMALayout::col : MMALayout::row,
      LdStMatrixShapeAttr::get(context, 8, 8), LdStMatrixEltType::B16);
  return fieldsOf(b, loc, words);
}

void TileCode::put(const Quad &fragment, Value pointer) {
  Value words = vector::FromElementsOp::create(
      b, loc, VectorType::get({4}, i32), ValueRange(ArrayRef<Value>(fragment)));
  store(words, advance(pointer, lane, 16), 16);
}

Quad TileCode::take(Value pointer) {
  // Volatile, lest it stays in registers from one use to the next.
  Value words = LLVM::LoadOp::create(b, loc, VectorType::get({4}, i32),
                                     advance(pointer, lane, 16), 16,
                                     /*isVolatile=*/true);
  Quad fragment;
  for (int64_t i = 0; i < 4; ++i)
    fragment[i] = vector::ExtractOp::create(b, loc, words, i);
  return fragment;
}

Value TileCode::laneOfLeft(int64_t pitch) {
  return add(mul(remainder(lane, 16), pitch), mul(divide(lane, 16), 16));
}

Value TileCode::laneOfRight(int64_t pitch) {
  Value row = add(mul(divide(lane, 16), 8), remainder(lane, 8));
  Value column = remainder(divide(lane, 8), 2);
  return add(mul(row, pitch), mul(column, 16));
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

void TileCode::copy16(Value source, Value target) {
  NVVM::CpAsyncOp::create(b, loc, target, source, 16,
                          NVVM::LoadCacheModifierKind::CG, Value());
}
void TileCode::commit() { NVVM::CpAsyncCommitGroupOp::create(b, loc); }
void TileCode::wait(int64_t others) {
  NVVM::CpAsyncWaitGroupOp::create(b, loc, static_cast<uint32_t>(others));
}

TileCopy::TileCopy(TileCode &code, const GPURows &rows, int64_t count,
                   bool swizzled)
    : code(code), rows(rows), count(count),
      pitch(swizzled ? kPanelBytes : pitchOf(rows.size)) {
  units = rows.size * 2 / rows.access;
  // Of sizes that are no power of two, some threads copy nothing.
  int64_t width = static_cast<int64_t>(llvm::PowerOf2Ceil(units));
  step = code.threads / width;
  assert(count % step == 0 && "a tile is copied by whole rows of threads");
  x = code.remainder(code.thread, width);
  y = code.divide(code.thread, width);
  place = code.mul(x, rows.access);
  if (swizzled) {
    assert(rows.size % kPanel == 0 && rows.access == 16 &&
           step % kSwizzleRows == 0 && "a thread's rows are the same modulo 8");
    int64_t chunks = kPanelBytes / rows.access;
    Value chunk = code.exclusiveOr(code.remainder(x, chunks),
                                   code.remainder(y, kSwizzleRows));
    place = code.add(code.mul(code.divide(x, chunks), count * kPanelBytes),
                     code.mul(chunk, rows.access));
  }
  int64_t xBytes = rows.access == 2 ? rows.elementBytes : rows.access;
  if (llvm::alignTo(rows.count, count) * rows.rowBytes +
          rows.size * rows.elementBytes <
      INT32_MAX)
    offset = code.add(code.mul(y, rows.rowBytes), code.mul(x, xBytes));
  else
    source = code.advance(code.advance(rows.base, y, rows.rowBytes), x, xBytes);
}

void TileCopy::issueOne(Value first, Value source, Value target, Value row) {
  OpBuilder &b = code.b;
  Location loc = code.loc;
  Value valid;
  if (rows.count % count != 0)
    valid = code.less(code.add(first, row), rows.count);
  if (rows.access == 2) {
    Type type = code.element;
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
    Value value;
    if (valid) {
      auto branch = scf::IfOp::create(b, loc, type, valid, true);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(branch.thenBlock());
      scf::YieldOp::create(b, loc, code.load(type, source, 2));
      b.setInsertionPointToStart(branch.elseBlock());
      scf::YieldOp::create(b, loc, zero);
      value = branch.getResult(0);
    } else {
      value = code.load(type, source, 2);
    }
    code.store(value, target, 2);
    return;
  }
  Value bytes;
  if (valid)
    bytes = code.select(valid, code.number(rows.access), code.number(0));
  NVVM::CpAsyncOp::create(b, loc, target, source,
                          static_cast<uint32_t>(rows.access),
                          rows.access == 16 ? NVVM::LoadCacheModifierKind::CG
                                            : NVVM::LoadCacheModifierKind::CA,
                          bytes);
}

void TileCopy::issue(Value first, Value target) {
  OpBuilder &b = code.b;
  Location loc = code.loc;
  OpBuilder::InsertionGuard guard(b);
  Value from =
      offset ? code.advance(rows.base,
                            code.add(code.mul(first, rows.rowBytes), offset), 1)
             : code.advance(source, first, rows.rowBytes);
  Value to = code.advance(code.advance(target, y, pitch), place, 1);
  if (units * step != code.threads) {
    auto branch = scf::IfOp::create(b, loc, code.less(x, units), false);
    b.setInsertionPointToStart(branch.thenBlock());
  }
  int64_t steps = count / step;
  if (rows.access > 2) {
    for (int64_t i = 0; i < steps; ++i)
      issueOne(first, code.advance(from, i * step * rows.rowBytes),
               code.advance(to, i * step * pitch), code.add(y, i * step));
    return;
  }
  auto loop = scf::ForOp::create(b, loc, code.number(0), code.number(steps),
                                 code.number(1));
  b.setInsertionPointToStart(loop.getBody());
  Value i = loop.getInductionVar();
  issueOne(first, code.advance(from, i, step * rows.rowBytes),
           code.advance(to, i, step * pitch), code.add(y, code.mul(i, step)));
}

} // namespace mpcomm::kernels
