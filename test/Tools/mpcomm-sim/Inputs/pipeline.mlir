// Two stages on two ranks of each of two pipelines, GPipe's way: pipeline.test.

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
mpcomm.program @train_step on @mesh axes ["pp"] runs [@first, @second] {mpcomm.schedule = "gpipe"}
func.func private @forward(%x: tensor<1000x1000xf32>) -> tensor<1000x1000xf32> {
  %e = tensor.empty() : tensor<1000x1000xf32>
  %y = linalg.matmul ins(%x, %x : tensor<1000x1000xf32>, tensor<1000x1000xf32>) outs(%e : tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  return %y : tensor<1000x1000xf32>
}
func.func private @backward(%x: tensor<1000x1000xf32>) -> tensor<1000x1000xf32> {
  %e = tensor.empty() : tensor<1000x1000xf32>
  %y = linalg.matmul ins(%x, %x : tensor<1000x1000xf32>, tensor<1000x1000xf32>) outs(%e : tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  %z = linalg.matmul ins(%y, %x : tensor<1000x1000xf32>, tensor<1000x1000xf32>) outs(%e : tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  return %z : tensor<1000x1000xf32>
}
func.func @alone(%x: tensor<1000x1000xf32>) -> tensor<1000x1000xf32> {
  %y = call @forward(%x) : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  return %y : tensor<1000x1000xf32>
}
func.func @first(%x: tensor<1000x1000xf32>) -> tensor<1000x1000xf32> {
  %0 = call @forward(%x) {mpcomm.tag = "F0", mpcomm.stage = 0 : i64} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  %s0 = mpcomm.async {
    mpcomm.send(%0) on @mesh axes ["pp"] to = 1 channel = 1 : tensor<1000x1000xf32>
    mpcomm.yield
  } : !mpcomm.future<>
  %1 = call @forward(%x) {mpcomm.tag = "F1", mpcomm.stage = 0 : i64} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  %s1 = mpcomm.async {
    mpcomm.send(%1) on @mesh axes ["pp"] to = 1 channel = 1 : tensor<1000x1000xf32>
    mpcomm.yield
  } : !mpcomm.future<>
  %f1 = mpcomm.async {
    %r = mpcomm.recv on @mesh axes ["pp"] from = 1 channel = 2 : tensor<1000x1000xf32>
    mpcomm.yield %r : tensor<1000x1000xf32>
  } : !mpcomm.future<tensor<1000x1000xf32>>
  %f0 = mpcomm.async {
    %r = mpcomm.recv on @mesh axes ["pp"] from = 1 channel = 2 : tensor<1000x1000xf32>
    mpcomm.yield %r : tensor<1000x1000xf32>
  } : !mpcomm.future<tensor<1000x1000xf32>>
  %d1 = mpcomm.await %f1 : !mpcomm.future<tensor<1000x1000xf32>>
  %b1 = call @backward(%d1) {mpcomm.tag = "B1", mpcomm.stage = 0 : i64} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  %d0 = mpcomm.await %f0 : !mpcomm.future<tensor<1000x1000xf32>>
  %b0 = call @backward(%d0) {mpcomm.tag = "B0", mpcomm.stage = 0 : i64} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  mpcomm.await %s0 : !mpcomm.future<>
  mpcomm.await %s1 : !mpcomm.future<>
  return %b0 : tensor<1000x1000xf32>
}
func.func @second(%x: tensor<1000x1000xf32>) -> tensor<1000x1000xf32> {
  %f0 = mpcomm.async {
    %r = mpcomm.recv on @mesh axes ["pp"] from = 0 channel = 1 : tensor<1000x1000xf32>
    mpcomm.yield %r : tensor<1000x1000xf32>
  } : !mpcomm.future<tensor<1000x1000xf32>>
  %f1 = mpcomm.async {
    %r = mpcomm.recv on @mesh axes ["pp"] from = 0 channel = 1 : tensor<1000x1000xf32>
    mpcomm.yield %r : tensor<1000x1000xf32>
  } : !mpcomm.future<tensor<1000x1000xf32>>
  %a0 = mpcomm.await %f0 : !mpcomm.future<tensor<1000x1000xf32>>
  %0 = call @forward(%a0) {mpcomm.tag = "F0", mpcomm.stage = 1 : i64} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  %a1 = mpcomm.await %f1 : !mpcomm.future<tensor<1000x1000xf32>>
  %1 = call @forward(%a1) {mpcomm.tag = "F1", mpcomm.stage = 1 : i64} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  %b1 = call @backward(%1) {mpcomm.tag = "B1", mpcomm.stage = 1 : i64} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  %s1 = mpcomm.async {
    mpcomm.send(%b1) on @mesh axes ["pp"] to = 0 channel = 2 : tensor<1000x1000xf32>
    mpcomm.yield
  } : !mpcomm.future<>
  %b0 = call @backward(%0) {mpcomm.tag = "B0", mpcomm.stage = 1 : i64} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  %s0 = mpcomm.async {
    mpcomm.send(%b0) on @mesh axes ["pp"] to = 0 channel = 2 : tensor<1000x1000xf32>
    mpcomm.yield
  } : !mpcomm.future<>
  mpcomm.await %s1 : !mpcomm.future<>
  mpcomm.await %s0 : !mpcomm.future<>
  return %b0 : tensor<1000x1000xf32>
}
