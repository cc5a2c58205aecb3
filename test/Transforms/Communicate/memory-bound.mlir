// Weights are gathered layer by layer (each rank holds a sixteenth). Without a
// bound all gathers start at once and all weights live together; a bound is
// kept to the byte, and what it costs is told.
//
// The cluster of Inputs/one-level.json: 1e9 flop/s, memory for nothing, 10 us a
// message, 1e9 B/s. A product of 64^3 multiply-adds takes 524.288 us. Gathering
// 16 blocks of 1024 bytes in a ring takes 15 (10 + 1.024) = 165.36 us. A tensor
// of 64 x 64 f32 has 16384 bytes; the arguments take one and eight blocks of a
// sixteenth: 24576.
//
// Serial: a product holds its operands (%x is an argument) and its result: three
// tensors, 24576 + 3 * 16384 = 73728 bytes; 8 (524.288 + 165.36) = 5517.2 us.
// No bound: at the second product 7 gathered weights and 2 activations live:
// 24576 + 9 * 16384 = 172032 bytes, 2.33 times as much. Only the first gather
// is exposed: 8 * 524.288 + 165.36 = 4359.7 us, less than which nothing takes.

// DEFINE: %{schedule} = mpcomm-opt %s --remarks-filter="mpcomm.*" --remark-format=emitRemark \
// DEFINE:   --mpcomm-schedule-overlap="cluster=%S/Inputs/one-level.json
// DEFINE: %{simulate} = mpcomm-sim --cluster=%S/Inputs/one-level.json

// RUN: %{schedule}" -o %t.free 2>&1 | FileCheck %s --check-prefix=FREE
// FREE: ScheduleOverlap | {{.*}}bound_us=4359.7, input_peak_bytes=73728, input_us=5517.2, memory_cost_us=0.0, peak_bytes=172032, predicted_us=4359.7, unbounded_peak_bytes=172032, unbounded_us=4359.7
// RUN: %{simulate} %t.free --json=%t.free.json | FileCheck %s --check-prefix=FREE-SIM
// FREE-SIM: step 4359.7 us
// FREE-SIM: peak memory 172032 bytes

// No byte more than the serial order takes. While the first product runs (%x is
// there, so that one tensor of the three is to spare) the second weight can be
// gathered, later none: six more gathers are exposed, 6 * 165.36 = 992.2 us.
// RUN: %{schedule} memory-bytes=73728" -o %t.tight 2>&1 | FileCheck %s --check-prefix=TIGHT
// TIGHT: ScheduleOverlap | {{.*}}memory_cost_us=992.2, peak_bytes=73728, predicted_us=5351.8, unbounded_peak_bytes=172032, unbounded_us=4359.7
// RUN: %{simulate} %t.tight --json=%t.tight.json | FileCheck %s --check-prefix=TIGHT-SIM
// TIGHT-SIM: step 5351.8 us
// TIGHT-SIM: peak memory 73728 bytes
// TIGHT-SIM-COUNT-6: memory-bound

// A weight more, and the next is gathered under each product: nothing is lost.
// RUN: %{schedule} memory-bytes=90112" -o %t.double 2>&1 | FileCheck %s --check-prefix=DOUBLE
// DOUBLE: ScheduleOverlap | {{.*}}memory_cost_us=0.0, peak_bytes=90112, predicted_us=4359.7
// A byte less than that is of no use.
// RUN: %{schedule} memory-bytes=90111" -o %t 2>&1 | FileCheck %s --check-prefix=BYTE
// BYTE: ScheduleOverlap | {{.*}}memory_cost_us=992.2, peak_bytes=73728, predicted_us=5351.8

// Bytes over time: at no time more than the bound, and all of it at some time.
// RUN: %python -c "import json, sys; print([max(b for _, b in json.load(open(f))['memory']) for f in sys.argv[1:]])" \
// RUN:   %t.free.json %t.tight.json | FileCheck %s --check-prefix=OVER-TIME
// OVER-TIME: [172032, 73728]

// What no order keeps is refused, and the order stays.
// RUN: %{schedule} memory-bytes=73727" -o %t.less 2>&1 | FileCheck %s --check-prefix=LESS
// LESS: warning: @gathered_weights takes 73728 bytes at its peak, expected at most the 73727 of memory-bytes
// LESS: LeftAlone | {{.*}}expects at most 73727 bytes, but the program takes 73728 as it is
// RUN: mpcomm-opt %s -o %t.input && diff %t.input %t.less

