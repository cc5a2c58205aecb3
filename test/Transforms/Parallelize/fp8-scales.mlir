// Histories are replicated state: magnitudes that differ are
// reduced, together, before the first scale that comes from one of them.

// RUN: mpcomm-opt %s --mpcomm-data-parallel="size=2" --mpcomm-verify-shardings | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-data-parallel="size=2" --mpcomm-data-parallel="size=2" | FileCheck %s
// RUN: sed 's/"dp" = 2/"dp" = 1/' %s | mpcomm-opt --mpcomm-data-parallel | FileCheck %s --check-prefix=ONE
// RUN: mpcomm-opt %s --mpcomm-data-parallel="size=2" --remarks-filter="mpcomm.*" \
// RUN:   --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: not mpcomm-opt %s --mpcomm-verify-shardings 2>&1 | FileCheck %s --check-prefix=VERIFY

// ONE-NOT: all_reduce
// REMARK: DataParallel{{.*}}magnitudes=3, ranks=2
// VERIFY: which may differ between ranks along 'dp', expected one value for all of them

// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: %[[W:[^:]+]]: tensor<4xf32>
// CHECK: %[[WM:.*]] = mpcomm.reduce max %[[W]]
// CHECK: %[[XM:.*]] = mpcomm.reduce max
// CHECK: %[[YM:.*]] = mpcomm.reduce max
// CHECK-NOT: all_reduce
// Parameters are the same on all ranks.
// CHECK: mpcomm.update_fp8_scale %{{.*}}, %{{.*}}, %[[WM]]
// CHECK-NEXT: %[[MAX:.*]]:2 = mpcomm.all_reduce(%[[XM]], %[[YM]]) on @mesh axes ["dp"] max : tensor<f32>, tensor<f32>
// CHECK-NEXT: mpcomm.update_fp8_scale %{{.*}}, %{{.*}}, %[[MAX]]#0
// CHECK-NEXT: mpcomm.update_fp8_scale %{{.*}}, %{{.*}}, %[[MAX]]#1
// What was not there by then.
// CHECK: %[[ZM:.*]] = mpcomm.reduce max
// CHECK-NEXT: %[[LATE:.*]] = mpcomm.all_reduce(%[[ZM]]) on @mesh axes ["dp"] max : tensor<f32>
// CHECK-NEXT: mpcomm.update_fp8_scale %{{.*}}, %{{.*}}, %[[LATE]]
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %h: tensor<2xf32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "h", mpcomm.default = 0.0 : f32},
    %s: tensor<f32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "s", mpcomm.default = 1.0 : f32},
    %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<f32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "w.scale"},
        tensor<f32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "x.scale"},
        tensor<f32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "y.scale"},
        tensor<2xf32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "h"},
        tensor<f32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "s"}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  %wm = mpcomm.reduce max %w, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  %xm = mpcomm.reduce max %x, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  %y = arith.addf %x, %w : tensor<4xf32>
  %ym = mpcomm.reduce max %y, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  %h0, %s0 = mpcomm.update_fp8_scale %h, %s, %wm, format = f8E4M3FN, margin = 0 : (tensor<2xf32>, tensor<f32>, tensor<f32>) -> (tensor<2xf32>, tensor<f32>)
  %h1, %s1 = mpcomm.update_fp8_scale %h, %s, %xm, format = f8E4M3FN, margin = 0 : (tensor<2xf32>, tensor<f32>, tensor<f32>) -> (tensor<2xf32>, tensor<f32>)
  %h2, %s2 = mpcomm.update_fp8_scale %h, %s, %ym, format = f8E4M3FN, margin = 0 : (tensor<2xf32>, tensor<f32>, tensor<f32>) -> (tensor<2xf32>, tensor<f32>)
  %z = arith.mulf %x, %w : tensor<4xf32>
  %zm = mpcomm.reduce max %z, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  %h3, %s3 = mpcomm.update_fp8_scale %h, %s, %zm, format = f8E5M2, margin = 0 : (tensor<2xf32>, tensor<f32>, tensor<f32>) -> (tensor<2xf32>, tensor<f32>)
  return %loss, %s0, %s1, %s2, %h3, %s3 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<2xf32>, tensor<f32>
}
