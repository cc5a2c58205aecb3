//===- ScatterModel.cpp - what a kernel scatters --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See ScatterModel.h.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Model/ScatterModel.h"
#include "Kernels/Model/KernelModel.h"
#include "Kernels/Model/LaneOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mpcomm/Analysis/KernelGroups/BlockNests.h"
#include "mpcomm/Dialect/MPComm/Utils/Combine.h"

using namespace mlir;

namespace mpcomm::kernels {

static mprt::ScatterOp getScatter(func::FuncOp kernel) {
  auto scatters = kernel.getBody().getOps<mprt::ScatterOp>();
  return scatters.empty() ? mprt::ScatterOp() : *scatters.begin();
}

bool isScatterKernel(func::FuncOp kernel) {
  return !kernel.isExternal() && getScatter(kernel);
}

int64_t ScatterModel::count(const Dims &dims) {
  int64_t product = 1;
  for (const Dim &dim : dims)
    product *= dim.size;
  return product;
}

static void addDim(ScatterModel::Dims &dims, const ScatterModel::Dim &dim) {
  if (dim.size == 1)
    return;
  if (!dims.empty()) {
    ScatterModel::Dim &outer = dims.back();
    bool lieTogether = true;
    for (auto [stride, inner] : llvm::zip(outer.strides, dim.strides))
      lieTogether &= stride == dim.size * inner;
    if (lieTogether) {
      outer = {outer.size * dim.size, dim.strides};
      return;
    }
  }
  dims.push_back(dim);
}

std::optional<ScatterModel> ScatterModel::build(func::FuncOp kernel,
                                                ArrayRef<MemRefType> layouts) {
  auto fail = [&](const Twine &what) {
    kernel.emitError() << "in kernel '" << kernel.getSymName() << "': " << what;
    return std::nullopt;
  };
  ScatterModel model;
  model.op = getScatter(kernel);
  Operation *end = kernel.getBody().front().getTerminator();
  for (Operation &op : kernel.getBody().front())
    if (&op != model.op && &op != end &&
        !isa<arith::ConstantOp, linalg::FillOp>(op))
      return fail("expected a scatter alone, or onto a fill");
  unsigned last = kernel.getNumArguments() - 1;
  Value target = model.op.getOperand();
  if (auto fill = target.getDefiningOp<linalg::FillOp>()) {
    model.initial = matchUniformTensor(target);
    target = fill.getOutputs().front();
    if (!model.initial)
      return fail("expected a scatter onto a fill of a constant");
  }
  if (end->getNumOperands() != 1 ||
      end->getOperand(0) != model.op.getResult() ||
      kernel.getNumArguments() == 0 || target != kernel.getArgument(last))
    return fail("expected to scatter to the destination");
  std::array<SmallVector<int64_t>, 3> strides;
  Value tensors[] = {target, model.op.getUpdates(), model.op.getIndices()};
  for (auto [i, tensor] : llvm::enumerate(tensors)) {
    auto type = cast<RankedTensorType>(tensor.getType());
    if (!isElementOfKernels(type.getElementType()))
      return fail("expected elements that kernels have in memory");
    if (!::mpcomm::detail::isCountable(type))
      return fail("expected tensors of at most 2^48 elements");
    strides[i].assign(type.getRank(), 0);
    if (auto argument = dyn_cast<BlockArgument>(tensor)) {
      model.arguments[i] = argument.getArgNumber();
      strides[i] = layouts[argument.getArgNumber()].getStridesAndOffset().first;
    } else if (TypedAttr value = matchUniformTensor(tensor)) {
      model.uniform[i] = value;
    } else {
      return fail("expected arguments and constants of one value");
    }
  }
  auto targetType = cast<RankedTensorType>(target.getType());
  auto indexType = cast<RankedTensorType>(tensors[Indices].getType());
  int64_t dim = model.op.getDim(), batchDims = model.op.getBatchDims();
  int64_t numIndexed = indexType.getRank() - batchDims;
  for (int64_t d = 0; d < batchDims; ++d)
    addDim(model.batch, {targetType.getDimSize(d),
                         {strides[0][d], strides[1][d], strides[2][d]}});
  for (int64_t d = batchDims; d < dim; ++d)
    addDim(model.planes,
           {targetType.getDimSize(d), {strides[0][d], strides[1][d], 0}});
  for (int64_t d = 0; d < numIndexed; ++d)
    addDim(model.indexed,
           {indexType.getDimSize(batchDims + d),
            {0, strides[1][dim + d], strides[2][batchDims + d]}});
  for (int64_t d = dim + 1; d < targetType.getRank(); ++d)
    addDim(model.slice, {targetType.getDimSize(d),
                         {strides[0][d], strides[1][d - 1 + numIndexed], 0}});
  model.size = targetType.getDimSize(dim);
  model.stride = strides[0][dim];
  return model;
}

//===----------------------------------------------------------------------===//
// ScatterEmitter
//===----------------------------------------------------------------------===//

ScatterEmitter::ScatterEmitter(const ScatterModel &model, ValueRange buffers,
                               OpBuilder &b, Location loc)
    : model(model), b(b), loc(loc) {
  for (auto [tensor, argument] : llvm::zip(flat, model.arguments)) {
    if (!argument)
      continue;
    auto type = cast<MemRefType>(buffers[*argument].getType());
    int64_t span = *mprt::spanOf(type); // layouts have known strides
    tensor = memref::ReinterpretCastOp::create(
        b, loc, MemRefType::get({span}, type.getElementType()),
        buffers[*argument], 0, ArrayRef<int64_t>{span}, ArrayRef<int64_t>{1});
  }
}

Value ScatterEmitter::number(int64_t value) {
  return indexConstant(b, loc, value);
}

Value ScatterEmitter::constantInMemory(TypedAttr value) {
  if (value.getType().isInteger(1))
    value = b.getI8IntegerAttr(cast<IntegerAttr>(value).getValue().isOne());
  return arith::ConstantOp::create(b, loc, value);
}

ScatterEmitter::Offsets ScatterEmitter::origin() {
  Value zero = number(0);
  return {zero, zero, zero};
}

ScatterEmitter::Offsets ScatterEmitter::move(Offsets offsets, Value coordinate,
                                             const ScatterModel::Dim &dim) {
  for (auto [offset, stride] : llvm::zip(offsets, dim.strides))
    offset = addScaled(b, loc, offset, coordinate, stride);
  return offsets;
}

Value ScatterEmitter::loadIndex(const Offsets &offsets) {
  Value index;
  if (flat[ScatterModel::Indices])
    index = memref::LoadOp::create(b, loc, flat[ScatterModel::Indices],
                                   offsets[ScatterModel::Indices]);
  else
    index =
        arith::ConstantOp::create(b, loc, model.uniform[ScatterModel::Indices]);
  return arith::IndexCastOp::create(b, loc, b.getIndexType(), index);
}

Value ScatterEmitter::isValid(Value index) {
  Value valid;
  if (!model.op.getClamp())
    valid = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, index,
                                  number(model.size));
  std::optional<uint64_t> skipped = model.op.getSkipped();
  if (!skipped)
    return valid;
  // Of the element that is combined: clamped indices are skipped, too.
  Value counts = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne,
                                       toElement(index),
                                       number(static_cast<int64_t>(*skipped)));
  return valid ? arith::AndIOp::create(b, loc, valid, counts).getResult()
               : counts;
}

