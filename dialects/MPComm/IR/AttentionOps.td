//===- AttentionOps.td - attention and its gradient -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention as one op. A kernel computes it block by block and stores neither
// scores nor probabilities, whose number is quadratic in the number of rows.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_IR_ATTENTIONOPS
#define MPCOMM_IR_ATTENTIONOPS

include "ComputeOps.td"

/// Attention or its gradient: `products` products of the shape of the scores,
/// and `others` further operations per score.
class MPComm_AttentionBase<string mnemonic, string products, string others,
                           list<Trait> traits = []>
    : MPComm_InferredOp<mnemonic, "LowerPrecision",
        "return ::mpcomm::detail::countAttentionFlops(getQuery().getType(), "
        "getKey().getType(), " # products # ", " # others # ");",
        !listconcat(traits, [AttrSizedOperandSegments])> {
  let extraClassDeclaration = computeDeclarations # [{
    ::mlir::Type getAccumulationType() {
      return ::mpcomm::detail::getSumType(
          getQuery().getType().getElementType());
    }
    ::mlir::Type getProductType() {
      return getQuery().getType().getElementType();
    }
    ::mpcomm::ProductKind getProductKind() {
      return getMask() ? ::mpcomm::ProductKind::MaskedAttention
                       : ::mpcomm::ProductKind::Attention;
    }
  }];
}

def MPComm_MaskTensor : MPComm_TensorOf<[I1]>;

