// Every op of the dialect prints what it parses, in its own syntax, in the
// generic one, and as bytecode.

// RUN: mpcomm-opt %s | mpcomm-opt | FileCheck %s
// RUN: mpcomm-opt %s --mlir-print-op-generic | mpcomm-opt | FileCheck %s
// RUN: mpcomm-opt %s --emit-bytecode | mpcomm-opt | FileCheck %s

// CHECK: mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>

// CHECK: mpcomm.program @step on @mesh axes ["pp"] runs [@stage0, @stage1]
mpcomm.program @step on @mesh axes ["pp"] runs [@stage0, @stage1]
// CHECK: mpcomm.send(%{{.*}}) on @mesh axes ["pp"] to = 1 channel = 2 {mpcomm.tag = "F0.e0"} : tensor<4xf32>
func.func @stage0(%x: tensor<4xf32>) {
  mpcomm.send(%x) on @mesh axes ["pp"] to = 1 channel = 2 {mpcomm.tag = "F0.e0"} : tensor<4xf32>
  return
}
// CHECK: mpcomm.recv on @mesh axes ["pp"] from = 0 channel = 2 {mpcomm.tag = "F0.e0"} : tensor<4xf32>
func.func @stage1() -> tensor<4xf32> {
  %0 = mpcomm.recv on @mesh axes ["pp"] from = 0 channel = 2 {mpcomm.tag = "F0.e0"} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func private @roles
// CHECK-SAME: mpcomm.donated = 1 : i64, mpcomm.name = "w", mpcomm.role = #mpcomm.role<parameter>
// CHECK-SAME: mpcomm.role = #mpcomm.role<optimizer_state>
// CHECK-SAME: mpcomm.role = #mpcomm.role<buffer>
// CHECK-SAME: mpcomm.default = 1.000000e-03 : f32, mpcomm.name = "lr", mpcomm.role = #mpcomm.role<hyperparameter>
// CHECK-SAME: mpcomm.role = #mpcomm.role<loss_scale>
// CHECK-SAME: mpcomm.role = #mpcomm.role<rng>
// CHECK-SAME: mpcomm.range = array<i64: 0, 10>, mpcomm.role = #mpcomm.role<batch>
// CHECK-SAME: -> (tensor<f32> {mpcomm.name = "loss", mpcomm.role = #mpcomm.role<loss>}
// CHECK-SAME: mpcomm.role = #mpcomm.role<parameter>
// CHECK-SAME: mpcomm.role = #mpcomm.role<output>, mpcomm.targets = "y"
func.func private @roles(
    tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>},
    tensor<4xf32> {mpcomm.role = #mpcomm.role<buffer>},
    tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 1.0e-03 : f32},
    tensor<f32> {mpcomm.role = #mpcomm.role<loss_scale>},
    tensor<2xi64> {mpcomm.role = #mpcomm.role<rng>},
    tensor<8xi64> {mpcomm.role = #mpcomm.role<batch>, mpcomm.range = array<i64: 0, 10>})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>},
        tensor<8x10xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.targets = "y"})

// CHECK-LABEL: func.func @dot_general
func.func @dot_general(%a: tensor<8x4x128x32xf32>, %b: tensor<8x4x32x128xf32>,
                       %c: tensor<64x32xbf16>, %d: tensor<32x16xbf16>)
    -> (tensor<8x4x128x128xf32>, tensor<64x16xbf16>) {
  // CHECK: mpcomm.dot_general %{{.*}}, %{{.*}}, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<8x4x128x32xf32>, tensor<8x4x32x128xf32>) -> tensor<8x4x128x128xf32>
  %0 = mpcomm.dot_general %a, %b, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<8x4x128x32xf32>, tensor<8x4x32x128xf32>) -> tensor<8x4x128x128xf32>
  // CHECK: mpcomm.dot_general %{{.*}}, %{{.*}}, contracting_dims = [1] x [0] : (tensor<64x32xbf16>, tensor<32x16xbf16>) -> tensor<64x16xbf16>
  %1 = mpcomm.dot_general %c, %d, contracting_dims = [1] x [0] : (tensor<64x32xbf16>, tensor<32x16xbf16>) -> tensor<64x16xbf16>
  return %0, %1 : tensor<8x4x128x128xf32>, tensor<64x16xbf16>
}

// CHECK-LABEL: func.func @outer_product
func.func @outer_product(%a: tensor<3xf32>, %b: tensor<4xf32>) -> tensor<3x4xf32> {
  // CHECK: mpcomm.dot_general %{{.*}}, %{{.*}}, contracting_dims = [] x []
  %0 = mpcomm.dot_general %a, %b, contracting_dims = [] x [] : (tensor<3xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// CHECK-LABEL: func.func @movement
func.func @movement(%x: tensor<8x4xf32>, %v: tensor<f32>) {
  // CHECK: mpcomm.transpose %{{.*}}, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %0 = mpcomm.transpose %x, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  // CHECK: mpcomm.reshape %{{.*}} : (tensor<8x4xf32>) -> tensor<32xf32>
  %1 = mpcomm.reshape %x : (tensor<8x4xf32>) -> tensor<32xf32>
  // CHECK: mpcomm.broadcast_in_dim %{{.*}}, dims = [1, 2] : (tensor<8x4xf32>) -> tensor<2x8x4xf32>
  %2 = mpcomm.broadcast_in_dim %x, dims = [1, 2] : (tensor<8x4xf32>) -> tensor<2x8x4xf32>
  // CHECK: mpcomm.broadcast_in_dim %{{.*}}, dims = [] : (tensor<f32>) -> tensor<3xf32>
  %3 = mpcomm.broadcast_in_dim %v, dims = [] : (tensor<f32>) -> tensor<3xf32>
  // CHECK: mpcomm.slice %{{.*}}, starts = [1, 0], limits = [8, 4], strides = [2, 1] : (tensor<8x4xf32>) -> tensor<4x4xf32>
  %4 = mpcomm.slice %x, starts = [1, 0], limits = [8, 4], strides = [2, 1] : (tensor<8x4xf32>) -> tensor<4x4xf32>
  // CHECK: mpcomm.concatenate %{{.*}}, %{{.*}}, dim = 0 : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<12x4xf32>
  %5 = mpcomm.concatenate %x, %4, dim = 0 : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<12x4xf32>
  // CHECK: mpcomm.pad %{{.*}}, %{{.*}}, low = [0, 1], high = [2, 0], interior = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<10x8xf32>
  %6 = mpcomm.pad %x, %v, low = [0, 1], high = [2, 0], interior = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<10x8xf32>
  // CHECK: mpcomm.reverse %{{.*}}, dims = [0, 1] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %reversed = mpcomm.reverse %x, dims = [0, 1] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK: mpcomm.iota dim = 1 : tensor<4x128xi64>
  %7 = mpcomm.iota dim = 1 : tensor<4x128xi64>
  return
}

// CHECK-LABEL: func.func @reduce
func.func @reduce(%x: tensor<8x128x64xf32>, %i: tensor<8xi64>) {
  // CHECK: mpcomm.reduce sum %{{.*}}, dims = [0, 1] : (tensor<8x128x64xf32>) -> tensor<64xf32>
  %0 = mpcomm.reduce sum %x, dims = [0, 1] : (tensor<8x128x64xf32>) -> tensor<64xf32>
  // CHECK: mpcomm.reduce prod %{{.*}}, dims = [2]
  %1 = mpcomm.reduce prod %x, dims = [2] : (tensor<8x128x64xf32>) -> tensor<8x128xf32>
  // CHECK: mpcomm.reduce min %{{.*}}, dims = [1]
  %2 = mpcomm.reduce min %x, dims = [1] : (tensor<8x128x64xf32>) -> tensor<8x64xf32>
  // CHECK: mpcomm.reduce max %{{.*}}, dims = [0] : (tensor<8xi64>) -> tensor<i64>
  %3 = mpcomm.reduce max %i, dims = [0] : (tensor<8xi64>) -> tensor<i64>
  return
}

// CHECK-LABEL: func.func @softmax
func.func @softmax(%x: tensor<64x10xf32>, %dy: tensor<64x10xf32>) {
  // CHECK: mpcomm.softmax %{{.*}}, dim = 1 : tensor<64x10xf32>
  %0 = mpcomm.softmax %x, dim = 1 : tensor<64x10xf32>
  // CHECK: mpcomm.softmax_grad %{{.*}}, %{{.*}}, dim = 1 : tensor<64x10xf32>
  %1 = mpcomm.softmax_grad %dy, %0, dim = 1 : tensor<64x10xf32>
  // CHECK: mpcomm.log_softmax %{{.*}}, dim = 0 : tensor<64x10xf32>
  %2 = mpcomm.log_softmax %x, dim = 0 : tensor<64x10xf32>
  // CHECK: mpcomm.log_softmax_grad %{{.*}}, %{{.*}}, dim = 0 : tensor<64x10xf32>
  %3 = mpcomm.log_softmax_grad %dy, %2, dim = 0 : tensor<64x10xf32>
  return
}

// CHECK-LABEL: func.func @rms_norm
func.func @rms_norm(%x: tensor<8x128x64xf32>, %gamma: tensor<64xf32>) {
  // CHECK: mpcomm.rms_norm %{{.*}}, %{{.*}}, eps = 1.000000e-05 : (tensor<8x128x64xf32>, tensor<64xf32>) -> (tensor<8x128x64xf32>, tensor<8x128xf32>)
  %y, %rstd = mpcomm.rms_norm %x, %gamma, eps = 1.0e-05 : (tensor<8x128x64xf32>, tensor<64xf32>) -> (tensor<8x128x64xf32>, tensor<8x128xf32>)
  // CHECK: mpcomm.rms_norm_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : (tensor<8x128x64xf32>, tensor<8x128x64xf32>, tensor<8x128xf32>, tensor<64xf32>) -> (tensor<8x128x64xf32>, tensor<64xf32>)
  %dx, %dgamma = mpcomm.rms_norm_grad %y, %x, %rstd, %gamma : (tensor<8x128x64xf32>, tensor<8x128x64xf32>, tensor<8x128xf32>, tensor<64xf32>) -> (tensor<8x128x64xf32>, tensor<64xf32>)
  return
}

// CHECK-LABEL: func.func @layer_norm
func.func @layer_norm(%x: tensor<8x128x64xf32>, %gamma: tensor<64xf32>, %beta: tensor<64xf32>) {
  // CHECK: mpcomm.layer_norm %{{.*}}, %{{.*}}, %{{.*}}, eps = 1.000000e-05 : (tensor<8x128x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<8x128x64xf32>, tensor<8x128xf32>, tensor<8x128xf32>)
  %y, %mean, %rstd = mpcomm.layer_norm %x, %gamma, %beta, eps = 1.0e-05 : (tensor<8x128x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<8x128x64xf32>, tensor<8x128xf32>, tensor<8x128xf32>)
  // CHECK: mpcomm.layer_norm_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : (tensor<8x128x64xf32>, tensor<8x128x64xf32>, tensor<8x128xf32>, tensor<8x128xf32>, tensor<64xf32>) -> (tensor<8x128x64xf32>, tensor<64xf32>, tensor<64xf32>)
  %dx, %dgamma, %dbeta = mpcomm.layer_norm_grad %y, %x, %mean, %rstd, %gamma : (tensor<8x128x64xf32>, tensor<8x128x64xf32>, tensor<8x128xf32>, tensor<8x128xf32>, tensor<64xf32>) -> (tensor<8x128x64xf32>, tensor<64xf32>, tensor<64xf32>)
  return
}

// CHECK-LABEL: func.func @gelu
func.func @gelu(%x: tensor<8x64xf32>, %dy: tensor<8x64xf32>) {
  // CHECK: mpcomm.gelu %{{[a-z0-9]+}} : tensor<8x64xf32>
  %0 = mpcomm.gelu %x : tensor<8x64xf32>
  // CHECK: mpcomm.gelu %{{[a-z0-9]+}} approximate tanh : tensor<8x64xf32>
  %1 = mpcomm.gelu %x approximate tanh : tensor<8x64xf32>
  // CHECK: mpcomm.gelu_grad %{{[a-z0-9]+}}, %{{[a-z0-9]+}} : tensor<8x64xf32>
  %2 = mpcomm.gelu_grad %dy, %x : tensor<8x64xf32>
  // CHECK: mpcomm.gelu_grad %{{[a-z0-9]+}}, %{{[a-z0-9]+}} approximate tanh : tensor<8x64xf32>
  %3 = mpcomm.gelu_grad %dy, %x approximate tanh : tensor<8x64xf32>
  return
}

// CHECK-LABEL: func.func @gather
func.func @gather(%table: tensor<256x64xf32>, %ids: tensor<8x16xi64>, %ids32: tensor<4xi32>, %x: tensor<8x3x5xi1>, %i: tensor<8x2xi64>) {
  // CHECK: mpcomm.gather %{{.*}}, %{{[a-z0-9]+}} : (tensor<256x64xf32>, tensor<8x16xi64>) -> tensor<8x16x64xf32>
  %0 = mpcomm.gather %table, %ids : (tensor<256x64xf32>, tensor<8x16xi64>) -> tensor<8x16x64xf32>
  // CHECK: mpcomm.gather %{{.*}}, %{{[a-z0-9]+}} dim = 1 : (tensor<256x64xf32>, tensor<4xi32>) -> tensor<256x4xf32>
  %1 = mpcomm.gather %table, %ids32 dim = 1 : (tensor<256x64xf32>, tensor<4xi32>) -> tensor<256x4xf32>
  // CHECK: mpcomm.gather %{{.*}}, %{{[a-z0-9]+}} dim = 2 batch_dims = 1 : (tensor<8x3x5xi1>, tensor<8x2xi64>) -> tensor<8x3x2xi1>
  %2 = mpcomm.gather %x, %i dim = 2 batch_dims = 1 : (tensor<8x3x5xi1>, tensor<8x2xi64>) -> tensor<8x3x2xi1>
  // CHECK: mpcomm.gather_grad %{{[a-z0-9]+}}, %{{[a-z0-9]+}} : (tensor<8x16x64xf32>, tensor<8x16xi64>) -> tensor<256x64xf32>
  %3 = mpcomm.gather_grad %0, %ids : (tensor<8x16x64xf32>, tensor<8x16xi64>) -> tensor<256x64xf32>
  // CHECK: mpcomm.gather_grad %{{[a-z0-9]+}}, %{{[a-z0-9]+}} dim = 1 padding_idx = 0 : (tensor<256x4xf32>, tensor<4xi32>) -> tensor<256x64xf32>
  %4 = mpcomm.gather_grad %1, %ids32 dim = 1 padding_idx = 0 : (tensor<256x4xf32>, tensor<4xi32>) -> tensor<256x64xf32>
  // CHECK: mpcomm.scatter %{{.*}}, %{{.*}}, %{{[a-z0-9]+}} reduction sum : (tensor<256x64xf32>, tensor<8x16xi64>, tensor<8x16x64xf32>) -> tensor<256x64xf32>
  %5 = mpcomm.scatter %table, %ids, %0 reduction sum : (tensor<256x64xf32>, tensor<8x16xi64>, tensor<8x16x64xf32>) -> tensor<256x64xf32>
  // CHECK: mpcomm.scatter %{{.*}}, %{{.*}}, %{{[a-z0-9]+}} dim = 2 batch_dims = 1 : (tensor<8x3x5xi1>, tensor<8x2xi64>, tensor<8x3x2xi1>) -> tensor<8x3x5xi1>
  %6 = mpcomm.scatter %x, %i, %2 dim = 2 batch_dims = 1 : (tensor<8x3x5xi1>, tensor<8x2xi64>, tensor<8x3x2xi1>) -> tensor<8x3x5xi1>
  return
}

// CHECK-LABEL: func.func @cross_entropy
func.func @cross_entropy(%logits: tensor<64x10xf32>, %targets: tensor<64xi64>) {
  // CHECK: mpcomm.cross_entropy %{{.*}}, %{{.*}} mean ignore_index = -100 : (tensor<64x10xf32>, tensor<64xi64>) -> (tensor<f32>, tensor<64xf32>)
  %loss, %lse = mpcomm.cross_entropy %logits, %targets mean ignore_index = -100 : (tensor<64x10xf32>, tensor<64xi64>) -> (tensor<f32>, tensor<64xf32>)
  // CHECK: mpcomm.cross_entropy_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} sum ignore_index = -1 : (tensor<f32>, tensor<64x10xf32>, tensor<64xi64>, tensor<64xf32>) -> tensor<64x10xf32>
  %d = mpcomm.cross_entropy_grad %loss, %logits, %targets, %lse sum ignore_index = -1 : (tensor<f32>, tensor<64x10xf32>, tensor<64xi64>, tensor<64xf32>) -> tensor<64x10xf32>
  return
}

// CHECK-LABEL: func.func @optimizers
func.func @optimizers(%p: tensor<64x10xf32>, %g: tensor<64x10xf32>, %b: tensor<64x10xf32>,
                      %step: tensor<f32>, %lr: tensor<f32>) {
  // CHECK: mpcomm.sgd_update %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, weight_decay = 0.000000e+00 : (tensor<64x10xf32>, tensor<64x10xf32>, tensor<f32>) -> tensor<64x10xf32>
  %0 = mpcomm.sgd_update %p, %g, %lr, weight_decay = 0.0 : (tensor<64x10xf32>, tensor<64x10xf32>, tensor<f32>) -> tensor<64x10xf32>
  // CHECK: mpcomm.sgd_update %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, momentum = 9.000000e-01, weight_decay = 1.000000e-02 {nesterov} :
  %1, %2 = mpcomm.sgd_update %p, %g, %lr, %b, momentum = 0.9, weight_decay = 0.01 {nesterov} : (tensor<64x10xf32>, tensor<64x10xf32>, tensor<f32>, tensor<64x10xf32>) -> (tensor<64x10xf32>, tensor<64x10xf32>)
  // CHECK: mpcomm.adamw_update %{{.*}}, beta1 = {{.*}}, beta2 = {{.*}}, eps = {{.*}}, weight_decay = {{.*}} : (tensor<64x10xf32>, tensor<64x10xf32>, tensor<64x10xf32>, tensor<64x10xf32>, tensor<f32>, tensor<f32>) -> (tensor<64x10xf32>, tensor<64x10xf32>, tensor<64x10xf32>)
  %3, %4, %5 = mpcomm.adamw_update %p, %g, %b, %b, %step, %lr, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-08, weight_decay = 0.01 : (tensor<64x10xf32>, tensor<64x10xf32>, tensor<64x10xf32>, tensor<64x10xf32>, tensor<f32>, tensor<f32>) -> (tensor<64x10xf32>, tensor<64x10xf32>, tensor<64x10xf32>)
  return
}

// CHECK-LABEL: func.func @update
func.func @update(%p: tensor<8xf32>, %g: tensor<8xf32>, %m: tensor<8xf32>, %n: tensor<f32>, %lr: tensor<f32>) {
  // CHECK: mpcomm.update %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {optimizer = "Own"} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<f32>) {
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<8xf32>, %{{.*}}: tensor<8xf32>, %{{.*}}: tensor<8xf32>, %{{.*}}: tensor<f32>, %{{.*}}: tensor<f32>):
  // CHECK: mpcomm.yield %{{.*}}, %{{.*}}, %{{.*}} : tensor<8xf32>, tensor<8xf32>, tensor<f32>
  %0:3 = mpcomm.update %p, %g, %m, %n, %lr {optimizer = "Own"}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<f32>) {
  ^bb0(%q: tensor<8xf32>, %d: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<f32>, %r: tensor<f32>):
    %x = arith.addf %b, %d : tensor<8xf32>
    %y = arith.addf %c, %r : tensor<f32>
    mpcomm.yield %q, %x, %y : tensor<8xf32>, tensor<8xf32>, tensor<f32>
  }
  // Without state and further operands.
  // CHECK: mpcomm.update %{{.*}}, %{{.*}} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
  %1 = mpcomm.update %p, %g : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%q: tensor<8xf32>, %d: tensor<8xf32>):
    %x = arith.subf %q, %d : tensor<8xf32>
    mpcomm.yield %x : tensor<8xf32>
  }
  return
}

