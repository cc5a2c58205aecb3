// What the verifiers of meshes and collectives refuse. Each case names the constraint that it breaks.

// RUN: mpcomm-opt %s --split-input-file --verify-diagnostics

// mesh C1: an axis
// expected-error @below {{expects at least one axis}}
mpcomm.mesh @mesh_c1_none <[]>

// -----

// mesh C1: names
// expected-error @below {{expects axis names that are not empty}}
mpcomm.mesh @mesh_c1_empty <["" = 2]>

// -----

// mesh C1: different names
// expected-error @below {{names axis "dp" twice}}
mpcomm.mesh @mesh_c1_twice <["dp" = 2, "dp" = 2]>

// -----

// mesh C2: positive sizes
// expected-error @below {{expects a positive size for axis "dp", got 0}}
mpcomm.mesh @mesh_c2_zero <["dp" = 0]>

// -----

// mesh C2: not too many ranks
// expected-error @below {{has more ranks than 32 bits count}}
mpcomm.mesh @mesh_c2_large <["pp" = 65536, "dp" = 65536]>

// -----

// mesh C2: not too many ranks along one axis
// expected-error @below {{has more ranks than 32 bits count}}
mpcomm.mesh @mesh_c2_huge <["dp" = 9223372036854775807]>

// -----

// names and sizes pair up
// expected-error @below {{has 1 axis names but 2 sizes}}
"mpcomm.mesh"() <{sym_name = "mesh_lists", axis_names = ["dp"], axis_sizes = array<i64: 2, 2>}> : () -> ()

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_reduce_c1() {
  // expected-error @below {{expects at least one operand}}
  "mpcomm.all_reduce"() <{mesh = @mesh, axes = ["dp"], reduction = #mpcomm<reduction sum>}> : () -> ()
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_reduce_c2_none(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects at least one mesh axis}}
  %0 = mpcomm.all_reduce(%x) on @mesh axes [] sum : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_reduce_c2_twice(%x: tensor<8x4xf32>) {
  // expected-error @below {{names mesh axis "dp" twice}}
  %0 = mpcomm.all_reduce(%x) on @mesh axes ["dp", "dp"] sum : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_reduce_c2_no_mesh(%x: tensor<8x4xf32>) {
  // expected-error @below {{names @nothing, which is not an mpcomm.mesh}}
  %0 = mpcomm.all_reduce(%x) on @nothing axes ["dp"] sum : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_reduce_c2_not_a_mesh(%x: tensor<8x4xf32>) {
  // expected-error @below {{names @all_reduce_c2_not_a_mesh, which is not an mpcomm.mesh}}
  %0 = mpcomm.all_reduce(%x) on @all_reduce_c2_not_a_mesh axes ["dp"] sum : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_reduce_c3_wire(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects a float type for 'wire', got 'i8'}}
  %0 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum wire i8 : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_reduce_c3_accumulate(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects a float type for 'accumulate', got 'i32'}}
  %0 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum accumulate i32 : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_reduce_c3_operands(%x: tensor<4xi32>) {
  // expected-error @below {{has 'wire' but an operand of type 'tensor<4xi32>', expected float elements}}
  %0 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum wire bf16 : tensor<4xi32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_reduce_c3_width(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'accumulate' to be at least as wide as what travels, got 'bf16' for 'f32'}}
  %0 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum wire f32 accumulate bf16 : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_reduce_c3_operand_width(%x: tensor<8x4xf32>, %y: tensor<4xf64>) {
  // expected-error @below {{expects 'accumulate' to be at least as wide as what travels, got 'f32' for 'f64'}}
  %0:2 = mpcomm.all_reduce(%x, %y) on @mesh axes ["dp"] sum accumulate f32 : tensor<8x4xf32>, tensor<4xf64>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_reduce_c4(%x: tensor<4xi32>) {
  // expected-error @below {{expects float elements for 'mean', got 'tensor<4xi32>'}}
  %0 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xi32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @reduce_scatter_c1(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'dims' in [0, 2), got 2}}
  %0 = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] sum dims = [2] : (tensor<8x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @reduce_scatter_c2_none(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects at least one mesh axis}}
  %0 = mpcomm.reduce_scatter(%x) on @mesh axes [] sum dims = [0] : (tensor<8x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @reduce_scatter_c2_twice(%x: tensor<8x4xf32>) {
  // expected-error @below {{names mesh axis "dp" twice}}
  %0 = mpcomm.reduce_scatter(%x) on @mesh axes ["dp", "dp"] sum dims = [0] : (tensor<8x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @reduce_scatter_c3(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'accumulate' to be at least as wide as what travels, got 'f32' for 'f64'}}
  %0 = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] sum wire f64 accumulate f32 dims = [0] : (tensor<8x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @reduce_scatter_c4(%x: tensor<4xi64>) {
  // expected-error @below {{expects float elements for 'mean', got 'tensor<4xi64>'}}
  %0 = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] mean dims = [0] : (tensor<4xi64>) -> tensor<2xi64>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @reduce_scatter_c5_divisible(%x: tensor<5xf32>) {
  // expected-error @below {{expects dimension 0 of size 5 to be divisible by the 2 ranks of the group}}
  %0 = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] sum dims = [0] : (tensor<5xf32>) -> tensor<2xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @reduce_scatter_c5_shape(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects result type 'tensor<4x4xf32>' for 2 ranks, got 'tensor<8x4xf32>'}}
  %0 = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] sum dims = [0] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_gather_c1(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'dims' in [0, 2), got -1}}
  %0 = mpcomm.all_gather(%x) on @mesh axes ["dp"] dims = [-1] : (tensor<8x4xf32>) -> tensor<8x8xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_gather_c2_none(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects at least one mesh axis}}
  %0 = mpcomm.all_gather(%x) on @mesh axes [] dims = [0] : (tensor<8x4xf32>) -> tensor<16x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_gather_c2_twice(%x: tensor<8x4xf32>) {
  // expected-error @below {{names mesh axis "dp" twice}}
  %0 = mpcomm.all_gather(%x) on @mesh axes ["dp", "dp"] dims = [0] : (tensor<8x4xf32>) -> tensor<16x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_gather_c3(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects result type 'tensor<16x4xf32>' for 2 ranks, got 'tensor<8x8xf32>'}}
  %0 = mpcomm.all_gather(%x) on @mesh axes ["dp"] dims = [0] : (tensor<8x4xf32>) -> tensor<8x8xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_gather_c3_type(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects result type 'tensor<16x4xf32>' for 2 ranks, got 'tensor<16x4xf64>'}}
  %0 = mpcomm.all_gather(%x) on @mesh axes ["dp"] dims = [0] : (tensor<8x4xf32>) -> tensor<16x4xf64>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_slice_c1(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'dim' in [0, 2), got 2}}
  %0 = mpcomm.all_slice %x on @mesh axes ["dp"] dim = 2 : (tensor<8x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_slice_c2_none(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects at least one mesh axis}}
  %0 = mpcomm.all_slice %x on @mesh axes [] dim = 0 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

