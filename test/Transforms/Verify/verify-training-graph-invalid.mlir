// What breaks the contract of Form 1 is an error that names the place.

// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics --mpcomm-verify-training-graph

// expected-error@+1 {{expected a public function @train_step with a body}}
module {
}

// -----

// expected-error@+1 {{'func.func' op is private or has no body, expected a public function @train_step with a body}}
func.func private @train_step()

// -----

// expected-error@+1 {{expected a public function @train_step with a body}}
module {
  mpcomm.mesh @train_step <["dp" = 2]>
}

// -----

// expected-error@+1 {{'func.func' op is public, expected @train_step and @evaluate alone to be so in a training graph}}
func.func @main() { return }
func.func @train_step() -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %c = arith.constant dense<0.0> : tensor<f32>
  return %c : tensor<f32>
}

// -----

// expected-error@+1 {{'func.func' op has no result of role 'loss', expected one, and any metrics after it}}
func.func @train_step() { return }

// -----

// expected-error@+1 {{'func.func' op has a loss, result #0 'loss', of type 'tensor<1xf32>', expected a 0-d tensor of floats}}
func.func @train_step() -> (tensor<1xf32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %c = arith.constant dense<0.0> : tensor<1xf32>
  return %c : tensor<1xf32>
}

// -----

// expected-error@+4 {{'func.func' op has argument #0 of type 'f32', expected a ranked tensor of static shape and at most 2^48 elements}}
// expected-error@+3 {{'func.func' op has argument #0 without 'mpcomm.role'}}
// expected-error@+2 {{'func.func' op has argument #0 without 'mpcomm.name'}}
// expected-error@+1 {{'func.func' op has argument #1 'x' of type 'tensor<?xf32>', expected a ranked tensor of static shape and at most 2^48 elements}}
func.func @train_step(%a: f32, %b: tensor<?xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %c = arith.constant dense<0.0> : tensor<f32>
  return %c : tensor<f32>
}

// -----

// expected-error@+3 {{'func.func' op has argument #1 'a' with the name of argument #0}}
// expected-error@+2 {{'func.func' op has result #2 'loss' with the name of result #0}}
// expected-error@+1 {{'func.func' op has result #1 'extra' without 'mpcomm.role'}}
func.func @train_step(%a: tensor<f32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "a"},
                      %b: tensor<f32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "a"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<f32> {mpcomm.name = "extra"},
        tensor<f32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "loss"}) {
  return %a, %a, %b : tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// expected-error@+2 {{'func.func' op has argument #0 'a' of role 'loss', which only a result can have}}
// expected-error@+1 {{'func.func' op has result #1 'b' of role 'batch', which only an argument can have}}
func.func @train_step(%a: tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "a"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<f32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "b"}) {
  return %a, %a : tensor<f32>, tensor<f32>
}

// -----

// expected-error@+3 {{'func.func' op donates argument #0 'w' of type 'tensor<4xf32>' to result #0 'loss' of type 'tensor<f32>', expected one type}}
// expected-error@+2 {{'func.func' op donates argument #0 'w' to result #0 'loss', expected one role and one name}}
// expected-error@+1 {{'func.func' op donates argument #2 'v' to result #1 'v', which has the buffer of argument #1 already}}
func.func @train_step(%w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 0 : i64},
                      // expected-error@-1 {{'func.func' op donates argument #1 'u' to result #1 'v', expected one role and one name}}
                      %u: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "u", mpcomm.donated = 1 : i64},
                      %v: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v", mpcomm.donated = 1 : i64})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v"}) {
  %c = arith.constant dense<0.0> : tensor<f32>
  return %c, %v : tensor<f32>, tensor<4xf32>
}

// -----

// expected-error@+2 {{'func.func' op has result #1 'w' of role 'parameter' and type 'tensor<2xf32>', expected an argument of that name, role and type}}
// expected-error@+1 {{'func.func' op has result #2 'v' of role 'buffer' and type 'tensor<4xf32>', expected an argument of that name, role and type}}
func.func @train_step(%w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "v"}) {
  %c = arith.constant dense<0.0> : tensor<f32>
  %d = arith.constant dense<0.0> : tensor<2xf32>
  return %c, %d, %w : tensor<f32>, tensor<2xf32>, tensor<4xf32>
}

// -----

// expected-error@+2 {{'func.func' op has batch argument #1 'y' of 4 samples, expected 8 as in argument #0 'x'}}
// expected-error@+1 {{'func.func' op has batch argument #2 'z' of type 'tensor<f32>', expected a leading dimension of samples}}
func.func @train_step(%x: tensor<8x2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
                      %y: tensor<4xi64> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "y"},
                      %z: tensor<f32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "z"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  return %z : tensor<f32>
}

