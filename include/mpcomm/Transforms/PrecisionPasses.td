//===- PrecisionPasses.td - casts and loss scaling -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Form 1 to Form 2: types of computation and storage, and loss scaling.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TRANSFORMS_PRECISIONPASSES
#define MPCOMM_TRANSFORMS_PRECISIONPASSES

include "PassOptions.td"

def ScaleLossPass : Pass<"mpcomm-scale-loss", "::mlir::ModuleOp"> {
  let summary = "Scales the loss, clips gradients, and skips steps that "
                "overflow";
  let description = [{
    Implements loss scaling and clipping as values of `@train_step`: no host
    reads a flag. `@evaluate` is unchanged, and the loss that is returned is not
    scaled (docs/Design/LossScaling.md).

    - `mode=static` multiplies gradients by a constant where the backward pass
      begins, and divides them by it before the updates (`mpcomm.unscale`).
      Nothing is checked: gradients that overflow go into the parameters.
    - `mode=dynamic` does the same with a scale that is state of the step. If a
      gradient is not finite, every result of role `parameter` or
      `optimizer_state` keeps its old value (so step counters do not advance),
      and the scale backs off; after `interval` good steps it grows
      (`mpcomm.update_loss_scale`). The added state, of role `loss_scale`, is
      `loss_scale` (f32), `loss_scale.good_steps`, `loss_scale.hysteresis` and
      `loss_scale.skipped`, the number of steps skipped so far (i32).
    - `clip-norm` clips the gradients of all parameters by the norm over all of
      them (`mpcomm.clip_by_global_norm`), after the division.
    - `check-gradients` adds a result of role `output` named `nonfinite`: for
      each parameter, in the order of the arguments, 1 if its gradient is not
      finite, else 0.

    The beginning of the backward pass follows from the graph: the loss depends
    on no value of it. A constant gradient of the loss is replaced; if the front
    end folded it, the first values after it are multiplied. Updates move after
    all gradients.

    Assumes: Form 1. An op named `*_grad` is linear in its first operand.

    Guarantees: Form 1. Every gradient carries the factor exactly once. A step
    for which this cannot be shown, or which would return a scaled value, is an
    error that names the gradient and the op.

    Numerics: exact in f32 if the scale is a power of two and nothing overflows
    or is subnormal; clipping rounds.

    Example: with `mode=static scale=8`
    ```mlir
    %one = arith.constant dense<1.0> : tensor<f32>
    %d = mpcomm.cross_entropy_grad %one, %logits, %targets, %lse mean ignore_index = -100 : (tensor<f32>, tensor<4x2xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x2xf32>
    %b1 = mpcomm.sgd_update %b, %d, %lr, weight_decay = 0.0 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
    ```
    becomes
    ```mlir
    %scale = arith.constant dense<8.0> : tensor<f32>
    %d = mpcomm.cross_entropy_grad %scale, %logits, %targets, %lse mean ignore_index = -100 : (tensor<f32>, tensor<4x2xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x2xf32>
    %u, %found = mpcomm.unscale(%d) by %scale : (tensor<4x2xf32>, tensor<f32>) -> (tensor<4x2xf32>, tensor<f32>)
    %b1 = mpcomm.sgd_update %b, %u, %lr, weight_decay = 0.0 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
    ```

    Counts (analysis remark `ScaleLoss`): gradients, places where the factor is
    inserted, results that a step may skip.
  }];
  let options = [
    Option<"mode", "mode", "::mpcomm::LossScaling",
           "::mpcomm::LossScaling::None", "How the loss is scaled",
           [{::llvm::cl::values(
      clEnumValN(::mpcomm::LossScaling::Auto, "auto",
                 "dynamic if the precision is f16, else none"),
      clEnumValN(::mpcomm::LossScaling::None, "none", "no loss scaling"),
      clEnumValN(::mpcomm::LossScaling::Static, "static", "by `scale`"),
      clEnumValN(::mpcomm::LossScaling::Dynamic, "dynamic",
                 "by a scale that adapts to overflows")
    )}]>,
    Option<"policy", "policy", "std::string", "\"\"",
           "The precision, as `mpcomm-insert-casts` takes it (auto)">,
    Option<"policyFile", "policy-file", "std::string", "\"\"",
           "File with the precision, as `mpcomm-insert-casts` takes it (auto)">,
    Option<"initialScale", "scale", "double", "65536.0",
           "The scale; the first one if it is dynamic">,
    Option<"growth", "growth", "double", "2.0",
           "Factor on the scale after `interval` good steps">,
    Option<"backoff", "backoff", "double", "0.5",
           "Factor on the scale after an overflow">,
    Option<"interval", "interval", "int64_t", "2000",
           "Good steps in a row before the scale grows">,
    Option<"minScale", "min", "double", "1.0", "Least dynamic scale">,
    Option<"maxScale", "max", "double", "16777216.0", "Greatest dynamic scale">,
    Option<"hysteresis", "hysteresis", "int64_t", "1",
           "Overflows since the scale grew before it backs off">,
    Option<"clipNorm", "clip-norm", "double", "0.0",
           "Largest norm over all gradients; 0: no clipping">,
    Option<"checkGradients", "check-gradients", "bool", "false",
           "Return which parameters have gradients that are not finite">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mpcomm::MPCommDialect"];
}

def InsertCastsPass : Pass<"mpcomm-insert-casts", "::mlir::ModuleOp"> {
  let summary = "Computes and stores in a narrow type where the policy allows "
                "it";
  let description = [{
    Assigns each op of `@train_step` a type, f32 or that of the policy (`bf16`,
    `f16`), and inserts `arith.truncf` and `arith.extf` between values and
    readers of different types. Ops of class `lower_precision`
    (`PrecisionOpInterface`) run in the narrow type, ops of class `fp32` in f32.
    For the others a minimum cut chooses the types that cast the fewest bytes; a
    `promote` op runs narrow only if its inputs come from ops that do. If the
    rates of the cluster show that products are slower in the narrow type, they
    stay in f32 (`compute`).

    A parameter that narrow ops read gets a copy in the narrow type, as new
    state (`mpcomm.copy_of`) that the update writes along with the parameter. An
    activation that the backward pass reads, and a gradient, is stored in the
    narrow type from where it is produced to where it is read (`activations`,
    `gradients`), except statistics; a reshape, transpose, slice or broadcast of
    a value that is stored anyway is repeated. `@evaluate` stays in f32. The
    rules are in docs/Design/Precision.md.

    `fp8` is like `bf16`, except that products and convolutions read 8 bits:
    each of their operands is multiplied by a scale of its own, clamped, and
    rounded to E4M3, or to E5M2 if the backward pass produces it; the results of
    products are divided by both scales. Scales derive from the largest
    magnitudes of earlier steps, which are new state (`fp8-scaling=delayed`,
    `mpcomm.update_fp8_scale`), or of the same step (`current`). With
    `multiply-f8`, the module gets `mpcomm.multiply_f8`: products are compiled,
    and counted by the step model, as those of tensor cores of 8 bits.

    Assumes: Form 1, with f32 parameters.

    Guarantees: Form 1, with added results for new state. Each value
    is narrowed at most once, and widened at most once in the forward pass and
    once after it. The pass solves a flow problem, near linear in the number of
    ops.

    Numerics: lossy.

    Example: with `policy=bf16 compute=lower_precision`
    ```mlir
    %h = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
    %y = mpcomm.softmax %h, dim = 1 : tensor<8x2xf32>
    ```
    becomes
    ```mlir
    %x16 = arith.truncf %x : tensor<8x4xf32> to tensor<8x4xbf16>
    %h16 = mpcomm.dot_general %x16, %w.bf16, contracting_dims = [1] x [0] : (tensor<8x4xbf16>, tensor<4x2xbf16>) -> tensor<8x2xbf16>
    %h = arith.extf %h16 : tensor<8x2xbf16> to tensor<8x2xf32>
    %y = mpcomm.softmax %h, dim = 1 : tensor<8x2xf32>
    ```

    Counts: an analysis remark `Compute` under `compute=auto` (the type of
    products, and the rates); an analysis remark `InsertCasts` (casts inserted
    and the bytes of their wide sides; merged: uses that share the cast of
    another use; removed: the reduction in casts compared with running every
    optional op in f32; alone: casts with no kernel on either side; values
    stored; parameters copied); with `fp8` an analysis remark `Fp8` (products
    that read 8 bits, tensors that they read, and bytes of these).
  }];
  let options = [
    Option<"policy", "policy", "std::string", "\"\"",
           "none, bf16, f16 or fp8; empty: the file's, else mpcomm.precision of "
           "the module, else none">,
    Option<"policyFile", "policy-file", "std::string", "\"\"",
           "JSON file with a policy and exceptions by op and by parameter">,
    Option<"compute", "compute", "std::string", "\"\"",
           "Products in the narrow type: auto (where the cluster is not slower "
           "at it), lower_precision or fp32; empty: the file's, else auto">,
    Option<"activations", "activations", "std::string", "\"\"",
           "Type in which what the backward pass reads is stored, "
           "lower_precision or fp32; empty: the file's, else lower_precision">,
    Option<"gradients", "gradients", "std::string", "\"\"",
           "Type in which gradients wait for the update, lower_precision or "
           "fp32; empty: the file's, else lower_precision">,
    Option<"fp8Scaling", "fp8-scaling", "std::string", "\"\"",
           "Scales of fp8 from earlier steps (delayed) or from the same step "
           "(current); empty: that of the file, else delayed">,
    Option<"fp8History", "fp8-history", "std::string", "\"\"",
           "Steps that a delayed scale looks back; empty: the file's, else 16">,
    Option<"fp8Margin", "fp8-margin", "std::string", "\"\"",
           "Scales are 2^margin below the largest that fit; empty: that of the "
           "file, else 0">,
    Option<"multiplyF8", "multiply-f8", "bool", "false",
           "Products of two tensors widened from 8 bits read the 8 bits, as "
           "GPUs from sm_89 on can multiply them">,
    MPComm_ClusterOption
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mpcomm::MPCommDialect"];
}

#endif // MPCOMM_TRANSFORMS_PRECISIONPASSES
