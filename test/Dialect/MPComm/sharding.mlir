// RUN: mpcomm-opt %s --split-input-file | mpcomm-opt --split-input-file | FileCheck %s

mpcomm.mesh @mesh <["pp" = 2, "dp" = 4, "tp" = 2]>

// CHECK-LABEL: func.func @arguments
// CHECK-SAME: mpcomm.sharding = #mpcomm.sharding<@mesh, [{"tp"}, {}]>
// CHECK-SAME: mpcomm.global_type = tensor<64x10xf32>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {}], flat = ["dp"]>
// CHECK-SAME: mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], partial = [mean "dp", sum "tp"]>
// CHECK-SAME: mpcomm.sharding = #mpcomm.sharding<@mesh, [], local = ["pp", "dp"]>
func.func @arguments(
    %0: tensor<8x4xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{"tp"}, {}]>},
    %1: tensor<160xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {}], flat = ["dp"]>,
                         mpcomm.global_type = tensor<64x10xf32>},
    %2: tensor<4xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], partial = [mean "dp", sum "tp"]>},
    %3: tensor<f32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [], local = ["pp", "dp"]>}) {
  return
}

// CHECK-LABEL: func.func @results
// CHECK-SAME: -> (tensor<2xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{"dp":(1)2, "tp"}]>})
func.func @results(%0: tensor<2xf32>)
    -> (tensor<2xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{"dp":(1)2, "tp"}]>}) {
  return %0 : tensor<2xf32>
}

// CHECK-LABEL: func.func @reshard
func.func @reshard(%0: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // CHECK: mpcomm.reshard %{{.*}} to <@mesh, [{}, {}], flat = ["dp":(2)2]> : tensor<8x4xf32>
  %1 = mpcomm.reshard %0 to <@mesh, [{}, {}], flat = ["dp":(2)2]> : tensor<8x4xf32>
  // CHECK: mpcomm.reshard %{{.*}} to <@mesh, [{"dp", "tp"}, {"pp"}]> : tensor<8x4xf32>
  %2 = mpcomm.reshard %1 to <@mesh, [{"dp", "tp"}, {"pp"}]> : tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}
