// Products from 8 bits: every operand has one scale and one 8-bit form, E4M3 in
// the forward pass, E5M2 for gradients, whatever it is transposed to; what lies
// between products is as under bf16.

// RUN: mpcomm-opt %s --mpcomm-insert-casts="policy=fp8 compute=lower_precision" | FileCheck %s --check-prefixes=CHECK,LOW
// RUN: mpcomm-opt %s --mpcomm-insert-casts="policy=fp8 compute=lower_precision fp8-history=4 fp8-margin=-1" | FileCheck %s --check-prefix=OPTIONS
// RUN: mpcomm-opt %s --mpcomm-insert-casts="policy=fp8 compute=fp32 activations=fp32 gradients=fp32" | FileCheck %s --check-prefix=FULL
// RUN: mpcomm-opt %s --mpcomm-insert-casts="policy=fp8 compute=lower_precision fp8-scaling=current fp8-margin=2" | FileCheck %s --check-prefix=CURRENT
// RUN: mpcomm-opt %s --mpcomm-insert-casts="policy=fp8 compute=lower_precision" --mpcomm-verify-training-graph -o /dev/null
// RUN: mpcomm-opt %s --mpcomm-insert-casts="policy=fp8 compute=lower_precision" --remarks-filter="mpcomm.*" \
// RUN:   --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// The file says the same as the options, and less than they.
// RUN: echo '{"schema": "mpcomm-precision-1", "policy": "fp8", "compute": "lower_precision", "fp8": {"scaling": "current", "history": 4, "margin": 2}}' > %t.json
// RUN: mpcomm-opt %s --mpcomm-insert-casts="policy-file=%t.json" | FileCheck %s --check-prefix=CURRENT
// RUN: mpcomm-opt %s --mpcomm-insert-casts="policy-file=%t.json fp8-scaling=delayed fp8-margin=-1" | FileCheck %s --check-prefix=OPTIONS

// A product that policy keeps in f32 reads no 8 bits.
// RUN: echo '{"schema": "mpcomm-precision-1", "policy": "fp8", "ops": {"mpcomm.dot_general": "fp32"}}' > %t.none.json
// RUN: mpcomm-opt %s --mpcomm-insert-casts="policy-file=%t.none.json" | FileCheck %s --check-prefix=NONE --implicit-check-not=f8E

// 16x4 + 4x8 + 16x8 + 8x2 + 16x2 + 16x8 elements.
// REMARK: Fp8{{.*}}Function=train_step | bytes=400, products=5, tensors=6

// NONE: mpcomm.dot_general {{.*}} : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>

// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: %[[P1:[^:]+]]: tensor<4x8xf32>
// CHECK-SAME: %[[P2:[^:]+]]: tensor<8x2xf32>
// CHECK-SAME: %[[LR:[^:]+]]: tensor<f32>
// CHECK-SAME: %[[X:[^:]+]]: tensor<16x4xf32>
// CHECK-SAME: %[[Y:[^:]+]]: tensor<16xi64>
// CHECK-SAME: %[[XH:[^:]+]]: tensor<16xf32> {mpcomm.default = 0.000000e+00 : f32, mpcomm.donated = 3 : i64, mpcomm.name = "x.fp8.amax_history", mpcomm.role = #mpcomm.role<loss_scale>}
// CHECK-SAME: %[[XS:[^:]+]]: tensor<f32> {mpcomm.default = 1.000000e+00 : f32, mpcomm.donated = 4 : i64, mpcomm.name = "x.fp8.scale", mpcomm.role = #mpcomm.role<loss_scale>}
// CHECK-SAME: %[[W1H:[^:]+]]: tensor<16xf32> {{{[^}]*}}mpcomm.name = "fc1.weight.fp8.amax_history"
// CHECK-SAME: %[[W1S:[^:]+]]: tensor<f32> {{{[^}]*}}mpcomm.name = "fc1.weight.fp8.scale"
// CHECK-SAME: mpcomm.name = "fp8.activation.0.amax_history"
// CHECK-SAME: %[[GS:[^:]+]]: tensor<f32> {{{[^}]*}}mpcomm.name = "fp8.activation.0.scale"
// CHECK-SAME: mpcomm.name = "fc2.weight.fp8.amax_history"
// CHECK-SAME: %[[W2S:[^:]+]]: tensor<f32> {{{[^}]*}}mpcomm.name = "fc2.weight.fp8.scale"
// CHECK-SAME: %[[DZH:[^:]+]]: tensor<16xf32> {{{[^}]*}}mpcomm.name = "fp8.gradient.0.amax_history"
// CHECK-SAME: %[[DZS:[^:]+]]: tensor<f32> {{{[^}]*}}mpcomm.name = "fp8.gradient.0.scale"
// CHECK-SAME: mpcomm.name = "fp8.gradient.1.scale"
// CHECK-SAME: -> (tensor<f32> {mpcomm.name = "loss"
// CHECK-SAME: tensor<16xf32> {mpcomm.name = "x.fp8.amax_history", mpcomm.role = #mpcomm.role<loss_scale>}
// CHECK-SAME: tensor<f32> {mpcomm.name = "x.fp8.scale", mpcomm.role = #mpcomm.role<loss_scale>}

