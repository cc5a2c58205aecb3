// What is not exactly attention stays as it was, and a remark says why if it is
// close.

// RUN: mpcomm-opt %s --mpcomm-fuse-attention --split-input-file \
// RUN:   | FileCheck %s --implicit-check-not="mpcomm.attention"
// RUN: mpcomm-opt %s --mpcomm-fuse-attention --split-input-file \
// RUN:   --remarks-filter="mpcomm.*" --remark-format=emitRemark -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK --implicit-check-not=FusedAttention
// RUN: mpcomm-opt %s --mpcomm-fuse-attention=shapes=all --split-input-file \
// RUN:   | FileCheck %s --check-prefix=ALL

// There are no kernels of f32.

// REMARK: AttentionNotFused{{.*}}Function=f32{{.*}}its products are in f32, expected bf16 or f16
// CHECK-LABEL: func.func @f32(
// CHECK: mpcomm.softmax
func.func @f32(%q: tensor<2x8x3x16xf32>, %k: tensor<2x8x3x16xf32>, %v: tensor<2x8x3x16xf32>) -> tensor<2x3x8x16xf32> {
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xf32>, tensor<2x8x3x16xf32>) -> tensor<2x3x8x8xf32>
  %p = mpcomm.softmax %s, dim = 3 : tensor<2x3x8x8xf32>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xf32>, tensor<2x8x3x16xf32>) -> tensor<2x3x8x16xf32>
  return %o : tensor<2x3x8x16xf32>
}

// -----

// The step returns the probabilities.

// REMARK: AttentionNotFused{{.*}}Function=another_user{{.*}}the probabilities have another user, func.return
// CHECK-LABEL: func.func @another_user(
// CHECK: mpcomm.softmax
func.func @another_user(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>) -> (tensor<2x3x8x16xbf16>, tensor<2x3x8x8xf32>) {
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %w = arith.extf %s : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %y = mpcomm.softmax %w, dim = 3 : tensor<2x3x8x8xf32>
  %p = arith.truncf %y : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o, %y : tensor<2x3x8x16xbf16>, tensor<2x3x8x8xf32>
}

// -----

// REMARK: AttentionNotFused{{.*}}Function=scores_kept{{.*}}the scores have more than one user
// CHECK-LABEL: func.func @scores_kept(
// CHECK: mpcomm.softmax
func.func @scores_kept(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>) -> (tensor<2x3x8x16xbf16>, tensor<2x3x8x8xf32>) {
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %w = arith.extf %s : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %y = mpcomm.softmax %w, dim = 3 : tensor<2x3x8x8xf32>
  %p = arith.truncf %y : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o, %w : tensor<2x3x8x16xbf16>, tensor<2x3x8x8xf32>
}

// -----

// REMARK: AttentionNotFused{{.*}}Function=dropout{{.*}}the probabilities have another user, mpcomm.dropout
// CHECK-LABEL: func.func @dropout(
// CHECK: mpcomm.softmax
func.func @dropout(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>, %seed: tensor<2xi32>) -> tensor<2x3x8x16xbf16> {
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %w = arith.extf %s : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %y = mpcomm.softmax %w, dim = 3 : tensor<2x3x8x8xf32>
  %z = mpcomm.dropout %y, %seed, p = 0.1, id = 0 : (tensor<2x3x8x8xf32>, tensor<2xi32>) -> tensor<2x3x8x8xf32>
  %p = arith.truncf %z : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o : tensor<2x3x8x16xbf16>
}

// -----

// REMARK: AttentionNotFused{{.*}}Function=mask_of_samples{{.*}}the mask differs between samples or heads
// CHECK-LABEL: func.func @mask_of_samples(
// CHECK: mpcomm.softmax
func.func @mask_of_samples(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>, %m: tensor<2x8x8xi1>) -> tensor<2x3x8x16xbf16> {
  %inf = arith.constant dense<0xFF80> : tensor<2x3x8x8xbf16>
  %mb = mpcomm.broadcast_in_dim %m, dims = [0, 2, 3] : (tensor<2x8x8xi1>) -> tensor<2x3x8x8xi1>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %x = arith.select %mb, %s, %inf : tensor<2x3x8x8xi1>, tensor<2x3x8x8xbf16>
  %w = arith.extf %x : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %y = mpcomm.softmax %w, dim = 3 : tensor<2x3x8x8xf32>
  %p = arith.truncf %y : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o : tensor<2x3x8x16xbf16>
}

