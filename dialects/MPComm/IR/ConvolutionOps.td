//===- ConvolutionOps.td - convolutions, pools, batch norm -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ops of convolutional networks. Activations are [N, C, H, W], or [N, H, W, C]
// if an op has `channels_last`; filters are always [out, in / groups, height,
// width].
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_IR_CONVOLUTIONOPS
#define MPCOMM_IR_CONVOLUTIONOPS

include "ComputeOps.td"

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

/// Implements FeatureLayoutOpInterface for an op with the flag `channels_last`.
class MPComm_FeatureLayout<string images, string results> {
  code declarations = [{
    bool hasFeaturesSecond() { return !getChannelsLast(); }
    void setFeaturesLast() { setChannelsLast(true); }
    ::llvm::SmallVector<unsigned> getImageOperands() { return }] # images # [{; }
    ::llvm::SmallVector<unsigned> getImageResults() { return }] # results # [{; }
  }];
}

/// One of the three products of a convolution. `filter` and `output` are the
/// getters of the values, operands or result, with those types.
class MPComm_ConvolutionBase<string mnemonic, string filter, string output,
                             string images, string imageResults, Trait linear,
                             dag operands>
    : MPComm_ComputeOp<mnemonic, "LowerPrecision", [{
    return ::mpcomm::detail::countConvolutionFlops(}] # filter # [{.getType(),
                                                   }] # output #
                                         [{.getType());}],
      [linear, MPComm_FeatureLayoutOpInterface]> {
  let arguments = !con(operands,
      (ins DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$low,
           DenseI64ArrayAttr:$high, DenseI64ArrayAttr:$dilation,
           I64Attr:$groups, UnitAttr:$channels_last));
  let results = (outs MPComm_FloatTensor:$result);
  let extraClassDeclaration = computeDeclarations #
      MPComm_FeatureLayout<images, imageResults>.declarations # [{
    ::mlir::Type getAccumulationType();
    ::mpcomm::ProductKind getProductKind() {
      return ::mpcomm::ProductKind::Convolution;
    }
  }];
  let hasVerifier = 1;
}

