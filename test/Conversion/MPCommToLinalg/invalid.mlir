// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg --verify-diagnostics --split-input-file
//
// What cannot be lowered is an error at the op.

func.func @dynamic_shape(%a: tensor<?xf32>) -> tensor<?xf32> {
  // expected-error @below {{failed to legalize operation 'arith.addf'}}
  %0 = arith.addf %a, %a : tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

func.func @unranked(%a: tensor<*xf32>) -> tensor<*xf32> {
  // expected-error @below {{failed to legalize operation 'math.exp'}}
  %0 = math.exp %a : tensor<*xf32>
  return %0 : tensor<*xf32>
}
