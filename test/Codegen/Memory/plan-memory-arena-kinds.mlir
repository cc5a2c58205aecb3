// RUN: mpcomm-opt %s --mpcomm-plan-memory --split-input-file | FileCheck %s

// What the arena holds when it is fullest. Buffers of 16 and more floats, each of
// as many bytes as no other, distinguish them.

// The forward pass makes %act (64 bytes) and %inner (128); the backward pass reads
// %act, makes %flow (256), and of it the gradient of %w (512 bytes), which an update
// reads. %inner is gone when %flow is there. When the gradient is made, %act, %flow
// and it are in use.
// CHECK-LABEL: func.func @kinds
// CHECK-SAME: mprt.arena_bytes_by_kind = {activations = 64 : i64, communication = 0 : i64, gradients = 512 : i64, temporaries = 256 : i64}
func.func @kinds(%w: memref<128xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mprt.update},
                 %loss: memref<f32>)
    attributes {mprt.results = [{argument = -1 : i64, mpcomm.role = #mpcomm.role<loss>, type = tensor<f32>},
                                {argument = 0 : i64, mpcomm.role = #mpcomm.role<parameter>, type = tensor<128xf32>}]} {
  %act = memref.alloc() : memref<16xf32>
  %inner = memref.alloc() : memref<32xf32>
  %flow = memref.alloc() : memref<64xf32>
  %grad = memref.alloc() : memref<128xf32>
  mprt.launch @first ins(%w : memref<128xf32>) outs(%act : memref<16xf32>)
  mprt.launch @second ins(%act : memref<16xf32>) outs(%inner : memref<32xf32>)
  mprt.launch @third ins(%inner : memref<32xf32>) outs(%loss : memref<f32>)
  mprt.launch @fourth ins(%act : memref<16xf32>) outs(%flow : memref<64xf32>)
  mprt.launch @fifth ins(%flow, %act : memref<64xf32>, memref<16xf32>) outs(%grad : memref<128xf32>)
  mprt.launch @update ins(%grad : memref<128xf32>) outs(%w : memref<128xf32>)
  return
}
func.func private @first(tensor<128xf32>, tensor<16xf32>) -> tensor<16xf32> attributes {mpcomm.kernel}
func.func private @second(tensor<16xf32>, tensor<32xf32>) -> tensor<32xf32> attributes {mpcomm.kernel}
func.func private @third(tensor<32xf32>, tensor<f32>) -> tensor<f32> attributes {mpcomm.kernel}
func.func private @fourth(tensor<16xf32>, tensor<64xf32>) -> tensor<64xf32> attributes {mpcomm.kernel}
func.func private @fifth(tensor<64xf32>, tensor<16xf32>, tensor<128xf32>) -> tensor<128xf32> attributes {mpcomm.kernel}
func.func private @update(tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32> attributes {mpcomm.kernel}

// -----

// One kernel makes the loss and, of another input, what the backward pass reads:
// %saved (64 bytes) is needed by the loss and by the backward pass, %made (128
// bytes) is not the loss's, though the kernel that makes it makes the loss too.
// CHECK-LABEL: func.func @looks_into_kernels
// CHECK-SAME: mprt.arena_bytes_by_kind = {activations = 64 : i64, communication = 0 : i64, gradients = 0 : i64, temporaries = 128 : i64}
func.func @looks_into_kernels(%x: memref<16xf32>, %out: memref<32xf32>, %loss: memref<f32>)
    attributes {mprt.results = [{argument = -1 : i64, mpcomm.role = #mpcomm.role<output>, type = tensor<32xf32>},
                                {argument = -1 : i64, mpcomm.role = #mpcomm.role<loss>, type = tensor<f32>}]} {
  %saved = memref.alloc() : memref<16xf32>
  %made = memref.alloc() : memref<32xf32>
  mprt.copy %x, %saved : memref<16xf32>, memref<16xf32>
  mprt.launch @both ins(%saved : memref<16xf32>) outs(%made, %loss : memref<32xf32>, memref<f32>)
  mprt.copy %made, %out : memref<32xf32>, memref<32xf32>
  return
}
func.func private @both(%x: tensor<16xf32>, %made: tensor<32xf32>, %loss: tensor<f32>) -> (tensor<32xf32>, tensor<f32>) attributes {mpcomm.kernel} {
  %c0 = arith.constant 0 : index
  %0 = tensor.insert_slice %x into %made[0] [16] [1] : tensor<16xf32> into tensor<32xf32>
  %element = tensor.extract %x[%c0] : tensor<16xf32>
  %1 = tensor.insert %element into %loss[] : tensor<f32>
  return %0, %1 : tensor<32xf32>, tensor<f32>
}

// -----

// A bucket is communication as a whole, gradients and all: 64 + 64 bytes, and the
// copy of a buffer that is not the step's own.
// CHECK-LABEL: func.func @sent
// CHECK-SAME: mprt.arena_bytes_by_kind = {activations = 0 : i64, communication = 192 : i64, gradients = 0 : i64, temporaries = 0 : i64}
func.func @sent(%w: memref<10xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mprt.update},
                %v: memref<4xf32>, %out: memref<2xf32>)
    attributes {mprt.results = [{argument = 0 : i64, mpcomm.role = #mpcomm.role<parameter>, type = tensor<10xf32>}]} {
  %g0 = memref.alloc() : memref<10xf32>
  %g1 = memref.alloc() : memref<4xf32>
  mprt.copy %w, %g0 : memref<10xf32>, memref<10xf32>
  mprt.copy %v, %g1 : memref<4xf32>, memref<4xf32>
  mprt.start "all_reduce" "sum" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%g0, %g1, %out : memref<10xf32>, memref<4xf32>, memref<2xf32>)
  mprt.await event = 0 ins() outs(%g0, %g1, %out : memref<10xf32>, memref<4xf32>, memref<2xf32>)
  mprt.launch @update ins(%g0 : memref<10xf32>) outs(%w : memref<10xf32>)
  mprt.copy %g1, %v : memref<4xf32>, memref<4xf32>
  return
}
func.func private @update(tensor<10xf32>, tensor<10xf32>) -> tensor<10xf32> attributes {mpcomm.kernel}

// -----

// A loss that travels with a gradient does not depend on it: %act is made for the
// loss, and read for the gradient.
// CHECK-LABEL: func.func @loss_in_bucket
// CHECK-SAME: mprt.arena_bytes_by_kind = {activations = 64 : i64, communication = 128 : i64, gradients = 0 : i64, temporaries = 0 : i64}
func.func @loss_in_bucket(%w: memref<10xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mprt.update},
                          %loss: memref<f32>)
    attributes {mprt.results = [{argument = 0 : i64, mpcomm.role = #mpcomm.role<parameter>, type = tensor<10xf32>},
                                {argument = -1 : i64, mpcomm.role = #mpcomm.role<loss>, type = tensor<f32>}]} {
  %act = memref.alloc() : memref<16xf32>
  %g = memref.alloc() : memref<10xf32>
  mprt.launch @first ins(%w : memref<10xf32>) outs(%act : memref<16xf32>)
  mprt.launch @loss ins(%act : memref<16xf32>) outs(%loss : memref<f32>)
  mprt.launch @gradient ins(%act : memref<16xf32>) outs(%g : memref<10xf32>)
  mprt.start "all_reduce" "sum" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%loss, %g : memref<f32>, memref<10xf32>)
  mprt.await event = 0 ins() outs(%loss, %g : memref<f32>, memref<10xf32>)
  mprt.launch @update ins(%g : memref<10xf32>) outs(%w : memref<10xf32>)
  return
}
func.func private @first(tensor<10xf32>, tensor<16xf32>) -> tensor<16xf32> attributes {mpcomm.kernel}
func.func private @loss(tensor<16xf32>, tensor<f32>) -> tensor<f32> attributes {mpcomm.kernel}
func.func private @gradient(tensor<16xf32>, tensor<10xf32>) -> tensor<10xf32> attributes {mpcomm.kernel}
func.func private @update(tensor<10xf32>, tensor<10xf32>) -> tensor<10xf32> attributes {mpcomm.kernel}

// -----

// Written by hand: results of their own that no argument stands for, and buffers
// whose size is not known.
// CHECK-LABEL: func.func @by_hand
// CHECK-SAME: mprt.arena_bytes_by_kind = {activations = 0 : i64, communication = 0 : i64, gradients = 0 : i64, temporaries = 64 : i64}
func.func @by_hand(%x: memref<*xf32>)
    attributes {mprt.results = [{argument = -1 : i64, mpcomm.role = #mpcomm.role<loss>, type = tensor<f32>},
                                {argument = -1 : i64, type = tensor<f32>}]} {
  %a = memref.alloc() : memref<16xf32>
  memref.copy %x, %a : memref<*xf32> to memref<16xf32>
  memref.copy %a, %x : memref<16xf32> to memref<*xf32>
  return
}
