//===- ComputeOps.td - contraction, reduction and data movement -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An op that StableHLO has too has its name and its meaning, restricted to
// static shapes and attributes.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_IR_COMPUTEOPS
#define MPCOMM_IR_COMPUTEOPS

include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "MPCommAttrs.td"
include "MPCommInterfaces.td"
include "MPCommTypes.td"

/// A pure op on tensors with a precision class, a cost and a rule by which it is
/// split. `flops` is the body of `getFlops`.
class MPComm_ComputeOp<string mnemonic, string precision, string flops,
                       list<Trait> traits = []>
    : MPComm_Op<mnemonic, !listconcat(traits, [
          Pure, MPComm_PrecisionOpInterface, MPComm_CostOpInterface,
          DeclareOpInterfaceMethods<MPComm_ShardingOpInterface>])> {
  code computeDeclarations = [{
    ::mpcomm::PrecisionClass getPrecisionClass() {
      return ::mpcomm::PrecisionClass::}] # precision # [{;
    }
    int64_t getFlops() { }] # flops # [{ }
  }];
  let extraClassDeclaration = computeDeclarations;
}

/// A compute op whose result types follow from its operands and attributes. Its
/// constraints are checked when the types are inferred.
class MPComm_InferredOp<string mnemonic, string precision, string flops,
                        list<Trait> traits = []>
    : MPComm_ComputeOp<mnemonic, precision, flops,
                       !listconcat(traits, [InferTypeOpAdaptor])>;

/// A compute op that only moves elements.
class MPComm_MovementOp<string mnemonic, list<Trait> traits = []>
    : MPComm_ComputeOp<mnemonic, "Any", "return 0;",
                       !listconcat(traits, [MPComm_LinearJointly])>;

def MPComm_DotGeneralOp : MPComm_InferredOp<"dot_general", "LowerPrecision", [{
    int64_t k = 2;
    auto lhs = ::llvm::cast<::mlir::RankedTensorType>(getLhs().getType());
    for (int64_t d : getLhsContractingDims())
      k *= lhs.getDimSize(d);
    return ::mpcomm::detail::multiplySaturated(
        k, ::mpcomm::detail::countResultElements(*this));}],
    [MPComm_LinearInEach]> {
  let summary = "contraction of two tensors";
  let description = [{
    Sums products over the contracting dimensions, for each index of the
    batching dimensions. The result has the batching dimensions, then the free
    dimensions of lhs, then those of rhs, each in operand order. As StableHLO's
    op.

    The element type of the result is that of the operands. Sums are in f32 for
    16-bit operands, and in the operands' type otherwise.

    Example:
    ```mlir
    %r = mpcomm.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1]
        : (tensor<8x128x32xf32>, tensor<8x32x64xf32>) -> tensor<8x128x64xf32>
    ```

    Constraints:
    - C1: the two batching lists have equal length, and so do the two
      contracting lists.
    - C2: dimensions are in range and named once.
    - C3: paired dimensions have the same size.
    - C4: operands have one element type.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_FloatTensor:$lhs, MPComm_FloatTensor:$rhs,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$lhs_batching_dims,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$rhs_batching_dims,
      DenseI64ArrayAttr:$lhs_contracting_dims,
      DenseI64ArrayAttr:$rhs_contracting_dims);
  let results = (outs MPComm_FloatTensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs `,`
    (`batching_dims` `=` $lhs_batching_dims^ `x` $rhs_batching_dims `,`)?
    `contracting_dims` `=` $lhs_contracting_dims `x` $rhs_contracting_dims
    attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = computeDeclarations # [{
    ::mlir::Type getAccumulationType();
    /// Dimensions of an operand that are neither batching nor contracting.
    ::llvm::SmallVector<int64_t> getLhsFreeDims();
    ::llvm::SmallVector<int64_t> getRhsFreeDims();
  }];
  let hasCanonicalizer = 1;
}

