//===- FusionPasses.td - ops that one kernel computes -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Within Form 2: what front ends write out and one kernel computes.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TRANSFORMS_FUSIONPASSES
#define MPCOMM_TRANSFORMS_FUSIONPASSES

include "PassOptions.td"

def FuseAttentionPass : Pass<"mpcomm-fuse-attention", "::mlir::ModuleOp"> {
  let summary = "Makes one op of attention that is written out, and of its gradient";
  let description = [{
    Finds products of queries and keys, scaled or not, masked or not, whose
    softmax multiplies values, and makes `mpcomm.attention` of them; where the
    backward pass reads the probabilities, that too has to be the gradient of
    it, and becomes `mpcomm.attention_grad`. Neither scores nor probabilities
    are kept then.

    What is recognised, in bf16 and f16:
    - `dot_general` of queries and keys, in any order of operands and of
      dimensions: one is contracted, the others are rows, samples and heads;
    - multiplications and divisions by a number that is the same everywhere,
      and of the queries or keys too;
    - one `arith.select` by a mask of query rows and key rows, broadcast over
      samples and heads, where what is left out is -inf;
    - `softmax` along the keys, and `dot_general` with the values;
    - `extf`, `truncf` and `transpose` between any of them.

    Assumes: functions of one block, after `mpcomm-insert-casts`.

    Guarantees: what is not exactly that stays as it was: where scores or
    probabilities have other users (a dropout), or the backward pass is not all
    there, both passes stay written out. Linear in the number of ops.

    Numerics: reassociating; and scores, which the written-out form rounds to
    16 bits, are kept in the type of sums. With `numerics=exact` nothing is
    fused.

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
    rows, depth, whether masked, whether with its gradient, bytes of scores and
    probabilities that are not kept), a missed remark `AttentionNotFused` with
    the reason for each softmax between two products that stays.
  }];
  let options = [
    Option<"shapes", "shapes", "::mpcomm::AttentionShapes",
           "::mpcomm::AttentionShapes::Kernels", "Which attention is fused",
           [{::llvm::cl::values(
      clEnumValN(::mpcomm::AttentionShapes::Kernels, "kernels",
                 "of shapes that kernels of GPUs take"),
      clEnumValN(::mpcomm::AttentionShapes::All, "all", "any")
    )}]>,
    MPComm_NumericsOption
  ];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

#endif // MPCOMM_TRANSFORMS_FUSIONPASSES
