// Attention that is written out becomes one op, and so does its gradient; no
// scores and no probabilities are left.

// RUN: mpcomm-opt %s --mpcomm-fuse-attention --split-input-file | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-fuse-attention --split-input-file \
// RUN:   --remarks-filter="mpcomm.*" --remark-format=emitRemark -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK
// RUN: mpcomm-opt %s --mpcomm-fuse-attention=numerics=exact --split-input-file \
// RUN:   --remarks-filter="mpcomm.*" --remark-format=emitRemark 2>&1 \
// RUN:   | FileCheck %s --check-prefix=EXACT

// EXACT: AttentionNotFused{{.*}}Function=gpt{{.*}}numerics=exact
// EXACT-NOT: mpcomm.attention
// EXACT-NOT: FusedAttention

// As mpcomm-import leaves GPT, in bf16: the scale divides, a mask for all samples
// and heads, the mask again in the backward pass, and views made twice. Scores
// are 2 * 3 * 32 * 32 of 2 bytes.

// REMARK: FusedAttention{{.*}}Function=gpt | biased=0, columns=32, depth=16, gradient=1, heads=3, masked=1, rows=32, samples=2, scoresBytes=12288
// CHECK-LABEL: func.func @gpt(
// CHECK-SAME: %[[QI:.*]]: tensor<2x32x48xbf16>, %[[KI:.*]]: tensor<2x32x48xbf16>, %[[VI:.*]]: tensor<2x32x48xbf16>, %[[M:.*]]: tensor<32x32xi1>, %[[DI:.*]]: tensor<2x32x48xbf16>)
// CHECK-NEXT: %[[Q:.*]] = mpcomm.reshape %[[QI]]
// CHECK-NEXT: %[[K:.*]] = mpcomm.reshape %[[KI]]
// CHECK-NEXT: %[[V:.*]] = mpcomm.reshape %[[VI]]
// CHECK-NEXT: %[[OUT:.*]], %[[LSE:.*]] = mpcomm.attention %[[Q]], %[[K]], %[[V]] mask %[[M]] scale = 2.500000e-01 : (tensor<2x32x3x16xbf16>, {{.*}}, tensor<32x32xi1>) -> (tensor<2x32x3x16xbf16>, tensor<2x3x32xf32>)
// CHECK-NEXT: %[[O:.*]] = mpcomm.reshape %[[OUT]] : (tensor<2x32x3x16xbf16>) -> tensor<2x32x48xbf16>
// CHECK-NEXT: %[[D:.*]] = mpcomm.reshape %[[DI]]
// CHECK-NEXT: %[[DQ:[^,]*]], %[[DK:[^,]*]], %[[DV:.*]] = mpcomm.attention_grad %[[D]], %[[Q]], %[[K]], %[[V]], %[[OUT]], %[[LSE]] mask %[[M]] scale = 2.500000e-01
// CHECK-NEXT: mpcomm.reshape %[[DQ]]
// CHECK-NEXT: mpcomm.reshape %[[DK]]
// CHECK-NEXT: mpcomm.reshape %[[DV]]
// CHECK-NEXT: mpcomm.concatenate
// CHECK-NEXT: return %[[O]]
func.func @gpt(%qi: tensor<2x32x48xbf16>, %ki: tensor<2x32x48xbf16>, %vi: tensor<2x32x48xbf16>, %m: tensor<32x32xi1>, %di: tensor<2x32x48xbf16>) -> (tensor<2x32x48xbf16>, tensor<2x32x144xbf16>) {
  %zero = arith.constant dense<0.0> : tensor<2x3x32x32xf32>
  %inf = arith.constant dense<0xFF80> : tensor<2x3x32x32xbf16>
  %four = arith.constant dense<4.0> : tensor<2x3x32x32xbf16>
  %wide = arith.constant dense<4.0> : tensor<2x3x32x32xf32>
  %q = mpcomm.reshape %qi : (tensor<2x32x48xbf16>) -> tensor<2x32x3x16xbf16>
  %k = mpcomm.reshape %ki : (tensor<2x32x48xbf16>) -> tensor<2x32x3x16xbf16>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>) -> tensor<2x3x32x32xbf16>
  %d = arith.divf %s, %four : tensor<2x3x32x32xbf16>
  %mb = mpcomm.broadcast_in_dim %m, dims = [2, 3] : (tensor<32x32xi1>) -> tensor<2x3x32x32xi1>
  %x = arith.select %mb, %d, %inf : tensor<2x3x32x32xi1>, tensor<2x3x32x32xbf16>
  %xw = arith.extf %x : tensor<2x3x32x32xbf16> to tensor<2x3x32x32xf32>
  %y = mpcomm.softmax %xw, dim = 3 : tensor<2x3x32x32xf32>
  %p = arith.truncf %y : tensor<2x3x32x32xf32> to tensor<2x3x32x32xbf16>
  %v = mpcomm.reshape %vi : (tensor<2x32x48xbf16>) -> tensor<2x32x3x16xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x32x32xbf16>, tensor<2x32x3x16xbf16>) -> tensor<2x3x32x16xbf16>
  %ot = mpcomm.transpose %o, dims = [0, 2, 1, 3] : (tensor<2x3x32x16xbf16>) -> tensor<2x32x3x16xbf16>
  %or = mpcomm.reshape %ot : (tensor<2x32x3x16xbf16>) -> tensor<2x32x48xbf16>

  %do = mpcomm.reshape %di : (tensor<2x32x48xbf16>) -> tensor<2x32x3x16xbf16>
  %dv = mpcomm.dot_general %p, %do, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x32x32xbf16>, tensor<2x32x3x16xbf16>) -> tensor<2x3x32x16xbf16>
  %v2 = mpcomm.reshape %vi : (tensor<2x32x48xbf16>) -> tensor<2x32x3x16xbf16>
  %dp = mpcomm.dot_general %do, %v2, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>) -> tensor<2x3x32x32xbf16>
  %dpw = arith.extf %dp : tensor<2x3x32x32xbf16> to tensor<2x3x32x32xf32>
  %pw = arith.extf %p : tensor<2x3x32x32xbf16> to tensor<2x3x32x32xf32>
  %dy = mpcomm.softmax_grad %dpw, %pw, dim = 3 : tensor<2x3x32x32xf32>
  %mb2 = mpcomm.broadcast_in_dim %m, dims = [2, 3] : (tensor<32x32xi1>) -> tensor<2x3x32x32xi1>
  %dx = arith.select %mb2, %dy, %zero : tensor<2x3x32x32xi1>, tensor<2x3x32x32xf32>
  %dd = arith.divf %dx, %wide : tensor<2x3x32x32xf32>
  %ds = arith.truncf %dd : tensor<2x3x32x32xf32> to tensor<2x3x32x32xbf16>
  %dk = mpcomm.dot_general %ds, %q, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x32x32xbf16>, tensor<2x32x3x16xbf16>) -> tensor<2x3x32x16xbf16>
  %dq = mpcomm.dot_general %ds, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x32x32xbf16>, tensor<2x32x3x16xbf16>) -> tensor<2x3x32x16xbf16>
  %dqt = mpcomm.transpose %dq, dims = [0, 2, 1, 3] : (tensor<2x3x32x16xbf16>) -> tensor<2x32x3x16xbf16>
  %dqr = mpcomm.reshape %dqt : (tensor<2x32x3x16xbf16>) -> tensor<2x32x48xbf16>
  %dkt = mpcomm.transpose %dk, dims = [0, 2, 1, 3] : (tensor<2x3x32x16xbf16>) -> tensor<2x32x3x16xbf16>
  %dkr = mpcomm.reshape %dkt : (tensor<2x32x3x16xbf16>) -> tensor<2x32x48xbf16>
  %dvt = mpcomm.transpose %dv, dims = [0, 2, 1, 3] : (tensor<2x3x32x16xbf16>) -> tensor<2x32x3x16xbf16>
  %dvr = mpcomm.reshape %dvt : (tensor<2x32x3x16xbf16>) -> tensor<2x32x48xbf16>
  %g = mpcomm.concatenate %dqr, %dkr, %dvr, dim = 2 : (tensor<2x32x48xbf16>, tensor<2x32x48xbf16>, tensor<2x32x48xbf16>) -> tensor<2x32x144xbf16>
  return %or, %g : tensor<2x32x48xbf16>, tensor<2x32x144xbf16>
}

