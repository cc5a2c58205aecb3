// RUN: mpcomm-opt %s --convert-mpcomm-to-mprt --split-input-file | FileCheck %s

// Every collective becomes a start where it was and an await where it was
// awaited; what travels is contiguous, and numbers follow program order.

// CHECK: module attributes {mprt.communicators = {{\[\[}}"dp"]], mprt.mesh = @mesh}
mpcomm.mesh @mesh <["pp" = 2, "dp" = 4]>

// CHECK-LABEL: @synchronous
// CHECK-SAME: (%[[G:.*]]: tensor<4xf32>
func.func @synchronous(%g: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: %[[S:.*]] = mprt.start "all_reduce" "mean" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%[[G]] : tensor<4xf32>) -> (tensor<4xf32>)
  // CHECK-NEXT: %[[A:.*]] = mprt.await event = 0 ins() outs(%[[S]] : tensor<4xf32>) -> (tensor<4xf32>)
  // CHECK-NEXT: return %[[A]]
  %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<4xf32>
  return %r : tensor<4xf32>
}

// CHECK-LABEL: @asynchronous
func.func @asynchronous(%g: tensor<4xf32>, %h: tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  // CHECK: %[[S:.*]]:2 = mprt.start {{.*}} id = 1 {{.*}} event = 1
  %f = mpcomm.async {
    %r:2 = mpcomm.all_reduce(%g, %h) on @mesh axes ["dp"] sum : tensor<4xf32>, tensor<2xf32>
    mpcomm.yield %r#0, %r#1 : tensor<4xf32>, tensor<2xf32>
  } : !mpcomm.future<tensor<4xf32>, tensor<2xf32>>
  // CHECK-NEXT: math.exp
  %e = math.exp %g : tensor<4xf32>
  // CHECK-NEXT: mprt.await event = 1 ins() outs(%[[S]]#0, %[[S]]#1
  %v:2 = mpcomm.await %f : !mpcomm.future<tensor<4xf32>, tensor<2xf32>>
  %s = arith.addf %e, %v#0 : tensor<4xf32>
  return %s, %v#1 : tensor<4xf32>, tensor<2xf32>
}

// A bucket is one range of memory: one start per element type.
// CHECK-LABEL: @mixed_types
// CHECK: mprt.start {{.*}} accumulate f32 ins() outs(%{{.*}}, %{{.*}} : tensor<4xf32>, tensor<8xf32>)
// CHECK-NEXT: mprt.start {{.*}} accumulate f32 ins() outs(%{{.*}} : tensor<2xbf16>)
// CHECK: return %[[F:.*]]#0, %{{.*}}, %[[F]]#1
func.func @mixed_types(%a: tensor<4xf32>, %b: tensor<2xbf16>, %c: tensor<8xf32>) -> (tensor<4xf32>, tensor<2xbf16>, tensor<8xf32>) {
  %r:3 = mpcomm.all_reduce(%a, %b, %c) on @mesh axes ["dp"] sum : tensor<4xf32>, tensor<2xbf16>, tensor<8xf32>
  return %r#0, %r#1, %r#2 : tensor<4xf32>, tensor<2xbf16>, tensor<8xf32>
}

// CHECK-LABEL: @wire
// CHECK: %[[N:.*]] = arith.truncf %{{.*}} : tensor<4xf32> to tensor<4xbf16>
// CHECK: mprt.start {{.*}} accumulate f32 ins() outs(%[[N]] : tensor<4xbf16>)
// CHECK: mprt.await
// CHECK: arith.extf %{{.*}} : tensor<4xbf16> to tensor<4xf32>
func.func @wire(%g: tensor<4xf32>) -> tensor<4xf32> {
  %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean wire bf16 accumulate f32 : tensor<4xf32>
  return %r : tensor<4xf32>
}

