//===- MPRT.cpp - the runtime dialect -------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verification and memory effects of the calls of the runtime.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using namespace mpcomm;
using namespace mpcomm::mprt;

#include "mpcomm/Dialect/MPRT/IR/MPRTDialect.cpp.inc"

void MPRTDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "mpcomm/Dialect/MPRT/IR/MPRTOps.cpp.inc"
      >();
}

bool mpcomm::mprt::isContiguous(MemRefType type) {
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(type.getStridesAndOffset(strides, offset)))
    return false;
  int64_t expected = 1;
  for (int64_t d = type.getRank() - 1; d >= 0; --d) {
    if (type.getDimSize(d) == 1)
      continue;
    if (strides[d] != expected)
      return false;
    expected *= type.getDimSize(d);
  }
  return true;
}

//===----------------------------------------------------------------------===//
// What ops in destination style have in common
//===----------------------------------------------------------------------===//

/// Operands are all tensors or all buffers; results mirror tensor outputs.
static LogicalResult verifyDestinationStyle(Operation *op, ValueRange inputs,
                                            ValueRange outputs) {
  bool tensors = false, buffers = false;
  for (Value operand : op->getOperands())
    (isa<TensorType>(operand.getType()) ? tensors : buffers) = true;
  if (tensors && buffers)
    return op->emitOpError("expects operands that are all tensors or all "
                           "buffers");
  if (!tensors && op->getNumResults())
    return op->emitOpError("expects no results on buffers");
  if (tensors && !llvm::equal(outputs.getTypes(), op->getResultTypes()))
    return op->emitOpError("expects results of its outputs' types");
  return success();
}

using Effects =
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

/// Buffers among `operands` are read, written or both; tensors have no effect.
static void addEffects(MutableOperandRange operands, bool read, bool write,
                       Effects &effects) {
  for (OpOperand &operand : operands) {
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    if (read)
      effects.emplace_back(MemoryEffects::Read::get(), &operand,
                           SideEffects::DefaultResource::get());
    if (write)
      effects.emplace_back(MemoryEffects::Write::get(), &operand,
                           SideEffects::DefaultResource::get());
  }
}

static void addEffects(OpOperand &operand, bool read, bool write,
                       Effects &effects) {
  addEffects(MutableOperandRange(operand), read, write, effects);
}

//===----------------------------------------------------------------------===//
// LaunchOp
//===----------------------------------------------------------------------===//

LogicalResult LaunchOp::verify() {
  return verifyDestinationStyle(*this, getInputs(), getOutputs()); // C1, C2
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<FunctionOpInterface>(
      *this, getKernelAttr());
  if (!kernel || !kernel->hasAttr(kKernelAttr)) // launch C3
    return emitOpError() << "expects " << getKernelAttr()
                         << " to be a function with the attribute '"
                         << kKernelAttr << "'";
  if (kernel.getNumArguments() != getNumOperands())
    return emitOpError() << "has " << getNumOperands() << " operands, but "
                         << getKernelAttr() << " takes "
                         << kernel.getNumArguments();
  for (auto [i, pair] : llvm::enumerate(
           llvm::zip(getOperandTypes(), kernel.getArgumentTypes()))) {
    auto [operand, argument] = pair;
    auto from = cast<ShapedType>(operand);
    auto to = dyn_cast<ShapedType>(argument);
    if (!to || to.getShape() != from.getShape())
      return emitOpError() << "has operand #" << i << " of type " << operand
                           << ", but " << getKernelAttr() << " takes "
                           << argument;
  }
  return success();
}

void LaunchOp::getEffects(Effects &effects) {
  addEffects(getInputsMutable(), true, false, effects);
  addEffects(getOutputsMutable(), true, true, effects);
}

//===----------------------------------------------------------------------===//
// StartOp, AwaitOp, CollectiveOp
//===----------------------------------------------------------------------===//

