// Attention whose bias is trained: the sum of the gradients of scores that the
// step takes, in whatever steps, is a result of attention_grad.

// RUN: mpcomm-opt %s --mpcomm-fuse-attention --split-input-file \
// RUN:   | FileCheck %s --implicit-check-not=mpcomm.softmax
// RUN: mpcomm-opt %s --mpcomm-fuse-attention --split-input-file \
// RUN:   --remarks-filter="mpcomm.*" --remark-format=emitRemark -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK

// A table of heads, rows and columns: the sum over samples.

// REMARK: FusedAttention{{.*}}Function=heads | biased=1, {{.*}} trainedBias=1
// CHECK-LABEL: func.func @heads(
// CHECK: mpcomm.attention {{.*}} bias %[[B:.*]] scale
// CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %[[DB:.*]] = mpcomm.attention_grad {{.*}} bias %[[B]] scale = 2.500000e-01 bias_grad : {{.*}} tensor<1x3x8x8xf32>)
// CHECK: %[[R:.*]] = mpcomm.reshape %[[DB]] : (tensor<1x3x8x8xf32>) -> tensor<3x8x8xf32>
// CHECK-NOT: mpcomm.reduce
// CHECK: return {{.*}}, %[[R]] :
func.func @heads(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>, %do: tensor<2x8x3x16xbf16>, %b: tensor<1x3x8x8xf32>) -> (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<3x8x8xf32>) {
  %bb = mpcomm.broadcast_in_dim %b, dims = [0, 1, 2, 3] : (tensor<1x3x8x8xf32>) -> tensor<2x3x8x8xf32>
  %c = arith.constant dense<0.25> : tensor<2x3x8x8xf32>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %w = arith.extf %s : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %z = arith.mulf %w, %c : tensor<2x3x8x8xf32>
  %x = arith.addf %z, %bb : tensor<2x3x8x8xf32>
  %y = mpcomm.softmax %x, dim = 3 : tensor<2x3x8x8xf32>
  %p = arith.truncf %y : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dv = mpcomm.dot_general %p, %do, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dp = mpcomm.dot_general %do, %v, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %dpw = arith.extf %dp : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %dy = mpcomm.softmax_grad %dpw, %y, dim = 3 : tensor<2x3x8x8xf32>
  %db = mpcomm.reduce sum %dy, dims = [0] : (tensor<2x3x8x8xf32>) -> tensor<3x8x8xf32>
  %dd = arith.mulf %dy, %c : tensor<2x3x8x8xf32>
  %ds = arith.truncf %dd : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %dq = mpcomm.dot_general %ds, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dk = mpcomm.dot_general %ds, %q, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o, %dq, %dk, %dv, %db : tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<3x8x8xf32>
}

// -----

// One table for all, transposed, under a mask: the sum in 16 bits over samples
// and then over heads, times a number.

// REMARK: FusedAttention{{.*}}Function=steps | biased=1, {{.*}} masked=1, {{.*}} trainedBias=1
// CHECK-LABEL: func.func @steps(
// CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %[[DB:.*]] = mpcomm.attention_grad {{.*}} mask %{{.*}} bias %{{.*}} bias_grad : {{.*}} tensor<1x1x8x8xf32>)
// CHECK: %[[R:.*]] = mpcomm.reshape %[[DB]] : (tensor<1x1x8x8xf32>) -> tensor<8x8xf32>
// CHECK: %[[T:.*]] = mpcomm.transpose %[[R]], dims = [1, 0]
// CHECK: %[[M:.*]] = arith.mulf %[[T]], %{{.*}}
// CHECK: %[[N:.*]] = arith.truncf %[[M]] : tensor<8x8xf32> to tensor<8x8xbf16>
// CHECK-NOT: mpcomm.reduce
// CHECK: return {{.*}}, %[[N]] :
func.func @steps(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>, %do: tensor<2x8x3x16xbf16>, %b: tensor<8x8xf32>, %m: tensor<8x8xi1>) -> (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<8x8xbf16>) {
  %bt = mpcomm.transpose %b, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %bb = mpcomm.broadcast_in_dim %bt, dims = [2, 3] : (tensor<8x8xf32>) -> tensor<2x3x8x8xf32>
  %c = arith.constant dense<0.25> : tensor<2x3x8x8xf32>
  %inf = arith.constant dense<0xFF800000> : tensor<2x3x8x8xf32>
  %zero = arith.constant dense<0.0> : tensor<2x3x8x8xf32>
  %mb = mpcomm.broadcast_in_dim %m, dims = [2, 3] : (tensor<8x8xi1>) -> tensor<2x3x8x8xi1>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %w = arith.extf %s : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %z = arith.mulf %w, %c : tensor<2x3x8x8xf32>
  %a = arith.addf %z, %bb : tensor<2x3x8x8xf32>
  %x = arith.select %mb, %a, %inf : tensor<2x3x8x8xi1>, tensor<2x3x8x8xf32>
  %y = mpcomm.softmax %x, dim = 3 : tensor<2x3x8x8xf32>
  %p = arith.truncf %y : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dv = mpcomm.dot_general %p, %do, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dp = mpcomm.dot_general %do, %v, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %dpw = arith.extf %dp : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %dx = mpcomm.softmax_grad %dpw, %y, dim = 3 : tensor<2x3x8x8xf32>
  %dy = arith.select %mb, %dx, %zero : tensor<2x3x8x8xi1>, tensor<2x3x8x8xf32>
  %two = arith.constant dense<2.0> : tensor<2x8x8x3xbf16>
  %dn = arith.truncf %dy : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %dt = mpcomm.transpose %dn, dims = [0, 3, 2, 1] : (tensor<2x3x8x8xbf16>) -> tensor<2x8x8x3xbf16>
  %d2 = arith.mulf %dt, %two : tensor<2x8x8x3xbf16>
  %d0 = mpcomm.reduce sum %d2, dims = [0] : (tensor<2x8x8x3xbf16>) -> tensor<8x8x3xbf16>
  %db = mpcomm.reduce sum %d0, dims = [2] : (tensor<8x8x3xbf16>) -> tensor<8x8xbf16>
  %dd = arith.mulf %dy, %c : tensor<2x3x8x8xf32>
  %ds = arith.truncf %dd : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %dq = mpcomm.dot_general %ds, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dk = mpcomm.dot_general %ds, %q, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o, %dq, %dk, %dv, %db : tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<8x8xbf16>
}

