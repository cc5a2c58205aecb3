//===- MPRTAttention.cpp - attention by kernels of a GPU ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verification and memory effects, and what the kernels take.
//
//===----------------------------------------------------------------------===//

#include "OpHelpers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace mlir;
using namespace mpcomm::mprt;

/// Rows or columns at most: their products with a few tiles, and with the size
/// of a head, are counted in 32 bits.
static constexpr int64_t kMaxPositions = int64_t(1) << 22;
/// Rows of a block at least (that computes delta, in the gradient); a grid has
/// at most INT32_MAX blocks.
static constexpr int64_t kLeastRows = 16;
/// Rows and columns of a tile of a bias's gradient, which is a block's.
static constexpr int64_t kTileOfBias = 64;

bool mpcomm::mprt::isAttentionSupported(ShapedType q, ShapedType k) {
  Type element = q.getElementType();
  if (!element.isBF16() && !element.isF16())
    return false;
  if (!q.hasStaticShape() || !k.hasStaticShape() || q.getRank() != 4 ||
      k.getRank() != 4)
    return false;
  int64_t batch = q.getDimSize(0), rows = q.getDimSize(1),
          heads = q.getDimSize(2), size = q.getDimSize(3),
          columns = k.getDimSize(1);
  if (size % 16 != 0 || size < 16 || size > 128 || batch < 1 || heads < 1 ||
      rows < 1 || columns < 1 || rows > kMaxPositions ||
      columns > kMaxPositions)
    return false;
  int64_t blocks;
  return !llvm::MulOverflow(batch, heads, blocks) &&
         !llvm::MulOverflow(
             blocks,
             int64_t(llvm::divideCeil(std::max(rows, columns), kLeastRows)),
             blocks) &&
         blocks <= INT32_MAX;
}

bool mpcomm::mprt::isBiasGradSupported(ShapedType q, ShapedType k,
                                       ShapedType bias) {
  int64_t rows = q.getDimSize(1), columns = k.getDimSize(1), blocks = 1;
  if (bias.getRank() != 4 || bias.getDimSize(2) != rows ||
      bias.getDimSize(3) != columns)
    return false;
  for (int64_t count : {bias.getDimSize(0), bias.getDimSize(1),
                        int64_t(llvm::divideCeil(rows, kTileOfBias)),
                        int64_t(llvm::divideCeil(columns, kTileOfBias))})
    if (llvm::MulOverflow(blocks, count, blocks))
      return false;
  return blocks <= INT32_MAX;
}

Value AttentionOp::getMask() {
  for (Value input : getInputs().drop_front(getNumOthers()))
    if (getElementTypeOrSelf(input.getType()).isInteger(1))
      return input;
  return Value();
}

Value AttentionOp::getBias() {
  if (getInputs().size() == getNumOthers() ||
      getElementTypeOrSelf(getInputs().back().getType()).isInteger(1))
    return Value();
  return getInputs().back();
}

Value AttentionOp::getBiasGrad() {
  return isGradient() && getOutputs().size() > 3 ? getOutputs()[3] : Value();
}

/// The bias, whose dimensions are those of the scores or 1.
static LogicalResult verifyBias(AttentionOp op, ShapedType q, ShapedType k) {
  auto bias = cast<ShapedType>(op.getBias().getType());
  int64_t scores[] = {q.getDimSize(0), q.getDimSize(2), q.getDimSize(1),
                      k.getDimSize(1)};
  Type element = bias.getElementType();
  auto isEach = [](int64_t size, int64_t ofScores) {
    return size == 1 || size == ofScores;
  };
  if (bias.getRank() == 4 &&
      llvm::all_of_zip(bias.getShape(), scores, isEach) &&
      (element.isF32() || element.isBF16() || element.isF16()))
    return success();
  return op.emitOpError() << "expects a bias of f32, bf16 or f16 whose "
                             "dimensions are 1 or those of "
                          << RankedTensorType::get(scores, element) << ", got "
                          << bias;
}

