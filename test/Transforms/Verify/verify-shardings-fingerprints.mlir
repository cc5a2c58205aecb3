// What is computed stays the same where only communication moves: coordinates by the
// names of other axes, permutes over several axes, calls of parts that call one
// another, and loops in loops, whose scales end.

// RUN: mpcomm-opt %s --split-input-file --mpcomm-verify-shardings=record \
// RUN:   --mpcomm-decompose-collectives="cluster=%S/../Communicate/Inputs/two-levels.json" --mpcomm-verify-shardings \
// RUN:   | FileCheck %s

// CHECK: mpcomm.axis_index on @mesh axes ["dp.outer", "dp.inner"]
mpcomm.mesh @mesh <["dp" = 4]>
func.func @train_step(
    %x: tensor<8xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<8xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "r"},
        tensor<i32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "i"}) {
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<8xf32>
  %i = mpcomm.axis_index on @mesh axes ["dp"] : tensor<i32>
  return %r, %i : tensor<8xf32>, tensor<i32>
}

// -----

// CHECK: mpcomm.collective_permute
mpcomm.mesh @mesh <["tp" = 2, "dp" = 2]>
func.func @train_step(
    %x: tensor<8xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<8xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "r"}) {
  %r = mpcomm.collective_permute(%x) on @mesh axes ["tp", "dp"] source_target_pairs = [[0, 3], [3, 1], [1, 2], [2, 0]] : tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// CHECK: func.func private @one
mpcomm.mesh @mesh <["dp" = 4]>
func.func @train_step(
    %x: tensor<8xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<8xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "r"}) {
  %r = call @one(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}
func.func private @one(%x: tensor<8xf32>) -> tensor<8xf32> {
  %r = call @other(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}
func.func private @other(%x: tensor<8xf32>) -> tensor<8xf32> {
  %r = call @one(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// CHECK: scf.if
mpcomm.mesh @mesh <["dp" = 4]>
func.func @train_step(
    %x: tensor<8xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %w: tensor<8xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "w"}, %c: tensor<i1>)
    -> (tensor<8xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "r"},
        tensor<8xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "w"}) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %yes = tensor.extract %c[] : tensor<i1>
  %s = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<8xf32>
  %r = scf.if %yes -> tensor<8xf32> {
    %f = scf.for %i = %zero to %three step %one iter_args(%a = %w) -> tensor<8xf32> {
      %b = arith.addf %s, %s : tensor<8xf32>
      scf.yield %b : tensor<8xf32>
    }
    scf.yield %f : tensor<8xf32>
  } else {
    scf.yield %w : tensor<8xf32>
  }
  return %r, %w : tensor<8xf32>, tensor<8xf32>
}
