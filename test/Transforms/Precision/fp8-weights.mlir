// RUN: mpcomm-opt %s --split-input-file --mpcomm-insert-casts="policy=fp8 compute=lower_precision" --remarks-filter="mpcomm.*" \
// RUN:   --remark-format=emitRemark 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t.remarks
// RUN: mpcomm-opt %s --split-input-file --mpcomm-insert-casts="policy=fp8 compute=lower_precision multiply-f8" | FileCheck %s --check-prefix=MARK
// RUN: mpcomm-opt %s --split-input-file --mpcomm-insert-casts="policy=fp8 compute=lower_precision" | FileCheck %s --check-prefix=NONE --implicit-check-not=multiply_f8
// RUN: mpcomm-opt %s --split-input-file --mpcomm-insert-casts="policy=bf16 compute=lower_precision multiply-f8" | FileCheck %s --check-prefix=NONE --implicit-check-not=multiply_f8
// MARK: module attributes {mpcomm.multiply_f8}
// NONE: func.func @train_step(
//
// Products with what is made of parameters alone go through 8 bits, and the
// gradients of these products. Products of activations, as of queries and keys,
// are in 16 bits, and so are theirs.

// REMARK: Fp8{{.*}}products=3, tensors=3

// CHECK-LABEL: func.func @train_step(
// A weight that is scaled is one.
//       CHECK: mpcomm.dot_general %{{.+}}, %{{.+}}, contracting_dims = [1] x [0] : (tensor<16x4xbf16>, tensor<4x8xbf16>)
//       CHECK: %[[HB:.+]] = arith.truncf %{{.+}} : tensor<16x8xf32> to tensor<16x8xbf16>
//   CHECK-NOT: f8E
//       CHECK: mpcomm.dot_general %[[HB]], %[[HB]], contracting_dims = [1] x [1] : (tensor<16x8xbf16>, tensor<16x8xbf16>)
// In the backward pass as well.
//   CHECK-NOT: f8E
//       CHECK: mpcomm.dot_general %{{.+}}, %[[HB]], contracting_dims = [1] x [0] : (tensor<16x16xbf16>, tensor<16x8xbf16>)
//   CHECK-NOT: f8E
//       CHECK: mpcomm.dot_general %{{.+}}, %[[HB]], contracting_dims = [0] x [0] : (tensor<16x16xbf16>, tensor<16x8xbf16>)
// The gradient of the weight reads x again, in the 8 bits of the forward pass.
//       CHECK: arith.truncf %{{.+}} : tensor<16x8xf32> to tensor<16x8xf8E5M2>
//       CHECK: mpcomm.dot_general %{{.+}}, %{{.+}}, contracting_dims = [0] x [0] : (tensor<16x4xbf16>, tensor<16x8xbf16>) -> tensor<4x8xbf16>
// That of x is a product with the weight.
//       CHECK: mpcomm.dot_general %{{.+}}, %{{.+}}, contracting_dims = [1] x [1] : (tensor<16x8xbf16>, tensor<4x8xbf16>) -> tensor<16x4xbf16>
func.func @train_step(
    %w: tensor<4x8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 1.000000e-01 : f32},
    %x: tensor<16x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<16x4xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "dx"}) {
  %half = arith.constant dense<5.000000e-01> : tensor<4x8xf32>
  %one = arith.constant dense<1.000000e+00> : tensor<16x16xf32>
  %v = arith.mulf %w, %half : tensor<4x8xf32>
  %h = mpcomm.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  %s = mpcomm.dot_general %h, %h, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x16xf32>
  %e = math.exp %s : tensor<16x16xf32>
  %loss = mpcomm.reduce sum %e, dims = [0, 1] : (tensor<16x16xf32>) -> tensor<f32>
  %ds = arith.mulf %e, %one : tensor<16x16xf32>
  %a = mpcomm.dot_general %ds, %h, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %b = mpcomm.dot_general %ds, %h, contracting_dims = [0] x [0] : (tensor<16x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %dh = arith.addf %a, %b : tensor<16x8xf32>
  %dv = mpcomm.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %dx = mpcomm.dot_general %dh, %v, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<4x8xf32>) -> tensor<16x4xf32>
  %dw = arith.mulf %dv, %half : tensor<4x8xf32>
  %new = mpcomm.sgd_update %w, %dw, %lr, weight_decay = 0.0 : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  return %loss, %new, %dx : tensor<f32>, tensor<4x8xf32>, tensor<16x4xf32>
}

// -----

// What a weight and an activation multiply is in both: its products with the
// activation are in 16 bits in both passes.
// CHECK-LABEL: func.func @train_step(
//       CHECK: %[[X16:.+]] = arith.truncf %{{.+}} : tensor<16x4xf32> to tensor<16x4xbf16>
//       CHECK: %[[X8:.+]] = arith.extf %{{.+}} : tensor<16x4xf8E4M3FN> to tensor<16x4xbf16>
//       CHECK: mpcomm.dot_general %[[X8]], {{.*}} : (tensor<16x4xbf16>, tensor<4x8xbf16>)
//       CHECK: mpcomm.dot_general %[[X16]], %[[X16]], contracting_dims = [1] x [1]
//       CHECK: mpcomm.dot_general %{{.+}}, %[[X16]], contracting_dims = [1] x [0] : (tensor<16x16xbf16>, tensor<16x4xbf16>)
//       CHECK: mpcomm.dot_general %{{.+}}, %{{.+}}, contracting_dims = [0] x [0] : (tensor<16x4xbf16>, tensor<16x8xbf16>) -> tensor<4x8xbf16>
// REMARK: Fp8{{.*}}products=2, tensors=3
func.func @train_step(
    %w: tensor<4x8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 1.000000e-01 : f32},
    %x: tensor<16x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<16x4xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "dx"}) {
  %h = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  %s = mpcomm.dot_general %x, %x, contracting_dims = [1] x [1] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<16x16xf32>
  %eh = math.exp %h : tensor<16x8xf32>
  %es = math.exp %s : tensor<16x16xf32>
  %lh = mpcomm.reduce sum %eh, dims = [0, 1] : (tensor<16x8xf32>) -> tensor<f32>
  %ls = mpcomm.reduce sum %es, dims = [0, 1] : (tensor<16x16xf32>) -> tensor<f32>
  %loss = arith.addf %lh, %ls : tensor<f32>
  %ds = arith.addf %es, %es : tensor<16x16xf32>
  %dx = mpcomm.dot_general %ds, %x, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x4xf32>) -> tensor<16x4xf32>
  %dh = arith.addf %eh, %eh : tensor<16x8xf32>
  %dw = mpcomm.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %new = mpcomm.sgd_update %w, %dw, %lr, weight_decay = 0.0 : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  return %loss, %new, %dx : tensor<f32>, tensor<4x8xf32>, tensor<16x4xf32>
}
