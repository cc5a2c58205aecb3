// A recorded run (Inputs/profile.json) replaces what the model says, on the
// cluster of step-model.mlir. Remarks are at the ops' own locations.

// RUN: mpcomm-opt %s -o /dev/null 2>&1 \
// RUN:   -pass-pipeline="builtin.module(func.func(test-mpcomm-print-step-model{cluster=%S/Inputs/round.json profile-file=%S/Inputs/profile.json}))" \
// RUN:   | FileCheck %s
// RUN: echo '{"schema": "mpcomm-profile-1", "entries": [{}]}' > %t.json
// RUN: not mpcomm-opt %s -pass-pipeline="builtin.module(func.func(test-mpcomm-print-step-model{profile-file=%t.json}))" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ERROR
// ERROR: json: entries[0]: expected a key 'seconds'

mpcomm.mesh @mesh <["dp" = 4]>

func.func @profile(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<4x8xf32>) {
  // One entry has this name at this place: it alone counts.
  // CHECK: remark: loc("a"): computes 3000 ns, allocates 128
  %0 = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("a")
  // The other entry at "a" and "b" is shared by these two, which are one kernel.
  %1 = math.exp %0 : tensor<8x4xf32> loc(fused["a", "c"])
  // CHECK: remark: loc("b"): computes 7960 ns in kernel 0
  %2 = math.exp %1 : tensor<8x4xf32> loc("b")
  // The latency is the model's, as far as it fits.
  // CHECK: m.py:5:1: remark: starts 128 bytes of 1 tensors, measured 6000 ns + 3000 ns on link 0
  %3 = mpcomm.all_reduce(%2) on @mesh axes ["dp"] sum : tensor<8x4xf32> loc("m.py":5:1)
  // No entry for this place: 128 read, 128 written, and the launch.
  // CHECK: remark: loc("d"): computes 356 ns in kernel 1
  %4 = math.exp %3 : tensor<8x4xf32> loc("d")
  // By name and shapes.
  // CHECK: remark: loc("e"): computes 5000 ns in kernel 2
  %5 = mpcomm.transpose %4, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32> loc("e")
  return %3, %5 : tensor<8x4xf32>, tensor<4x8xf32>
} loc("f")
// 3000 + 7960 + 356 + 5000
// CHECK: remark: loc("f"): compute 1.632e+04 ns
