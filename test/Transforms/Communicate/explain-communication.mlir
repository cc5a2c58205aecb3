// One remark a collective. The cluster of Inputs/one-level.json: 1e9 flop/s,
// 10 us a message, 1e9 B/s, memory for nothing. A ring of two ranks sends half
// the bytes in each of two steps: 20 us + bytes / 1e9 s.

// RUN: mpcomm-opt %s --mpcomm-explain-communication="cluster=%S/Inputs/one-level.json" \
// RUN:   --remarks-filter="mpcomm-explain.*" --remark-format=emitRemark -verify-diagnostics -o /dev/null

mpcomm.mesh @mesh <["dp" = 2]>

// 64 x 64 f32 are 16384 bytes: 20 + 16.384 = 36.384 us. A product of 64^3
// multiply-adds is 524288 flop: 524.288 us. All of the collective is hidden.
// expected-remark @below {{Step}}
func.func @hidden(%dw: tensor<64x64xf32>, %dy: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %f = mpcomm.async {
    // expected-remark @below {{bytes=16384, exposed_us=0.0, hidden_us=36.4, kind=all_reduce, predicted_us=36.4, reason=none, tensors=1}}
    %0 = mpcomm.all_reduce(%dw) on @mesh axes ["dp"] mean : tensor<64x64xf32>
    mpcomm.yield %0 : tensor<64x64xf32>
  } : !mpcomm.future<tensor<64x64xf32>>
  %a = mpcomm.dot_general %dy, %dy, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %r = mpcomm.await %f : !mpcomm.future<tensor<64x64xf32>>
  return %r, %a : tensor<64x64xf32>, tensor<64x64xf32>
}

// A message is 10 us + 16384 bytes: 26.384 us, be it to the other rank, to the
// root, or that of a reduction along a chain of two; a scatter sends half: 18.192
// us.
// expected-remark @below {{Step}}
func.func @one_message(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>, tensor<128x64xf32>, tensor<32x64xf32>) {
  // expected-remark @below {{kind=permute, predicted_us=26.4}}
  %0 = mpcomm.collective_permute(%x) on @mesh axes ["dp"] source_target_pairs = [[0, 1]] : tensor<64x64xf32>
  // expected-remark @below {{kind=reduce, predicted_us=26.4}}
  %1 = mpcomm.collective_reduce(%x) on @mesh axes ["dp"] sum root = 0 : tensor<64x64xf32>
  // expected-remark @below {{kind=gather, predicted_us=26.4}}
  %2 = mpcomm.collective_gather(%x) on @mesh axes ["dp"] root = 0 dim = 0 : (tensor<64x64xf32>) -> tensor<128x64xf32>
  // expected-remark @below {{kind=scatter, predicted_us=18.2}}
  %3 = mpcomm.collective_scatter(%x) on @mesh axes ["dp"] root = 0 dim = 0 : (tensor<64x64xf32>) -> tensor<32x64xf32>
  return %0, %1, %2, %3 : tensor<64x64xf32>, tensor<64x64xf32>, tensor<128x64xf32>, tensor<32x64xf32>
}