// -----

// A row of which all is left out is a mean of all then.

// REMARK: AttentionNotFused{{.*}}Function=finite_mask{{.*}}a select gives something other than -inf to what it leaves out
// CHECK-LABEL: func.func @finite_mask(
// CHECK: mpcomm.softmax
func.func @finite_mask(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>, %m: tensor<8x8xi1>) -> tensor<2x3x8x16xbf16> {
  %inf = arith.constant dense<-1.0e+04> : tensor<2x3x8x8xbf16>
  %mb = mpcomm.broadcast_in_dim %m, dims = [2, 3] : (tensor<8x8xi1>) -> tensor<2x3x8x8xi1>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %x = arith.select %mb, %s, %inf : tensor<2x3x8x8xi1>, tensor<2x3x8x8xbf16>
  %w = arith.extf %x : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %y = mpcomm.softmax %w, dim = 3 : tensor<2x3x8x8xf32>
  %p = arith.truncf %y : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o : tensor<2x3x8x16xbf16>
}

// -----

// REMARK: AttentionNotFused{{.*}}Function=two_biases{{.*}}more than one mask is added to the scores
// CHECK-LABEL: func.func @two_biases(
// CHECK: mpcomm.softmax
func.func @two_biases(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>, %b: tensor<2x3x8x8xbf16>) -> tensor<2x3x8x16xbf16> {
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %z = arith.addf %s, %b : tensor<2x3x8x8xbf16>
  %x = arith.addf %b, %z : tensor<2x3x8x8xbf16>
  %w = arith.extf %x : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %y = mpcomm.softmax %w, dim = 3 : tensor<2x3x8x8xf32>
  %p = arith.truncf %y : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o : tensor<2x3x8x16xbf16>
}

// -----

// REMARK: AttentionNotFused{{.*}}Function=scaled_bias{{.*}}the scores are scaled after a mask is added
// CHECK-LABEL: func.func @scaled_bias(
// CHECK: mpcomm.softmax
func.func @scaled_bias(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>, %b: tensor<2x3x8x8xbf16>) -> tensor<2x3x8x16xbf16> {
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %c = arith.constant dense<0.25> : tensor<2x3x8x8xbf16>
  %z = arith.addf %s, %b : tensor<2x3x8x8xbf16>
  %x = arith.mulf %c, %z : tensor<2x3x8x8xbf16>
  %w = arith.extf %x : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %y = mpcomm.softmax %w, dim = 3 : tensor<2x3x8x8xf32>
  %p = arith.truncf %y : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o : tensor<2x3x8x16xbf16>
}

// -----

// A bias of columns that is a parameter: kernels do not sum over rows.

// REMARK: AttentionNotFused{{.*}}Function=columns_gradient{{.*}}the mask that is added needs a gradient, and is the same for all rows or for all columns
// CHECK-LABEL: func.func @columns_gradient(
// CHECK: mpcomm.softmax
func.func @columns_gradient(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>, %do: tensor<2x8x3x16xbf16>, %b: tensor<3x8xf32>) -> (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<3x8xf32>) {
  %bb = mpcomm.broadcast_in_dim %b, dims = [1, 3] : (tensor<3x8xf32>) -> tensor<2x3x8x8xf32>
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
  %db = mpcomm.reduce sum %dy, dims = [0, 2] : (tensor<2x3x8x8xf32>) -> tensor<3x8xf32>
  %dd = arith.mulf %dy, %c : tensor<2x3x8x8xf32>
  %ds = arith.truncf %dd : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %dq = mpcomm.dot_general %ds, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dk = mpcomm.dot_general %ds, %q, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o, %dq, %dk, %dv, %db : tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<3x8xf32>
}

// -----

// Not a sum over the samples alone, for which the bias is the same, but over
// columns too.

