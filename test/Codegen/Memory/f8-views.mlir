// RUN: mpcomm-opt %s --split-input-file --convert-mpcomm-to-linalg --canonicalize --cse --mpcomm-form-kernels --mpcomm-bufferize-step \
// RUN:   --mpcomm-plan-memory --convert-linalg-to-mprt | FileCheck %s
//
// Tensor cores read 8 bits at multiples of 16 bytes: operands and results that
// are views at other places, or with rows at others, are packed. A product of
// 16 bits takes the views as they are.

module attributes {mpcomm.multiply_f8} {
// CHECK-LABEL: func.func @slice(
//       CHECK: mprt.launch @copy{{.*}} ins(%{{.+}} : memref<32x64xf8E4M3FN, strided<[72, 1], offset: 3>>)
//       CHECK: mprt.gemm {{.*}} strides [64, 1] x [1, 64] -> [48, 1]
func.func @slice(%x: tensor<32x72xf8E4M3FN>, %y: tensor<48x64xf8E4M3FN>) -> tensor<32x48xbf16> {
  %s = mpcomm.slice %x, starts = [0, 3], limits = [32, 67], strides = [1, 1] : (tensor<32x72xf8E4M3FN>) -> tensor<32x64xf8E4M3FN>
  %0 = arith.extf %s : tensor<32x64xf8E4M3FN> to tensor<32x64xbf16>
  %1 = arith.extf %y : tensor<48x64xf8E4M3FN> to tensor<48x64xbf16>
  %r = mpcomm.dot_general %0, %1, contracting_dims = [1] x [1] : (tensor<32x64xbf16>, tensor<48x64xbf16>) -> tensor<32x48xbf16>
  return %r : tensor<32x48xbf16>
}

// A view at multiples of 16 is none of these.
// CHECK-LABEL: func.func @rows(
//   CHECK-NOT: mprt.launch
//       CHECK: mprt.gemm {{.*}} strides [80, 1] x [1, 64] -> [48, 1]
func.func @rows(%x: tensor<32x80xf8E4M3FN>, %y: tensor<48x64xf8E4M3FN>) -> tensor<32x48xbf16> {
  %s = mpcomm.slice %x, starts = [0, 16], limits = [32, 80], strides = [1, 1] : (tensor<32x80xf8E4M3FN>) -> tensor<32x64xf8E4M3FN>
  %0 = arith.extf %s : tensor<32x64xf8E4M3FN> to tensor<32x64xbf16>
  %1 = arith.extf %y : tensor<48x64xf8E4M3FN> to tensor<48x64xbf16>
  %r = mpcomm.dot_general %0, %1, contracting_dims = [1] x [1] : (tensor<32x64xbf16>, tensor<48x64xbf16>) -> tensor<32x48xbf16>
  return %r : tensor<32x48xbf16>
}

// CHECK-LABEL: func.func @concatenate(
//       CHECK: mprt.gemm {{.*}} strides [64, 1] x [1, 64] -> [48, 1]
//       CHECK: mprt.launch @copy{{.*}} outs(%{{.+}} : memref<32x48xbf16, strided<[53, 1], offset: 5>>)
func.func @concatenate(%x: tensor<32x64xf8E4M3FN>, %y: tensor<48x64xf8E4M3FN>, %z: tensor<32x5xbf16>) -> tensor<32x53xbf16> {
  %0 = arith.extf %x : tensor<32x64xf8E4M3FN> to tensor<32x64xbf16>
  %1 = arith.extf %y : tensor<48x64xf8E4M3FN> to tensor<48x64xbf16>
  %r = mpcomm.dot_general %0, %1, contracting_dims = [1] x [1] : (tensor<32x64xbf16>, tensor<48x64xbf16>) -> tensor<32x48xbf16>
  %c = mpcomm.concatenate %z, %r, dim = 1 : (tensor<32x5xbf16>, tensor<32x48xbf16>) -> tensor<32x53xbf16>
  return %c : tensor<32x53xbf16>
}

// CHECK-LABEL: func.func @wide(
//       CHECK: mprt.gemm {{.*}} strides [72, 1] x [1, 64] -> [48, 1]
func.func @wide(%x: tensor<32x72xbf16>, %y: tensor<48x64xbf16>) -> tensor<32x48xbf16> {
  %s = mpcomm.slice %x, starts = [0, 3], limits = [32, 67], strides = [1, 1] : (tensor<32x72xbf16>) -> tensor<32x64xbf16>
  %r = mpcomm.dot_general %s, %y, contracting_dims = [1] x [1] : (tensor<32x64xbf16>, tensor<48x64xbf16>) -> tensor<32x48xbf16>
  return %r : tensor<32x48xbf16>
}
}

// -----

// Only there: a product on a processor takes the view as it is.
// CHECK-LABEL: func.func @processor(
//       CHECK: mprt.gemm {{.*}} strides [72, 1] x [1, 64] -> [48, 1]
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @processor(%x: tensor<32x72xf8E4M3FN>, %y: tensor<48x64xf8E4M3FN>) -> tensor<32x48xbf16> {
  %s = mpcomm.slice %x, starts = [0, 3], limits = [32, 67], strides = [1, 1] : (tensor<32x72xf8E4M3FN>) -> tensor<32x64xf8E4M3FN>
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<32x48xbf16>
  %i = linalg.fill ins(%zero : bf16) outs(%e : tensor<32x48xbf16>) -> tensor<32x48xbf16>
  %r = linalg.contract indexing_maps = [#a, #b, #c] ins(%s, %y : tensor<32x64xf8E4M3FN>, tensor<48x64xf8E4M3FN>)
      outs(%i : tensor<32x48xbf16>) -> tensor<32x48xbf16>
  return %r : tensor<32x48xbf16>
}
