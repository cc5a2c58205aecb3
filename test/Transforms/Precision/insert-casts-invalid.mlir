// What options and the step must not say, and where.

// RUN: split-file %s %t
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy=int4" 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy=f8E4M3FN" 2>&1 | FileCheck %s --check-prefix=UNSCALED
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy=fp8 fp8-scaling=none" 2>&1 | FileCheck %s --check-prefix=SCALING
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy=fp8 fp8-history=0" 2>&1 | FileCheck %s --check-prefix=HISTORY
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy=fp8 fp8-margin=65" 2>&1 | FileCheck %s --check-prefix=MARGIN
// RUN: not mpcomm-opt %t/fp8taken.mlir --mpcomm-insert-casts="policy=fp8 compute=lower_precision" 2>&1 | FileCheck %s --check-prefix=FP8TAKEN
// RUN: mpcomm-opt %t/byhand.mlir -split-input-file --mpcomm-insert-casts -verify-diagnostics
// RUN: mpcomm-opt %t/byhand.mlir -split-input-file --mpcomm-insert-casts="policy=fp8" -verify-diagnostics
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy=bf16 compute=fast" 2>&1 | FileCheck %s --check-prefix=COMPUTE
// RUN: not mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy=bf16 cluster=nowhere" 2>&1 | FileCheck %s --check-prefix=CLUSTER
// RUN: not mpcomm-opt %t/nostep.mlir --mpcomm-insert-casts="policy=bf16" 2>&1 | FileCheck %s --check-prefix=NOSTEP
// RUN: not mpcomm-opt %t/taken.mlir --mpcomm-insert-casts="policy=bf16 compute=lower_precision" 2>&1 | FileCheck %s --check-prefix=TAKEN
// RUN: mpcomm-opt %t/attributes.mlir -split-input-file --mpcomm-insert-casts="policy=bf16 compute=lower_precision" -verify-diagnostics

// TYPE: error: has no policy 'int4': expected none, bf16, f16 or fp8
// UNSCALED: error: has no policy 'f8E4M3FN': expected none, bf16, f16 or fp8, which gives 8 bits the scales that they need
// SCALING: error: has no scaling 'none': expected delayed or current
// HISTORY: error: has no history '0': expected an integer in [1, 65536]
// MARGIN: error: has no margin '65': expected an integer in [-64, 64]
// FP8TAKEN: error: 'func.func' op has argument #1 'w.fp8.scale', expected no such name: it is that of state of 8-bit tensors
// COMPUTE: error: has no compute 'fast': expected auto, lower_precision or fp32
// CLUSTER: error: {{.*}}nowhere
// NOSTEP: error: expected a function @train_step with a body of one block
// TAKEN: error: 'func.func' op has argument #1 'w.bf16', expected no such name: it is that of the copy of parameter 'w' in 'bf16'

//--- nostep.mlir
func.func @other() {
  return
}
//--- step.mlir
func.func @train_step(%w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %l = mpcomm.reduce sum %w, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
//--- taken.mlir
func.func @train_step(%w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
                      %b: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "w.bf16"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %a = mpcomm.dot_general %w, %b, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %l = mpcomm.reduce sum %a, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  %n = math.exp %w : tensor<4x4xf32>
  return %l, %n : tensor<f32>, tensor<4x4xf32>
}
//--- fp8taken.mlir
func.func @train_step(%w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
                      %b: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "w.fp8.scale"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %a = mpcomm.dot_general %w, %b, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %l = mpcomm.reduce sum %a, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
//--- byhand.mlir
func.func @train_step(%x: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %t = mpcomm.transpose %x, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %q = arith.truncf %t : tensor<4x4xf32> to tensor<4x4xf8E4M3FN>
  %w = arith.extf %q : tensor<4x4xf8E4M3FN> to tensor<4x4xf32>
  %r = mpcomm.reshape %w : (tensor<4x4xf32>) -> tensor<4x4xf32>
  // expected-error@+1 {{reads 8 bits, operand #1, that have no scale, expected them cast from a product with a scale, or policy fp8}}
  %a = mpcomm.dot_general %x, %r, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %l = mpcomm.reduce sum %a, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

func.func @train_step(%w: tensor<4x4xf8E5M2> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "w"},
                      %x: tensor<4x4xf16> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %f = arith.extf %w : tensor<4x4xf8E5M2> to tensor<4x4xf16>
  // expected-error@+1 {{reads 8 bits, operand #0, that have no scale}}
  %a = mpcomm.dot_general %f, %x, contracting_dims = [1] x [0] : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf16>
  %e = arith.extf %a : tensor<4x4xf16> to tensor<4x4xf32>
  %l = mpcomm.reduce sum %e, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// Scaled and clamped by hand, whichever side the bound is on.
func.func @train_step(%x: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %s = arith.constant dense<8.0> : tensor<4x4xf32>
  %top = arith.constant dense<448.0> : tensor<4x4xf32>
  %m = arith.mulf %x, %s : tensor<4x4xf32>
  %c = arith.minimumf %top, %m : tensor<4x4xf32>
  %q = arith.truncf %c : tensor<4x4xf32> to tensor<4x4xf8E4M3FN>
  %w = arith.extf %q : tensor<4x4xf8E4M3FN> to tensor<4x4xf32>
  %a = mpcomm.dot_general %w, %w, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %l = mpcomm.reduce sum %a, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
//--- attributes.mlir
func.func @train_step(%w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  // expected-error@+1 {{has 'mpcomm.precision', expected "lower_precision" or "fp32", got "half"}}
  %l = mpcomm.reduce sum %w, dims = [0, 1] {mpcomm.precision = "half"} : (tensor<4x4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

func.func @train_step(%w: tensor<f32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
                      %i: tensor<i64> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "i"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  // expected-error@+1 {{has 'mpcomm.precision' "lower_precision", expected it on a pure op without regions that reads and makes tensors of f32 and updates nothing}}
  %l = arith.sitofp %i {mpcomm.precision = "lower_precision"} : tensor<i64> to tensor<f32>
  return %l : tensor<f32>
}

// -----

func.func @train_step(%h: tensor<4xf32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "h"},
                      %s: tensor<f32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "s"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  // expected-error@+1 {{has 'mpcomm.precision' "lower_precision", expected it on a pure op without regions that reads and makes tensors of f32 and updates nothing}}
  %n, %l = mpcomm.update_fp8_scale %h, %s, %s, format = f8E4M3FN, margin = 0 {mpcomm.precision = "lower_precision"}
      : (tensor<4xf32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)
  return %l : tensor<f32>
}