def MPComm_TransposeOp : MPComm_MovementOp<"transpose", [
    InferTypeOpAdaptor, MPComm_MovementOpInterface]> {
  let summary = "permutation of dimensions";
  let description = [{
    Result dimension i is operand dimension `dims[i]`. As StableHLO's op.

    Example:
    ```mlir
    %r = mpcomm.transpose %x, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
    ```

    Constraints:
    - C1: `dims` is a permutation of the operand's dimensions.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_Tensor:$input, DenseI64ArrayAttr:$dims);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    $input `,` `dims` `=` $dims attr-dict `:` functional-type(operands, results)
  }];
  let hasFolder = 1;
  let hasCanonicalizer = 1;
  let extraClassDeclaration = computeDeclarations # [{
    bool isOneToOne() { return true; }
  }];
}

def MPComm_ReshapeOp
    : MPComm_MovementOp<"reshape", [MPComm_MovementOpInterface]> {
  let summary = "the same elements in another shape";
  let description = [{
    Keeps the row-major order of the elements. As StableHLO's op.

    Example:
    ```mlir
    %r = mpcomm.reshape %x : (tensor<8x4xf32>) -> tensor<32xf32>
    ```

    Constraints:
    - C1: operand and result have the same number of elements.
    - C2: operand and result have one element type.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_Tensor:$input);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    $input attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
  // Another name for the same memory.
  let extraClassDeclaration = computeDeclarations # [{
    bool isOneToOne() { return true; }
    int64_t getBytesRead() { return 0; }
    int64_t getBytesWritten() { return 0; }
  }];
}

def MPComm_BroadcastInDimOp
    : MPComm_MovementOp<"broadcast_in_dim", [MPComm_MovementOpInterface]> {
  let summary = "repetition along new or unit dimensions";
  let description = [{
    Operand dimension i becomes result dimension `dims[i]`. The operand is
    repeated along all other result dimensions, and along dimensions of size 1
    that become larger. As StableHLO's op, with increasing `dims`.

    Example:
    ```mlir
    %r = mpcomm.broadcast_in_dim %bias, dims = [1] : (tensor<64xf32>) -> tensor<8x64xf32>
    ```

    Constraints:
    - C1: `dims` names one result dimension per operand dimension, increasing.
    - C2: a named dimension has the operand's size, or the operand's size is 1.
    - C3: operand and result have one element type.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_Tensor:$input, DenseI64ArrayAttr:$dims);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    $input `,` `dims` `=` $dims attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def MPComm_ReduceOp : MPComm_InferredOp<"reduce", "FP32", [{
    return ::mpcomm::detail::countElements(getInput().getType());}],
    [MPComm_LinearOpInterface]> {
  let summary = "sum, product, minimum or maximum over dimensions";
  let description = [{
    The reduced dimensions are removed. Sums of 16-bit values are in f32. A sum
    of i1 is a disjunction, as in StableHLO, and a product is a conjunction. If
    an element is NaN, a minimum or maximum is NaN. The op does not fix the
    order of a sum (a pass that changes it is of class reassociating).

    Example:
    ```mlir
    %r = mpcomm.reduce sum %x, dims = [0] : (tensor<8x64xf32>) -> tensor<64xf32>
    ```

    Constraints:
    - C1: `dims` is increasing and in range.
    - C2: the reduction is not `mean` (divide by a constant instead).

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_ReductionAttr:$reduction, MPComm_Tensor:$input,
                       DenseI64ArrayAttr:$dims);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    `` $reduction $input `,` `dims` `=` $dims attr-dict `:`
    functional-type(operands, results)
  }];
  let hasFolder = 1;
  let extraClassDeclaration = computeDeclarations # [{
    /// A product of elements is not linear in the operand.
    ::mpcomm::Linearity getLinearity() {
      return getReduction() == ::mpcomm::Reduction::Prod
                 ? ::mpcomm::Linearity()
                 : ::mpcomm::Linearity::jointly(*this);
    }
  }];
}

