// What the verifiers of convolutions, pools and batch norms refuse. Each case
// names the constraint that it breaks.

// RUN: mpcomm-opt %s --split-input-file --verify-diagnostics

func.func @convolution_c1_rank(%a: tensor<3x8x8xf32>, %b: tensor<4x3x3x3xf32>) {
  // expected-error @below {{expects input, filter and output of rank 4 and of one element type}}
  %0 = mpcomm.convolution %a, %b, strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], groups = 1 : (tensor<3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x6x6xf32>
  return
}

// -----

func.func @convolution_c1_filter(%a: tensor<2x3x8x8xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{expects input, filter and output of rank 4 and of one element type}}
  %0 = mpcomm.convolution %a, %b, strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], groups = 1 : (tensor<2x3x8x8xf32>, tensor<4xf32>) -> tensor<2x4x6x6xf32>
  return
}

// -----

func.func @convolution_c1_type(%a: tensor<2x3x8x8xf32>, %b: tensor<4x3x3x3xbf16>) {
  // expected-error @below {{expects input, filter and output of rank 4 and of one element type}}
  %0 = mpcomm.convolution %a, %b, strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], groups = 1 : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xbf16>) -> tensor<2x4x6x6xf32>
  return
}

// -----

func.func @convolution_c2_entries(%a: tensor<2x3x8x8xf32>, %b: tensor<4x3x3x3xf32>) {
  // expected-error @below {{expects two entries in 'strides', got 1}}
  %0 = mpcomm.convolution %a, %b, strides = [1], low = [0, 0], high = [0, 0], dilation = [1, 1], groups = 1 : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x6x6xf32>
  return
}

// -----

func.func @convolution_c2_stride(%a: tensor<2x3x8x8xf32>, %b: tensor<4x3x3x3xf32>) {
  // expected-error @below {{expects entries in [1, 2147483647] in 'strides', got 0}}
  %0 = mpcomm.convolution %a, %b, strides = [1, 0], low = [0, 0], high = [0, 0], dilation = [1, 1], groups = 1 : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x6x6xf32>
  return
}

// -----

func.func @convolution_c2_padding(%a: tensor<2x3x8x8xf32>, %b: tensor<4x3x3x3xf32>) {
  // expected-error @below {{expects entries in [0, 2147483647] in 'low', got -1}}
  %0 = mpcomm.convolution %a, %b, strides = [1, 1], low = [0, -1], high = [0, 0], dilation = [1, 1], groups = 1 : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x6x6xf32>
  return
}

// -----

func.func @convolution_c2_dilation(%a: tensor<2x3x8x8xf32>, %b: tensor<4x3x3x3xf32>) {
  // expected-error @below {{expects entries in [1, 2147483647] in 'dilation', got 2147483648}}
  %0 = mpcomm.convolution %a, %b, strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [2147483648, 1], groups = 1 : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x6x6xf32>
  return
}

// -----

func.func @convolution_c2_filter(%a: tensor<2x3x8x8xf32>, %b: tensor<4x3x0x3xf32>) {
  // expected-error @below {{expects entries in [1, 2147483647] in 'window', got 0}}
  %0 = mpcomm.convolution %a, %b, strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], groups = 1 : (tensor<2x3x8x8xf32>, tensor<4x3x0x3xf32>) -> tensor<2x4x6x6xf32>
  return
}

// -----

func.func @convolution_c3_groups(%a: tensor<2x3x8x8xf32>, %b: tensor<4x3x3x3xf32>) {
  // expected-error @below {{expects positive sizes, and 'groups' that divide the output channels of 'tensor<4x3x3x3xf32>', got 3}}
  %0 = mpcomm.convolution %a, %b, strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], groups = 3 : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x6x6xf32>
  return
}

// -----

func.func @convolution_c3_none(%a: tensor<2x3x8x8xf32>, %b: tensor<4x3x3x3xf32>) {
  // expected-error @below {{expects positive sizes, and 'groups' that divide the output channels of 'tensor<4x3x3x3xf32>', got 0}}
  %0 = mpcomm.convolution %a, %b, strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], groups = 0 : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x6x6xf32>
  return
}

// -----

func.func @convolution_c3_size(%a: tensor<2x3x0x8xf32>, %b: tensor<4x3x3x3xf32>) {
  // expected-error @below {{expects positive sizes, and 'groups' that divide the output channels of 'tensor<4x3x3x3xf32>', got 1 and 'tensor<2x3x0x8xf32>'}}
  %0 = mpcomm.convolution %a, %b, strides = [1, 1], low = [8, 0], high = [0, 0], dilation = [1, 1], groups = 1 : (tensor<2x3x0x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x6x6xf32>
  return
}

// -----

func.func @convolution_c4(%a: tensor<2x4x8x8xf32>, %b: tensor<4x3x3x3xf32>) {
  // expected-error @below {{expects an input of 1 groups of 3 channels, got 4}}
  %0 = mpcomm.convolution %a, %b, strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], groups = 1 : (tensor<2x4x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x6x6xf32>
  return
}

// -----

func.func @convolution_c5_batch(%a: tensor<2x3x8x8xf32>, %b: tensor<4x3x3x3xf32>) {
  // expected-error @below {{expects an output of batch 2 and 4 channels, got 3 and 4}}
  %0 = mpcomm.convolution %a, %b, strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], groups = 1 : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<3x4x6x6xf32>
  return
}

