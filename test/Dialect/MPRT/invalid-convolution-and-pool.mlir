// What the verifiers of mprt.convolution and mprt.pool refuse. Each case names
// the constraint that it breaks.

// RUN: mpcomm-opt %s --split-input-file --verify-diagnostics

func.func @convolution_c1(%a: memref<2x3x8x8xf32>, %b: memref<4x3x3x3xf32>, %c: memref<2x4x6x6xf32>) {
  // expected-error @below {{does not know the kind 'transpose'}}
  mprt.convolution "transpose" strides = [1, 1] low = [0, 0] high = [0, 0] dilation = [1, 1] groups = 1 ins(%a, %b : memref<2x3x8x8xf32>, memref<4x3x3x3xf32>) outs(%c : memref<2x4x6x6xf32>)
  return
}

// -----

func.func @pool_c1(%a: memref<2x3x8x8xf32>, %b: memref<2x3x6x6xf32>) {
  // expected-error @below {{does not know the kind 'convolution'}}
  mprt.pool "convolution" window = [3, 3] strides = [1, 1] low = [0, 0] high = [0, 0] ins(%a : memref<2x3x8x8xf32>) outs(%b : memref<2x3x6x6xf32>)
  return
}

// -----

func.func @convolution_c1_inputs(%a: memref<2x3x8x8xf32>, %b: memref<2x4x6x6xf32>) {
  // expected-error @below {{expects 2 inputs and one output for 'convolution', got 1 and 1}}
  mprt.convolution "convolution" strides = [1, 1] low = [0, 0] high = [0, 0] dilation = [1, 1] groups = 1 ins(%a : memref<2x3x8x8xf32>) outs(%b : memref<2x4x6x6xf32>)
  return
}

// -----

func.func @pool_c1_outputs(%a: memref<2x3x8x8xf32>, %b: memref<2x4x6x6xf32>, %c: memref<2x4x6x6xf32>) {
  // expected-error @below {{expects 1 inputs and one output for 'max_pool', got 1 and 2}}
  mprt.pool "max_pool" window = [3, 3] strides = [1, 1] low = [0, 0] high = [0, 0] ins(%a : memref<2x3x8x8xf32>) outs(%b, %c : memref<2x4x6x6xf32>, memref<2x4x6x6xf32>)
  return
}

// -----

func.func @convolution_c2(%a: tensor<2x3x8x8xf32>, %b: memref<4x3x3x3xf32>, %c: memref<2x4x6x6xf32>) {
  // expected-error @below {{expects operands that are all tensors or all buffers}}
  mprt.convolution "convolution" strides = [1, 1] low = [0, 0] high = [0, 0] dilation = [1, 1] groups = 1 ins(%a, %b : tensor<2x3x8x8xf32>, memref<4x3x3x3xf32>) outs(%c : memref<2x4x6x6xf32>)
  return
}

// -----

func.func @convolution_c2_none(%a: tensor<2x3x8x8xf32>, %b: tensor<4x3x3x3xf32>, %c: tensor<2x4x6x6xf32>) {
  // expected-error @below {{expects results of its outputs' types}}
  mprt.convolution "convolution" strides = [1, 1] low = [0, 0] high = [0, 0] dilation = [1, 1] groups = 1 ins(%a, %b : tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) outs(%c : tensor<2x4x6x6xf32>)
  return
}

// -----

func.func @convolution_c2_buffers(%a: memref<2x3x8x8xf32>, %b: memref<4x3x3x3xf32>, %c: memref<2x4x6x6xf32>) {
  // expected-error @below {{expects no results on buffers}}
  %r = mprt.convolution "convolution" strides = [1, 1] low = [0, 0] high = [0, 0] dilation = [1, 1] groups = 1 ins(%a, %b : memref<2x3x8x8xf32>, memref<4x3x3x3xf32>) outs(%c : memref<2x4x6x6xf32>) -> (tensor<2x4x6x6xf32>)
  return
}

// -----

func.func @convolution_c3_rank(%a: memref<2x3x8x8xf32>, %b: memref<4x3x3xf32>, %c: memref<2x4x6x6xf32>) {
  // expected-error @below {{expects a filter of rank 4, got 'memref<4x3x3xf32>'}}
  mprt.convolution "convolution" strides = [1, 1] low = [0, 0] high = [0, 0] dilation = [1, 1] groups = 1 ins(%a, %b : memref<2x3x8x8xf32>, memref<4x3x3xf32>) outs(%c : memref<2x4x6x6xf32>)
  return
}

// -----