// CHECK: %[[XA:.*]] = math.absf %[[X]]
// CHECK: %[[XM:.*]] = mpcomm.reduce max %[[XA]], dims = [0, 1]
// CHECK: %[[XB:.*]] = mpcomm.broadcast_in_dim %[[XS]], dims = []
// CHECK: %[[X0:.*]] = arith.mulf %[[X]], %[[XB]] : tensor<16x4xf32>
// CHECK: %[[MOST:.*]] = arith.constant dense<4.480000e+02>
// CHECK: %[[X1:.*]] = arith.minimumf %[[X0]], %[[MOST]]
// CHECK: %[[LEAST:.*]] = arith.constant dense<-4.480000e+02>
// CHECK: %[[X2:.*]] = arith.maximumf %[[X1]], %[[LEAST]]
// CHECK: %[[X8:.*]] = arith.truncf %[[X2]] : tensor<16x4xf32> to tensor<16x4xf8E4M3FN>
// CHECK: %[[XI:.*]] = arith.divf %{{.*}}, %[[XS]] : tensor<f32>
// CHECK: %[[XW:.*]] = arith.extf %[[X8]] : tensor<16x4xf8E4M3FN> to tensor<16x4xbf16>
// The master weights, not a copy of them.
// CHECK: math.absf %[[P1]]
// CHECK: %[[W1I:.*]] = arith.divf %{{.*}}, %[[W1S]]
// CHECK: %[[W1W:.*]] = arith.extf %{{.*}} : tensor<4x8xf8E4M3FN> to tensor<4x8xbf16>
// CHECK: %[[H8:.*]] = mpcomm.dot_general %[[XW]], %[[W1W]]
// CHECK: %[[H0:.*]] = arith.extf %[[H8]] : tensor<16x8xbf16> to tensor<16x8xf32>
// CHECK: %[[XIB:.*]] = mpcomm.broadcast_in_dim %[[XI]]
// CHECK: %[[H1:.*]] = arith.mulf %[[H0]], %[[XIB]]
// CHECK: %[[W1IB:.*]] = mpcomm.broadcast_in_dim %[[W1I]]
// CHECK: %[[H2:.*]] = arith.mulf %[[H1]], %[[W1IB]]
// CHECK: %[[H:.*]] = arith.truncf %[[H2]] : tensor<16x8xf32> to tensor<16x8xbf16>
// CHECK: %[[G:.*]] = mpcomm.gelu %[[H]] : tensor<16x8xbf16>
// CHECK: %[[G32:.*]] = arith.extf %[[G]]
// CHECK: math.absf %[[G32]]
// CHECK: %[[G8:.*]] = arith.truncf %{{.*}} to tensor<16x8xf8E4M3FN>
// CHECK: %[[GI:.*]] = arith.divf %{{.*}}, %[[GS]]
// CHECK: %[[W28:.*]] = arith.truncf %{{.*}} to tensor<8x2xf8E4M3FN>
// CHECK: mpcomm.cross_entropy_grad
// CHECK: arith.constant dense<5.734400e+04>
// CHECK: %[[DZ8:.*]] = arith.truncf %{{.*}} to tensor<16x2xf8E5M2>
// Backward products read what the forward pass has stored, widened again.
// CHECK: %[[GW:.*]] = arith.extf %[[G8]] : tensor<16x8xf8E4M3FN> to tensor<16x8xbf16>
// CHECK: %[[DZW:.*]] = arith.extf %[[DZ8]] : tensor<16x2xf8E5M2> to tensor<16x2xbf16>
// CHECK: mpcomm.dot_general %[[GW]], %[[DZW]]
// The transposed weights have no scale of their own.
// CHECK: %[[W2W:.*]] = arith.extf %[[W28]]
// CHECK: %[[W2T:.*]] = mpcomm.transpose %[[W2W]], dims = [1, 0] : (tensor<8x2xbf16>) -> tensor<2x8xbf16>
// CHECK: mpcomm.dot_general %[[DZW]], %[[W2T]]
// CHECK: mpcomm.gelu_grad {{.*}} : tensor<16x8xbf16>
// CHECK: arith.truncf %{{.*}} to tensor<16x8xf8E5M2>
// CHECK: arith.extf %[[X8]]
// CHECK: mpcomm.sgd_update
// CHECK: %[[XN:.*]], %[[XT:.*]] = mpcomm.update_fp8_scale %[[XH]], %[[XS]], %[[XM]], format = f8E4M3FN, margin = 0
// CHECK: mpcomm.update_fp8_scale %[[DZH]], %[[DZS]], %{{.*}}, format = f8E5M2, margin = 0
// CHECK: return {{.*}}, %[[XN]], %[[XT]]

