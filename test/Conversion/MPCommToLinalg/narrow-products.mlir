// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg --split-input-file | FileCheck %s
// RUN: sed 's/ attributes {mpcomm.multiply_f8}//' %s | mpcomm-opt --convert-mpcomm-to-linalg --split-input-file | FileCheck %s --check-prefix=WIDE --implicit-check-not="linalg.contract{{.*}}f8"
// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg=multiply-f8=false --split-input-file | FileCheck %s --check-prefix=WIDE --implicit-check-not="linalg.contract{{.*}}f8" --implicit-check-not=multiply_f8
//
// Products of what was widened from 8 bits read the 8 bits, along what is
// summed, where tensor cores can multiply them.

// Both operands lie along what is summed.
// WIDE-LABEL: @forward
//  WIDE-COUNT-2: arith.extf
// CHECK-LABEL: @forward
//  CHECK-SAME: %[[X:.+]]: tensor<32x64xf8E4M3FN>, %[[W:.+]]: tensor<48x64xf8E4M3FN>
//       CHECK: linalg.contract {{.*}}ins(%[[X]], %[[W]] : tensor<32x64xf8E4M3FN>, tensor<48x64xf8E4M3FN>) outs({{.*}} : tensor<32x48xbf16>)
module attributes {mpcomm.multiply_f8} {
func.func @forward(%x: tensor<32x64xf8E4M3FN>, %w: tensor<48x64xf8E4M3FN>) -> tensor<32x48xbf16> {
  %0 = arith.extf %x : tensor<32x64xf8E4M3FN> to tensor<32x64xbf16>
  %1 = arith.extf %w : tensor<48x64xf8E4M3FN> to tensor<48x64xbf16>
  %r = mpcomm.dot_general %0, %1, contracting_dims = [1] x [1] : (tensor<32x64xbf16>, tensor<48x64xbf16>) -> tensor<32x48xbf16>
  return %r : tensor<32x48xbf16>
}
}

// -----

// A gradient of weights is summed over the rows of both.
// CHECK-DAG: #[[A:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG: #[[B:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-LABEL: @weights
//  CHECK-SAME: %[[DY:.+]]: tensor<32x48xf8E5M2>, %[[X:.+]]: tensor<32x64xf8E4M3FN>
//       CHECK: %[[A8:.+]] = linalg.transpose ins(%[[DY]] : tensor<32x48xf8E5M2>) outs({{.*}} : tensor<48x32xf8E5M2>) permutation = [1, 0]
//       CHECK: %[[B8:.+]] = linalg.transpose ins(%[[X]] : tensor<32x64xf8E4M3FN>)
//       CHECK: linalg.contract indexing_maps = [#[[A]], #[[B]], {{.*}}] ins(%[[A8]], %[[B8]] : tensor<48x32xf8E5M2>, tensor<64x32xf8E4M3FN>) outs({{.*}} : tensor<48x64xf32>)
module attributes {mpcomm.multiply_f8} {
func.func @weights(%dy: tensor<32x48xf8E5M2>, %x: tensor<32x64xf8E4M3FN>) -> tensor<48x64xf32> {
  %0 = arith.extf %dy : tensor<32x48xf8E5M2> to tensor<32x48xf32>
  %1 = arith.extf %x : tensor<32x64xf8E4M3FN> to tensor<32x64xf32>
  %r = mpcomm.dot_general %0, %1, contracting_dims = [0] x [0] : (tensor<32x48xf32>, tensor<32x64xf32>) -> tensor<48x64xf32>
  return %r : tensor<48x64xf32>
}
}

// -----

// Views and transposes move the 8 bits; samples and rows are summed together.
// CHECK-LABEL: @views
//  CHECK-SAME: %[[DY:.+]]: tensor<2x16x48xf8E5M2>, %[[X:.+]]: tensor<32x64xf8E4M3FN>
//   CHECK-NOT: arith.extf
//       CHECK: linalg.contract {{.*}} : tensor<48x2x16xf8E5M2>, tensor<64x2x16xf8E4M3FN>)
module attributes {mpcomm.multiply_f8} {
func.func @views(%dy: tensor<2x16x48xf8E5M2>, %x: tensor<32x64xf8E4M3FN>) -> tensor<48x64xbf16> {
  %0 = arith.extf %dy : tensor<2x16x48xf8E5M2> to tensor<2x16x48xbf16>
  %1 = arith.extf %x : tensor<32x64xf8E4M3FN> to tensor<32x64xbf16>
  %2 = mpcomm.reshape %1 : (tensor<32x64xbf16>) -> tensor<2x16x64xbf16>
  %r = mpcomm.dot_general %0, %2, contracting_dims = [0, 1] x [0, 1] : (tensor<2x16x48xbf16>, tensor<2x16x64xbf16>) -> tensor<48x64xbf16>
  return %r : tensor<48x64xbf16>
}
}