// Along dimension 1 the block of each rank is moved to the front and back.
// CHECK-LABEL: @reduce_scatter
// CHECK: mpcomm.reshape %{{.*}} : (tensor<3x8xf32>) -> tensor<3x4x2xf32>
// CHECK: mpcomm.transpose %{{.*}}, dims = [1, 0, 2] : (tensor<3x4x2xf32>) -> tensor<4x3x2xf32>
// CHECK: mprt.start "reduce_scatter" "sum" {{.*}} ins(%{{.*}} : tensor<4x3x2xf32>) outs(%{{.*}} : tensor<3x2xf32>)
func.func @reduce_scatter(%x: tensor<3x8xf32>) -> tensor<3x2xf32> {
  %r = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] sum dims = [1] : (tensor<3x8xf32>) -> tensor<3x2xf32>
  return %r : tensor<3x2xf32>
}

// CHECK-LABEL: @all_gather
// CHECK: mprt.start "all_gather" "" {{.*}} ins(%{{.*}} : tensor<3x2xf32>) outs(%{{.*}} : tensor<4x3x2xf32>)
// CHECK: mprt.await
// CHECK: mpcomm.transpose %{{.*}}, dims = [1, 0, 2] : (tensor<4x3x2xf32>) -> tensor<3x4x2xf32>
// CHECK: mpcomm.reshape %{{.*}} : (tensor<3x4x2xf32>) -> tensor<3x8xf32>
func.func @all_gather(%x: tensor<3x2xf32>) -> tensor<3x8xf32> {
  %r = mpcomm.all_gather(%x) on @mesh axes ["dp"] dims = [1] : (tensor<3x2xf32>) -> tensor<3x8xf32>
  return %r : tensor<3x8xf32>
}

// Several operands lie in rows, one for each rank, of a block of each.
// CHECK-LABEL: @reduce_scatter_bucket
// CHECK-SAME: (%[[X:.*]]: tensor<8xf32>, %[[Y:.*]]: tensor<3x8xf32>)
// CHECK: %[[XW:.*]] = mpcomm.reshape %[[X]] : (tensor<8xf32>) -> tensor<4x2xf32>
// CHECK: %[[XR:.*]] = arith.truncf %[[XW]]
// CHECK: %[[YT:.*]] = mpcomm.transpose %{{.*}}, dims = [1, 0, 2] : (tensor<3x4x2xf32>) -> tensor<4x3x2xf32>
// CHECK: %[[YW:.*]] = mpcomm.reshape %[[YT]] : (tensor<4x3x2xf32>) -> tensor<4x6xf32>
// CHECK: %[[YR:.*]] = arith.truncf %[[YW]]
// CHECK: %[[ROWS:.*]] = mpcomm.concatenate %[[XR]], %[[YR]], dim = 1 : (tensor<4x2xbf16>, tensor<4x6xbf16>) -> tensor<4x8xbf16>
// CHECK: mprt.start "reduce_scatter" "sum" {{.*}} accumulate f32 ins(%[[ROWS]] : tensor<4x8xbf16>) outs(%{{.*}} : tensor<8xbf16>)
// CHECK: %[[R:.*]] = mprt.await
// CHECK: mpcomm.slice %[[R]], starts = [0], limits = [2], strides = [1] : (tensor<8xbf16>) -> tensor<2xbf16>
// CHECK: mpcomm.slice %[[R]], starts = [2], limits = [8], strides = [1] : (tensor<8xbf16>) -> tensor<6xbf16>
// CHECK: mpcomm.reshape %{{.*}} : (tensor<6xf32>) -> tensor<3x2xf32>
func.func @reduce_scatter_bucket(%x: tensor<8xf32>, %y: tensor<3x8xf32>) -> (tensor<2xf32>, tensor<3x2xf32>) {
  %r:2 = mpcomm.reduce_scatter(%x, %y) on @mesh axes ["dp"] sum wire bf16 accumulate f32 dims = [0, 1] : (tensor<8xf32>, tensor<3x8xf32>) -> (tensor<2xf32>, tensor<3x2xf32>)
  return %r#0, %r#1 : tensor<2xf32>, tensor<3x2xf32>
}

