// What mpcomm-data-parallel cannot parallelize is an error at the op, with a
// note that says from where a difference between the ranks comes.

// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics --mpcomm-data-parallel="size=2"

// expected-error@+1 {{expected a function @train_step with a body}}
module {
  func.func private @train_step()
}

// -----

// expected-error@+1 {{expected a function @train_step with a body}}
module {
  func.func @other() { return }
}

// -----

// expected-error@+1 {{mesh @mesh has 4 ranks along 'dp', expected 2}}
mpcomm.mesh @mesh <["dp" = 4]>
func.func @train_step() { return }

// -----

// expected-error@+1 {{mesh @mesh would have more ranks than 32 bits count with 2 along 'dp'}}
mpcomm.mesh @mesh <["pp" = 2147483647]>
func.func @train_step() { return }

// -----

// expected-error@+1 {{@mesh is not a mesh, expected 'mpcomm.mesh' or no such symbol}}
func.func private @mesh()
func.func @train_step() { return }

// -----

// State that follows the samples of a rank and no optimizer op, of integers:
// they have no mean.
func.func @train_step(
    %mean: tensor<4xi32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "bn.mean"},
    %x: tensor<4xi32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<4xi32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "bn.mean"}) {
  %y = arith.muli %x, %x : tensor<4xi32>
  // expected-note@+1 {{it depends on argument #1 'x'}}
  %z = arith.addi %y, %mean : tensor<4xi32>
  // expected-error@+1 {{'func.return' op returns result #0 'bn.mean' of role 'buffer', which may differ between ranks along 'dp', expected one value for all of them}}
  return %z : tensor<4xi32>
}

// -----

func.func @train_step(
    %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %w: tensor<4xf32>, %lr: tensor<f32>, %c: i1) -> tensor<4xf32> {
  %r = scf.if %c -> tensor<4xf32> {
    // expected-note@+1 {{it is computed here}}
    %g = arith.mulf %x, %x : tensor<4xf32>
    // expected-error@+1 {{'mpcomm.sgd_update' op has a gradient that is computed in a nested region, where ranks may not meet; expected it in the body of @train_step}}
    %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    scf.yield %w1 : tensor<4xf32>
  } else {
    scf.yield %w : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

func.func @train_step(
    %x: tensor<i64> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<i64> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  // expected-error@+1 {{'func.return' op has a loss of type 'tensor<i64>', expected a ranked tensor of floats with a static shape}}
  return %x : tensor<i64>
}
