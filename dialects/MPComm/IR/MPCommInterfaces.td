//===- MPCommInterfaces.td - interfaces of ops -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes query ops through these interfaces instead of by name. External models
// implement them for arith, math, tensor and linalg (lib/Analysis).
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_IR_INTERFACES
#define MPCOMM_IR_INTERFACES

include "mlir/IR/OpBase.td"

def MPComm_PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::mpcomm";
  let description = [{
    The precision in which an op may run:
    - `lower_precision`: the op gains from 16-bit (or 8-bit) operands and stays
      accurate if sums are in the accumulation type (contractions);
    - `fp32`: the op needs f32 (losses, statistics, optimizer updates);
    - `promote`: the op follows the widest of its inputs (elementwise ops);
    - `any`: the op only moves or copies elements, so any type is correct.
  }];
  let methods = [
    InterfaceMethod<"The precision class of this op.",
      "::mpcomm::PrecisionClass", "getPrecisionClass", (ins), [{}],
      [{ return ::mpcomm::PrecisionClass::Promote; }]>,
    InterfaceMethod<[{The type in which the op must compute sums, or null if it
      computes none.}],
      "::mlir::Type", "getAccumulationType", (ins), [{}],
      [{ return ::mlir::Type(); }]>
  ];
}

def MPComm_CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::mpcomm";
  let description = [{
    The work of one execution without fusion: the number of floating-point
    operations (a multiply-add counts as two; exp, tanh, erf, log, sqrt and a
    division count as one each), and the bytes read from and written to memory.
  }];
  let methods = [
    InterfaceMethod<"Floating-point operations of one execution.",
      "int64_t", "getFlops", (ins), [{}],
      [{ return ::mpcomm::detail::countResultElements($_op); }]>,
    InterfaceMethod<"Bytes of all operands.",
      "int64_t", "getBytesRead", (ins), [{}],
      [{ return ::mpcomm::detail::countBytes($_op->getOperandTypes()); }]>,
    InterfaceMethod<"Bytes of all results.",
      "int64_t", "getBytesWritten", (ins), [{}],
      [{ return ::mpcomm::detail::countBytes($_op->getResultTypes()); }]>,
    InterfaceMethod<[{The element type of the factors of its products, which
      determines the rate of the device. The default is the widest type of the
      operands; ops that have other operands too override it.}],
      "::mlir::Type", "getProductType", (ins), [{}], [{
        ::mlir::Type widest;
        for (::mlir::Type type : $_op->getOperandTypes()) {
          auto shaped = ::llvm::dyn_cast<::mlir::ShapedType>(type);
          ::mlir::Type element = shaped ? shaped.getElementType() : type;
          if (element.isIntOrFloat() &&
              (!widest || element.getIntOrFloatBitWidth() >
                              widest.getIntOrFloatBitWidth()))
            widest = element;
        }
        return widest;
      }]>,
    InterfaceMethod<[{The kind of kernels that compute its products, which
      determines the share of that rate that they reach.}],
      "::mpcomm::ProductKind", "getProductKind", (ins), [{}],
      [{ return ::mpcomm::ProductKind::MatrixProduct; }]>
  ];
}

