// Ops that read a parameter's copy in 16 bits read the parameter: stages train
// something by them, and are given by its name.

// RUN: mpcomm-opt %s --mpcomm-insert-casts=policy=bf16 --mpcomm-partition-pipeline="stages=4 micro-batches=4" | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-insert-casts=policy=bf16 \
// RUN:   --mpcomm-partition-pipeline="stages=2 micro-batches=2 boundaries=w0=0,w1=1" | FileCheck %s --check-prefix=NAMED
// RUN: mpcomm-opt %s --mpcomm-insert-casts=policy=bf16 --mpcomm-partition-pipeline="stages=4 micro-batches=4" -o /dev/null \
// RUN:   --remarks-filter=mpcomm-partition-pipeline --remark-policy=all 2>&1 | FileCheck %s --check-prefix=BYTES

// RUN: mpcomm-opt %s --mpcomm-insert-casts=policy=bf16 --mpcomm-data-parallel=size=2 --mpcomm-assign-shardings=zero=1 --mpcomm-propagate-shardings --mpcomm-insert-reshards \
// RUN:   --mpcomm-partition-pipeline="stages=4 micro-batches=4" -o /dev/null \
// RUN:   --remarks-filter=mpcomm-partition-pipeline --remark-policy=all 2>&1 | FileCheck %s --check-prefix=ZERO1
// RUN: mpcomm-opt %s --mpcomm-insert-casts=policy=bf16 --mpcomm-data-parallel=size=2 --mpcomm-assign-shardings=zero=3 --mpcomm-propagate-shardings --mpcomm-insert-reshards=gradients \
// RUN:   --mpcomm-partition-pipeline="stages=4 micro-batches=4" -o /dev/null \
// RUN:   --remarks-filter=mpcomm-partition-pipeline --remark-policy=all 2>&1 | FileCheck %s --check-prefix=ZERO3

// CHECK: dot_general {{.*}} {mpcomm.stage = 0 : i64} : (tensor<64x128xbf16>, tensor<128x128xbf16>)
// CHECK: dot_general {{.*}} {mpcomm.stage = 1 : i64} : (tensor<64x128xbf16>, tensor<128x128xbf16>)
// CHECK: dot_general {{.*}} {mpcomm.stage = 2 : i64} : (tensor<64x128xbf16>, tensor<128x128xbf16>)
// CHECK: dot_general {{.*}} {mpcomm.stage = 3 : i64} : (tensor<64x128xbf16>, tensor<128x128xbf16>)

// NAMED: dot_general {{.*}} {mpcomm.stage = 0 : i64} : (tensor<64x128xbf16>, tensor<128x128xbf16>)
// NAMED-COUNT-3: dot_general {{.*}} {mpcomm.stage = 1 : i64} : (tensor<64x128xbf16>, tensor<128x128xbf16>)

// 65536 bytes of a weight, as many of the sum of its gradients, 32768 of its copy.
// BYTES-COUNT-4: parameterBytes=163840,
// Of two ranks, each has half of the weight; then half of all three.
// ZERO1-COUNT-4: parameterBytes=131072,
// ZERO3-COUNT-4: parameterBytes=81920,

func.func @train_step(
    %w0: tensor<128x128xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0", mpcomm.donated = 1 : i64},
    %w1: tensor<128x128xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1", mpcomm.donated = 2 : i64},
    %w2: tensor<128x128xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w2", mpcomm.donated = 3 : i64},
    %w3: tensor<128x128xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w3", mpcomm.donated = 4 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<64x128xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<128x128xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0"},
        tensor<128x128xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1"},
        tensor<128x128xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w2"},
        tensor<128x128xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w3"}) {
  %y0 = mpcomm.dot_general %x, %w0, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
  %y1 = mpcomm.dot_general %y0, %w1, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
  %y2 = mpcomm.dot_general %y1, %w2, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
  %y3 = mpcomm.dot_general %y2, %w3, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
  %q = arith.mulf %y3, %y3 : tensor<64x128xf32>
  %loss = mpcomm.reduce sum %q, dims = [0, 1] : (tensor<64x128xf32>) -> tensor<f32>
  %d3 = arith.addf %y3, %y3 : tensor<64x128xf32>
  %g3 = mpcomm.dot_general %y2, %d3, contracting_dims = [0] x [0] : (tensor<64x128xf32>, tensor<64x128xf32>) -> tensor<128x128xf32>
  %d2 = mpcomm.dot_general %d3, %w3, contracting_dims = [1] x [1] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
  %g2 = mpcomm.dot_general %y1, %d2, contracting_dims = [0] x [0] : (tensor<64x128xf32>, tensor<64x128xf32>) -> tensor<128x128xf32>
  %d1 = mpcomm.dot_general %d2, %w2, contracting_dims = [1] x [1] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
  %g1 = mpcomm.dot_general %y0, %d1, contracting_dims = [0] x [0] : (tensor<64x128xf32>, tensor<64x128xf32>) -> tensor<128x128xf32>
  %d0 = mpcomm.dot_general %d1, %w1, contracting_dims = [1] x [1] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
  %g0 = mpcomm.dot_general %x, %d0, contracting_dims = [0] x [0] : (tensor<64x128xf32>, tensor<64x128xf32>) -> tensor<128x128xf32>
  %n0 = mpcomm.sgd_update %w0, %g0, %lr, weight_decay = 0.0 : (tensor<128x128xf32>, tensor<128x128xf32>, tensor<f32>) -> tensor<128x128xf32>
  %n1 = mpcomm.sgd_update %w1, %g1, %lr, weight_decay = 0.0 : (tensor<128x128xf32>, tensor<128x128xf32>, tensor<f32>) -> tensor<128x128xf32>
  %n2 = mpcomm.sgd_update %w2, %g2, %lr, weight_decay = 0.0 : (tensor<128x128xf32>, tensor<128x128xf32>, tensor<f32>) -> tensor<128x128xf32>
  %n3 = mpcomm.sgd_update %w3, %g3, %lr, weight_decay = 0.0 : (tensor<128x128xf32>, tensor<128x128xf32>, tensor<f32>) -> tensor<128x128xf32>
  return %loss, %n0, %n1, %n2, %n3 : tensor<f32>, tensor<128x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>
}
