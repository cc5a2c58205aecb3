//===- Gemm.cpp - matrix products on the host -----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/host/Gemm.h"

#include "device/Descriptors.h"
#include "device/host/GemmBatch.h"
#include "device/host/GemmBuiltin.h"
#include "device/host/LoadDnnl.h"
#include "support/Cpu.h"
#include "support/DType.h"

#include <cstdlib>

using namespace mprt;
using namespace mprt::host;

Gemm::Gemm() : workspace(nullptr, std::free) {}

Gemm::~Gemm() = default;

const char *Gemm::library() {
  const DnnlLibrary *library = loadDnnl();
  return library ? library->version() : "built-in";
}

DnnlGemm *Gemm::fast() {
  const DnnlLibrary *library = loadDnnl();
  if (!dnnl && library)
    dnnl.reset(library->createGemm());
  return dnnl.get();
}

//===----------------------------------------------------------------------===//
// The built-in kernel
//===----------------------------------------------------------------------===//

MPRT_DECLARE_VARIANTS(mprt_gemm_f32, BuiltinGemm)
MPRT_DECLARE_VARIANTS(mprt_gemm_f64, BuiltinGemm)

void mprt::host::builtinGemmF32(const BuiltinGemm &gemm) {
  MPRT_CALL_VARIANT(mprt_gemm_f32, gemm);
}

void mprt::host::builtinGemmF64(const BuiltinGemm &gemm) {
  MPRT_CALL_VARIANT(mprt_gemm_f64, gemm);
}

/// A product over an empty dimension: C is zero, or stays.
static void clear(const mprt_gemm_desc &desc, void *c) {
  if (desc.accumulate)
    return;
  size_t element = sizeOf(mprt_dtype(desc.type_c));
  BatchWalk walk(desc);
  do
    for (int64_t i = 0; i < desc.m; ++i) {
      char *row = static_cast<char *>(c) +
                  (walk.c + i * desc.strides_c[0]) * int64_t(element);
      for (size_t at = 0; at < size_t(desc.n) * element; ++at)
        row[at] = 0;
    }
  while (walk.next());
}

void Gemm::runBuiltin(const mprt_gemm_desc &desc, const void *a, const void *b,
                      void *c) {
  int64_t element = int64_t(sizeOf(mprt_dtype(desc.type_c)));
  BatchWalk walk(desc);
  do {
    BuiltinGemm gemm = {desc.m,
                        desc.n,
                        desc.k,
                        static_cast<const char *>(a) + walk.a * element,
                        {desc.strides_a[0], desc.strides_a[1]},
                        static_cast<const char *>(b) + walk.b * element,
                        {desc.strides_b[0], desc.strides_b[1]},
                        static_cast<char *>(c) + walk.c * element,
                        desc.strides_c[0],
                        desc.accumulate != 0,
                        workspace.get()};
    if (desc.type_c == MPRT_F64)
      builtinGemmF64(gemm);
    else
      builtinGemmF32(gemm);
  } while (walk.next());
}

//===----------------------------------------------------------------------===//
// 16-bit operands, widened
//===----------------------------------------------------------------------===//

static float widen(uint8_t type, uint16_t bits) {
  return type == MPRT_F16 ? f16ToFloat(bits) : bf16ToFloat(bits);
}

/// A matrix of `rows` by `columns`, from element `first` on, as dense rows of
/// floats.
static void widenMatrix(uint8_t type, const void *from, int64_t first,
                        int64_t rows, int64_t columns, const int64_t strides[2],
                        float *to) {
  auto convert = [&](const auto *elements, auto &&widenOne) {
    elements += first;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        *to++ = widenOne(elements[i * strides[0] + j * strides[1]]);
  };
  if (type == MPRT_F8E4M3)
    convert(static_cast<const uint8_t *>(from), f8E4M3ToFloat);
  else if (type == MPRT_F8E5M2)
    convert(static_cast<const uint8_t *>(from), f8E5M2ToFloat);
  else
    convert(static_cast<const uint16_t *>(from),
            [&](uint16_t bits) { return widen(type, bits); });
}

/// Whether operands are widened to floats first, where no library takes them.
static bool isConverted(const mprt_gemm_desc &desc) {
  return isHalf(desc.type_a) || isF8(desc.type_a);
}

Error Gemm::runConverted(const mprt_gemm_desc &desc, const void *a,
                         const void *b, void *c) {
  size_t sizes[3] = {size_t(desc.m * desc.k), size_t(desc.k * desc.n),
                     size_t(desc.m * desc.n)};
  for (int i = 0; i < 3; ++i)
    if (widened[i].size() < sizes[i])
      widened[i].resize(sizes[i]);
  mprt_gemm_desc one = {};
  one.type_a = one.type_b = one.type_c = MPRT_F32;
  one.m = desc.m, one.n = desc.n, one.k = desc.k;
  one.strides_a[0] = desc.k, one.strides_a[1] = 1;
  one.strides_b[0] = desc.n, one.strides_b[1] = 1;
  one.strides_c[0] = desc.n, one.strides_c[1] = 1;
  BatchWalk walk(desc);
  do {
    widenMatrix(desc.type_a, a, walk.a, desc.m, desc.k, desc.strides_a,
                widened[0].data());
    widenMatrix(desc.type_b, b, walk.b, desc.k, desc.n, desc.strides_b,
                widened[1].data());
    if (Error error =
            run(one, widened[0].data(), widened[1].data(), widened[2].data()))
      return error;
    const float *sums = widened[2].data();
    for (int64_t i = 0; i < desc.m; ++i)
      for (int64_t j = 0; j < desc.n; ++j, ++sums) {
        int64_t at = walk.c + i * desc.strides_c[0] + j;
        if (desc.type_c == MPRT_F32) {
          float &to = static_cast<float *>(c)[at];
          to = desc.accumulate ? to + *sums : *sums;
          continue;
        }
        uint16_t &to = static_cast<uint16_t *>(c)[at];
        float sum = desc.accumulate ? widen(desc.type_c, to) + *sums : *sums;
        to = desc.type_c == MPRT_F16 ? floatToF16(sum) : floatToBf16(sum);
      }
  } while (walk.next());
  return {};
}

//===----------------------------------------------------------------------===//
// The way
//===----------------------------------------------------------------------===//

Error Gemm::run(const mprt_gemm_desc &desc, const void *a, const void *b,
                void *c) {
  if (Error error = check(desc))
    return error;
  if (isEmpty(desc))
    return {};
  if (desc.k == 0) {
    clear(desc, c);
    return {};
  }
  if (DnnlGemm *dnnl = fast()) {
    const char *way = nullptr;
    Error error = dnnl->run(desc, a, b, c, way);
    if (error || way)
      return error;
  }
  if (isConverted(desc))
    return runConverted(desc, a, b, c);
  if (!workspace)
    workspace.reset(std::aligned_alloc(64, builtinWorkspaceBytes));
  if (!workspace)
    return makeError(MPRT_OUT_OF_MEMORY, "no memory for ",
                     builtinWorkspaceBytes, " bytes of scratch");
  runBuiltin(desc, a, b, c);
  return {};
}

Expected<const char *> Gemm::describePlan(const mprt_gemm_desc &desc) {
  if (Error error = check(desc))
    return error;
  if (isEmpty(desc) || desc.k == 0)
    return "nothing to do";
  if (DnnlGemm *dnnl = fast()) {
    const char *way = nullptr;
    if (Error error = dnnl->plan(desc, way))
      return error;
    if (way)
      return way;
  }
  return isConverted(desc) ? "converted" : "built-in";
}
