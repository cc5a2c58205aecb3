// Where a step reads whole what ranks have parts of: once for the forward pass, once more for the rest. What only moves
// a whole is done for each; the last layer, of which the backward pass comes next, is gathered once.
//
// RUN: mpcomm-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(mpcomm-assign-shardings{zero=3},mpcomm-propagate-shardings,mpcomm-insert-reshards{gradients})' \
// RUN:   --remarks-filter="mpcomm-insert.*" --remark-format=emitRemark 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t.remarks
// RUN: mpcomm-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(mpcomm-assign-shardings{zero=3},mpcomm-propagate-shardings,mpcomm-insert-reshards{gradients},mpcomm-localize,mpcomm-verify-shardings,mpcomm-verify-rank-programs,mpcomm-simplify-collectives)' \
// RUN:   | FileCheck %s --check-prefix=LOCAL
// With micro-batches all of that is in the body, whose sums are of parts.
// RUN: mpcomm-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(mpcomm-assign-shardings{zero=3},mpcomm-propagate-shardings,mpcomm-insert-reshards{gradients},mpcomm-accumulate-gradients{micro-batches=3},mpcomm-localize,mpcomm-verify-shardings,mpcomm-verify-rank-programs,mpcomm-simplify-collectives,mpcomm-verify-communication)' \
// RUN:   | FileCheck %s --check-prefix=MICRO
// The whole of %v has 60 bytes: with as many to keep it is not gathered again.
// RUN: mpcomm-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(mpcomm-assign-shardings{zero=3},mpcomm-propagate-shardings,mpcomm-insert-reshards{gradients keep-bytes=60})' \
// RUN:   | FileCheck %s --check-prefix=KEEP --implicit-check-not=gathered_again
// RUN: mpcomm-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(mpcomm-assign-shardings{zero=3},mpcomm-propagate-shardings,mpcomm-insert-reshards{gradients keep-bytes=59})' \
// RUN:   | FileCheck %s
// KEEP-LABEL: func.func @train_step
// KEEP: %[[V1:.*]] = mpcomm.reshard %{{.*}} to <@mesh, [{}, {}]> : tensor<5x3xf32>
// KEEP: %[[VT:.*]] = mpcomm.transpose %[[V1]]
// KEEP: mpcomm.dot_general %[[VT]]
// KEEP: mpcomm.dot_general %{{.*}}, %[[VT]]

mpcomm.mesh @mesh <["dp" = 2]>

// Two layers and a frozen scale. The first is gathered again, and so is its transpose; the second is not.
// REMARK: Resharded{{.*}} | Function=train_step | again=1, gathers=3, scatters=2
// CHECK-LABEL: func.func @train_step
// CHECK-SAME: %[[V:[^:]*]]: tensor<5x3xf32> {
// CHECK-SAME: %[[W:[^:]*]]: tensor<3x3xf32> {
// CHECK-SAME: %[[F:[^:]*]]: tensor<3xf32> {
// CHECK: %[[V1:.*]] = mpcomm.reshard %[[V]] to <@mesh, [{}, {}]> : tensor<5x3xf32>
// CHECK: %[[VT:.*]] = mpcomm.transpose %[[V1]]
// CHECK: %[[H:.*]] = mpcomm.dot_general %[[VT]]
// CHECK: %[[F1:.*]] = mpcomm.reshard %[[F]] to <@mesh, [{}]> : tensor<3xf32>
// CHECK: %[[FB:.*]] = mpcomm.broadcast_in_dim %[[F1]]
// CHECK: arith.mulf %[[H]], %[[FB]]
// CHECK: %[[W1:.*]] = mpcomm.reshard %[[W]] to <@mesh, [{}, {}]> : tensor<3x3xf32>
// CHECK: mpcomm.dot_general %{{.*}}, %[[W1]]
// CHECK-NOT: mpcomm.reshard %[[W]]
// CHECK: mpcomm.dot_general %{{.*}}, %[[W1]]
// CHECK: %[[GW:.*]] = mpcomm.all_reduce
// CHECK: %[[GWP:.*]] = mpcomm.reshard %[[GW]] to <@mesh, [{}, {}], flat = ["dp"]>
// CHECK: %[[V2:.*]] = mpcomm.reshard %[[V]] to <@mesh, [{}, {}]> {mpcomm.gathered_again} : tensor<5x3xf32>
// CHECK: %[[VT2:.*]] = mpcomm.transpose %[[V2]]
// CHECK: mpcomm.dot_general %{{.*}}, %[[VT2]]
// CHECK: mpcomm.sgd_update %[[W]], %[[GWP]]

