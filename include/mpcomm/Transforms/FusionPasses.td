//===- FusionPasses.td - fusion of ops -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Form 2 to Form 2: replaces separate ops of front ends by one op that a kernel
// computes.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TRANSFORMS_FUSIONPASSES
#define MPCOMM_TRANSFORMS_FUSIONPASSES

include "PassOptions.td"

def FuseAttentionPass : Pass<"mpcomm-fuse-attention", "::mlir::ModuleOp"> {
  let summary = "Replaces separate ops of attention, and of its gradient, by "
                "one op each";
  let description = [{
    Finds products of queries and keys, with or without scale and mask, whose
    softmax multiplies values, and replaces them by `mpcomm.attention`. If the
    backward pass reads the probabilities, it must be the gradient of this
    attention, and becomes `mpcomm.attention_grad`. Neither scores nor
    probabilities are kept then.

    The following is recognised, in bf16 and f16:
    - `dot_general` of queries and keys, in any order of operands and of
      dimensions: one dimension is contracted, the others are rows, samples and
      heads;
    - multiplications and divisions by a number that is the same everywhere,
      also of the queries or keys;
    - one `arith.select` by a mask of query rows and key rows, broadcast over
      samples and heads, which replaces excluded elements by -inf;
    - one `arith.addf` of a mask (`bias`) after all factors, before or after the
      select, broadcast over any dimensions; its gradient is a sum over the
      dimensions that it lacks, or it has none;
    - `softmax` along the keys, and `dot_general` with the values;
    - `extf`, `truncf` and `transpose` between any of them.

    Assumes: functions of one block, after `mpcomm-insert-casts`.

    Guarantees: anything else is unchanged. If scores or probabilities have
    other users (a dropout), or the backward pass is not complete, both passes
    stay separate ops. Linear in the number of ops.

    Numerics: reassociating; in addition, scores, which the separate ops round
    to 16 bits, are kept in the type of sums. `numerics=exact` disables the
    fusion.

    Example:
    ```mlir
    %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3]
        : (tensor<8x128x12x64xbf16>, tensor<8x128x12x64xbf16>) -> tensor<8x12x128x128xbf16>
    %c = arith.constant dense<8.0> : tensor<8x12x128x128xbf16>
    %d = arith.divf %s, %c : tensor<8x12x128x128xbf16>
    %w = arith.extf %d : tensor<8x12x128x128xbf16> to tensor<8x12x128x128xf32>
    %y = mpcomm.softmax %w, dim = 3 : tensor<8x12x128x128xf32>
    %p = arith.truncf %y : tensor<8x12x128x128xf32> to tensor<8x12x128x128xbf16>
    %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1]
        : (tensor<8x12x128x128xbf16>, tensor<8x128x12x64xbf16>) -> tensor<8x12x128x64xbf16>
    ```
    becomes
    ```mlir
    %a, %lse = mpcomm.attention %q, %k, %v scale = 1.250000e-01
        : (tensor<8x128x12x64xbf16>, tensor<8x128x12x64xbf16>, tensor<8x128x12x64xbf16>)
        -> (tensor<8x128x12x64xbf16>, tensor<8x12x128xf32>)
    %o = mpcomm.transpose %a, dims = [0, 2, 1, 3] : (tensor<8x128x12x64xbf16>) -> tensor<8x12x128x64xbf16>
    ```

    Counts: a passed remark `FusedAttention` for each attention (samples, heads,
    rows, depth, whether masked, whether with a bias, whether with its gradient,
    bytes of scores that are not kept, whether the bias is trained), a missed remark `AttentionNotFused` with
    the reason for each softmax between two products that is not fused.
  }];
  let options = [
    Option<"shapes", "shapes", "::mpcomm::AttentionShapes",
           "::mpcomm::AttentionShapes::Kernels", "Which attention is fused",
           [{::llvm::cl::values(
      clEnumValN(::mpcomm::AttentionShapes::Kernels, "kernels",
                 "shapes that GPU kernels support"),
      clEnumValN(::mpcomm::AttentionShapes::All, "all", "any shape")
    )}]>,
    MPComm_NumericsOption
  ];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

def RecomputeElementwisePass
    : Pass<"mpcomm-recompute-elementwise", "::mlir::ModuleOp"> {
  let summary = "Computes cheap values again instead of storing them";
  let description = [{
    A value that follows element by element from tensors that a later kernel
    reads in any case is computed again for that kernel, so it is neither
    written nor read. Example: the backward pass of `x * sigmoid(x)` reads x, so
    the sigmoid of the forward pass is not kept. A kernel is later if a product
    has to run between.

    Assumes: runs before anything prices or groups kernels.

    Guarantees: further tensors are read only where they are small (an eighth of
    the value), as means and scales of rows are, or where one that is in memory
    in any case has fewer bytes than writing and reading all values that follow
    from it: the input of a norm in f32 instead of its input and its result in
    16 bits. At most 16 ops are repeated for one value. Repeated ops have the
    attribute `mpcomm.recomputed`, with which common subexpression elimination
    does not merge them with the first ones.

    Numerics: exact.

    Example:
    ```mlir
    %y = math.exp %x : tensor<4x8xf32>
    %p = mpcomm.dot_general %y, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %z = arith.mulf %p, %y : tensor<4x8xf32>
    %r = arith.addf %z, %x : tensor<4x8xf32>
    ```
    becomes
    ```mlir
    %y = math.exp %x : tensor<4x8xf32>
    %p = mpcomm.dot_general %y, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %again = math.exp %x {mpcomm.recomputed} : tensor<4x8xf32>
    %z = arith.mulf %p, %again : tensor<4x8xf32>
    %r = arith.addf %z, %x : tensor<4x8xf32>
    ```

    Counts: an analysis remark `Recomputed` for each function (values, ops
    repeated, bytes neither written nor read).
  }];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

#endif // MPCOMM_TRANSFORMS_FUSIONPASSES