def MPComm_ConvolutionOp : MPComm_ConvolutionBase<"convolution",
    "getFilter()", "getResult()", "{0}", "{0}", MPComm_LinearInEach,
    (ins MPComm_FloatTensor:$input, MPComm_FloatTensor:$filter)> {
  let summary = "two-dimensional convolution";
  let description = [{
    y[n, o, i, j] = sum over c, p, q of
    x[n, g + c, i * stride + p * dilation - low, …] * w[o, c, p, q], where x is
    0 outside of its bounds and g is the first input channel of the group of o.
    This is StableHLO's op in two dimensions, in two layouts, without dilation
    of the input.

    The element type of the result is that of the operands. Sums are in f32 for
    16-bit operands, and in the operands' type otherwise.

    Example:
    ```mlir
    %y = mpcomm.convolution %x, %w, strides = [2, 2], low = [1, 1], high = [1, 1], dilation = [1, 1], groups = 1
        : (tensor<8x3x32x32xf32>, tensor<16x3x3x3xf32>) -> tensor<8x16x16x16xf32>
    ```

    Constraints:
    - C1: input, filter and output have rank 4 and one element type.
    - C2: each list has two entries; strides and dilations are at least 1, and
      paddings at least 0; these and the filter's sizes are below 2^31.
    - C3: channels, sizes and `groups` are positive, and `groups` divides the
      channels of the filter.
    - C4: the input has `groups` times the filter's input channels.
    - C5: the output has the input's batch, the filter's output channels, and
      as many positions as the filter has in the padded input, at least one.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let assemblyFormat = [{
    $input `,` $filter `,` `strides` `=` $strides `,` `low` `=` $low `,`
    `high` `=` $high `,` `dilation` `=` $dilation `,` `groups` `=` $groups
    attr-dict `:` functional-type(operands, results)
  }];
}

def MPComm_ConvolutionInputGradOp
    : MPComm_ConvolutionBase<"convolution_input_grad",
    "getFilter()", "getGrad()", "{0}", "{0}", MPComm_GradientProduct,
    (ins MPComm_FloatTensor:$grad, MPComm_FloatTensor:$filter)> {
  let summary = "gradient of convolution by its input";
  let description = [{
    dx[n, g + c, h, w] = sum over o, p, q of dy[n, o, i, j] * w[o, c, p, q],
    where dy is the gradient of the output, and i, j is the output position at
    which the convolution multiplies element (h, w) by (p, q) of the filter.

    Example:
    ```mlir
    %dx = mpcomm.convolution_input_grad %dy, %w, strides = [2, 2], low = [1, 1], high = [1, 1], dilation = [1, 1], groups = 1
        : (tensor<8x16x16x16xf32>, tensor<16x3x3x3xf32>) -> tensor<8x3x32x32xf32>
    ```

    Constraints:
    - C1: a convolution of the result's type with the filter has the type of
      dy: C1 to C5 of `convolution`.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let assemblyFormat = [{
    $grad `,` $filter `,` `strides` `=` $strides `,` `low` `=` $low `,`
    `high` `=` $high `,` `dilation` `=` $dilation `,` `groups` `=` $groups
    attr-dict `:` functional-type(operands, results)
  }];
}

def MPComm_ConvolutionFilterGradOp
    : MPComm_ConvolutionBase<"convolution_filter_grad",
    "getResult()", "getGrad()", "{0, 1}", "{}", MPComm_GradientProduct,
    (ins MPComm_FloatTensor:$grad, MPComm_FloatTensor:$input)> {
  let summary = "gradient of convolution by its filter";
  let description = [{
    dw[o, c, p, q] = sum over n, i, j of dy[n, o, i, j] times the element of x
    that the convolution multiplies by w[o, c, p, q] there.

    Example:
    ```mlir
    %dw = mpcomm.convolution_filter_grad %dy, %x, strides = [2, 2], low = [1, 1], high = [1, 1], dilation = [1, 1], groups = 1
        : (tensor<8x16x16x16xf32>, tensor<8x3x32x32xf32>) -> tensor<16x3x3x3xf32>
    ```

    Constraints:
    - C1: a convolution of x with a filter of the result's type has the type of
      dy: C1 to C5 of `convolution`.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let assemblyFormat = [{
    $grad `,` $input `,` `strides` `=` $strides `,` `low` `=` $low `,`
    `high` `=` $high `,` `dilation` `=` $dilation `,` `groups` `=` $groups
    attr-dict `:` functional-type(operands, results)
  }];
}

//===----------------------------------------------------------------------===//
// Pools
//===----------------------------------------------------------------------===//

class MPComm_PoolBase<string mnemonic, string precision, string windowed,
                      string images, Trait linear, dag operands,
                      dag flags = (ins)>
    : MPComm_ComputeOp<mnemonic, precision, [{
    return ::mpcomm::detail::countWindowFlops(getWindow(),
                                              }] # windowed # [{.getType());}],
      [linear, MPComm_FeatureLayoutOpInterface]> {
  let arguments = !con(operands,
      (ins DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
           DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high), flags,
      (ins UnitAttr:$channels_last));
  let results = (outs MPComm_FloatTensor:$result);
  let extraClassDeclaration = computeDeclarations #
      MPComm_FeatureLayout<images, "{0}">.declarations;
  let hasVerifier = 1;
}

def MPComm_MaxPoolOp : MPComm_PoolBase<"max_pool", "Any", "getResult()",
                                       "{0}", MPComm_LinearJointly,
                                       (ins MPComm_FloatTensor:$input)> {
  let summary = "maximum of each window";
  let description = [{
    Each result element is the maximum of a window of `window` elements of the
    input; windows are `strides` apart. Padding is never the maximum. If a
    window contains a NaN, its maximum is NaN.

    Example:
    ```mlir
    %y = mpcomm.max_pool %x, window = [3, 3], strides = [2, 2], low = [1, 1], high = [1, 1]
        : (tensor<8x16x32x32xf32>) -> tensor<8x16x16x16xf32>
    ```

    Constraints:
    - C1: input and result have rank 4 and one element type, batch and channels.
    - C2: each list has two entries; windows and strides are at least 1,
      paddings at least 0 and below the window's size, all below 2^31.
    - C3: channels and sizes are positive, and the result has one element for
      each position of the window, at least one.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let assemblyFormat = [{
    $input `,` `window` `=` $window `,` `strides` `=` $strides `,` `low` `=`
    $low `,` `high` `=` $high attr-dict `:` functional-type(operands, results)
  }];
}

def MPComm_MaxPoolGradOp : MPComm_PoolBase<"max_pool_grad", "Promote",
                                         "getGrad()",
    "{0, 1}", MPComm_LinearInGradient,
    (ins MPComm_FloatTensor:$grad, MPComm_FloatTensor:$input)> {
  let summary = "gradient of max_pool";
  let description = [{
    The gradient of an element of x is the sum of dy over the windows of which
    it is the maximum. If several elements are equal, the first in row-major
    order of the window is the maximum; if there are NaNs, the last of them is.

    Example:
    ```mlir
    %dx = mpcomm.max_pool_grad %dy, %x, window = [3, 3], strides = [2, 2], low = [1, 1], high = [1, 1]
        : (tensor<8x16x16x16xf32>, tensor<8x16x32x32xf32>) -> tensor<8x16x32x32xf32>
    ```

    Constraints:
    - C1: `max_pool` of x, and of the result, has the type of dy: its C1 to C3.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let assemblyFormat = [{
    $grad `,` $input `,` `window` `=` $window `,` `strides` `=` $strides `,`
    `low` `=` $low `,` `high` `=` $high attr-dict `:`
    functional-type(operands, results)
  }];
}

def MPComm_AvgPoolOp : MPComm_PoolBase<"avg_pool", "Promote", "getResult()",
    "{0}", MPComm_LinearJointly,
    (ins MPComm_FloatTensor:$input), (ins UnitAttr:$count_padding)> {
  let summary = "mean of each window";
  let description = [{
    Each result element is the sum of the elements of the input in a window,
    divided by their number or, with `count_padding`, by the size of the window.
    Sums of 16-bit elements are in f32.

    Example:
    ```mlir
    %y = mpcomm.avg_pool %x, window = [2, 2], strides = [2, 2], low = [0, 0], high = [0, 0] {count_padding}
        : (tensor<8x16x32x32xf32>) -> tensor<8x16x16x16xf32>
    ```

    Constraints:
    - C1: C1 to C3 of `max_pool`.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let assemblyFormat = [{
    $input `,` `window` `=` $window `,` `strides` `=` $strides `,` `low` `=`
    $low `,` `high` `=` $high attr-dict `:` functional-type(operands, results)
  }];
}

def MPComm_AvgPoolGradOp : MPComm_PoolBase<"avg_pool_grad", "Promote",
                                         "getGrad()",
    "{0}", MPComm_LinearInGradient, (ins MPComm_FloatTensor:$grad), (ins UnitAttr:$count_padding)> {
  let summary = "gradient of avg_pool";
  let description = [{
    The gradient of an element of the input is the sum, over the windows that
    contain it, of dy divided by the divisor of `avg_pool`.

    Example:
    ```mlir
    %dx = mpcomm.avg_pool_grad %dy, window = [2, 2], strides = [2, 2], low = [0, 0], high = [0, 0] {count_padding}
        : (tensor<8x16x16x16xf32>) -> tensor<8x16x32x32xf32>
    ```

    Constraints:
    - C1: `avg_pool` of the result has the type of dy: C1 to C3 of `max_pool`.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let assemblyFormat = [{
    $grad `,` `window` `=` $window `,` `strides` `=` $strides `,` `low` `=`
    $low `,` `high` `=` $high attr-dict `:` functional-type(operands, results)
  }];
}

//===----------------------------------------------------------------------===//
// Batch norm
//===----------------------------------------------------------------------===//

/// Implements FeatureLayoutOpInterface for an op with a `feature_dim`.
class MPComm_NormLayout<string images> {
  code declarations = [{
    bool hasFeaturesSecond() {
      return getInput().getType().getRank() == 4 && getFeatureDim() == 1;
    }
    void setFeaturesLast() { setFeatureDim(3); }
    ::llvm::SmallVector<unsigned> getImageOperands() { return }] # images # [{; }
    ::llvm::SmallVector<unsigned> getImageResults() { return {0}; }
  }];
}

def MPComm_BatchNormTrainingOp
    : MPComm_InferredOp<"batch_norm_training", "FP32", [{
    return 8 * ::mpcomm::detail::countElements(getInput().getType());}],
    [MPComm_FeatureLayoutOpInterface]> {
  let summary = "normalisation of each feature over the batch";
  let description = [{
    y = (x - mean) / sqrt(variance + eps) * gamma + beta for each index of
    `feature_dim`. Mean and (biased) variance are over the other dimensions, and
    are results too. As StableHLO's op.

    Statistics are over the batch of one rank.

    Example:
    ```mlir
    %y, %mean, %variance = mpcomm.batch_norm_training %x, %gamma, %beta, eps = 1.0e-05, feature_dim = 1
        : (tensor<8x64x4x4xf32>, tensor<64xf32>, tensor<64xf32>)
        -> (tensor<8x64x4x4xf32>, tensor<64xf32>, tensor<64xf32>)
    ```

    Constraints:
    - C1: `feature_dim` is in range.
    - C2: gamma and beta have rank 1, the feature dimension's size, and one
      element type, which has at least as many bits as the operand's.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_FloatTensor:$input, MPComm_FloatTensor:$gamma,
                       MPComm_FloatTensor:$beta, F64Attr:$eps,
                       I64Attr:$feature_dim);
  let results = (outs MPComm_FloatTensor:$result, MPComm_FloatTensor:$mean,
                      MPComm_FloatTensor:$variance);
  let assemblyFormat = [{
    $input `,` $gamma `,` $beta `,` `eps` `=` custom<PlainF64>($eps) `,`
    `feature_dim` `=` $feature_dim attr-dict `:`
    functional-type(operands, results)
  }];
  let extraClassDeclaration = computeDeclarations #
      MPComm_NormLayout<"{0}">.declarations;
}

def MPComm_BatchNormInferenceOp
    : MPComm_InferredOp<"batch_norm_inference", "FP32", [{
    return 2 * ::mpcomm::detail::countElements(getInput().getType());}],
    [MPComm_FeatureLayoutOpInterface]> {
  let summary = "normalisation of each feature by given statistics";
  let description = [{
    y = (x - mean) / sqrt(variance + eps) * gamma + beta for each index of
    `feature_dim`. As StableHLO's op.

    Example:
    ```mlir
    %y = mpcomm.batch_norm_inference %x, %gamma, %beta, %mean, %variance, eps = 1.0e-05, feature_dim = 1
        : (tensor<8x64x4x4xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<8x64x4x4xf32>
    ```

    Constraints:
    - C1: `feature_dim` is in range.
    - C2: gamma, beta, mean and variance have rank 1, the feature dimension's
      size, and one element type, which has at least as many bits as the
      operand's.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_FloatTensor:$input, MPComm_FloatTensor:$gamma,
                       MPComm_FloatTensor:$beta, MPComm_FloatTensor:$mean,
                       MPComm_FloatTensor:$variance, F64Attr:$eps,
                       I64Attr:$feature_dim);
  let results = (outs MPComm_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $gamma `,` $beta `,` $mean `,` $variance `,` `eps` `=`
    custom<PlainF64>($eps) `,` `feature_dim` `=` $feature_dim attr-dict `:`
    functional-type(operands, results)
  }];
  let extraClassDeclaration = computeDeclarations #
      MPComm_NormLayout<"{0}">.declarations;
}

def MPComm_BatchNormGradOp : MPComm_InferredOp<"batch_norm_grad", "FP32", [{
    return 12 * ::mpcomm::detail::countElements(getInput().getType());}],
    [MPComm_LinearInGradient, MPComm_FeatureLayoutOpInterface]> {
  let summary = "gradient of batch_norm_training";
  let description = [{
    With rstd = 1 / sqrt(variance + eps), xhat = (x - mean) * rstd, and means
    over all dimensions but `feature_dim`:
    dx = gamma * rstd * (dy - mean(dy) - xhat * mean(dy * xhat)); dgamma and
    dbeta are the sums of dy * xhat and of dy. As StableHLO's op.

    Example:
    ```mlir
    %dx, %dgamma, %dbeta = mpcomm.batch_norm_grad %dy, %x, %gamma, %mean, %variance, eps = 1.0e-05, feature_dim = 1
        : (tensor<8x64x4x4xf32>, tensor<8x64x4x4xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>)
        -> (tensor<8x64x4x4xf32>, tensor<64xf32>, tensor<64xf32>)
    ```

    Constraints:
    - C1: `feature_dim` is in range.
    - C2: gamma, mean and variance have rank 1, the feature dimension's size,
      and one element type, which has at least as many bits as the operand's.
    - C3: dy has x's type.

    Created by front ends; lowered by `convert-mpcomm-to-linalg`.
  }];
  let arguments = (ins MPComm_FloatTensor:$grad, MPComm_FloatTensor:$input,
                       MPComm_FloatTensor:$gamma, MPComm_FloatTensor:$mean,
                       MPComm_FloatTensor:$variance, F64Attr:$eps,
                       I64Attr:$feature_dim);
  let results = (outs MPComm_FloatTensor:$input_grad,
                      MPComm_FloatTensor:$gamma_grad,
                      MPComm_FloatTensor:$beta_grad);
  let assemblyFormat = [{
    $grad `,` $input `,` $gamma `,` $mean `,` $variance `,` `eps` `=`
    custom<PlainF64>($eps) `,` `feature_dim` `=` $feature_dim attr-dict `:`
    functional-type(operands, results)
  }];
  let extraClassDeclaration = computeDeclarations #
      MPComm_NormLayout<"{0, 1}">.declarations;
}

#endif // MPCOMM_IR_CONVOLUTIONOPS
