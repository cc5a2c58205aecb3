// RUN: mpcomm-opt %s --mpcomm-compress-collectives="type=i1 block=8 min-bytes=0 error-feedback=true" | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-compress-collectives="type=i4 block=8 min-bytes=0" | FileCheck %s --check-prefix=FOUR
// RUN: mpcomm-opt %s --mpcomm-compress-collectives="type=top1of8 min-bytes=0 error-feedback=true" | FileCheck %s --check-prefix=TOP

// Two ranks have a block of 8 elements each. Of 1-bit elements it is one byte, of 4-bit ones four.
// What is lost of the gradient is a result; the loss, which has no parameter, loses it for good.

mpcomm.mesh @mesh <["dp" = 2]>

// CHECK: func @train_step(%[[W:[a-z0-9]+]]: tensor<13xf32> {{.*}}, %[[E:[a-z0-9]+]]: tensor<13xf32> {mpcomm.added = "kept", mpcomm.default = 0.000000e+00 : f32, mpcomm.donated = 2 : i64, mpcomm.name = "w.residual", mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], local = ["dp"]>})
// CHECK: %[[M:.*]] = arith.addf %{{.*}}, %[[E]] : tensor<13xf32>
// CHECK: mpcomm.reduce sum %{{.*}}, dims = [2] : (tensor<2x1x8xf32>) -> tensor<2x1xf32>
// CHECK: arith.cmpf olt
// CHECK: mpcomm.all_to_all(%{{.*}}) {{.*}} : (tensor<2x1x1xi8>) -> tensor<2x1x1xi8>
// CHECK: mpcomm.all_gather(%{{.*}}) {{.*}} : (tensor<1x1xi8>) -> tensor<2x1xi8>
// CHECK: mpcomm.axis_index on @mesh axes ["dp"]
// CHECK: %[[LOST:.*]] = mpcomm.slice %{{.*}}, starts = [0], limits = [13], strides = [1] : (tensor<16xf32>) -> tensor<13xf32>
// CHECK: return %{{.*}}, %{{.*}}, %[[LOST]] : tensor<f32>, tensor<13xf32>, tensor<13xf32>

// FOUR: func @train_step
// FOUR-NOT: residual
// FOUR: mpcomm.all_to_all(%{{.*}}) {{.*}} : (tensor<2x1x4xi8>) -> tensor<2x1x4xi8>
// FOUR-NOT: mpcomm.axis_index

// Of a block there is the largest element, and its place.

// TOP: func @train_step
// TOP: %[[ABS:.*]] = math.absf %[[X:.*]] : tensor<2x1x8xf32>
// TOP: %[[MAX:.*]] = mpcomm.reduce max %[[ABS]], dims = [2]
// TOP: %[[PLACE:.*]] = mpcomm.reduce min %{{.*}}, dims = [2] : (tensor<2x1x8xi32>) -> tensor<2x1xi32>
// TOP: %[[SENT:.*]] = mpcomm.reduce sum %{{.*}}, dims = [2] : (tensor<2x1x8xf32>) -> tensor<2x1xf32>
// TOP: arith.select %{{.*}}, %[[SENT]], %[[MAX]]
// TOP: mpcomm.all_to_all(%{{.*}}) {{.*}} : (tensor<2x1xbf16>) -> tensor<2x1xbf16>
// TOP: mpcomm.all_to_all(%{{.*}}) {{.*}} : (tensor<2x1xi8>) -> tensor<2x1xi8>
// TOP: mpcomm.all_gather(%{{.*}}) {{.*}} : (tensor<1xbf16>) -> tensor<2xbf16>
// TOP: arith.extui %{{.*}} : tensor<2xi8> to tensor<2xi32>
func.func @train_step(
    %w: tensor<13xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %g: tensor<13xf32>, %l: tensor<f32>)
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<13xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %0:2 = mpcomm.all_reduce(%g, %l) on @mesh axes ["dp"] mean accumulate f32 : tensor<13xf32>, tensor<f32>
  %1 = mpcomm.sgd_update %w, %0#0, %lr, weight_decay = 0.000000e+00 : (tensor<13xf32>, tensor<13xf32>, tensor<f32>) -> tensor<13xf32>
  return %0#1, %1 : tensor<f32>, tensor<13xf32>
}
