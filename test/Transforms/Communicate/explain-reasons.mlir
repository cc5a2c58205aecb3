// Every reason there is, of collectives that passes placed. The cluster of
// Inputs/one-level.json: 1e9 flop/s, memory for nothing, 10 us a message,
// 1e9 B/s. An all_reduce of two ranks takes 20 us + bytes / 1e9 s: one of
// 256 x 256 f32, 262144 bytes, 282.1 us. From 180000 bytes on that is nine
// tenths of the bandwidth.

// RUN: mpcomm-opt %s --mpcomm-combine-collectives="cluster=%S/Inputs/one-level.json max-bucket-bytes=262144" --mpcomm-make-async \
// RUN:   --mpcomm-schedule-overlap="cluster=%S/Inputs/one-level.json memory-bytes=5767168 reorder-compute=false" \
// RUN:   --mpcomm-explain-communication="cluster=%S/Inputs/one-level.json" \
// RUN:   --remarks-filter="mpcomm-explain.*" --remark-format=emitRemark -verify-diagnostics -o /dev/null

mpcomm.mesh @mesh <["dp" = 2]>

// A product of 64^3 multiply-adds takes 524 us: more than 282.1.
// expected-remark @below {{compute_us=524.3, exposed_us=0.0}}
func.func @none(%g: tensor<256x256xf32>, %x: tensor<64x64xf32>) -> (tensor<256x256xf32>, tensor<64x64xf32>) {
  // expected-remark @below {{exposed_us=0.0, hidden_us=282.1, kind=all_reduce, predicted_us=282.1, reason=none, tensors=1}}
  %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<256x256xf32>
  %a = mpcomm.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %r, %a : tensor<256x256xf32>, tensor<64x64xf32>
}

// There would be enough to do, but the update is before it.
// expected-remark @below {{Step}}
func.func @dependency(%g: tensor<256x256xf32>, %x: tensor<64x64xf32>) -> (tensor<256x256xf32>, tensor<64x64xf32>) {
  // expected-remark @below {{detail="'math.sqrt' at update", exposed_us=282.1, hidden_us=0.0, kind=all_reduce, predicted_us=282.1, reason=dependency, tensors=1}}
  %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<256x256xf32>
  %s = math.sqrt %r : tensor<256x256xf32> loc("update")
  %a = mpcomm.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %s, %a : tensor<256x256xf32>, tensor<64x64xf32>
}

// A product of 32^3 multiply-adds takes 65.5 us.
// expected-remark @below {{Step}}
func.func @nothing_to_hide_under(%g: tensor<256x256xf32>, %x: tensor<32x32xf32>) -> (tensor<256x256xf32>, tensor<32x32xf32>) {
  // expected-remark @below {{exposed_us=216.6, hidden_us=65.5, kind=all_reduce, predicted_us=282.1, reason=nothing-to-hide-under, tensors=1}}
  %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<256x256xf32>
  %a = mpcomm.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %r, %a : tensor<256x256xf32>, tensor<32x32xf32>
}

// A sum and a mean share no bucket; the second waits for the first.
// expected-remark @below {{Step}}
func.func @stream_order(%g: tensor<256x256xf32>, %h: tensor<256x256xf32>) -> (tensor<256x256xf32>, tensor<256x256xf32>) {
  // expected-remark @below {{exposed_us=282.1, hidden_us=0.0, kind=all_reduce, predicted_us=282.1, reason=nothing-to-hide-under, tensors=1}}
  %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<256x256xf32>
  // expected-remark-re @below {{detail="'mpcomm.all_reduce' at {{.*}}explain-reasons.mlir:{{[0-9]+}}", exposed_us=282.1, hidden_us=0.0, kind=all_reduce, predicted_us=282.1, reason=stream-order, tensors=1}}
  %s = mpcomm.all_reduce(%h) on @mesh axes ["dp"] sum : tensor<256x256xf32>
  return %r, %s : tensor<256x256xf32>, tensor<256x256xf32>
}

// 16384 bytes travel in 16.4 of 36.4 us.
// expected-remark @below {{Step}}
func.func @below_saturating_size(%g: tensor<64x64xf32>) -> tensor<64x64xf32> {
  // expected-remark @below {{exposed_us=36.4, hidden_us=0.0, kind=all_reduce, predicted_us=36.4, reason=below-saturating-size, tensors=1}}
  %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<64x64xf32>
  return %r : tensor<64x64xf32>
}

// The cap keeps %h out of the bucket of %g.
// expected-remark @below {{Step}}
func.func @user_cap(%g: tensor<256x256xf32>, %h: tensor<256x256xf32>) -> (tensor<256x256xf32>, tensor<256x256xf32>) {
  // expected-remark @below {{exposed_us=282.1, hidden_us=0.0, kind=all_reduce, predicted_us=282.1, reason=user-cap, tensors=1}}
  %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<256x256xf32>
  // expected-remark @below {{reason=stream-order}}
  %s = mpcomm.all_reduce(%h) on @mesh axes ["dp"] mean : tensor<256x256xf32>
  return %r, %s : tensor<256x256xf32>, tensor<256x256xf32>
}

// Tensors of 512 x 512 f32 have 1048576 bytes. The arguments take two and a half
// of them; operands and result of a product three more: 5767168 is the bound. A
// gather takes 10 us + 524288 / 1e9 s. Under the first product (of %x) there is
// room for the second weight; under the second product, which has its operands
// and its result to hold, none for the third.
// expected-remark @below {{exposed_us=1068.6, peak_bytes=5767168}}
func.func @memory_bound(%x: tensor<512x512xf32>, %u: tensor<256x512xf32>, %v: tensor<256x512xf32>, %w: tensor<256x512xf32>) -> tensor<512x512xf32> {
  // expected-remark @below {{exposed_us=534.3, hidden_us=0.0, kind=all_gather, predicted_us=534.3, reason=dependency, tensors=1}}
  %0 = mpcomm.all_gather(%u) on @mesh axes ["dp"] dims = [0] : (tensor<256x512xf32>) -> tensor<512x512xf32>
  %a = mpcomm.dot_general %x, %0, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  // expected-remark @below {{exposed_us=0.0, hidden_us=534.3, kind=all_gather, predicted_us=534.3, reason=none, tensors=1}}
  %1 = mpcomm.all_gather(%v) on @mesh axes ["dp"] dims = [0] : (tensor<256x512xf32>) -> tensor<512x512xf32>
  %b = mpcomm.dot_general %a, %1, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  // expected-remark @below {{exposed_us=534.3, hidden_us=0.0, kind=all_gather, predicted_us=534.3, reason=memory-bound, tensors=1}}
  %2 = mpcomm.all_gather(%w) on @mesh axes ["dp"] dims = [0] : (tensor<256x512xf32>) -> tensor<512x512xf32>
  %c = mpcomm.dot_general %b, %2, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  return %c : tensor<512x512xf32>
}
