// Products in the body of a loop have 16 bits; the weight is rounded before the loop, and
// casts around the loop are in its body. A loop of another function keeps the old body.

// RUN: mpcomm-opt %s --mpcomm-insert-casts="policy=bf16 compute=lower_precision" --canonicalize --cse | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-insert-casts="policy=bf16 compute=fp32" --canonicalize --cse | FileCheck %s --check-prefix=FP32
// RUN: mpcomm-opt %s --mpcomm-insert-casts="policy=bf16 compute=lower_precision" --remarks-filter="mpcomm.*" \
// RUN:   --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: sed '/%h, %w/s/ : / {mpcomm.precision = "fp32"} : /' %s | mpcomm-opt --mpcomm-insert-casts="policy=bf16 compute=lower_precision" \
// RUN:   --canonicalize --cse | FileCheck %s --check-prefix=ASKED

// ASKED-COUNT-2: mpcomm.dot_general {{.*}}{mpcomm.precision = "fp32"} : (tensor<2x4xf32>, tensor<4x4xf32>)

// REMARK: LoopCasts{{.*}}Function=train_step | loops=2

// CHECK-LABEL: func.func @train_step
// CHECK-SAME: %[[W:[^:]+]]: tensor<4x4xf32>
// CHECK-DAG: %[[W16:.*]] = arith.truncf %[[W]] : tensor<4x4xf32> to tensor<4x4xbf16>
// CHECK-DAG: %[[P:.*]] = mpcomm.dot_general {{.*}} -> tensor<8x2x4xbf16>
// CHECK: mpcomm.scan @[[CELL:cell_[0-9]+]] trips = 8 carries(%{{.*}} : tensor<2x4xf32>) slices(%[[P]] : tensor<8x2x4xbf16>) captured(%[[W16]] : tensor<4x4xbf16>) -> tensor<2x4xf32>, tensor<8x2x4xbf16>
// CHECK: mpcomm.scan @[[CELL]] trips = 8 {{.*}} captured(%{{.*}} : tensor<4x4xbf16>)

// CHECK: func.func @evaluate
// CHECK: mpcomm.scan @cell trips = 8 carries(%{{.*}} : tensor<2x4xf32>) slices(%{{.*}} : tensor<8x2x4xf32>)

// CHECK: func.func private @cell(
// CHECK-SAME: tensor<4x4xf32>
// CHECK: func.func private @[[CELL]](%[[H:.*]]: tensor<2x4xf32>, %[[X:.*]]: tensor<2x4xbf16>, %[[CW:.*]]: tensor<4x4xbf16>) -> (tensor<2x4xf32>, tensor<2x4xbf16>)
// CHECK-DAG: %[[XF:.*]] = arith.extf %[[X]]
// CHECK-DAG: %[[H16:.*]] = arith.truncf %[[H]]
// CHECK: %[[D:.*]] = mpcomm.dot_general %[[H16]], %[[CW]]{{.*}} -> tensor<2x4xbf16>
// CHECK: %[[DF:.*]] = arith.extf %[[D]]
// CHECK: %[[S:.*]] = arith.addf %[[XF]], %[[DF]] : tensor<2x4xf32>
// CHECK: %[[T:.*]] = math.tanh %[[S]] : tensor<2x4xf32>
// CHECK: %[[Y:.*]] = arith.truncf %[[T]]
// CHECK: return %[[T]], %[[Y]]

// What is stored is narrow all the same.
// FP32: mpcomm.scan @[[CELL:cell_[0-9]+]] trips = 8 {{.*}} captured(%{{.*}} : tensor<4x4xf32>) -> tensor<2x4xf32>, tensor<8x2x4xbf16>
// FP32: func.func private @[[CELL]]
// FP32: mpcomm.dot_general {{.*}} -> tensor<2x4xf32>
func.func @train_step(
    %w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<8x2x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %zero = arith.constant dense<0.0> : tensor<2x4xf32>
  %p = mpcomm.dot_general %x, %w, contracting_dims = [2] x [0] : (tensor<8x2x4xf32>, tensor<4x4xf32>) -> tensor<8x2x4xf32>
  %h, %y = mpcomm.scan @cell trips = 8 carries(%zero : tensor<2x4xf32>) slices(%p : tensor<8x2x4xf32>)
      captured(%w : tensor<4x4xf32>) -> tensor<2x4xf32>, tensor<8x2x4xf32>
  %q = mpcomm.dot_general %y, %w, contracting_dims = [2] x [0] : (tensor<8x2x4xf32>, tensor<4x4xf32>) -> tensor<8x2x4xf32>
  %h2, %y2 = mpcomm.scan @cell trips = 8 carries(%zero : tensor<2x4xf32>) slices(%q : tensor<8x2x4xf32>)
      captured(%w : tensor<4x4xf32>) -> tensor<2x4xf32>, tensor<8x2x4xf32>
  %loss = mpcomm.reduce sum %h2, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<f32>
  %g = mpcomm.dot_general %y, %y2, contracting_dims = [0, 1] x [0, 1] : (tensor<8x2x4xf32>, tensor<8x2x4xf32>) -> tensor<4x4xf32>
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %w1 : tensor<f32>, tensor<4x4xf32>
}
func.func @evaluate(
    %w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %x: tensor<8x2x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<2x4xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "output"}) {
  %zero = arith.constant dense<0.0> : tensor<2x4xf32>
  %h, %y = mpcomm.scan @cell trips = 8 carries(%zero : tensor<2x4xf32>) slices(%x : tensor<8x2x4xf32>)
      captured(%w : tensor<4x4xf32>) -> tensor<2x4xf32>, tensor<8x2x4xf32>
  return %h : tensor<2x4xf32>
}
func.func private @cell(%h: tensor<2x4xf32>, %x: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %0 = mpcomm.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = arith.addf %x, %0 : tensor<2x4xf32>
  %2 = math.tanh %1 : tensor<2x4xf32>
  return %2, %2 : tensor<2x4xf32>, tensor<2x4xf32>
}
