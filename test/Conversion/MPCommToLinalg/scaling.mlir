// Gradients are read as they come by the reductions, and once more, times the
// factors, by what updates: products with a scale are elementwise and have one
// use each. Dropout is one generic that reads nothing but its input and seed.

// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg --canonicalize --cse | FileCheck %s
// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg --canonicalize --cse --mpcomm-form-kernels | FileCheck %s --check-prefix=KERNELS

// The sum of g * 0 and the sum of (g / scale)^2 read the same gradient: one
// kernel. The update divides, clips and chooses, in place.
// KERNELS-LABEL: func.func @step
// KERNELS-SAME: %[[W:[a-z0-9]+]]: tensor<8x64xf32> {mpcomm.donated = 0
// KERNELS: %[[SUMS:.*]]:2 = mprt.launch @[[REDUCE:.*]] ins(%[[G:[a-z0-9]+]], %{{.*}} : tensor<8x64xf32>, tensor<f32>) outs(%{{.*}}, %{{.*}} : tensor<f32>, tensor<f32>)
// KERNELS-NOT: tensor<8x64xf32>) outs
// KERNELS: %[[NEW:.*]] = mprt.launch @[[UPDATE:.*]] ins({{.*}}%[[G]], {{.*}}) outs(%[[W]] : tensor<8x64xf32>)
// KERNELS: return %[[NEW]]

// CHECK-LABEL: func.func @step
func.func @step(%w: tensor<8x64xf32> {mpcomm.donated = 0 : i64}, %g: tensor<8x64xf32>, %lr: tensor<f32>, %scale: tensor<f32>) -> tensor<8x64xf32> {
  // 1 / scale.
  // CHECK: %[[INVERSE:.*]] = linalg.generic {{.*}} ins(%[[SCALE:.*]] : tensor<f32>)
  // CHECK: arith.divf %cst
  // CHECK: %[[FLAG:.*]] = linalg.generic {{.*}} iterator_types = ["reduction", "reduction"]{{.*}} ins(%[[G:[a-z0-9]+]] : tensor<8x64xf32>)
  // CHECK: arith.mulf %{{.*}}, %[[ZERO:cst.*]] : f32
  // CHECK-NEXT: arith.addf
  // CHECK: linalg.generic {{.*}} ins(%[[FLAG]] : tensor<f32>)
  // CHECK: arith.cmpf une
  %u, %found = mpcomm.unscale(%g) by %scale : (tensor<8x64xf32>, tensor<f32>) -> (tensor<8x64xf32>, tensor<f32>)
  // The norm is of the scaled gradient times the inverse.
  // CHECK: linalg.generic {{.*}} iterator_types = ["reduction", "reduction"]{{.*}} ins(%[[G]], %[[INVERSE]] :
  // CHECK: %[[U:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]{{.*}} ins(%[[G]], %[[INVERSE]] :
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: arith.mulf
  // CHECK: math.sqrt
  // CHECK: arith.minimumf
  // CHECK: linalg.generic {{.*}} ins(%[[U]], %
  %c, %norm = mpcomm.clip_by_global_norm(%u) max_norm = 1.0 : (tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<f32>)
  %w1 = mpcomm.sgd_update %w, %c, %lr, weight_decay = 0.0 : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xf32>
  %zero = arith.constant dense<0.0> : tensor<f32>
  %skip = arith.cmpf ogt, %found, %zero : tensor<f32>
  %all = mpcomm.broadcast_in_dim %skip, dims = [] : (tensor<i1>) -> tensor<8x64xi1>
  %new = arith.select %all, %w, %w1 : tensor<8x64xi1>, tensor<8x64xf32>
  return %new : tensor<8x64xf32>
}

// A norm that is given is not computed; squares are those of the gradients as
// they come, in f32.
// CHECK-LABEL: func.func @given_norm
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction", "reduction"]{{.*}} ins(%{{.*}} : tensor<8x64xbf16>)
// CHECK: arith.extf
// CHECK: arith.mulf %{{.*}} : f32
// CHECK-NOT: math.sqrt
// CHECK-NOT: reduction
// CHECK: arith.minimumf
// CHECK: return
func.func @given_norm(%g: tensor<8x64xbf16>, %n: tensor<f32>) -> (tensor<8x64xbf16>, tensor<f32>, tensor<f32>) {
  %s = mpcomm.squared_norm(%g) : (tensor<8x64xbf16>) -> tensor<f32>
  %c, %norm = mpcomm.clip_by_global_norm(%g) norm = %n, max_norm = 1.0 : (tensor<8x64xbf16>, tensor<f32>) -> (tensor<8x64xbf16>, tensor<f32>)
  return %c, %norm, %s : tensor<8x64xbf16>, tensor<f32>, tensor<f32>
}