// -----

// Not of 24 terms, not of 40 columns, not of two E5M2, and not if one operand
// has 16 bits of its own.
// CHECK-LABEL: @terms
//       CHECK: linalg.contract {{.*}} : tensor<32x24xbf16>, tensor<48x24xbf16>)
module attributes {mpcomm.multiply_f8} {
func.func @terms(%x: tensor<32x24xf8E4M3FN>, %w: tensor<48x24xf8E4M3FN>) -> tensor<32x48xbf16> {
  %0 = arith.extf %x : tensor<32x24xf8E4M3FN> to tensor<32x24xbf16>
  %1 = arith.extf %w : tensor<48x24xf8E4M3FN> to tensor<48x24xbf16>
  %r = mpcomm.dot_general %0, %1, contracting_dims = [1] x [1] : (tensor<32x24xbf16>, tensor<48x24xbf16>) -> tensor<32x48xbf16>
  return %r : tensor<32x48xbf16>
}
}

// -----

// CHECK-LABEL: @columns
//       CHECK: linalg.contract {{.*}} : tensor<32x64xbf16>, tensor<40x64xbf16>)
module attributes {mpcomm.multiply_f8} {
func.func @columns(%x: tensor<32x64xf8E4M3FN>, %w: tensor<40x64xf8E4M3FN>) -> tensor<32x40xbf16> {
  %0 = arith.extf %x : tensor<32x64xf8E4M3FN> to tensor<32x64xbf16>
  %1 = arith.extf %w : tensor<40x64xf8E4M3FN> to tensor<40x64xbf16>
  %r = mpcomm.dot_general %0, %1, contracting_dims = [1] x [1] : (tensor<32x64xbf16>, tensor<40x64xbf16>) -> tensor<32x40xbf16>
  return %r : tensor<32x40xbf16>
}
}

// -----

// CHECK-LABEL: @e5m2
//       CHECK: linalg.contract {{.*}} : tensor<32x64xbf16>, tensor<48x64xbf16>)
module attributes {mpcomm.multiply_f8} {
func.func @e5m2(%x: tensor<32x64xf8E5M2>, %w: tensor<48x64xf8E5M2>) -> tensor<32x48xbf16> {
  %0 = arith.extf %x : tensor<32x64xf8E5M2> to tensor<32x64xbf16>
  %1 = arith.extf %w : tensor<48x64xf8E5M2> to tensor<48x64xbf16>
  %r = mpcomm.dot_general %0, %1, contracting_dims = [1] x [1] : (tensor<32x64xbf16>, tensor<48x64xbf16>) -> tensor<32x48xbf16>
  return %r : tensor<32x48xbf16>
}
}

// -----

// CHECK-LABEL: @one
//       CHECK: linalg.contract {{.*}} : tensor<32x64xbf16>, tensor<48x64xbf16>)
module attributes {mpcomm.multiply_f8} {
func.func @one(%x: tensor<32x64xbf16>, %w: tensor<48x64xf8E4M3FN>) -> tensor<32x48xbf16> {
  %1 = arith.extf %w : tensor<48x64xf8E4M3FN> to tensor<48x64xbf16>
  %r = mpcomm.dot_general %x, %1, contracting_dims = [1] x [1] : (tensor<32x64xbf16>, tensor<48x64xbf16>) -> tensor<32x48xbf16>
  return %r : tensor<32x48xbf16>
}
}

// -----

// One value is both operands, and its transpose is one.
// CHECK-LABEL: @same
//  CHECK-SAME: %[[X:.+]]: tensor<32x64xf8E4M3FN>
//   CHECK-NOT: arith.extf
//       CHECK: linalg.contract {{.*}}ins(%[[X]], %[[X]] : tensor<32x64xf8E4M3FN>, tensor<32x64xf8E4M3FN>)
//       CHECK: linalg.transpose ins(%[[X]]
//       CHECK: linalg.contract {{.*}} : tensor<64x32xf8E4M3FN>, tensor<64x32xf8E4M3FN>)
module attributes {mpcomm.multiply_f8} {
func.func @same(%x: tensor<32x64xf8E4M3FN>) -> (tensor<32x32xf16>, tensor<64x64xf16>) {
  %0 = arith.extf %x : tensor<32x64xf8E4M3FN> to tensor<32x64xf16>
  %r = mpcomm.dot_general %0, %0, contracting_dims = [1] x [1] : (tensor<32x64xf16>, tensor<32x64xf16>) -> tensor<32x32xf16>
  %t = mpcomm.transpose %0, dims = [1, 0] : (tensor<32x64xf16>) -> tensor<64x32xf16>
  %s = mpcomm.dot_general %t, %0, contracting_dims = [1] x [0] : (tensor<64x32xf16>, tensor<32x64xf16>) -> tensor<64x64xf16>
  return %r, %s : tensor<32x32xf16>, tensor<64x64xf16>
}
}

