// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg --canonicalize --cse --mpcomm-form-kernels --split-input-file | FileCheck %s
// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg --canonicalize --cse --mpcomm-form-kernels=reuse-operands=false --split-input-file | FileCheck %s --check-prefix=FRESH
//
// Where results go.

// The optimizer's results go where parameter and state are, which the kernel
// reads as its destinations.
// CHECK-LABEL: func.func @update
//       CHECK: mprt.launch @kernel_sgd_update_0 ins(%arg2, %arg3 : tensor<8xf32>, tensor<f32>) outs(%arg0, %arg1 : tensor<8xf32>, tensor<8xf32>)
//       CHECK: func.func private @kernel_sgd_update_0(%{{.+}}: tensor<8xf32>, %{{.+}}: tensor<f32>, %[[P:.+]]: tensor<8xf32>, %[[B:.+]]: tensor<8xf32>)
//       CHECK: linalg.generic {{.*}} ins(%[[P]], {{.*}}, %[[B]] : {{.*}} outs(%[[P]], %[[B]] :
// FRESH-LABEL: func.func @update
//       FRESH: outs(%arg0, %arg1 :
func.func @update(%p: tensor<8xf32> {mpcomm.donated = 0 : i64}, %b: tensor<8xf32> {mpcomm.donated = 1 : i64}, %g: tensor<8xf32>, %lr: tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %p1, %b1 = mpcomm.sgd_update %p, %g, %lr, %b, momentum = 0.9, weight_decay = 0.0 : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %p1, %b1 : tensor<8xf32>, tensor<8xf32>
}

// -----

// The parameter is still read afterwards: it keeps its memory.
// CHECK-LABEL: func.func @read_afterwards
//       CHECK: mprt.launch @kernel_sgd_update_0 ins(%arg0, %arg1, %arg2 : {{.*}}) outs(%{{[^a]+}} : tensor<8x8xf32>)
//       CHECK: linalg.contract {{.*}} ins(%{{.+}}, %arg0
func.func @read_afterwards(%p: tensor<8x8xf32> {mpcomm.donated = 0 : i64}, %g: tensor<8x8xf32>, %lr: tensor<f32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %p1 = mpcomm.sgd_update %p, %g, %lr, weight_decay = 0.0 : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  %0 = mpcomm.dot_general %p1, %p, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %p1, %0 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// Nobody else reads the product.
// CHECK-LABEL: func.func @over_product
//       CHECK: %[[P:.+]] = linalg.contract
//       CHECK: mprt.launch @kernel_addf_maximumf_0 ins(%arg2 : tensor<4xf32>) outs(%[[P]] : tensor<8x4xf32>)
// FRESH-LABEL: func.func @over_product
//       FRESH: %[[P:.+]] = linalg.contract
//       FRESH: %[[E:.+]] = tensor.empty
//       FRESH: mprt.launch @kernel_addf_maximumf_0 ins(%[[P]], %arg2 : {{.*}}) outs(%[[E]] :
func.func @over_product(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<8x4xf32>
  %0 = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %1 = mpcomm.broadcast_in_dim %b, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
  %2 = arith.addf %0, %1 : tensor<8x4xf32>
  %3 = arith.maximumf %2, %zero : tensor<8x4xf32>
  return %3 : tensor<8x4xf32>
}

// -----

// One of two results goes there, the other into memory of its own.
// CHECK-LABEL: func.func @one_product_two_results
//       CHECK: %[[P:.+]] = linalg.contract
//       CHECK: %[[E:.+]] = tensor.empty
//       CHECK: mprt.launch @kernel_exp_tanh_0 outs(%[[P]], %[[E]] : tensor<8x4xf32>, tensor<8x4xf32>)
func.func @one_product_two_results(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %1 = math.exp %0 : tensor<8x4xf32>
  %2 = math.tanh %0 : tensor<8x4xf32>
  return %1, %2 : tensor<8x4xf32>, tensor<8x4xf32>
}

// -----

// The second kernel reads the product once more.
// CHECK-LABEL: func.func @product_read_twice
//       CHECK: %[[P:.+]] = linalg.contract
//       CHECK: mprt.launch @kernel_exp_0 ins(%[[P]] :
//       CHECK: linalg.contract {{.*}} ins(%{{.+}}, %[[P]]
func.func @product_read_twice(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = math.exp %0 : tensor<8x8xf32>
  %2 = mpcomm.dot_general %1, %0, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// -----

// A reduction that starts from a tensor adds to it: that is its destination.
#all = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
// CHECK-LABEL: func.func @accumulate
//       CHECK: mprt.launch @kernel_addf_0 ins(%arg0 : tensor<4x8xf32>) outs(%arg1 : tensor<4xf32>)
func.func @accumulate(%x: tensor<4x8xf32>, %sum: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%sum : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.addf %out, %in : f32
    linalg.yield %1 : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// An op that reads the tensor that it starts from as its input too, where it
// writes it: the destination serves for both.
#id = affine_map<(d0) -> (d0)>
// CHECK-LABEL: func.func @start_is_input
//       CHECK: mprt.launch @kernel_mulf_addf_0 outs(%arg0 : tensor<8xf32>)
//       CHECK: func.func private @kernel_mulf_addf_0(%[[D:.+]]: tensor<8xf32>) ->
//       CHECK: linalg.generic {{.*}} ins(%[[D]] : tensor<8xf32>) outs(%[[D]] : tensor<8xf32>)
func.func @start_is_input(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%x : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.mulf %a, %a : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Where it reads it elsewhere, it has a copy.
#id = affine_map<(d0, d1) -> (d0, d1)>
#flip = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-LABEL: func.func @start_is_input_elsewhere
//       CHECK: mprt.launch @kernel_addf_0 ins(%arg0 : tensor<8x8xf32>) outs(%arg0 : tensor<8x8xf32>)
//       CHECK: func.func private @kernel_addf_0(%[[X:.+]]: tensor<8x8xf32>, %[[D:.+]]: tensor<8x8xf32>) ->
//       CHECK: linalg.generic {{.*}} ins(%[[X]] : tensor<8x8xf32>) outs(%[[D]] : tensor<8x8xf32>)
func.func @start_is_input_elsewhere(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = linalg.generic {indexing_maps = [#flip, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x8xf32>) outs(%x : tensor<8x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