// -----

// A bias of all scores: there is no sum, and what reads their gradients reads
// the bias's.

// REMARK: FusedAttention{{.*}}Function=all | biased=1, {{.*}} trainedBias=1
// CHECK-LABEL: func.func @all(
// CHECK-SAME: %[[B:[^:]*]]: tensor<2x3x8x8xf32>)
// CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %[[DB:.*]] = mpcomm.attention_grad {{.*}} bias %{{.*}} bias_grad : {{.*}} tensor<2x3x8x8xf32>)
// CHECK: %[[N:.*]] = arith.negf %[[DB]]
// CHECK: %[[M:.*]] = arith.mulf %[[DB]], %[[B]]
// CHECK: %[[A:.*]] = arith.addf %[[N]], %[[M]]
// CHECK: return {{.*}}, %[[A]] :
func.func @all(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>, %do: tensor<2x8x3x16xbf16>, %b: tensor<2x3x8x8xf32>) -> (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x8xf32>) {
  %e = math.exp %b : tensor<2x3x8x8xf32>
  %bb = arith.negf %e : tensor<2x3x8x8xf32>
  %c = arith.constant dense<0.25> : tensor<2x3x8x8xf32>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %w = arith.extf %s : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %z = arith.mulf %w, %c : tensor<2x3x8x8xf32>
  %x = arith.addf %z, %bb : tensor<2x3x8x8xf32>
  %y = mpcomm.softmax %x, dim = 3 : tensor<2x3x8x8xf32>
  %p = arith.truncf %y : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dv = mpcomm.dot_general %p, %do, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dp = mpcomm.dot_general %do, %v, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %dpw = arith.extf %dp : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %dy = mpcomm.softmax_grad %dpw, %y, dim = 3 : tensor<2x3x8x8xf32>
  %n = arith.negf %dy : tensor<2x3x8x8xf32>
  %l = arith.mulf %dy, %b : tensor<2x3x8x8xf32>
  %db = arith.addf %n, %l : tensor<2x3x8x8xf32>
  %dd = arith.mulf %dy, %c : tensor<2x3x8x8xf32>
  %ds = arith.truncf %dd : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %dq = mpcomm.dot_general %ds, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dk = mpcomm.dot_general %ds, %q, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o, %dq, %dk, %dv, %db : tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x8xf32>
}

// -----

// Heads outside rows: samples and heads together are samples of one head, of
// the gradient of the bias too.

// CHECK-LABEL: func.func @flat(
// CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %[[DB:.*]] = mpcomm.attention_grad {{.*}} bias_grad : {{.*}} tensor<6x1x8x8xf32>)
// CHECK: %[[R:.*]] = mpcomm.reshape %[[DB]] : (tensor<6x1x8x8xf32>) -> tensor<2x3x8x8xf32>
// CHECK: return {{.*}}, %[[R]] :
func.func @flat(%q: tensor<2x3x8x16xbf16>, %k: tensor<2x3x8x16xbf16>, %v: tensor<2x3x8x16xbf16>, %do: tensor<2x3x8x16xbf16>, %b: tensor<2x3x8x8xf32>) -> (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x8xf32>) {
  %bb = arith.negf %b : tensor<2x3x8x8xf32>
  %c = arith.constant dense<0.25> : tensor<2x3x8x8xf32>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>) -> tensor<2x3x8x8xbf16>
  %w = arith.extf %s : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %z = arith.mulf %w, %c : tensor<2x3x8x8xf32>
  %x = arith.addf %z, %bb : tensor<2x3x8x8xf32>
  %y = mpcomm.softmax %x, dim = 3 : tensor<2x3x8x8xf32>
  %p = arith.truncf %y : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x8xbf16>, tensor<2x3x8x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dv = mpcomm.dot_general %p, %do, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2] : (tensor<2x3x8x8xbf16>, tensor<2x3x8x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dp = mpcomm.dot_general %do, %v, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>) -> tensor<2x3x8x8xbf16>
  %dpw = arith.extf %dp : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %dy = mpcomm.softmax_grad %dpw, %y, dim = 3 : tensor<2x3x8x8xf32>
  %dd = arith.mulf %dy, %c : tensor<2x3x8x8xf32>
  %ds = arith.truncf %dd : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %dq = mpcomm.dot_general %ds, %k, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x8xbf16>, tensor<2x3x8x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dk = mpcomm.dot_general %ds, %q, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2] : (tensor<2x3x8x8xbf16>, tensor<2x3x8x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o, %dq, %dk, %dv, %dy : tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x8xf32>
}