def MPComm_AttentionOp
    : MPComm_AttentionBase<"attention", "2", "6 + bool(getBias())"> {
  let summary = "scaled dot-product attention";
  let description = [{
    For each sample b and head h, with queries q[b, i, h, :] and keys and values
    k[b, j, h, :] and v[b, j, h, :]:

        s[i, j]   = scale * sum over d of q[b, i, h, d] * k[b, j, h, d]
                    + bias[b, h, i, j], -inf where mask[i, j] is 0
        lse[i]    = log(sum over j of exp(s[i, j]))
        out[i, :] = sum over j of exp(s[i, j] - lse[i]) * v[b, j, h, :]

    The results are `out`, [B, Sq, H, D] like the query, and `lse`, [B, H, Sq],
    which `attention_grad` reads. If the mask keeps no column of a row, or all
    that it keeps is -inf, the row is NaN, or 0 with `safe`; if there are no
    columns at all, it is 0. `softmax` gives the same, and with `safe`, which
    changes nothing else, PyTorch's `_safe_softmax`.

    The bias, a mask that is added, has rank 4; a dimension of one element is
    the same for all samples, heads, rows or columns. It is added in the type of
    sums. With a bias, `lse` is [B, H, Sq, 2]: the largest score m[i], and
    log(sum over j of exp(s[i, j] - m[i])). Their sum would lose the second one
    in rows that a bias like -1e9 or the least finite number excludes as a
    whole, whose probabilities are those of nearly equal scores.

    Sums are in f32 for 16-bit operands, and in the operands' type otherwise;
    `lse` has that type. Scores and probabilities are rounded to the operands'
    type at most once each. `mpcomm-insert-casts` does not change the type of
    the op.

    Example:
    ```mlir
    %out, %lse = mpcomm.attention %q, %k, %v mask %m scale = 1.250000e-01
        : (tensor<8x128x12x64xbf16>, tensor<8x128x12x64xbf16>, tensor<8x128x12x64xbf16>, tensor<128x128xi1>)
        -> (tensor<8x128x12x64xbf16>, tensor<8x12x128xf32>)
    %out2, %lse2 = mpcomm.attention %q, %k, %v bias %b scale = 1.250000e-01
        : (tensor<8x128x12x64xbf16>, tensor<8x128x12x64xbf16>, tensor<8x128x12x64xbf16>, tensor<8x1x1x128xf32>)
        -> (tensor<8x128x12x64xbf16>, tensor<8x12x128x2xf32>)
    ```

    Constraints:
    - C1: query, key and value have rank 4 and the same sizes, except that
      dimension 1 of the query may differ; there are at most 2^48 scores,
      B * H * Sq * Sk.
    - C2: they have one element type, of at least 16 bits.
    - C3: the mask has one row for each row of the query, and one column for
      each row of the key.
    - C4: `scale` is finite.
    - C5: the bias has rank 4; each of its dimensions is 1 or that of the
      scores, [B, H, Sq, Sk]; its elements have at least 16 bits, and no more
      than the type of sums.

    Created by `mpcomm-fuse-attention`; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_FloatTensor:$query, MPComm_FloatTensor:$key,
                       MPComm_FloatTensor:$value,
                       Optional<MPComm_MaskTensor>:$mask,
                       Optional<MPComm_FloatTensor>:$bias, F64Attr:$scale,
                       UnitAttr:$safe);
  let results = (outs MPComm_FloatTensor:$result, MPComm_FloatTensor:$lse);
  let assemblyFormat = [{
    $query `,` $key `,` $value (`mask` $mask^)? (`bias` $bias^)? `scale` `=`
    custom<PlainF64>($scale) (`safe` $safe^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def MPComm_AttentionGradOp
    : MPComm_AttentionBase<"attention_grad", "5",
                           "10 + bool(getBias()) + bool(getBiasGrad())",
                           [MPComm_LinearInGradient]> {
  let summary = "gradient of attention";
  let description = [{
    The operands are the gradient dout of `out`, and the operands and results of
    `attention`. With p[i, j] = exp(s[i, j] - lse[i]), for each sample b and
    head h, with both numbers of `lse` subtracted where there is a bias:

        dp[i, j] = sum over d of dout[b, i, h, d] * v[b, j, h, d]
        ds[i, j] = p[i, j] * (dp[i, j] - sum over d of dout[b, i, h, d] * out[b, i, h, d])
        dq[i, :] = scale * sum over j of ds[i, j] * k[b, j, h, :]
        dk[j, :] = scale * sum over i of ds[i, j] * q[b, i, h, :]
        dv[j, :] = sum over i of p[i, j] * dout[b, i, h, :]

    `out` and `lse` must be the results of `attention` of the same operands: a
    lowering may read or recompute them; with other values the results are
    undefined. A row of which the mask keeps no column, or of which all is -inf,
    contributes either NaN or nothing to the gradients; nothing with `safe`.
    Sums and roundings are those of `attention`.

    With `bias_grad` there is one more result, the gradient of the bias: the sum
    of ds over the dimensions along which the bias has one element. It has the
    shape of the bias and the type of sums, so that it is not rounded before
    gradients of other readers of the bias are added.

    Example:
    ```mlir
    %dq, %dk, %dv = mpcomm.attention_grad %dout, %q, %k, %v, %out, %lse scale = 1.250000e-01
        : (tensor<8x128x12x64xbf16>, tensor<8x128x12x64xbf16>, tensor<8x64x12x64xbf16>, tensor<8x64x12x64xbf16>, tensor<8x128x12x64xbf16>, tensor<8x12x128xf32>)
        -> (tensor<8x128x12x64xbf16>, tensor<8x64x12x64xbf16>, tensor<8x64x12x64xbf16>)
    %dq2, %dk2, %dv2, %db = mpcomm.attention_grad %dout, %q, %k, %v, %out, %lse2 bias %b scale = 1.250000e-01 bias_grad
        : (tensor<8x128x12x64xbf16>, tensor<8x128x12x64xbf16>, tensor<8x64x12x64xbf16>, tensor<8x64x12x64xbf16>, tensor<8x128x12x64xbf16>, tensor<8x12x128x2xf32>, tensor<1x12x128x64xbf16>)
        -> (tensor<8x128x12x64xbf16>, tensor<8x64x12x64xbf16>, tensor<8x64x12x64xbf16>, tensor<1x12x128x64xf32>)
    ```

    Constraints:
    - C1: C1 to C5 of `attention`.
    - C2: the gradient and the output have the query's type.
    - C3: `lse` has the type of that result of `attention`.
    - C4: `bias_grad` requires a bias.

    Created by `mpcomm-fuse-attention`; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_FloatTensor:$grad, MPComm_FloatTensor:$query,
                       MPComm_FloatTensor:$key, MPComm_FloatTensor:$value,
                       MPComm_FloatTensor:$output, MPComm_FloatTensor:$lse,
                       Optional<MPComm_MaskTensor>:$mask,
                       Optional<MPComm_FloatTensor>:$bias, F64Attr:$scale,
                       UnitAttr:$safe, UnitAttr:$with_bias_grad);
  let results = (outs MPComm_FloatTensor:$query_grad,
                      MPComm_FloatTensor:$key_grad,
                      MPComm_FloatTensor:$value_grad,
                      Optional<MPComm_FloatTensor>:$bias_grad);
  let assemblyFormat = [{
    $grad `,` $query `,` $key `,` $value `,` $output `,` $lse (`mask` $mask^)?
    (`bias` $bias^)? `scale` `=` custom<PlainF64>($scale) (`safe` $safe^)?
    (`bias_grad` $with_bias_grad^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

#endif // MPCOMM_IR_ATTENTIONOPS
