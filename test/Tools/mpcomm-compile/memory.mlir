// What the report says of memory, of a network of two layers on one rank.
//
// RUN: %mpcomm-compile %s -o %t.so --report | FileCheck %s
// RUN: %mpcomm-compile %s -o %t.so --report --options=precision-file=%S/Inputs/low.json | FileCheck %s --check-prefix=LOW
// RUN: %mpcomm-compile %s -o %t.so --report --np 2 | FileCheck %s --check-prefix=RANKS
//
// Two parameters of 64 x 64 x 4 = 16,384 bytes; 32 x 64 x 4 = 8,192 bytes of batch
// and 4 of the learning rate; 4 of the loss. What lives from the forward to the
// backward pass are the tanh and the output, 8,192 bytes each; with them live the
// gradient of a parameter and that of the tanh.

// CHECK: memory per rank:
// CHECK-NEXT: parameters {{ *}}32768 B {{ *}}0.03 MiB
// CHECK-NEXT: master weights {{ *}}0 B
// CHECK-NEXT: lower-precision copies {{ *}}0 B
// CHECK-NEXT: optimizer state {{ *}}0 B
// CHECK-NEXT: loss scaling {{ *}}0 B
// CHECK-NEXT: buffers {{ *}}0 B
// CHECK-NEXT: batch, hyperparameters, seed {{ *}}8196 B
// CHECK-NEXT: results {{ *}}4 B
// CHECK-NEXT: arena {{ *}}40960 B
// CHECK-NEXT: activations {{ *}}16384 B
// CHECK-NEXT: gradients {{ *}}16384 B
// CHECK-NEXT: communication {{ *}}0 B
// CHECK-NEXT: temporaries {{ *}}8192 B
// CHECK-NEXT: gaps {{ *}}0 B
// CHECK-NEXT: all {{ *}}81928 B

// With lower-precision copies: half of the bytes each.
// LOW: parameters {{ *}}0 B
// LOW-NEXT: master weights {{ *}}32768 B
// LOW-NEXT: lower-precision copies {{ *}}16384 B

// When most is in use, the second parameter's gradient is made: it lies in a
// bucket with the loss, which takes 64 bytes with its alignment: 16,384 + 64. The
// first one's comes later.
// RANKS: communication {{ *}}16448 B

func.func @train_step(
    %w1: tensor<64x64xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1", mpcomm.donated = 1 : i64},
    %w2: tensor<64x64xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w2", mpcomm.donated = 2 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<32x64xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<64x64xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1"},
        tensor<64x64xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w2"}) {
  %h = mpcomm.dot_general %x, %w1, contracting_dims = [1] x [0] : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>
  %a = math.tanh %h : tensor<32x64xf32>
  %y = mpcomm.dot_general %a, %w2, contracting_dims = [1] x [0] : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>
  %square = arith.mulf %y, %y : tensor<32x64xf32>
  %loss = mpcomm.reduce sum %square, dims = [0, 1] : (tensor<32x64xf32>) -> tensor<f32>
  %dy = arith.addf %y, %y : tensor<32x64xf32>
  %dw2 = mpcomm.dot_general %a, %dy, contracting_dims = [0] x [0] : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
  %da = mpcomm.dot_general %dy, %w2, contracting_dims = [1] x [1] : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>
  %aa = arith.mulf %a, %a : tensor<32x64xf32>
  %part = arith.mulf %da, %aa : tensor<32x64xf32>
  %dh = arith.subf %da, %part : tensor<32x64xf32>
  %dw1 = mpcomm.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
  %u1 = mpcomm.sgd_update %w1, %dw1, %lr, weight_decay = 0.0 : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
  %u2 = mpcomm.sgd_update %w2, %dw2, %lr, weight_decay = 0.0 : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
  return %loss, %u1, %u2 : tensor<f32>, tensor<64x64xf32>, tensor<64x64xf32>
}
