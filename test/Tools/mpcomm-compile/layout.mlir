// A step with 262 kB of parameters in each of two layers, and activations of 1 kB
// a sample: over a slow link the pipeline is faster, over a fast one data
// parallelism is. RUN lines keep the samples of a step the same.
//
// RUN: split-file %s %t
// RUN: sed s/BATCH/4/g %t/step.mlir > %t/four.mlir
// RUN: sed s/BATCH/8/g %t/step.mlir > %t/eight.mlir
// RUN: sed s/RATE/25e6/ %t/cluster.json > %t/slow.json
// RUN: sed s/RATE/1e12/ %t/cluster.json > %t/fast.json
// RUN: %mpcomm-compile %t/four.mlir -o %t/slow.so --report --options "mesh=auto:2 micro-batches=4 cluster=%t/slow.json" | FileCheck %s --check-prefix=SLOW
// RUN: %mpcomm-compile %t/four.mlir -o %t/fast.so --report --options "mesh=auto:2 micro-batches=4 cluster=%t/fast.json" | FileCheck %s --check-prefix=FAST
// What is chosen is what is compiled, and what the simulator says of it.
// RUN: %mpcomm-compile %t/four.mlir -o %t/slow.mlir --emit=mlir --options "mesh=auto:2 micro-batches=4 cluster=%t/slow.json"
// RUN: FileCheck %s --check-prefix=MESH < %t/slow.mlir
// RUN: mpcomm-sim %t/four.mlir --cluster=%t/slow.json --pipeline="mpcomm-graph{mesh=dp:2 micro-batches=4 cluster=%t/slow.json}" | FileCheck %s --check-prefix=SIM
//
// Graphs of several batches are several sizes of micro-batches: launches cost
// time here, so that few large ones are better on each mesh.
// RUN: %mpcomm-compile %t/four.mlir %t/eight.mlir -o %t/two.so --report --options "mesh=auto:2 global-batch=32 cluster=%t/slow.json" | FileCheck %s --check-prefix=TWO
// RUN: not %mpcomm-compile %t/four.mlir -o %t/two.so --report --options "mesh=auto:2 global-batch=4 cluster=%t/slow.json" 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: %mpcomm-compile %t/four.mlir -o %t/two.so --report --options "mesh=auto:2 micro-batches=4 memory-bytes=1400000 cluster=%t/fast.json" 2>&1 | FileCheck %s --check-prefix=MEMORY

// SLOW: layouts for 32 samples a step
// SLOW: {{^}}  0 dp:2 1 4 22.805 1.978 20.828
// SLOW: {{^}}* 0 pp:2,dp:1 1 8
// SLOW: mesh=pp:2,dp:1 is chosen: 0.{{[0-9]+}} of the step of dp:2. A rank computes
// FAST: {{^}}* 0 dp:2 1 4
// FAST: mesh=dp:2 is chosen: 0.{{[0-9]+}} of the step of pp:2,dp:1. A rank computes
// MESH: train_step.rank1
// The table's figures are the simulator's.
// SIM: step 22805.1 us
// TWO: layouts for 32 samples a step
// TWO: 0 pp:2,dp:1 1 8
// TWO: {{^}}* 1 pp:2,dp:1 1 4
// SMALL: 0 dp:2 1 0 cannot be taken: its micro-batches have 8 samples together, of which the step's 4 are no multiple
// SMALL: 0 pp:2,dp:1 1 1 cannot be taken: has 1 micro-batches for 2 ranks of a pipeline
// SMALL: error: no layout of 2 ranks can be taken
// MEMORY: 0 dp:2 {{.*}} cannot be taken: needs {{[0-9]+}} bytes on a rank, which has 1400000
// MEMORY: mesh=pp:2,dp:1 is chosen: no other mesh can be taken

