// Ops carry the stage that the solver, or the user, has put them into; a
// pipeline's ranks then run the parts of their stages in the order of a
// schedule.

// RUN: mpcomm-opt %s --mpcomm-partition-pipeline="stages=2 micro-batches=2" | FileCheck %s --check-prefix=PART
// RUN: mpcomm-opt %s --mpcomm-partition-pipeline="stages=2 micro-batches=2" \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=2" --mpcomm-verify-communication | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-partition-pipeline="stages=2 micro-batches=2" \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=2 schedule=zb-h1" | FileCheck %s --check-prefix=SPLIT
// RUN: mpcomm-opt %s --mpcomm-partition-pipeline="stages=1" \
// RUN:   --mpcomm-schedule-pipeline="ranks=1 micro-batches=2" | FileCheck %s --check-prefix=ONE
// RUN: not mpcomm-opt %s --mpcomm-partition-pipeline="stages=9" 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not mpcomm-opt %s --mpcomm-partition-pipeline="stages=0" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not mpcomm-opt %s --mpcomm-partition-pipeline="stages=4" 2>&1 | FileCheck %s --check-prefix=BARE
// RUN: not mpcomm-opt %s --mpcomm-partition-pipeline="stages=2 boundaries=z*=1" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not mpcomm-opt %s --mpcomm-partition-pipeline="stages=2 boundaries=a*=2" 2>&1 | FileCheck %s --check-prefix=RULE
// RUN: not mpcomm-opt %s --mpcomm-partition-pipeline="stages=2 boundaries=a*=1,b*=0" 2>&1 | FileCheck %s --check-prefix=ORDER
// RUN: not mpcomm-opt %s --mpcomm-partition-pipeline="stages=2 memory-bytes=10" 2>&1 | FileCheck %s --check-prefix=MEMORY
// RUN: not mpcomm-opt %s --mpcomm-partition-pipeline="stages=2" \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=2 schedule=auto memory-bytes=771" 2>&1 | FileCheck %s --check-prefix=FULL
// RUN: mpcomm-opt %s --mpcomm-partition-pipeline="stages=2" \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=2 schedule=auto memory-bytes=772" | FileCheck %s --check-prefix=FITS
// RUN: not mpcomm-opt %s --mpcomm-schedule-pipeline="ranks=1" 2>&1 | FileCheck %s --check-prefix=BEFORE
// RUN: not mpcomm-opt %s --mpcomm-partition-pipeline="stages=2" \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=1" 2>&1 | FileCheck %s --check-prefix=FEW
// RUN: not mpcomm-opt %s --mpcomm-partition-pipeline="stages=2" \
// RUN:   --mpcomm-schedule-pipeline="ranks=3 micro-batches=4" 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not mpcomm-opt %s --mpcomm-partition-pipeline="stages=2" \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=2 schedule=foo" 2>&1 | FileCheck %s --check-prefix=FOO
// RUN: not mpcomm-opt %s --mpcomm-partition-pipeline="stages=2" \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=2 schedule=zb-v" 2>&1 | FileCheck %s --check-prefix=CHUNKS
// RUN: echo "0F0,0F1,0B0,0B1" > %t.wrong
// RUN: echo "1F0,1B0,,1F1,1B2" >> %t.wrong
// RUN: not mpcomm-opt %s --mpcomm-partition-pipeline="stages=2" \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=2 schedule-file=%t.wrong" 2>&1 | FileCheck %s --check-prefix=FILE
// RUN: echo "0F0,0F1,,,0B1,0B0" > %t.right
// RUN: echo ",1F0,1F1,1B1,1B0" >> %t.right
// RUN: mpcomm-opt %s --mpcomm-partition-pipeline="stages=2" \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=2 schedule-file=%t.right" \
// RUN:   --mpcomm-verify-communication | FileCheck %s --check-prefix=USER
// RUN: not mpcomm-opt %s --mpcomm-partition-pipeline="stages=2" \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=3 schedule-file=%t.right" 2>&1 | FileCheck %s --check-prefix=THREE
// RUN: not mpcomm-opt %s --mpcomm-partition-pipeline="stages=2" \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=2 schedule-file=%t.right placement=1,0" 2>&1 | FileCheck %s --check-prefix=PLACED
// RUN: mpcomm-opt %s --mpcomm-partition-pipeline="stages=2" \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=2 placement=1,0" | FileCheck %s --check-prefix=OTHER
// RUN: mpcomm-opt %s --mpcomm-partition-pipeline="stages=2" \
// RUN:   --mpcomm-schedule-pipeline="ranks=1 micro-batches=2 schedule=auto placement=0,0" | FileCheck %s --check-prefix=LOCAL
// RUN: not mpcomm-opt %s --mpcomm-partition-pipeline="stages=2" \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=2 placement=0,0" 2>&1 | FileCheck %s --check-prefix=IDLE
// RUN: not mpcomm-opt %s --mpcomm-partition-pipeline="stages=2" \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=2 placement=0,4294967297" 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not mpcomm-opt %s --mpcomm-partition-pipeline="stages=2" \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=2 placement=0,-7" 2>&1 | FileCheck %s --check-prefix=BELOW
// RUN: not mpcomm-opt %s --mpcomm-partition-pipeline="stages=2" \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=2 placement=0,1,1" 2>&1 | FileCheck %s --check-prefix=LENGTH
// RUN: not mpcomm-opt %s --mpcomm-partition-pipeline="stages=2" \
// RUN:   --mpcomm-schedule-pipeline="ranks=1 micro-batches=2 placement=0,0" 2>&1 | FileCheck %s --check-prefix=AUTO
// RUN: mpcomm-sim %s --pipeline="mpcomm-partition-pipeline{stages=2},mpcomm-schedule-pipeline{ranks=2 micro-batches=2 schedule=zb-h1}" \
// RUN:   --write-schedule=%t.csv | FileCheck %s --check-prefix=ZB
// RUN: FileCheck %s --check-prefix=JOINED < %t.csv
// RUN: not mpcomm-opt %s --mpcomm-graph="mesh=pp:2 micro-batches=2 schedule-file=%t.wrong" 2>&1 | FileCheck %s --check-prefix=FILE
// RUN: not mpcomm-opt %s --mpcomm-graph="mesh=pp:2 micro-batches=2 schedule-file=%t.right chunks=2" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not mpcomm-opt %s --mpcomm-graph="mesh=pp:2 micro-batches=2 schedule-file=%t.none" 2>&1 | FileCheck %s --check-prefix=MISSING

