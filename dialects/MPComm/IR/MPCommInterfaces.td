//===- MPCommInterfaces.td - what passes ask of an op -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes know ops through these interfaces, never by name. External models
// give them to arith, math, tensor and linalg (lib/Analysis).
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_IR_INTERFACES
#define MPCOMM_IR_INTERFACES

include "mlir/IR/OpBase.td"

def MPComm_PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::mpcomm";
  let description = [{
    In which precision an op may run.
    - `lower_precision`: gains from 16-bit (or 8-bit) operands and keeps its
      accuracy, as long as sums are taken in the accumulation type
      (contractions);
    - `fp32`: needs f32 (losses, statistics, optimizer updates);
    - `promote`: follows the widest of its inputs (elementwise with several);
    - `any`: moves or copies elements, any type is right.
  }];
  let methods = [
    InterfaceMethod<"The precision class of this op.",
      "::mpcomm::PrecisionClass", "getPrecisionClass", (ins), [{}],
      [{ return ::mpcomm::PrecisionClass::Promote; }]>,
    InterfaceMethod<[{The type in which this op's sums must be taken, or null
      where it sums nothing.}],
      "::mlir::Type", "getAccumulationType", (ins), [{}],
      [{ return ::mlir::Type(); }]>
  ];
}

def MPComm_CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::mpcomm";
  let description = [{
    The work of one execution: floating-point operations (a multiply-add counts
    two; exp, tanh, erf, log, sqrt and a division count one each) and the bytes
    it has to read and write once, from and to memory, if nothing is fused.
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
    InterfaceMethod<[{How often it goes over its operands: more than once, where
      sums over all of them are needed before any element of another result. The
      bytes are those of one pass.}],
      "int64_t", "getPasses", (ins), [{}], [{ return 1; }]>,
    InterfaceMethod<[{The element type of what its products multiply, which says
      at what rate a device takes them: the widest of the operands, unless an op
      has operands besides those of its products.}],
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
    InterfaceMethod<[{Which kernels compute its products, which says what share
      of that rate they reach.}],
      "::mpcomm::ProductKind", "getProductKind", (ins), [{}],
      [{ return ::mpcomm::ProductKind::MatrixProduct; }]>
  ];
}

