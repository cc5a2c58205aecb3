// Two gradients, the first reduced while the second is computed. Figures of the
// cluster are round, so that times can be worked out by hand.
//
// RUN: split-file %s %t
// RUN: mpcomm-sim %t/step.mlir --cluster=%t/cluster.json --name=two --json %t/two.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=JSON < %t/two.json
// RUN: mpcomm-sim %t/step.mlir --cluster=%t/cluster.json --ranks=8192 | FileCheck %s --check-prefix=MANY
// RUN: mpcomm-sim %mpcomm_src_root/docs/examples/linear.mlir --cluster=%t/cluster.json --ranks=4 | FileCheck %s --check-prefix=GRAPH
// RUN: mpcomm-sim %mpcomm_src_root/docs/examples/linear.mlir --cluster=%t/cluster.json --pipeline="mpcomm-data-parallel{size=8}" | FileCheck %s --check-prefix=PASSES
// RUN: not mpcomm-sim %t/step.mlir --pipeline=none 2>&1 | FileCheck %s --check-prefix=PIPELINE
// RUN: not mpcomm-sim %t/step.mlir --cluster=none 2>&1 | FileCheck %s --check-prefix=CLUSTER
// RUN: not mpcomm-sim %t/step.mlir --function=f 2>&1 | FileCheck %s --check-prefix=FUNCTION
// RUN: not mpcomm-sim %t/gather.mlir --cluster=%t/cluster.json --ranks=4 2>&1 | FileCheck %s --check-prefix=GATHER
// RUN: not mpcomm-sim %t/step.mlir --ranks=-1 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not mpcomm-sim %t/step.mlir --json %t/none/x.json 2>&1 | FileCheck %s --check-prefix=WRITE
// RUN: not mpcomm-sim %t/none.mlir 2>&1 | FileCheck %s --check-prefix=READ

// Each product is 2 * 1000^3 flop, at 1e12 flop/s 2,000 us; each all_reduce
// moves 4e6 bytes: on 2 ranks, a ring, 2 * 10 us and 4e6 / 1e9 s = 4,000 us.
// The first runs from 2,000 to 6,020 us, the second then to 10,040.
// CHECK: two on 2 ranks of round
// CHECK-NEXT: step 10040.0 us
// CHECK-NEXT: lower bound 10040.0 us
// CHECK-NEXT: compute 4000.0 us
// CHECK-NEXT: exposed 6040.0 us
// CHECK-NEXT: peak memory
// CHECK: 0 all_reduce 4000000 1 2000.0 2000.0 6020.0 4000.0 2000.0 2020.0 nothing-to-hide-under
// CHECK: 1 all_reduce 4000000 1 4000.0 6020.0 10040.0 6020.0 0.0 4020.0 stream-order: after collective 0 on its communicator

// JSON: {"schema": "mpcomm-timeline-1", "name": "two", "kind": "simulated", "cluster": "round", "ranks": 2, "seconds": 0.01004, "lower_bound": 0.01004, "compute": 0.004
// JSON: {"name": "compute", "rank": 0, "events": [
// JSON-NEXT: {"name": "matmul", "location": "{{.*}}step.mlir:6", "begin": 0, "end": 0.002}
// JSON: {"name": "await", "location": "{{.*}}", "begin": 0.004, "end": 0.00602, "flow": 0}
// JSON: {"name": "dp", "rank": 0, "events": [
// JSON: "collectives": [
// JSON-NEXT: {"id": 0, "name": "all_reduce", {{.*}} "bytes": 4000000, "tensors": 1, "ready": 0.002, "start": 0.002, "end": 0.00602, "awaited": 0.004, "hidden": 0.002, "exposed": 0.00202, "reason": "nothing-to-hide-under", "detail": ""}

// p ranks: a ring takes 2 (p - 1) steps of 10 us and 4e6 / p bytes, 171,819 us
// for p = 8192; the first begins at 2,000 us.
// MANY: step on 8192 ranks of round
// MANY-NEXT: step 345638.0 us

// A training graph goes the way to rank programs first, or a part of it: the loss
// and two gradients, 4 + 8 + 32 bytes.
// GRAPH: linear on 4 ranks of round
// GRAPH: 0 all_reduce 44 3
// PASSES: linear on 8 ranks of round
// PASSES: 1 all_reduce

// PIPELINE: cannot make rank programs
// CLUSTER: error: cannot read 'none'
// FUNCTION: expects a function or an mpcomm.program 'f'
// GATHER: has types that depend on the number of ranks, which --ranks cannot change
// RANKS: mpcomm-sim: error: expected --ranks of at least 1
// WRITE: mpcomm-sim: error: cannot write '{{.*}}x.json'
// READ: mpcomm-sim: error: cannot read '{{.*}}none.mlir'

//--- step.mlir
mpcomm.mesh @mesh <["dp" = 2]>

func.func @train_step(%a: tensor<1000x1000xf32>, %b: tensor<1000x1000xf32>)
    -> (tensor<1000x1000xf32>, tensor<1000x1000xf32>) {
  %e = tensor.empty() : tensor<1000x1000xf32>
  %g0 = linalg.matmul ins(%a, %b : tensor<1000x1000xf32>, tensor<1000x1000xf32>) outs(%e : tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  %f0 = mpcomm.async {
    %r = mpcomm.all_reduce(%g0) on @mesh axes ["dp"] mean : tensor<1000x1000xf32>
    mpcomm.yield %r : tensor<1000x1000xf32>
  } : !mpcomm.future<tensor<1000x1000xf32>>
  %g1 = linalg.matmul ins(%b, %a : tensor<1000x1000xf32>, tensor<1000x1000xf32>) outs(%e : tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  %f1 = mpcomm.async {
    %r = mpcomm.all_reduce(%g1) on @mesh axes ["dp"] mean : tensor<1000x1000xf32>
    mpcomm.yield %r : tensor<1000x1000xf32>
  } : !mpcomm.future<tensor<1000x1000xf32>>
  %v0 = mpcomm.await %f0 : !mpcomm.future<tensor<1000x1000xf32>>
  %v1 = mpcomm.await %f1 : !mpcomm.future<tensor<1000x1000xf32>>
  return %v0, %v1 : tensor<1000x1000xf32>, tensor<1000x1000xf32>
}

//--- gather.mlir
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(%a: tensor<2xf32>) -> tensor<4xf32> {
  %g = mpcomm.all_gather(%a) on @mesh axes ["dp"] dim = 0 : (tensor<2xf32>) -> tensor<4xf32>
  return %g : tensor<4xf32>
}

//--- cluster.json
{"schema": "mpcomm-cluster-1", "name": "round", "source": "made up",
 "device": {"name": "d", "flops": {"f32": 1e12, "vector": 1e12},
            "memory_bandwidth": 1e15, "memory_bytes": 1000000000, "launch": 0},
 "links": [{"name": "net", "ranks": 0, "latency": 1e-5, "bandwidth": 1e9, "contends": true}],
 "algorithms": ["ring"]}
