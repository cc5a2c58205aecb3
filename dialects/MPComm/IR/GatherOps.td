//===- GatherOps.td - gather and scatter -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Slices of a tensor by integer tensors: StableHLO's torch_index_select, its
// gradient, and the scatter with the same dimensions. With b = `batch_dims` and
// d = `dim`, the operand is [B1…Bb, P…, V, S…], where V is dimension d, the
// indices are [B1…Bb, I…], and what is gathered or scattered is
// [B1…Bb, P…, I…, S…].
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_IR_GATHEROPS
#define MPCOMM_IR_GATHEROPS

include "ComputeOps.td"

defvar MPComm_GatherDims = (ins
    DefaultValuedAttr<I64Attr, "0">:$dim,
    DefaultValuedAttr<I64Attr, "0">:$batch_dims);

def MPComm_GatherOp : MPComm_InferredOp<"gather", "Any", "return 0;",
                                        [MPComm_LinearJointly]> {
  let summary = "slices along a dimension, by index";
  let description = [{
    Element [b…, p…, i…, s…] of the result is
    operand[b…, p…, indices[b…, i…], s…]: the indices name elements of dimension
    `dim` of the operand; the first `batch_dims` dimensions of both are shared.
    An index out of range is clamped. As StableHLO's torch_index_select. With
    `mpcomm.range` on the argument, the runner rejects such data.

    The gradient with respect to the operand is `gather_grad`.

    Example: rows of a table, and one element of each row
    ```mlir
    %e = mpcomm.gather %table, %ids
        : (tensor<256x64xf32>, tensor<8x16xi64>) -> tensor<8x16x64xf32>
    %p = mpcomm.gather %x, %classes dim = 1 batch_dims = 1
        : (tensor<32x10xf32>, tensor<32x1xi64>) -> tensor<32x1xf32>
    ```

    Constraints:
    - C1: `dim` is a dimension of the operand, of size at least 1.
    - C2: `batch_dims` is at least 0, and at most `dim` and the rank of the
      indices; the shared dimensions have equal sizes.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = !con((ins MPComm_Tensor:$operand,
                            MPComm_IndexTensor:$indices), MPComm_GatherDims);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    $operand `,` $indices (`dim` `=` $dim^)? (`batch_dims` `=` $batch_dims^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasFolder = 1;
  let hasCanonicalizer = 1;
  // What it takes of the operand, not all of it.
  let extraClassDeclaration = computeDeclarations # [{
    ::mpcomm::IndexedSlices getSlices() {
      return {getOperand().getType(), getIndices().getType(),
              static_cast<int64_t>(getDim()),
              static_cast<int64_t>(getBatchDims())};
    }
    int64_t getBytesRead() {
      return ::mpcomm::detail::countBytes(
          {getIndices().getType(), getResult().getType()});
    }
  }];
}

def MPComm_GatherGradOp : MPComm_ComputeOp<"gather_grad", "FP32", [{
    return ::mpcomm::detail::countElements(getGrad().getType());}],
    [MPComm_LinearInGradient]> {
  let summary = "gradient of gather: slices summed by index";
  let description = [{
    Slice v of the result along `dim` is the sum of the slices of dy whose index
    (clamped, as in `gather`) is v, in the order of the indices. Slice
    `padding_idx` of the result is zero, whatever indices are clamped to it.

    The gradient with respect to dy is the `gather` with the same indices, of
    zeros for `padding_idx`.

    Example:
    ```mlir
    %dt = mpcomm.gather_grad %dy, %ids
        : (tensor<8x16x64xf32>, tensor<8x16xi64>) -> tensor<256x64xf32>
    ```

    Constraints:
    - C1: `dim` is a dimension of the result, of size at least 1.
    - C2: `batch_dims` is at least 0, and at most `dim` and the rank of the
      indices; the shared dimensions have equal sizes.
    - C3: dy has the shape of a `gather` of the result by the indices.
    - C4: dy and the result have one element type.
    - C5: `padding_idx` is an index of dimension `dim`.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = !con((ins MPComm_FloatTensor:$grad,
                            MPComm_IndexTensor:$indices), MPComm_GatherDims,
                       (ins OptionalAttr<I64Attr>:$padding_idx));
  let results = (outs MPComm_FloatTensor:$result);
  let assemblyFormat = [{
    $grad `,` $indices (`dim` `=` $dim^)? (`batch_dims` `=` $batch_dims^)?
    (`padding_idx` `=` $padding_idx^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let extraClassDeclaration = computeDeclarations # [{
    ::mpcomm::IndexedSlices getSlices() {
      return {getResult().getType(), getIndices().getType(),
              static_cast<int64_t>(getDim()),
              static_cast<int64_t>(getBatchDims())};
    }
  }];
  let hasVerifier = 1;
}

def MPComm_ScatterOp : MPComm_InferredOp<"scatter", "FP32", "",
                                         [MPComm_LinearOpInterface]> {
  let summary = "slices along a dimension replaced or combined, by index";
  let description = [{
    The operand, with element [b…, p…, indices[b…, i…], s…] combined with
    updates[b…, p…, i…, s…]. With `reduction`, the result is the reduction of
    the element of the operand and of all its updates, in the order of the
    indices: sum, prod, min or max, where sums and products of 16-bit values are
    in f32, those of i1 are a disjunction and a conjunction, and a NaN makes a
    minimum or maximum NaN. Without it, the last update replaces the element.
    Updates with an index out of range are dropped, as in StableHLO's scatter.

    Gradients, of a sum: dy for the operand, `gather` of dy for the updates (of
    zeros for indices out of range). If updates replace: dy with zeros scattered
    for the operand; for the updates, `gather` of dy where the update is the
    last one.

    Example:
    ```mlir
    %r = mpcomm.scatter %x, %i, %u reduction sum
        : (tensor<10x64xf32>, tensor<32xi64>, tensor<32x64xf32>) -> tensor<10x64xf32>
    %s = mpcomm.scatter %y, %j, %v dim = 1 batch_dims = 1
        : (tensor<8x10xi64>, tensor<8x2xi64>, tensor<8x2xi64>) -> tensor<8x10xi64>
    ```

    Constraints:
    - C1: `dim` is a dimension of the operand.
    - C2: `batch_dims` is at least 0, and at most `dim` and the rank of the
      indices; the shared dimensions have equal sizes.
    - C3: the updates have the shape of a `gather` of the operand by the
      indices.
    - C4: updates and operand have one element type.
    - C5: the reduction is not `mean`.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = !con((ins MPComm_Tensor:$operand, MPComm_IndexTensor:$indices,
                            MPComm_Tensor:$updates,
                            OptionalAttr<MPComm_ReductionAttr>:$reduction),
                       MPComm_GatherDims);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    $operand `,` $indices `,` $updates (`reduction` `` $reduction^)?
    (`dim` `=` $dim^)? (`batch_dims` `=` $batch_dims^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasFolder = 1;
  let extraClassDeclaration = [{
    /// Sums and products are of class fp32; the others only choose elements.
    ::mpcomm::PrecisionClass getPrecisionClass();
    /// One per update that is combined.
    int64_t getFlops();
    /// A product of elements is not linear in them.
    ::mpcomm::Linearity getLinearity() {
      return getReduction() == ::mpcomm::Reduction::Prod
                 ? ::mpcomm::Linearity()
                 : ::mpcomm::Linearity::jointly(*this);
    }
  }];
}

#endif // MPCOMM_IR_GATHEROPS
