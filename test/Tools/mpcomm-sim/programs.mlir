// Two stages that run two micro-batches, GPipe's way, with products of 2,000 us
// forward and twice as many backward. Times are worked out by hand.
//
// RUN: split-file %s %t
// RUN: mpcomm-sim %t/step.mlir --cluster=%t/cluster.json --json %t/two.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=JSON < %t/two.json
// RUN: mpcomm-report %t/two.json --html %t/two.html | FileCheck %s --check-prefix=REPORT
// RUN: FileCheck %s --check-prefix=HTML < %t/two.html
// RUN: mpcomm-report %t/two.json --svg %t/two.svg > /dev/null
// RUN: FileCheck %s --check-prefix=HTML < %t/two.svg
// RUN: %python -c "import sys, xml.dom.minidom as m; m.parse(sys.argv[1])" %t/two.svg
// RUN: not grep -q 'var(' %t/two.svg
// RUN: mpcomm-sim %t/step.mlir --cluster=%t/cluster.json --write-schedule=%t/two.csv > /dev/null
// RUN: FileCheck %s --check-prefix=CSV < %t/two.csv
// RUN: not mpcomm-sim %t/step.mlir --cluster=%t/cluster.json --function=alone --write-schedule=%t/none.csv 2>&1 | FileCheck %s --check-prefix=FLAT-CSV
// RUN: not ls %t/none.csv
// RUN: mpcomm-sim %t/step.mlir --cluster=%t/cluster.json --function=alone --json %t/alone.json > /dev/null
// RUN: not mpcomm-report %t/alone.json --svg %t/alone.svg 2>&1 | FileCheck %s --check-prefix=FLAT
// RUN: mpcomm-sim %t/step.mlir --cluster=%t/cluster.json --ranks=6 | FileCheck %s --check-prefix=SIX
// RUN: not mpcomm-sim %t/step.mlir --cluster=%t/cluster.json --ranks=5 2>&1 | FileCheck %s --check-prefix=FIVE
// RUN: mpcomm-sim %t/step.mlir --cluster=%t/cluster.json --function=alone | FileCheck %s --check-prefix=ALONE
// RUN: not mpcomm-sim %t/step.mlir --function=none 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not mpcomm-sim %t/stuck.mlir --cluster=%t/cluster.json 2>&1 | FileCheck %s --check-prefix=STUCK
// RUN: mpcomm-opt %t/step.mlir --mpcomm-explain-communication="cluster=%t/cluster.json" \
// RUN:   --remarks-filter="mpcomm.*" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=EXPLAIN

// Rank 0: F0 0-2, F1 2-4 ms. A message of 4e6 bytes takes 10 us and 4 ms: that
// of F0 from 2,000 to 6,010, that of F1 after it to 10,020. Rank 1: F0 6,010 to
// 8,010, F1 10,020 to 12,020, B1 to 16,020, B0 to 20,020. The gradient of
// micro-batch 1 travels from 16,020 to 20,030, that of 0 from there to 24,040.
// Rank 0: B1 20,030 to 24,030, B0 24,040 to 28,040. Each rank computes 12 ms, so
// that 1 - 24 / (2 * 28.04) of the time is bubble; the formula's, with transfers
// that take nothing, is 1 / 3.
// CSV: {{^}}0F0,0F1,0B1,0B0{{$}}
// CSV-NEXT: {{^}}1F0,1F1,1B1,1B0{{$}}
// FLAT-CSV: mpcomm-sim: error: --write-schedule: '{{.*}}step.mlir' has no passes of a pipeline's stages
// CHECK: step on 4 ranks of round
// CHECK-NEXT: step 28040.0 us
// CHECK: compute 12000.0 us
// CHECK-NEXT: exposed 16040.0 us
// CHECK: bubble 57.20 % 33.33 % by the formula for equal stages
// CHECK-NEXT: pipeline 2 stages on 2 ranks, 2 micro-batches, gpipe
// CHECK: 0 2 28040.0 12000.0 16040.0 {{[0-9]+}} first
// CHECK-NEXT: 2 2 24040.0 12000.0 12040.0 {{[0-9]+}} second
// CHECK: 0 0 send 4000000 1 2000.0 2000.0 6010.0
// CHECK: 1 0 send 4000000 1 4000.0 6010.0 10020.0
// CHECK: 2 0 recv 4000000 1 4000.0 16020.0 20030.0 4000.0 0.0 16030.0 late-peer
// CHECK: 4 2 recv 4000000 1 0.0 2000.0 6010.0 0.0 0.0 6010.0

