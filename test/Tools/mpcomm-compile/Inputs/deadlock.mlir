// Each rank waits for the other to take what it sends.
module {
  mpcomm.mesh @mesh <["pp" = 2]>
  mpcomm.program @train_step on @mesh axes ["pp"] runs [@first, @second]
  func.func @first(%x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
      -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "y"}) {
    mpcomm.send(%x) on @mesh axes ["pp"] to = 1 channel = 1 : tensor<4xf32>
    %y = mpcomm.recv on @mesh axes ["pp"] from = 1 channel = 2 : tensor<4xf32>
    return %y : tensor<4xf32>
  }
  func.func @second(%x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
      -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "y"}) {
    mpcomm.send(%x) on @mesh axes ["pp"] to = 0 channel = 2 : tensor<4xf32>
    %y = mpcomm.recv on @mesh axes ["pp"] from = 0 channel = 1 : tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