// -----

func.func @convolution_c5_channels(%a: tensor<2x3x8x8xf32>, %b: tensor<4x3x3x3xf32>) {
  // expected-error @below {{expects an output of batch 2 and 4 channels, got 2 and 3}}
  %0 = mpcomm.convolution %a, %b, strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], groups = 1 : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x3x6x6xf32>
  return
}

// -----

func.func @convolution_c5_height(%a: tensor<2x3x8x8xf32>, %b: tensor<4x3x3x3xf32>) {
  // expected-error @below {{has 6 windows along the height of 'tensor<2x3x8x8xf32>', expected as many as 'tensor<2x4x7x6xf32>' has, at least one}}
  %0 = mpcomm.convolution %a, %b, strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], groups = 1 : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x7x6xf32>
  return
}

// -----

func.func @convolution_c5_none(%a: tensor<2x3x8x2xf32>, %b: tensor<4x3x3x3xf32>) {
  // expected-error @below {{has 0 windows along the width of 'tensor<2x3x8x2xf32>', expected as many as 'tensor<2x4x6x0xf32>' has, at least one}}
  %0 = mpcomm.convolution %a, %b, strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], groups = 1 : (tensor<2x3x8x2xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x6x0xf32>
  return
}

// -----

func.func @convolution_c5_layout(%a: tensor<2x3x8x8xf32>, %b: tensor<4x3x3x3xf32>) {
  // expected-error @below {{expects an input of 1 groups of 3 channels, got 8}}
  %0 = mpcomm.convolution %a, %b, strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], groups = 1 {channels_last} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x6x6xf32>
  return
}

// -----

func.func @convolution_input_grad_c1(%a: tensor<2x4x6x6xf32>, %b: tensor<4x3x3x3xf32>) {
  // expected-error @below {{has 7 windows along the height of 'tensor<2x3x9x8xf32>', expected as many as 'tensor<2x4x6x6xf32>' has, at least one}}
  %0 = mpcomm.convolution_input_grad %a, %b, strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], groups = 1 : (tensor<2x4x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<2x3x9x8xf32>
  return
}

// -----

func.func @convolution_filter_grad_c1(%a: tensor<2x4x6x6xf32>, %b: tensor<2x3x8x8xf32>) {
  // expected-error @below {{has 5 windows along the width of 'tensor<2x3x8x8xf32>', expected as many as 'tensor<2x4x6x6xf32>' has, at least one}}
  %0 = mpcomm.convolution_filter_grad %a, %b, strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], groups = 1 : (tensor<2x4x6x6xf32>, tensor<2x3x8x8xf32>) -> tensor<4x3x3x4xf32>
  return
}

// -----

func.func @max_pool_c1_rank(%a: tensor<3x8x8xf32>, %b: f32) {
  // expected-error @below {{expects input and result of rank 4 and of one element type}}
  %0 = mpcomm.max_pool %a, window = [2, 2], strides = [2, 2], low = [0, 0], high = [0, 0] : (tensor<3x8x8xf32>) -> tensor<2x3x4x4xf32>
  return
}

// -----

func.func @max_pool_c1_channels(%a: tensor<2x3x8x8xf32>, %b: f32) {
  // expected-error @below {{expects input and result of the same batch and channels}}
  %0 = mpcomm.max_pool %a, window = [2, 2], strides = [2, 2], low = [0, 0], high = [0, 0] : (tensor<2x3x8x8xf32>) -> tensor<2x4x4x4xf32>
  return
}

// -----

func.func @max_pool_c2_window(%a: tensor<2x3x8x8xf32>, %b: f32) {
  // expected-error @below {{expects entries in [1, 2147483647] in 'window', got 0}}
  %0 = mpcomm.max_pool %a, window = [2, 0], strides = [2, 2], low = [0, 0], high = [0, 0] : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
  return
}

// -----

func.func @max_pool_c2_padding(%a: tensor<2x3x8x8xf32>, %b: f32) {
  // expected-error @below {{expects paddings below the window's size 2, got 2 and 0}}
  %0 = mpcomm.max_pool %a, window = [2, 2], strides = [2, 2], low = [2, 0], high = [0, 0] : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
  return
}

// -----

func.func @max_pool_c3(%a: tensor<2x3x8x8xf32>, %b: f32) {
  // expected-error @below {{has 4 windows along the width of 'tensor<2x3x8x8xf32>', expected as many as 'tensor<2x3x4x5xf32>' has, at least one}}
  %0 = mpcomm.max_pool %a, window = [2, 2], strides = [2, 2], low = [0, 0], high = [0, 0] : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x5xf32>
  return
}

// -----

func.func @max_pool_c3_empty(%a: tensor<2x0x8x8xf32>, %b: f32) {
  // expected-error @below {{expects positive channels and sizes, got 'tensor<2x0x8x8xf32>'}}
  %0 = mpcomm.max_pool %a, window = [2, 2], strides = [2, 2], low = [0, 0], high = [0, 0] : (tensor<2x0x8x8xf32>) -> tensor<2x0x4x4xf32>
  return
}