// RUN: mpcomm-opt %s -o /dev/null --mpcomm-partition-pipeline="stages=2 explain-ops=true cluster=%S/../../Analysis/Inputs/round.json" \
// RUN:   --remarks-filter=mpcomm-partition-pipeline --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=OPS

// The product and the gradient of its weight, each 320 bytes and the launch;
// tanh alone has no backward part, as its derivative can be with the next.
// OPS: Op | {{.*}} activationBytes=0, op=0, parameterBytes=128, parameters=yes, ps=840000, returnedBytes=0, sentBytes=128
// OPS: Op | {{.*}} op=1, parameterBytes=0, parameters=no, ps=356000, returnedBytes=128, sentBytes=128
// OPS: op=4
// OPS-NOT: Op |

// MANY: cannot be cut into 9 stages: expected at most as many stages as ops, got 9 stages of 5 ops
// NONE: expected a number of stages in [1, 32767], got 0
// BARE: has no parameters in stage {{[0-3]}} of 4, expected each stage to train some
// NAME: no op of the forward pass reads a parameter called 'z*', expected one to put into stage 1
// RULE: cannot read 'a*=2', expected PATTERN=STAGE with a stage below 2
// ORDER: cannot be cut into 2 stages: expected at least 1 ops before op 0 of stage 1, got 0
// MEMORY: cannot be cut into 2 stages: expected {{[0-9]+}} bytes more memory
// A weight and the sum of its gradients, 64 bytes each; two buffers of 128 for
// what it sends and two for what it receives; one activation of 128; the loss.
// FULL: no candidate fits the memory: rank 1 needs 772 for one micro-batch of candidate 0, expected at most 771
// FITS: mpcomm.program @train_step
// BEFORE: has ops in 0 stages, expected as many on each of 1 ranks
// FEW: expected at least as many micro-batches as ranks of the pipeline, 2, got 1
// RANKS: has ops in 2 stages, expected as many on each of 3 ranks
// FOO: cannot schedule 'foo', expected auto, gpipe, 1f1b, interleaved, zb-h1 or zb-v
// CHUNKS: expected 2 chunks a rank, found 1
// FILE: error: {{.*}}.wrong: row 1: expected 0F2, which is missing
// THREE: error: {{.*}}.right: schedules 2 micro-batches, expected 3
// PLACED: error: {{.*}}.right: has its stages on ranks 0,1, expected placement 1,0
// IDLE: error: placement 0,0: rank 1 has no stage, expected each rank to have one
// RANGE: error: placement 0,4294967297: stage 1 is placed on rank 4294967297, expected ranks from 0 to 1
// BELOW: error: placement 0,-7: stage 1 is placed on rank -7, expected ranks from 0 to 1
// LENGTH: error: placement 0,1,1: expected a rank for each of 2 stages
// AUTO: error: schedule 1f1b: expected 1 chunk a rank, found 2; schedule=auto takes any placement
// TWICE: error: 2 stages are placed, expected 4 of chunks=2
// MISSING: error: {{.*}}.none: No such file or directory

