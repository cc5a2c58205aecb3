// Steps that cannot be scaled, each with the reason.

// RUN: mpcomm-opt %s --split-input-file --verify-diagnostics --mpcomm-scale-loss="mode=dynamic"

// The gradient enters as the square root of itself.
// expected-error@+1 {{'func.func' op cannot scale the loss: the gradient of 'w' is not known to be linear in the gradient of the loss}}
func.func @train_step(
    %w: tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %v: tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %y: tensor<4xi64> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "y"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v"}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  %loss, %lse = mpcomm.cross_entropy %v, %y mean ignore_index = -100 : (tensor<4x2xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4xf32>)
  %d = mpcomm.cross_entropy_grad %one, %v, %y, %lse mean ignore_index = -100 : (tensor<f32>, tensor<4x2xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x2xf32>
  // expected-note@+1 {{'math.sqrt' is not, or takes only some of its operands from there}}
  %root = math.sqrt %d : tensor<4x2xf32>
  %w1 = mpcomm.sgd_update %w, %root, %lr, weight_decay = 0.0 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  %v1 = mpcomm.sgd_update %v, %d, %lr, weight_decay = 0.0 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  return %loss, %w1, %v1 : tensor<f32>, tensor<4x2xf32>, tensor<4x2xf32>
}

// -----

// The square of a gradient would carry the factor more than once.
// expected-error@+1 {{cannot scale the loss: the gradient of 'w' would be scaled 2 times}}
func.func @train_step(
    %w: tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %v: tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %y: tensor<4xi64> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "y"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v"}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  %loss, %lse = mpcomm.cross_entropy %v, %y mean ignore_index = -100 : (tensor<4x2xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4xf32>)
  %d = mpcomm.cross_entropy_grad %one, %v, %y, %lse mean ignore_index = -100 : (tensor<f32>, tensor<4x2xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x2xf32>
  %e = mpcomm.cross_entropy_grad %one, %w, %y, %lse mean ignore_index = -100 : (tensor<f32>, tensor<4x2xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x2xf32>
  %g = arith.mulf %d, %e : tensor<4x2xf32>
  %h = arith.addf %d, %e : tensor<4x2xf32>
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  %v1 = mpcomm.sgd_update %v, %h, %lr, weight_decay = 0.0 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  return %loss, %w1, %v1 : tensor<f32>, tensor<4x2xf32>, tensor<4x2xf32>
}

// -----

// A gradient that is returned would be returned scaled.
// expected-error@+1 {{cannot scale the loss: result #2 'seen' would be scaled with it}}
func.func @train_step(
    %w: tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %y: tensor<4xi64> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "y"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4x2xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "seen"}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  %loss, %lse = mpcomm.cross_entropy %w, %y mean ignore_index = -100 : (tensor<4x2xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4xf32>)
  %d = mpcomm.cross_entropy_grad %one, %w, %y, %lse mean ignore_index = -100 : (tensor<f32>, tensor<4x2xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x2xf32>
  %w1 = mpcomm.sgd_update %w, %d, %lr, weight_decay = 0.0 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  return %loss, %w1, %d : tensor<f32>, tensor<4x2xf32>, tensor<4x2xf32>
}

// -----

// A gradient that needs an update.
func.func @train_step(
    %w: tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %g: tensor<2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "g"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %loss = mpcomm.reduce sum %g, dims = [0] : (tensor<2xf32>) -> tensor<f32>
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  // expected-error@+1 {{makes a gradient from an update, expected all gradients of a step before its updates}}
  %g2 = arith.addf %g, %w1 : tensor<2xf32>
  %w2 = mpcomm.sgd_update %w1, %g2, %lr, weight_decay = 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %loss, %w2 : tensor<f32>, tensor<2xf32>
}

// -----

func.func @train_step(
    %w: tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %g: tensor<2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "g"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %loss = mpcomm.reduce sum %g, dims = [0] : (tensor<2xf32>) -> tensor<f32>
  // expected-error@+1 {{is there already, expected a step whose loss is not scaled and whose gradients are not clipped}}
  %c:2 = mpcomm.clip_by_global_norm(%g) max_norm = 1.0 : (tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>)
  %w1 = mpcomm.sgd_update %w, %c#0, %lr, weight_decay = 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %loss, %w1 : tensor<f32>, tensor<2xf32>
}

// -----

// expected-error@+1 {{has argument #0 'loss_scale' already, expected a step whose loss is not scaled}}
func.func @train_step(
    %w: tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "loss_scale"},
    %g: tensor<2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "g"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %loss = mpcomm.reduce sum %g, dims = [0] : (tensor<2xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// expected-error@+1 {{cannot scale the loss: it has no gradients}}
func.func @train_step(
    %g: tensor<2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "g"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %loss = mpcomm.reduce sum %g, dims = [0] : (tensor<2xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// expected-error@+1 {{expected a function @train_step with a body}}
module {}

// -----

// An optimizer gets unscaled gradients, and nothing that is made from others.
func.func @train_step(
    %p: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p", mpcomm.donated = 1 : i64},
    %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p"}) {
  %m = arith.mulf %p, %x : tensor<4xf32>
  %l = mpcomm.reduce sum %m, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  %one = arith.constant dense<1.0> : tensor<f32>
  %dy = mpcomm.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %g = arith.mulf %dy, %x : tensor<4xf32>
  %n = mpcomm.reduce sum %g, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  // expected-error @below {{cannot scale the loss: operand #2 is made from a gradient, and not unscaled}}
  %p1 = mpcomm.update %p, %g, %n {optimizer = "SGD"} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32> {
  ^bb0(%q: tensor<4xf32>, %d: tensor<4xf32>, %r: tensor<f32>):
    %w = mpcomm.broadcast_in_dim %r, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %z = arith.mulf %w, %d : tensor<4xf32>
    %s = arith.subf %q, %z : tensor<4xf32>
    mpcomm.yield %s : tensor<4xf32>
  }
  return %l, %p1 : tensor<f32>, tensor<4xf32>
}