// expected-note @below {{the mesh is here}}
mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_slice_c2_unknown(%x: tensor<8x4xf32>) {
  // expected-error @below {{names axis "tp", which mesh @mesh does not have}}
  %0 = mpcomm.all_slice %x on @mesh axes ["tp"] dim = 0 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_slice_c3(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects result type 'tensor<4x4xf32>' for 2 ranks, got 'tensor<8x4xf32>'}}
  %0 = mpcomm.all_slice %x on @mesh axes ["dp"] dim = 0 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @axis_index_c1() {
  // expected-error @below {{result #0 must be 0D tensor of 32-bit signless integer values, but got 'tensor<1xi32>'}}
  %0 = mpcomm.axis_index on @mesh axes ["dp"] : tensor<1xi32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @axis_index_c2() {
  // expected-error @below {{names mesh axis "dp" twice}}
  %0 = mpcomm.axis_index on @mesh axes ["dp", "dp"] : tensor<i32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @predivide_c1_none(%x: tensor<4xf32>) {
  // expected-error @below {{expects at least one mesh axis}}
  %0 = mpcomm.predivide %x on @mesh axes [] : tensor<4xf32>
  return
}

// -----

func.func @predivide_c1_unknown(%x: tensor<4xf32>) {
  // expected-error @below {{names @mesh, which is not an mpcomm.mesh}}
  %0 = mpcomm.predivide %x on @mesh axes ["dp"] : tensor<4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_to_all_c1_split(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'split_dims' in [0, 2), got 2}}
  %0 = mpcomm.all_to_all(%x) on @mesh axes ["dp"] split_dims = [2] concat_dims = [0] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_to_all_c1_concat(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'concat_dims' in [0, 2), got 2}}
  %0 = mpcomm.all_to_all(%x) on @mesh axes ["dp"] split_dims = [0] concat_dims = [2] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_to_all_c2_none(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects at least one mesh axis}}
  %0 = mpcomm.all_to_all(%x) on @mesh axes [] split_dims = [0] concat_dims = [1] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_to_all_c2_twice(%x: tensor<8x4xf32>) {
  // expected-error @below {{names mesh axis "dp" twice}}
  %0 = mpcomm.all_to_all(%x) on @mesh axes ["dp", "dp"] split_dims = [0] concat_dims = [1] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_to_all_c3(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects result type 'tensor<4x8xf32>' for 2 ranks, got 'tensor<8x4xf32>'}}
  %0 = mpcomm.all_to_all(%x) on @mesh axes ["dp"] split_dims = [0] concat_dims = [1] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_to_all_c3_divisible(%x: tensor<3x4xf32>) {
  // expected-error @below {{expects dimension 0 of size 3 to be divisible by the 2 ranks of the group}}
  %0 = mpcomm.all_to_all(%x) on @mesh axes ["dp"] split_dims = [0] concat_dims = [1] : (tensor<3x4xf32>) -> tensor<1x8xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_broadcast_c1(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'root' to be one of the 2 ranks of the group, got 2}}
  %0 = mpcomm.collective_broadcast(%x) on @mesh axes ["dp"] root = 2 : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_broadcast_c2_none(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects at least one mesh axis}}
  %0 = mpcomm.collective_broadcast(%x) on @mesh axes [] root = 0 : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @collective_broadcast_c2_twice(%x: tensor<8x4xf32>) {
  // expected-error @below {{names mesh axis "dp" twice}}
  %0 = mpcomm.collective_broadcast(%x) on @mesh axes ["dp", "dp"] root = 0 : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @send_c1(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'to' to be one of the 2 ranks of the group, got -1}}
  mpcomm.send(%x) on @mesh axes ["dp"] to = -1 : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @send_c2_none(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects at least one mesh axis}}
  mpcomm.send(%x) on @mesh axes [] to = 0 : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @send_c2_twice(%x: tensor<8x4xf32>) {
  // expected-error @below {{names mesh axis "dp" twice}}
  mpcomm.send(%x) on @mesh axes ["dp", "dp"] to = 0 : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @send_c3(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects a channel from 0 to 65535, got -1}}
  mpcomm.send(%x) on @mesh axes ["pp"] to = 0 channel = -1 : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @tag(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'mpcomm.tag' to be a non-empty string, got ""}}
  mpcomm.send(%x) on @mesh axes ["pp"] to = 0 {mpcomm.tag = ""} : tensor<8x4xf32>
  return
}

