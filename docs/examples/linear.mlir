// A linear layer, trained by gradient descent on the mean squared error: a
// training graph (Form 1) small enough to read. 8 samples a rank.
module @linear {
  func.func @train_step(
      %w: tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "weight", mpcomm.donated = 1 : i64},
      %b: tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "bias", mpcomm.donated = 2 : i64},
      %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 1.0e-01 : f32},
      %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
      %y: tensor<8x2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "y"})
      -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
          tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "weight"},
          tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "bias"}) {
    // Forward: e = x w + b - y, loss = mean(e^2).
    %xw = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
    %bs = mpcomm.broadcast_in_dim %b, dims = [1] : (tensor<2xf32>) -> tensor<8x2xf32>
    %p = arith.addf %xw, %bs : tensor<8x2xf32>
    %e = arith.subf %p, %y : tensor<8x2xf32>
    %e2 = arith.mulf %e, %e : tensor<8x2xf32>
    %sum = mpcomm.reduce sum %e2, dims = [0, 1] : (tensor<8x2xf32>) -> tensor<f32>
    %n = arith.constant dense<6.250000e-02> : tensor<f32>
    %loss = arith.mulf %sum, %n : tensor<f32>
    // Backward: d loss / d p = e / 8.
    %scale = arith.constant dense<1.250000e-01> : tensor<8x2xf32>
    %dp = arith.mulf %e, %scale : tensor<8x2xf32>
    %db = mpcomm.reduce sum %dp, dims = [0] : (tensor<8x2xf32>) -> tensor<2xf32>
    %dw = mpcomm.dot_general %x, %dp, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    // Update.
    %w1 = mpcomm.sgd_update %w, %dw, %lr, weight_decay = 0.0 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
    %b1 = mpcomm.sgd_update %b, %db, %lr, weight_decay = 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    return %loss, %w1, %b1 : tensor<f32>, tensor<4x2xf32>, tensor<2xf32>
  }
}
