//===- ScalingOps.td - loss scaling, clipping, dropout -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ops on gradients between the backward pass and the update in mixed precision.
// All decisions are values of the step; the host reads no flags. Dropout is
// here too: like a scale, it is a factor that is recomputed when needed.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_IR_SCALINGOPS
#define MPCOMM_IR_SCALINGOPS

include "ComputeOps.td"

def MPComm_GradientOp : MPComm_ComputeOp<"gradient", "FP32", "return 0;",
    [SameOperandsAndResultType,
     DeclareOpInterfaceMethods<MPComm_OptimizerOpInterface,
                               ["getHandedOn"]>]> {
  let summary = "a gradient of the whole batch";
  let description = [{
    The operand, which is a gradient. What reads the result is of the update
    phase. If the batch is split over ranks, the gradient is reduced before the
    op, so whatever is computed from the result (a norm over all gradients, a
    new parameter) is the same on all ranks that share the update. It makes an
    optimizer that is written out in elementwise ops and reductions known as
    one.

    Example:
    ```mlir
    %h = mpcomm.gradient %g : tensor<64x10xf32>
    ```

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_FloatTensor:$grad);
  let results = (outs MPComm_FloatTensor:$result);
  let assemblyFormat = "$grad attr-dict `:` type($result)";
  // Another name for the same memory.
  let extraClassDeclaration = computeDeclarations # [{
    int64_t getBytesRead() { return 0; }
    int64_t getBytesWritten() { return 0; }
  }];
}