// -----

func.func @stage(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'mpcomm.stage' to be an i64 from 0 to 32767, got -1 : i64}}
  %0 = mpcomm.transpose %x, dims = [1, 0] {mpcomm.stage = -1 : i64} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @recv_c1() {
  // expected-error @below {{expects 'from' to be one of the 2 ranks of the group, got 2}}
  %0 = mpcomm.recv on @mesh axes ["dp"] from = 2 : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @recv_c2_none() {
  // expected-error @below {{expects at least one mesh axis}}
  %0 = mpcomm.recv on @mesh axes [] from = 0 : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @recv_c2_twice() {
  // expected-error @below {{names mesh axis "dp" twice}}
  %0 = mpcomm.recv on @mesh axes ["dp", "dp"] from = 0 : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @recv_c3() {
  // expected-error @below {{expects a channel from 0 to 65535, got 65536}}
  %0 = mpcomm.recv on @mesh axes ["pp"] from = 0 channel = 65536 : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @barrier_c2_none() {
  // expected-error @below {{expects at least one mesh axis}}
  mpcomm.barrier on @mesh axes []
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @barrier_c2_twice() {
  // expected-error @below {{names mesh axis "dp" twice}}
  mpcomm.barrier on @mesh axes ["dp", "dp"]
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @async_c1_none() {
  // expected-error @below {{expects exactly one op before the yield of its region, a collective}}
  %f = mpcomm.async {
    mpcomm.yield
  } : !mpcomm.future<>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @async_c1_compute(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects exactly one op before the yield of its region, a collective}}
  %f = mpcomm.async {
    %r = mpcomm.gelu %x : tensor<8x4xf32>
    mpcomm.yield %r : tensor<8x4xf32>
  } : !mpcomm.future<tensor<8x4xf32>>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @async_c1_two(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects exactly one op before the yield of its region, a collective}}
  %f = mpcomm.async {
    mpcomm.barrier on @mesh axes ["dp"]
    mpcomm.send(%x) on @mesh axes ["dp"] to = 0 : tensor<8x4xf32>
    mpcomm.yield
  } : !mpcomm.future<>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @async_c3(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects a future of the yielded types, got '!mpcomm.future<tensor<4xf32>>'}}
  %f = mpcomm.async {
    %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<8x4xf32>
    mpcomm.yield %r : tensor<8x4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @async_c2(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %f = mpcomm.async {
    %r:2 = mpcomm.all_reduce(%x, %y) on @mesh axes ["dp"] sum : tensor<4xf32>, tensor<4xf32>
    // expected-error @below {{expects to yield the results of the collective, in order}}
    mpcomm.yield %r#1, %r#0 : tensor<4xf32>, tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>, tensor<4xf32>>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @await_c1(%x: tensor<4xf32>) {
  %f = mpcomm.async {
    %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<4xf32>
    mpcomm.yield %r : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  // expected-error @below {{waits for a future that is awaited elsewhere too}}
  %a = mpcomm.await %f : !mpcomm.future<tensor<4xf32>>
  // expected-note @below {{the other one is here}}
  %b = mpcomm.await %f : !mpcomm.future<tensor<4xf32>>
  return
}

// -----

// The mesh is named in a note.
// expected-note @below {{the mesh is here}}
mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_reduce_c2_axis(%x: tensor<4xf32>) {
  // expected-error @below {{names axis "tp", which mesh @mesh does not have}}
  %0 = mpcomm.all_reduce(%x) on @mesh axes ["tp"] sum : tensor<4xf32>
  return
}

// -----

// A yield belongs into an async.
func.func @yield_parent() {
  // expected-error @below {{expects parent op to be one of 'mpcomm.async, mpcomm.update'}}
  mpcomm.yield
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @program_c1() {
  return
}
// expected-error @below {{names axis "tp", which mesh @mesh does not have}}
mpcomm.program @train_step on @mesh axes ["tp"] runs [@program_c1]

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @program_c1_twice() {
  return
}
// expected-error @below {{names mesh axis "pp" twice}}
mpcomm.program @train_step on @mesh axes ["pp", "pp"] runs [@program_c1_twice]

// -----

func.func @program_c1_mesh() {
  return
}
// expected-error @below {{names @mesh, which is not an mpcomm.mesh}}
mpcomm.program @train_step on @mesh axes ["pp"] runs [@program_c1_mesh]

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @program_c2() {
  return
}
// expected-error @below {{has 1 functions, expected 4, one for each rank along its axes}}
mpcomm.program @train_step on @mesh axes ["pp", "dp"] runs [@program_c2]

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
// expected-error @below {{expects at least one function}}
mpcomm.program @program_c2_none on @mesh axes ["pp", "dp"] runs []

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func private @program_c3()
// expected-error @below {{runs @program_c3, which is not a public function}}
mpcomm.program @train_step on @mesh axes ["pp"] runs [@program_c3, @program_c3]

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @program_c3_shared() {
  return
}
// expected-error @below {{runs @program_c3_shared, which another program runs too}}
mpcomm.program @evaluate on @mesh axes ["pp"] runs [@program_c3_shared, @program_c3_shared]
mpcomm.program @train_step on @mesh axes ["pp"] runs [@program_c3_shared, @program_c3_shared]

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_reduce_c5(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects a channel from 0 to 65535, got -1}}
  %0 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum channel = -1 : tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @reduce_scatter_c1_count(%x: tensor<8x4xf32>, %y: tensor<10xf32>) {
  // expected-error @below {{expects a number in 'dims' for each of its 2 operands, got 1}}
  %0:2 = mpcomm.reduce_scatter(%x, %y) on @mesh axes ["dp"] sum dims = [0] : (tensor<8x4xf32>, tensor<10xf32>) -> (tensor<4x4xf32>, tensor<5xf32>)
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @reduce_scatter_c1_second(%x: tensor<8x4xf32>, %y: tensor<10xf32>) {
  // expected-error @below {{expects 'dims' in [0, 1), got 1}}
  %0:2 = mpcomm.reduce_scatter(%x, %y) on @mesh axes ["dp"] sum dims = [0, 1] : (tensor<8x4xf32>, tensor<10xf32>) -> (tensor<4x4xf32>, tensor<5xf32>)
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @reduce_scatter_c5_second(%x: tensor<8x4xf32>, %y: tensor<10xf32>) {
  // expected-error @below {{expects result type 'tensor<5xf32>' for 2 ranks, got 'tensor<4xf32>'}}
  %0:2 = mpcomm.reduce_scatter(%x, %y) on @mesh axes ["dp"] sum dims = [0, 0] : (tensor<8x4xf32>, tensor<10xf32>) -> (tensor<4x4xf32>, tensor<4xf32>)
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @reduce_scatter_c6() {
  // expected-error @below {{expects at least one operand}}
  mpcomm.reduce_scatter() on @mesh axes ["dp"] sum dims = [] : () -> ()
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @reduce_scatter_c6_results(%x: tensor<8x4xf32>, %y: tensor<10xf32>) {
  // expected-error @below {{expects a result for each of its 2 operands, got 1}}
  %0 = mpcomm.reduce_scatter(%x, %y) on @mesh axes ["dp"] sum dims = [0, 0] : (tensor<8x4xf32>, tensor<10xf32>) -> tensor<4x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @reduce_scatter_c7(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects a channel from 0 to 65535, got 65536}}
  %0 = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] sum dims = [0] channel = 65536 : (tensor<8x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_gather_c1_count(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects a number in 'dims' for each of its 1 operands, got 2}}
  %0 = mpcomm.all_gather(%x) on @mesh axes ["dp"] dims = [0, 0] : (tensor<8x4xf32>) -> tensor<16x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_gather_c3_second(%x: tensor<8x4xf32>, %y: tensor<10xf32>) {
  // expected-error @below {{expects result type 'tensor<20xf32>' for 2 ranks, got 'tensor<10xf32>'}}
  %0:2 = mpcomm.all_gather(%x, %y) on @mesh axes ["dp"] dims = [0, 0] : (tensor<8x4xf32>, tensor<10xf32>) -> (tensor<16x4xf32>, tensor<10xf32>)
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_gather_c4() {
  // expected-error @below {{expects at least one operand}}
  mpcomm.all_gather() on @mesh axes ["dp"] dims = [] : () -> ()
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_gather_c4_results(%x: tensor<8x4xf32>, %y: tensor<10xf32>) {
  // expected-error @below {{expects a result for each of its 2 operands, got 1}}
  %0 = mpcomm.all_gather(%x, %y) on @mesh axes ["dp"] dims = [0, 0] : (tensor<8x4xf32>, tensor<10xf32>) -> tensor<16x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_gather_c5(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects a channel from 0 to 65535, got -2}}
  %0 = mpcomm.all_gather(%x) on @mesh axes ["dp"] dims = [0] channel = -2 : (tensor<8x4xf32>) -> tensor<16x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_to_all_c1_count(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects a number in 'concat_dims' for each of its 1 operands, got 0}}
  %0 = mpcomm.all_to_all(%x) on @mesh axes ["dp"] split_dims = [0] concat_dims = [] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_to_all_c4() {
  // expected-error @below {{expects at least one operand}}
  mpcomm.all_to_all() on @mesh axes ["dp"] split_dims = [] concat_dims = [] : () -> ()
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_to_all_c4_results(%x: tensor<8x4xf32>, %y: tensor<10xf32>) {
  // expected-error @below {{expects a result for each of its 2 operands, got 1}}
  %0 = mpcomm.all_to_all(%x, %y) on @mesh axes ["dp"] split_dims = [0, 0] concat_dims = [1, 0] : (tensor<8x4xf32>, tensor<10xf32>) -> tensor<4x8xf32>
  return
}

// -----

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @all_to_all_c5(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects a channel from 0 to 65535, got 65536}}
  %0 = mpcomm.all_to_all(%x) on @mesh axes ["dp"] split_dims = [0] concat_dims = [1] channel = 65536 : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func @pending(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expects 'mpcomm.pending' to be a unit attribute of an all_reduce, got 1 : i64}}
  %0 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean {mpcomm.pending = 1 : i64} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @pending_compute(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expects 'mpcomm.pending' to be a unit attribute of an all_reduce, got unit}}
  %0 = arith.negf %x {mpcomm.pending} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @local_update(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expects 'mpcomm.local_update' to be a unit attribute of an update, got unit}}
  %0 = arith.negf %x {mpcomm.local_update} : tensor<4xf32>
  return %0 : tensor<4xf32>
}