// -----

// As mpcomm-import leaves ViT, in f16: the queries are divided before they are
// reshaped, their gradient after its product. The factor becomes the scale.

// REMARK: FusedAttention{{.*}}Function=vit | biased=0, columns=17, depth=16, gradient=1, heads=3, masked=0, rows=17
// CHECK-LABEL: func.func @vit(
// CHECK-SAME: %[[QI:[^:]*]]: tensor<2x17x48xf16>
// CHECK: %[[Q:.*]] = mpcomm.reshape %[[QI]]
// CHECK: %[[OUT:.*]], %[[LSE:.*]] = mpcomm.attention %[[Q]], %{{.*}}, %{{.*}} scale = 2.500000e-01
// CHECK: %[[DQ:[^,]*]], %[[DK:[^,]*]], %[[DV:.*]] = mpcomm.attention_grad %{{.*}}, %[[Q]], %{{.*}}, %{{.*}}, %[[OUT]], %[[LSE]] scale = 2.500000e-01
// CHECK-NOT: arith
// CHECK-NOT: transpose
// CHECK: return %[[OUT]], %[[DQ]], %[[DK]], %[[DV]]
func.func @vit(%qi: tensor<2x17x48xf16>, %ki: tensor<2x17x48xf16>, %vi: tensor<2x17x48xf16>, %do: tensor<2x17x3x16xf16>) -> (tensor<2x17x3x16xf16>, tensor<2x17x3x16xf16>, tensor<2x17x3x16xf16>, tensor<2x17x3x16xf16>) {
  %four = arith.constant dense<4.0> : tensor<2x17x48xf16>
  %other = arith.constant dense<4.0> : tensor<2x3x17x16xf16>
  %qs = arith.divf %qi, %four : tensor<2x17x48xf16>
  %q = mpcomm.reshape %qs : (tensor<2x17x48xf16>) -> tensor<2x17x3x16xf16>
  %k = mpcomm.reshape %ki : (tensor<2x17x48xf16>) -> tensor<2x17x3x16xf16>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x17x3x16xf16>, tensor<2x17x3x16xf16>) -> tensor<2x3x17x17xf16>
  %sw = arith.extf %s : tensor<2x3x17x17xf16> to tensor<2x3x17x17xf32>
  %y = mpcomm.softmax %sw, dim = 3 : tensor<2x3x17x17xf32>
  %p = arith.truncf %y : tensor<2x3x17x17xf32> to tensor<2x3x17x17xf16>
  %v = mpcomm.reshape %vi : (tensor<2x17x48xf16>) -> tensor<2x17x3x16xf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x17x17xf16>, tensor<2x17x3x16xf16>) -> tensor<2x3x17x16xf16>
  %ot = mpcomm.transpose %o, dims = [0, 2, 1, 3] : (tensor<2x3x17x16xf16>) -> tensor<2x17x3x16xf16>
  %dv = mpcomm.dot_general %p, %do, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x17x17xf16>, tensor<2x17x3x16xf16>) -> tensor<2x3x17x16xf16>
  %dp = mpcomm.dot_general %do, %v, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x17x3x16xf16>, tensor<2x17x3x16xf16>) -> tensor<2x3x17x17xf16>
  %dpw = arith.extf %dp : tensor<2x3x17x17xf16> to tensor<2x3x17x17xf32>
  %pw = arith.extf %p : tensor<2x3x17x17xf16> to tensor<2x3x17x17xf32>
  %dy = mpcomm.softmax_grad %dpw, %pw, dim = 3 : tensor<2x3x17x17xf32>
  %ds = arith.truncf %dy : tensor<2x3x17x17xf32> to tensor<2x3x17x17xf16>
  %dk = mpcomm.dot_general %ds, %q, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x17x17xf16>, tensor<2x17x3x16xf16>) -> tensor<2x3x17x16xf16>
  %dq = mpcomm.dot_general %ds, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x17x17xf16>, tensor<2x17x3x16xf16>) -> tensor<2x3x17x16xf16>
  %dqs = arith.divf %dq, %other : tensor<2x3x17x16xf16>
  %dqt = mpcomm.transpose %dqs, dims = [0, 2, 1, 3] : (tensor<2x3x17x16xf16>) -> tensor<2x17x3x16xf16>
  %dkt = mpcomm.transpose %dk, dims = [0, 2, 1, 3] : (tensor<2x3x17x16xf16>) -> tensor<2x17x3x16xf16>
  %dvt = mpcomm.transpose %dv, dims = [0, 2, 1, 3] : (tensor<2x3x17x16xf16>) -> tensor<2x17x3x16xf16>
  return %ot, %dqt, %dkt, %dvt : tensor<2x17x3x16xf16>, tensor<2x17x3x16xf16>, tensor<2x17x3x16xf16>, tensor<2x17x3x16xf16>
}