/// Whether one of the values of I64Attrs, which ODS gives as unsigned, is
/// negative.
static bool isNegative(ArrayRef<uint64_t> values) {
  return llvm::any_of(values,
                      [](uint64_t v) { return static_cast<int64_t>(v) < 0; });
}

/// The kind that `kind` names; checks that `reduction` fits it.
static FailureOr<CollectiveKind> verifyKind(Operation *op, StringRef kind,
                                            StringRef reduction) {
  std::optional<CollectiveKind> value = symbolizeCollectiveKind(kind);
  if (!value)
    return op->emitOpError() << "does not know the collective '" << kind << "'";
  bool reduces = *value == CollectiveKind::AllReduce ||
                 *value == CollectiveKind::ReduceScatter;
  if (reduces && !symbolizeReduction(reduction))
    return op->emitOpError() << "expects a reduction for '" << kind
                             << "', got '" << reduction << "'";
  if (!reduces && !reduction.empty())
    return op->emitOpError() << "expects no reduction for '" << kind
                             << "', got '" << reduction << "'";
  return *value;
}

LogicalResult StartOp::verify() {
  FailureOr<CollectiveKind> kind =
      verifyKind(*this, getKind(), getReduction()); // start C1
  if (failed(kind) ||
      failed(verifyDestinationStyle(*this, getInputs(), getOutputs()))) // C2
    return failure();
  if (isNegative({getEvent(), getId(), getCommunicator()}))
    return emitOpError("expects numbers that are not negative");
  size_t inputs = getInputs().size(), outputs = getOutputs().size();
  bool fits;
  switch (*kind) { // start C3
  case CollectiveKind::AllReduce:
    fits = inputs == 0 && outputs >= 1;
    break;
  case CollectiveKind::Broadcast:
  case CollectiveKind::Recv:
    fits = inputs == 0 && outputs == 1;
    break;
  case CollectiveKind::Send:
    fits = inputs == 1 && outputs == 0;
    break;
  case CollectiveKind::Barrier:
    fits = inputs == 0 && outputs == 0;
    break;
  default:
    fits = inputs == 1 && outputs == 1;
  }
  if (!fits)
    return emitOpError() << "does not expect " << inputs << " inputs and "
                         << outputs << " outputs for '" << getKind() << "'";
  for (Value operand : getOperands())
    if (getElementTypeOrSelf(operand) !=
        getElementTypeOrSelf(getOperands().front()))
      return emitOpError("expects operands of one element type");
  return success();
}

/// Also writes the communicator: collectives keep their order.
static void addCommunication(Effects &effects) {
  effects.emplace_back(MemoryEffects::Write::get(),
                       CommunicatorResource::get());
}

void StartOp::getEffects(Effects &effects) {
  addCommunication(effects);
  addEffects(getInputsMutable(), true, false, effects);
  addEffects(getOutputsMutable(), true, true, effects);
}

LogicalResult mprt::AwaitOp::verify() {
  if (isNegative(getEvent()))
    return emitOpError("expects an event that is not negative");
  if (getInputs().size() > 1) // await C2
    return emitOpError() << "expects at most one input, got "
                         << getInputs().size();
  return verifyDestinationStyle(*this, getInputs(), getOutputs()); // await C1
}

void mprt::AwaitOp::getEffects(Effects &effects) {
  addCommunication(effects);
  addEffects(getInputsMutable(), true, true, effects);
  addEffects(getOutputsMutable(), true, true, effects);
}

