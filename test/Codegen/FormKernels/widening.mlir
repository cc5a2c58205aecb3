// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg --canonicalize --cse --mpcomm-form-kernels --split-input-file | FileCheck %s
//
// A value in 16 bits is widened by each kernel that reads it, and never written
// out in f32 for several of them.

// The two kernels cannot be one: a product lies between them.
// CHECK-LABEL: func.func @two_readers
//  CHECK-SAME: %[[X:[^:]+]]: tensor<8x8xbf16>
//       CHECK: %[[A:.+]] = mprt.launch @{{.+}} ins(%[[X]] : tensor<8x8xbf16>) outs(%{{.+}} : tensor<8x8xf32>)
//       CHECK: %[[P:.+]] = linalg.contract {{.*}} ins(%[[A]],
//       CHECK: mprt.launch @{{.+}} ins(%[[X]] : tensor<8x8xbf16>) outs(%[[P]] : tensor<8x8xf32>)
//   CHECK-NOT: mprt.launch
func.func @two_readers(%x: tensor<8x8xbf16>) -> tensor<8x8xf32> {
  %w = arith.extf %x : tensor<8x8xbf16> to tensor<8x8xf32>
  %a = math.exp %w : tensor<8x8xf32>
  %p = mpcomm.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %r = arith.subf %w, %p : tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}

// -----

// A product reads memory: it gets the one that is written, and the kernel its own.
// CHECK-LABEL: func.func @product_reads_too
//       CHECK-DAG: %[[W:.+]] = mprt.launch @kernel_extf_0 ins(%arg0 : tensor<8x8xbf16>) outs(%{{.+}} : tensor<8x8xf32>)
//       CHECK: %[[P:.+]] = linalg.contract {{.*}} ins(%[[W]], %[[W]]
//       CHECK: mprt.launch @{{.+}} ins(%arg0 : tensor<8x8xbf16>) outs(%[[P]]
//   CHECK-NOT: mprt.launch
func.func @product_reads_too(%x: tensor<8x8xbf16>) -> tensor<8x8xf32> {
  %w = arith.extf %x : tensor<8x8xbf16> to tensor<8x8xf32>
  %p = mpcomm.dot_general %w, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %r = arith.subf %w, %p : tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}

// -----

// A widening that is beside what makes its operand, and is read much later,
// runs with its reader, also where a reshape stands between them: what lives from one to the other is in 16 bits.
// CHECK-LABEL: func.func @far_before_its_reader
//       CHECK: %[[S:.+]] = mprt.launch @{{.+}} ins(%{{.+}} : tensor<8x8xf32>) outs(%{{.+}} : tensor<8x8xbf16>)
//       CHECK: linalg.contract {{.*}} ins(%[[S]], %[[S]]
//       CHECK: %[[V:.+]] = tensor.collapse_shape %[[S]]
//       CHECK: mprt.launch @{{.+}} ins(%[[V]], %{{.+}} : tensor<64xbf16>, tensor<64xbf16>)
//   CHECK-NOT: mprt.launch
func.func @far_before_its_reader(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %a = math.exp %x : tensor<8x8xf32>
  %s = arith.truncf %a : tensor<8x8xf32> to tensor<8x8xbf16>
  %w = arith.extf %s : tensor<8x8xbf16> to tensor<8x8xf32>
  %v = mpcomm.reshape %w : (tensor<8x8xf32>) -> tensor<64xf32>
  %p = mpcomm.dot_general %s, %s, contracting_dims = [1] x [0] : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %e = arith.extf %p : tensor<8x8xbf16> to tensor<8x8xf32>
  %q = mpcomm.reshape %e : (tensor<8x8xf32>) -> tensor<64xf32>
  %r = arith.subf %v, %q : tensor<64xf32>
  %o = mpcomm.reshape %r : (tensor<64xf32>) -> tensor<8x8xf32>
  return %o : tensor<8x8xf32>
}