// JSON: "programs": [
// JSON-NEXT: {"name": "first", "rank": 0, "ranks": 2, "seconds": 0.02804, "compute": 0.012, "exposed": 0.01604
// JSON: "pipeline": {"schedule": "gpipe", "ranks": 2, "stages": 2, "microbatches": 2, "bubble": 0.572{{[0-9]*}}, "formula": 0.333333333}
// JSON: {"name": "compute", "rank": 0, "events": [
// JSON-NEXT: {"name": "call", {{.*}} "begin": 0, "end": 0.002, "action": "F0", "stage": 0}
// JSON: {"name": "pp:1", "rank": 0, "events": [
// JSON: {"name": "compute", "rank": 2, "events": [

// REPORT: 2 stages on 2 ranks, 2 micro-batches, schedule gpipe: bubble 57.2 %, 33.3 % by the formula
// HTML: <svg xmlns="http://www.w3.org/2000/svg" class="pipeline"
// HTML: <rect class="pf" x="132.000"
// HTML: F0: forward of micro-batch 0, stage 0
// HTML: <rect class="bubble"
// HTML: B0: backward of micro-batch 0, stage 1

// FLAT: mpcomm-report: error: {{.*}}alone.json: expected a pipeline's passes, to draw them with --svg

// SIX: step on 6 ranks of round
// SIX: 3 3 24040.0 12000.0 12040.0
// FIVE: cannot have 5 ranks: its other axes have 2
// ALONE: compute 2000.0 us
// Tags that name no pass make no pipeline, and so do places that run the same
// stages no longer one.
// RUN: sed 's/"[FB][01]"/"B-1"/' %t/step.mlir > %t/odd.mlir
// RUN: mpcomm-sim %t/odd.mlir --cluster=%t/cluster.json | FileCheck %s --check-prefix=ODD
// ODD: step 28040.0 us
// ODD-NOT: bubble
// RUN: sed 's/axes ."pp". runs .@first, @second./axes ["pp", "dp"] runs [@first, @first, @second, @second]/' %t/step.mlir > %t/twice.mlir
// RUN: mpcomm-sim %t/twice.mlir --cluster=%t/cluster.json | FileCheck %s --check-prefix=TWICE
// TWICE: step 28040.0 us
// TWICE: bubble 57.20 % 33.33 % by the formula for equal stages
// TWICE-NEXT: pipeline 2 stages on 2 ranks, 2 micro-batches, gpipe
// NONE: expects a function or an mpcomm.program 'none'
// Both receive first.
// STUCK: mpcomm-sim: error: {{.*}}deadlock

// EXPLAIN-DAG: Step | {{.*}} bound_us={{[0-9.]+}}, bubble=0.572, step_us=28040.0
// EXPLAIN-DAG: Rank | Category:mpcomm-explain-communication | Function=first | compute_us=12000.0, exposed_us=16040.0
// EXPLAIN-DAG: Communication | Category:mpcomm-explain-communication | Function=second | {{.*}}kind=recv

