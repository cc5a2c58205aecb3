// Convolutions and pools become calls with a descriptor of sizes and strides in the order
// N, C, H, W, whatever the layout; a pool has no second operand.

// RUN: mpcomm-opt %s --convert-mprt-to-llvm | FileCheck %s

// CHECK-LABEL: llvm.mlir.global internal constant @mpcomm.window
// kind 2 (filter gradient), f32
// CHECK: llvm.mlir.constant(2 : i8)
// CHECK: llvm.mlir.constant(dense<[2, 3, 8, 7]> : tensor<4xi64>)
// CHECK: llvm.mlir.constant(dense<[2, 4, 6, 6]> : tensor<4xi64>)
// CHECK: llvm.mlir.constant(dense<[3, 2]> : tensor<2xi64>)
// CHECK: llvm.mlir.constant(dense<[144, 1, 24, 4]> : tensor<4xi64>)
// CHECK: llvm.mlir.constant(dense<[168, 1, 21, 3]> : tensor<4xi64>)
// CHECK: llvm.mlir.constant(dense<[18, 6, 2, 1]> : tensor<4xi64>)
// CHECK-LABEL: llvm.mlir.global internal constant @mpcomm.window
// kind 3 (max pool)
// CHECK: llvm.mlir.constant(3 : i8)
// CHECK: llvm.mlir.constant(dense<[2, 3, 8, 7]> : tensor<4xi64>)
// CHECK: llvm.mlir.constant(dense<[2, 3, 4, 3]> : tensor<4xi64>)

// CHECK-LABEL: llvm.func @mpcomm_train_step
// CHECK: llvm.call @mprt_convolution(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[X:[^,]*]], %{{[^,]*}}) : (!llvm.ptr, i32, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
// CHECK: %[[NULL:.*]] = llvm.mlir.zero : !llvm.ptr
// CHECK: llvm.call @mprt_pool(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[X]], %[[NULL]], %{{[^,]*}})
func.func @train_step(%dy: memref<2x6x6x4xf32>, %x: memref<2x8x7x3xf32>, %dw: memref<4x3x3x2xf32>,
                      %p: memref<2x4x3x3xf32>, %arena: memref<64xi8>)
    attributes {mprt.arena_bytes = 64 : i64, mprt.results = []} {
  mprt.convolution "convolution_filter_grad" strides = [1, 1] low = [0, 0] high = [0, 0] dilation = [1, 1] groups = 1 channels_last ins(%dy, %x : memref<2x6x6x4xf32>, memref<2x8x7x3xf32>) outs(%dw : memref<4x3x3x2xf32>)
  mprt.pool "max_pool" window = [2, 2] strides = [2, 2] low = [0, 0] high = [0, 0] channels_last ins(%x : memref<2x8x7x3xf32>) outs(%p : memref<2x4x3x3xf32>)
  return
}
