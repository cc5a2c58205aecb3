//===- IndexingOps.td - order, running totals, random numbers -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ops whose result depends on where an element is: its place in an order, the
// elements before it, or its number.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_IR_INDEXINGOPS
#define MPCOMM_IR_INDEXINGOPS

include "ComputeOps.td"

def MPComm_TopKOp : MPComm_ComputeOp<"top_k", "FP32", [{
    auto input = ::llvm::cast<::mlir::RankedTensorType>(getInput().getType());
    return ::mpcomm::detail::multiplySaturated(
        ::mpcomm::detail::countElements(input),
        2 * ::llvm::Log2_64_Ceil(input.getDimSize(getDim()) + 1));}]> {
  let summary = "the first k elements in order, and their indices";
  let description = [{
    Orders the elements along `dim` from the smallest, or with `largest` from
    the largest, and keeps the first k with their indices. Equal elements are in
    the order of their indices, in both directions. NaN is larger than any
    number, and two zeros are equal, as in PyTorch; i1 is unsigned. The values
    are elements of the operand, bit for bit. CHLO's op with a dimension and a
    direction; with k = the size of the dimension it is a stable sort.

    Example:
    ```mlir
    %v, %i = mpcomm.top_k %x, dim = 1, k = 2 largest
        : (tensor<8x64xf32>) -> (tensor<8x2xf32>, tensor<8x2xi64>)
    ```

    Constraints:
    - C1: `dim` is in range, and that dimension is smaller than 2^31.
    - C2: k is at least 1 and at most the size of the dimension.
    - C3: the values have the operand's type with k elements along `dim`.
    - C4: the indices have the shape of the values.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_Tensor:$input, I64Attr:$dim, I64Attr:$k,
                       UnitAttr:$largest);
  let results = (outs MPComm_Tensor:$values, MPComm_IndexTensor:$indices);
  let assemblyFormat = [{
    $input `,` `dim` `=` $dim `,` `k` `=` $k (`largest` $largest^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def MPComm_CumulativeOp : MPComm_InferredOp<"cumulative", "FP32", [{
    return ::mpcomm::detail::countElements(getInput().getType());}],
    [MPComm_LinearOpInterface]> {
  let summary = "running sum, product, minimum or maximum along a dimension";
  let description = [{
    Element i along `dim` combines elements 0 to i of the operand; with
    `reverse`, elements i to the last. Elements are combined as in
    `mpcomm.reduce`: sums and products of 16-bit values are in f32, a sum of i1
    is a disjunction, and NaN is the minimum and the maximum of what has it. The
    gradient of a running sum is the running sum of the gradient in the other
    direction.

    The order does not depend on the device. With s = 1, 4, 16, … below the size
    of the dimension, each pass replaces element i by
    ((x[i - 3s] + x[i - 2s]) + x[i - s]) + x[i], without the terms that are
    outside (Hillis and Steele, "Data parallel algorithms", 1986, with four
    terms a pass). So a result has the errors of at most 3 log4(n) roundings.

    Example:
    ```mlir
    %y = mpcomm.cumulative sum %x, dim = 1 : (tensor<8x64xf32>) -> tensor<8x64xf32>
    %dx = mpcomm.cumulative sum %dy, dim = 1 reverse
        : (tensor<8x64xf32>) -> tensor<8x64xf32>
    ```

    Constraints:
    - C1: `dim` is in range.
    - C2: the reduction is not `mean`.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_ReductionAttr:$reduction, MPComm_Tensor:$input,
                       I64Attr:$dim, UnitAttr:$reverse);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    `` $reduction $input `,` `dim` `=` $dim (`reverse` $reverse^)? attr-dict `:`
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

/// The cost of an element is that of `mpcomm.dropout`'s.
def MPComm_RngOp : MPComm_ComputeOp<"rng", "FP32", [{
    return ::mpcomm::detail::multiplySaturated(
        80, ::mpcomm::detail::countResultElements(*this));}]> {
  let summary = "random numbers of a distribution";
  let description = [{
    Element e, in row-major order, is made of the words w0, w1, w2, w3 of
    Philox-4x32-10 with the key `seed` and the counter (e mod 2^32, e / 2^32, id,
    0), as in `mpcomm.dropout`. So it depends on nothing else and is not stored;
    it is the same wherever it is computed again. `seed` (role `rng`) differs
    between ranks and steps; `id` distinguishes the ops of a step, those of
    `mpcomm.dropout` among them. StableHLO's op, with the state as an operand.

    - `uniform`: in [0, 1). The p upper bits of the word, times 2^-p, where p is
      the number of bits that a mantissa of the element type has (24 for f32, 11
      for f16, 8 for bf16). f64: the 53 upper bits of w0 2^32 + w1.
    - `normal`: mean 0, variance 1, by Box and Muller ("A note on the generation
      of random normal deviates", 1958): sqrt(-2 log(1 - u)) cos(2 pi v), where u
      and v are the uniform numbers of w0 and w1 in f32; for f64, of w0 and w1,
      and of w2 and w3.

    Example:
    ```mlir
    %u = mpcomm.rng uniform %seed, id = 3 : (tensor<2xi32>) -> tensor<8x64xf32>
    ```

    Constraints:
    - C1: `id` is in [0, 2^32).
    - C2: the elements have at least 8 bits of mantissa.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_RngDistributionAttr:$distribution,
                       MPComm_SeedTensor:$seed, I64Attr:$id);
  let results = (outs MPComm_FloatTensor:$result);
  let assemblyFormat = [{
    `` $distribution $seed `,` `id` `=` $id attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // MPCOMM_IR_INDEXINGOPS
