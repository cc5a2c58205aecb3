// One remark a collective. The cluster of Inputs/one-level.json: 1e9 flop/s,
// 10 us a message, 1e9 B/s, memory for nothing. A ring of two ranks sends half
// the bytes in each of two steps: 20 us + bytes / 1e9 s.

// RUN: mpcomm-opt %s --mpcomm-explain-communication="cluster=%S/Inputs/one-level.json" \
// RUN:   --remarks-filter="mpcomm.*" --remark-format=emitRemark -verify-diagnostics -o /dev/null

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
