// What the verifiers of contractions and data movement refuse. Each case names the constraint that it breaks.

// RUN: mpcomm-opt %s --split-input-file --verify-diagnostics

func.func @dot_general_c1(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error @below {{expects as many dimensions of lhs as of rhs, got 0 and 0 batching, 2 and 1 contracting}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.dot_general %a, %b, contracting_dims = [0, 1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @dot_general_c1_batching(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) {
  // expected-error @below {{expects as many dimensions of lhs as of rhs, got 1 and 0 batching, 1 and 1 contracting}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.dot_general %a, %b, batching_dims = [0] x [], contracting_dims = [1] x [1] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @dot_general_c2_range(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error @below {{names dimension 2 of lhs, which has rank 2}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.dot_general %a, %b, contracting_dims = [2] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @dot_general_c2_negative(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error @below {{names dimension -1 of rhs, which has rank 2}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.dot_general %a, %b, contracting_dims = [1] x [-1] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @dot_general_c2_twice(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) {
  // expected-error @below {{names dimension 0 of lhs twice}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [0] x [1] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @dot_general_c3(%a: tensor<2x3xf32>, %b: tensor<5x4xf32>) {
  // expected-error @below {{pairs dimension 1 of lhs, of size 3, with dimension 0 of rhs, of size 5}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<5x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @dot_general_c4(%a: tensor<2x3xf32>, %b: tensor<3x4xbf16>) {
  // expected-error @below {{expects one element type, got 'f32' and 'bf16'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xbf16>) -> tensor<2x4xf32>
  return
}

// -----

func.func @dot_general_result(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error @below {{inferred type(s) 'tensor<2x4xf32>' are incompatible with return type(s) of operation 'tensor<4x2xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<4x2xf32>
  return
}

// -----

func.func @transpose_c1_twice(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'dims' to be a permutation of 2 dimensions}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.transpose %x, dims = [0, 0] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @transpose_c1_short(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'dims' to be a permutation of 2 dimensions}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.transpose %x, dims = [1] : (tensor<8x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @transpose_c1_long(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'dims' to be a permutation of 2 dimensions}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.transpose %x, dims = [1, 0, 2] : (tensor<8x4xf32>) -> tensor<4x8x1xf32>
  return
}

// -----

func.func @reshape_c1(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects as many elements in the result as in the operand, got 31 for 32}}
  %0 = mpcomm.reshape %x : (tensor<8x4xf32>) -> tensor<31xf32>
  return
}

// -----

func.func @reshape_c2(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects one element type, got 'f32' and 'f64'}}
  %0 = mpcomm.reshape %x : (tensor<8x4xf32>) -> tensor<32xf64>
  return
}

// -----

func.func @broadcast_in_dim_c1_count(%x: tensor<4xf32>) {
  // expected-error @below {{expects 'dims' to have 1 entries, got 0}}
  %0 = mpcomm.broadcast_in_dim %x, dims = [] : (tensor<4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @broadcast_in_dim_c1_order(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'dims' to be increasing and in [0, 2)}}
  %0 = mpcomm.broadcast_in_dim %x, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @broadcast_in_dim_c1_range(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'dims' to be increasing and in [0, 3)}}
  %0 = mpcomm.broadcast_in_dim %x, dims = [0, 3] : (tensor<8x4xf32>) -> tensor<8x4x2xf32>
  return
}

// -----

