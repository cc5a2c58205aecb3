//===- Cudnn.cpp - a test double of cuDNN's convolutions ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Convolutions by their definition, in the order of the stream. Among the
// algorithms that it offers are such as must not be taken: by Fourier
// transform, that do not repeat, and of f32 by TF32; the results of the first
// two are wrong by 1, so that they are seen. One algorithm fails, one is slow,
// and what one needs of a workspace is more than the ranking says.
//
//===----------------------------------------------------------------------===//

#include "CudnnHandle.h"
#include "Library.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

using namespace fake;

struct cudnnTensorStruct {
  int type = -1;
  int64_t sizes[4] = {}, strides[4] = {};

  int64_t at(int64_t i, int64_t j, int64_t k, int64_t l) const {
    return i * strides[0] + j * strides[1] + k * strides[2] + l * strides[3];
  }
  int64_t last() const {
    return at(sizes[0] - 1, sizes[1] - 1, sizes[2] - 1, sizes[3] - 1);
  }
};

struct cudnnFilterStruct : cudnnTensorStruct {};

struct cudnnConvolutionStruct {
  int pad[2] = {}, stride[2] = {}, dilation[2] = {};
  int computeType = -1, groups = 1, mathType = CUDNN_DEFAULT_MATH;
};

size_t cudnnGetVersion(void) {
  const char *version = std::getenv("MPFAKE_CUDNN_VERSION");
  return version ? std::strtoul(version, nullptr, 10) : 91900;
}

const char *cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    FAKE_CUDNN_STATUSES(FAKE_NAME_CASE)
  default:
    return "CUDNN_UNKNOWN_STATUS";
  }
}

FAKE_DESCRIPTION(cudnnStatus_t, cudnnCreate, cudnnDestroy, cudnnContext)

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  FAKE_CALL(cudnnStatus_t, cudnnSetStream);
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

//===----------------------------------------------------------------------===//
// Descriptions
//===----------------------------------------------------------------------===//

FAKE_DESCRIPTION(cudnnStatus_t, cudnnCreateTensorDescriptor,
                 cudnnDestroyTensorDescriptor, cudnnTensorStruct)
FAKE_DESCRIPTION(cudnnStatus_t, cudnnCreateFilterDescriptor,
                 cudnnDestroyFilterDescriptor, cudnnFilterStruct)
FAKE_DESCRIPTION(cudnnStatus_t, cudnnCreateConvolutionDescriptor,
                 cudnnDestroyConvolutionDescriptor, cudnnConvolutionStruct)

cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t tensor,
                                           cudnnDataType_t type, int n, int c,
                                           int h, int w, int strideN,
                                           int strideC, int strideH,
                                           int strideW) {
  FAKE_CALL(cudnnStatus_t, cudnnSetTensor4dDescriptorEx);
  *tensor = {type, {n, c, h, w}, {strideN, strideC, strideH, strideW}};
  for (int i = 0; i < 4; ++i)
    if (tensor->sizes[i] < 1 || tensor->strides[i] < 1)
      return CUDNN_STATUS_BAD_PARAM;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter,
                                         cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k,
                                         int c, int h, int w) {
  FAKE_CALL(cudnnStatus_t, cudnnSetFilter4dDescriptor);
  static constexpr int orders[][4] = {{3, 2, 1, 0}, {1, 3, 2, 0}};
  filter->type = type;
  const int sizes[] = {k, c, h, w};
  std::copy(std::begin(sizes), std::end(sizes), filter->sizes);
  if (format != CUDNN_TENSOR_NCHW && format != CUDNN_TENSOR_NHWC)
    return CUDNN_STATUS_BAD_PARAM;
  int64_t step = 1;
  for (int dimension : orders[format == CUDNN_TENSOR_NHWC]) {
    filter->strides[dimension] = step;
    step *= sizes[dimension];
  }
  return step > 0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(
    cudnnConvolutionDescriptor_t convolution, int padH, int padW, int strideH,
    int strideW, int dilationH, int dilationW, cudnnConvolutionMode_t mode,
    cudnnDataType_t computeType) {
  FAKE_CALL(cudnnStatus_t, cudnnSetConvolution2dDescriptor);
  *convolution = {
      {padH, padW}, {strideH, strideW}, {dilationH, dilationW}, computeType};
  return mode == CUDNN_CROSS_CORRELATION ? CUDNN_STATUS_SUCCESS
                                         : CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t
cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution,
                              int groups) {
  FAKE_CALL(cudnnStatus_t, cudnnSetConvolutionGroupCount);
  convolution->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t
cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution,
                            cudnnMathType_t mathType) {
  FAKE_CALL(cudnnStatus_t, cudnnSetConvolutionMathType);
  convolution->mathType = mathType;
  return CUDNN_STATUS_SUCCESS;
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

namespace {

enum Kind { Forward, BackwardData, BackwardFilter };

constexpr size_t workspaceBytes = 64 << 10;

struct Convolution {
  Kind kind;
  cudnnTensorStruct x, w, y;
  cudnnConvolutionStruct how;
  const void *pointers[3] = {}; // x, w, y
  double alpha = 1;
  int algorithm = 0;
  void *workspace = nullptr;

  cudnnStatus_t check() const;
  /// Whether images and filter have layouts that go together, as of cuDNN 9.19
  /// on sm_90.
  bool hasLayouts() const;
  size_t workspaceNeeded() const { return algorithm == 1 ? workspaceBytes : 0; }
  bool isWrong() const;
  template <typename Sum> void convolve() const;
  int run() const;

private:
  template <typename Body> void forEachTap(Body body) const;
};

} // namespace

static mprt_dtype elementOf(int type) {
  return type == CUDNN_DATA_DOUBLE     ? MPRT_F64
         : type == CUDNN_DATA_HALF     ? MPRT_F16
         : type == CUDNN_DATA_BFLOAT16 ? MPRT_BF16
                                       : MPRT_F32;
}

cudnnStatus_t Convolution::check() const {
  bool good = x.type == w.type && x.type == y.type && how.groups >= 1 &&
              x.sizes[1] == w.sizes[1] * how.groups &&
              w.sizes[0] % how.groups == 0 && x.sizes[0] == y.sizes[0] &&
              y.sizes[1] == w.sizes[0];
  for (int axis = 0; axis < 2; ++axis) {
    int64_t span = (w.sizes[2 + axis] - 1) * how.dilation[axis] + 1;
    int64_t room = x.sizes[2 + axis] + 2 * how.pad[axis] - span;
    good &= room >= 0 && y.sizes[2 + axis] == room / how.stride[axis] + 1;
  }
  int computes =
      x.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  return good && how.computeType == computes ? CUDNN_STATUS_SUCCESS
                                             : CUDNN_STATUS_BAD_PARAM;
}

/// Whether the dimensions of more than one element lie in the order of a
/// dense tensor whose `order` names the fastest first.
static bool isDense(const cudnnTensorStruct &t, const int (&order)[4]) {
  int64_t step = 1;
  for (int dimension : order) {
    if (t.sizes[dimension] > 1 && t.strides[dimension] != step)
      return false;
    step *= t.sizes[dimension];
  }
  return true;
}

bool Convolution::hasLayouts() const {
  constexpr int first[] = {3, 2, 1, 0}, last[] = {1, 3, 2, 0};
  bool isLast = isDense(x, last) && isDense(y, last) &&
                !(isDense(x, first) && isDense(y, first));
  bool filterIsFirst = isDense(w, first), filterIsLast = isDense(w, last);
  return isLast ? filterIsLast || kind == Forward : filterIsFirst;
}

/// Whether a right result would be an accident.
bool Convolution::isWrong() const {
  if (kind == Forward)
    return algorithm > CUDNN_CONVOLUTION_FWD_ALGO_DIRECT;
  return algorithm != 1;
}

/// Calls `body` with the indices of x, w and y for each product in the sum.
template <typename Body> void Convolution::forEachTap(Body body) const {
  int64_t perGroup = w.sizes[0] / how.groups;
  for (int64_t n = 0; n < y.sizes[0]; ++n)
    for (int64_t k = 0; k < y.sizes[1]; ++k)
      for (int64_t p = 0; p < y.sizes[2]; ++p)
        for (int64_t q = 0; q < y.sizes[3]; ++q)
          for (int64_t c = 0; c < w.sizes[1]; ++c)
            for (int64_t i = 0; i < w.sizes[2]; ++i)
              for (int64_t j = 0; j < w.sizes[3]; ++j) {
                int64_t row =
                    p * how.stride[0] - how.pad[0] + i * how.dilation[0];
                int64_t column =
                    q * how.stride[1] - how.pad[1] + j * how.dilation[1];
                int64_t channel = k / perGroup * w.sizes[1] + c;
                if (row >= 0 && row < x.sizes[2] && column >= 0 &&
                    column < x.sizes[3])
                  body(x.at(n, channel, row, column), w.at(k, c, i, j),
                       y.at(n, k, p, q));
              }
}

template <typename Sum> void Convolution::convolve() const {
  const cudnnTensorStruct *layouts[] = {&x, &w, &y};
  std::vector<Elements> operands;
  for (int i = 0; i < 3; ++i)
    operands.emplace_back(elementOf(layouts[i]->type), pointers[i]);
  int target = kind == Forward ? 2 : kind == BackwardData ? 0 : 1;
  bool tf32 = x.type == CUDNN_DATA_FLOAT && how.mathType != CUDNN_FMA_MATH;
  std::vector<Sum> sums(size_t(layouts[target]->last()) + 1);
  forEachTap([&](int64_t atX, int64_t atW, int64_t atY) {
    const int64_t at[] = {atX, atW, atY};
    int left = target == 0 ? 1 : 0, right = target == 2 ? 1 : 2;
    Sum a = operands[size_t(left)].get<Sum>(at[left]);
    Sum b = operands[size_t(right)].get<Sum>(at[right]);
    if (tf32)
      a = Sum(roundToTf32(double(a))), b = Sum(roundToTf32(double(b)));
    sums[size_t(at[target])] += a * b;
  });
  const cudnnTensorStruct &t = *layouts[target];
  for (int64_t i = 0; i < t.sizes[0]; ++i)
    for (int64_t j = 0; j < t.sizes[1]; ++j)
      for (int64_t k = 0; k < t.sizes[2]; ++k)
        for (int64_t l = 0; l < t.sizes[3]; ++l) {
          int64_t at = t.at(i, j, k, l);
          operands[size_t(target)].set<Sum>(at, Sum(alpha) * sums[size_t(at)] +
                                                    Sum(isWrong()));
        }
}

int Convolution::run() const {
  std::vector<Operand> operands;
  const cudnnTensorStruct *layouts[] = {&x, &w, &y};
  for (int i = 0; i < 3; ++i)
    operands.push_back(
        {elementOf(layouts[i]->type), pointers[i], layouts[i]->last()});
  return computeOn(operands, workspace, workspaceNeeded(),
                   kind == Forward && algorithm == 0,
                   x.type == CUDNN_DATA_DOUBLE,
                   [this](auto zero) { convolve<decltype(zero)>(); });
}

namespace {
/// A copy to another layout.
struct Transform {
  cudnnTensorStruct from, to;
  const void *source;
  void *target;

  int run() const {
    Operand operands[] = {{elementOf(from.type), source, from.last()},
                          {elementOf(to.type), target, to.last()}};
    return computeOn(operands, nullptr, 0, false, true,
                     [this](auto zero) { copy<decltype(zero)>(); });
  }

private:
  template <typename Number> void copy() const {
    Elements in(elementOf(from.type), source), out(elementOf(to.type), target);
    for (int64_t i = 0; i < to.sizes[0]; ++i)
      for (int64_t j = 0; j < to.sizes[1]; ++j)
        for (int64_t k = 0; k < to.sizes[2]; ++k)
          for (int64_t l = 0; l < to.sizes[3]; ++l)
            out.set<Number>(to.at(i, j, k, l),
                            in.get<Number>(from.at(i, j, k, l)));
  }
};
} // namespace

cudnnStatus_t cudnnTransformTensor(cudnnHandle_t handle, const void *alpha,
                                   cudnnTensorDescriptor_t from,
                                   const void *source, const void *beta,
                                   cudnnTensorDescriptor_t to, void *target) {
  FAKE_CALL(cudnnStatus_t, cudnnTransformTensor);
  bool isWide = from->type == CUDNN_DATA_DOUBLE;
  if (from->type != to->type ||
      !std::equal(from->sizes, from->sizes + 4, to->sizes) ||
      scalarAt(alpha, isWide) != 1 || scalarAt(beta, isWide) != 0)
    return CUDNN_STATUS_BAD_PARAM;
  return enqueue(handle->stream, "cudnnTransformTensor",
                 Transform{*from, *to, source, target})
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_EXECUTION_FAILED;
}

template <typename Ranked>
static cudnnStatus_t rank(const Convolution &convolution, int wanted,
                          int *found, Ranked *results) {
  *found = 0;
  if (cudnnStatus_t status = convolution.check())
    return status;
  bool full = convolution.x.type == CUDNN_DATA_FLOAT;
  bool half = !full && convolution.x.type != CUDNN_DATA_DOUBLE;
  bool forward = convolution.kind == Forward;
  const int plain = half ? CUDNN_TENSOR_OP_MATH : convolution.how.mathType;
  struct {
    int algorithm, determinism, mathType;
  } offers[] = {
      {forward ? CUDNN_CONVOLUTION_FWD_ALGO_FFT
               : CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT,
       CUDNN_DETERMINISTIC, plain},
      {1, CUDNN_DETERMINISTIC, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION},
      {0, forward ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC, plain},
      {1, CUDNN_DETERMINISTIC, plain},
      {forward ? 2 : CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3,
       forward ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC, plain}};
  for (const auto &offer : offers) {
    if (*found == wanted ||
        (!full && offer.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION))
      continue;
    Ranked &result = results[(*found)++];
    result = {};
    if (!convolution.hasLayouts())
      result.status = CUDNN_STATUS_NOT_SUPPORTED;
    result.algo = decltype(result.algo)(offer.algorithm);
    result.determinism = cudnnDeterminism_t(offer.determinism);
    result.mathType = cudnnMathType_t(offer.mathType);
  }
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t start(cudnnHandle_t handle, const char *name,
                           Convolution convolution,
                           const void *const (&pointers)[3], int algorithm,
                           void *workspace, size_t given, const void *alpha,
                           const void *beta) {
  if (cudnnStatus_t status = convolution.check())
    return status;
  std::copy(std::begin(pointers), std::end(pointers), convolution.pointers);
  convolution.algorithm = algorithm;
  convolution.workspace = workspace;
  bool isWide = convolution.x.type == CUDNN_DATA_DOUBLE;
  convolution.alpha = scalarAt(alpha, isWide);
  if (given < convolution.workspaceNeeded() || scalarAt(beta, isWide) != 0)
    return CUDNN_STATUS_BAD_PARAM;
  if (!convolution.hasLayouts() ||
      (convolution.kind == Forward && algorithm == 2))
    return CUDNN_STATUS_NOT_SUPPORTED;
  mpfake_note((std::string(name) + "/" + std::to_string(algorithm)).c_str());
  return enqueue(handle->stream, name, convolution)
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_EXECUTION_FAILED;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t, const cudnnTensorDescriptor_t x,
    const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t convolution,
    const cudnnTensorDescriptor_t y, const int wanted, int *found,
    cudnnConvolutionFwdAlgoPerf_t *results) {
  FAKE_CALL(cudnnStatus_t, cudnnGetConvolutionForwardAlgorithm_v7);
  return rank({Forward, *x, *w, *y, *convolution}, wanted, found, results);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t, const cudnnFilterDescriptor_t w,
    const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution,
    const cudnnTensorDescriptor_t dx, const int wanted, int *found,
    cudnnConvolutionBwdDataAlgoPerf_t *results) {
  FAKE_CALL(cudnnStatus_t, cudnnGetConvolutionBackwardDataAlgorithm_v7);
  return rank({BackwardData, *dx, *w, *dy, *convolution}, wanted, found,
              results);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t, const cudnnTensorDescriptor_t x,
    const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution,
    const cudnnFilterDescriptor_t dw, const int wanted, int *found,
    cudnnConvolutionBwdFilterAlgoPerf_t *results) {
  FAKE_CALL(cudnnStatus_t, cudnnGetConvolutionBackwardFilterAlgorithm_v7);
  return rank({BackwardFilter, *x, *dw, *dy, *convolution}, wanted, found,
              results);
}

static cudnnStatus_t measure(Convolution convolution, int algorithm,
                             size_t *bytes) {
  convolution.algorithm = algorithm;
  *bytes = convolution.workspaceNeeded();
  return convolution.hasLayouts() ? convolution.check()
                                  : CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t, const cudnnTensorDescriptor_t x,
    const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t convolution,
    const cudnnTensorDescriptor_t y, cudnnConvolutionFwdAlgo_t algorithm,
    size_t *bytes) {
  FAKE_CALL(cudnnStatus_t, cudnnGetConvolutionForwardWorkspaceSize);
  return measure({Forward, *x, *w, *y, *convolution}, algorithm, bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t, const cudnnFilterDescriptor_t w,
    const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution,
    const cudnnTensorDescriptor_t dx, cudnnConvolutionBwdDataAlgo_t algorithm,
    size_t *bytes) {
  FAKE_CALL(cudnnStatus_t, cudnnGetConvolutionBackwardDataWorkspaceSize);
  return measure({BackwardData, *dx, *w, *dy, *convolution}, algorithm, bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, const cudnnTensorDescriptor_t x,
    const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution,
    const cudnnFilterDescriptor_t dw, cudnnConvolutionBwdFilterAlgo_t algorithm,
    size_t *bytes) {
  FAKE_CALL(cudnnStatus_t, cudnnGetConvolutionBackwardFilterWorkspaceSize);
  return measure({BackwardFilter, *x, *dw, *dy, *convolution}, algorithm,
                 bytes);
}

cudnnStatus_t
cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
                        const cudnnTensorDescriptor_t layoutX, const void *x,
                        const cudnnFilterDescriptor_t layoutW, const void *w,
                        const cudnnConvolutionDescriptor_t convolution,
                        cudnnConvolutionFwdAlgo_t algorithm, void *workspace,
                        size_t given, const void *beta,
                        const cudnnTensorDescriptor_t layoutY, void *y) {
  FAKE_CALL(cudnnStatus_t, cudnnConvolutionForward);
  return start(handle, "cudnnConvolutionForward",
               {Forward, *layoutX, *layoutW, *layoutY, *convolution}, {x, w, y},
               algorithm, workspace, given, alpha, beta);
}

cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void *alpha,
    const cudnnFilterDescriptor_t layoutW, const void *w,
    const cudnnTensorDescriptor_t layoutDy, const void *dy,
    const cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionBwdDataAlgo_t algorithm, void *workspace, size_t given,
    const void *beta, const cudnnTensorDescriptor_t layoutDx, void *dx) {
  FAKE_CALL(cudnnStatus_t, cudnnConvolutionBackwardData);
  return start(handle, "cudnnConvolutionBackwardData",
               {BackwardData, *layoutDx, *layoutW, *layoutDy, *convolution},
               {dx, w, dy}, algorithm, workspace, given, alpha, beta);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void *alpha,
    const cudnnTensorDescriptor_t layoutX, const void *x,
    const cudnnTensorDescriptor_t layoutDy, const void *dy,
    const cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionBwdFilterAlgo_t algorithm, void *workspace, size_t given,
    const void *beta, const cudnnFilterDescriptor_t layoutDw, void *dw) {
  FAKE_CALL(cudnnStatus_t, cudnnConvolutionBackwardFilter);
  return start(handle, "cudnnConvolutionBackwardFilter",
               {BackwardFilter, *layoutX, *layoutDw, *layoutDy, *convolution},
               {x, dw, dy}, algorithm, workspace, given, alpha, beta);
}
