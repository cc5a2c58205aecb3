//===- ConvolutionPlan.cpp - a convolution as cuDNN wants it --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/cuda/ConvolutionPlan.h"

#include "device/Descriptors.h"
#include "device/cuda/Scratch.h"
#include "support/DType.h"

#include <algorithm>
#include <span>

using namespace mprt;
using namespace mprt::cuda;

ConvolutionPlan::~ConvolutionPlan() {
  for (DnnTensor tensor : {x, y, given, copied})
    if (tensor)
      library.cudnnDestroyTensorDescriptor(tensor);
  if (w)
    library.cudnnDestroyFilterDescriptor(w);
  if (convolution)
    library.cudnnDestroyConvolutionDescriptor(convolution);
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

/// Dimensions [N, C, H, W], the one that runs fastest first.
static constexpr int channelsFirstOrder[] = {3, 2, 1, 0};
static constexpr int channelsLastOrder[] = {1, 3, 2, 0};

static void pack(const int64_t sizes[4], const int (&order)[4],
                 int64_t strides[4]) {
  int64_t step = 1;
  for (int dimension : order)
    strides[dimension] = step, step *= sizes[dimension];
}

static int typeOf(uint8_t type) {
  switch (type) {
  case MPRT_F64:
    return CUDNN_DATA_DOUBLE;
  case MPRT_F16:
    return CUDNN_DATA_HALF;
  case MPRT_BF16:
    return CUDNN_DATA_BFLOAT16;
  default:
    return CUDNN_DATA_FLOAT;
  }
}

/// Which operand of the descriptor is x, w or y.
static int operandOf(const mprt_window_desc &desc, char name) {
  switch (desc.kind) {
  case MPRT_CONVOLUTION:
    return name == 'x' ? 0 : name == 'w' ? 1 : 2;
  case MPRT_CONVOLUTION_INPUT_GRAD:
    return name == 'y' ? 0 : name == 'w' ? 1 : 2;
  default:
    return name == 'y' ? 0 : name == 'x' ? 1 : 2;
  }
}

static Error tooLarge(int64_t value) {
  return makeError(MPRT_UNSUPPORTED, "a size or stride of ", value,
                   ", at most 2^31 - 1 expected");
}

Error ConvolutionPlan::describeTensor(DnnTensor &tensor, int operand) {
  int64_t sizes[4], strides[4];
  sizesOfOperand(desc, operand, sizes);
  std::copy_n(stridesOf(desc, operand), 4, strides);
  // With strides as the library writes them, so that it knows the layout.
  bool first = isDense(sizes, strides, channelsFirstOrder);
  bool last = isDense(sizes, strides, channelsLastOrder);
  if (last && (channelsLast || !first))
    pack(sizes, channelsLastOrder, strides);
  else if (first)
    pack(sizes, channelsFirstOrder, strides);
  for (const int64_t *values : {sizes, strides})
    for (int i = 0; i < 4; ++i)
      if (values[i] > INT32_MAX || values[i] < 0)
        return tooLarge(values[i]);
  if (Error error = library.check(library.cudnnCreateTensorDescriptor(&tensor),
                                  "cudnnCreateTensorDescriptor"))
    return error;
  return library.check(library.cudnnSetTensor4dDescriptorEx(
                           tensor, typeOf(desc.type), int(sizes[0]),
                           int(sizes[1]), int(sizes[2]), int(sizes[3]),
                           int(strides[0]), int(strides[1]), int(strides[2]),
                           int(strides[3])),
                       "cudnnSetTensor4dDescriptorEx");
}

Error ConvolutionPlan::describeFilter(int operand) {
  int64_t sizes[4];
  sizesOfOperand(desc, operand, sizes);
  const int64_t *strides = stridesOf(desc, operand);
  bool first = isDense(sizes, strides, channelsFirstOrder);
  bool last = isDense(sizes, strides, channelsLastOrder);
  if (!first && !last)
    return makeError(MPRT_UNSUPPORTED, "a filter with strides ", strides[0],
                     ", ", strides[1], ", ", strides[2], ", ", strides[3],
                     "; expected a dense one, [K, C, R, S] or [K, R, S, C] in "
                     "memory");
  for (int64_t size : sizes)
    if (size > INT32_MAX)
      return tooLarge(size);
  if (Error error = library.check(library.cudnnCreateFilterDescriptor(&w),
                                  "cudnnCreateFilterDescriptor"))
    return error;
  // Gradients want images and filters in one layout, and images with the
  // channels first want such filters (seen on cuDNN 9.19, sm_90).
  bool needsFirst = !channelsLast && !first;
  bool needsLast = channelsLast && !last && desc.kind != MPRT_CONVOLUTION;
  if (needsFirst || needsLast)
    if (Error error = describeFilterCopy(
            operand, needsLast ? channelsLastOrder : channelsFirstOrder))
      return error;
  bool isLast = needsLast || (last && channelsLast);
  int format = isLast ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  return library.check(library.cudnnSetFilter4dDescriptor(
                           w, typeOf(desc.type), format, int(sizes[0]),
                           int(sizes[1]), int(sizes[2]), int(sizes[3])),
                       "cudnnSetFilter4dDescriptor");
}

Error ConvolutionPlan::describeFilterCopy(int operand, const int (&order)[4]) {
  int64_t sizes[4], strides[4];
  sizesOfOperand(desc, operand, sizes);
  pack(sizes, order, strides);
  copyBytes = sizeOf(mprt_dtype(desc.type));
  for (int64_t size : sizes)
    copyBytes *= uint64_t(size);
  copyBytes = (copyBytes + 255) & ~uint64_t(255);
  struct {
    DnnTensor *tensor;
    const int64_t *strides;
  } layouts[] = {{&given, stridesOf(desc, operand)}, {&copied, strides}};
  for (const auto &[tensor, steps] : layouts) {
    if (Error error = library.check(library.cudnnCreateTensorDescriptor(tensor),
                                    "cudnnCreateTensorDescriptor"))
      return error;
    if (Error error = library.check(
            library.cudnnSetTensor4dDescriptorEx(
                *tensor, typeOf(desc.type), int(sizes[0]), int(sizes[1]),
                int(sizes[2]), int(sizes[3]), int(steps[0]), int(steps[1]),
                int(steps[2]), int(steps[3])),
            "cudnnSetTensor4dDescriptorEx"))
      return error;
  }
  return {};
}

Error ConvolutionPlan::describeConvolution() {
  // The library pads as much after the last row as before the first.
  for (int axis = 0; axis < 2; ++axis) {
    int64_t span = (desc.window[axis] - 1) * desc.dilation[axis] + 1;
    int64_t room = desc.input[2 + axis] + 2 * desc.low[axis] - span;
    int64_t made = room < 0 ? 0 : room / desc.strides[axis] + 1;
    if (made != desc.output[2 + axis])
      return makeError(MPRT_UNSUPPORTED, "an output of ", desc.output[2 + axis],
                       axis ? " columns" : " rows", " from ",
                       desc.input[2 + axis], "; cuDNN, which pads with ",
                       desc.low[axis], " on both sides, makes ", made);
  }
  if (desc.groups > INT32_MAX)
    return tooLarge(desc.groups);
  if (Error error =
          library.check(library.cudnnCreateConvolutionDescriptor(&convolution),
                        "cudnnCreateConvolutionDescriptor"))
    return error;
  int computeType =
      desc.type == MPRT_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  if (Error error = library.check(
          library.cudnnSetConvolution2dDescriptor(
              convolution, int(desc.low[0]), int(desc.low[1]),
              int(desc.strides[0]), int(desc.strides[1]), int(desc.dilation[0]),
              int(desc.dilation[1]), CUDNN_CROSS_CORRELATION, computeType),
          "cudnnSetConvolution2dDescriptor"))
    return error;
  if (Error error = library.check(
          library.cudnnSetConvolutionGroupCount(convolution, int(desc.groups)),
          "cudnnSetConvolutionGroupCount"))
    return error;
  // The default takes TF32 for f32.
  mathType = isHalf(desc.type)                       ? CUDNN_TENSOR_OP_MATH
             : desc.type == MPRT_F32 && allowsTf32() ? CUDNN_DEFAULT_MATH
                                                     : CUDNN_FMA_MATH;
  return library.check(
      library.cudnnSetConvolutionMathType(convolution, mathType),
      "cudnnSetConvolutionMathType");
}

/// Whether pixels are rows of channels, one after the other.
static bool hasPixelRows(const int64_t *sizes, const int64_t *strides) {
  int64_t channels = sizes[1], height = sizes[2], width = sizes[3];
  auto is = [&](int dim, int64_t stride) {
    return sizes[dim] == 1 || strides[dim] == stride;
  };
  return is(1, 1) && is(3, channels) && is(2, channels * width) &&
         is(0, channels * width * height);
}

/// With windows of one element, all of which are there: images are matrices of
/// pixels by channels, and a filter is one of output by input channels.
static std::optional<mprt_gemm_desc> productOf(const mprt_window_desc &d) {
  if (d.groups != 1 || d.window[0] != 1 || d.window[1] != 1 ||
      d.strides[0] != 1 || d.strides[1] != 1 || d.low[0] != 0 ||
      d.low[1] != 0 || d.input[2] != d.output[2] || d.input[3] != d.output[3])
    return std::nullopt;
  const int64_t *strides[] = {d.strides_a, d.strides_b, d.strides_c};
  int filter = d.kind == MPRT_CONVOLUTION_FILTER_GRAD ? 2 : 1;
  for (int operand = 0; operand < 3; ++operand) {
    int64_t sizes[4];
    sizesOfOperand(d, operand, sizes);
    bool fits = operand == filter
                    ? (sizes[1] == 1 || strides[operand][1] == 1) &&
                          (sizes[0] == 1 || strides[operand][0] == sizes[1])
                    : hasPixelRows(sizes, strides[operand]);
    if (!fits)
      return std::nullopt;
  }
  int64_t pixels = d.input[0] * d.input[2] * d.input[3];
  int64_t inside = d.input[1], outside = d.output[1];
  mprt_gemm_desc product{};
  product.type_a = product.type_b = product.type_c = d.type;
  auto set = [&](int64_t m, int64_t n, int64_t k, bool turnsA, bool turnsB) {
    product.m = m, product.n = n, product.k = k;
    product.strides_a[turnsA] = turnsA ? m : k;
    product.strides_a[!turnsA] = 1;
    product.strides_b[turnsB] = turnsB ? k : n;
    product.strides_b[!turnsB] = 1;
    product.strides_c[0] = n, product.strides_c[1] = 1;
  };
  if (d.kind == MPRT_CONVOLUTION) // y = x w^T
    set(pixels, outside, inside, false, true);
  else if (d.kind == MPRT_CONVOLUTION_INPUT_GRAD) // dx = dy w
    set(pixels, inside, outside, false, false);
  else // dw = dy^T x
    set(outside, inside, pixels, true, false);
  product.name = d.name;
  product.location = d.location;
  return product;
}

Error ConvolutionPlan::describe(const mprt_window_desc &wanted) {
  desc = wanted;
  product = productOf(desc);
  int operandX = operandOf(desc, 'x'), operandY = operandOf(desc, 'y');
  for (int operand : {operandX, operandY}) {
    int64_t sizes[4];
    sizesOfOperand(desc, operand, sizes);
    const int64_t *strides = stridesOf(desc, operand);
    channelsLast |= isDense(sizes, strides, channelsLastOrder) &&
                    !isDense(sizes, strides, channelsFirstOrder);
  }
  if (Error error = describeTensor(x, operandX))
    return error;
  if (Error error = describeTensor(y, operandY))
    return error;
  if (Error error = describeFilter(operandOf(desc, 'w')))
    return error;
  return describeConvolution();
}

//===----------------------------------------------------------------------===//
// Algorithms
//===----------------------------------------------------------------------===//

/// Algorithms that add the products that the definition names, those first
/// that add in the same order in each run.
static std::span<const int> directAlgorithms(uint8_t kind) {
  static constexpr int forward[] = {1, 0, 2, CUDNN_CONVOLUTION_FWD_ALGO_DIRECT};
  static constexpr int data[] = {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, 0};
  static constexpr int filter[] = {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, 0,
                                   CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3};
  switch (kind) {
  case MPRT_CONVOLUTION:
    return forward;
  case MPRT_CONVOLUTION_INPUT_GRAD:
    return data;
  default:
    return filter;
  }
}

static bool isDirect(uint8_t kind, int algorithm) {
  std::span<const int> known = directAlgorithms(kind);
  return std::find(known.begin(), known.end(), algorithm) != known.end();
}

/// Whether the algorithm adds up in the order in which threads come.
static bool isByChance(uint8_t kind, int algorithm) {
  if (kind == MPRT_CONVOLUTION_INPUT_GRAD)
    return algorithm == 0;
  return kind == MPRT_CONVOLUTION_FILTER_GRAD &&
         (algorithm == 0 || algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3);
}

Error ConvolutionPlan::measureWorkspace(DnnHandle handle, Choice &of) {
  if (Error error = library.check(
          library.cudnnSetConvolutionMathType(convolution, of.mathType),
          "cudnnSetConvolutionMathType"))
    return error;
  size_t bytes = 0;
  int status = CUDNN_STATUS_SUCCESS;
  switch (desc.kind) {
  case MPRT_CONVOLUTION:
    status = library.cudnnGetConvolutionForwardWorkspaceSize(
        handle, x, w, convolution, y, of.algorithm, &bytes);
    break;
  case MPRT_CONVOLUTION_INPUT_GRAD:
    status = library.cudnnGetConvolutionBackwardDataWorkspaceSize(
        handle, w, y, convolution, x, of.algorithm, &bytes);
    break;
  default:
    status = library.cudnnGetConvolutionBackwardFilterWorkspaceSize(
        handle, x, y, convolution, w, of.algorithm, &bytes);
  }
  of.workspaceBytes = bytes + copyBytes;
  return library.check(status, "the size of a workspace");
}

Expected<std::vector<ConvolutionPlan::Choice>>
ConvolutionPlan::list(DnnHandle handle, uint64_t workspaceBytes) {
  constexpr int wanted = 16;
  DnnRanked ranked[wanted] = {};
  int found = 0;
  auto rank = [&] {
    switch (desc.kind) {
    case MPRT_CONVOLUTION:
      return library.check(
          library.cudnnGetConvolutionForwardAlgorithm_v7(
              handle, x, w, convolution, y, wanted, &found, ranked),
          "cudnnGetConvolutionForwardAlgorithm_v7");
    case MPRT_CONVOLUTION_INPUT_GRAD:
      return library.check(
          library.cudnnGetConvolutionBackwardDataAlgorithm_v7(
              handle, w, y, convolution, x, wanted, &found, ranked),
          "cudnnGetConvolutionBackwardDataAlgorithm_v7");
    default:
      return library.check(
          library.cudnnGetConvolutionBackwardFilterAlgorithm_v7(
              handle, x, y, convolution, w, wanted, &found, ranked),
          "cudnnGetConvolutionBackwardFilterAlgorithm_v7");
    }
  };
  if (Error error = rank())
    return error;
  bool repeatable = false;
  auto isGood = [&](const DnnRanked &one) {
    // Of f32 only what keeps all its digits, unless it was said not to matter.
    bool exact = one.mathType != CUDNN_TENSOR_OP_MATH &&
                 one.mathType != CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
    return one.status == CUDNN_STATUS_SUCCESS &&
           one.workspaceBytes <= workspaceBytes &&
           isDirect(desc.kind, one.algorithm) &&
           (exact || mathType != CUDNN_FMA_MATH);
  };
  for (int i = 0; i < found; ++i)
    repeatable |=
        isGood(ranked[i]) && ranked[i].determinism != CUDNN_NON_DETERMINISTIC;
  std::vector<Choice> choices;
  for (int i = 0; i < found; ++i) {
    const DnnRanked &one = ranked[i];
    if (!isGood(one) ||
        (repeatable && one.determinism == CUDNN_NON_DETERMINISTIC))
      continue;
    Choice choice;
    choice.algorithm = one.algorithm;
    choice.mathType =
        mathType == CUDNN_FMA_MATH ? CUDNN_FMA_MATH : one.mathType;
    if (!measureWorkspace(handle, choice) &&
        choice.workspaceBytes <= workspaceBytes)
      choices.push_back(choice);
  }
  // What the library's ranking leaves out it may still compute.
  std::string refused;
  if (choices.empty()) {
    for (int algorithm : directAlgorithms(desc.kind)) {
      if (!choices.empty() && isByChance(desc.kind, algorithm))
        continue;
      Choice choice;
      choice.algorithm = algorithm;
      choice.mathType = mathType;
      Error error = measureWorkspace(handle, choice);
      if (!error && choice.workspaceBytes <= workspaceBytes)
        choices.push_back(choice);
      else
        refused += (refused.empty() ? "" : "; ") + std::to_string(algorithm) +
                   ": " +
                   (error ? error.message()
                          : std::to_string(choice.workspaceBytes) + " bytes");
    }
  }
  if (choices.empty())
    return makeError(MPRT_UNSUPPORTED,
                     "cuDNN has no algorithm for it that needs at most ",
                     workspaceBytes >> 20, " MiB of scratch (", refused, ")");
  return choices;
}

Error ConvolutionPlan::run(DnnHandle handle, const Choice &with,
                           void *workspace, const void *a, const void *b,
                           void *c) {
  if (Error error = library.check(
          library.cudnnSetConvolutionMathType(convolution, with.mathType),
          "cudnnSetConvolutionMathType"))
    return error;
  const float one = 1, none = 0;
  const double one64 = 1, none64 = 0;
  bool wide = desc.type == MPRT_F64;
  const void *alpha = wide ? static_cast<const void *>(&one64) : &one;
  const void *beta = wide ? static_cast<const void *>(&none64) : &none;
  // The filter's copy comes first in the workspace.
  void *filter = workspace;
  uint64_t workspaceBytes = with.workspaceBytes - copyBytes;
  workspace = workspaceBytes == 0 ? nullptr
                                  : static_cast<char *>(workspace) + copyBytes;
  void *gradient = c;
  if (copyBytes && desc.kind != MPRT_CONVOLUTION_FILTER_GRAD) {
    if (Error error =
            library.check(library.cudnnTransformTensor(handle, alpha, given, b,
                                                       beta, copied, filter),
                          "cudnnTransformTensor"))
      return error;
    b = filter;
  } else if (copyBytes) {
    c = filter;
  }
  switch (desc.kind) {
  case MPRT_CONVOLUTION: // x, w -> y
    return library.check(
        library.cudnnConvolutionForward(handle, alpha, x, a, w, b, convolution,
                                        with.algorithm, workspace,
                                        workspaceBytes, beta, y, c),
        "cudnnConvolutionForward");
  case MPRT_CONVOLUTION_INPUT_GRAD: // dy, w -> dx
    return library.check(library.cudnnConvolutionBackwardData(
                             handle, alpha, w, b, y, a, convolution,
                             with.algorithm, workspace, workspaceBytes, beta, x,
                             c),
                         "cudnnConvolutionBackwardData");
  default: // dy, x -> dw
    if (Error error = library.check(library.cudnnConvolutionBackwardFilter(
                                        handle, alpha, x, b, y, a, convolution,
                                        with.algorithm, workspace,
                                        workspaceBytes, beta, w, c),
                                    "cudnnConvolutionBackwardFilter"))
      return error;
    if (!copyBytes)
      return {};
    return library.check(library.cudnnTransformTensor(handle, alpha, copied, c,
                                                      beta, given, gradient),
                         "cudnnTransformTensor");
  }
}
