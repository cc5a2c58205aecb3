// Two gradients, the first reduced while the second is computed: overlap.test.

mpcomm.mesh @mesh <["dp" = 2]>

func.func @train_step(%a: tensor<1000x1000xf32>, %b: tensor<1000x1000xf32>)
    -> (tensor<1000x1000xf32>, tensor<1000x1000xf32>) {
  %e = tensor.empty() : tensor<1000x1000xf32>
  %g0 = linalg.matmul ins(%a, %b : tensor<1000x1000xf32>, tensor<1000x1000xf32>) outs(%e : tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  %f0 = mpcomm.async {
    %r = mpcomm.all_reduce(%g0) on @mesh axes ["dp"] mean : tensor<1000x1000xf32>
    mpcomm.yield %r : tensor<1000x1000xf32>
  } : !mpcomm.future<tensor<1000x1000xf32>>
  %g1 = linalg.matmul ins(%b, %a : tensor<1000x1000xf32>, tensor<1000x1000xf32>) outs(%e : tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  %f1 = mpcomm.async {
    %r = mpcomm.all_reduce(%g1) on @mesh axes ["dp"] mean : tensor<1000x1000xf32>
    mpcomm.yield %r : tensor<1000x1000xf32>
  } : !mpcomm.future<tensor<1000x1000xf32>>
  %v0 = mpcomm.await %f0 : !mpcomm.future<tensor<1000x1000xf32>>
  %v1 = mpcomm.await %f1 : !mpcomm.future<tensor<1000x1000xf32>>
  return %v0, %v1 : tensor<1000x1000xf32>, tensor<1000x1000xf32>
}
