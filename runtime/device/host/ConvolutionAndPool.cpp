//===- ConvolutionAndPool.cpp - convolutions and pools on the host --------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/host/ConvolutionAndPool.h"

#include "device/Descriptors.h"
#include "device/host/ConvolutionBuiltin.h"
#include "device/host/LoadDnnl.h"
#include "device/host/PoolKernels.h"
#include "support/Cpu.h"
#include "support/DType.h"

#include <algorithm>
#include <cstdlib>

using namespace mprt;
using namespace mprt::host;

ConvolutionAndPool::ConvolutionAndPool() : workspace(nullptr, std::free) {}

ConvolutionAndPool::~ConvolutionAndPool() = default;

DnnlConvolution *ConvolutionAndPool::fast() {
  const DnnlLibrary *library = loadDnnl();
  if (!dnnl && library)
    dnnl.reset(library->createConvolution());
  return dnnl.get();
}

//===----------------------------------------------------------------------===//
// Counts
//===----------------------------------------------------------------------===//

uint64_t ConvolutionAndPool::countFlops(const mprt_window_desc &d) {
  uint64_t flops = isConvolution(d) ? 2 * uint64_t(d.input[1] / d.groups) : 1;
  for (int64_t size : d.output)
    flops *= uint64_t(size);
  return flops * uint64_t(d.window[0]) * uint64_t(d.window[1]);
}

uint64_t ConvolutionAndPool::countBytes(const mprt_window_desc &d) {
  uint64_t input = 1, output = 1, filter = 0;
  for (unsigned i = 0; i < 4; ++i) {
    input *= uint64_t(d.input[i]);
    output *= uint64_t(d.output[i]);
  }
  if (isConvolution(d))
    filter = uint64_t(d.output[1]) * uint64_t(d.input[1] / d.groups) *
             uint64_t(d.window[0]) * uint64_t(d.window[1]);
  uint64_t elements = input + output + filter;
  if (d.kind == MPRT_MAX_POOL_GRAD)
    elements += input; // x, of which the greatest are found again
  return elements * sizeOf(mprt_dtype(d.type));
}

//===----------------------------------------------------------------------===//
// Strided operands
//===----------------------------------------------------------------------===//

/// Calls `body(offset)` for each element in row-major order.
template <typename Body>
static void forEachElement(const int64_t sizes[4], const int64_t strides[4],
                           Body body) {
  for (int64_t i = 0; i < sizes[0]; ++i)
    for (int64_t j = 0; j < sizes[1]; ++j)
      for (int64_t k = 0; k < sizes[2]; ++k) {
        int64_t at = i * strides[0] + j * strides[1] + k * strides[2];
        for (int64_t l = 0; l < sizes[3]; ++l)
          body(at + l * strides[3]);
      }
}

static int64_t countElements(const int64_t sizes[4]) {
  return sizes[0] * sizes[1] * sizes[2] * sizes[3];
}

/// Whether the elements are a block of memory without holes, in whatever order.
static bool fillsBlock(const int64_t sizes[4], const int64_t strides[4]) {
  int order[] = {0, 1, 2, 3};
  std::sort(order, order + 4, [&](int i, int j) {
    return std::pair(strides[i], sizes[i]) < std::pair(strides[j], sizes[j]);
  });
  int64_t step = 1;
  for (int i : order) {
    if (sizes[i] != 1 && strides[i] != step)
      return false;
    step *= sizes[i];
  }
  return true;
}

static void setDense(mprt_window_desc &d) {
  int64_t *strides[] = {d.strides_a, d.strides_b, d.strides_c};
  for (int operand = 0; operand < 3; ++operand) {
    int64_t sizes[4], step = 1;
    sizesOfOperand(d, operand, sizes);
    for (int i = 3; i >= 0; --i)
      strides[operand][i] = step, step *= sizes[i];
  }
}

//===----------------------------------------------------------------------===//
// Pools and built-in convolutions
//===----------------------------------------------------------------------===//

MPRT_DECLARE_VARIANTS(mprt_pool, Pool)

void mprt::host::runPool(const Pool &pool) {
  MPRT_CALL_VARIANT(mprt_pool, pool);
}

template <typename T>
static T *grow(std::vector<double> &scratch, int64_t elements) {
  size_t need = (size_t(elements) * sizeof(T) + 7) / 8;
  if (scratch.size() < need)
    scratch.resize(need);
  return reinterpret_cast<T *>(scratch.data());
}

template <typename T>
Error ConvolutionAndPool::runBuiltin(const mprt_window_desc &d, const T *a,
                                     const T *b, T *c) {
  if (!workspace)
    workspace.reset(std::aligned_alloc(64, builtinWorkspaceBytes));
  if (!workspace)
    return makeError(MPRT_OUT_OF_MEMORY, "no memory for ",
                     builtinWorkspaceBytes, " bytes of scratch");
  // Dense [N, C, H, W] copies: this way is for what no library does.
  T *dense[3];
  const T *from[] = {a, b};
  int64_t sizes[4];
  for (int operand = 0; operand < 3; ++operand) {
    sizesOfOperand(d, operand, sizes);
    dense[operand] = grow<T>(scratch[operand], countElements(sizes));
    T *to = dense[operand];
    if (operand < 2)
      forEachElement(sizes, stridesOf(d, operand),
                     [&](int64_t at) { *to++ = from[operand][at]; });
  }
  BuiltinConvolution convolution = {
      &d,
      dense[0],
      dense[1],
      dense[2],
      grow<T>(scratch[3], int64_t(convolutionScratchElements(d))),
      workspace.get()};
  (sizeof(T) == 8 ? builtinConvolutionF64 : builtinConvolutionF32)(convolution);
  const T *result = dense[2];
  forEachElement(sizes, d.strides_c, [&](int64_t at) { c[at] = *result++; });
  return {};
}