// -----

// Heads outside rows: samples and heads together are samples of one head, which
// takes no transpose. The mask marks what is left out.

// CHECK-LABEL: func.func @heads_first(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x3x8x16xbf16>, %[[K:[^:]*]]: tensor<2x3x4x16xbf16>, %[[M:[^:]*]]: tensor<1x1x8x4xi1>)
// CHECK-DAG: %[[QR:.*]] = mpcomm.reshape %[[Q]] : (tensor<2x3x8x16xbf16>) -> tensor<6x8x1x16xbf16>
// CHECK-DAG: %[[KR:.*]] = mpcomm.reshape %[[K]] : (tensor<2x3x4x16xbf16>) -> tensor<6x4x1x16xbf16>
// CHECK-DAG: %[[MR:.*]] = mpcomm.reshape %[[M]] : (tensor<1x1x8x4xi1>) -> tensor<8x4xi1>
// CHECK-DAG: %[[TRUE:.*]] = arith.constant dense<true> : tensor<8x4xi1>
// CHECK: %[[KEPT:.*]] = arith.xori %[[MR]], %[[TRUE]]
// CHECK: %[[OUT:.*]], %{{.*}} = mpcomm.attention %[[QR]], %[[KR]], %{{.*}} mask %[[KEPT]] scale = 2.500000e-01
// CHECK: %[[O:.*]] = mpcomm.reshape %[[OUT]] : (tensor<6x8x1x16xbf16>) -> tensor<2x3x8x16xbf16>
// CHECK: return %[[O]]
func.func @heads_first(%q: tensor<2x3x8x16xbf16>, %k: tensor<2x3x4x16xbf16>, %m: tensor<1x1x8x4xi1>) -> tensor<2x3x8x16xbf16> {
  %inf = arith.constant dense<0xFF800000> : tensor<f32>
  %infs = mpcomm.broadcast_in_dim %inf, dims = [] : (tensor<f32>) -> tensor<2x3x8x4xf32>
  %quarter = arith.constant dense<0.25> : tensor<2x3x8x4xf32>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x8x16xbf16>, tensor<2x3x4x16xbf16>) -> tensor<2x3x8x4xbf16>
  %w = arith.extf %s : tensor<2x3x8x4xbf16> to tensor<2x3x8x4xf32>
  %mb = mpcomm.broadcast_in_dim %m, dims = [0, 1, 2, 3] : (tensor<1x1x8x4xi1>) -> tensor<2x3x8x4xi1>
  %x = arith.select %mb, %infs, %w : tensor<2x3x8x4xi1>, tensor<2x3x8x4xf32>
  %d = arith.mulf %quarter, %x : tensor<2x3x8x4xf32>
  %y = mpcomm.softmax %d, dim = 3 : tensor<2x3x8x4xf32>
  %p = arith.truncf %y : tensor<2x3x8x4xf32> to tensor<2x3x8x4xbf16>
  %o = mpcomm.dot_general %p, %k, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x4xbf16>, tensor<2x3x4x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o : tensor<2x3x8x16xbf16>
}