// REMARK: AttentionNotFused{{.*}}Function=longer_sum{{.*}}the mask that is added needs a gradient, and the gradients of scores are summed over more than it is the same for
// CHECK-LABEL: func.func @longer_sum(
// CHECK: mpcomm.softmax
func.func @longer_sum(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>, %do: tensor<2x8x3x16xbf16>, %b: tensor<3x8x8xf32>) -> (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<3x8xf32>) {
  %bb = mpcomm.broadcast_in_dim %b, dims = [1, 2, 3] : (tensor<3x8x8xf32>) -> tensor<2x3x8x8xf32>
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
  %db = mpcomm.reduce sum %dy, dims = [0, 3] : (tensor<2x3x8x8xf32>) -> tensor<3x8xf32>
  %dd = arith.mulf %dy, %c : tensor<2x3x8x8xf32>
  %ds = arith.truncf %dd : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %dq = mpcomm.dot_general %ds, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dk = mpcomm.dot_general %ds, %q, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o, %dq, %dk, %dv, %db : tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<3x8xf32>
}

// -----

// No sum.

// REMARK: AttentionNotFused{{.*}}Function=largest_gradient{{.*}}the mask that is added needs a gradient: the gradients of scores have another user, mpcomm.reduce
// CHECK-LABEL: func.func @largest_gradient(
// CHECK: mpcomm.softmax
func.func @largest_gradient(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>, %do: tensor<2x8x3x16xbf16>, %b: tensor<3x8x8xf32>) -> (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<3x8x8xf32>) {
  %bb = mpcomm.broadcast_in_dim %b, dims = [1, 2, 3] : (tensor<3x8x8xf32>) -> tensor<2x3x8x8xf32>
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
  %db = mpcomm.reduce max %dy, dims = [0] : (tensor<2x3x8x8xf32>) -> tensor<3x8x8xf32>
  %dd = arith.mulf %dy, %c : tensor<2x3x8x8xf32>
  %ds = arith.truncf %dd : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %dq = mpcomm.dot_general %ds, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dk = mpcomm.dot_general %ds, %q, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o, %dq, %dk, %dv, %db : tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<3x8x8xf32>
}

// -----

// Three batching dimensions are samples of one head, along which the bias would
// have to be repeated.

// REMARK: AttentionNotFused{{.*}}Function=repeated_bias{{.*}}the mask that is added would have to be repeated for samples or heads
// CHECK-LABEL: func.func @repeated_bias(
// CHECK: mpcomm.softmax
func.func @repeated_bias(%q: tensor<2x5x3x8x16xbf16>, %b: tensor<5x1x8x8xbf16>) -> tensor<2x5x3x8x16xbf16> {
  %s = mpcomm.dot_general %q, %q, batching_dims = [0, 1, 2] x [0, 1, 2], contracting_dims = [4] x [4] : (tensor<2x5x3x8x16xbf16>, tensor<2x5x3x8x16xbf16>) -> tensor<2x5x3x8x8xbf16>
  %bb = mpcomm.broadcast_in_dim %b, dims = [1, 2, 3, 4] : (tensor<5x1x8x8xbf16>) -> tensor<2x5x3x8x8xbf16>
  %x = arith.addf %s, %bb : tensor<2x5x3x8x8xbf16>
  %y = mpcomm.softmax %x, dim = 4 : tensor<2x5x3x8x8xbf16>
  %o = mpcomm.dot_general %y, %q, batching_dims = [0, 1, 2] x [0, 1, 2], contracting_dims = [4] x [3] : (tensor<2x5x3x8x8xbf16>, tensor<2x5x3x8x16xbf16>) -> tensor<2x5x3x8x16xbf16>
  return %o : tensor<2x5x3x8x16xbf16>
}

// -----

// The zeros are not those of rows of -inf.

