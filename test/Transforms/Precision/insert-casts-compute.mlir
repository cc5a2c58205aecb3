// compute=auto: products run narrow where the step, with the casts that this takes,
// is predicted to be no slower. Of the same step, and with a narrow type that is twice
// as fast both times, one cluster's rates say so and the other's do not.

// RUN: split-file %s %t
// RUN: mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy=bf16 cluster=%t/compute-bound.json" --remarks-filter="mpcomm.*" \
// RUN:   --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=COMPUTE
// RUN: mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy=bf16 cluster=%t/memory-bound.json" --remarks-filter="mpcomm.*" \
// RUN:   --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=MEMORY
// RUN: mpcomm-opt %t/step.mlir --mpcomm-insert-casts="policy=bf16 cluster=%t/vector-bound.json" --remarks-filter="mpcomm.*" \
// RUN:   --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=VECTOR

// Memory takes no time. Two products of 2 * 256 * 8 * 4 operations, at 1 and at 2 a
// nanosecond.
// COMPUTE: Compute{{.*}} | gigaflops=2, gigaflopsF32=1, nanoseconds=16384, nanosecondsF32=32768, type=bf16
// COMPUTE: mpcomm.dot_general {{.*}} -> tensor<256x4xbf16>

// Products take no time but for their operands, at a byte a nanosecond. In f32:
//   2 products of (2048 + 32 + 1024) * 4 bytes   24832
//   %a, as the kernel of tanh reads it            4096
//   %t, widened for the second product            4096
//   %dw, as the update reads it                    128
// In bf16 the halves of all that, 16576, and
//   %x and %u, each read in f32 and written      24576
//   the copy of %w                                  64
// MEMORY: Compute{{.*}} | gigaflops=2000000000, gigaflopsF32=1000000000, nanoseconds=41216, nanosecondsF32=33152, type=f32
// MEMORY: mpcomm.dot_general {{.*}} -> tensor<256x4xf32>
// What is stored stays narrow.
// MEMORY: %[[T:.*]] = arith.truncf {{.*}} : tensor<256x4xf32> to tensor<256x4xbf16>
// MEMORY: arith.extf %[[T]]

// Conversions alone take time, a nanosecond an element. In bf16 those of %x and %u, of %w,
// of %t, which the sum reads in f32, and of %dw, which the update does: 2048 * 2 + 32 +
// 1024 + 32. In f32 those of %t and of %dw, which are stored: 2 * (1024 + 32).
// VECTOR: Compute{{.*}} nanoseconds=5184, nanosecondsF32=2112, type=f32

//--- compute-bound.json
{
  "schema": "mpcomm-cluster-1", "name": "compute-bound",
  "device": {"name": "cpu", "flops": {"f32": 1e9, "bf16": 2e9, "vector": 1e30}, "memory_bandwidth": 1e30, "memory_bytes": 1000000000, "launch": 0},
  "links": [{"name": "shm", "ranks": 0, "latency": 1e-6, "bandwidth": 1e10}]
}
//--- memory-bound.json
{
  "schema": "mpcomm-cluster-1", "name": "memory-bound",
  "device": {"name": "cpu", "flops": {"f32": 1e18, "bf16": 2e18, "vector": 1e30}, "memory_bandwidth": 1e9, "memory_bytes": 1000000000, "launch": 0},
  "links": [{"name": "shm", "ranks": 0, "latency": 1e-6, "bandwidth": 1e10}]
}
//--- vector-bound.json
{
  "schema": "mpcomm-cluster-1", "name": "vector-bound",
  "device": {"name": "cpu", "flops": {"f32": 1e18, "bf16": 2e18, "vector": 1e9}, "memory_bandwidth": 1e30, "memory_bytes": 1000000000, "launch": 0},
  "links": [{"name": "shm", "ranks": 0, "latency": 1e-6, "bandwidth": 1e10}]
}
//--- step.mlir
func.func @train_step(
    %w: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "weight", mpcomm.donated = 1 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<256x8xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %u: tensor<256x8xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "u"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<8x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "weight"}) {
  %a = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<256x8xf32>, tensor<8x4xf32>) -> tensor<256x4xf32>
  %t = math.tanh %a : tensor<256x4xf32>
  %l = mpcomm.reduce sum %t, dims = [0, 1] : (tensor<256x4xf32>) -> tensor<f32>
  %dw = mpcomm.dot_general %u, %t, contracting_dims = [0] x [0] : (tensor<256x8xf32>, tensor<256x4xf32>) -> tensor<8x4xf32>
  %n = mpcomm.sgd_update %w, %dw, %lr, weight_decay = 0.0 : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  return %l, %n : tensor<f32>, tensor<8x4xf32>
}