// -----

// Keys times queries, heads before samples, values times probabilities: all the
// other way round, and a mask of keys alone.

// CHECK-LABEL: func.func @turned_round(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x8x3x16xbf16>, %[[K:[^:]*]]: tensor<2x4x3x16xbf16>, %[[V:[^:]*]]: tensor<2x4x3x16xbf16>, %[[M:[^:]*]]: tensor<4xi1>)
// CHECK: %[[MB:.*]] = mpcomm.broadcast_in_dim %[[M]], dims = [1] : (tensor<4xi1>) -> tensor<8x4xi1>
// CHECK: %[[OUT:.*]], %{{.*}} = mpcomm.attention %[[Q]], %[[K]], %[[V]] mask %[[MB]] scale = 1.000000e+00
// CHECK: %[[O:.*]] = mpcomm.transpose %[[OUT]], dims = [2, 0, 3, 1] : (tensor<2x8x3x16xbf16>) -> tensor<3x2x16x8xbf16>
// CHECK: return %[[O]]
func.func @turned_round(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x4x3x16xbf16>, %v: tensor<2x4x3x16xbf16>, %m: tensor<4xi1>) -> tensor<3x2x16x8xbf16> {
  %inf = arith.constant dense<0xFF80> : tensor<3x2x4x8xbf16>
  %s = mpcomm.dot_general %k, %q, batching_dims = [2, 0] x [2, 0], contracting_dims = [3] x [3] : (tensor<2x4x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<3x2x4x8xbf16>
  %mb = mpcomm.broadcast_in_dim %m, dims = [2] : (tensor<4xi1>) -> tensor<3x2x4x8xi1>
  %x = arith.select %mb, %s, %inf : tensor<3x2x4x8xi1>, tensor<3x2x4x8xbf16>
  %y = mpcomm.softmax %x, dim = 2 : tensor<3x2x4x8xbf16>
  %o = mpcomm.dot_general %v, %y, batching_dims = [2, 0] x [0, 1], contracting_dims = [1] x [2] : (tensor<2x4x3x16xbf16>, tensor<3x2x4x8xbf16>) -> tensor<3x2x16x8xbf16>
  return %o : tensor<3x2x16x8xbf16>
}

// -----

// One head, samples in one dimension, and keys that come transposed.

// CHECK-LABEL: func.func @one_head(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<6x8x16xf16>, %[[K:[^:]*]]: tensor<6x4x16xf16>)
// CHECK-DAG: %[[QR:.*]] = mpcomm.reshape %[[Q]] : (tensor<6x8x16xf16>) -> tensor<6x8x1x16xf16>
// CHECK-DAG: %[[KR:.*]] = mpcomm.reshape %[[K]] : (tensor<6x4x16xf16>) -> tensor<6x4x1x16xf16>
// CHECK: %[[OUT:.*]], %{{.*}} = mpcomm.attention %[[QR]], %[[KR]], %{{.*}} scale = 1.000000e+00
// CHECK: %[[O:.*]] = mpcomm.reshape %[[OUT]] : (tensor<6x8x1x16xf16>) -> tensor<6x8x16xf16>
// CHECK: return %[[O]]
func.func @one_head(%q: tensor<6x8x16xf16>, %k: tensor<6x4x16xf16>) -> tensor<6x8x16xf16> {
  %kt = mpcomm.transpose %k, dims = [0, 2, 1] : (tensor<6x4x16xf16>) -> tensor<6x16x4xf16>
  %s = mpcomm.dot_general %q, %kt, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<6x8x16xf16>, tensor<6x16x4xf16>) -> tensor<6x8x4xf16>
  %w = arith.extf %s : tensor<6x8x4xf16> to tensor<6x8x4xf32>
  %y = mpcomm.softmax %w, dim = 2 : tensor<6x8x4xf32>
  %p = arith.truncf %y : tensor<6x8x4xf32> to tensor<6x8x4xf16>
  %o = mpcomm.dot_general %p, %k, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<6x8x4xf16>, tensor<6x4x16xf16>) -> tensor<6x8x16xf16>
  return %o : tensor<6x8x16xf16>
}

