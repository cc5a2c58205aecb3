// RUN: mpcomm-opt %s --mpcomm-bufferize-step --split-input-file | FileCheck %s

// What is sent is not overwritten before its await, and what is received is
// not read before: the runtime works on both meanwhile.

// The new value of the buffer that is sent is made elsewhere, and copied there
// after the await.
// CHECK-LABEL: func.func @sent
// CHECK-SAME: (%[[W:.*]]: memref<4xf32> {mprt.update})
// CHECK: mprt.start "send" {{.*}} ins(%[[W]] : memref<4xf32>) outs() {mpcomm.tag = "F0"}
// CHECK: %[[NEW:.*]] = memref.alloc()
// CHECK: mprt.launch @k outs(%[[NEW]] :
// CHECK: mprt.await event = 0 ins(%[[W]] : memref<4xf32>) outs()
// CHECK: memref.copy %[[NEW]], %[[W]]
func.func @sent(%w: tensor<4xf32> {mpcomm.donated = 0 : i64}) -> tensor<4xf32> {
  mprt.start "send" "" id = 0 communicator = 0 event = 0 peer = 1 accumulate f32 ins(%w : tensor<4xf32>) outs() {mpcomm.tag = "F0"}
  %r = mprt.launch @k outs(%w : tensor<4xf32>) -> (tensor<4xf32>)
  mprt.await event = 0 ins(%w : tensor<4xf32>) outs()
  return %r : tensor<4xf32>
}
func.func private @k(tensor<4xf32>) -> tensor<4xf32> attributes {mpcomm.kernel}

// -----

// After the await it is made in place.
// CHECK-LABEL: func.func @sent_before
// CHECK-SAME: (%[[W:.*]]: memref<4xf32> {mprt.update})
// CHECK-NOT: memref.alloc
// CHECK: mprt.await event = 0 ins(%[[W]] : memref<4xf32>) outs()
// CHECK: mprt.launch @k outs(%[[W]] :
// CHECK-NOT: memref.copy
func.func @sent_before(%w: tensor<4xf32> {mpcomm.donated = 0 : i64}) -> tensor<4xf32> {
  mprt.start "send" "" id = 0 communicator = 0 event = 0 peer = 1 accumulate f32 ins(%w : tensor<4xf32>) outs()
  mprt.await event = 0 ins(%w : tensor<4xf32>) outs()
  %r = mprt.launch @k outs(%w : tensor<4xf32>) -> (tensor<4xf32>)
  return %r : tensor<4xf32>
}
func.func private @k(tensor<4xf32>) -> tensor<4xf32> attributes {mpcomm.kernel}

// -----

// A receive has a buffer of its own from its start on, also where a value that
// is made meanwhile could share it.
// CHECK-LABEL: func.func @received
// CHECK: %[[A:.*]] = memref.alloc()
// CHECK: mprt.start "recv" {{.*}} outs(%[[A]] :
// CHECK: mprt.launch @k outs(%[[X:.*]] :
// CHECK: mprt.await event = 0 ins() outs(%[[A]] :
// CHECK: mprt.launch @add ins(%[[A]] : memref<4xf32>) outs(%[[X]] :
func.func @received(%x: tensor<4xf32> {mpcomm.donated = 0 : i64}) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %s = mprt.start "recv" "" id = 0 communicator = 0 event = 0 peer = 1 accumulate f32 ins() outs(%e : tensor<4xf32>) -> (tensor<4xf32>)
  %k = mprt.launch @k outs(%x : tensor<4xf32>) -> (tensor<4xf32>)
  %a = mprt.await event = 0 ins() outs(%s : tensor<4xf32>) -> (tensor<4xf32>)
  %r = mprt.launch @add ins(%a : tensor<4xf32>) outs(%k : tensor<4xf32>) -> (tensor<4xf32>)
  return %r : tensor<4xf32>
}
func.func private @k(tensor<4xf32>) -> tensor<4xf32> attributes {mpcomm.kernel}
func.func private @add(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> attributes {mpcomm.kernel}