// -----

// expected-error@+3 {{'func.func' op has hyperparameter argument #0 'lr' of type 'tensor<1xf32>', expected a 0-d tensor of floats}}
// expected-error@+2 {{'func.func' op has hyperparameter argument #0 'lr' without 'mpcomm.default'}}
// expected-error@+1 {{'func.func' op has hyperparameter argument #1 'n' of type 'tensor<i64>', expected a 0-d tensor of floats}}
func.func @train_step(%lr: tensor<1xf32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
                      // expected-error@-1 {{'func.func' op has hyperparameter argument #1 'n' without 'mpcomm.default'}}
                      %n: tensor<i64> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "n"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %c = arith.constant dense<0.0> : tensor<f32>
  return %c : tensor<f32>
}

// -----

func.func private @callee()
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(%x: tensor<8xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"}, %p: tensor<f32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  // expected-error@+1 {{'func.call' op has side effects, or effects that are not known, expected pure ops in a training graph}}
  func.call @callee() : () -> ()
  // expected-error@+1 {{'mpcomm.all_reduce' op communicates, expected no collectives in a training graph}}
  %r = mpcomm.all_reduce(%p) on @mesh axes ["dp"] mean : tensor<f32>
  // expected-error@+1 {{'mpcomm.async' op communicates}}
  %f = mpcomm.async {
    %s = mpcomm.all_reduce(%p) on @mesh axes ["dp"] mean : tensor<f32>
    mpcomm.yield %s : tensor<f32>
  } : !mpcomm.future<tensor<f32>>
  // expected-error@+1 {{'mpcomm.await' op communicates}}
  %v = mpcomm.await %f : !mpcomm.future<tensor<f32>>
  // expected-error@+1 {{'tensor.cast' op gives a value of type 'tensor<?xf32>', expected ranked tensors of static shape and at most 2^48 elements in a training graph}}
  %d = tensor.cast %x : tensor<8xf32> to tensor<?xf32>
  %true = arith.constant true
  scf.if %true {
    // expected-error@+1 {{'func.call' op has side effects}}
    func.call @callee() : () -> ()
  }
  return %r : tensor<f32>
}

// -----

// expected-error@+1 {{'func.func' op has 2 blocks, expected one}}
func.func @train_step(%p: tensor<f32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  cf.br ^next
^next:
  return %p : tensor<f32>
}

// -----

// expected-note@+1 {{there it is argument #0 'p' of type 'tensor<f32>'}}
func.func @train_step(%p: tensor<f32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  return %p : tensor<f32>
}
// expected-error@+4 {{'func.func' op has argument #0 'p' of type 'tensor<2xf32>', expected one of @train_step's arguments with its role and type}}
// expected-error@+3 {{'func.func' op has argument #1 'q' of type 'tensor<f32>', expected one of @train_step's arguments with its role and type}}
// expected-error@+2 {{'func.func' op donates argument #1 'q', expected @evaluate to donate nothing}}
// expected-error@+1 {{'func.func' op has result #0 'out' with targets "y", expected the name of an integer batch argument}}
func.func @evaluate(%p: tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p"},
                    %q: tensor<f32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "q", mpcomm.donated = 0 : i64})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "out", mpcomm.targets = "y"}) {
  return %q : tensor<f32>
}

// -----

func.func @train_step(%p: tensor<f32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  return %p : tensor<f32>
}
// expected-error@+1 {{'func.func' op has no body, expected one}}
func.func private @evaluate()

// -----

// What starts as a copy is state of floats, of a parameter's shape.
// expected-error@+3 {{'func.func' op has argument #1 'a' of type 'tensor<3xbf16>' as a copy of "w", expected the name of a parameter of floats of its shape}}
// expected-error@+2 {{'func.func' op has argument #2 'b' of type 'tensor<4xbf16>' as a copy of "a", expected the name of a parameter of floats of its shape}}
// expected-error@+1 {{'func.func' op has 'mpcomm.copy_of' on argument #3 'c', expected it on state of floats other than a parameter, without a default}}
func.func @train_step(%w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
                      %a: tensor<3xbf16> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "a", mpcomm.copy_of = "w"},
                      %b: tensor<4xbf16> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b", mpcomm.copy_of = "a"},
                      %c: tensor<4xi32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "c", mpcomm.copy_of = "w"},
                      %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %loss = mpcomm.reduce sum %x, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