LogicalResult AttentionOp::verify() {
  bool isForward = getKind() == "attention";
  if (!isForward && !isGradient()) // attention C1
    return emitOpError() << "does not know the kind '" << getKind() << "'";
  size_t least = getNumOthers(), outputs = isForward ? 2 : 3;
  size_t count = getInputs().size();
  if (count > least && getBias() && getBiasGrad())
    ++outputs;
  if (count < least ||
      count != least + (getMask() ? 1 : 0) + (getBias() ? 1 : 0) ||
      getOutputs().size() != outputs)
    return emitOpError() << "expects " << least << " inputs, a mask or a bias "
                         << "or both after them or not, and " << outputs
                         << " outputs for '" << getKind() << "', got " << count
                         << " and " << getOutputs().size();
  if (failed(verifyDestinationStyle(*this, getOutputs()))) // attention C2
    return failure();
  auto q = cast<ShapedType>(getInputs()[isForward ? 0 : 1].getType());
  auto k = cast<ShapedType>(getInputs()[isForward ? 1 : 2].getType());
  if (q.getRank() != 4 || k.getRank() != 4 ||
      q.getDimSize(0) != k.getDimSize(0) ||
      q.getDimSize(2) != k.getDimSize(2) ||
      q.getDimSize(3) != k.getDimSize(3)) // attention C3
    return emitOpError() << "expects q and k of [batch, positions, heads, "
                            "size], equal but in positions, got "
                         << q << " and " << k;
  auto expect = [&](Value operand, StringRef name, ArrayRef<int64_t> shape,
                    Type element) -> LogicalResult {
    auto type = cast<ShapedType>(operand.getType());
    if (type.getShape() == shape && type.getElementType() == element)
      return success();
    return emitOpError() << "expects '" << name << "' of "
                         << RankedTensorType::get(shape, element) << ", got "
                         << type;
  };
  auto likeQ = [&](Value operand, StringRef name) {
    return expect(operand, name, q.getShape(), q.getElementType());
  };
  auto likeK = [&](Value operand, StringRef name) {
    return expect(operand, name, k.getShape(), q.getElementType());
  };
  auto isLse = [&](Value operand) {
    SmallVector<int64_t> shape{q.getDimSize(0), q.getDimSize(2),
                               q.getDimSize(1)};
    if (getBias())
      shape.push_back(2);
    return expect(operand, "lse", shape, Float32Type::get(getContext()));
  };
  OperandRange in = getInputs(), out = getOutputs();
  if (isForward) {
    if (failed(likeK(in[1], "k")) || failed(likeK(in[2], "v")) ||
        failed(likeQ(out[0], "out")) || failed(isLse(out[1])))
      return failure();
  } else if (failed(likeQ(in[0], "dout")) || failed(likeK(in[2], "k")) ||
             failed(likeK(in[3], "v")) || failed(likeQ(in[4], "out")) ||
             failed(isLse(in[5])) || failed(likeQ(out[0], "dq")) ||
             failed(likeK(out[1], "dk")) || failed(likeK(out[2], "dv"))) {
    return failure();
  }
  if (Value mask = getMask();
      mask && failed(expect(mask, "mask", {q.getDimSize(1), k.getDimSize(1)},
                            IntegerType::get(getContext(), 1))))
    return failure();
  if (getBias() && failed(verifyBias(*this, q, k))) // attention C3
    return failure();
  Value biasGrad = getBiasGrad();
  if (biasGrad &&
      failed(expect(biasGrad, "db", // attention C3
                    cast<ShapedType>(getBias().getType()).getShape(),
                    Float32Type::get(getContext()))))
    return failure();
  if (!isAttentionSupported(q, k)) // attention C4
    return emitOpError() << "expects bf16 or f16, a size of heads that is a "
                            "multiple of 16 up to 128, at least one and at "
                            "most 2^22 rows and columns, got "
                         << q << " and " << k;
  if (biasGrad && !isBiasGradSupported( // attention C4
                      q, k, cast<ShapedType>(biasGrad.getType())))
    return emitOpError() << "expects a bias with an element for each row and "
                            "column, and less than 2^31 tiles of it, for 'db', "
                            "got "
                         << biasGrad.getType();
  if (!std::isfinite(getScale().convertToDouble()))
    return emitOpError() << "expects a finite scale, got " << getScaleAttr();
  return verifySpans(*this); // attention C5
}

void AttentionOp::getEffects(Effects &effects) {
  addEffects(getInputsMutable(), true, false, effects);
  addEffects(getOutputsMutable(), false, true, effects);
}