def MPComm_CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::mpcomm";
  let description = [{
    An op in which all ranks of a group take part: the ranks whose mesh
    coordinates differ only along the named axes.
  }];
  let methods = [
    InterfaceMethod<"The kind of collective.",
      "::mpcomm::CollectiveKind", "getCollectiveKind">,
    InterfaceMethod<"The symbol of the mesh.",
      "::mlir::FlatSymbolRefAttr", "getMeshAttr">,
    InterfaceMethod<"The names of the mesh axes that the group spans.",
      "::mlir::ArrayAttr", "getAxesAttr">,
    InterfaceMethod<[{The reduction; nothing if the op does not reduce.}],
      "::std::optional<::mpcomm::Reduction>", "getCollectiveReduction", (ins),
      [{}], [{ return std::nullopt; }]>,
    InterfaceMethod<[{The element type on the wire; null: the operands' own.}],
      "::mlir::Type", "getWireType", (ins), [{}],
      [{ return ::mlir::Type(); }]>,
    InterfaceMethod<[{The type in which partial results are kept; null: the
      operands' own.}],
      "::mlir::Type", "getAccumulateType", (ins), [{}],
      [{ return ::mlir::Type(); }]>,
    InterfaceMethod<[{The channel: each channel of a group is a communicator.
      Collectives on one channel meet in the order in which they start;
      collectives on different channels do not wait for one another.}],
      "int64_t", "getChannel", (ins), [{}], [{ return 0; }]>,
    InterfaceMethod<"Bytes of payload that this rank contributes or receives.",
      "int64_t", "getPayloadBytes", (ins), [{}],
      [{ return ::mpcomm::detail::countPayloadBytes($_op); }]>,
    InterfaceMethod<[{The group rank that is the root, the destination or the
      source; nothing if all ranks have the same part.}],
      "::std::optional<int64_t>", "getPeer", (ins), [{}],
      [{ return ::std::nullopt; }]>,
    InterfaceMethod<[{For each of `ranks` group ranks, the group rank that it
      sends to, or -1; empty if the op is not a permute.}],
      "::llvm::SmallVector<int64_t>", "getTargets", (ins "int64_t":$ranks),
      [{}], [{ return {}; }]>,
    InterfaceMethod<[{The number of ranks in the group, or failure if the mesh
      or an axis is not found.}],
      "::llvm::FailureOr<int64_t>", "getGroupSize", (ins), [{}],
      [{ return ::mpcomm::detail::lookupGroupSize($_op, $_op.getMeshAttr(),
                                                 $_op.getAxesAttr()); }]>
  ];
  let verify = [{ return ::mpcomm::detail::verifyCollective($_op); }];
}

def MPComm_BucketableOpInterface
    : OpInterface<"BucketableOpInterface", [MPComm_CollectiveOpInterface]> {
  let cppNamespace = "::mpcomm";
  let description = [{
    A collective that makes result i of operand i, whatever the other operands
    are: several of them may be one op, a bucket, which is one collective on the
    wire. `createBucket` (MPComm.h) makes one.
  }];
  let methods = [
    InterfaceMethod<[{Equal for ops that may share a bucket: kind, mesh, axes,
      reduction, wire, accumulation type, channel, element type and discardable
      attributes. Null if the operands have several element types.}],
      "::mlir::Attribute", "getBucketKey", (ins), [{}],
      [{ return ::mpcomm::detail::getBucketKey($_op); }]>,
    InterfaceMethod<[{The names of attributes that have an entry for each
      operand; DenseI64ArrayAttrs.}],
      "::llvm::SmallVector<::llvm::StringRef>", "getOperandLists", (ins), [{}],
      [{ return {}; }]>,
    InterfaceMethod<[{Whether any range of an operand's elements may travel by
      itself.}],
      "bool", "isSplittable", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<[{Whether computation waits for its results, rather than
      they for operands that are computed last: gathers of what was there
      before, and reductions of what the step before has left.}],
      "bool", "isGather", (ins), [{}], [{
        return $_op.getCollectiveKind() == ::mpcomm::CollectiveKind::AllGather;
      }]>
  ];
  let verify = [{ return ::mpcomm::detail::verifyBucket($_op); }];
}

def MPComm_RankDependentOpInterface : OpInterface<"RankDependentOpInterface"> {
  let cppNamespace = "::mpcomm";
  let description = [{
    An op whose result depends on the rank that runs it, without communication.
  }];
  let methods = [
    InterfaceMethod<"The symbol of the mesh.",
      "::mlir::FlatSymbolRefAttr", "getMeshAttr">,
    InterfaceMethod<"The mesh axes whose coordinates the result depends on.",
      "::mlir::ArrayAttr", "getAxesAttr">
  ];
  let verify = [{
    return ::mpcomm::detail::verifyAxes(
        $_op, ::llvm::cast<::mpcomm::RankDependentOpInterface>($_op)
                  .getAxesAttr());
  }];
}

def MPComm_OptimizerOpInterface : OpInterface<"OptimizerOpInterface"> {
  let cppNamespace = "::mpcomm";
  let description = [{
    An op that consumes gradients of the whole batch. If the batch is split over
    ranks, the gradients must be reduced before the op.
  }];
  let methods = [
    InterfaceMethod<"The operands that are gradients.",
      "::llvm::SmallVector<::mlir::OpOperand *>", "getGradientOperands">,
    InterfaceMethod<[{The result that is this gradient times a factor. The
      factor may depend on all gradients (a norm, a scale). Null if there is no
      such result.}],
      "::mlir::OpResult", "getHandedOn", (ins "::mlir::OpOperand &":$gradient),
      [{}], [{ return ::mlir::OpResult(); }]>,
    InterfaceMethod<[{Whether an element of a result depends on that element of
      the operands of its shape alone, and on operands that are scalars: then
      ranks may each update a part.}],
      "bool", "isElementwise", (ins), [{}], [{ return false; }]>
  ];
}

def MPComm_LinearOpInterface : OpInterface<"LinearOpInterface"> {
  let cppNamespace = "::mpcomm";
  let description = [{
    An op that is linear in some of its operands: if these are multiplied by a
    positive factor, so are the results. getLinearity tells which operands, and
    whether all of them or any one must be multiplied.
  }];
  let methods = [
    InterfaceMethod<"The operands in which the op is linear, and how.",
      "::mpcomm::Linearity", "getLinearity">
  ];
}

class MPComm_LinearTrait<string name> : NativeOpTrait<name> {
  let cppNamespace = "::mpcomm::linear";
}
/// Linear in all float operands together: sums, selections, and ops that only
/// move elements.
def MPComm_LinearJointly : TraitList<[
    MPComm_LinearTrait<"LinearJointly">,
    MPComm_LinearOpInterface]>;
/// Linear in each operand: products.
def MPComm_LinearInEach : TraitList<[
    MPComm_LinearTrait<"LinearInEach">,
    MPComm_LinearOpInterface]>;
/// Linear in the first operand, which is the gradient of another op's result.
def MPComm_LinearInGradient : TraitList<[
    MPComm_LinearTrait<"LinearInGradient">,
    MPComm_LinearOpInterface]>;
/// Linear in each operand; the first one is the gradient of another op's
/// result.
def MPComm_GradientProduct : TraitList<[
    MPComm_LinearTrait<"GradientProduct">,
    MPComm_LinearOpInterface]>;

def MPComm_ShardingOpInterface : OpInterface<"ShardingOpInterface"> {
  let cppNamespace = "::mpcomm";
  let description = [{
    An op that says which dimensions of its operands and results ranks may have
    blocks of, and in which operands partial sums give partial sums.
  }];
  let methods = [
    InterfaceMethod<[{The factors, for the types that the op has: those of the
      whole, or of what a rank holds.}],
      "::mpcomm::ShardingRule", "getShardingRule">
  ];
}

def MPComm_MovementOpInterface : OpInterface<"MovementOpInterface"> {
  let cppNamespace = "::mpcomm";
  let description = [{
    An op with one result that consists of elements of its first operand in
    other places. So the op commutes with casts and with factors.
  }];
  let methods = [
    InterfaceMethod<[{Whether each element of the operand occurs exactly once in
      the result.}],
      "bool", "isOneToOne", (ins), [{}], [{ return false; }]>
  ];
}

def MPComm_FeatureLayoutOpInterface : OpInterface<"FeatureLayoutOpInterface"> {
  let cppNamespace = "::mpcomm";
  let description = [{
    An op on images (tensors of rank 4) that supports features (channels) as
    dimension 1 or as the last dimension.
  }];
  let methods = [
    InterfaceMethod<"Whether it has images with features as dimension 1.",
      "bool", "hasFeaturesSecond">,
    InterfaceMethod<[{Sets features to be last. The caller replaces the image
      operands, and changes the types of the image results.}],
      "void", "setFeaturesLast">,
    InterfaceMethod<"The operands that are images.",
      "::llvm::SmallVector<unsigned>", "getImageOperands">,
    InterfaceMethod<"The results that are images.",
      "::llvm::SmallVector<unsigned>", "getImageResults">
  ];
}

#endif // MPCOMM_IR_INTERFACES