// What the gradient of tanh reads is where its result is; that of the weight
// where the weight is. The counter has no stage.
// PART: arith.addi %{{[^{]*}} : tensor<i64>
// PART: dot_general %{{.*}} {mpcomm.stage = 0 : i64}
// PART: math.tanh %{{.*}} {mpcomm.stage = 0 : i64}
// PART: dot_general %{{.*}} {mpcomm.stage = 1 : i64}
// PART: mpcomm.reduce sum %{{.*}} {mpcomm.stage = 1 : i64}
// PART: dot_general %{{.*}} {mpcomm.stage = 1 : i64}
// PART: dot_general %{{.*}} {mpcomm.stage = 1 : i64}
// PART: dot_general %{{.*}} {mpcomm.stage = 0 : i64}
// PART-NEXT: sgd_update %{{[^{]*}} :

// CHECK: mpcomm.mesh @mesh <["pp" = 2]>
// CHECK: func.func private @train_step.stage0.forward
// CHECK: func.func private @train_step.stage1.backward
// CHECK: mpcomm.program @train_step on @mesh axes ["pp"] runs [@train_step.rank0, @train_step.rank1]
// Two forward passes ahead of the first backward pass; each receive starts
// ahead of the action before its own.
// CHECK-LABEL: func.func @train_step.rank0(
// CHECK-SAME: "a.weight"
// CHECK-NOT: "b.weight"
// CHECK: tensor<16x4xf32> {mpcomm.name = "x"
// CHECK: call @train_step.stage0.forward
// CHECK: mpcomm.send({{.*}} to = 1 channel = 1 {mpcomm.tag = "F0.e0.v0"}
// CHECK: mpcomm.recv {{.*}} from = 1 channel = 2 {mpcomm.tag = "B0.e0.v0"}
// CHECK: call @train_step.stage0.forward
// CHECK: mpcomm.send({{.*}} {mpcomm.tag = "F1.e0.v0"}
// CHECK: mpcomm.recv {{.*}} {mpcomm.tag = "B1.e0.v0"}
// CHECK: mpcomm.await
// CHECK: call @train_step.stage0.backward
// CHECK: mpcomm.await
// CHECK: call @train_step.stage0.backward
// CHECK: %[[SHARE:.*]] = arith.constant dense<5.000000e-01>
// CHECK: arith.mulf %{{.*}}, %[[SHARE]]
// CHECK: sgd_update
// CHECK-NOT: sgd_update
// CHECK: mpcomm.collective_broadcast({{.*}} root = 1 {mpcomm.tag = "loss"}
// CHECK: arith.addi
// CHECK-LABEL: func.func @train_step.rank1(
// CHECK-NOT: "a.weight"
// CHECK: call @train_step.stage1.forward
// CHECK: call @train_step.stage1.backward
// CHECK: call @train_step.stage1.forward
// CHECK: call @train_step.stage1.backward
// CHECK-NOT: call
// CHECK: return