// REMARK: AttentionNotFused{{.*}}Function=other_zeros{{.*}}the scores have more than one user
// CHECK-LABEL: func.func @other_zeros(
// CHECK: mpcomm.softmax
func.func @other_zeros(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16> {
  %inf = arith.constant dense<0xFF80> : tensor<2x3x8xbf16>
  %zero = arith.constant dense<0.0> : tensor<2x3x8x8xbf16>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %t = mpcomm.reduce min %s, dims = [3] : (tensor<2x3x8x8xbf16>) -> tensor<2x3x8xbf16>
  %n = arith.cmpf oeq, %t, %inf : tensor<2x3x8xbf16>
  %nb = mpcomm.broadcast_in_dim %n, dims = [0, 1, 2] : (tensor<2x3x8xi1>) -> tensor<2x3x8x8xi1>
  %y = mpcomm.softmax %s, dim = 3 : tensor<2x3x8x8xbf16>
  %p = arith.select %nb, %zero, %y : tensor<2x3x8x8xi1>, tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o : tensor<2x3x8x16xbf16>
}

// -----

// The number would turn what is left out into what counts most.

// REMARK: AttentionNotFused{{.*}}Function=negative_scale{{.*}}the scores go through arith.mulf
// CHECK-LABEL: func.func @negative_scale(
// CHECK: mpcomm.softmax
func.func @negative_scale(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16> {
  %c = arith.constant dense<-1.0> : tensor<2x3x8x8xbf16>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %x = arith.mulf %s, %c : tensor<2x3x8x8xbf16>
  %w = arith.extf %x : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %y = mpcomm.softmax %w, dim = 3 : tensor<2x3x8x8xf32>
  %p = arith.truncf %y : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o : tensor<2x3x8x16xbf16>
}

// -----

// Weights of queries, not of keys.

// REMARK: AttentionNotFused{{.*}}Function=queries_along_rows{{.*}}the softmax is not along the keys
// CHECK-LABEL: func.func @queries_along_rows(
// CHECK: mpcomm.softmax
func.func @queries_along_rows(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16> {
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %w = arith.extf %s : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %y = mpcomm.softmax %w, dim = 1 : tensor<2x3x8x8xf32>
  %p = arith.truncf %y : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o : tensor<2x3x8x16xbf16>
}

// -----

// Kernels take depths of a multiple of 16; the op takes any.

// REMARK: AttentionNotFused{{.*}}Function=shallow{{.*}}no kernel takes its shape
// CHECK-LABEL: func.func @shallow(
// CHECK: mpcomm.softmax
// ALL-LABEL: func.func @shallow(
// ALL: mpcomm.attention
func.func @shallow(%q: tensor<2x8x3x8xbf16>, %k: tensor<2x8x3x8xbf16>, %v: tensor<2x8x3x8xbf16>) -> tensor<2x3x8x8xbf16> {
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x8xbf16>, tensor<2x8x3x8xbf16>) -> tensor<2x3x8x8xbf16>
  %w = arith.extf %s : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %y = mpcomm.softmax %w, dim = 3 : tensor<2x3x8x8xf32>
  %p = arith.truncf %y : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x8xbf16>) -> tensor<2x3x8x8xbf16>
  return %o : tensor<2x3x8x8xbf16>
}

// -----

// REMARK: AttentionNotFused{{.*}}Function=other_depth{{.*}}values have another depth than queries
// CHECK-LABEL: func.func @other_depth(
// CHECK: mpcomm.softmax
func.func @other_depth(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x32xbf16>) -> tensor<2x3x8x32xbf16> {
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %w = arith.extf %s : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %y = mpcomm.softmax %w, dim = 3 : tensor<2x3x8x8xf32>
  %p = arith.truncf %y : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x32xbf16>) -> tensor<2x3x8x32xbf16>
  return %o : tensor<2x3x8x32xbf16>
}

// -----

// The backward pass does not scale.

// REMARK: AttentionNotFused{{.*}}Function=other_scale{{.*}}the backward pass scales by another number than the forward pass
// CHECK-LABEL: func.func @other_scale(
// CHECK: mpcomm.softmax
func.func @other_scale(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>, %do: tensor<2x8x3x16xbf16>) -> (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>) {
  %c = arith.constant dense<0.25> : tensor<2x3x8x8xf32>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %w = arith.extf %s : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %z = arith.mulf %w, %c : tensor<2x3x8x8xf32>
  %y = mpcomm.softmax %z, dim = 3 : tensor<2x3x8x8xf32>
  %p = arith.truncf %y : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %one = arith.constant dense<1.0> : tensor<2x3x8x8xf32>
  %dv = mpcomm.dot_general %p, %do, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dp = mpcomm.dot_general %do, %v, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %dpw = arith.extf %dp : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %dy = mpcomm.softmax_grad %dpw, %y, dim = 3 : tensor<2x3x8x8xf32>
  %dd = arith.mulf %dy, %one : tensor<2x3x8x8xf32>
  %ds = arith.truncf %dd : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %dq = mpcomm.dot_general %ds, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dk = mpcomm.dot_general %ds, %q, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o, %dq, %dk, %dv : tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>
}

// -----

// What the gradient of the scores multiplies is not the queries.

