// A reduce_scatter of rows, of which ranks exchange encoded shares and sum what
// they get; what encoding loses is state of the shape of the whole parameter.
// A bucket has the shares of all of its gradients side by side.

// RUN: mpcomm-opt %s --mpcomm-compress-collectives="type=i8 min-bytes=0 block=8 error-feedback" --mpcomm-verify-communication --mpcomm-verify-shardings | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-compress-collectives="type=i8 min-bytes=0 block=8" | FileCheck %s --check-prefix=PLAIN
// RUN: mpcomm-opt %s --mpcomm-compress-collectives="type=i8 min-bytes=1000 block=8" | FileCheck %s --check-prefix=SMALL

// SMALL: mpcomm.reduce_scatter
// PLAIN-NOT: residual
// PLAIN-NOT: mpcomm.reduce_scatter

// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: tensor<5x3xf32> {mpcomm.added = "kept", mpcomm.default = 0.000000e+00 : f32, mpcomm.donated = 3 : i64, mpcomm.name = "v.residual"
// CHECK-SAME: tensor<4xf32> {mpcomm.added = "kept", mpcomm.default = 0.000000e+00 : f32, mpcomm.donated = 4 : i64, mpcomm.name = "w.residual"
// CHECK: mpcomm.concatenate %{{.*}}, dim = 0 : (tensor<15xf32>, tensor<1xf32>) -> tensor<16xf32>
// CHECK: mpcomm.concatenate %{{.*}}, dim = 1 : (tensor<2x8xf32>, tensor<2x2xf32>, tensor<2x6xf32>) -> tensor<2x16xf32>
// CHECK: mpcomm.all_to_all(%{{.*}}) {{.*}} : (tensor<2x2x8xi8>) -> tensor<2x2x8xi8>
// CHECK: mpcomm.all_to_all(%{{.*}}) {{.*}} : (tensor<2x2xf32>) -> tensor<2x2xf32>
// CHECK-NOT: mpcomm.all_gather
// CHECK: %[[SUM:.*]] = mpcomm.reshape %{{.*}} : (tensor<2x8xf32>) -> tensor<16xf32>
// CHECK: %[[G:.*]] = mpcomm.slice %[[SUM]], starts = [0], limits = [8]
// CHECK: %[[H:.*]] = mpcomm.slice %[[SUM]], starts = [8], limits = [10]
// CHECK: mpcomm.sgd_update %{{.*}}, %[[G]]
// CHECK: mpcomm.sgd_update %{{.*}}, %[[H]]

mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %v: tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v", mpcomm.donated = 0 : i64, mpcomm.global_type = tensor<5x3xf32>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {}], flat = ["dp"]>},
    %w: tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64, mpcomm.global_type = tensor<4xf32>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], flat = ["dp"]>},
    %x: tensor<16xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %y: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "y"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"})
    -> (tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v", mpcomm.global_type = tensor<5x3xf32>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {}], flat = ["dp"]>},
        tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.global_type = tensor<4xf32>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], flat = ["dp"]>},
        tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %own = mpcomm.reduce sum %x, dims = [0] : (tensor<16xf32>) -> tensor<f32>
  %loss = mpcomm.all_reduce(%own) on @mesh axes ["dp"] mean : tensor<f32>
  %g, %h = mpcomm.reduce_scatter(%x, %y) on @mesh axes ["dp"] mean accumulate f32 dims = [0, 0] : (tensor<16xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<2xf32>)
  %v1 = mpcomm.sgd_update %v, %g, %lr, weight_decay = 0.0 : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %w1 = mpcomm.sgd_update %w, %h, %lr, weight_decay = 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %v1, %w1, %loss : tensor<8xf32>, tensor<2xf32>, tensor<f32>
}