// -----

func.func @max_pool_grad_c1(%a: tensor<2x3x4x4xf32>, %b: tensor<2x3x8x8xf32>) {
  // expected-error @below {{expects a result of type 'tensor<2x3x8x8xf32>', got 'tensor<2x3x8x9xf32>'}}
  %0 = mpcomm.max_pool_grad %a, %b, window = [2, 2], strides = [2, 2], low = [0, 0], high = [0, 0] : (tensor<2x3x4x4xf32>, tensor<2x3x8x8xf32>) -> tensor<2x3x8x9xf32>
  return
}

// -----

func.func @max_pool_grad_c1_windows(%a: tensor<2x3x4x3xf32>, %b: tensor<2x3x8x8xf32>) {
  // expected-error @below {{has 4 windows along the width}}
  %0 = mpcomm.max_pool_grad %a, %b, window = [2, 2], strides = [2, 2], low = [0, 0], high = [0, 0] : (tensor<2x3x4x3xf32>, tensor<2x3x8x8xf32>) -> tensor<2x3x8x8xf32>
  return
}

// -----

func.func @avg_pool_c1(%a: tensor<2x3x8x8xf32>, %b: f32) {
  // expected-error @below {{has 4 windows along the height}}
  %0 = mpcomm.avg_pool %a, window = [2, 2], strides = [2, 2], low = [0, 0], high = [0, 0] : (tensor<2x3x8x8xf32>) -> tensor<2x3x3x4xf32>
  return
}

// -----

func.func @avg_pool_grad_c1(%a: tensor<2x3x4x4xf32>, %b: f32) {
  // expected-error @below {{has 5 windows along the width of 'tensor<2x3x8x10xf32>'}}
  %0 = mpcomm.avg_pool_grad %a, window = [2, 2], strides = [2, 2], low = [0, 0], high = [0, 0] : (tensor<2x3x4x4xf32>) -> tensor<2x3x8x10xf32>
  return
}

// -----

func.func @batch_norm_training_c1(%a: tensor<8x4x2xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{expects 'feature_dim' to be a dimension of 'tensor<8x4x2xf32>', got 3}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = mpcomm.batch_norm_training %a, %b, %b, eps = 1.0e-05, feature_dim = 3 : (tensor<8x4x2xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4x2xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @batch_norm_training_c2(%a: tensor<8x4x2xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{expects 8 elements, of one type no narrower than those of 'tensor<8x4x2xf32>', for each feature, got 'tensor<4xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = mpcomm.batch_norm_training %a, %b, %b, eps = 1.0e-05, feature_dim = 0 : (tensor<8x4x2xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4x2xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @batch_norm_training_c2_type(%a: tensor<8x4x2xf32>, %b: tensor<4xbf16>) {
  // expected-error @below {{expects 4 elements, of one type no narrower than those of 'tensor<8x4x2xf32>', for each feature, got 'tensor<4xbf16>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = mpcomm.batch_norm_training %a, %b, %b, eps = 1.0e-05, feature_dim = 1 : (tensor<8x4x2xf32>, tensor<4xbf16>, tensor<4xbf16>) -> (tensor<8x4x2xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @batch_norm_inference_c1(%a: tensor<8x4x2xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{expects 'feature_dim' to be a dimension of 'tensor<8x4x2xf32>', got -1}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.batch_norm_inference %a, %b, %b, %b, %b, eps = 1.0e-05, feature_dim = -1 : (tensor<8x4x2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<8x4x2xf32>
  return
}

// -----

func.func @batch_norm_inference_c2(%a: tensor<8x4x2xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{expects 2 elements}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.batch_norm_inference %a, %b, %b, %b, %b, eps = 1.0e-05, feature_dim = 2 : (tensor<8x4x2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<8x4x2xf32>
  return
}

// -----

func.func @batch_norm_grad_c1(%a: tensor<8x4x2xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{expects 'feature_dim' to be a dimension of 'tensor<8x4x2xf32>', got 4}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = mpcomm.batch_norm_grad %a, %a, %b, %b, %b, eps = 1.0e-05, feature_dim = 4 : (tensor<8x4x2xf32>, tensor<8x4x2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4x2xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @batch_norm_grad_c2(%a: tensor<8x4x2xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{expects 8 elements}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = mpcomm.batch_norm_grad %a, %a, %b, %b, %b, eps = 1.0e-05, feature_dim = 0 : (tensor<8x4x2xf32>, tensor<8x4x2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4x2xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @batch_norm_grad_c3(%a: tensor<8x4x3xf32>, %b: tensor<8x4x2xf32>) {
  %f = arith.constant dense<1.0> : tensor<4xf32>
  // expected-error @below {{expects a gradient of type 'tensor<8x4x2xf32>', got 'tensor<8x4x3xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = mpcomm.batch_norm_grad %a, %b, %f, %f, %f, eps = 1.0e-05, feature_dim = 1 : (tensor<8x4x3xf32>, tensor<8x4x2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4x2xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}
