// What the solver's plans look like in the IR: a user's cap is marked, and is
// then the reason that is given; a tensor that is split is put together again.
// The cluster of Inputs/one-level.json: 10 us a message, 1e9 B/s.

// RUN: mpcomm-opt %s --mpcomm-combine-collectives="cluster=%S/Inputs/one-level.json" | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-combine-collectives="cluster=%S/Inputs/one-level.json max-bucket-bytes=64" | FileCheck %s --check-prefix=CAP
// RUN: mpcomm-opt %s --mpcomm-combine-collectives="cluster=%S/Inputs/one-level.json max-bucket-bytes=64" \
// RUN:   --mpcomm-explain-communication="cluster=%S/Inputs/one-level.json" --remarks-filter="mpcomm-explain.*" \
// RUN:   --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REASON
// RUN: mpcomm-opt %s --mpcomm-combine-collectives="cluster=%S/Inputs/one-level.json max-bucket-bytes=64 split-bytes=64" | FileCheck %s --check-prefix=SPLIT

mpcomm.mesh @mesh <["dp" = 2]>

// Latency is 20 us, the bytes of both take 0.1 us: one bucket. Of at most 64
// bytes there have to be two, the first of which cannot take in the second.
// REASON: bytes=64{{.*}}reason=user-cap
// CHECK-LABEL: func.func @capped
// CAP-LABEL: func.func @capped
func.func @capped(%x: tensor<16xf32>, %y: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  // CHECK-NEXT: mpcomm.all_reduce(%arg0, %arg1)
  // CHECK-NEXT: return
  // CAP-NEXT: mpcomm.all_reduce(%arg0) {{.*}} {mpcomm.user_cap} : tensor<16xf32>
  // CAP-NEXT: mpcomm.all_reduce(%arg1) on @mesh axes ["dp"] mean : tensor<16xf32>
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<16xf32>
  %b = mpcomm.all_reduce(%y) on @mesh axes ["dp"] mean : tensor<16xf32>
  return %a, %b : tensor<16xf32>, tensor<16xf32>
}

// 128 bytes in parts of 64.
// SPLIT-LABEL: func.func @split
func.func @split(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // SPLIT-DAG: mpcomm.slice %{{.*}}, starts = [0], limits = [16]
  // SPLIT-DAG: mpcomm.slice %{{.*}}, starts = [16], limits = [32]
  // SPLIT-DAG: %[[A:.*]] = mpcomm.all_reduce(%{{.*}}) on @mesh axes ["dp"] mean{{.*}} : tensor<16xf32>
  // SPLIT: %[[J:.*]] = mpcomm.concatenate
  // SPLIT-NEXT: %[[R:.*]] = mpcomm.reshape %[[J]] : (tensor<32xf32>) -> tensor<4x8xf32>
  // SPLIT-NEXT: return %[[R]]
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4x8xf32>
  return %a : tensor<4x8xf32>
}