/// 16-bit operands, widened: in the order that they have in memory where that
/// is a block, which keeps channels last and goes by vectors; else dense.
Error ConvolutionAndPool::runConverted(const mprt_window_desc &d, const void *a,
                                       const void *b, void *c) {
  bool f16 = d.type == MPRT_F16, inOrder = true;
  int64_t sizes[3][4];
  for (int operand = 0; operand < 3; ++operand) {
    sizesOfOperand(d, operand, sizes[operand]);
    inOrder &= countElements(sizes[operand]) == 0 ||
               fillsBlock(sizes[operand], stridesOf(d, operand));
    if (widened[operand].size() < size_t(countElements(sizes[operand])))
      widened[operand].resize(size_t(countElements(sizes[operand])));
  }
  mprt_window_desc full = d;
  full.type = MPRT_F32;
  if (!inOrder)
    setDense(full);
  // Calls `body(at, i)`: where the element is, and its number in `widened`.
  auto forEach = [&](int operand, auto body) {
    int64_t i = 0, count = countElements(sizes[operand]);
    if (!inOrder)
      return forEachElement(sizes[operand], stridesOf(d, operand),
                            [&](int64_t at) { body(at, i++); });
    for (; i < count; ++i)
      body(i, i);
  };
  const uint16_t *from[] = {static_cast<const uint16_t *>(a),
                            static_cast<const uint16_t *>(b)};
  for (int operand = 0; operand < 2; ++operand) {
    float *to = widened[operand].data();
    const uint16_t *bits = from[operand];
    if (f16)
      forEach(operand,
              [=](int64_t at, int64_t i) { to[i] = f16ToFloat(bits[at]); });
    else
      forEach(operand,
              [=](int64_t at, int64_t i) { to[i] = bf16ToFloat(bits[at]); });
  }
  if (Error error =
          run(full, widened[0].data(), widened[1].data(), widened[2].data()))
    return error;
  const float *result = widened[2].data();
  uint16_t *to = static_cast<uint16_t *>(c);
  if (f16)
    forEach(2, [=](int64_t at, int64_t i) { to[at] = floatToF16(result[i]); });
  else
    forEach(2, [=](int64_t at, int64_t i) { to[at] = floatToBf16(result[i]); });
  return {};
}

//===----------------------------------------------------------------------===//
// The way
//===----------------------------------------------------------------------===//

Error ConvolutionAndPool::run(const mprt_window_desc &d, const void *a,
                              const void *b, void *c) {
  if (Error error = check(d))
    return error;
  if (d.input[0] == 0) { // an empty sum, or nothing at all
    int64_t sizes[4];
    sizesOfOperand(d, 2, sizes);
    size_t element = sizeOf(mprt_dtype(d.type));
    forEachElement(sizes, d.strides_c, [&](int64_t at) {
      std::fill_n(static_cast<char *>(c) + size_t(at) * element, element,
                  char(0));
    });
    return {};
  }
  if (isConvolution(d) && ConvolutionProduct::prefers(d))
    return product.run(d, a, b, c);
  if (DnnlConvolution *dnnl = isConvolution(d) ? fast() : nullptr) {
    bool done = false;
    Error error = dnnl->run(d, a, b, c, done);
    if (error || done)
      return error;
  }
  if (!isConvolution(d)) {
    constexpr size_t line = 64;
    char *rows = grow<char>(scratch[0], int64_t(poolScratchBytes(d) + line));
    runPool({&d, a, b, c, rows + -reinterpret_cast<uintptr_t>(rows) % line});
    return {};
  }
  if (isHalf(d.type))
    return runConverted(d, a, b, c);
  if (d.type == MPRT_F64)
    return runBuiltin(d, static_cast<const double *>(a),
                      static_cast<const double *>(b), static_cast<double *>(c));
  return runBuiltin(d, static_cast<const float *>(a),
                    static_cast<const float *>(b), static_cast<float *>(c));
}

Expected<const char *>
ConvolutionAndPool::describePlan(const mprt_window_desc &d) {
  if (Error error = check(d))
    return error;
  if (d.input[0] == 0)
    return "nothing to do";
  if (isConvolution(d) && ConvolutionProduct::prefers(d))
    return "product";
  if (DnnlConvolution *dnnl = isConvolution(d) ? fast() : nullptr) {
    bool done = false;
    if (Error error = dnnl->run(d, nullptr, nullptr, nullptr, done))
      return error;
    if (done)
      return "oneDNN";
  }
  return isConvolution(d) && isHalf(d.type) ? "converted" : "built-in";
}
