//===- Descriptors.cpp - what a call of a library computes ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/Descriptors.h"

#include "support/DType.h"

#include <algorithm>

using namespace mprt;

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

Error mprt::check(const mprt_gemm_desc &d) {
  bool same = d.type_a == d.type_b;
  bool full = same && d.type_a == d.type_c &&
              (d.type_a == MPRT_F32 || d.type_a == MPRT_F64);
  bool half = same && isHalf(d.type_a) &&
              (d.type_c == MPRT_F32 || d.type_c == d.type_a);
  bool eight = isF8(d.type_a) && isF8(d.type_b) &&
               (d.type_a == MPRT_F8E4M3 || d.type_b == MPRT_F8E4M3) &&
               (d.type_c == MPRT_F32 || isHalf(d.type_c));
  if (!full && !half && !eight)
    return makeError(MPRT_UNSUPPORTED, "no product of ",
                     nameOf(mprt_dtype(d.type_a)), " and ",
                     nameOf(mprt_dtype(d.type_b)), " into ",
                     nameOf(mprt_dtype(d.type_c)));
  if (d.batch_rank > MPRT_GEMM_MAX_BATCH)
    return makeError(MPRT_INVALID_ARGUMENT, d.batch_rank,
                     " batch dimensions, at most ", MPRT_GEMM_MAX_BATCH,
                     " expected");
  bool negative = d.m < 0 || d.n < 0 || d.k < 0;
  for (uint32_t i = 0; i < d.batch_rank; ++i)
    negative |= d.batch[i] < 0;
  if (negative)
    return makeError(MPRT_INVALID_ARGUMENT, "a size is negative");
  if (d.n > 1 && d.strides_c[1] != 1)
    return makeError(MPRT_INVALID_ARGUMENT, "the rows of c have stride ",
                     d.strides_c[1], ", 1 expected");
  for (uint32_t i = 0; i < d.batch_rank; ++i)
    if (d.batch[i] > 1 && d.batch_c[i] == 0)
      return makeError(MPRT_INVALID_ARGUMENT, "batch dimension ", i,
                       " does not step through c");
  return {};
}

bool mprt::isEmpty(const mprt_gemm_desc &d) {
  bool empty = d.m == 0 || d.n == 0;
  for (uint32_t i = 0; i < d.batch_rank; ++i)
    empty |= d.batch[i] == 0;
  return empty;
}

Error mprt::check(const mprt_epilogue &epilogue) {
  int32_t kind = epilogue.kind;
  if (epilogue.count && !epilogue.kernels)
    return makeError(MPRT_INVALID_ARGUMENT, "kernels is null, expected ",
                     epilogue.count, " of an epilogue");
  for (uint32_t i = 0; i < epilogue.count; ++i)
    if (!epilogue.kernels[i])
      return makeError(MPRT_INVALID_ARGUMENT, "kernel ", i,
                       " of an epilogue is null");
  uint32_t operands = epilogue.count ? epilogue.kernels[0]->operands : 0;
  uint32_t fewest = kind == MPRT_SCALE,
           most = GemmEpilogue::canScale(kind) ? 2 : 0;
  if (epilogue.scale_count < fewest || epilogue.scale_count > most)
    return makeError(MPRT_INVALID_ARGUMENT, "an epilogue of kind ", kind,
                     " has ", epilogue.scale_count, " scales, expected ",
                     fewest, " to ", most);
  for (uint32_t i = 0; i < epilogue.scale_count; ++i)
    if (epilogue.scales[i] >= operands)
      return makeError(MPRT_INVALID_ARGUMENT,
                       "a scale of an epilogue is operand ", epilogue.scales[i],
                       " of a kernel, expected less than ", operands);
  if (kind >= MPRT_BIAS && kind <= MPRT_SCALE &&
      (!GemmEpilogue::hasBias(kind) || epilogue.bias < operands) &&
      (!GemmEpilogue::hasMatrix(kind) || epilogue.matrix < operands))
    return {};
  return makeError(MPRT_INVALID_ARGUMENT, "an epilogue of kind ", kind,
                   " beside ", epilogue.count,
                   " kernels, expected a kind from 1 to 7, and kernels that "
                   "have its bias and its matrix");
}

//===----------------------------------------------------------------------===//
// Convolutions and pools
//===----------------------------------------------------------------------===//

const int64_t *mprt::stridesOf(const mprt_window_desc &d, int operand) {
  return operand == 0 ? d.strides_a : operand == 1 ? d.strides_b : d.strides_c;
}

