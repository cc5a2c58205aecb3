// RUN: mpcomm-opt %s --split-input-file --verify-diagnostics

// Collectives to and from a root, and permutes: what breaks each constraint is
// refused.

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_permute_c1_source(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'source_target_pairs' to be one of the 2 ranks of the group, got 2}}
  %0 = mpcomm.collective_permute(%x) on @mesh axes ["dp"] source_target_pairs = [[2, 0]] : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_permute_c1_target(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'source_target_pairs' to be one of the 2 ranks of the group, got -1}}
  %0 = mpcomm.collective_permute(%x) on @mesh axes ["dp"] source_target_pairs = [[0, -1]] : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_permute_c2_none(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects at least one mesh axis}}
  %0 = mpcomm.collective_permute(%x) on @mesh axes [] source_target_pairs = [[0, 0]] : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_permute_c2_twice(%x: tensor<8x4xf32>) {
  // expected-error @below {{names mesh axis "dp" twice}}
  %0 = mpcomm.collective_permute(%x) on @mesh axes ["dp", "dp"] source_target_pairs = [[0, 0]] : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_permute_c3_source(%x: tensor<8x4xf32>) {
  // expected-error @below {{has rank 0 as the source of two pairs}}
  %0 = mpcomm.collective_permute(%x) on @mesh axes ["dp"] source_target_pairs = [[0, 1], [0, 0]] : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_permute_c3_target(%x: tensor<8x4xf32>) {
  // expected-error @below {{has rank 1 as the target of two pairs}}
  %0 = mpcomm.collective_permute(%x) on @mesh axes ["dp"] source_target_pairs = [[0, 1], [1, 1]] : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_permute_c4(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects two numbers for each of 'source_target_pairs', got 3 numbers}}
  %0 = "mpcomm.collective_permute"(%x) <{mesh = @mesh, axes = ["dp"], source_target_pairs = array<i64: 0, 1, 1>}> : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_reduce_c1(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'root' to be one of the 2 ranks of the group, got 2}}
  %0 = mpcomm.collective_reduce(%x) on @mesh axes ["dp"] sum root = 2 : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_reduce_c2_none(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects at least one mesh axis}}
  %0 = mpcomm.collective_reduce(%x) on @mesh axes [] sum root = 0 : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_reduce_c3_wire(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects a float type for 'wire', got 'i32'}}
  %0 = mpcomm.collective_reduce(%x) on @mesh axes ["dp"] sum wire i32 root = 0 : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_reduce_c3_accumulate(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'accumulate' to be at least as wide as what travels, got 'bf16' for 'f32'}}
  %0 = mpcomm.collective_reduce(%x) on @mesh axes ["dp"] sum accumulate bf16 root = 0 : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_reduce_c4(%x: tensor<8x4xi32>) {
  // expected-error @below {{expects float elements for 'mean', got 'tensor<8x4xi32>'}}
  %0 = mpcomm.collective_reduce(%x) on @mesh axes ["dp"] mean root = 0 : tensor<8x4xi32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_gather_c1(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'root' to be one of the 2 ranks of the group, got -1}}
  %0 = mpcomm.collective_gather(%x) on @mesh axes ["dp"] root = -1 dim = 0 : (tensor<8x4xf32>) -> tensor<16x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_gather_c2_none(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects at least one mesh axis}}
  %0 = mpcomm.collective_gather(%x) on @mesh axes [] root = 0 dim = 0 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_gather_c3(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects result type 'tensor<16x4xf32>' for 2 ranks, got 'tensor<8x8xf32>'}}
  %0 = mpcomm.collective_gather(%x) on @mesh axes ["dp"] root = 0 dim = 0 : (tensor<8x4xf32>) -> tensor<8x8xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_gather_c4(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'dim' in [0, 2), got 2}}
  %0 = mpcomm.collective_gather(%x) on @mesh axes ["dp"] root = 0 dim = 2 : (tensor<8x4xf32>) -> tensor<16x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_scatter_c1(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'root' to be one of the 2 ranks of the group, got 2}}
  %0 = mpcomm.collective_scatter(%x) on @mesh axes ["dp"] root = 2 dim = 0 : (tensor<8x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_scatter_c2_none(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects at least one mesh axis}}
  %0 = mpcomm.collective_scatter(%x) on @mesh axes [] root = 0 dim = 0 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_scatter_c3(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects result type 'tensor<4x4xf32>' for 2 ranks, got 'tensor<8x4xf32>'}}
  %0 = mpcomm.collective_scatter(%x) on @mesh axes ["dp"] root = 0 dim = 0 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_scatter_c3_divisible(%x: tensor<3x4xf32>) {
  // expected-error @below {{expects dimension 0 of size 3 to be divisible by the 2 ranks of the group}}
  %0 = mpcomm.collective_scatter(%x) on @mesh axes ["dp"] root = 0 dim = 0 : (tensor<3x4xf32>) -> tensor<1x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_scatter_c4(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'dim' in [0, 2), got -1}}
  %0 = mpcomm.collective_scatter(%x) on @mesh axes ["dp"] root = 0 dim = -1 : (tensor<8x4xf32>) -> tensor<4x4xf32>
  return
}
