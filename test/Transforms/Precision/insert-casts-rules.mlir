// One rule a step: what is narrow, what keeps its bits, what is stored, and where
// the casts are.

// RUN: mpcomm-opt %s -split-input-file --mpcomm-insert-casts="policy=bf16 compute=lower_precision" | FileCheck %s

#parameter = #mpcomm.role<parameter>
#batch = #mpcomm.role<batch>
#loss = #mpcomm.role<loss>

// What is added to a residual stream is widened: the stream keeps its bits. Its
// value is narrowed once for both products.
// CHECK-LABEL: func.func @train_step(
// CHECK: %[[S16:.*]] = arith.truncf %[[S:arg0]] : tensor<4x4xf32> to tensor<4x4xbf16>
// CHECK-NEXT: %[[A:.*]] = mpcomm.dot_general %[[S16]], %[[S16]]
// CHECK-NEXT: %[[AF:.*]] = arith.extf %[[A]]
// CHECK-NEXT: %[[T:.*]] = arith.addf %[[S]], %[[AF]] : tensor<4x4xf32>
// CHECK-NEXT: %[[L:.*]] = mpcomm.reduce sum %[[T]]
// CHECK-NEXT: return %[[L]]
func.func @train_step(%s: tensor<4x4xf32> {mpcomm.role = #batch, mpcomm.name = "s"})
    -> (tensor<f32> {mpcomm.role = #loss, mpcomm.name = "loss"}) {
  %a = mpcomm.dot_general %s, %s, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = arith.addf %s, %a : tensor<4x4xf32>
  %l = mpcomm.reduce sum %t, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// A constant that bf16 does not hold keeps its op in f32; -inf does not.
// CHECK-LABEL: func.func @train_step(
// CHECK-DAG: %[[D:.*]] = arith.constant dense<5.65{{[0-9]*}}> : tensor<4x4xf32>
// CHECK-DAG: %[[INF:.*]] = arith.constant dense<0xFF80> : tensor<4x4xbf16>
// CHECK: %[[A:.*]] = mpcomm.dot_general
// CHECK: %[[M:.*]] = arith.select %{{.*}}, %[[A]], %[[INF]] : tensor<4x4xi1>, tensor<4x4xbf16>
// CHECK: %[[MF:.*]] = arith.extf %[[M]]
// CHECK: arith.divf %[[MF]], %[[D]] : tensor<4x4xf32>
func.func @train_step(%s: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "s"},
                      %mask: tensor<4x4xi1> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "mask"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %d = arith.constant dense<5.65685415> : tensor<4x4xf32>
  %inf = arith.constant dense<0xFF800000> : tensor<4x4xf32>
  %a = mpcomm.dot_general %s, %s, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %m = arith.select %mask, %a, %inf : tensor<4x4xi1>, tensor<4x4xf32>
  %v = arith.divf %m, %d : tensor<4x4xf32>
  %l = mpcomm.reduce sum %v, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// Between two products nothing is widened, and a cast goes below a slice and above
// a broadcast: where fewer bytes are.
// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: %[[X:[^:]+]]: tensor<4x8xf32>
// CHECK-SAME: %[[V:[^:]+]]: tensor<4xf32>
// CHECK-DAG: %[[S:.*]] = mpcomm.slice %[[X]], {{.*}} -> tensor<4x4xf32>
// CHECK-DAG: %[[S16:.*]] = arith.truncf %[[S]] : tensor<4x4xf32> to tensor<4x4xbf16>
// CHECK-DAG: %[[V16:.*]] = arith.truncf %[[V]] : tensor<4xf32> to tensor<4xbf16>
// CHECK-DAG: %[[B:.*]] = mpcomm.broadcast_in_dim %[[V16]], {{.*}} -> tensor<4x4xbf16>
// CHECK: %[[A:.*]] = mpcomm.dot_general %[[S16]], %[[B]]
// CHECK: %[[T:.*]] = mpcomm.transpose %[[A]], {{.*}} -> tensor<4x4xbf16>
// CHECK: %[[R:.*]] = mpcomm.reshape %[[T]] : (tensor<4x4xbf16>) -> tensor<2x8xbf16>
// CHECK: mpcomm.dot_general %[[R]], %[[R]]
func.func @train_step(%x: tensor<4x8xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
                      %v: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "v"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %s = mpcomm.slice %x, starts = [0, 0], limits = [4, 4], strides = [1, 1] : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %b = mpcomm.broadcast_in_dim %v, dims = [1] : (tensor<4xf32>) -> tensor<4x4xf32>
  %a = mpcomm.dot_general %s, %b, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = mpcomm.transpose %a, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = mpcomm.reshape %t : (tensor<4x4xf32>) -> tensor<2x8xf32>
  %c = mpcomm.dot_general %r, %r, contracting_dims = [1] x [1] : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x2xf32>
  %l = mpcomm.reduce sum %c, dims = [0, 1] : (tensor<2x2xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// An activation that the forward pass reads exactly is stored in bf16 for the
// backward pass; the mean and rstd stay. The normalised value's broadcast is done
// again instead of being kept.
// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: %[[G:[^:]+]]: tensor<8xf32> {mpcomm.donated
// CHECK: %[[E:.*]] = math.exp %{{.*}} : tensor<4x8xf32>
// CHECK-NEXT: %[[E16:.*]] = arith.truncf %[[E]]
// CHECK: %[[Y:.*]], %[[MEAN:.*]], %[[RSTD:.*]] = mpcomm.layer_norm %[[E]]
// CHECK-NOT: arith.truncf
// CHECK: %[[LOSS:.*]] = mpcomm.reduce sum %[[Y]]
// CHECK: %[[AGAIN:.*]] = mpcomm.broadcast_in_dim %[[G]]
// CHECK: %[[EF:.*]] = arith.extf %[[E16]]
// CHECK: mpcomm.layer_norm_grad %[[AGAIN]], %[[EF]], %[[MEAN]], %[[RSTD]], %[[G]] : {{.*}}tensor<4xf32>, tensor<4xf32>
func.func @train_step(%g: tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "g", mpcomm.donated = 1 : i64},
                      %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
                      %x: tensor<4x8xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "g"}) {
  %gg = mpcomm.broadcast_in_dim %g, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %s = arith.mulf %x, %gg : tensor<4x8xf32>
  %e = math.exp %s : tensor<4x8xf32>
  %y, %mean, %rstd = mpcomm.layer_norm %e, %g, %g, eps = 1.0e-05 : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  %l = mpcomm.reduce sum %y, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<f32>
  %dx, %dg, %db = mpcomm.layer_norm_grad %gg, %e, %mean, %rstd, %g : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
  %n = mpcomm.sgd_update %g, %dg, %lr, weight_decay = 0.0 : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %l, %n : tensor<f32>, tensor<8xf32>
}

// -----

// The gradient of a parameter that is used twice is summed in f32, then narrowed.
// CHECK-LABEL: func.func @train_step(
// CHECK: %[[A:.*]] = mpcomm.dot_general {{.*}} -> tensor<4x4xbf16>
// CHECK: %[[B:.*]] = mpcomm.gather_grad {{.*}} -> tensor<4x4xf32>
// CHECK: %[[AF:.*]] = arith.extf %[[A]]
// CHECK: %[[S:.*]] = arith.addf %[[AF]], %[[B]] : tensor<4x4xf32>
// CHECK-NEXT: %[[S16:.*]] = arith.truncf %[[S]]
// CHECK-NEXT: %[[SF:.*]] = arith.extf %[[S16]]
// CHECK: mpcomm.sgd_update %{{.*}}, %[[SF]]
func.func @train_step(%w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
                      %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
                      %x: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
                      %i: tensor<4xi64> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "i"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %l = mpcomm.reduce sum %x, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  %a = mpcomm.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = mpcomm.gather_grad %x, %i : (tensor<4x4xf32>, tensor<4xi64>) -> tensor<4x4xf32>
  %s = arith.addf %a, %b : tensor<4x4xf32>
  %n = mpcomm.sgd_update %w, %s, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %l, %n : tensor<f32>, tensor<4x4xf32>
}

// -----

// A parameter that nothing updates is narrowed in the step. One op is told to run
// narrow, one in full, whatever their classes are; f64 is left alone.
// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: %[[W:[^:]+]]: tensor<4x4xf32>
// CHECK-SAME: -> (tensor<f32>
// CHECK-NOT: copy_of
// CHECK: %[[W16:.*]] = arith.truncf %[[W]]
// CHECK: %[[A:.*]] = mpcomm.dot_general %[[W16]], %[[W16]]
// CHECK: mpcomm.softmax %[[A]], dim = 1 {mpcomm.precision = "lower_precision"} : tensor<4x4xbf16>
// CHECK: mpcomm.dot_general %[[W]], %[[W]], {{.*}} {mpcomm.precision = "fp32"} : (tensor<4x4xf32>
// CHECK: mpcomm.dot_general {{.*}} -> tensor<4x4xf64>
func.func @train_step(%w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %a = mpcomm.dot_general %w, %w, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = mpcomm.softmax %a, dim = 1 {mpcomm.precision = "lower_precision"} : tensor<4x4xf32>
  %b = mpcomm.dot_general %w, %w, contracting_dims = [1] x [1] {mpcomm.precision = "fp32"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = arith.extf %b : tensor<4x4xf32> to tensor<4x4xf64>
  %e = mpcomm.dot_general %d, %d, contracting_dims = [1] x [0] : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  %f = arith.truncf %e : tensor<4x4xf64> to tensor<4x4xf32>
  %t = arith.addf %s, %f : tensor<4x4xf32>
  %l = mpcomm.reduce sum %t, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
