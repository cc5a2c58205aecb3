//===- MPCommInterfaces.cpp - interfaces of the mpcomm dialect ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpcomm;

#include "mpcomm/Dialect/MPComm/IR/MPCommInterfaces.cpp.inc"

bool mpcomm::detail::isCountable(Type type) {
  int64_t n = 1;
  for (int64_t size : cast<ShapedType>(type).getShape()) {
    if (size > kMaxElements / n)
      return false;
    n *= std::max<int64_t>(size, 1);
  }
  return true;
}

int64_t mpcomm::detail::multiplySaturated(int64_t a, int64_t b) {
  int64_t product;
  return llvm::MulOverflow(a, b, product) ? INT64_MAX : product;
}

Type mpcomm::detail::getSumType(Type element) {
  if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32)
    return Float32Type::get(element.getContext());
  return element;
}

int64_t mpcomm::detail::countElements(Type type) {
  auto shaped = dyn_cast<ShapedType>(type);
  return shaped && shaped.hasStaticShape() ? shaped.getNumElements() : 1;
}

int64_t mpcomm::detail::countResultElements(Operation *op) {
  int64_t n = 0;
  for (Type type : op->getResultTypes())
    n += countElements(type);
  return n;
}

int64_t mpcomm::detail::countFlops(Region &region) {
  int64_t flops = 0;
  for (auto op : region.getOps<CostOpInterface>())
    if (llvm::AddOverflow(flops, op.getFlops(), flops))
      return INT64_MAX;
  return flops;
}

int64_t mpcomm::detail::countBytes(TypeRange types) {
  int64_t n = 0;
  for (Type type : types) {
    auto shaped = dyn_cast<ShapedType>(type);
    if (!shaped || !shaped.getElementType().isIntOrFloat())
      continue;
    n += countElements(type) *
         llvm::divideCeil(shaped.getElementTypeBitWidth(), 8);
  }
  return n;
}

int64_t mpcomm::detail::countPayloadBytes(Operation *op) {
  return op->getNumOperands() ? countBytes(op->getOperandTypes())
                              : countBytes(op->getResultTypes());
}

bool mpcomm::detail::reduces(CollectiveKind kind) {
  return kind == CollectiveKind::AllReduce ||
         kind == CollectiveKind::ReduceScatter ||
         kind == CollectiveKind::Reduce;
}

bool mpcomm::detail::isMessage(CollectiveKind kind) {
  return kind == CollectiveKind::Send || kind == CollectiveKind::Recv;
}

bool mpcomm::detail::hasRoot(CollectiveKind kind) {
  return kind == CollectiveKind::Broadcast || kind == CollectiveKind::Reduce ||
         kind == CollectiveKind::Gather || kind == CollectiveKind::Scatter;
}

CollectiveOpInterface mpcomm::getCollective(Operation *op) {
  if (auto async = dyn_cast<AsyncOp>(op))
    op = async.getCollective();
  return dyn_cast_or_null<CollectiveOpInterface>(op);
}

bool mpcomm::isGradientUpdate(Operation *op) {
  return isa<OptimizerOpInterface, UpdateFp8ScaleOp>(op);
}

AsyncOp mpcomm::getAsync(Operation *op) {
  return dyn_cast_or_null<AsyncOp>(op->getParentOp());
}

//===----------------------------------------------------------------------===//
// Linearity
//===----------------------------------------------------------------------===//

Linearity Linearity::jointly(Operation *op) {
  Linearity linearity;
  linearity.kind = Joint;
  for (OpOperand &operand : op->getOpOperands())
    if (isa<FloatType>(getElementTypeOrSelf(operand.get().getType())))
      linearity.operands.push_back(&operand);
  return linearity;
}

Linearity Linearity::inEach(Operation *op, unsigned count) {
  Linearity linearity;
  linearity.kind = Each;
  for (OpOperand &operand : op->getOpOperands().take_front(count))
    linearity.operands.push_back(&operand);
  return linearity;
}

