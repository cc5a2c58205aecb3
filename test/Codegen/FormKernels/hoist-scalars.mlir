// RUN: mpcomm-opt %s --mpcomm-form-kernels --split-input-file | FileCheck %s
//
// Reciprocals of scalar arguments stand first, side by side; other ops stay.

// CHECK-LABEL: func.func @reciprocals(
//  CHECK-SAME: %[[A:.+]]: tensor<f32>, %[[B:.+]]: tensor<f32>
//       CHECK: mprt.launch @[[DIV:kernel_divf[_0-9]*]] ins(%[[A]]
//       CHECK: mprt.launch @kernel_divf{{[_0-9]*}} ins(%[[B]]
//       CHECK: linalg.contract
//       CHECK: return
func.func @reciprocals(%a: tensor<f32>, %b: tensor<f32>, %x: tensor<8x8xf32>) -> (tensor<f32>, tensor<8x8xf32>, tensor<f32>) {
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %0 = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%a : tensor<f32>) outs(%e : tensor<f32>) {
  ^bb0(%in: f32, %out: f32):
    %q = arith.divf %one, %in : f32
    linalg.yield %q : f32
  } -> tensor<f32>
  %m = tensor.empty() : tensor<8x8xf32>
  %i = linalg.fill ins(%zero : f32) outs(%m : tensor<8x8xf32>) -> tensor<8x8xf32>
  %p = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %x : tensor<8x8xf32>, tensor<8x8xf32>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%b : tensor<f32>) outs(%e : tensor<f32>) {
  ^bb0(%in: f32, %out: f32):
    %q = arith.divf %one, %in : f32
    linalg.yield %q : f32
  } -> tensor<f32>
  return %0, %p, %1 : tensor<f32>, tensor<8x8xf32>, tensor<f32>
}

// -----

// The init is one that another block has, too; what is no quotient of early
// scalars, as a copy or a quotient of a sum, stays after the product.
// CHECK-LABEL: func.func @others(
//       CHECK: scf.if
//       CHECK: linalg.contract
//       CHECK: mprt.launch @kernel_divf
func.func @others(%c: i1, %a: tensor<f32>, %x: tensor<8x8xf32>) -> (tensor<f32>, tensor<8x8xf32>, tensor<f32>) {
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %0 = scf.if %c -> tensor<f32> {
    %r = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%a : tensor<f32>) outs(%e : tensor<f32>) {
    ^bb0(%in: f32, %out: f32):
      %q = arith.divf %one, %in : f32
      linalg.yield %q : f32
    } -> tensor<f32>
    scf.yield %r : tensor<f32>
  } else {
    scf.yield %a : tensor<f32>
  }
  %m = tensor.empty() : tensor<8x8xf32>
  %i = linalg.fill ins(%zero : f32) outs(%m : tensor<8x8xf32>) -> tensor<8x8xf32>
  %p = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %x : tensor<8x8xf32>, tensor<8x8xf32>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%0 : tensor<f32>) outs(%e : tensor<f32>) {
  ^bb0(%in: f32, %out: f32):
    %q = arith.divf %one, %in : f32
    linalg.yield %q : f32
  } -> tensor<f32>
  return %0, %p, %1 : tensor<f32>, tensor<8x8xf32>, tensor<f32>
}

// -----

// One alone joins the kernel that reads it.
// CHECK-LABEL: func.func @alone(
//       CHECK: linalg.contract
//       CHECK: mprt.launch
//   CHECK-NOT: mprt.launch
//       CHECK: return
func.func @alone(%a: tensor<f32>, %x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %m = tensor.empty() : tensor<8x8xf32>
  %i = linalg.fill ins(%zero : f32) outs(%m : tensor<8x8xf32>) -> tensor<8x8xf32>
  %p = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %x : tensor<8x8xf32>, tensor<8x8xf32>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  %e = tensor.empty() : tensor<f32>
  %0 = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%a : tensor<f32>) outs(%e : tensor<f32>) {
  ^bb0(%in: f32, %out: f32):
    %q = arith.divf %one, %in : f32
    linalg.yield %q : f32
  } -> tensor<f32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ()>, affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]} ins(%p, %0 : tensor<8x8xf32>, tensor<f32>) outs(%m : tensor<8x8xf32>) {
  ^bb0(%in: f32, %scale: f32, %out: f32):
    %q = arith.mulf %in, %scale : f32
    linalg.yield %q : f32
  } -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