LogicalResult CollectiveOp::verify() {
  FailureOr<CollectiveKind> kind =
      verifyKind(*this, getKind(), getReduction()); // collective C1
  if (failed(kind))
    return failure();
  if (isNegative({getId(), getCommunicator()}))
    return emitOpError("expects numbers that are not negative");
  if (getStream() != 0 && getStream() != getCommunicator() + 1) // C2
    return emitOpError() << "expects stream 0 or " << getCommunicator() + 1
                         << ", got " << getStream();
  for (Value buffer : getOperands()) // collective C3
    if (!isContiguous(cast<MemRefType>(buffer.getType())))
      return emitOpError() << "expects contiguous buffers, got "
                           << buffer.getType();
  int64_t count = getCount();
  if (count < 0)
    return emitOpError() << "expects a count that is not negative, got "
                         << count;
  bool sends =
      *kind != CollectiveKind::Recv && *kind != CollectiveKind::Barrier;
  bool receives =
      *kind != CollectiveKind::Send && *kind != CollectiveKind::Barrier;
  auto elements = [](Value v) {
    return cast<MemRefType>(v.getType()).getNumElements();
  };
  if ((sends && elements(getSend()) < count) ||
      (receives && elements(getRecv()) < count))
    return emitOpError() << "moves " << count
                         << " elements, more than its buffers hold";
  return success();
}

void CollectiveOp::getEffects(Effects &effects) {
  addCommunication(effects);
  addEffects(getSendMutable(), true, false, effects);
  addEffects(getRecvMutable(), true, true, effects);
}

//===----------------------------------------------------------------------===//
// GemmOp, CopyOp, ZeroOp, events
//===----------------------------------------------------------------------===//

LogicalResult GemmOp::verify() {
  if (isNegative({getM() - 1, getN() - 1, getK() - 1})) // gemm C1
    return emitOpError("expects positive sizes");
  for (ArrayRef<int64_t> strides :
       {getAStrides(), getBStrides(), getCStrides()})
    if (strides.size() != 2)
      return emitOpError("expects two strides for each matrix");
  size_t batch = getBatch().size();
  if (batch > 4 || getABatchStrides().size() != batch ||
      getBBatchStrides().size() != batch || getCBatchStrides().size() != batch)
    return emitOpError("expects at most 4 batch dimensions, with a stride of "
                       "each matrix for each");
  auto unit = [](ArrayRef<int64_t> s) { return s[0] == 1 || s[1] == 1; };
  if (!unit(getAStrides()) || !unit(getBStrides()) || getCStrides()[1] != 1)
    return emitOpError("expects a unit stride in A and in B, and in the rows "
                       "of C"); // gemm C2
  return success();
}

void GemmOp::getEffects(Effects &effects) {
  addEffects(getAMutable(), true, false, effects);
  addEffects(getBMutable(), true, false, effects);
  addEffects(getCMutable(), getAccumulate(), true, effects);
}

LogicalResult CopyOp::verify() {
  auto from = cast<MemRefType>(getSource().getType());
  auto to = cast<MemRefType>(getTarget().getType());
  if (from.getShape() != to.getShape() ||
      from.getElementType() != to.getElementType() || !isContiguous(from) ||
      !isContiguous(to)) // copy C1
    return emitOpError() << "expects contiguous buffers of one shape and "
                            "element type, got "
                         << from << " and " << to;
  return success();
}

void CopyOp::getEffects(Effects &effects) {
  addEffects(getSourceMutable(), true, false, effects);
  addEffects(getTargetMutable(), false, true, effects);
}

LogicalResult ZeroOp::verify() {
  if (!isContiguous(cast<MemRefType>(getTarget().getType()))) // zero C1
    return emitOpError() << "expects a contiguous buffer, got "
                         << getTarget().getType();
  return success();
}

void ZeroOp::getEffects(Effects &effects) {
  addEffects(getTargetMutable(), false, true, effects);
}

static LogicalResult verifyEvent(Operation *op, int64_t stream, int64_t event) {
  if (stream < 0 || event < 0) // record C1, wait C1
    return op->emitOpError("expects numbers that are not negative");
  return success();
}

LogicalResult RecordOp::verify() {
  return verifyEvent(*this, getStream(), getEvent());
}
LogicalResult WaitOp::verify() {
  return verifyEvent(*this, getStream(), getEvent());
}

#define GET_OP_CLASSES
#include "mpcomm/Dialect/MPRT/IR/MPRTOps.cpp.inc"