mpcomm.mesh @mesh <["dp" = 16]>

func.func @gathered_weights(%x: tensor<64x64xf32>, %w0: tensor<4x64xf32>, %w1: tensor<4x64xf32>, %w2: tensor<4x64xf32>, %w3: tensor<4x64xf32>, %w4: tensor<4x64xf32>, %w5: tensor<4x64xf32>, %w6: tensor<4x64xf32>, %w7: tensor<4x64xf32>) -> tensor<64x64xf32> {
  %f0 = mpcomm.async {
    %g = mpcomm.all_gather(%w0) on @mesh axes ["dp"] dims = [0] : (tensor<4x64xf32>) -> tensor<64x64xf32>
    mpcomm.yield %g : tensor<64x64xf32>
  } : !mpcomm.future<tensor<64x64xf32>>
  %v0 = mpcomm.await %f0 : !mpcomm.future<tensor<64x64xf32>>
  %a0 = mpcomm.dot_general %x, %v0, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %f1 = mpcomm.async {
    %g = mpcomm.all_gather(%w1) on @mesh axes ["dp"] dims = [0] : (tensor<4x64xf32>) -> tensor<64x64xf32>
    mpcomm.yield %g : tensor<64x64xf32>
  } : !mpcomm.future<tensor<64x64xf32>>
  %v1 = mpcomm.await %f1 : !mpcomm.future<tensor<64x64xf32>>
  %a1 = mpcomm.dot_general %a0, %v1, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %f2 = mpcomm.async {
    %g = mpcomm.all_gather(%w2) on @mesh axes ["dp"] dims = [0] : (tensor<4x64xf32>) -> tensor<64x64xf32>
    mpcomm.yield %g : tensor<64x64xf32>
  } : !mpcomm.future<tensor<64x64xf32>>
  %v2 = mpcomm.await %f2 : !mpcomm.future<tensor<64x64xf32>>
  %a2 = mpcomm.dot_general %a1, %v2, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %f3 = mpcomm.async {
    %g = mpcomm.all_gather(%w3) on @mesh axes ["dp"] dims = [0] : (tensor<4x64xf32>) -> tensor<64x64xf32>
    mpcomm.yield %g : tensor<64x64xf32>
  } : !mpcomm.future<tensor<64x64xf32>>
  %v3 = mpcomm.await %f3 : !mpcomm.future<tensor<64x64xf32>>
  %a3 = mpcomm.dot_general %a2, %v3, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %f4 = mpcomm.async {
    %g = mpcomm.all_gather(%w4) on @mesh axes ["dp"] dims = [0] : (tensor<4x64xf32>) -> tensor<64x64xf32>
    mpcomm.yield %g : tensor<64x64xf32>
  } : !mpcomm.future<tensor<64x64xf32>>
  %v4 = mpcomm.await %f4 : !mpcomm.future<tensor<64x64xf32>>
  %a4 = mpcomm.dot_general %a3, %v4, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %f5 = mpcomm.async {
    %g = mpcomm.all_gather(%w5) on @mesh axes ["dp"] dims = [0] : (tensor<4x64xf32>) -> tensor<64x64xf32>
    mpcomm.yield %g : tensor<64x64xf32>
  } : !mpcomm.future<tensor<64x64xf32>>
  %v5 = mpcomm.await %f5 : !mpcomm.future<tensor<64x64xf32>>
  %a5 = mpcomm.dot_general %a4, %v5, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %f6 = mpcomm.async {
    %g = mpcomm.all_gather(%w6) on @mesh axes ["dp"] dims = [0] : (tensor<4x64xf32>) -> tensor<64x64xf32>
    mpcomm.yield %g : tensor<64x64xf32>
  } : !mpcomm.future<tensor<64x64xf32>>
  %v6 = mpcomm.await %f6 : !mpcomm.future<tensor<64x64xf32>>
  %a6 = mpcomm.dot_general %a5, %v6, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %f7 = mpcomm.async {
    %g = mpcomm.all_gather(%w7) on @mesh axes ["dp"] dims = [0] : (tensor<4x64xf32>) -> tensor<64x64xf32>
    mpcomm.yield %g : tensor<64x64xf32>
  } : !mpcomm.future<tensor<64x64xf32>>
  %v7 = mpcomm.await %f7 : !mpcomm.future<tensor<64x64xf32>>
  %a7 = mpcomm.dot_general %a6, %v7, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %a7 : tensor<64x64xf32>
}