// One start for each element type; one of them of one operand.
// CHECK-LABEL: @all_gather_bucket
// CHECK: %[[ROW:.*]] = mpcomm.concatenate %arg0, %{{.*}}, dim = 0 : (tensor<2xf32>, tensor<6xf32>) -> tensor<8xf32>
// CHECK: mprt.start "all_gather" "" {{.*}} ins(%[[ROW]] : tensor<8xf32>) outs(%{{.*}} : tensor<4x8xf32>)
// CHECK: mprt.start "all_gather" "" {{.*}} ins(%arg1 : tensor<5xbf16>) outs(%{{.*}} : tensor<4x5xbf16>)
// CHECK: %[[R:.*]] = mprt.await
// CHECK: mpcomm.slice %[[R]], starts = [0, 0], limits = [4, 2], strides = [1, 1] : (tensor<4x8xf32>) -> tensor<4x2xf32>
// CHECK: mpcomm.slice %[[R]], starts = [0, 2], limits = [4, 8], strides = [1, 1] : (tensor<4x8xf32>) -> tensor<4x6xf32>
// CHECK: return %{{.*}} : tensor<8xf32>, tensor<20xbf16>, tensor<3x8xf32>
func.func @all_gather_bucket(%x: tensor<2xf32>, %n: tensor<5xbf16>, %y: tensor<3x2xf32>) -> (tensor<8xf32>, tensor<20xbf16>, tensor<3x8xf32>) {
  %r:3 = mpcomm.all_gather(%x, %n, %y) on @mesh axes ["dp"] dims = [0, 0, 1] : (tensor<2xf32>, tensor<5xbf16>, tensor<3x2xf32>) -> (tensor<8xf32>, tensor<20xbf16>, tensor<3x8xf32>)
  return %r#0, %r#1, %r#2 : tensor<8xf32>, tensor<20xbf16>, tensor<3x8xf32>
}

// CHECK-LABEL: @all_to_all_bucket
// CHECK: mprt.start "all_to_all" "" {{.*}} ins(%{{.*}} : tensor<4x8xf32>) outs(%{{.*}} : tensor<4x8xf32>)
func.func @all_to_all_bucket(%x: tensor<8x3xf32>, %y: tensor<8xf32>) -> (tensor<2x12xf32>, tensor<8xf32>) {
  %r:2 = mpcomm.all_to_all(%x, %y) on @mesh axes ["dp"] split_dims = [0, 0] concat_dims = [1, 0] : (tensor<8x3xf32>, tensor<8xf32>) -> (tensor<2x12xf32>, tensor<8xf32>)
  return %r#0, %r#1 : tensor<2x12xf32>, tensor<8xf32>
}

// CHECK-LABEL: @permute
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>
// CHECK: %[[E:.*]] = tensor.empty() : tensor<4xf32>
// CHECK: mprt.start "permute" "" {{.*}} peer = -1 accumulate f32 targets [1, -1, 0, -1] ins(%[[X]] : tensor<4xf32>) outs(%[[E]] : tensor<4xf32>)
func.func @permute(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = mpcomm.collective_permute(%x) on @mesh axes ["dp"] source_target_pairs = [[0, 1], [2, 0]] : tensor<4xf32>
  return %r : tensor<4xf32>
}

// CHECK-LABEL: @reduce
// CHECK: %[[N:.*]] = arith.truncf %{{.*}} : tensor<4xf32> to tensor<4xbf16>
// CHECK: mprt.start "reduce" "mean" {{.*}} peer = 2 accumulate f32 ins(%[[N]] : tensor<4xbf16>) outs(%{{.*}} : tensor<4xbf16>)
// CHECK: arith.extf %{{.*}} : tensor<4xbf16> to tensor<4xf32>
func.func @reduce(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = mpcomm.collective_reduce(%x) on @mesh axes ["dp"] mean wire bf16 root = 2 : tensor<4xf32>
  return %r : tensor<4xf32>
}