def MPComm_CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::mpcomm";
  let description = [{
    An op in which the ranks of a group take part: those whose coordinates on
    the mesh differ only along the named axes.
  }];
  let methods = [
    InterfaceMethod<"Which collective.",
      "::mpcomm::CollectiveKind", "getCollectiveKind">,
    InterfaceMethod<"The symbol of the mesh.",
      "::mlir::FlatSymbolRefAttr", "getMeshAttr">,
    InterfaceMethod<"The names of the mesh axes that the group spans.",
      "::mlir::ArrayAttr", "getAxesAttr">,
    InterfaceMethod<[{How elements are combined; empty where nothing is.}],
      "::std::optional<::mpcomm::Reduction>", "getCollectiveReduction", (ins),
      [{}], [{ return std::nullopt; }]>,
    InterfaceMethod<[{The element type on the wire; null: the operands' own.}],
      "::mlir::Type", "getWireType", (ins), [{}],
      [{ return ::mlir::Type(); }]>,
    InterfaceMethod<[{The type in which partial results are kept; null: the
      operands' own.}],
      "::mlir::Type", "getAccumulateType", (ins), [{}],
      [{ return ::mlir::Type(); }]>,
    InterfaceMethod<[{Which of the group's communicators: collectives of one
      meet in the order in which they start, those of several do not wait for
      one another.}],
      "int64_t", "getChannel", (ins), [{}], [{ return 0; }]>,
    InterfaceMethod<"Bytes of payload that this rank contributes or receives.",
      "int64_t", "getPayloadBytes", (ins), [{}],
      [{ return ::mpcomm::detail::countPayloadBytes($_op); }]>,
    InterfaceMethod<[{The group rank that it is rooted at, sends to or receives
      from; nothing where all ranks do the same.}],
      "::std::optional<int64_t>", "getPeer", (ins), [{}],
      [{ return ::std::nullopt; }]>,
    InterfaceMethod<[{For each of `ranks` group ranks the one that it sends to,
      or -1; empty where elements are not permuted.}],
      "::llvm::SmallVector<int64_t>", "getTargets", (ins "int64_t":$ranks),
      [{}], [{ return {}; }]>,
    InterfaceMethod<[{The number of ranks in the group, or failure where the
      mesh or an axis is not found.}],
      "::llvm::FailureOr<int64_t>", "getGroupSize", (ins), [{}],
      [{ return ::mpcomm::detail::lookupGroupSize($_op, $_op.getMeshAttr(),
                                                 $_op.getAxesAttr()); }]>
  ];
  let verify = [{ return ::mpcomm::detail::verifyCollective($_op); }];
}

def MPComm_RankDependentOpInterface : OpInterface<"RankDependentOpInterface"> {
  let cppNamespace = "::mpcomm";
  let description = [{
    An op that depends on which rank runs it, and needs no other rank.
  }];
  let methods = [
    InterfaceMethod<"The symbol of the mesh.",
      "::mlir::FlatSymbolRefAttr", "getMeshAttr">,
    InterfaceMethod<"The mesh axes on whose coordinates it depends.",
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
    An op that consumes gradients of the whole batch: where the batch is split
    over ranks, its gradients have to be combined first.
  }];
  let methods = [
    InterfaceMethod<"The operands that are gradients.",
      "::llvm::SmallVector<::mlir::OpOperand *>", "getGradientOperands">,
    InterfaceMethod<[{The result that is this gradient, scaled, and depends on
      the other gradients at most by what they all have in common; null where
      the op does not hand it on.}],
      "::mlir::OpResult", "getHandedOn", (ins "::mlir::OpOperand &":$gradient),
      [{}], [{ return ::mlir::OpResult(); }]>
  ];
}

def MPComm_LinearOpInterface : OpInterface<"LinearOpInterface"> {
  let cppNamespace = "::mpcomm";
  let description = [{
    An op whose results are multiplied by a positive factor where some of its
    operands are: which ones, and whether all of them together or any one.
  }];
  let methods = [
    InterfaceMethod<"How a factor on operands becomes one on the results.",
      "::mpcomm::Linearity", "getLinearity">
  ];
}

class MPComm_LinearTrait<string name> : NativeOpTrait<name> {
  let cppNamespace = "::mpcomm::linear";
}
/// Multiplying all float operands multiplies the results: sums, choices, and
/// all that only moves elements.
def MPComm_LinearJointly : TraitList<[
    MPComm_LinearTrait<"LinearJointly">,
    MPComm_LinearOpInterface]>;
/// Multiplying any one of the operands does: products.
def MPComm_LinearInEach : TraitList<[
    MPComm_LinearTrait<"LinearInEach">,
    MPComm_LinearOpInterface]>;
/// The first operand is the gradient of the result of another op, and
/// multiplying it does.
def MPComm_LinearInGradient : TraitList<[
    MPComm_LinearTrait<"LinearInGradient">,
    MPComm_LinearOpInterface]>;
/// The same, of a product of the gradient with the other operands.
def MPComm_GradientProduct : TraitList<[
    MPComm_LinearTrait<"GradientProduct">,
    MPComm_LinearOpInterface]>;

def MPComm_MovementOpInterface : OpInterface<"MovementOpInterface"> {
  let cppNamespace = "::mpcomm";
  let description = [{
    An op whose one result has elements of its first operand in other places,
    and nothing else: it commutes with casts and with factors.
  }];
  let methods = [
    InterfaceMethod<"Whether every element of the operand has one place.",
      "bool", "isOneToOne", (ins), [{}], [{ return false; }]>
  ];
}

def MPComm_FeatureLayoutOpInterface : OpInterface<"FeatureLayoutOpInterface"> {
  let cppNamespace = "::mpcomm";
  let description = [{
    An op on images, tensors of rank 4, that works with their features
    (channels) as dimension 1 or as the last one.
  }];
  let methods = [
    InterfaceMethod<"Whether it has images, with features as dimension 1.",
      "bool", "hasFeaturesSecond">,
    InterfaceMethod<[{Says that features are last; the caller gives it such
      images, and its results such types.}],
      "void", "setFeaturesLast">,
    InterfaceMethod<"The operands that are images.",
      "::llvm::SmallVector<unsigned>", "getImageOperands">,
    InterfaceMethod<"The results that are images.",
      "::llvm::SmallVector<unsigned>", "getImageResults">
  ];
}

#endif // MPCOMM_IR_INTERFACES