// Gradients of inputs are sent before those of weights are made.
// SPLIT-LABEL: func.func @train_step.rank1(
// SPLIT: call @train_step.stage1.input_backward
// SPLIT: mpcomm.send({{.*}} {mpcomm.tag = "B0.e0.v0"}
// SPLIT: call @train_step.stage1.weight_backward

// One rank sends nothing.
// ONE-LABEL: func.func @train_step.rank0(
// ONE-COUNT-2: call @train_step.stage0.backward
// ONE-NOT: mpcomm.send
// ONE-NOT: collective_broadcast

// Rank 0 has the last stage, rank 1 the first.
// OTHER-LABEL: func.func @train_step.rank0(
// OTHER-SAME: "b.weight"
// OTHER-NOT: "a.weight"
// OTHER: mpcomm.recv {{.*}} from = 1 channel = 1 {mpcomm.tag = "F0.e0.v0"}
// OTHER: call @train_step.stage1.forward
// OTHER-LABEL: func.func @train_step.rank1(
// OTHER-NOT: "b.weight"
// OTHER: call @train_step.stage0.forward
// OTHER: mpcomm.send({{.*}} to = 0 channel = 1 {mpcomm.tag = "F0.e0.v0"}

// Stage 0 has nothing to do for its input, so that its I and W are one B.
// ZB: 2 stages on 2 ranks, 2 micro-batches, zb-h1
// JOINED: {{^}}0F0,0F1,0B0,0B1{{$}}
// JOINED-NEXT: {{^}}1F0,1I0,1F1,1I1,1W0,1W1{{$}}

// Both stages on one rank: what crosses from one to the other is handed over.
// LOCAL: runs [@train_step.rank0]
// LOCAL-LABEL: func.func @train_step.rank0(
// LOCAL-NOT: mpcomm.send
// LOCAL-DAG: call @train_step.stage0.forward
// LOCAL-DAG: call @train_step.stage1.forward
// LOCAL: return

// USER-LABEL: func.func @train_step.rank0(
// USER: mpcomm.recv {{.*}} {mpcomm.tag = "B1.e0.v0"}
// USER: mpcomm.recv {{.*}} {mpcomm.tag = "B0.e0.v0"}

func.func @train_step(
    %w0: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "a.weight", mpcomm.donated = 1 : i64},
    %w1: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b.weight", mpcomm.donated = 2 : i64},
    %k: tensor<i64> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "step", mpcomm.donated = 3 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "a.weight"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b.weight"},
        tensor<i64> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "step"}) {
  %one = arith.constant dense<1> : tensor<i64>
  %k1 = arith.addi %k, %one : tensor<i64>
  %h = mpcomm.dot_general %x, %w0, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %t = math.tanh %h : tensor<8x4xf32>
  %y = mpcomm.dot_general %t, %w1, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %q = arith.mulf %y, %y : tensor<8x4xf32>
  %loss = mpcomm.reduce sum %q, dims = [0, 1] : (tensor<8x4xf32>) -> tensor<f32>
  %dy = arith.addf %y, %y : tensor<8x4xf32>
  %dw1 = mpcomm.dot_general %t, %dy, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %dt = mpcomm.dot_general %dy, %w1, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %tt = arith.mulf %t, %t : tensor<8x4xf32>
  %ones = arith.constant dense<1.0> : tensor<8x4xf32>
  %s = arith.subf %ones, %tt : tensor<8x4xf32>
  %dh = arith.mulf %dt, %s : tensor<8x4xf32>
  %dw0 = mpcomm.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %n0 = mpcomm.sgd_update %w0, %dw0, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %n1 = mpcomm.sgd_update %w1, %dw1, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %n0, %n1, %k1 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<i64>
}