//--- step.mlir
mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
mpcomm.program @train_step on @mesh axes ["pp"] runs [@first, @second] {mpcomm.schedule = "gpipe"}
func.func private @forward(%x: tensor<1000x1000xf32>) -> tensor<1000x1000xf32> {
  %e = tensor.empty() : tensor<1000x1000xf32>
  %y = linalg.matmul ins(%x, %x : tensor<1000x1000xf32>, tensor<1000x1000xf32>) outs(%e : tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  return %y : tensor<1000x1000xf32>
}
func.func private @backward(%x: tensor<1000x1000xf32>) -> tensor<1000x1000xf32> {
  %e = tensor.empty() : tensor<1000x1000xf32>
  %y = linalg.matmul ins(%x, %x : tensor<1000x1000xf32>, tensor<1000x1000xf32>) outs(%e : tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  %z = linalg.matmul ins(%y, %x : tensor<1000x1000xf32>, tensor<1000x1000xf32>) outs(%e : tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  return %z : tensor<1000x1000xf32>
}
func.func @alone(%x: tensor<1000x1000xf32>) -> tensor<1000x1000xf32> {
  %y = call @forward(%x) : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  return %y : tensor<1000x1000xf32>
}
func.func @first(%x: tensor<1000x1000xf32>) -> tensor<1000x1000xf32> {
  %0 = call @forward(%x) {mpcomm.tag = "F0", mpcomm.stage = 0 : i64} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  %s0 = mpcomm.async {
    mpcomm.send(%0) on @mesh axes ["pp"] to = 1 channel = 1 : tensor<1000x1000xf32>
    mpcomm.yield
  } : !mpcomm.future<>
  %1 = call @forward(%x) {mpcomm.tag = "F1", mpcomm.stage = 0 : i64} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  %s1 = mpcomm.async {
    mpcomm.send(%1) on @mesh axes ["pp"] to = 1 channel = 1 : tensor<1000x1000xf32>
    mpcomm.yield
  } : !mpcomm.future<>
  %f1 = mpcomm.async {
    %r = mpcomm.recv on @mesh axes ["pp"] from = 1 channel = 2 : tensor<1000x1000xf32>
    mpcomm.yield %r : tensor<1000x1000xf32>
  } : !mpcomm.future<tensor<1000x1000xf32>>
  %f0 = mpcomm.async {
    %r = mpcomm.recv on @mesh axes ["pp"] from = 1 channel = 2 : tensor<1000x1000xf32>
    mpcomm.yield %r : tensor<1000x1000xf32>
  } : !mpcomm.future<tensor<1000x1000xf32>>
  %d1 = mpcomm.await %f1 : !mpcomm.future<tensor<1000x1000xf32>>
  %b1 = call @backward(%d1) {mpcomm.tag = "B1", mpcomm.stage = 0 : i64} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  %d0 = mpcomm.await %f0 : !mpcomm.future<tensor<1000x1000xf32>>
  %b0 = call @backward(%d0) {mpcomm.tag = "B0", mpcomm.stage = 0 : i64} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  mpcomm.await %s0 : !mpcomm.future<>
  mpcomm.await %s1 : !mpcomm.future<>
  return %b0 : tensor<1000x1000xf32>
}
func.func @second(%x: tensor<1000x1000xf32>) -> tensor<1000x1000xf32> {
  %f0 = mpcomm.async {
    %r = mpcomm.recv on @mesh axes ["pp"] from = 0 channel = 1 : tensor<1000x1000xf32>
    mpcomm.yield %r : tensor<1000x1000xf32>
  } : !mpcomm.future<tensor<1000x1000xf32>>
  %f1 = mpcomm.async {
    %r = mpcomm.recv on @mesh axes ["pp"] from = 0 channel = 1 : tensor<1000x1000xf32>
    mpcomm.yield %r : tensor<1000x1000xf32>
  } : !mpcomm.future<tensor<1000x1000xf32>>
  %a0 = mpcomm.await %f0 : !mpcomm.future<tensor<1000x1000xf32>>
  %0 = call @forward(%a0) {mpcomm.tag = "F0", mpcomm.stage = 1 : i64} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  %a1 = mpcomm.await %f1 : !mpcomm.future<tensor<1000x1000xf32>>
  %1 = call @forward(%a1) {mpcomm.tag = "F1", mpcomm.stage = 1 : i64} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  %b1 = call @backward(%1) {mpcomm.tag = "B1", mpcomm.stage = 1 : i64} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  %s1 = mpcomm.async {
    mpcomm.send(%b1) on @mesh axes ["pp"] to = 0 channel = 2 : tensor<1000x1000xf32>
    mpcomm.yield
  } : !mpcomm.future<>
  %b0 = call @backward(%0) {mpcomm.tag = "B0", mpcomm.stage = 1 : i64} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  %s0 = mpcomm.async {
    mpcomm.send(%b0) on @mesh axes ["pp"] to = 0 channel = 2 : tensor<1000x1000xf32>
    mpcomm.yield
  } : !mpcomm.future<>
  mpcomm.await %s1 : !mpcomm.future<>
  mpcomm.await %s0 : !mpcomm.future<>
  return %b0 : tensor<1000x1000xf32>
}

//--- stuck.mlir
mpcomm.mesh @mesh <["pp" = 2]>
mpcomm.program @train_step on @mesh axes ["pp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mpcomm.recv on @mesh axes ["pp"] from = 1 channel = 2 : tensor<4xf32>
  mpcomm.send(%x) on @mesh axes ["pp"] to = 1 channel = 1 : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @second(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mpcomm.recv on @mesh axes ["pp"] from = 0 channel = 1 : tensor<4xf32>
  mpcomm.send(%x) on @mesh axes ["pp"] to = 0 channel = 2 : tensor<4xf32>
  return %0 : tensor<4xf32>
}

//--- cluster.json
{"schema": "mpcomm-cluster-1", "name": "round", "source": "made up",
 "device": {"name": "d", "flops": {"f32": 1e12, "vector": 1e12},
            "memory_bandwidth": 1e15, "memory_bytes": 1000000000, "launch": 0},
 "links": [{"name": "net", "ranks": 0, "latency": 1e-5, "bandwidth": 1e9, "contends": true}],
 "algorithms": ["ring"]}
