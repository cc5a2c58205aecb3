//===- MPRTBufferization.cpp - launches and collectives on buffers --------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ops in destination style bufferize to themselves on buffers: outputs are
// written in place where one-shot analysis allows it. A collective and its
// await form a chain over the same outputs, so that a bucket stays where it is
// while the collective is in flight.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Bufferization/IR/DstBufferizableOpInterfaceImpl.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

using namespace mlir;
using namespace mlir::bufferization;
using namespace mpcomm::mprt;

namespace {

/// Reuses the op with buffers for operands and no results. Outputs count as
/// read: collectives are in place, and a kernel may update what it is given.
template <typename OpTy>
struct InPlaceModel
    : public DstBufferizableOpInterfaceExternalModel<InPlaceModel<OpTy>, OpTy> {
  // A bucket has hundreds of operands: the default would ask each of them for
  // each result.
  AliasingOpOperandList getAliasingOpOperands(Operation *op, Value value,
                                              const AnalysisState &) const {
    auto result = dyn_cast<OpResult>(value);
    if (!result || result.getOwner() != op)
      return {};
    OpOperand *output =
        cast<DestinationStyleOpInterface>(op).getTiedOpOperand(result);
    return {{output, BufferRelation::Equivalent, /*isDefinite=*/true}};
  }

  LogicalResult bufferize(Operation *op, RewriterBase &rewriter,
                          const BufferizationOptions &options,
                          BufferizationState &state) const {
    auto dst = cast<DestinationStyleOpInterface>(op);
    if (!dst.hasPureTensorSemantics())
      return success();
    SmallVector<Value> operands, outputs;
    for (OpOperand &operand : op->getOpOperands()) {
      FailureOr<Value> buffer =
          getBuffer(rewriter, operand.get(), options, state);
      if (failed(buffer))
        return op->emitOpError("operand has no buffer");
      operands.push_back(*buffer);
      if (dst.isDpsInit(&operand))
        outputs.push_back(*buffer);
    }
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPoint(op);
    OperationState newOp(op->getLoc(), op->getName());
    newOp.addOperands(operands);
    newOp.propertiesAttr = op->getPropertiesAsAttribute();
    newOp.addAttributes(llvm::to_vector(op->getDiscardableAttrs()));
    rewriter.create(newOp);
    replaceOpWithBufferizedValues(rewriter, op, outputs);
    return success();
  }
};

} // namespace

void mpcomm::mprt::registerBufferizableOpInterfaceExternalModels(
    DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, MPRTDialect *) {
    LaunchOp::attachInterface<InPlaceModel<LaunchOp>>(*context);
    CallOp::attachInterface<InPlaceModel<CallOp>>(*context);
    AttentionOp::attachInterface<InPlaceModel<AttentionOp>>(*context);
    ConvolutionOp::attachInterface<InPlaceModel<ConvolutionOp>>(*context);
    PoolOp::attachInterface<InPlaceModel<PoolOp>>(*context);
    AllSliceOp::attachInterface<InPlaceModel<AllSliceOp>>(*context);
    StartOp::attachInterface<InPlaceModel<StartOp>>(*context);
    AwaitOp::attachInterface<InPlaceModel<AwaitOp>>(*context);
  });
}
