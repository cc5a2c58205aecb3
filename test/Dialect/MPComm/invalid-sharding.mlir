// RUN: mpcomm-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{counts axis "dp" twice}}
func.func @twice(%0: tensor<4x4xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{"dp"}, {"dp"}]>}) { return }

// -----

// Of 8 ranks, (1)4 are the first two bits of three, (2)4 the last two.
// expected-error @below {{counts axis "dp" twice}}
func.func @overlap(%0: tensor<4x4xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{"dp":(1)4}, {"dp":(2)4}]>}) { return }

// -----

// expected-error @below {{splits a dimension and 'flat', expected one of them}}
func.func @flat(%0: tensor<4x4xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{"tp"}, {}], flat = ["dp"]>}) { return }

// -----

// expected-error @below {{expects sum, mean or max of a partial value, got prod}}
func.func @partial(%0: tensor<4xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], partial = [prod "dp"]>}) { return }

// -----

// expected-error @below {{expects sum, mean or max, got 'average'}}
func.func @word(%0: tensor<4xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], partial = [average "dp"]>}) { return }

// -----

// expected-error @below {{expects flat, partial or local, each at most once}}
func.func @list(%0: tensor<4xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], flat = ["dp"], flat = ["tp"]>}) { return }

// -----

// expected-error @below {{expects the name of an axis not to be empty}}
func.func @name(%0: tensor<4xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{""}]>}) { return }

// -----

// expected-error @below {{expects a sub-axis of "dp" to have at least 1 rank before it and 2 in it, got 1 and 1}}
func.func @sub_axis(%0: tensor<4xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{"dp":(1)1}]>}) { return }

// -----

// expected-error @below {{expects 'mpcomm.sharding' of argument #0 to be #mpcomm.sharding<...> with a list for each dimension of 'tensor<4xf32>', got #mpcomm.sharding<@mesh, [{}, {}]>}}
func.func @rank(%0: tensor<4xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {}]>}) { return }

// -----

// expected-error @below {{expects 'mpcomm.sharding' of result #0 to be #mpcomm.sharding<...> with a list for each dimension of 'f32', got #mpcomm.sharding<@mesh, []>}}
func.func @scalar(%0: f32) -> (f32 {mpcomm.sharding = #mpcomm.sharding<@mesh, []>}) { return %0 : f32 }

// -----

// expected-error @below {{expects 'mpcomm.global_type' of argument #0 to be a ranked tensor of static shape of the elements of 'tensor<4xf32>', got tensor<8xbf16>}}
func.func @global_type(%0: tensor<4xf32> {mpcomm.global_type = tensor<8xbf16>}) { return }

// -----

mpcomm.mesh @mesh <["dp" = 4]>
func.func @reshard_c1_rank(%0: tensor<8xf32>) {
  // expected-error @below {{expects a sharding with a list for each dimension of 'tensor<8xf32>', got #mpcomm.sharding<@mesh, [{}, {}]>}}
  %1 = mpcomm.reshard %0 to <@mesh, [{}, {}]> : tensor<8xf32>
  return
}

// -----

func.func @reshard_c2_mesh(%0: tensor<8xf32>) {
  // expected-error @below {{names @mesh, which is not an mpcomm.mesh}}
  %1 = mpcomm.reshard %0 to <@mesh, [{}]> : tensor<8xf32>
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 4]>
func.func @reshard_c2_axis(%0: tensor<8xf32>) {
  // expected-error @below {{names axis "tp", which mesh @mesh does not have}}
  %1 = mpcomm.reshard %0 to <@mesh, [{}], partial = [sum "tp"]> : tensor<8xf32>
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 4]>
func.func @reshard_c2_sub_axis(%0: tensor<8xf32>) {
  // expected-error @below {{splits axis "dp" of 4 ranks into parts of 6}}
  %1 = mpcomm.reshard %0 to <@mesh, [{"dp":(2)3}]> : tensor<8xf32>
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 4]>
func.func @reshard_c3_size(%0: tensor<6xf32>) {
  // expected-error @below {{splits dimension 0 of size 6 over 4 ranks, which do not divide it}}
  %1 = mpcomm.reshard %0 to <@mesh, [{"dp"}]> : tensor<6xf32>
  return
}

// -----

func.func @noted_shardings(%x: tensor<4xf32>) {
  // expected-error @below {{expects 'mpcomm.shardings' to be a #mpcomm.sharding, or unit, for each result, got 3 : i64}}
  %0 = arith.negf %x {mpcomm.shardings = 3 : i64} : tensor<4xf32>
  return
}
