// A perceptron in bf16: products and what lies between them are narrow, losses,
// sums and updates in f32; parameters get copies that the updates write.

// RUN: mpcomm-opt %s --mpcomm-insert-casts="policy=bf16 compute=lower_precision" | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-insert-casts="policy=f16 compute=lower_precision" | FileCheck %s --check-prefix=F16
// RUN: mpcomm-opt %s --mpcomm-insert-casts="policy=none compute=lower_precision" | FileCheck %s --check-prefix=NONE
// RUN: mpcomm-opt %s --mpcomm-insert-casts | FileCheck %s --check-prefix=NONE
// RUN: mpcomm-opt %s --mpcomm-insert-casts="policy=bf16 compute=lower_precision" --mpcomm-verify-training-graph -o /dev/null
// RUN: mpcomm-opt %s --mpcomm-insert-casts="policy=bf16 compute=lower_precision" --remarks-filter="mpcomm.*" \
// RUN:   --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// 12 casts: x (256 bytes of f32), the logits twice (128 each: forward and
// backward), their gradient (128), dh for its sum (512), that sum (32), three
// gradients for the updates (128 + 32 + 64) and three new parameters (the same).
// 6 values are stored: h + b, its gelu and the logits for the backward pass, three
// gradients for their updates; lse is
// small. x goes into products by itself: no kernel makes or reads it.
// REMARK: InsertCasts{{.*}}Function=train_step | alone=1, aloneBytes=256, bytes=1632, copies=3, inserted=12, merged=4, removed=4, stored=6

// NONE-NOT: bf16
// NONE-NOT: arith.truncf

// F16-LABEL: func.func @train_step(
// F16-SAME: %[[W1:arg6]]: tensor<4x8xf16> {mpcomm.copy_of = "fc1.weight", mpcomm.donated = 4 : i64, mpcomm.name = "fc1.weight.f16", mpcomm.role = #mpcomm.role<optimizer_state>}

// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: %[[P1:[^:]+]]: tensor<4x8xf32>
// CHECK-SAME: %[[PB:[^:]+]]: tensor<8xf32>
// CHECK-SAME: %[[P2:[^:]+]]: tensor<8x2xf32>
// CHECK-SAME: %[[LR:[^:]+]]: tensor<f32>
// CHECK-SAME: %[[X:[^:]+]]: tensor<16x4xf32>
// CHECK-SAME: %[[Y:[^:]+]]: tensor<16xi64>
// CHECK-SAME: %[[W1:[^:]+]]: tensor<4x8xbf16> {mpcomm.copy_of = "fc1.weight", mpcomm.donated = 4 : i64, mpcomm.name = "fc1.weight.bf16", mpcomm.role = #mpcomm.role<optimizer_state>}
// CHECK-SAME: %[[B:[^:]+]]: tensor<8xbf16> {mpcomm.copy_of = "fc1.bias", mpcomm.donated = 5 : i64
// CHECK-SAME: %[[W2:[^:]+]]: tensor<8x2xbf16> {mpcomm.copy_of = "fc2.weight", mpcomm.donated = 6 : i64
// CHECK-SAME: -> (tensor<f32> {mpcomm.name = "loss"
// CHECK-SAME: tensor<4x8xbf16> {mpcomm.name = "fc1.weight.bf16", mpcomm.role = #mpcomm.role<optimizer_state>}
// CHECK: %[[X16:.*]] = arith.truncf %[[X]]
// CHECK: %[[H:.*]] = mpcomm.dot_general %[[X16]], %[[W1]]
// CHECK: %[[BB:.*]] = mpcomm.broadcast_in_dim %[[B]]
// CHECK: %[[HB:.*]] = arith.addf %[[H]], %[[BB]] : tensor<16x8xbf16>
// CHECK: %[[G:.*]] = mpcomm.gelu %[[HB]] : tensor<16x8xbf16>
// CHECK: %[[Z:.*]] = mpcomm.dot_general %[[G]], %[[W2]]
// CHECK: %[[ZF:.*]] = arith.extf %[[Z]] : tensor<16x2xbf16> to tensor<16x2xf32>
// CHECK: %[[LOSS:.*]], %[[LSE:.*]] = mpcomm.cross_entropy %[[ZF]]
// CHECK-NEXT: %[[ZB:.*]] = arith.extf %[[Z]]
// CHECK: %[[DZ:.*]] = mpcomm.cross_entropy_grad %{{.*}}, %[[ZB]], %[[Y]], %[[LSE]]
// CHECK-NEXT: %[[DZ16:.*]] = arith.truncf %[[DZ]]
// CHECK: %[[DW2:.*]] = mpcomm.dot_general %[[G]], %[[DZ16]]
// CHECK: %[[DG:.*]] = mpcomm.dot_general %[[DZ16]], %[[W2]]
// CHECK: %[[DH:.*]] = mpcomm.gelu_grad %[[DG]], %[[HB]] : tensor<16x8xbf16>
// CHECK: %[[DW1:.*]] = mpcomm.dot_general %[[X16]], %[[DH]]
// CHECK: %[[DHF:.*]] = arith.extf %[[DH]]
// CHECK: %[[DB:.*]] = mpcomm.reduce sum %[[DHF]]
// CHECK: %[[DB16:.*]] = arith.truncf %[[DB]]
// CHECK: %[[DW1F:.*]] = arith.extf %[[DW1]]
// CHECK: %[[N1:.*]] = mpcomm.sgd_update %[[P1]], %[[DW1F]], %[[LR]]
// CHECK-NEXT: %[[N1L:.*]] = arith.truncf %[[N1]] : tensor<4x8xf32> to tensor<4x8xbf16>
// CHECK: %[[DBF:.*]] = arith.extf %[[DB16]]
// CHECK: %[[NB:.*]] = mpcomm.sgd_update %[[PB]], %[[DBF]]
// CHECK-NEXT: %[[NBL:.*]] = arith.truncf %[[NB]]
// CHECK: %[[DW2F:.*]] = arith.extf %[[DW2]]
// CHECK: %[[N2:.*]] = mpcomm.sgd_update %[[P2]], %[[DW2F]]
// CHECK-NEXT: %[[N2L:.*]] = arith.truncf %[[N2]]
// CHECK: return %[[LOSS]], %[[N1]], %[[NB]], %[[N2]], %[[N1L]], %[[NBL]], %[[N2L]]
func.func @train_step(
    %w1: tensor<4x8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "fc1.weight", mpcomm.donated = 1 : i64},
    %b1: tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "fc1.bias", mpcomm.donated = 2 : i64},
    %w2: tensor<8x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "fc2.weight", mpcomm.donated = 3 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<16x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %y: tensor<16xi64> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "y", mpcomm.range = array<i64: 0, 2>})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "fc1.weight"},
        tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "fc1.bias"},
        tensor<8x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "fc2.weight"}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  %h = mpcomm.dot_general %x, %w1, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  %bb = mpcomm.broadcast_in_dim %b1, dims = [1] : (tensor<8xf32>) -> tensor<16x8xf32>
  %hb = arith.addf %h, %bb : tensor<16x8xf32>
  %g = mpcomm.gelu %hb : tensor<16x8xf32>
  %z = mpcomm.dot_general %g, %w2, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x2xf32>) -> tensor<16x2xf32>
  %loss, %lse = mpcomm.cross_entropy %z, %y mean ignore_index = -100 : (tensor<16x2xf32>, tensor<16xi64>) -> (tensor<f32>, tensor<16xf32>)
  %dz = mpcomm.cross_entropy_grad %one, %z, %y, %lse mean ignore_index = -100 : (tensor<f32>, tensor<16x2xf32>, tensor<16xi64>, tensor<16xf32>) -> tensor<16x2xf32>
  %dw2 = mpcomm.dot_general %g, %dz, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x2xf32>) -> tensor<8x2xf32>
  %dg = mpcomm.dot_general %dz, %w2, contracting_dims = [1] x [1] : (tensor<16x2xf32>, tensor<8x2xf32>) -> tensor<16x8xf32>
  %dh = mpcomm.gelu_grad %dg, %hb : tensor<16x8xf32>
  %dw1 = mpcomm.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %db1 = mpcomm.reduce sum %dh, dims = [0] : (tensor<16x8xf32>) -> tensor<8xf32>
  %n1 = mpcomm.sgd_update %w1, %dw1, %lr, weight_decay = 0.0 : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %n2 = mpcomm.sgd_update %b1, %db1, %lr, weight_decay = 0.0 : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %n3 = mpcomm.sgd_update %w2, %dw2, %lr, weight_decay = 0.0 : (tensor<8x2xf32>, tensor<8x2xf32>, tensor<f32>) -> tensor<8x2xf32>
  return %loss, %n1, %n2, %n3 : tensor<f32>, tensor<4x8xf32>, tensor<8xf32>, tensor<8x2xf32>
}
