// Two batch norms on the way of a step: y = norm2(norm1(x)^2), loss = sum(y).
func.func @train_step(
    %g1: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "gamma1", mpcomm.donated = 1 : i64},
    %b1: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "beta1", mpcomm.donated = 2 : i64},
    %g2: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "gamma2", mpcomm.donated = 3 : i64},
    %b2: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "beta2", mpcomm.donated = 4 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "gamma1"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "beta1"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "gamma2"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "beta2"}) {
  %y1, %m1, %v1 = mpcomm.batch_norm_training %x, %g1, %b1, eps = 1.0e-05, feature_dim = 1
      : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %h = arith.mulf %y1, %y1 : tensor<8x4xf32>
  %y2, %m2, %v2 = mpcomm.batch_norm_training %h, %g2, %b2, eps = 1.0e-05, feature_dim = 1
      : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %loss = mpcomm.reduce sum %y2, dims = [0, 1] : (tensor<8x4xf32>) -> tensor<f32>
  %dy2 = arith.constant dense<1.0> : tensor<8x4xf32>
  %dh, %dg2, %db2 = mpcomm.batch_norm_grad %dy2, %h, %g2, %m2, %v2, eps = 1.0e-05, feature_dim = 1
      : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %t = arith.mulf %y1, %dh : tensor<8x4xf32>
  %dy1 = arith.addf %t, %t : tensor<8x4xf32>
  %dx, %dg1, %db1 = mpcomm.batch_norm_grad %dy1, %x, %g1, %m1, %v1, eps = 1.0e-05, feature_dim = 1
      : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %g1n = mpcomm.sgd_update %g1, %dg1, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b1n = mpcomm.sgd_update %b1, %db1, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %g2n = mpcomm.sgd_update %g2, %dg2, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b2n = mpcomm.sgd_update %b2, %db2, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %loss, %g1n, %b1n, %g2n, %b2n : tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
