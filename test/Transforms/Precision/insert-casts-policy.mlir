// What a user decides: by options, a file, an attribute of the module, names of
// parameters; and what the cluster's rates decide.

// RUN: split-file %s %t
// RUN: mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/policy.json" | FileCheck %s --check-prefix=FILE
// RUN: mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy-file=%t/policy.json policy=none" | FileCheck %s --check-prefix=NONE
// RUN: mpcomm-opt %t/attribute.mlir --mpcomm-insert-casts="compute=lower_precision" | FileCheck %s --check-prefix=ATTRIBUTE
// RUN: mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy=bf16 compute=fp32" | FileCheck %s --check-prefix=FULL
// RUN: mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy=bf16 compute=lower_precision activations=fp32 gradients=fp32" | FileCheck %s --check-prefix=EXACT
// RUN: mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy=bf16 cluster=%t/fast.json" --remarks-filter="mpcomm.*" \
// RUN:   --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=FAST
// RUN: mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy=bf16 cluster=%t/slow.json" --remarks-filter="mpcomm.*" \
// RUN:   --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=SLOW
// RUN: mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy=f16 cluster=%t/fast.json" --remarks-filter="mpcomm.*" \
// RUN:   --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// NONE-NOT: bf16
// ATTRIBUTE: mpcomm.dot_general {{.*}} -> tensor<4x4xf16>

// The product on `head` and that of its gradient are in f32, as is the exact tanh;
// softmax is not.
// FILE-LABEL: func.func @train_step(
// FILE: mpcomm.dot_general {{.*}} -> tensor<4x4xbf16>
// FILE: math.tanh {{.*}} : tensor<4x4xf32>
// FILE: mpcomm.dot_general {{.*}} -> tensor<4x4xf32>
// FILE: mpcomm.softmax {{.*}} : tensor<4x4xbf16>
// FILE: mpcomm.dot_general {{.*}} -> tensor<4x4xf32>
// FILE: mpcomm.dot_general {{.*}} -> tensor<4x4xbf16>

// Products in f32, but what they leave for the backward pass, and gradients, in
// bf16. No parameter is copied: nobody reads it narrow.
// FULL-NOT: copy_of
// FULL: %[[A:.*]] = mpcomm.dot_general %{{.*}} -> tensor<4x4xf32>
// FULL: %[[T:.*]] = math.tanh %[[A]] : tensor<4x4xf32>
// FULL-NEXT: %[[T16:.*]] = arith.truncf %[[T]]
// FULL: mpcomm.dot_general %[[T]], %arg1
// FULL: %[[TF:.*]] = arith.extf %[[T16]]
// FULL: %[[D:.*]] = mpcomm.dot_general %[[TF]]
// FULL-NEXT: %[[D16:.*]] = arith.truncf %[[D]]
// FULL: arith.extf %[[D16]]

// EXACT: %[[T:.*]] = math.tanh
// EXACT-NEXT: mpcomm.dot_general %[[T]]
// EXACT: %[[Z:.*]] = mpcomm.softmax
// EXACT-NEXT: %[[Z16:.*]] = arith.truncf %[[Z]]
// EXACT: %[[D:.*]] = mpcomm.dot_general %[[T]], %[[Z16]]{{.*}} -> tensor<4x4xbf16>
// EXACT: %[[DF:.*]] = arith.extf %[[D]]
// EXACT: mpcomm.sgd_update %{{.*}}, %[[DF]]

// FAST: Compute{{.*}} | gigaflops=200, gigaflopsF32=100, nanoseconds={{[0-9]+}}, nanosecondsF32={{[0-9]+}}, type=bf16
// FAST: mpcomm.dot_general {{.*}} -> tensor<4x4xbf16>
// SLOW: Compute{{.*}} | gigaflops=80, gigaflopsF32=100, nanoseconds=0, nanosecondsF32=0, type=f32
// SLOW: mpcomm.dot_general {{.*}} -> tensor<4x4xf32>
// A type without a rate is not taken for a fast one.
// UNKNOWN: Compute{{.*}} | gigaflops=0, gigaflopsF32=100, nanoseconds=0, nanosecondsF32=0, type=f32

//--- policy.json
{
  "schema": "mpcomm-precision-1",
  "policy": "bf16", "compute": "lower_precision",
  "ops": {"math.tanh": "fp32", "mpcomm.softmax": "lower_precision"},
  "parameters": {"he*": "fp32", "head.*": "lower_precision"}
}
//--- fast.json
{
  "schema": "mpcomm-cluster-1", "name": "fast",
  "device": {"name": "cpu", "flops": {"f32": 1e11, "bf16": 2e11}, "memory_bandwidth": 1e10, "memory_bytes": 1000000000, "launch": 0},
  "links": [{"name": "shm", "ranks": 0, "latency": 1e-6, "bandwidth": 1e10}]
}
//--- slow.json
{
  "schema": "mpcomm-cluster-1", "name": "slow",
  "device": {"name": "cpu", "flops": {"f32": 1e11, "bf16": 8e10}, "memory_bandwidth": 1e10, "memory_bytes": 1000000000, "launch": 0},
  "links": [{"name": "shm", "ranks": 0, "latency": 1e-6, "bandwidth": 1e10}]
}
//--- attribute.mlir
module attributes {mpcomm.precision = "f16"} {
  func.func @train_step(%s: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "s"})
      -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
    %a = mpcomm.dot_general %s, %s, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %l = mpcomm.reduce sum %a, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}
//--- step.mlir
func.func @train_step(
    %b: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "body.weight", mpcomm.donated = 1 : i64},
    %h: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "head.weight", mpcomm.donated = 2 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "body.weight"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "head.weight"}) {
  %a = mpcomm.dot_general %x, %b, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = math.tanh %a : tensor<4x4xf32>
  %c = mpcomm.dot_general %t, %h, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %z = mpcomm.softmax %c, dim = 1 : tensor<4x4xf32>
  %l = mpcomm.reduce sum %z, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  %dh = mpcomm.dot_general %t, %z, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %db = mpcomm.dot_general %x, %z, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n1 = mpcomm.sgd_update %b, %db, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %n2 = mpcomm.sgd_update %h, %dh, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %l, %n1, %n2 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>
}
