// Attention and its gradient: what is printed is what was parsed.

// RUN: mpcomm-opt %s | mpcomm-opt | FileCheck %s
// RUN: mpcomm-opt %s --mlir-print-op-generic | mpcomm-opt | FileCheck %s

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x3x16xbf16>, %m: tensor<8x6xi1>) {
  // CHECK: mpcomm.attention %{{.*}}, %{{.*}}, %{{.*}} scale = 2.500000e-01 : (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>)
  %0, %1 = mpcomm.attention %q, %k, %k scale = 0.25 : (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>)
  // CHECK: mpcomm.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} scale = 1.000000e+00 : (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<8x6xi1>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>)
  %out, %lse = mpcomm.attention %q, %k, %k mask %m scale = 1.0 : (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<8x6xi1>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>)
  // CHECK: mpcomm.attention_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} scale = 1.000000e+00 : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>, tensor<8x6xi1>) -> (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>)
  %dq, %dk, %dv = mpcomm.attention_grad %q, %q, %k, %k, %out, %lse mask %m scale = 1.0 : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>, tensor<8x6xi1>) -> (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>)
  return
}

// lse has the type in which sums are taken.
// CHECK-LABEL: func.func @wide
func.func @wide(%q: tensor<1x4x2x5xf64>) {
  // CHECK: -> (tensor<1x4x2x5xf64>, tensor<1x2x4xf64>)
  %0, %1 = mpcomm.attention %q, %q, %q scale = 3.0 : (tensor<1x4x2x5xf64>, tensor<1x4x2x5xf64>, tensor<1x4x2x5xf64>) -> (tensor<1x4x2x5xf64>, tensor<1x2x4xf64>)
  return
}

// No rows, no samples, no depth.
// CHECK-LABEL: func.func @empty
func.func @empty(%q: tensor<0x4x2x0xf16>, %k: tensor<0x0x2x0xf16>) {
  // CHECK: mpcomm.attention
  %0, %1 = mpcomm.attention %q, %k, %k scale = 1.0 : (tensor<0x4x2x0xf16>, tensor<0x0x2x0xf16>, tensor<0x0x2x0xf16>) -> (tensor<0x4x2x0xf16>, tensor<0x2x4xf32>)
  return
}

// A bias, of all scores or the same along some dimensions, beside a mask or
// alone; lse is in two parts then.
// CHECK-LABEL: func.func @bias
func.func @bias(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x3x16xbf16>, %m: tensor<8x6xi1>, %b: tensor<2x1x1x6xf32>, %c: tensor<2x3x8x6xbf16>, %l: tensor<2x3x8x2xf32>) {
  // CHECK: mpcomm.attention %{{.*}}, %{{.*}}, %{{.*}} bias %{{.*}} scale = 2.500000e-01 : (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x1x1x6xf32>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8x2xf32>)
  %0, %1 = mpcomm.attention %q, %k, %k bias %b scale = 0.25 : (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x1x1x6xf32>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8x2xf32>)
  // CHECK: mpcomm.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} bias %{{.*}} scale = 1.000000e+00 safe : (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<8x6xi1>, tensor<2x3x8x6xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8x2xf32>)
  %2, %3 = mpcomm.attention %q, %k, %k mask %m bias %c scale = 1.0 safe : (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<8x6xi1>, tensor<2x3x8x6xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8x2xf32>)
  // CHECK: mpcomm.attention_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} bias %{{.*}} scale = 1.000000e+00 safe : ({{.*}}, tensor<2x3x8x2xf32>, tensor<8x6xi1>, tensor<2x3x8x6xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>)
  %dq, %dk, %dv = mpcomm.attention_grad %q, %q, %k, %k, %q, %l mask %m bias %c scale = 1.0 safe : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x3x8x2xf32>, tensor<8x6xi1>, tensor<2x3x8x6xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>)
  return
}

// With `bias_grad` there is a fourth result, of the bias's shape, in the type
// of sums.
// CHECK-LABEL: func.func @bias_grad
func.func @bias_grad(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x3x16xbf16>, %m: tensor<8x6xi1>, %b: tensor<1x3x8x6xbf16>, %l: tensor<2x3x8x2xf32>,
                     %w: tensor<1x4x2x5xf64>, %c: tensor<1x1x1x4xf32>, %n: tensor<1x2x4x2xf64>) {
  // CHECK: mpcomm.attention_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} bias %{{.*}} scale = 1.000000e+00 safe bias_grad : {{.*}} -> (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<1x3x8x6xf32>)
  %dq, %dk, %dv, %db = mpcomm.attention_grad %q, %q, %k, %k, %q, %l mask %m bias %b scale = 1.0 safe bias_grad : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x3x8x2xf32>, tensor<8x6xi1>, tensor<1x3x8x6xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<1x3x8x6xf32>)
  // CHECK: mpcomm.attention_grad {{.*}} bias_grad : {{.*}} -> (tensor<1x4x2x5xf64>, tensor<1x4x2x5xf64>, tensor<1x4x2x5xf64>, tensor<1x1x1x4xf64>)
  %0, %1, %2, %3 = mpcomm.attention_grad %w, %w, %w, %w, %w, %n bias %c scale = 1.0 bias_grad : (tensor<1x4x2x5xf64>, tensor<1x4x2x5xf64>, tensor<1x4x2x5xf64>, tensor<1x4x2x5xf64>, tensor<1x4x2x5xf64>, tensor<1x2x4x2xf64>, tensor<1x1x1x4xf32>) -> (tensor<1x4x2x5xf64>, tensor<1x4x2x5xf64>, tensor<1x4x2x5xf64>, tensor<1x1x1x4xf64>)
  return
}