// -----

// A mask that is added, cast to 16 bits after it is broadcast, before the
// select; rows of -inf alone get zeros, as in PyTorch's _safe_softmax; and the
// backward pass, which does not know of either.

// REMARK: FusedAttention{{.*}}Function=added | biased=1, columns=8, depth=16, gradient=1, heads=3, masked=1
// CHECK-LABEL: func.func @added(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x8x3x16xbf16>, %[[K:[^:]*]]: tensor<2x8x3x16xbf16>, %[[V:[^:]*]]: tensor<2x8x3x16xbf16>, %[[D:[^:]*]]: tensor<2x8x3x16xbf16>, %[[M:[^:]*]]: tensor<8x8xi1>, %[[B:[^:]*]]: tensor<2x1x8x8xf32>)
// CHECK: %[[N:.*]] = arith.truncf %[[B]] : tensor<2x1x8x8xf32> to tensor<2x1x8x8xbf16>
// CHECK: %[[BR:.*]] = mpcomm.reshape %[[N]] : (tensor<2x1x8x8xbf16>) -> tensor<2x8x8xbf16>
// CHECK: %[[BIAS:.*]] = mpcomm.reshape %[[BR]] : (tensor<2x8x8xbf16>) -> tensor<2x1x8x8xbf16>
// CHECK: %[[OUT:.*]], %[[LSE:.*]] = mpcomm.attention %[[Q]], %[[K]], %[[V]] mask %[[M]] bias %[[BIAS]] scale = 2.500000e-01 safe : {{.*}} -> (tensor<2x8x3x16xbf16>, tensor<2x3x8x2xf32>)
// CHECK: %{{.*}} = mpcomm.attention_grad %[[D]], %[[Q]], %[[K]], %[[V]], %[[OUT]], %[[LSE]] mask %[[M]] bias %[[BIAS]] scale = 2.500000e-01 safe
// CHECK-NOT: mpcomm.softmax
// CHECK-NOT: arith.cmpf
// CHECK: return
func.func @added(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>, %do: tensor<2x8x3x16xbf16>, %m: tensor<8x8xi1>, %b: tensor<2x1x8x8xf32>) -> (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>) {
  %c = arith.constant dense<0.25> : tensor<2x3x8x8xbf16>
  %inf = arith.constant dense<0xFF80> : tensor<2x3x8x8xbf16>
  %infs = arith.constant dense<0xFF800000> : tensor<2x3x8xf32>
  %zero = arith.constant dense<0.0> : tensor<2x3x8x8xf32>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %z = arith.mulf %s, %c : tensor<2x3x8x8xbf16>
  %bb = mpcomm.broadcast_in_dim %b, dims = [0, 1, 2, 3] : (tensor<2x1x8x8xf32>) -> tensor<2x3x8x8xf32>
  %bn = arith.truncf %bb : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %a = arith.addf %bn, %z : tensor<2x3x8x8xbf16>
  %mb = mpcomm.broadcast_in_dim %m, dims = [2, 3] : (tensor<8x8xi1>) -> tensor<2x3x8x8xi1>
  %x = arith.select %mb, %a, %inf : tensor<2x3x8x8xi1>, tensor<2x3x8x8xbf16>
  %w = arith.extf %x : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %w2 = arith.extf %x : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %t = mpcomm.reduce max %w2, dims = [3] : (tensor<2x3x8x8xf32>) -> tensor<2x3x8xf32>
  %n = arith.cmpf oeq, %t, %infs : tensor<2x3x8xf32>
  %y = mpcomm.softmax %w, dim = 3 : tensor<2x3x8x8xf32>
  %nb = mpcomm.broadcast_in_dim %n, dims = [0, 1, 2] : (tensor<2x3x8xi1>) -> tensor<2x3x8x8xi1>
  %ys = arith.select %nb, %zero, %y : tensor<2x3x8x8xi1>, tensor<2x3x8x8xf32>
  %p = arith.truncf %ys : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dv = mpcomm.dot_general %p, %do, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dp = mpcomm.dot_general %do, %v, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x8xbf16>
  %dpw = arith.extf %dp : tensor<2x3x8x8xbf16> to tensor<2x3x8x8xf32>
  %dy = mpcomm.softmax_grad %dpw, %ys, dim = 3 : tensor<2x3x8x8xf32>
  %dn = arith.truncf %dy : tensor<2x3x8x8xf32> to tensor<2x3x8x8xbf16>
  %ds = arith.mulf %dn, %c : tensor<2x3x8x8xbf16>
  %dq = mpcomm.dot_general %ds, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %dk = mpcomm.dot_general %ds, %q, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x3x8x8xbf16>, tensor<2x8x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o, %dq, %dk, %dv : tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>
}

