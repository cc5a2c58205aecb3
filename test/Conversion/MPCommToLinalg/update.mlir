// An update with a region becomes the ops of its region, with the update as their origin; what does
// not depend on elements is computed once for all parameters.

// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s
// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg --canonicalize --cse | FileCheck %s --check-prefix=ONCE

// CHECK-LABEL: func.func @step(
//   CHECK-NOT: mpcomm.
//       CHECK: linalg.generic
//       CHECK: math.exp %{{.*}} : f64
//       CHECK: loc(fused<"update">
//   CHECK-NOT: mpcomm.
//       CHECK: return

// ONCE-LABEL: func.func @step(
//       ONCE: math.exp
//   ONCE-NOT: math.exp
func.func @step(%p: tensor<8xf32>, %g: tensor<8xf32>, %m: tensor<8xf32>, %o: tensor<4xf32>, %h: tensor<4xf32>,
                %k: tensor<4xf32>, %step: tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0:2 = mpcomm.update %p, %g, %m, %step : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%q: tensor<8xf32>, %d: tensor<8xf32>, %b: tensor<8xf32>, %t: tensor<f32>):
    %wide = arith.extf %t : tensor<f32> to tensor<f64>
    %e = math.exp %wide : tensor<f64>
    %n = arith.truncf %e : tensor<f64> to tensor<f32>
    %s = mpcomm.broadcast_in_dim %n, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %x = arith.addf %b, %d : tensor<8xf32>
    %y = arith.mulf %s, %x : tensor<8xf32>
    %z = arith.subf %q, %y : tensor<8xf32>
    mpcomm.yield %z, %x : tensor<8xf32>, tensor<8xf32>
  }
  %1:2 = mpcomm.update %o, %h, %k, %step : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%q: tensor<4xf32>, %d: tensor<4xf32>, %b: tensor<4xf32>, %t: tensor<f32>):
    %wide = arith.extf %t : tensor<f32> to tensor<f64>
    %e = math.exp %wide : tensor<f64>
    %n = arith.truncf %e : tensor<f64> to tensor<f32>
    %s = mpcomm.broadcast_in_dim %n, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %x = arith.addf %b, %d : tensor<4xf32>
    %y = arith.mulf %s, %x : tensor<4xf32>
    %z = arith.subf %q, %y : tensor<4xf32>
    mpcomm.yield %z, %x : tensor<4xf32>, tensor<4xf32>
  }
  return %0#0, %0#1, %1#0, %1#1 : tensor<8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>
}