def MPComm_SliceOp : MPComm_MovementOp<"slice", [
    InferTypeOpAdaptor, MPComm_MovementOpInterface]> {
  let summary = "a strided range of each dimension";
  let description = [{
    Takes elements `starts[d], starts[d] + strides[d], …` below `limits[d]` of
    each dimension d. As StableHLO's op.

    Example:
    ```mlir
    %r = mpcomm.slice %x, starts = [0, 4], limits = [8, 8], strides = [1, 1]
        : (tensor<8x8xf32>) -> tensor<8x4xf32>
    ```

    Constraints:
    - C1: each list has one entry per dimension.
    - C2: 0 <= start <= limit <= size, stride >= 1.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_Tensor:$input, DenseI64ArrayAttr:$starts,
                       DenseI64ArrayAttr:$limits, DenseI64ArrayAttr:$strides);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    $input `,` `starts` `=` $starts `,` `limits` `=` $limits `,`
    `strides` `=` $strides attr-dict `:` functional-type(operands, results)
  }];
  let hasFolder = 1;
  // Only the elements of the result are read.
  let extraClassDeclaration = computeDeclarations # [{
    int64_t getBytesRead() {
      return ::mpcomm::detail::countBytes((*this)->getResultTypes());
    }
  }];
}

def MPComm_ReverseOp : MPComm_MovementOp<"reverse", [
    InferTypeOpAdaptor, MPComm_MovementOpInterface]> {
  let summary = "reversed order along dimensions";
  let description = [{
    Element i of a dimension of size n that is in `dims` is element n - 1 - i of
    the operand. As StableHLO's op.

    Example:
    ```mlir
    %r = mpcomm.reverse %x, dims = [1] : (tensor<8x4xf32>) -> tensor<8x4xf32>
    ```

    Constraints:
    - C1: `dims` is increasing and in range.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_Tensor:$input, DenseI64ArrayAttr:$dims);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    $input `,` `dims` `=` $dims attr-dict `:` functional-type(operands, results)
  }];
  let hasFolder = 1;
  let extraClassDeclaration = computeDeclarations # [{
    bool isOneToOne() { return true; }
  }];
}

def MPComm_ConcatenateOp
    : MPComm_MovementOp<"concatenate", [InferTypeOpAdaptor]> {
  let summary = "concatenation along a dimension";
  let description = [{
    Concatenates the operands along `dim`, in order. As StableHLO's op.

    Example:
    ```mlir
    %r = mpcomm.concatenate %a, %b, dim = 1
        : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<8x6xf32>
    ```

    Constraints:
    - C1: there is at least one operand, and `dim` is in range.
    - C2: operands have one element type, one rank, and the same sizes except
      along `dim`.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins Variadic<MPComm_Tensor>:$inputs, I64Attr:$dim);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    custom<OperandsAndComma>($inputs) `dim` `=` $dim attr-dict `:`
    functional-type(operands, results)
  }];
  let hasFolder = 1;
}

def MPComm_PadOp : MPComm_MovementOp<"pad", [InferTypeOpAdaptor]> {
  let summary = "padding around and between elements";
  let description = [{
    Inserts copies of `value` along each dimension d: `low[d]` before the first
    element, `high[d]` after the last, and `interior[d]` between neighbours. As
    StableHLO's op, without negative amounts.

    Example:
    ```mlir
    %r = mpcomm.pad %x, %zero, low = [0, 1], high = [0, 0], interior = [0, 0]
        : (tensor<8x7xf32>, tensor<f32>) -> tensor<8x8xf32>
    ```

    Constraints:
    - C1: each list has one entry per dimension.
    - C2: no amount is negative.
    - C3: `value` is 0-d, of the operand's element type.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_Tensor:$input, MPComm_Tensor:$value,
                       DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high,
                       DenseI64ArrayAttr:$interior);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $value `,` `low` `=` $low `,` `high` `=` $high `,`
    `interior` `=` $interior attr-dict `:` functional-type(operands, results)
  }];
  let hasFolder = 1;
}

def MPComm_IotaOp : MPComm_MovementOp<"iota"> {
  let summary = "indices along a dimension";
  let description = [{
    Element (i0, i1, …) is i_dim. As StableHLO's op.

    Example:
    ```mlir
    %r = mpcomm.iota dim = 0 : tensor<128xi64>
    ```

    Constraints:
    - C1: `dim` is in range.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins I64Attr:$dim);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = "`dim` `=` $dim attr-dict `:` type($result)";
  let hasVerifier = 1;
}

#endif // MPCOMM_IR_COMPUTEOPS
