// RUN: mpcomm-opt %s --mpcomm-bufferize-step --split-input-file --verify-diagnostics

// What has no buffer is an error, never a crash.

// expected-error @below {{expects ranked tensors of static shape, got 'tensor<?xf32>'}}
func.func @dynamic(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// -----

// expected-error @below {{expects ranked tensors of static shape, got 'f32'}}
func.func @scalar(%x: f32) -> f32 {
  return %x : f32
}

// -----

// expected-error @below {{expects a body of one block}}
func.func @blocks(%x: tensor<4xf32>) -> tensor<4xf32> {
  cf.br ^bb1
^bb1:
  return %x : tensor<4xf32>
}