// -----

// ALiBi, of heads and keys, added after the select, with heads outside rows:
// they stay heads, so that the bias need not be repeated for samples. A cast to
// a wider type is left to the op.

// REMARK: FusedAttention{{.*}}Function=alibi | biased=1, columns=4, depth=16, gradient=0, heads=3, masked=1, rows=8, samples=2
// CHECK-LABEL: func.func @alibi(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x3x8x16xbf16>, %[[K:[^:]*]]: tensor<2x3x4x16xbf16>, %[[M:[^:]*]]: tensor<8x4xi1>, %[[B:[^:]*]]: tensor<3x1x4xf16>)
// CHECK: %[[QT:.*]] = mpcomm.transpose %[[Q]], dims = [0, 2, 1, 3]
// CHECK: %[[BIAS:.*]] = mpcomm.reshape %{{.*}} : (tensor<3x4xf16>) -> tensor<1x3x1x4xf16>
// CHECK: mpcomm.attention %[[QT]], %{{.*}}, %{{.*}} mask %[[M]] bias %[[BIAS]] scale = 1.000000e+00 : (tensor<2x8x3x16xbf16>
func.func @alibi(%q: tensor<2x3x8x16xbf16>, %k: tensor<2x3x4x16xbf16>, %m: tensor<8x4xi1>, %b: tensor<3x1x4xf16>) -> tensor<2x3x8x16xbf16> {
  %inf = arith.constant dense<0xFF800000> : tensor<2x3x8x4xf32>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x8x16xbf16>, tensor<2x3x4x16xbf16>) -> tensor<2x3x8x4xbf16>
  %w = arith.extf %s : tensor<2x3x8x4xbf16> to tensor<2x3x8x4xf32>
  %mb = mpcomm.broadcast_in_dim %m, dims = [2, 3] : (tensor<8x4xi1>) -> tensor<2x3x8x4xi1>
  %x = arith.select %mb, %w, %inf : tensor<2x3x8x4xi1>, tensor<2x3x8x4xf32>
  %bw = arith.extf %b : tensor<3x1x4xf16> to tensor<3x1x4xf32>
  %bb = mpcomm.broadcast_in_dim %bw, dims = [1, 2, 3] : (tensor<3x1x4xf32>) -> tensor<2x3x8x4xf32>
  %a = arith.addf %x, %bb : tensor<2x3x8x4xf32>
  %y = mpcomm.softmax %a, dim = 3 : tensor<2x3x8x4xf32>
  %p = arith.truncf %y : tensor<2x3x8x4xf32> to tensor<2x3x8x4xbf16>
  %o = mpcomm.dot_general %p, %k, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x4xbf16>, tensor<2x3x4x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o : tensor<2x3x8x16xbf16>
}