// REMARK: AttentionNotFused{{.*}}Function=other_queries{{.*}}the gradients of scores have another user, mpcomm.dot_general
// CHECK-LABEL: func.func @other_queries(
// CHECK: mpcomm.softmax
func.func @other_queries(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>, %do: tensor<2x8x3x16xbf16>) -> (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>) {
  %c = arith.constant dense<0.25> : tensor<2x3x8x8xf32>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %w = arith.extf %s : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %z = arith.mulf %w, %c : tensor<2x3x8x8xf32>
  %y = mpcomm.softmax %z, dim = 3 : tensor<2x3x8x8xf32>
  %p = arith.truncf %y : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dv = mpcomm.dot_general %p, %do, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dp = mpcomm.dot_general %do, %v, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %dpw = arith.extf %dp : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %dy = mpcomm.softmax_grad %dpw, %y, dim = 3 : tensor<2x3x8x8xf32>
  %dd = arith.mulf %dy, %c : tensor<2x3x8x8xf32>
  %ds = arith.truncf %dd : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %dq = mpcomm.dot_general %ds, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dk = mpcomm.dot_general %ds, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o, %dq, %dk, %dv : tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>
}

// -----

// Two gradients of the output.

// REMARK: AttentionNotFused{{.*}}Function=other_gradient{{.*}}the backward pass reads two gradients of the output
// CHECK-LABEL: func.func @other_gradient(
// CHECK: mpcomm.softmax
func.func @other_gradient(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>, %do: tensor<2x8x3x16xbf16>, %other: tensor<2x8x3x16xbf16>) -> (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>) {
  %c = arith.constant dense<0.25> : tensor<2x3x8x8xf32>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %w = arith.extf %s : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %z = arith.mulf %w, %c : tensor<2x3x8x8xf32>
  %y = mpcomm.softmax %z, dim = 3 : tensor<2x3x8x8xf32>
  %p = arith.truncf %y : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dv = mpcomm.dot_general %p, %do, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dp = mpcomm.dot_general %other, %v, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %dpw = arith.extf %dp : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %dy = mpcomm.softmax_grad %dpw, %y, dim = 3 : tensor<2x3x8x8xf32>
  %dd = arith.mulf %dy, %c : tensor<2x3x8x8xf32>
  %ds = arith.truncf %dd : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %dq = mpcomm.dot_general %ds, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dk = mpcomm.dot_general %ds, %q, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o, %dq, %dk, %dv : tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>
}

// -----

// REMARK: AttentionNotFused{{.*}}Function=other_values{{.*}}the gradient of the probabilities is not that of a product with the values
// CHECK-LABEL: func.func @other_values(
// CHECK: mpcomm.softmax
func.func @other_values(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>, %do: tensor<2x8x3x16xbf16>) -> (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>) {
  %c = arith.constant dense<0.25> : tensor<2x3x8x8xf32>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %w = arith.extf %s : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %z = arith.mulf %w, %c : tensor<2x3x8x8xf32>
  %y = mpcomm.softmax %z, dim = 3 : tensor<2x3x8x8xf32>
  %p = arith.truncf %y : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dv = mpcomm.dot_general %p, %do, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dp = mpcomm.dot_general %do, %q, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %dpw = arith.extf %dp : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %dy = mpcomm.softmax_grad %dpw, %y, dim = 3 : tensor<2x3x8x8xf32>
  %dd = arith.mulf %dy, %c : tensor<2x3x8x8xf32>
  %ds = arith.truncf %dd : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %dq = mpcomm.dot_general %ds, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dk = mpcomm.dot_general %ds, %q, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o, %dq, %dk, %dv : tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>
}

// -----

// The backward pass leaves out what the forward pass does not.