def MPComm_UnscaleOp : MPComm_InferredOp<"unscale", "FP32", [{
    int64_t elements = 0;
    for (::mlir::Value gradient : getGrads())
      elements += ::mpcomm::detail::countElements(gradient.getType());
    return ::mpcomm::detail::multiplySaturated(2, elements);}],
    [DeclareOpInterfaceMethods<MPComm_OptimizerOpInterface,
                               ["getHandedOn"]>]> {
  let summary = "divides gradients by the loss scale and checks them";
  let description = [{
    u = grad * (1 / scale) for each gradient, in f32 if the gradient is
    narrower. `found` is 1 if any element of any gradient is infinite or NaN,
    else 0; with `each`, it has one element per gradient. The operands are
    checked, not the results: an element that overflows in the division (by a
    scale below 1) does not count. As torch.cuda.amp.GradScaler.unscale_.

    The op takes gradients of the whole batch. If the batch is split over ranks,
    the gradients are reduced before the op, so `found` is the same on all ranks
    that share the update, without another collective.

    Example:
    ```mlir
    %u0, %u1, %found = mpcomm.unscale(%g0, %g1) by %scale
        : (tensor<64x10xf16>, tensor<10xf32>, tensor<f32>)
        -> (tensor<64x10xf32>, tensor<10xf32>, tensor<f32>)
    %v0, %v1, %which = mpcomm.unscale(%g0, %g1) by %scale each
        : (tensor<64x10xf16>, tensor<10xf32>, tensor<f32>)
        -> (tensor<64x10xf32>, tensor<10xf32>, tensor<2xf32>)
    ```

    Constraints:
    - C1: there is at least one gradient.
    - C2: the scale is of type f32.

    Created by `mpcomm-scale-loss`; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins Variadic<MPComm_FloatTensor>:$grads,
                       MPComm_ScalarTensor:$scale, UnitAttr:$each);
  let results = (outs Variadic<MPComm_FloatTensor>:$unscaled,
                      MPComm_FloatTensor:$found);
  let assemblyFormat = [{
    `(` $grads `)` `by` $scale (`each` $each^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def MPComm_SquaredNormOp
    : MPComm_InferredOp<"squared_norm", "FP32", [{
    int64_t elements = 0;
    for (::mlir::Value gradient : getGrads())
      elements += ::mpcomm::detail::countElements(gradient.getType());
    return ::mpcomm::detail::multiplySaturated(2, elements);}],
    [DeclareOpInterfaceMethods<MPComm_OptimizerOpInterface>]> {
  let summary = "sum of squares of gradients";
  let description = [{
    The sum of squares of all elements of all gradients, in f32, as in
    `mpcomm.clip_by_global_norm`. If gradients are distributed over ranks, each
    rank contributes this sum to the norm.

    Example:
    ```mlir
    %s = mpcomm.squared_norm(%g0, %g1)
        : (tensor<64x10xf32>, tensor<10xf32>) -> tensor<f32>
    ```

    Constraints:
    - C1: there is at least one gradient.

    Created by `mpcomm-schedule-pipeline`; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins Variadic<MPComm_FloatTensor>:$grads);
  let results = (outs MPComm_ScalarTensor:$squares);
  let assemblyFormat = [{
    `(` $grads `)` attr-dict `:` functional-type(operands, results)
  }];
}

def MPComm_ClipByGlobalNormOp
    : MPComm_InferredOp<"clip_by_global_norm", "FP32", [{
    int64_t elements = 0;
    for (::mlir::Value gradient : getGrads())
      elements += ::mpcomm::detail::countElements(gradient.getType());
    return ::mpcomm::detail::multiplySaturated(3, elements);}],
    [AttrSizedOperandSegments,
     DeclareOpInterfaceMethods<MPComm_OptimizerOpInterface,
                               ["getHandedOn"]>]> {
  let summary = "scales gradients down to a maximum norm over all of them";
  let description = [{
    norm = sqrt(sum of squares of all elements of all gradients);
    c = grad * min(1, max_norm / (norm + 1e-6)) for each gradient. As
    torch.nn.utils.clip_grad_norm_ with the 2-norm. If the norm is NaN, every
    result is NaN. If other ranks have gradients as well, the norm over all of
    them is an operand.

    The op takes gradients of the whole batch, as `mpcomm.unscale` does.

    Example:
    ```mlir
    %c0, %c1, %norm = mpcomm.clip_by_global_norm(%g0, %g1) max_norm = 1.0
        : (tensor<64x10xf32>, tensor<10xf32>)
        -> (tensor<64x10xf32>, tensor<10xf32>, tensor<f32>)
    %d0, %same = mpcomm.clip_by_global_norm(%g0) norm = %n, max_norm = 1.0
        : (tensor<64x10xf32>, tensor<f32>) -> (tensor<64x10xf32>, tensor<f32>)
    ```

    Constraints:
    - C1: there is at least one gradient.
    - C2: `max_norm` is positive and finite.
    - C3: if the norm is an operand, it is of type f32.

    Created by `mpcomm-scale-loss`; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins Variadic<MPComm_FloatTensor>:$grads,
                       Optional<MPComm_ScalarTensor>:$given_norm,
                       F64Attr:$max_norm);
  let results = (outs Variadic<MPComm_FloatTensor>:$clipped,
                      MPComm_FloatTensor:$norm);
  let assemblyFormat = [{
    `(` $grads `)` (`norm` `=` $given_norm^ `,`)?
    `max_norm` `=` custom<PlainF64>($max_norm) attr-dict `:`
    functional-type(operands, results)
  }];
}

def MPComm_UpdateLossScaleOp
    : MPComm_InferredOp<"update_loss_scale", "FP32", "return 4;"> {
  let summary = "the loss scale of the next step";
  let description = [{
    If `found` > 0: good' = 0; hyst' = max(hyst - 1, 0); and if hyst' is 0,
    scale' = max(scale * backoff, min). Otherwise good' = good + 1, and if that
    equals `interval`: scale' = min(scale * growth, max), or scale if the
    product is infinite; good' = 0; hyst' = `hysteresis`. Products are computed
    in f64 and rounded to f32.

    With a hysteresis of 1, a minimum of 0, and the largest f32 as maximum, this
    is the rule of torch.cuda.amp.GradScaler. The hysteresis is Megatron-LM's:
    the number of steps, counted from the last growth, that must overflow before
    the scale backs off.

    Example:
    ```mlir
    %s1, %good1, %hyst1 = mpcomm.update_loss_scale %s, %good, %hyst, %found,
        growth = 2.0, backoff = 0.5, interval = 2000, min = 1.0, max = 16777216.0, hysteresis = 1
        : (tensor<f32>, tensor<i32>, tensor<i32>, tensor<f32>)
        -> (tensor<f32>, tensor<i32>, tensor<i32>)
    ```

    Constraints:
    - C1: scale and found are of type f32.
    - C2: growth is at least 1, 0 < backoff <= 1, and 0 <= min <= max, all
      finite.
    - C3: interval and hysteresis are positive, and fit 31 bits.

    Created by `mpcomm-scale-loss`; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_ScalarTensor:$scale, MPComm_CounterTensor:$good,
                       MPComm_CounterTensor:$hyst, MPComm_ScalarTensor:$found,
                       F64Attr:$growth, F64Attr:$backoff, I64Attr:$interval,
                       F64Attr:$min, F64Attr:$max, I64Attr:$hysteresis);
  let results = (outs MPComm_ScalarTensor:$new_scale,
                      MPComm_CounterTensor:$new_good,
                      MPComm_CounterTensor:$new_hyst);
  let assemblyFormat = [{
    $scale `,` $good `,` $hyst `,` $found `,`
    `growth` `=` custom<PlainF64>($growth) `,`
    `backoff` `=` custom<PlainF64>($backoff) `,` `interval` `=` $interval `,`
    `min` `=` custom<PlainF64>($min) `,` `max` `=` custom<PlainF64>($max) `,`
    `hysteresis` `=` $hysteresis attr-dict `:`
    functional-type(operands, results)
  }];
}

def MPComm_UpdateFp8ScaleOp
    : MPComm_InferredOp<"update_fp8_scale", "FP32", [{
    return ::mpcomm::detail::countElements(getHistory().getType()) + 2;}]> {
  let summary = "the scale of an 8-bit tensor for the next step";
  let description = [{
    Delayed scaling (Micikevicius et al., "FP8 Formats for Deep Learning",
    2022): history' = [amax, history[0], …, history[n - 2]], where amax is the
    largest magnitude of the tensor in this step, and scale' = largest number of
    `format` / max(history') / 2^margin. The tensor is multiplied by the scale
    before it is cast. If max(history') is 0 or not finite, or the quotient is
    not finite, scale' = scale. An amax that is not finite is stored as 0.

    Example:
    ```mlir
    %h1, %s1 = mpcomm.update_fp8_scale %h, %s, %amax, format = f8E4M3FN, margin = 0
        : (tensor<16xf32>, tensor<f32>, tensor<f32>) -> (tensor<16xf32>, tensor<f32>)
    ```

    Constraints:
    - C1: the history is a 1-d tensor of f32 with at least one element.
    - C2: scale and amax are of type f32.
    - C3: `format` is a float type of 8 bits.
    - C4: the margin is at least -64 and at most 64.

    Created by `mpcomm-insert-casts`; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_FloatTensor:$history, MPComm_ScalarTensor:$scale,
                       MPComm_ScalarTensor:$amax, TypeAttr:$format,
                       I64Attr:$margin);
  let results = (outs MPComm_FloatTensor:$new_history,
                      MPComm_ScalarTensor:$new_scale);
  let assemblyFormat = [{
    $history `,` $scale `,` $amax `,` `format` `=` $format `,`
    `margin` `=` $margin attr-dict `:` functional-type(operands, results)
  }];
}

/// The cost of an element is ten rounds of Philox, each of two 64-bit products
/// and four exclusive ors.
class MPComm_MaskedOp<string mnemonic, Trait linear>
    : MPComm_InferredOp<mnemonic, "Promote", [{
    return ::mpcomm::detail::multiplySaturated(
        80, ::mpcomm::detail::countResultElements(*this));}], [linear]> {
  let results = (outs MPComm_FloatTensor:$result);
}

def MPComm_DropoutOp : MPComm_MaskedOp<"dropout", MPComm_LinearJointly> {
  let summary = "zeroes random elements and scales up the others";
  let description = [{
    Element e, in row-major order, is x / (1 - p) if a random word is at least
    floor(p 2^32), else 0. The word is the first word of Philox-4x32-10 (Salmon
    et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) with the key
    `seed` and the counter (e mod 2^32, e / 2^32, id, 0). It depends on nothing
    else and is not stored. `seed` (role `rng`) differs between ranks and steps;
    `id` distinguishes the ops of a step. A dropped element is 0 even if it was
    NaN.

    Example:
    ```mlir
    %y = mpcomm.dropout %x, %seed, p = 0.1, id = 3
        : (tensor<8x64xf32>, tensor<2xi32>) -> tensor<8x64xf32>
    ```

    Constraints:
    - C1: `p` is in [0, 1].
    - C2: `id` is in [0, 2^32).

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_FloatTensor:$input, MPComm_SeedTensor:$seed,
                       F64Attr:$p, I64Attr:$id);
  let assemblyFormat = [{
    $input `,` $seed `,` `p` `=` custom<PlainF64>($p) `,` `id` `=` $id
    attr-dict `:` functional-type(operands, results)
  }];
}

def MPComm_DropoutGradOp : MPComm_MaskedOp<"dropout_grad", MPComm_LinearInGradient> {
  let summary = "gradient of dropout";
  let description = [{
    dx = dy / (1 - p) where `mpcomm.dropout` with the same seed, p and id kept
    the element, else 0.

    Example:
    ```mlir
    %dx = mpcomm.dropout_grad %dy, %seed, p = 0.1, id = 3
        : (tensor<8x64xf32>, tensor<2xi32>) -> tensor<8x64xf32>
    ```

    Constraints:
    - C1: `p` is in [0, 1].
    - C2: `id` is in [0, 2^32).

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_FloatTensor:$grad, MPComm_SeedTensor:$seed,
                       F64Attr:$p, I64Attr:$id);
  let assemblyFormat = [{
    $grad `,` $seed `,` `p` `=` custom<PlainF64>($p) `,` `id` `=` $id
    attr-dict `:` functional-type(operands, results)
  }];
}

#endif // MPCOMM_IR_SCALINGOPS