// -----

// Keys times queries, heads before samples, and a bias that is transposed to
// them; samples and heads in the order of the op.

// CHECK-LABEL: func.func @turned_bias(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x8x3x16xbf16>, %[[K:[^:]*]]: tensor<2x4x3x16xbf16>, %[[B:[^:]*]]: tensor<4x8x2x3xbf16>)
// CHECK: %[[BIAS:.*]] = mpcomm.transpose %[[B]], dims = [2, 3, 1, 0] : (tensor<4x8x2x3xbf16>) -> tensor<2x3x8x4xbf16>
// CHECK: mpcomm.attention %[[Q]], %[[K]], %{{.*}} bias %[[BIAS]] scale = 1.000000e+00
func.func @turned_bias(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x4x3x16xbf16>, %b: tensor<4x8x2x3xbf16>) -> tensor<3x2x16x8xbf16> {
  %s = mpcomm.dot_general %k, %q, batching_dims = [2, 0] x [2, 0], contracting_dims = [3] x [3] : (tensor<2x4x3x16xbf16>, tensor<2x8x3x16xbf16>) -> tensor<3x2x4x8xbf16>
  %bt = mpcomm.transpose %b, dims = [3, 2, 0, 1] : (tensor<4x8x2x3xbf16>) -> tensor<3x2x4x8xbf16>
  %a = arith.addf %s, %bt : tensor<3x2x4x8xbf16>
  %y = mpcomm.softmax %a, dim = 2 : tensor<3x2x4x8xbf16>
  %o = mpcomm.dot_general %k, %y, batching_dims = [2, 0] x [0, 1], contracting_dims = [1] x [2] : (tensor<2x4x3x16xbf16>, tensor<3x2x4x8xbf16>) -> tensor<3x2x16x8xbf16>
  return %o : tensor<3x2x16x8xbf16>
}