// CHECK-LABEL: func.func @collectives
func.func @collectives(%x: tensor<8x4xf32>, %y: tensor<10xf32>) {
  // CHECK: mpcomm.all_reduce(%{{.*}}, %{{.*}}) on @mesh axes ["dp"] mean : tensor<8x4xf32>, tensor<10xf32>
  %0:2 = mpcomm.all_reduce(%x, %y) on @mesh axes ["dp"] mean : tensor<8x4xf32>, tensor<10xf32>
  // CHECK: mpcomm.all_reduce(%{{.*}}) on @mesh axes ["pp", "dp"] sum wire bf16 accumulate f32 : tensor<8x4xf32>
  %1 = mpcomm.all_reduce(%x) on @mesh axes ["pp", "dp"] sum wire bf16 accumulate f32 : tensor<8x4xf32>
  // CHECK: mpcomm.reduce_scatter(%{{.*}}) on @mesh axes ["dp"] sum dims = [0] : (tensor<8x4xf32>) -> tensor<4x4xf32>
  %2 = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] sum dims = [0] : (tensor<8x4xf32>) -> tensor<4x4xf32>
  // CHECK: mpcomm.reduce_scatter(%{{.*}}) on @mesh axes ["dp"] max wire f16 accumulate f16 dims = [1] : (tensor<8x4xf32>) -> tensor<8x2xf32>
  %3 = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] max wire f16 accumulate f16 dims = [1] : (tensor<8x4xf32>) -> tensor<8x2xf32>
  // CHECK: mpcomm.all_slice %{{.*}} on @mesh axes ["dp"] dim = 1 : (tensor<4x4xf32>) -> tensor<4x2xf32>
  %own = mpcomm.all_slice %2 on @mesh axes ["dp"] dim = 1 : (tensor<4x4xf32>) -> tensor<4x2xf32>
  // CHECK: mpcomm.axis_index on @mesh axes ["pp", "dp"] : tensor<i32>
  %index = mpcomm.axis_index on @mesh axes ["pp", "dp"] : tensor<i32>
  // CHECK: mpcomm.predivide %{{.*}} on @mesh axes ["dp"] : tensor<10xf32>
  %part = mpcomm.predivide %y on @mesh axes ["dp"] : tensor<10xf32>
  // CHECK: mpcomm.all_gather(%{{.*}}) on @mesh axes ["pp", "dp"] dims = [0] : (tensor<4x4xf32>) -> tensor<16x4xf32>
  %4 = mpcomm.all_gather(%2) on @mesh axes ["pp", "dp"] dims = [0] : (tensor<4x4xf32>) -> tensor<16x4xf32>
  // CHECK: mpcomm.all_to_all(%{{.*}}) on @mesh axes ["dp"] split_dims = [0] concat_dims = [1] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %5 = mpcomm.all_to_all(%x) on @mesh axes ["dp"] split_dims = [0] concat_dims = [1] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  // CHECK: mpcomm.all_reduce(%{{.*}}) on @mesh axes ["dp"] mean wire bf16 channel = 3 : tensor<8x4xf32>
  %b0 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean wire bf16 channel = 3 : tensor<8x4xf32>
  // CHECK: mpcomm.reduce_scatter(%{{.*}}, %{{.*}}) on @mesh axes ["dp"] sum wire bf16 accumulate f32 dims = [1, 0] channel = 1 : (tensor<8x4xf32>, tensor<10xf32>) -> (tensor<8x2xf32>, tensor<5xf32>)
  %b1:2 = mpcomm.reduce_scatter(%x, %y) on @mesh axes ["dp"] sum wire bf16 accumulate f32 dims = [1, 0] channel = 1 : (tensor<8x4xf32>, tensor<10xf32>) -> (tensor<8x2xf32>, tensor<5xf32>)
  // CHECK: mpcomm.all_gather(%{{.*}}, %{{.*}}) on @mesh axes ["dp"] dims = [1, 0] channel = 2 : (tensor<8x4xf32>, tensor<10xf32>) -> (tensor<8x8xf32>, tensor<20xf32>)
  %b2:2 = mpcomm.all_gather(%x, %y) on @mesh axes ["dp"] dims = [1, 0] channel = 2 : (tensor<8x4xf32>, tensor<10xf32>) -> (tensor<8x8xf32>, tensor<20xf32>)
  // CHECK: mpcomm.all_to_all(%{{.*}}, %{{.*}}) on @mesh axes ["dp"] split_dims = [0, 0] concat_dims = [1, 0] channel = 4 : (tensor<8x4xf32>, tensor<10xf32>) -> (tensor<4x8xf32>, tensor<10xf32>)
  %b3:2 = mpcomm.all_to_all(%x, %y) on @mesh axes ["dp"] split_dims = [0, 0] concat_dims = [1, 0] channel = 4 : (tensor<8x4xf32>, tensor<10xf32>) -> (tensor<4x8xf32>, tensor<10xf32>)
  // CHECK: mpcomm.collective_broadcast(%{{.*}}) on @mesh axes ["dp"] root = 1 : tensor<8x4xf32>
  %6 = mpcomm.collective_broadcast(%x) on @mesh axes ["dp"] root = 1 : tensor<8x4xf32>
  // CHECK: mpcomm.collective_permute(%{{.*}}) on @mesh axes ["dp"] source_target_pairs = {{\[\[}}0, 1], [1, 0]] : tensor<8x4xf32>
  %p0 = mpcomm.collective_permute(%x) on @mesh axes ["dp"] source_target_pairs = [[0, 1], [1, 0]] : tensor<8x4xf32>
  // CHECK: mpcomm.collective_permute(%{{.*}}) on @mesh axes ["dp"] source_target_pairs = [] : tensor<8x4xf32>
  %p1 = mpcomm.collective_permute(%x) on @mesh axes ["dp"] source_target_pairs = [] : tensor<8x4xf32>
  // CHECK: mpcomm.collective_reduce(%{{.*}}) on @mesh axes ["dp"] sum root = 1 : tensor<8x4xf32>
  %p2 = mpcomm.collective_reduce(%x) on @mesh axes ["dp"] sum root = 1 : tensor<8x4xf32>
  // CHECK: mpcomm.collective_reduce(%{{.*}}) on @mesh axes ["dp"] mean wire bf16 accumulate f32 root = 0 : tensor<8x4xf32>
  %p3 = mpcomm.collective_reduce(%x) on @mesh axes ["dp"] mean wire bf16 accumulate f32 root = 0 : tensor<8x4xf32>
  // CHECK: mpcomm.collective_gather(%{{.*}}) on @mesh axes ["dp"] root = 1 dim = 0 : (tensor<8x4xf32>) -> tensor<16x4xf32>
  %p4 = mpcomm.collective_gather(%x) on @mesh axes ["dp"] root = 1 dim = 0 : (tensor<8x4xf32>) -> tensor<16x4xf32>
  // CHECK: mpcomm.collective_scatter(%{{.*}}) on @mesh axes ["dp"] root = 0 dim = 1 : (tensor<8x4xf32>) -> tensor<8x2xf32>
  %p5 = mpcomm.collective_scatter(%x) on @mesh axes ["dp"] root = 0 dim = 1 : (tensor<8x4xf32>) -> tensor<8x2xf32>
  // CHECK: mpcomm.send(%{{.*}}) on @mesh axes ["pp"] to = 1 : tensor<8x4xf32>
  mpcomm.send(%x) on @mesh axes ["pp"] to = 1 : tensor<8x4xf32>
  // CHECK: mpcomm.recv on @mesh axes ["pp"] from = 0 : tensor<8x4xf32>
  %7 = mpcomm.recv on @mesh axes ["pp"] from = 0 : tensor<8x4xf32>
  // CHECK: mpcomm.barrier on @mesh axes ["dp"]
  mpcomm.barrier on @mesh axes ["dp"]
  return
}