// -----

// Samples are multiplied side by side; the second operand lies across.
// CHECK-DAG: #[[A:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// CHECK-DAG: #[[B:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
// CHECK-LABEL: @batch
//       CHECK: linalg.transpose ins({{.*}} : tensor<3x64x48xf8E5M2>) outs({{.*}} : tensor<3x48x64xf8E5M2>) permutation = [0, 2, 1]
//       CHECK: linalg.contract indexing_maps = [#[[A]], #[[B]], {{.*}} : tensor<3x32x64xf8E4M3FN>, tensor<3x48x64xf8E5M2>)
module attributes {mpcomm.multiply_f8} {
func.func @batch(%x: tensor<3x32x64xf8E4M3FN>, %y: tensor<3x64x48xf8E5M2>) -> tensor<3x32x48xbf16> {
  %0 = arith.extf %x : tensor<3x32x64xf8E4M3FN> to tensor<3x32x64xbf16>
  %1 = arith.extf %y : tensor<3x64x48xf8E5M2> to tensor<3x64x48xbf16>
  %r = mpcomm.dot_general %0, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<3x32x64xbf16>, tensor<3x64x48xbf16>) -> tensor<3x32x48xbf16>
  return %r : tensor<3x32x48xbf16>
}
}

// -----

// No library has other types of 8 bits.
// CHECK-LABEL: @fnuz
//       CHECK: linalg.contract {{.*}} : tensor<32x64xbf16>, tensor<48x64xbf16>)
module attributes {mpcomm.multiply_f8} {
func.func @fnuz(%x: tensor<32x64xf8E4M3FNUZ>, %w: tensor<48x64xf8E4M3FN>) -> tensor<32x48xbf16> {
  %0 = arith.extf %x : tensor<32x64xf8E4M3FNUZ> to tensor<32x64xbf16>
  %1 = arith.extf %w : tensor<48x64xf8E4M3FN> to tensor<48x64xbf16>
  %r = mpcomm.dot_general %0, %1, contracting_dims = [1] x [1] : (tensor<32x64xbf16>, tensor<48x64xbf16>) -> tensor<32x48xbf16>
  return %r : tensor<32x48xbf16>
}
}

// -----

// Contractions that linalg itself has are left alone on buffers, and where a
// sum stands before rows.
// CHECK-LABEL: @buffers
//       CHECK: linalg.contract {{.*}} ins(%{{.+}}, %{{.+}} : memref<32x64xbf16>, memref<48x64xbf16>)
module attributes {mpcomm.multiply_f8} {
func.func @buffers(%x: memref<32x64xbf16>, %w: memref<48x64xbf16>, %y: memref<32x48xbf16>) {
  linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %w : memref<32x64xbf16>, memref<48x64xbf16>) outs(%y : memref<32x48xbf16>)
  return
}
}

// -----

// CHECK-LABEL: @sums_first
//       CHECK: linalg.contract {{.*}} : tensor<32x64xbf16>, tensor<48x64xbf16>)
module attributes {mpcomm.multiply_f8} {
func.func @sums_first(%x: tensor<32x64xf8E4M3FN>, %w: tensor<48x64xf8E4M3FN>, %y: tensor<32x48xbf16>) -> tensor<32x48xbf16> {
  %0 = arith.extf %x : tensor<32x64xf8E4M3FN> to tensor<32x64xbf16>
  %1 = arith.extf %w : tensor<48x64xf8E4M3FN> to tensor<48x64xbf16>
  %r = linalg.contract indexing_maps = [affine_map<(k, m, n) -> (m, k)>, affine_map<(k, m, n) -> (n, k)>, affine_map<(k, m, n) -> (m, n)>]
      ins(%0, %1 : tensor<32x64xbf16>, tensor<48x64xbf16>) outs(%y : tensor<32x48xbf16>) -> tensor<32x48xbf16>
  return %r : tensor<32x48xbf16>
}
}
