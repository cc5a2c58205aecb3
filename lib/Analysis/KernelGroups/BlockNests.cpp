//===- BlockNests.cpp - the linalg ops of a block as loop nests -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/KernelGroups/BlockNests.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/RegionUtils.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

using namespace mlir;
using namespace mpcomm;
using linalg::LinalgOp;
using OpKind = KernelProblem::OpKind;

/// The most arithmetic that may be repeated for every row.
static constexpr unsigned kMaxCheapOps = 4;

bool mpcomm::isElementOfKernels(Type type) {
  if (isa<Float8E4M3FNType, Float8E5M2Type, Float16Type, BFloat16Type,
          Float32Type, Float64Type>(type))
    return true;
  auto integer = dyn_cast<IntegerType>(type);
  return integer &&
         llvm::is_contained({1u, 8u, 16u, 32u, 64u}, integer.getWidth());
}

bool mpcomm::isView(Operation *op) {
  return isa<tensor::ExtractSliceOp, tensor::CollapseShapeOp,
             tensor::ExpandShapeOp, tensor::CastOp, tensor::EmptyOp,
             arith::ConstantOp>(op);
}

bool mpcomm::isLibraryCall(Operation *op) {
  return isa<linalg::ContractionOpInterface, mprt::AttentionOp,
             mprt::ConvolutionOp, mprt::PoolOp>(op);
}

bool mpcomm::isWidening(Operation *candidate) {
  auto op = dyn_cast<linalg::GenericOp>(candidate);
  if (!op || op.getNumDpsInputs() != 1 || op.getNumDpsInits() != 1 ||
      op.getNumReductionLoops() != 0 || !op.hasPureTensorSemantics())
    return false;
  Block *body = op.getBlock();
  auto widen = dyn_cast<arith::ExtFOp>(body->front());
  return widen && body->getOperations().size() == 2 &&
         widen.getIn() == body->getArgument(0) &&
         body->getTerminator()->getOperand(0) == widen.getOut();
}

bool mpcomm::isWideningOf8Bits(Operation *op) {
  return isWidening(op) &&
         getElementTypeOrSelf(op->getOperand(0)).getIntOrFloatBitWidth() == 8;
}

bool mpcomm::isBroadcast(Operation *candidate) {
  auto op = dyn_cast<linalg::GenericOp>(candidate);
  if (!op || op.getNumDpsInputs() != 1 || op.getNumResults() != 1 ||
      !op.getIndexingMapsArray()[1].isIdentity())
    return false;
  auto yield = cast<linalg::YieldOp>(op.getBody()->getTerminator());
  if (yield.getValues().front() != op.getBody()->getArgument(0))
    return false;
  int64_t last = -1;
  for (AffineExpr expr : op.getIndexingMapsArray()[0].getResults()) {
    if (isa<AffineConstantExpr>(expr))
      continue;
    auto dim = dyn_cast<AffineDimExpr>(expr);
    if (!dim || static_cast<int64_t>(dim.getPosition()) <= last)
      return false;
    last = dim.getPosition();
  }
  return true;
}

SmallVector<Value> mpcomm::getCapturedTensors(Operation *op) {
  llvm::SetVector<Value> used;
  getUsedValuesDefinedAbove(op->getRegions(), used);
  return llvm::filter_to_vector(
      used, [](Value value) { return isa<TensorType>(value.getType()); });
}

/// A fill that goes with what starts from it: reductions take it along, and a
/// contraction onto zero overwrites.
static bool isInitOnly(linalg::FillOp fill) {
  if (fill->use_empty())
    return true;
  return llvm::all_of(fill->getUses(), [](OpOperand &use) {
    auto user = dyn_cast<DestinationStyleOpInterface>(use.getOwner());
    return user && isa<LinalgOp, mprt::ScatterOp>(*user) &&
           user.isDpsInit(&use);
  });
}

static bool isZeroFill(linalg::FillOp fill) {
  return matchPattern(fill.value(), m_PosZeroFloat()) ||
         matchPattern(fill.value(), m_Zero());
}

static OpKind classify(Operation *op) {
  if (isView(op))
    return OpKind::View;
  if (auto fill = dyn_cast<linalg::FillOp>(op)) {
    if (isInitOnly(fill))
      return OpKind::Init;
    return isZeroFill(fill) ? OpKind::Other : OpKind::Nest;
  }
  bool isNest = isa<mprt::ScatterOp>(op) ||
                (isa<LinalgOp>(op) && !isa<linalg::ContractionOpInterface>(op));
  return isNest ? OpKind::Nest : OpKind::Other;
}

/// Reports what no kernel can hold.
static LogicalResult checkNest(LinalgOp op) {
  if (!op.hasPureTensorSemantics())
    return op->emitOpError("expected tensors, to make a kernel of it");
  for (AffineMap map : op.getIndexingMapsArray())
    for (AffineExpr expr : map.getResults())
      if (!isa<AffineDimExpr, AffineConstantExpr>(expr))
        return op->emitOpError("expected maps of loops and constants, to make "
                               "a kernel of it, found ")
               << AffineMapAttr::get(map);
  for (Type type : op->getOperandTypes())
    if (auto shaped = dyn_cast<ShapedType>(type);
        shaped && !shaped.hasStaticShape())
      return op->emitOpError("expected static shapes, to make a kernel of it");
  // Scalars, and those that inits are filled with.
  SmallVector<Value> scalars;
  for (Value value : op->getOperands()) {
    auto fill = value.getDefiningOp<linalg::FillOp>();
    if (!isa<TensorType>(value.getType()))
      scalars.push_back(value);
    else if (fill && llvm::is_contained(op.getDpsInits(), value))
      scalars.push_back(fill.value());
  }
  for (Value value : scalars)
    if (!value.getDefiningOp<arith::ConstantOp>())
      return op->emitOpError("expected constants for scalar operands, to make "
                             "a kernel of it");
  return success();
}

