// schedule=auto weighs what a profile says that the stages take. Two stages of
// one product each, four micro-batches; messages and all else take no time.

// RUN: split-file %s %t
// RUN: mpcomm-opt %t/step.mlir -o /dev/null 2>&1 --remarks-filter=mpcomm-schedule-pipeline --remark-format=emitRemark \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=4 schedule=auto cluster=%t/free.json profile-file=%t/even.json" | FileCheck %s --check-prefix=EVEN
// RUN: mpcomm-opt %t/step.mlir -o /dev/null 2>&1 --remarks-filter=mpcomm-schedule-pipeline --remark-format=emitRemark \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=4 schedule=auto cluster=%t/free.json profile-file=%t/slow.json" | FileCheck %s --check-prefix=SLOW
// RUN: mpcomm-opt %t/step.mlir -o /dev/null 2>&1 --remarks-filter=mpcomm-schedule-pipeline --remark-format=emitRemark \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=4 schedule=auto cluster=%t/free.json profile-file=%t/light.json" | FileCheck %s --check-prefix=LIGHT

// F, I and W take 1 ms each. ZB-H1 takes 4 (1 + 1 + 1) + (2 - 1) (1 + 1 - 1) ms,
// and of 2 x 13 ms the ranks work 24.
// EVEN: Chosen {{.*}} boundUs=13000.0, proven=yes, schedule=zb-h1, us=13000.0
// EVEN: Pipelined {{.*}}bubble=0.077, {{.*}}us=13000.0

// The second stage takes 3 ms for each: it begins with the first stage's F, and
// needs 4 x 9 ms. Of 2 x 37 ms the ranks work 12 + 36.
// SLOW: Chosen {{.*}} boundUs=37000.0, proven=yes, schedule=zb-h1, us=37000.0
// SLOW: Pipelined {{.*}}bubble=0.351, {{.*}}us=37000.0

// Without W, there is nothing to put off: 4 (1 + 1) + (2 - 1) (1 + 1) ms, in
// the memory of 1F1B.
// LIGHT: Chosen {{.*}} boundUs=10000.0, proven=yes, schedule=1f1b, us=10000.0
// LIGHT: Pipelined {{.*}}bubble=0.200, {{.*}}us=10000.0

//--- free.json
{"schema": "mpcomm-cluster-1", "name": "free",
 "device": {"name": "ideal", "flops": {"f32": 1e30, "vector": 1e30}, "memory_bandwidth": 1e30, "memory_bytes": 1000000000, "launch": 0},
 "links": [{"name": "ideal", "ranks": 0, "latency": 0, "bandwidth": 1e30}]}

//--- even.json
{"schema": "mpcomm-profile-1", "entries": [{"op": "mpcomm.dot_general", "seconds": 1e-3}]}

//--- slow.json
{"schema": "mpcomm-profile-1", "entries": [
  {"op": "mpcomm.dot_general", "seconds": 1e-3},
  {"op": "mpcomm.dot_general", "locations": ["second.forward"], "seconds": 3e-3},
  {"op": "mpcomm.dot_general", "locations": ["second.input"], "seconds": 3e-3},
  {"op": "mpcomm.dot_general", "locations": ["second.weight"], "seconds": 3e-3}]}

//--- light.json
{"schema": "mpcomm-profile-1", "entries": [
  {"op": "mpcomm.dot_general", "seconds": 1e-3},
  {"op": "mpcomm.dot_general", "locations": ["first.weight"], "seconds": 0},
  {"op": "mpcomm.dot_general", "locations": ["second.weight"], "seconds": 0}]}

//--- step.mlir
!m = tensor<4x4xf32>
!v = tensor<4xf32>
func.func @train_step(
    %a: !v {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "a", mpcomm.donated = 1 : i64},
    %b: !v {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b", mpcomm.donated = 2 : i64},
    %w0: !m {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0", mpcomm.donated = 3 : i64},
    %w1: !m {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1", mpcomm.donated = 4 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: !m {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        !v {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "a"},
        !v {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b"},
        !m {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0"},
        !m {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1"}) {
  // Both a and b wait for the gradient of %h: the first stage has an I.
  %as = mpcomm.broadcast_in_dim %a, dims = [1] : (!v) -> !m
  %bs = mpcomm.broadcast_in_dim %b, dims = [1] : (!v) -> !m
  %s = arith.mulf %x, %as {mpcomm.stage = 0 : i64} : !m
  %h = arith.addf %s, %bs {mpcomm.stage = 0 : i64} : !m
  %y = mpcomm.dot_general %h, %w0, contracting_dims = [1] x [0] {mpcomm.stage = 0 : i64} : (!m, !m) -> !m loc("first.forward")
  %z = mpcomm.dot_general %y, %w1, contracting_dims = [1] x [0] {mpcomm.stage = 1 : i64} : (!m, !m) -> !m loc("second.forward")
  %loss = mpcomm.reduce sum %z, dims = [0, 1] {mpcomm.stage = 1 : i64} : (!m) -> tensor<f32>
  %dw1 = mpcomm.dot_general %y, %z, contracting_dims = [0] x [0] {mpcomm.stage = 1 : i64} : (!m, !m) -> !m loc("second.weight")
  %dy = mpcomm.dot_general %z, %w1, contracting_dims = [1] x [1] {mpcomm.stage = 1 : i64} : (!m, !m) -> !m loc("second.input")
  %dw0 = mpcomm.dot_general %h, %dy, contracting_dims = [0] x [0] {mpcomm.stage = 0 : i64} : (!m, !m) -> !m loc("first.weight")
  %dh = mpcomm.dot_general %dy, %w0, contracting_dims = [1] x [1] {mpcomm.stage = 0 : i64} : (!m, !m) -> !m loc("first.input")
  %db = mpcomm.reduce sum %dh, dims = [0] {mpcomm.stage = 0 : i64} : (!m) -> !v
  %ds = arith.mulf %dh, %x {mpcomm.stage = 0 : i64} : !m
  %da = mpcomm.reduce sum %ds, dims = [0] {mpcomm.stage = 0 : i64} : (!m) -> !v
  %na = mpcomm.sgd_update %a, %da, %lr, weight_decay = 0.0 : (!v, !v, tensor<f32>) -> !v
  %nb = mpcomm.sgd_update %b, %db, %lr, weight_decay = 0.0 : (!v, !v, tensor<f32>) -> !v
  %n0 = mpcomm.sgd_update %w0, %dw0, %lr, weight_decay = 0.0 : (!m, !m, tensor<f32>) -> !m
  %n1 = mpcomm.sgd_update %w1, %dw1, %lr, weight_decay = 0.0 : (!m, !m, tensor<f32>) -> !m
  return %loss, %na, %nb, %n0, %n1 : tensor<f32>, !v, !v, !m, !m
}
