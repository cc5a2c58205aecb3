// Calls of parts that the verifier refuses.

// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics

func.func @call_c3_1(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects @part to be a private function with a body that is no kernel}}
  mprt.call @part ins(%x : tensor<4xf32>)
  return
}

// -----

func.func @part(%x: tensor<4xf32>) { return }
func.func @call_c3_2(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects @part to be a private function with a body that is no kernel}}
  mprt.call @part ins(%x : tensor<4xf32>)
  return
}

// -----

func.func private @part(tensor<4xf32>)
func.func @call_c3_3(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects @part to be a private function with a body that is no kernel}}
  mprt.call @part ins(%x : tensor<4xf32>)
  return
}

// -----

func.func private @part(%x: tensor<4xf32>) { return }
func.func @call_c3_4() {
  // expected-error @+1 {{has 0 inputs, but @part takes 1}}
  mprt.call @part
  return
}

// -----

func.func private @part(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
func.func @call_c3_5(%x: tensor<4xf32>) {
  // expected-error @+1 {{has 0 outputs, but @part takes 1}}
  mprt.call @part ins(%x : tensor<4xf32>)
  return
}

// -----

func.func private @part(%x: tensor<4xf32>) { return }
func.func @call_c3_6(%x: tensor<4xf64>) {
  // expected-error @+1 {{has input #0 of type 'tensor<4xf64>', but @part takes 'tensor<4xf32>'}}
  mprt.call @part ins(%x : tensor<4xf64>)
  return
}

// -----

func.func private @part(%x: tensor<4xf32> {mpcomm.donated = 0 : i64}) -> tensor<4xf32> { return %x : tensor<4xf32> }
func.func @call_c3_7(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  // expected-error @+1 {{has output #0 of type 'tensor<2x2xf32>', but @part takes 'tensor<4xf32>'}}
  %r = mprt.call @part outs(%x : tensor<2x2xf32>) -> (tensor<2x2xf32>)
  return %r : tensor<2x2xf32>
}

// -----

func.func private @part() attributes {mprt.results = [{type = tensor<4xf32>, argument = -1 : i64}]} { return }
func.func @call_c3_8(%x: memref<4xf32>) {
  // expected-error @+1 {{expects @part to say where its results are}}
  mprt.call @part outs(%x : memref<4xf32>)
  return
}

// -----

func.func private @part(%arena: memref<64xi8>) attributes {mprt.arena_bytes = 64 : i64, mprt.results = []} { return }
func.func @call_c3_9(%s: memref<63xi8>) {
  // expected-error @+1 {{has scratch of type 'memref<63xi8>', but @part needs 64 bytes}}
  mprt.call @part scratch(%s : memref<63xi8>)
  return
}

// -----

func.func private @part(%x: memref<4xf32>) { return }
func.func @call_c1(%x: tensor<4xf32>, %y: memref<4xf32>) {
  // expected-error @+1 {{expects operands that are all tensors or all buffers}}
  "mprt.call"(%x, %y) <{callee = @part, operandSegmentSizes = array<i32: 1, 1, 0>}> : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}
// -----

func.func private @part(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
func.func @call_c2(%x: tensor<4xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{expects results of its outputs' types}}
  %r = mprt.call @part ins(%x : tensor<4xf32>) outs(%x : tensor<4xf32>) -> (tensor<8xf32>)
  return %r : tensor<8xf32>
}

// -----

func.func private @part(%x: memref<4xf32>) attributes {mprt.results = []} { return }
func.func @call_c3_trips(%x: memref<7x4xf32>) {
  // expected-error @+1 {{has input #0 of type 'memref<7x4xf32>', but @part takes 'memref<4xf32>'}}
  mprt.call @part trips = 8 ins(%x : memref<7x4xf32>)
  return
}

// -----

func.func private @part(%x: memref<4xf32>) attributes {mprt.results = []} { return }
func.func @call_c3_once(%x: memref<1x4xf32>) {
  // expected-error @+1 {{has input #0 of type 'memref<1x4xf32>', but @part takes 'memref<4xf32>'}}
  mprt.call @part ins(%x : memref<1x4xf32>)
  return
}

// -----

func.func private @part(%x: memref<4xf32>) attributes {mprt.results = []} { return }
func.func @call_c4(%x: memref<4xf32>) {
  // expected-error @+1 {{has 0 trips, expected 1 to 2^31 - 1}}
  mprt.call @part trips = 0 ins(%x : memref<4xf32>)
  return
}

// -----

func.func private @part(%x: memref<4xf32>) attributes {mprt.results = []} { return }
func.func @call_c4_reverse(%x: memref<4xf32>) {
  // expected-error @+1 {{is reverse without trips}}
  mprt.call @part reverse ins(%x : memref<4xf32>)
  return
}