// LOW-NOT: tensor<4x8xbf16> {mpcomm.copy_of

// OPTIONS: tensor<4xf32> {{.*}}mpcomm.name = "x.fp8.amax_history"
// OPTIONS: mpcomm.update_fp8_scale {{.*}}margin = -1 : (tensor<4xf32>,

// FULL-LABEL: func.func @train_step(
// FULL: %[[H:.*]] = mpcomm.dot_general {{.*}} : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
// FULL-NEXT: %[[B:.*]] = mpcomm.broadcast_in_dim
// FULL-NEXT: arith.mulf %[[H]], %[[B]] : tensor<16x8xf32>
// FULL-NOT: bf16

// No state; a scale that is no number is 1. 112 is 448 / 2^2.
// CURRENT-LABEL: func.func @train_step(
// CURRENT-NOT: fp8
// CURRENT: %[[A:.*]] = math.absf
// CURRENT: %[[M:.*]] = mpcomm.reduce max %[[A]]
// CURRENT: %[[INF:.*]] = arith.constant dense<0x7F800000> : tensor<f32>
// CURRENT: %[[TOP:.*]] = arith.constant dense<1.120000e+02> : tensor<f32>
// CURRENT: %[[Q:.*]] = arith.divf %[[TOP]], %[[M]]
// CURRENT-DAG: arith.cmpf olt, %{{.*}}, %[[M]]
// CURRENT-DAG: arith.cmpf olt, %[[M]], %[[INF]]
// CURRENT-DAG: arith.cmpf olt, %[[Q]], %[[INF]]
// CURRENT: %[[S:.*]] = arith.select %{{.*}}, %[[Q]], %{{.*}} : tensor<i1>, tensor<f32>
// CURRENT: mpcomm.broadcast_in_dim %[[S]]
// CURRENT: arith.divf %{{.*}}, %[[S]]
// CURRENT-NOT: mpcomm.update_fp8_scale
func.func @train_step(
    %w1: tensor<4x8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "fc1.weight", mpcomm.donated = 1 : i64},
    %w2: tensor<8x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "fc2.weight", mpcomm.donated = 2 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<16x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %y: tensor<16xi64> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "y", mpcomm.range = array<i64: 0, 2>})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "fc1.weight"},
        tensor<8x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "fc2.weight"}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  %h = mpcomm.dot_general %x, %w1, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  %g = mpcomm.gelu %h : tensor<16x8xf32>
  %z = mpcomm.dot_general %g, %w2, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x2xf32>) -> tensor<16x2xf32>
  %loss, %lse = mpcomm.cross_entropy %z, %y mean ignore_index = -100 : (tensor<16x2xf32>, tensor<16xi64>) -> (tensor<f32>, tensor<16xf32>)
  %dz = mpcomm.cross_entropy_grad %one, %z, %y, %lse mean ignore_index = -100 : (tensor<f32>, tensor<16x2xf32>, tensor<16xi64>, tensor<16xf32>) -> tensor<16x2xf32>
  %dw2 = mpcomm.dot_general %g, %dz, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x2xf32>) -> tensor<8x2xf32>
  %w2t = mpcomm.transpose %w2, dims = [1, 0] : (tensor<8x2xf32>) -> tensor<2x8xf32>
  %dg = mpcomm.dot_general %dz, %w2t, contracting_dims = [1] x [0] : (tensor<16x2xf32>, tensor<2x8xf32>) -> tensor<16x8xf32>
  %dh = mpcomm.gelu_grad %dg, %h : tensor<16x8xf32>
  %dw1 = mpcomm.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %n1 = mpcomm.sgd_update %w1, %dw1, %lr, weight_decay = 0.0 : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %n2 = mpcomm.sgd_update %w2, %dw2, %lr, weight_decay = 0.0 : (tensor<8x2xf32>, tensor<8x2xf32>, tensor<f32>) -> tensor<8x2xf32>
  return %loss, %n1, %n2 : tensor<f32>, tensor<4x8xf32>, tensor<8x2xf32>
}