func.func @broadcast_in_dim_c2(%x: tensor<3xf32>) {
  // expected-error @below {{cannot make dimension 0 of size 3 dimension 1 of size 4}}
  %0 = mpcomm.broadcast_in_dim %x, dims = [1] : (tensor<3xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @broadcast_in_dim_c3(%x: tensor<4xf32>) {
  // expected-error @below {{expects one element type, got 'f32' and 'f16'}}
  %0 = mpcomm.broadcast_in_dim %x, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf16>
  return
}

// -----

func.func @reduce_c1_order(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'dims' to be increasing and in [0, 2)}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.reduce sum %x, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<f32>
  return
}

// -----

func.func @reduce_c1_range(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'dims' to be increasing and in [0, 2)}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.reduce sum %x, dims = [2] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @reduce_c2(%x: tensor<8x4xf32>) {
  // expected-error @below {{does not take 'mean': divide a sum by a constant}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.reduce mean %x, dims = [0] : (tensor<8x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @reverse_c1_range(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects increasing 'dims' in [0, 2), got 2 after -1}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.reverse %x, dims = [2] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @reverse_c1_order(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects increasing 'dims' in [0, 2), got 1 after 1}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.reverse %x, dims = [1, 1] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @slice_c1(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 2 starts, limits and strides, got 1, 2 and 2}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.slice %x, starts = [0], limits = [8, 4], strides = [1, 1] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @slice_c2_limit(%x: tensor<8x4xf32>) {
  // expected-error @below {{has window 0:9:1 of dimension 0 of size 8}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.slice %x, starts = [0, 0], limits = [9, 4], strides = [1, 1] : (tensor<8x4xf32>) -> tensor<9x4xf32>
  return
}

// -----

func.func @slice_c2_start(%x: tensor<8x4xf32>) {
  // expected-error @below {{has window -1:4:1 of dimension 1 of size 4}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.slice %x, starts = [0, -1], limits = [8, 4], strides = [1, 1] : (tensor<8x4xf32>) -> tensor<8x5xf32>
  return
}

// -----

func.func @slice_c2_order(%x: tensor<8x4xf32>) {
  // expected-error @below {{has window 5:4:1 of dimension 0 of size 8}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.slice %x, starts = [5, 0], limits = [4, 4], strides = [1, 1] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @slice_c2_stride(%x: tensor<8x4xf32>) {
  // expected-error @below {{has window 0:8:0 of dimension 0 of size 8}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.slice %x, starts = [0, 0], limits = [8, 4], strides = [0, 1] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @concatenate_c1_none() {
  // expected-error @below {{expects at least one operand}}
  // expected-error @below {{failed to infer returned types}}
  %0 = "mpcomm.concatenate"() <{dim = 0 : i64}> : () -> tensor<8x4xf32>
  return
}

// -----

func.func @concatenate_c1_dim(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'dim' in [0, 2), got 2}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.concatenate %x, %x, dim = 2 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @concatenate_c2_size(%x: tensor<8x4xf32>, %y: tensor<8x5xf32>) {
  // expected-error @below {{cannot join 'tensor<8x5xf32>' to 'tensor<8x4xf32>' along dimension 0}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.concatenate %x, %y, dim = 0 : (tensor<8x4xf32>, tensor<8x5xf32>) -> tensor<16x4xf32>
  return
}

// -----

func.func @concatenate_c2_type(%x: tensor<8x4xf32>, %y: tensor<8x4xf64>) {
  // expected-error @below {{cannot join 'tensor<8x4xf64>' to 'tensor<8x4xf32>' along dimension 0}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.concatenate %x, %y, dim = 0 : (tensor<8x4xf32>, tensor<8x4xf64>) -> tensor<16x4xf32>
  return
}

// -----

func.func @concatenate_c2_rank(%x: tensor<8x4xf32>, %y: tensor<8xf32>) {
  // expected-error @below {{cannot join 'tensor<8xf32>' to 'tensor<8x4xf32>' along dimension 0}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.concatenate %x, %y, dim = 0 : (tensor<8x4xf32>, tensor<8xf32>) -> tensor<16x4xf32>
  return
}

// -----

func.func @pad_c1(%x: tensor<8x4xf32>, %v: tensor<f32>) {
  // expected-error @below {{expects 2 low, high and interior amounts, got 1, 2 and 2}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.pad %x, %v, low = [0], high = [0, 0], interior = [0, 0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @pad_c2(%x: tensor<8x4xf32>, %v: tensor<f32>) {
  // expected-error @below {{expects amounts that are not negative, got 0, -1 and 0 for dimension 1}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.pad %x, %v, low = [0, 0], high = [0, -1], interior = [0, 0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x3xf32>
  return
}

// -----

func.func @pad_c3_type(%x: tensor<8x4xf32>, %v: tensor<f64>) {
  // expected-error @below {{expects a value of type 'tensor<f32>', got 'tensor<f64>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.pad %x, %v, low = [0, 0], high = [0, 0], interior = [0, 0] : (tensor<8x4xf32>, tensor<f64>) -> tensor<8x4xf32>
  return
}

// -----

func.func @pad_c3_rank(%x: tensor<8x4xf32>, %v: tensor<1xf32>) {
  // expected-error @below {{expects a value of type 'tensor<f32>', got 'tensor<1xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.pad %x, %v, low = [0, 0], high = [0, 0], interior = [0, 0] : (tensor<8x4xf32>, tensor<1xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @iota_c1() {
  // expected-error @below {{expects 'dim' in [0, 1), got 1}}
  %0 = mpcomm.iota dim = 1 : tensor<8xi64>
  return
}

// -----

func.func @iota_c1_scalar() {
  // expected-error @below {{expects 'dim' in [0, 0), got 0}}
  %0 = mpcomm.iota dim = 0 : tensor<i64>
  return
}