bool mprt::isDense(const int64_t sizes[4], const int64_t strides[4],
                   const int (&order)[4]) {
  int64_t step = 1;
  for (int dimension : order) {
    if (sizes[dimension] != 1 && strides[dimension] != step)
      return false;
    step *= sizes[dimension];
  }
  return true;
}

void mprt::sizesOfOperand(const mprt_window_desc &d, int operand,
                          int64_t sizes[4]) {
  const int64_t filter[4] = {d.output[1], d.groups ? d.input[1] / d.groups : 0,
                             d.window[0], d.window[1]};
  static constexpr int64_t none[4] = {};
  const int64_t *x = d.input, *w = filter, *y = d.output;
  const int64_t *table[][3] = {{x, w, y},    {y, w, x}, {y, x, w},
                               {x, none, y}, {y, x, x}, {x, none, y},
                               {y, none, x}};
  std::copy_n(table[d.kind][operand], 4, sizes);
}

Error mprt::check(const mprt_window_desc &d) {
  auto invalid = [](auto... parts) {
    return makeError(MPRT_INVALID_ARGUMENT, parts...);
  };
  if (d.kind > MPRT_AVG_POOL_GRAD)
    return invalid("there is no kind ", int(d.kind));
  if (d.type != MPRT_F32 && d.type != MPRT_F64 && !isHalf(d.type))
    return makeError(MPRT_UNSUPPORTED, "no convolution or pool of ",
                     nameOf(mprt_dtype(d.type)));
  if (d.input[0] < 0 || d.input[0] != d.output[0])
    return invalid("batches of ", d.input[0], " and ", d.output[0]);
  for (int i = 1; i < 4; ++i)
    if (d.input[i] < 1 || d.output[i] < 1)
      return invalid("a size is not positive");
  for (int axis = 0; axis < 2; ++axis) {
    constexpr int64_t most = INT32_MAX;
    if (d.window[axis] < 1 || d.window[axis] > most || d.strides[axis] < 1 ||
        d.strides[axis] > most || d.dilation[axis] < 1 ||
        d.dilation[axis] > most || d.low[axis] < 0 || d.low[axis] > most)
      return invalid("a window, stride, dilation or padding is out of range");
  }
  if (isConvolution(d)) {
    if (d.groups < 1 || d.input[1] % d.groups || d.output[1] % d.groups)
      return invalid(d.groups, " groups of ", d.input[1], " and ", d.output[1],
                     " channels");
    return {};
  }
  if (d.input[1] != d.output[1])
    return invalid("a pool of ", d.input[1], " into ", d.output[1],
                   " channels");
  for (int axis = 0; axis < 2; ++axis) {
    int64_t last = (d.output[2 + axis] - 1) * d.strides[axis] - d.low[axis];
    if (d.low[axis] >= d.window[axis] || last >= d.input[2 + axis])
      return invalid("a window of a pool has no element");
  }
  int64_t elements =
      std::min(d.window[0], d.input[2]) * std::min(d.window[1], d.input[3]);
  if (d.kind == MPRT_MAX_POOL_GRAD && elements > int64_t(1) << 24)
    return makeError(MPRT_UNSUPPORTED, "windows of ", elements,
                     " elements, at most 2^24 expected");
  return {};
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

Error mprt::check(const mprt_attention_desc &d) {
  for (int64_t size : {d.batch, d.heads, d.rows, d.columns, d.size})
    if (size < 1)
      return makeError(MPRT_INVALID_ARGUMENT, "attention with a size of ", size,
                       ", expected at least 1");
  if (d.kind > MPRT_ATTENTION_GRAD || d.has_mask > 1 || !isHalf(d.type))
    return makeError(MPRT_INVALID_ARGUMENT, "attention of kind ", +d.kind,
                     ", type ", +d.type, " and ", +d.has_mask,
                     " masks, expected 0 or 1, bf16 or f16, and 0 or 1");
  if (d.count < 1 || !d.kernels)
    return makeError(MPRT_INVALID_ARGUMENT, "attention without kernels");
  for (uint32_t i = 0; i < d.count; ++i)
    if (!d.kernels[i] || d.kernels[i]->operands != countOperands(d))
      return makeError(MPRT_INVALID_ARGUMENT, "kernel ", i,
                       " of an attention, expected one with ", countOperands(d),
                       " operands");
  return {};
}
