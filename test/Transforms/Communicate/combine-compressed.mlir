// Buckets that will be compressed are weighed as what travels then.
// The cluster of Inputs/one-level.json: 10 us a message, 1e9 B/s, 1e9 flop/s.

// RUN: mpcomm-opt %s --mpcomm-combine-collectives="cluster=%S/Inputs/one-level.json" | FileCheck %s --check-prefix=PLAIN
// RUN: mpcomm-opt %s --mpcomm-combine-collectives="cluster=%S/Inputs/one-level.json compress=i8" | FileCheck %s --check-prefix=SMALL
// RUN: mpcomm-opt %s --mpcomm-combine-collectives="cluster=%S/Inputs/one-level.json compress=i8 compress-min-bytes=100000" | FileCheck %s --check-prefix=PLAIN
// RUN: mpcomm-opt %s --mpcomm-combine-collectives="cluster=%S/Inputs/one-level.json compress=i8" --remarks-filter="mpcomm-combine-collectives" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=TIMES
// RUN: not mpcomm-opt %s --mpcomm-combine-collectives="compress=i3" 2>&1 | FileCheck %s --check-prefix=TYPE
// TYPE: error: cannot compress to 'i3', expected f16, bf16, i8, f8E4M3FN, f8E5M2, i4, i1 or top1of8 to top1of256

mpcomm.mesh @mesh <["dp" = 2]>

// Each of the two takes 20 us + 20,000 ns = 40 us; the second is ready at 25 us.
// Apart they end at 80 us, together at 25 + 20 + 40 = 85 us: apart. As i8 the two
// together take 40 us + 0.2539 ns x 40,000 = 50.2 us and end at 75.2 us.
// TIMES: BucketPlan{{.*}}bound_us={{.*}}predicted_us=75.2
// PLAIN-LABEL: func.func @together_if_compressed
// PLAIN: mpcomm.all_reduce(%{{[^,]*}}) on
// PLAIN: mpcomm.all_reduce(%{{[^,]*}}) on
// SMALL-LABEL: func.func @together_if_compressed
// SMALL: mpcomm.all_reduce(%{{.*}}, %{{.*}}) on
// SMALL-NOT: all_reduce
func.func @together_if_compressed(%x: tensor<5000xf32>, %y: tensor<25000xf32>) -> (tensor<5000xf32>, tensor<5000xf32>) {
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum accumulate f32 : tensor<5000xf32>
  %s = arith.addf %y, %y : tensor<25000xf32>
  %t = mpcomm.slice %s, starts = [0], limits = [5000], strides = [1] : (tensor<25000xf32>) -> tensor<5000xf32>
  %b = mpcomm.all_reduce(%t) on @mesh axes ["dp"] sum accumulate f32 : tensor<5000xf32>
  return %a, %b : tensor<5000xf32>, tensor<5000xf32>
}