// LOCAL-LABEL: func.func @train_step
// LOCAL-SAME: %[[V:[^:]*]]: tensor<8xf32> {mpcomm.donated = 1 : i64, mpcomm.global_type = tensor<5x3xf32>
// LOCAL-SAME: %[[W:[^:]*]]: tensor<5xf32>
// LOCAL-SAME: %[[F:[^:]*]]: tensor<2xf32> {mpcomm.global_type = tensor<3xf32>
// LOCAL: mpcomm.all_gather(%[[V]]) on @mesh axes ["dp"] dims = [0] : (tensor<8xf32>) -> tensor<16xf32>
// LOCAL: mpcomm.all_gather(%[[F]])
// LOCAL: mpcomm.all_gather(%[[W]])
// LOCAL: %[[GW:.*]] = mpcomm.reduce_scatter
// LOCAL: mpcomm.all_gather(%[[V]]) {{.*}}mpcomm.gathered_again
// LOCAL: %[[GV:.*]] = mpcomm.reduce_scatter
// LOCAL-NOT: mpcomm.all_gather
// LOCAL: %[[V1:.*]] = mpcomm.sgd_update %[[V]], %[[GV]]
// LOCAL: %[[W1:.*]] = mpcomm.sgd_update %[[W]], %[[GW]]
// LOCAL: return %{{.*}}, %[[V1]], %[[W1]]

// MICRO-LABEL: func.func private @train_step.micro_batch
// MICRO-SAME: %[[V:[^:]*]]: tensor<8xf32> {mpcomm.global_type = tensor<5x3xf32>
// MICRO-SAME: tensor<f32> {mpcomm.donated = 0 : i64}
// MICRO-SAME: %[[SV:[^:]*]]: tensor<8xf32> {mpcomm.donated = 1 : i64
// MICRO-SAME: %[[SW:[^:]*]]: tensor<5xf32> {mpcomm.donated = 2 : i64
// MICRO: mpcomm.all_gather(%[[V]])
// MICRO: %[[GW:.*]] = mpcomm.reduce_scatter
// MICRO: mpcomm.all_gather(%[[V]]) {{.*}}mpcomm.gathered_again
// MICRO: %[[GV:.*]] = mpcomm.reduce_scatter
// MICRO: %[[SV1:.*]] = arith.addf %[[SV]], %[[GV]] : tensor<8xf32>
// MICRO: %[[SW1:.*]] = arith.addf %[[SW]], %[[GW]] : tensor<5xf32>
// MICRO: return %{{.*}}, %[[SV1]], %[[SW1]]
// MICRO-LABEL: func.func @train_step
// MICRO: call @train_step.micro_batch
// MICRO: call @train_step.micro_batch
// MICRO: arith.addf {{.*}} : tensor<5xf32>
// MICRO: arith.mulf {{.*}} : tensor<5xf32>
func.func @train_step(
    %v: tensor<5x3xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v", mpcomm.donated = 1 : i64},
    %w: tensor<3x3xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 2 : i64},
    %f: tensor<3xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "f"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<4x3xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %u: tensor<5x3xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "u"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<5x3xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v"},
        tensor<3x3xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %vt = mpcomm.transpose %v, dims = [1, 0] : (tensor<5x3xf32>) -> tensor<3x5xf32>
  %h = mpcomm.dot_general %vt, %u, contracting_dims = [1] x [0] : (tensor<3x5xf32>, tensor<5x3xf32>) -> tensor<3x3xf32>
  %fb = mpcomm.broadcast_in_dim %f, dims = [1] : (tensor<3xf32>) -> tensor<3x3xf32>
  %hf = arith.mulf %h, %fb : tensor<3x3xf32>
  %y = mpcomm.dot_general %hf, %w, contracting_dims = [1] x [0] : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %l = mpcomm.reduce sum %y, dims = [0, 1] : (tensor<3x3xf32>) -> tensor<f32>
  %l1 = mpcomm.all_reduce(%l) on @mesh axes ["dp"] mean : tensor<f32>
  %dh = mpcomm.dot_general %h, %w, contracting_dims = [1] x [1] : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %gw = mpcomm.dot_general %h, %dh, contracting_dims = [0] x [0] : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %gw1 = mpcomm.all_reduce(%gw) on @mesh axes ["dp"] mean : tensor<3x3xf32>
  %z = mpcomm.dot_general %dh, %vt, contracting_dims = [1] x [0] : (tensor<3x3xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  %gv = mpcomm.transpose %z, dims = [1, 0] : (tensor<3x5xf32>) -> tensor<5x3xf32>
  %gv1 = mpcomm.all_reduce(%gv) on @mesh axes ["dp"] mean : tensor<5x3xf32>
  %v1 = mpcomm.sgd_update %v, %gv1, %lr, weight_decay = 0.1 : (tensor<5x3xf32>, tensor<5x3xf32>, tensor<f32>) -> tensor<5x3xf32>
  %w1 = mpcomm.sgd_update %w, %gw1, %lr, weight_decay = 0.1 : (tensor<3x3xf32>, tensor<3x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  return %l1, %v1, %w1 : tensor<f32>, tensor<5x3xf32>, tensor<3x3xf32>
}