// CHECK-LABEL: @gather
// CHECK: mprt.start "gather" "" {{.*}} peer = 1 {{.*}} ins(%{{.*}} : tensor<3x2xf32>) outs(%{{.*}} : tensor<4x3x2xf32>)
// CHECK: mpcomm.reshape %{{.*}} : (tensor<3x4x2xf32>) -> tensor<3x8xf32>
func.func @gather(%x: tensor<3x2xf32>) -> tensor<3x8xf32> {
  %r = mpcomm.collective_gather(%x) on @mesh axes ["dp"] root = 1 dim = 1 : (tensor<3x2xf32>) -> tensor<3x8xf32>
  return %r : tensor<3x8xf32>
}

// CHECK-LABEL: @scatter
// CHECK: mpcomm.transpose %{{.*}}, dims = [1, 0, 2] : (tensor<3x4x2xf32>) -> tensor<4x3x2xf32>
// CHECK: mprt.start "scatter" "" {{.*}} peer = 3 {{.*}} ins(%{{.*}} : tensor<4x3x2xf32>) outs(%{{.*}} : tensor<3x2xf32>)
func.func @scatter(%x: tensor<3x8xf32>) -> tensor<3x2xf32> {
  %r = mpcomm.collective_scatter(%x) on @mesh axes ["dp"] root = 3 dim = 1 : (tensor<3x8xf32>) -> tensor<3x2xf32>
  return %r : tensor<3x2xf32>
}

// CHECK-LABEL: @all_to_all
// CHECK: mprt.start "all_to_all" "" {{.*}} ins(%{{.*}} : tensor<4x2x3xf32>) outs(%{{.*}} : tensor<4x2x3xf32>)
// CHECK: mpcomm.reshape %{{.*}} : (tensor<2x4x3xf32>) -> tensor<2x12xf32>
func.func @all_to_all(%x: tensor<8x3xf32>) -> tensor<2x12xf32> {
  %r = mpcomm.all_to_all(%x) on @mesh axes ["dp"] split_dims = [0] concat_dims = [1] : (tensor<8x3xf32>) -> tensor<2x12xf32>
  return %r : tensor<2x12xf32>
}

// CHECK-LABEL: @broadcast
// CHECK: mprt.start "broadcast" "" {{.*}} peer = 3 {{.*}} ins() outs(%{{.*}} : tensor<4xi64>)
func.func @broadcast(%x: tensor<4xi64>) -> tensor<4xi64> {
  %r = mpcomm.collective_broadcast(%x) on @mesh axes ["dp"] root = 3 : tensor<4xi64>
  return %r : tensor<4xi64>
}

// -----

// A second set of axes is a second communicator; axes count in mesh order.
// CHECK: module attributes {mprt.communicators = {{\[\[}}"pp"], ["pp", "dp"]], mprt.mesh = @mesh}
mpcomm.mesh @mesh <["pp" = 2, "dp" = 4]>

// CHECK-LABEL: @point_to_point
// CHECK: mprt.start "send" "" id = 0 communicator = 0 event = 0 peer = 1 accumulate f32 ins(%{{.*}} : tensor<4xf32>) outs()
// CHECK: mprt.await event = 0 ins(%{{.*}} : tensor<4xf32>) outs()
// CHECK: mprt.start "recv" "" id = 1 {{.*}} peer = 0 {{.*}} ins() outs(%{{.*}} : tensor<4xf32>)
// CHECK: mprt.start "barrier" "" id = 2 communicator = 1
func.func @point_to_point(%x: tensor<4xf32>) -> tensor<4xf32> {
  mpcomm.send(%x) on @mesh axes ["pp"] to = 1 : tensor<4xf32>
  %r = mpcomm.recv on @mesh axes ["pp"] from = 0 : tensor<4xf32>
  mpcomm.barrier on @mesh axes ["dp", "pp"]
  return %r : tensor<4xf32>
}