func.func @convolution_c3_shape(%a: memref<2x4x6x6xf32>, %b: memref<4x3x3x3xf32>, %c: memref<2x3x9x8xf32>) {
  // expected-error @below {{has 7 windows along the height of 'memref<2x3x9x8xf32>'}}
  mprt.convolution "convolution_input_grad" strides = [1, 1] low = [0, 0] high = [0, 0] dilation = [1, 1] groups = 1 ins(%a, %b : memref<2x4x6x6xf32>, memref<4x3x3x3xf32>) outs(%c : memref<2x3x9x8xf32>)
  return
}

// -----

func.func @convolution_c3_filter_grad(%a: memref<2x4x6x6xf32>, %b: memref<2x3x8x8xf32>, %c: memref<4x1x3x3xf32>) {
  // expected-error @below {{expects an input of 1 groups of 1 channels, got 3}}
  mprt.convolution "convolution_filter_grad" strides = [1, 1] low = [0, 0] high = [0, 0] dilation = [1, 1] groups = 1 ins(%a, %b : memref<2x4x6x6xf32>, memref<2x3x8x8xf32>) outs(%c : memref<4x1x3x3xf32>)
  return
}

// -----

func.func @convolution_c3_layout(%a: memref<2x3x8x8xf32>, %b: memref<4x3x3x3xf32>, %c: memref<2x4x6x6xf32>) {
  // expected-error @below {{expects an input of 1 groups of 3 channels, got 8}}
  mprt.convolution "convolution" strides = [1, 1] low = [0, 0] high = [0, 0] dilation = [1, 1] groups = 1 channels_last ins(%a, %b : memref<2x3x8x8xf32>, memref<4x3x3x3xf32>) outs(%c : memref<2x4x6x6xf32>)
  return
}

// -----

func.func @pool_c3_pool(%a: memref<2x3x8x8xf32>, %b: memref<2x3x5x6xf32>) {
  // expected-error @below {{has 6 windows along the height of 'memref<2x3x8x8xf32>'}}
  mprt.pool "max_pool" window = [3, 3] strides = [1, 1] low = [0, 0] high = [0, 0] ins(%a : memref<2x3x8x8xf32>) outs(%b : memref<2x3x5x6xf32>)
  return
}

// -----

func.func @pool_c3_max_pool_grad(%a: memref<2x3x6x6xf32>, %b: memref<2x3x8x8xf32>, %c: memref<2x3x8x9xf32>) {
  // expected-error @below {{expects an output like 'memref<2x3x8x8xf32>', got 'memref<2x3x8x9xf32>'}}
  mprt.pool "max_pool_grad" window = [3, 3] strides = [1, 1] low = [0, 0] high = [0, 0] ins(%a, %b : memref<2x3x6x6xf32>, memref<2x3x8x8xf32>) outs(%c : memref<2x3x8x9xf32>)
  return
}

// -----

func.func @pool_c3_avg_pool_grad(%a: memref<2x3x6x6xf32>, %b: memref<2x3x8x9xf32>) {
  // expected-error @below {{has 7 windows along the width of 'memref<2x3x8x9xf32>'}}
  mprt.pool "avg_pool_grad" window = [3, 3] strides = [1, 1] low = [0, 0] high = [0, 0] ins(%a : memref<2x3x6x6xf32>) outs(%b : memref<2x3x8x9xf32>)
  return
}

// -----

func.func @pool_c4(%a: memref<2x3x8x8xf32, strided<[?, 64, 8, 1]>>, %b: memref<2x3x6x6xf32>) {
  // expected-error @below {{expects buffers of static strides that lie within 64 bits}}
  mprt.pool "max_pool" window = [3, 3] strides = [1, 1] low = [0, 0] high = [0, 0] ins(%a : memref<2x3x8x8xf32, strided<[?, 64, 8, 1]>>) outs(%b : memref<2x3x6x6xf32>)
  return
}

// -----

func.func @convolution_c4(%a: memref<2x3x8x8xf32, strided<[?, 64, 8, 1]>>, %b: memref<4x3x3x3xf32>, %c: memref<2x4x6x6xf32>) {
  // expected-error @below {{expects buffers of static strides that lie within 64 bits}}
  mprt.convolution "convolution" strides = [1, 1] low = [0, 0] high = [0, 0] dilation = [1, 1] groups = 1 ins(%a, %b : memref<2x3x8x8xf32, strided<[?, 64, 8, 1]>>, memref<4x3x3x3xf32>) outs(%c : memref<2x4x6x6xf32>)
  return
}

// -----

func.func @pool_c2(%a: memref<2x3x8x8xf32>, %b: tensor<2x3x6x6xf32>) {
  // expected-error @below {{expects operands that are all tensors or all buffers}}
  mprt.pool "max_pool" window = [3, 3] strides = [1, 1] low = [0, 0] high = [0, 0] ins(%a : memref<2x3x8x8xf32>) outs(%b : tensor<2x3x6x6xf32>)
  return
}