// REMARK: AttentionNotFused{{.*}}Function=mask_in_backward{{.*}}the backward pass has another mask than the forward pass
// CHECK-LABEL: func.func @mask_in_backward(
// CHECK: mpcomm.softmax
func.func @mask_in_backward(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>, %do: tensor<2x8x3x16xbf16>, %m: tensor<8x8xi1>) -> (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>) {
  %c = arith.constant dense<0.25> : tensor<2x3x8x8xf32>
  %zero = arith.constant dense<0.0> : tensor<2x3x8x8xf32>
  %mb = mpcomm.broadcast_in_dim %m, dims = [2, 3] : (tensor<8x8xi1>) -> tensor<2x3x8x8xi1>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %w = arith.extf %s : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %z = arith.mulf %w, %c : tensor<2x3x8x8xf32>
  %y = mpcomm.softmax %z, dim = 3 : tensor<2x3x8x8xf32>
  %p = arith.truncf %y : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dv = mpcomm.dot_general %p, %do, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dp = mpcomm.dot_general %do, %v, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %dpw = arith.extf %dp : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %dy = mpcomm.softmax_grad %dpw, %y, dim = 3 : tensor<2x3x8x8xf32>
  %dx = arith.select %mb, %dy, %zero : tensor<2x3x8x8xi1>, tensor<2x3x8x8xf32>
  %dd = arith.mulf %dx, %c : tensor<2x3x8x8xf32>
  %ds = arith.truncf %dd : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %dq = mpcomm.dot_general %ds, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dk = mpcomm.dot_general %ds, %q, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o, %dq, %dk, %dv : tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>
}

// -----

// A step that returns the gradient of the scores.

// REMARK: AttentionNotFused{{.*}}Function=gradient_kept{{.*}}the gradients of scores have another user, func.return
// CHECK-LABEL: func.func @gradient_kept(
// CHECK: mpcomm.softmax
func.func @gradient_kept(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>, %do: tensor<2x8x3x16xbf16>) -> (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x8xf32>) {
  %c = arith.constant dense<0.25> : tensor<2x3x8x8xf32>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %w = arith.extf %s : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %z = arith.mulf %w, %c : tensor<2x3x8x8xf32>
  %y = mpcomm.softmax %z, dim = 3 : tensor<2x3x8x8xf32>
  %p = arith.truncf %y : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dv = mpcomm.dot_general %p, %do, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dp = mpcomm.dot_general %do, %v, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %dpw = arith.extf %dp : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %dy = mpcomm.softmax_grad %dpw, %y, dim = 3 : tensor<2x3x8x8xf32>
  %dd = arith.mulf %dy, %c : tensor<2x3x8x8xf32>
  %ds = arith.truncf %dd : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %dq = mpcomm.dot_general %ds, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dk = mpcomm.dot_general %ds, %q, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o, %dq, %dk, %dv, %dy : tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x8xf32>
}

// -----

// Rows get zeros by the largest of scores in 16 bits, among which one that is
// not -inf in 32 may be.

// REMARK: AttentionNotFused{{.*}}Function=zeros_of_rounded{{.*}}the scores have more than one user
// CHECK-LABEL: func.func @zeros_of_rounded(
// CHECK: mpcomm.softmax
func.func @zeros_of_rounded(%q: tensor<2x3x8x16xf16>, %k: tensor<2x3x4x16xf16>, %b: tensor<2x3x8x4xf32>) -> tensor<2x3x8x16xf16> {
  %inf = arith.constant dense<0xFC00> : tensor<2x3x8xf16>
  %zero = arith.constant dense<0.0> : tensor<2x3x8x4xf32>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x8x16xf16>, tensor<2x3x4x16xf16>) -> tensor<2x3x8x4xf16>
  %w = arith.extf %s : tensor<2x3x8x4xf16> to tensor<2x3x8x4xf32>
  %x = arith.addf %b, %w : tensor<2x3x8x4xf32>
  %n = arith.truncf %x : tensor<2x3x8x4xf32> to tensor<2x3x8x4xf16>
  %m = mpcomm.reduce max %n, dims = [3] : (tensor<2x3x8x4xf16>) -> tensor<2x3x8xf16>
  %c = arith.cmpf oeq, %m, %inf : tensor<2x3x8xf16>
  %r = mpcomm.broadcast_in_dim %c, dims = [0, 1, 2] : (tensor<2x3x8xi1>) -> tensor<2x3x8x4xi1>
  %y = mpcomm.softmax %x, dim = 3 : tensor<2x3x8x4xf32>
  %z = arith.select %r, %zero, %y : tensor<2x3x8x4xi1>, tensor<2x3x8x4xf32>
  %p = arith.truncf %z : tensor<2x3x8x4xf32> to tensor<2x3x8x4xf16>
  %o = mpcomm.dot_general %p, %k, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x4xf16>, tensor<2x3x4x16xf16>) -> tensor<2x3x8x16xf16>
  return %o : tensor<2x3x8x16xf16>
}
