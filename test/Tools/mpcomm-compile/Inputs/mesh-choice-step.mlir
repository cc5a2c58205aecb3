// Two layers; BATCH samples of 1 kB each.

func.func @train_step(
    %w0: tensor<256x256xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "a.weight", mpcomm.donated = 1 : i64},
    %w1: tensor<256x256xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b.weight", mpcomm.donated = 2 : i64},
    %k: tensor<i64> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "step", mpcomm.donated = 3 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<BATCHx256xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<256x256xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "a.weight"},
        tensor<256x256xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b.weight"},
        tensor<i64> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "step"}) {
  %one = arith.constant dense<1> : tensor<i64>
  %k1 = arith.addi %k, %one : tensor<i64>
  %h = mpcomm.dot_general %x, %w0, contracting_dims = [1] x [0] : (tensor<BATCHx256xf32>, tensor<256x256xf32>) -> tensor<BATCHx256xf32>
  %t = math.tanh %h : tensor<BATCHx256xf32>
  %y = mpcomm.dot_general %t, %w1, contracting_dims = [1] x [0] : (tensor<BATCHx256xf32>, tensor<256x256xf32>) -> tensor<BATCHx256xf32>
  %q = arith.mulf %y, %y : tensor<BATCHx256xf32>
  %loss = mpcomm.reduce sum %q, dims = [0, 1] : (tensor<BATCHx256xf32>) -> tensor<f32>
  %dy = arith.addf %y, %y : tensor<BATCHx256xf32>
  %dw1 = mpcomm.dot_general %t, %dy, contracting_dims = [0] x [0] : (tensor<BATCHx256xf32>, tensor<BATCHx256xf32>) -> tensor<256x256xf32>
  %dt = mpcomm.dot_general %dy, %w1, contracting_dims = [1] x [1] : (tensor<BATCHx256xf32>, tensor<256x256xf32>) -> tensor<BATCHx256xf32>
  %tt = arith.mulf %t, %t : tensor<BATCHx256xf32>
  %ones = arith.constant dense<1.0> : tensor<BATCHx256xf32>
  %s = arith.subf %ones, %tt : tensor<BATCHx256xf32>
  %dh = arith.mulf %dt, %s : tensor<BATCHx256xf32>
  %dw0 = mpcomm.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<BATCHx256xf32>, tensor<BATCHx256xf32>) -> tensor<256x256xf32>
  %n0 = mpcomm.sgd_update %w0, %dw0, %lr, weight_decay = 0.0 : (tensor<256x256xf32>, tensor<256x256xf32>, tensor<f32>) -> tensor<256x256xf32>
  %n1 = mpcomm.sgd_update %w1, %dw1, %lr, weight_decay = 0.0 : (tensor<256x256xf32>, tensor<256x256xf32>, tensor<f32>) -> tensor<256x256xf32>
  return %loss, %n0, %n1, %k1 : tensor<f32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<i64>
}