// CHECK-LABEL: func.func @async
func.func @async(%x: tensor<4xf32>, %y: tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  // CHECK: %[[FUTURE:.*]] = mpcomm.async {
  // CHECK-NEXT: %[[R:.*]]:2 = mpcomm.all_reduce
  // CHECK-NEXT: mpcomm.yield %[[R]]#0, %[[R]]#1 : tensor<4xf32>, tensor<2xf32>
  // CHECK-NEXT: } : !mpcomm.future<tensor<4xf32>, tensor<2xf32>>
  %f = mpcomm.async {
    %r:2 = mpcomm.all_reduce(%x, %y) on @mesh axes ["dp"] mean : tensor<4xf32>, tensor<2xf32>
    mpcomm.yield %r#0, %r#1 : tensor<4xf32>, tensor<2xf32>
  } : !mpcomm.future<tensor<4xf32>, tensor<2xf32>>
  // CHECK: mpcomm.await %[[FUTURE]] : !mpcomm.future<tensor<4xf32>, tensor<2xf32>>
  %v:2 = mpcomm.await %f : !mpcomm.future<tensor<4xf32>, tensor<2xf32>>
  return %v#0, %v#1 : tensor<4xf32>, tensor<2xf32>
}

// What gives no values is a future of nothing.
// CHECK-LABEL: func.func @async_without_values
func.func @async_without_values(%x: tensor<4xf32>) {
  // CHECK: %[[FUTURE:.*]] = mpcomm.async {
  // CHECK-NEXT: mpcomm.send
  // CHECK-NEXT: mpcomm.yield
  // CHECK-NEXT: } : !mpcomm.future<>
  %f = mpcomm.async {
    mpcomm.send(%x) on @mesh axes ["pp"] to = 1 : tensor<4xf32>
    mpcomm.yield
  } : !mpcomm.future<>
  // CHECK: mpcomm.await %[[FUTURE]] : !mpcomm.future<>
  mpcomm.await %f : !mpcomm.future<>
  return
}