Linearity Linearity::inGradient(Operation *op, unsigned count) {
  Linearity linearity = inEach(op, count);
  linearity.gradient = &op->getOpOperand(0);
  return linearity;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

FailureOr<int64_t> mpcomm::detail::lookupGroupSize(Operation *op,
                                                   FlatSymbolRefAttr mesh,
                                                   ArrayAttr axes) {
  auto meshOp = SymbolTable::lookupNearestSymbolFrom<MeshOp>(op, mesh);
  if (!meshOp)
    return failure();
  int64_t size = 1;
  for (Attribute axis : axes) {
    std::optional<int64_t> axisSize =
        meshOp.getAxisSize(cast<StringAttr>(axis).getValue());
    if (!axisSize)
      return failure();
    size *= *axisSize;
  }
  return size;
}

LogicalResult mpcomm::detail::verifyAxes(Operation *op, ArrayAttr axes) {
  if (axes.empty()) // C2 of every collective
    return op->emitOpError("expects at least one mesh axis");
  llvm::SmallSet<StringRef, 4> seen;
  for (Attribute axis : axes)
    if (!seen.insert(cast<StringAttr>(axis).getValue()).second)
      return op->emitOpError() << "names mesh axis " << axis << " twice";
  return success();
}

LogicalResult mpcomm::detail::verifyCollective(Operation *op) {
  auto collective = cast<CollectiveOpInterface>(op);
  if (failed(verifyAxes(op, collective.getAxesAttr())))
    return failure();
  int64_t channel = collective.getChannel();
  // all_reduce C5, reduce_scatter C7, all_gather C5, all_to_all C5, send C3,
  // recv C3
  if (channel < 0 || channel > UINT16_MAX)
    return op->emitOpError() << "expects a channel from 0 to " << UINT16_MAX
                             << ", got " << channel;
  Type wire = collective.getWireType();
  Type accumulate = collective.getAccumulateType();
  for (auto [type, name] :
       {std::pair(wire, "wire"), std::pair(accumulate, "accumulate")}) {
    if (!type)
      continue;
    if (!isa<FloatType>(type)) // C3 of the reducing ones
      return op->emitOpError()
             << "expects a float type for '" << name << "', got " << type;
    for (Type operand : op->getOperandTypes())
      if (!isa<FloatType>(getElementTypeOrSelf(operand)))
        return op->emitOpError()
               << "has '" << name << "' but an operand of type " << operand
               << ", expected float elements";
  }
  for (Type operand : op->getOperandTypes()) { // C3 of the reducing ones
    Type sent = wire ? wire : getElementTypeOrSelf(operand);
    if (accumulate &&
        accumulate.getIntOrFloatBitWidth() < sent.getIntOrFloatBitWidth())
      return op->emitOpError()
             << "expects 'accumulate' to be at least as wide as what travels, "
                "got "
             << accumulate << " for " << sent;
  }
  if (collective.getCollectiveReduction() == Reduction::Mean)
    for (Type operand : op->getOperandTypes())
      if (!isa<FloatType>(getElementTypeOrSelf(operand))) // C4
        return op->emitOpError()
               << "expects float elements for 'mean', got " << operand;
  return success();
}

/// Checks that the type of result `i` is that of operand `i`, with the
/// dimensions `divided` divided, then `multiplied` multiplied, by the size of
/// the group.
static LogicalResult verifyScaledDims(Operation *op, ArrayRef<int64_t> divided,
                                      ArrayRef<int64_t> multiplied,
                                      int64_t group, unsigned i = 0) {
  auto input = cast<RankedTensorType>(op->getOperand(i).getType());
  auto result = cast<RankedTensorType>(op->getResult(i).getType());
  SmallVector<int64_t> shape(input.getShape());
  for (int64_t dim : divided) {
    if (shape[dim] % group)
      return op->emitOpError()
             << "expects dimension " << dim << " of size " << shape[dim]
             << " to be divisible by the " << group << " ranks of the group";
    shape[dim] /= group;
  }
  for (int64_t dim : multiplied) {
    if (shape[dim] > mpcomm::detail::kMaxElements / group)
      return op->emitOpError()
             << "makes dimension " << dim << " larger than any tensor's";
    shape[dim] *= group;
  }
  auto expected = RankedTensorType::get(shape, input.getElementType());
  if (result != expected)
    return op->emitOpError() << "expects result type " << expected << " for "
                             << group << " ranks, got " << result;
  return success();
}

static LogicalResult verifyDim(Operation *op, StringRef name, int64_t dim,
                               unsigned i = 0) {
  int64_t rank = cast<RankedTensorType>(op->getOperand(i).getType()).getRank();
  if (dim < 0 || dim >= rank)
    return op->emitOpError()
           << "expects '" << name << "' in [0, " << rank << "), got " << dim;
  return success();
}

static LogicalResult verifyGroupRank(Operation *op, StringRef name,
                                     int64_t value, int64_t group) {
  if (value < 0 || value >= group)
    return op->emitOpError() << "expects '" << name << "' to be one of the "
                             << group << " ranks of the group, got " << value;
  return success();
}

static LogicalResult verifyPairs(CollectivePermuteOp op, int64_t group) {
  ArrayRef<int64_t> pairs = op.getSourceTargetPairs();
  if (pairs.size() % 2) // collective_permute C4
    return op.emitOpError() << "expects two numbers for each of "
                               "'source_target_pairs', got "
                            << pairs.size() << " numbers";
  llvm::SmallDenseSet<int64_t> sources, targets;
  for (size_t i = 0; i < pairs.size(); i += 2) {
    for (int64_t rank : pairs.slice(i, 2)) // collective_permute C1
      if (failed(verifyGroupRank(op, "source_target_pairs", rank, group)))
        return failure();
    if (!sources.insert(pairs[i]).second) // collective_permute C3
      return op.emitOpError()
             << "has rank " << pairs[i] << " as the source of two pairs";
    if (!targets.insert(pairs[i + 1]).second)
      return op.emitOpError()
             << "has rank " << pairs[i + 1] << " as the target of two pairs";
  }
  return success();
}

LogicalResult mpcomm::detail::verifyMeshUse(Operation *op,
                                            FlatSymbolRefAttr name,
                                            ArrayAttr axes,
                                            SymbolTableCollection &symbols) {
  auto mesh = symbols.lookupNearestSymbolFrom<MeshOp>(op, name);
  if (!mesh)
    return op->emitOpError()
           << "names " << name << ", which is not an mpcomm.mesh";
  int64_t group = 1;
  for (Attribute axis : axes) {
    StringRef axisName = cast<StringAttr>(axis).getValue();
    std::optional<int64_t> size = mesh.getAxisSize(axisName);
    if (!size) {
      InFlightDiagnostic diag = op->emitOpError()
                                << "names axis " << axis << ", which mesh "
                                << name << " does not have";
      diag.attachNote(mesh.getLoc()) << "the mesh is here";
      return diag;
    }
    group *= *size;
  }
  if (auto scatter = dyn_cast<ReduceScatterOp>(op)) {
    for (auto [i, dim] : llvm::enumerate(scatter.getDims()))
      if (failed(verifyDim(op, "dims", dim, i)) ||         // reduce_scatter C1
          failed(verifyScaledDims(op, dim, {}, group, i))) // reduce_scatter C5
        return failure();
    return success();
  }
  if (auto slice = dyn_cast<AllSliceOp>(op)) {
    int64_t dim = slice.getDim();
    if (failed(verifyDim(op, "dim", dim))) // all_slice C1
      return failure();
    return verifyScaledDims(op, dim, {}, group); // all_slice C3
  }
  if (auto gather = dyn_cast<AllGatherOp>(op)) {
    for (auto [i, dim] : llvm::enumerate(gather.getDims()))
      if (failed(verifyDim(op, "dims", dim, i)) ||         // all_gather C1
          failed(verifyScaledDims(op, {}, dim, group, i))) // all_gather C3
        return failure();
    return success();
  }
  if (auto exchange = dyn_cast<AllToAllOp>(op)) {
    for (auto [i, split, concat] :
         llvm::enumerate(exchange.getSplitDims(), exchange.getConcatDims()))
      if (failed(verifyDim(op, "split_dims", split, i)) || // all_to_all C1
          failed(verifyDim(op, "concat_dims", concat, i)) ||
          failed(verifyScaledDims(op, split, concat, group, i))) // C3
        return failure();
    return success();
  }
  if (auto broadcast = dyn_cast<CollectiveBroadcastOp>(op))
    return verifyGroupRank(op, "root", broadcast.getRoot(), group); // C1
  if (auto permute = dyn_cast<CollectivePermuteOp>(op))
    return verifyPairs(permute, group);
  if (auto reduce = dyn_cast<CollectiveReduceOp>(op)) // collective_reduce C1
    return verifyGroupRank(op, "root", reduce.getRoot(), group);
  if (auto gather = dyn_cast<CollectiveGatherOp>(op)) {
    int64_t root = gather.getRoot(), dim = gather.getDim();
    if (failed(verifyGroupRank(op, "root", root, group)) || // C1
        failed(verifyDim(op, "dim", dim))) // collective_gather C4
      return failure();
    return verifyScaledDims(op, {}, dim, group); // collective_gather C3
  }
  if (auto scatter = dyn_cast<CollectiveScatterOp>(op)) {
    int64_t root = scatter.getRoot(), dim = scatter.getDim();
    if (failed(verifyGroupRank(op, "root", root, group)) || // C1
        failed(verifyDim(op, "dim", dim))) // collective_scatter C4
      return failure();
    return verifyScaledDims(op, dim, {}, group); // collective_scatter C3
  }
  if (auto send = dyn_cast<SendOp>(op))
    return verifyGroupRank(op, "to", send.getTo(), group); // C1
  if (auto recv = dyn_cast<RecvOp>(op))
    return verifyGroupRank(op, "from", recv.getFrom(), group); // C1
  return success();
}