// -----

// A bias that is a product, before and after the scores: of rows of another
// depth than the values have.

// CHECK-LABEL: func.func @product_added(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x8x3x16xbf16>, %[[K:[^:]*]]: tensor<2x4x3x16xbf16>, %[[A:[^:]*]]: tensor<2x8x3x32xbf16>, %[[B:[^:]*]]: tensor<2x4x3x32xbf16>)
// CHECK: %[[BIAS:.*]] = mpcomm.dot_general %[[A]], %[[B]]
// CHECK: mpcomm.attention %[[Q]], %[[K]], %[[K]] bias %[[BIAS]] scale = 1.000000e+00
// CHECK: mpcomm.attention %[[Q]], %[[K]], %[[K]] bias %[[BIAS]] scale = 1.000000e+00
func.func @product_added(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x4x3x16xbf16>, %a: tensor<2x8x3x32xbf16>, %b: tensor<2x4x3x32xbf16>) -> (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>) {
  %bias = mpcomm.dot_general %a, %b, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x32xbf16>, tensor<2x4x3x32xbf16>) -> tensor<2x3x8x4xbf16>
  %s0 = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x4x3x16xbf16>) -> tensor<2x3x8x4xbf16>
  %a0 = arith.addf %bias, %s0 : tensor<2x3x8x4xbf16>
  %y0 = mpcomm.softmax %a0, dim = 3 : tensor<2x3x8x4xbf16>
  %o0 = mpcomm.dot_general %y0, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x4xbf16>, tensor<2x4x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  %s1 = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x4x3x16xbf16>) -> tensor<2x3x8x4xbf16>
  %a1 = arith.addf %s1, %bias : tensor<2x3x8x4xbf16>
  %w1 = arith.extf %a1 : tensor<2x3x8x4xbf16> to tensor<2x3x8x4xf32>
  %y1 = mpcomm.softmax %w1, dim = 3 : tensor<2x3x8x4xf32>
  %p1 = arith.truncf %y1 : tensor<2x3x8x4xf32> to tensor<2x3x8x4xbf16>
  %o1 = mpcomm.dot_general %p1, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x4xbf16>, tensor<2x4x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o0, %o1 : tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>
}

// -----

// One number a head from a pair of rows, as protein models have it: a product
// that no scores can be.

// CHECK-LABEL: func.func @pairs_added(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x8x3x16xbf16>, %[[K:[^:]*]]: tensor<2x4x3x16xbf16>, %[[Z:[^:]*]]: tensor<2x8x4x16xbf16>, %[[W:[^:]*]]: tensor<16x3xbf16>)
// CHECK: %[[PAIRS:.*]] = mpcomm.dot_general %[[Z]], %[[W]]
// CHECK: %[[BIAS:.*]] = mpcomm.transpose %[[PAIRS]], dims = [0, 3, 1, 2]
// CHECK: mpcomm.attention %[[Q]], %[[K]], %[[K]] bias %[[BIAS]] scale = 1.000000e+00
func.func @pairs_added(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x4x3x16xbf16>, %z: tensor<2x8x4x16xbf16>, %w: tensor<16x3xbf16>) -> tensor<2x3x8x16xbf16> {
  %pairs = mpcomm.dot_general %z, %w, contracting_dims = [3] x [0] : (tensor<2x8x4x16xbf16>, tensor<16x3xbf16>) -> tensor<2x8x4x3xbf16>
  %bias = mpcomm.transpose %pairs, dims = [0, 3, 1, 2] : (tensor<2x8x4x3xbf16>) -> tensor<2x3x8x4xbf16>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x3x16xbf16>, tensor<2x4x3x16xbf16>) -> tensor<2x3x8x4xbf16>
  %a = arith.addf %bias, %s : tensor<2x3x8x4xbf16>
  %y = mpcomm.softmax %a, dim = 3 : tensor<2x3x8x4xbf16>
  %o = mpcomm.dot_general %y, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x3x8x4xbf16>, tensor<2x4x3x16xbf16>) -> tensor<2x3x8x16xbf16>
  return %o : tensor<2x3x8x16xbf16>
}
