// Buckets are weighed for two levels only where mpcomm-decompose-collectives can
// make them: blocks of 4 divide 8 ranks, but not 10. The same prediction with
// `decompose` and without means that it was not weighed.
//
// RUN: split-file %s %t
// RUN: mpcomm-opt %t/eight.mlir --mpcomm-combine-collectives="cluster=%t/cluster.json decompose=0" --remarks-filter="mpcomm.*" --remark-format=emitRemark -o /dev/null 2> %t/eight.txt
// RUN: mpcomm-opt %t/eight.mlir --mpcomm-combine-collectives="cluster=%t/cluster.json decompose=1" --remarks-filter="mpcomm.*" --remark-format=emitRemark -o /dev/null 2>> %t/eight.txt
// RUN: FileCheck %s --check-prefix=EIGHT < %t/eight.txt
// RUN: mpcomm-opt %t/ten.mlir --mpcomm-combine-collectives="cluster=%t/cluster.json decompose=0" --remarks-filter="mpcomm.*" --remark-format=emitRemark -o /dev/null 2> %t/ten.txt
// RUN: mpcomm-opt %t/ten.mlir --mpcomm-combine-collectives="cluster=%t/cluster.json decompose=1" --remarks-filter="mpcomm.*" --remark-format=emitRemark -o /dev/null 2>> %t/ten.txt
// RUN: FileCheck %s --check-prefix=TEN < %t/ten.txt
// RUN: mpcomm-opt %t/ten.mlir --mpcomm-decompose-collectives="cluster=%t/cluster.json" | FileCheck %s --check-prefix=WHOLE

// EIGHT: BucketPlan{{.*}}predicted_us=[[FLAT:[0-9.]+]],
// EIGHT-NOT: BucketPlan{{.*}}predicted_us=[[FLAT]],
// EIGHT: BucketPlan{{.*}}predicted_us=
// TEN: BucketPlan{{.*}}predicted_us=[[FLAT:[0-9.]+]],
// TEN: BucketPlan{{.*}}predicted_us=[[FLAT]],
// WHOLE-NOT: reduce_scatter

//--- cluster.json
{"schema": "mpcomm-cluster-1", "name": "two levels",
 "device": {"name": "d", "flops": {"f32": 1e12}, "memory_bandwidth": 1e12, "memory_bytes": 1000000000, "launch": 0},
 "links": [{"name": "inside", "ranks": 4, "latency": 1e-6, "bandwidth": 1e11},
           {"name": "across", "ranks": 0, "latency": 1e-5, "bandwidth": 1e9}]}
//--- eight.mlir
mpcomm.mesh @mesh <["dp" = 8]>
func.func @train_step(%x: tensor<1000000xf32>) -> tensor<1000000xf32> {
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<1000000xf32>
  return %r : tensor<1000000xf32>
}
//--- ten.mlir
mpcomm.mesh @mesh <["dp" = 10]>
func.func @train_step(%x: tensor<1000000xf32>) -> tensor<1000000xf32> {
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<1000000xf32>
  return %r : tensor<1000000xf32>
}