// A flag that nobody reads is not computed.
// CHECK-LABEL: func.func @unchecked
// CHECK-NOT: reduction
// CHECK: return
func.func @unchecked(%g: tensor<8x64xf16>, %scale: tensor<f32>) -> tensor<8x64xf32> {
  %u, %found = mpcomm.unscale(%g) by %scale : (tensor<8x64xf16>, tensor<f32>) -> (tensor<8x64xf32>, tensor<f32>)
  return %u : tensor<8x64xf32>
}

// CHECK-LABEL: func.func @each
// CHECK: tensor.insert_slice
// CHECK: tensor.insert_slice
// CHECK: return %{{.*}} : tensor<2xf32>
func.func @each(%g: tensor<8x64xf32>, %h: tensor<f32>, %scale: tensor<f32>) -> tensor<2xf32> {
  %u:2, %found = mpcomm.unscale(%g, %h) by %scale each : (tensor<8x64xf32>, tensor<f32>, tensor<f32>) -> (tensor<8x64xf32>, tensor<f32>, tensor<2xf32>)
  return %found : tensor<2xf32>
}

// One small kernel.
// KERNELS-LABEL: func.func @rule
// KERNELS-COUNT-1: mprt.launch
// KERNELS-NOT: mprt.launch
// KERNELS: return
func.func @rule(%s: tensor<f32>, %n: tensor<i32>, %h: tensor<i32>, %f: tensor<f32>) -> (tensor<f32>, tensor<i32>, tensor<i32>) {
  %0:3 = mpcomm.update_loss_scale %s, %n, %h, %f, growth = 2.0, backoff = 0.5, interval = 2000, min = 1.0, max = 65536.0, hysteresis = 2
    : (tensor<f32>, tensor<i32>, tensor<i32>, tensor<f32>) -> (tensor<f32>, tensor<i32>, tensor<i32>)
  return %0#0, %0#1, %0#2 : tensor<f32>, tensor<i32>, tensor<i32>
}

// Ten rounds, two products each. In the first, that of `id` is constant; of the
// last two, only what the first word needs is left.
// KERNELS-LABEL: func.func @dropout
// KERNELS-COUNT-1: mprt.launch
// KERNELS-NOT: mprt.launch
// KERNELS: return
// CHECK-LABEL: func.func @dropout
func.func @dropout(%x: tensor<8x64xf32>, %seed: tensor<2xi32>) -> tensor<8x64xf32> {
  %a = arith.negf %x : tensor<8x64xf32>
  // CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[SEED:.*]], %[[SEED]] : tensor<8x64xf32>, tensor<2xi32>, tensor<2xi32>)
  // CHECK-COUNT-17: arith.shrui
  // CHECK-NOT: arith.shrui
  // CHECK: arith.cmpi sge, %{{.*}}, %c429496729_i64
  // CHECK: arith.select
  %y = mpcomm.dropout %a, %seed, p = 0.1, id = 3 : (tensor<8x64xf32>, tensor<2xi32>) -> tensor<8x64xf32>
  %z = arith.negf %y : tensor<8x64xf32>
  return %z : tensor<8x64xf32>
}

// With p = 1 nothing is kept, and nothing drawn.
// CHECK-LABEL: func.func @all_dropped
// CHECK-NOT: arith.muli
// CHECK: return
func.func @all_dropped(%x: tensor<8x64xf32>, %seed: tensor<2xi32>) -> tensor<8x64xf32> {
  %y = mpcomm.dropout_grad %x, %seed, p = 1.0, id = 3 : (tensor<8x64xf32>, tensor<2xi32>) -> tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// CHECK-LABEL: func.func @fp8
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction"]
// CHECK: arith.divf %{{.*}}, %{{.*}} : f32
func.func @fp8(%h: tensor<16xf32>, %s: tensor<f32>, %amax: tensor<f32>) -> (tensor<16xf32>, tensor<f32>) {
  %0:2 = mpcomm.update_fp8_scale %h, %s, %amax, format = f8E4M3FN, margin = 1 : (tensor<16xf32>, tensor<f32>, tensor<f32>) -> (tensor<16xf32>, tensor<f32>)
  return %0#0, %0#1 : tensor<16xf32>, tensor<f32>
}

// Another name for the operand.
// CHECK-LABEL: func.func @gradient
// CHECK-SAME: %[[G:.*]]: tensor<8x4xf32>
// CHECK-NEXT: return %[[G]]
func.func @gradient(%g: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %h = mpcomm.gradient %g : tensor<8x4xf32>
  return %h : tensor<8x4xf32>
}