static bool isCheap(LinalgOp op) {
  if (op.getNumReductionLoops() != 0)
    return false;
  unsigned count = 0;
  for (Operation &nested : op.getBlock()->without_terminator()) {
    if (isa<arith::ConstantOp, linalg::IndexOp>(nested))
      continue;
    bool isSlow = isa<arith::DivFOp, arith::RemFOp, arith::DivSIOp,
                      arith::DivUIOp, arith::RemSIOp, arith::RemUIOp>(nested);
    if (!isa_and_nonnull<arith::ArithDialect>(nested.getDialect()) || isSlow)
      return false;
    ++count;
  }
  return count <= kMaxCheapOps;
}

static LoopIndex getIndex(AffineMap map) {
  LoopIndex index;
  for (AffineExpr expr : map.getResults()) {
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      index.push_back(dim.getPosition());
    else
      index.push_back(-1 - cast<AffineConstantExpr>(expr).getValue());
  }
  return index;
}

/// Whether `init` has values that the caller sees.
static bool isGiven(Value init) {
  return !isa_and_nonnull<tensor::EmptyOp, linalg::FillOp>(
      init.getDefiningOp());
}

LogicalResult BlockNests::addNest(Operation &op) {
  LoopNest nest;
  for (Value captured : getCapturedTensors(&op))
    nest.captured.push_back(addValue(captured));
  if (auto loops = dyn_cast<LinalgOp>(op)) {
    if (failed(checkNest(loops)))
      return failure();
    nest.sizes = loops.getStaticLoopRanges();
    for (utils::IteratorType iterator : loops.getIteratorTypesArray())
      nest.isReduction.push_back(iterator == utils::IteratorType::reduction);
    for (OpOperand *operand : loops.getDpsInputOperands())
      if (isa<TensorType>(operand->get().getType()))
        nest.reads.push_back({addValue(operand->get()),
                              getIndex(loops.getMatchingIndexingMap(operand))});
    for (OpResult result : op.getResults()) {
      OpOperand *init = loops.getDpsInitOperand(result.getResultNumber());
      nest.writes.push_back(
          {addValue(result),
           getIndex(loops.getIndexingMapMatchingResult(result)),
           addValue(init->get()),
           loops.payloadUsesValueFromOperand(init) && isGiven(init->get())});
    }
    nest.isCheap = isCheap(loops);
    nest.isWideningOf8Bits = isWideningOf8Bits(&op);
  } else {
    auto scatter = cast<mprt::ScatterOp>(op);
    nest.isScatter = true;
    for (Value input : scatter.getDpsInputs())
      nest.captured.push_back(addValue(input));
    Value init = scatter.getOperand();
    nest.writes.push_back(
        {addValue(scatter.getResult()), {}, addValue(init), isGiven(init)});
  }
  problem.ops.back().nest = static_cast<int>(problem.nests.size());
  problem.nests.push_back(std::move(nest));
  return success();
}

int BlockNests::addValue(Value value) {
  auto [entry, isNew] =
      valueNumbers.try_emplace(value, static_cast<int>(values.size()));
  if (!isNew)
    return entry->second;
  KernelProblem::Value known;
  Operation *def = value.getDefiningOp();
  known.bytes = mpcomm::detail::countBytes(TypeRange{value.getType()});
  known.type = value.getType().getAsOpaquePointer();
  known.maker = getNumber(def);
  known.isUniform = matchPattern(value, m_Constant<SplatElementsAttr>(nullptr));
  known.isFilled = isa_and_nonnull<tensor::EmptyOp, linalg::FillOp>(def);
  auto type = dyn_cast<RankedTensorType>(value.getType());
  known.isScalar = !type || type.getRank() == 0;
  values.push_back(value);
  problem.values.push_back(std::move(known));
  return entry->second;
}

int BlockNests::getNumber(Operation *op) const {
  auto found = opNumbers.find(op);
  return found == opNumbers.end() ? -1 : found->second;
}

int BlockNests::getNumber(Value value) const {
  auto found = valueNumbers.find(value);
  return found == valueNumbers.end() ? -1 : found->second;
}

void BlockNests::addOp(Operation &op) {
  opNumbers[&op] = static_cast<int>(ops.size());
  ops.push_back(&op);
  KernelProblem::Op known;
  known.kind = classify(&op);
  known.isLibraryCall = known.kind == OpKind::Other && isLibraryCall(&op);
  for (Value result : op.getResults())
    if (isa<TensorType>(result.getType()))
      known.results.push_back(addValue(result));
  if (known.kind == OpKind::View && op.getNumOperands() > 0 &&
      isa<TensorType>(op.getOperand(0).getType()))
    known.source = addValue(op.getOperand(0));
  problem.ops.push_back(std::move(known));
}

void BlockNests::addUsers(Block &block) {
  for (auto [value, known] : llvm::zip_equal(values, problem.values))
    for (Operation *user : value.getUsers()) {
      Operation *op = block.findAncestorOpInBlock(*user);
      known.users.push_back(op ? getNumber(op) : -1);
    }
}

FailureOr<BlockNests> BlockNests::read(Block &block) {
  BlockNests nests;
  for (BlockArgument argument : block.getArguments())
    if (isa<TensorType>(argument.getType()))
      (void)nests.addValue(argument);
  for (Operation &op : block) {
    nests.addOp(op);
    if (nests.problem.ops.back().kind == OpKind::Nest &&
        failed(nests.addNest(op)))
      return failure();
  }
  nests.addUsers(block);
  return nests;
}