Value ScatterEmitter::toElement(Value index) {
  if (!model.op.getClamp())
    return index;
  index = arith::MaxSIOp::create(b, loc, index, number(0));
  return arith::MinSIOp::create(b, loc, index, number(model.size - 1));
}

void ScatterEmitter::update(const Offsets &offsets,
                            const ScatterModel::Dim &dim, int64_t width,
                            Value mask, llvm::MaybeAlign alignment) {
  using Tensor = ScatterModel::Tensor;
  Type element =
      cast<RankedTensorType>(model.op.getOperand().getType()).getElementType();
  auto load = [&](Tensor tensor) -> Value {
    if (width == 0)
      return memref::LoadOp::create(b, loc, flat[tensor], offsets[tensor]);
    return loadLanes(b, loc, flat[tensor], offsets[tensor], dim.strides[tensor],
                     width, mask, alignment);
  };
  std::optional<Reduction> reduction = symbolizeReduction(model.op.getKind());
  Value value;
  if (flat[Tensor::Updates]) {
    value = load(Tensor::Updates);
  } else {
    value = constantInMemory(model.uniform[Tensor::Updates]);
    if (width != 0)
      value = splat(b, loc, value, width);
  }
  if (reduction) {
    value = fromMemory(b, loc, value, element);
    Value old = fromMemory(b, loc, load(Tensor::Target), element);
    value = ::mpcomm::combine(b, loc, *reduction, old, value);
    value = toMemory(b, loc, value, element);
  }
  if (width == 0)
    memref::StoreOp::create(b, loc, value, flat[Tensor::Target],
                            offsets[Tensor::Target]);
  else
    storeLanes(b, loc, flat[Tensor::Target], offsets[Tensor::Target],
               dim.strides[Tensor::Target], value, mask, alignment);
}

} // namespace mpcomm::kernels
