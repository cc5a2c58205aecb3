// mpcomm-reduce deletes what does not matter to a failure: here everything but
// the softmax that the script looks for.

// RUN: mpcomm-reduce %s -reduction-tree='traversal-mode=0 test=%S/Inputs/has-softmax.sh' \
// RUN:   | FileCheck %s

// CHECK-NOT: @other
// CHECK-NOT: mpcomm.gelu
// CHECK: func.func @wanted
// CHECK: mpcomm.softmax
// CHECK-NOT: @another
func.func @other(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = mpcomm.gelu %x : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
func.func @wanted(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = mpcomm.softmax %x, dim = 1 : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
func.func @another(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = mpcomm.log_softmax %x, dim = 1 : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
