// RUN: mpcomm-opt %s -split-input-file -convert-mpcomm-to-linalg | FileCheck %s

// A gather reads its operand where an index, clamped, names an element; a scatter
// stays one op, onto a fill or onto its operand.

// CHECK: #[[INDICES:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d2)>
// CHECK-LABEL: func.func @gather(
// CHECK-SAME: %[[X:.*]]: tensor<4x5x6x7xbf16>, %[[I:.*]]: tensor<4x3xi32>
//       CHECK: linalg.generic {indexing_maps = [#[[INDICES]], #{{.*}}], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%[[I]] : tensor<4x3xi32>)
//       CHECK: %[[B:.*]] = linalg.index 0
//       CHECK: %[[P:.*]] = linalg.index 1
//       CHECK: %[[INDEX:.*]] = arith.index_cast %{{.*}} : i32 to index
//       CHECK: %[[LOW:.*]] = arith.maxsi %[[INDEX]], %c0
//       CHECK: %[[AT:.*]] = arith.minsi %[[LOW]], %c5
//       CHECK: %[[S:.*]] = linalg.index 3
//       CHECK: tensor.extract %[[X]][%[[B]], %[[P]], %[[AT]], %[[S]]] : tensor<4x5x6x7xbf16>
func.func @gather(%x: tensor<4x5x6x7xbf16>, %i: tensor<4x3xi32>) -> tensor<4x5x3x7xbf16> {
  %0 = mpcomm.gather %x, %i dim = 2 batch_dims = 1 : (tensor<4x5x6x7xbf16>, tensor<4x3xi32>) -> tensor<4x5x3x7xbf16>
  return %0 : tensor<4x5x3x7xbf16>
}

// -----

// A gradient is summed up in f32.
// CHECK-LABEL: func.func @gather_grad(
//       CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
//       CHECK: %[[FILL:.*]] = linalg.fill ins(%[[ZERO]] : f32)
//       CHECK: %[[SUM:.*]] = mprt.scatter "sum" dim = 0 batch_dims = 0 clamp skipped = 0 ins(%{{.*}}, %{{.*}} : tensor<5x4xf32>, tensor<5xi64>) outs(%[[FILL]] : tensor<3x4xf32>)
//       CHECK: linalg.generic {{.*}} ins(%[[SUM]] : tensor<3x4xf32>)
//       CHECK: arith.truncf
func.func @gather_grad(%dy: tensor<5x4xbf16>, %ids: tensor<5xi64>) -> tensor<3x4xbf16> {
  %0 = mpcomm.gather_grad %dy, %ids padding_idx = 0 : (tensor<5x4xbf16>, tensor<5xi64>) -> tensor<3x4xbf16>
  return %0 : tensor<3x4xbf16>
}

// -----

// What only chooses elements does so in their type.
// CHECK-LABEL: func.func @scatter(
// CHECK-SAME: %[[X:.*]]: tensor<8x4xf16>, %[[I:.*]]: tensor<8x2xi64>, %[[U:.*]]: tensor<8x2xf16>
//  CHECK-NEXT: %[[R:.*]] = mprt.scatter "max" dim = 1 batch_dims = 1 ins(%[[U]], %[[I]] : tensor<8x2xf16>, tensor<8x2xi64>) outs(%[[X]] : tensor<8x4xf16>)
//  CHECK-NEXT: return %[[R]]
func.func @scatter(%x: tensor<8x4xf16>, %i: tensor<8x2xi64>, %u: tensor<8x2xf16>) -> tensor<8x4xf16> {
  %0 = mpcomm.scatter %x, %i, %u reduction max dim = 1 batch_dims = 1 : (tensor<8x4xf16>, tensor<8x2xi64>, tensor<8x2xf16>) -> tensor<8x4xf16>
  return %0 : tensor<8x4xf16>
}

// -----

// A constant becomes a fill, in the type of the sum.
// CHECK-LABEL: func.func @scatter_onto_constant(
//       CHECK: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
//       CHECK: %[[FILL:.*]] = linalg.fill ins(%[[ONE]] : f32)
//       CHECK: mprt.scatter "prod" dim = 0 batch_dims = 0 ins({{.*}} : tensor<2x4xf32>, tensor<2xi64>) outs(%[[FILL]] : tensor<8x4xf32>)
func.func @scatter_onto_constant(%i: tensor<2xi64>, %u: tensor<2x4xf16>) -> tensor<8x4xf16> {
  %x = arith.constant dense<1.0> : tensor<8x4xf16>
  %0 = mpcomm.scatter %x, %i, %u reduction prod : (tensor<8x4xf16>, tensor<2xi64>, tensor<2x4xf16>) -> tensor<8x4xf16>
  return %0 : tensor<8x4xf16>
}
