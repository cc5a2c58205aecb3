// What a broken producer may write: ops with missing or ill-typed attributes,
// operands and regions, and sizes that do not fit 64 bits. Each is refused with
// an error; nothing crashes.

// RUN: mpcomm-opt %s --split-input-file --verify-diagnostics

func.func @missing_attribute(%x: tensor<8x4xf32>) {
  // expected-error @below {{requires attribute 'dims'}}
  %0 = "mpcomm.transpose"(%x) : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @attribute_type(%x: tensor<8x4xf32>) {
  // expected-error @below {{invalid properties}}
  %0 = "mpcomm.transpose"(%x) <{dims = 3 : i64}> : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @missing_reduction(%x: tensor<8x4xf32>) {
  // expected-error @below {{requires attribute 'reduction'}}
  %0 = "mpcomm.reduce"(%x) <{dims = array<i64: 0>}> : (tensor<8x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @missing_contracting(%x: tensor<8x4xf32>) {
  // expected-error @below {{requires attribute 'lhs_contracting_dims'}}
  %0 = "mpcomm.dot_general"(%x, %x) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @dynamic_shape(%x: tensor<?x4xf32>) {
  // expected-error @below {{operand #0 must be statically shaped tensor}}
  %0 = mpcomm.gelu %x : tensor<?x4xf32>
  return
}

// -----

func.func @unranked(%x: tensor<*xf32>) {
  // expected-error @below {{operand #0 must be statically shaped tensor}}
  %0 = "mpcomm.transpose"(%x) <{dims = array<i64: 0>}> : (tensor<*xf32>) -> tensor<*xf32>
  return
}

// -----

func.func @element_type(%x: tensor<8x4xindex>) {
  // expected-error @below {{operand #0 must be statically shaped tensor}}
  %0 = mpcomm.transpose %x, dims = [1, 0] : (tensor<8x4xindex>) -> tensor<4x8xindex>
  return
}

// -----

func.func @not_a_tensor(%x: memref<8x4xf32>) {
  // expected-error @below {{operand #0 must be statically shaped tensor}}
  %0 = "mpcomm.softmax"(%x) <{dim = 0 : i64}> : (memref<8x4xf32>) -> memref<8x4xf32>
  return
}

// -----

func.func @operand_count(%x: tensor<8x4xf32>) {
  // expected-error @below {{expected 5 operands, but found 1}}
  %0:3 = "mpcomm.layer_norm_grad"(%x) : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @result_count(%x: tensor<8x4xf32>, %ids: tensor<8xi64>) {
  // expected-error @below {{expected 2 results}}
  %0 = "mpcomm.cross_entropy"(%x, %ids) <{reduction = #mpcomm<loss_reduction mean>, ignore_index = 0 : i64}> : (tensor<8x4xf32>, tensor<8xi64>) -> tensor<f32>
  return
}

// -----

func.func @missing_mesh(%x: tensor<8x4xf32>) {
  // expected-error @below {{requires attribute 'axes'}}
  %0 = "mpcomm.collective_broadcast"(%x) <{root = 0 : i64}> : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func @axes_type(%x: tensor<8x4xf32>) {
  // expected-error @below {{attribute 'axes' failed to satisfy constraint: string array attribute}}
  %0 = "mpcomm.collective_broadcast"(%x) <{mesh = @mesh, axes = [1 : i64], root = 0 : i64}> : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @region_count() {
  // expected-error @below {{requires one region}}
  %f = "mpcomm.async"() : () -> !mpcomm.future<>
  return
}

// -----

func.func @empty_region() {
  // expected-error @below {{failed to verify constraint: region with 1 blocks}}
  %f = "mpcomm.async"() ({}) : () -> !mpcomm.future<>
  return
}

// -----

func.func @empty_block() {
  // expected-error @below {{expects a non-empty block}}
  %f = "mpcomm.async"() ({
    ^bb0:
  }) : () -> !mpcomm.future<>
  return
}

// -----

func.func @no_yield(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects its region to end with mpcomm.yield}}
  %f = "mpcomm.async"() ({
    %0 = mpcomm.gelu %x : tensor<8x4xf32>
  }) : () -> !mpcomm.future<>
  return
}

// -----

func.func @region_argument() {
  // expected-error @below {{region should have no arguments}}
  %f = "mpcomm.async"() ({
    ^bb0(%x: tensor<4xf32>):
      mpcomm.yield
  }) : () -> !mpcomm.future<>
  return
}

// -----

func.func @await_of_no_future(%x: tensor<4xf32>) {
  // expected-error @below {{operand #0 must be the future results of an asynchronous collective}}
  %0 = "mpcomm.await"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @await_written_of_no_future(%x: tensor<4xf32>) {
  // expected-error @below {{'mpcomm.await' op expects a future, got 'tensor<4xf32>'}}
  %0 = mpcomm.await %x : tensor<4xf32>
  return
}

// -----

// A size beyond 64 bits.
func.func @pad_size(%x: tensor<4xf32>, %v: tensor<f32>) {
  // expected-error @below {{makes dimension 0 larger than any tensor's}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.pad %x, %v, low = [9223372036854775807], high = [0], interior = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

func.func @pad_interior(%x: tensor<4xf32>, %v: tensor<f32>) {
  // expected-error @below {{makes dimension 0 larger than any tensor's}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.pad %x, %v, low = [0], high = [0], interior = [9223372036854775807] : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

func.func @concatenate_size(%x: tensor<9223372036854775807xf32>) {
  // expected-error @below {{and at most 2^48 elements}}
  %0 = mpcomm.concatenate %x, %x, dim = 0 : (tensor<9223372036854775807xf32>, tensor<9223372036854775807xf32>) -> tensor<4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func @all_gather_size(%x: tensor<281474976710656xf32>) {
  // expected-error @below {{makes dimension 0 larger than any tensor's}}
  %0 = mpcomm.all_gather(%x) on @mesh axes ["dp"] dims = [0] : (tensor<281474976710656xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @reshape_size(%x: tensor<4294967296x4294967296xf32>) {
  // expected-error @below {{and at most 2^48 elements}}
  %0 = mpcomm.reshape %x : (tensor<4294967296x4294967296xf32>) -> tensor<0xf32>
  return
}

// -----

// No such op, type or attribute.
// expected-error @below {{custom op 'mpcomm.all_reduced' is unknown}}
mpcomm.all_reduced

// -----

// expected-error @below {{unknown  type `promise` in dialect `mpcomm`}}
func.func private @type(!mpcomm.promise<tensor<4xf32>>)

// -----

// A mesh outside of a module's body.
func.func @mesh_parent() {
  // expected-error @below {{expects parent op 'builtin.module'}}
  mpcomm.mesh @inner <["dp" = 2]>
  return
}