// RUN: not %mpcomm-compile %t/four.mlir -o %t/x.so --options "mesh=auto:0" 2>&1 | FileCheck %s --check-prefix=ZERO
// ZERO: mpcomm-compile: error: mesh 'auto:0': expected 1 to 32767 ranks
// RUN: not %mpcomm-compile %t/four.mlir %t/eight.mlir -o %t/x.so --options "mesh=dp:2" 2>&1 | FileCheck %s --check-prefix=SEVERAL
// SEVERAL: mpcomm-compile: error: expected one graph, or mesh=auto:N to choose among 2
// RUN: not %mpcomm-compile %t/four.mlir -o %t/x.so --options "mesh=dp:2 global-batch=8" 2>&1 | FileCheck %s --check-prefix=GLOBAL
// GLOBAL: mpcomm-compile: error: expected mesh=auto:N with global-batch
// RUN: not %mpcomm-compile %t/none.mlir -o %t/x.so --options "mesh=auto:2" 2>&1 | FileCheck %s --check-prefix=BATCH
// BATCH: mpcomm-compile: error: expected a graph with a batch whose first dimension is its samples
// RUN: sed s/a.weight/c.weight/ %t/eight.mlir > %t/other.mlir
// RUN: not %mpcomm-compile %t/four.mlir %t/other.mlir -o %t/x.so --options "mesh=auto:2 global-batch=32" 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: mpcomm-compile: error: graph 1 is another step than graph 0: it has argument #0 'c.weight' of type tensor<256x256xf32>, expected 'a.weight' of type tensor<256x256xf32>
// RUN: not %mpcomm-compile %t/four.mlir -o %t/x.so --options "mesh=auto:2 schedule=none" 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// SCHEDULE: mpcomm-compile: error: cannot schedule 'none', expected auto, gpipe
// RUN: not %mpcomm-compile %t/four.mlir -o %t/x.so --options "mesh=auto:2 schedule-file=%t/none.txt" 2>&1 | FileCheck %s --check-prefix=FILE
// FILE: mpcomm-compile: error: {{.*}}none.txt: No such file or directory
// RUN: not %mpcomm-compile %t/four.mlir -o %t/x.so --options "mesh=auto:2 chunks=-1" 2>&1 | FileCheck %s --check-prefix=CHUNKS
// CHUNKS: mpcomm-compile: error: expected 0 to 32767 chunks
// RUN: not %mpcomm-compile %t/four.mlir -o %t/x.so --options "mesh=auto:2 micro-batches=9223372036854775807" 2>&1 | FileCheck %s --check-prefix=HUGE
// HUGE: mpcomm-compile: error: expected steps of at most 2^63 - 1 samples
// RUN: not %mpcomm-compile %t/four.mlir -o %t/x.so --np=2 --options "mesh=auto:2" 2>&1 | FileCheck %s --check-prefix=NP
// NP: mpcomm-compile: error: expected no --np with mesh=auto:N
// A file's schedule says how many stages a rank has.
// RUN: printf '0F0,0F1,0B0,0F2,0B1,0F3,0B2,0F4,0B3,0F5,0B4,0F6,0B5,0F7,0B6,0B7\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3,1F4,1B4,1F5,1B5,1F6,1B6,1F7,1B7\n' > %t/given.csv
// RUN: %mpcomm-compile %t/four.mlir -o %t/x.so --report --options "mesh=auto:2 micro-batches=4 schedule-file=%t/given.csv cluster=%t/slow.json" | FileCheck %s --check-prefix=GIVEN
// GIVEN: 0 dp:2
// GIVEN-NEXT: {{^}}* 0 pp:2,dp:1 1 8 file
// GIVEN-NEXT: is chosen
// RUN: not mpcomm-opt %t/four.mlir --mpcomm-graph="mesh=auto:2" 2>&1 | FileCheck %s --check-prefix=OPT
// OPT: cannot compile for mesh 'auto:2': expected dp:N or pp:P,dp:N {{.*}} mpcomm-compile chooses for auto:N

//--- step.mlir
func.func @train_step(
    %w0: tensor<256x256xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "a.weight", mpcomm.donated = 1 : i64},
    %w1: tensor<256x256xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b.weight", mpcomm.donated = 2 : i64},
    %k: tensor<i64> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "step", mpcomm.donated = 3 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<BATCHx256xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<256x256xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "a.weight"},
        tensor<256x256xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b.weight"},
        tensor<i64> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "step"}) {
  %one = arith.constant dense<1> : tensor<i64>
  %k1 = arith.addi %k, %one : tensor<i64>
  %h = mpcomm.dot_general %x, %w0, contracting_dims = [1] x [0] : (tensor<BATCHx256xf32>, tensor<256x256xf32>) -> tensor<BATCHx256xf32>
  %t = math.tanh %h : tensor<BATCHx256xf32>
  %y = mpcomm.dot_general %t, %w1, contracting_dims = [1] x [0] : (tensor<BATCHx256xf32>, tensor<256x256xf32>) -> tensor<BATCHx256xf32>
  %q = arith.mulf %y, %y : tensor<BATCHx256xf32>
  %loss = mpcomm.reduce sum %q, dims = [0, 1] : (tensor<BATCHx256xf32>) -> tensor<f32>
  %dy = arith.addf %y, %y : tensor<BATCHx256xf32>
  %dw1 = mpcomm.dot_general %t, %dy, contracting_dims = [0] x [0] : (tensor<BATCHx256xf32>, tensor<BATCHx256xf32>) -> tensor<256x256xf32>
  %dt = mpcomm.dot_general %dy, %w1, contracting_dims = [1] x [1] : (tensor<BATCHx256xf32>, tensor<256x256xf32>) -> tensor<BATCHx256xf32>
  %tt = arith.mulf %t, %t : tensor<BATCHx256xf32>
  %ones = arith.constant dense<1.0> : tensor<BATCHx256xf32>
  %s = arith.subf %ones, %tt : tensor<BATCHx256xf32>
  %dh = arith.mulf %dt, %s : tensor<BATCHx256xf32>
  %dw0 = mpcomm.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<BATCHx256xf32>, tensor<BATCHx256xf32>) -> tensor<256x256xf32>
  %n0 = mpcomm.sgd_update %w0, %dw0, %lr, weight_decay = 0.0 : (tensor<256x256xf32>, tensor<256x256xf32>, tensor<f32>) -> tensor<256x256xf32>
  %n1 = mpcomm.sgd_update %w1, %dw1, %lr, weight_decay = 0.0 : (tensor<256x256xf32>, tensor<256x256xf32>, tensor<f32>) -> tensor<256x256xf32>
  return %loss, %n0, %n1, %k1 : tensor<f32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<i64>
}

//--- none.mlir
func.func @train_step(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

//--- cluster.json
{"schema": "mpcomm-cluster-1", "name": "made-up", "source": "made up",
 "device": {"name": "d", "flops": {"f32": 1e11, "vector": 1e10},
            "memory_bandwidth": 1e10, "memory_bytes": 1000000000, "launch": 1e-5},
 "links": [{"name": "net", "ranks": 0, "latency": 1e-5, "bandwidth": RATE, "contends": true}],
 "algorithms": ["ring"]}
