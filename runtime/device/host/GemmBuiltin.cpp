//===- GemmBuiltin.cpp - matrix products for one instruction set ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Blocks of A and B are packed into panels as in "Anatomy of high-performance
// matrix multiplication" (Goto and van de Geijn, 2008): B in panels of nr
// columns, A in panels of mr rows, both padded with zeros; a tile of mr x nr of
// C stays in registers over kc products.
//
// As comm/ReduceKernels.cpp this is compiled once for each instruction set and
// uses nothing that has external linkage.
//
//===----------------------------------------------------------------------===//

#include "device/host/GemmBuiltin.h"

#if defined(__clang__)
// A product and a sum may become one instruction: the order stays what it is.
#pragma clang fp contract(fast)
#pragma clang diagnostic ignored "-Wpsabi"
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace {

#if defined(__AVX512F__)
constexpr int vectorBytes = 64, mr = 12;
#elif defined(__AVX2__)
constexpr int vectorBytes = 32, mr = 6;
#else
constexpr int vectorBytes = 16, mr = 4;
#endif
/// Rows and depth of a block of A (in L2), columns of a block of B (in L3).
constexpr int64_t mc = mr * 16, kc = 256, nc = 512;

template <typename T> struct Kernel {
  typedef T Vector __attribute__((vector_size(vectorBytes)));
  static constexpr int width = vectorBytes / int(sizeof(T));
  static constexpr int nr = 2 * width;
  static_assert((mc * kc + kc * nc) * sizeof(T) <=
                mprt::host::builtinWorkspaceBytes);

  static inline __attribute__((always_inline)) Vector load(const T *p) {
    Vector v;
    __builtin_memcpy(&v, p, sizeof(v));
    return v;
  }

  /// tile[mr][nr] = sum over `depth` of panels.
  static inline __attribute__((always_inline)) void
  multiply(int64_t depth, const T *a, const T *b, T *tile) {
    Vector sums[mr][2] = {};
    for (int64_t k = 0; k < depth; ++k, a += mr, b += nr) {
      Vector left = load(b), right = load(b + width);
#pragma GCC unroll 12
      for (int i = 0; i < mr; ++i) {
        Vector scale = Vector{} + a[i];
        sums[i][0] += scale * left;
        sums[i][1] += scale * right;
      }
    }
#pragma GCC unroll 12
    for (int i = 0; i < mr; ++i) {
      __builtin_memcpy(tile + i * nr, &sums[i][0], sizeof(Vector));
      __builtin_memcpy(tile + i * nr + width, &sums[i][1], sizeof(Vector));
    }
  }

  /// Panels of `panel` of `count` rows (stride `across`), each `depth` deep
  /// (stride `along`).
  static void pack(const T *from, int64_t across, int64_t along, int64_t count,
                   int64_t depth, int panel, T *to) {
    for (int64_t i = 0; i < count; i += panel) {
      int64_t rows = count - i < panel ? count - i : panel;
      for (int64_t k = 0; k < depth; ++k, to += panel) {
        const T *source = from + i * across + k * along;
        int64_t r = 0;
        for (; r < rows; ++r)
          to[r] = source[r * across];
        for (; r < panel; ++r)
          to[r] = 0;
      }
    }
  }

  static void run(const mprt::host::BuiltinGemm &g) {
    auto *a = static_cast<const T *>(g.a);
    auto *b = static_cast<const T *>(g.b);
    auto *c = static_cast<T *>(g.c);
    auto *packedB = static_cast<T *>(g.workspace);
    T *packedA = packedB + kc * nc;
    alignas(64) T tile[mr * nr];
    for (int64_t j0 = 0; j0 < g.n; j0 += nc) {
      int64_t columns = g.n - j0 < nc ? g.n - j0 : nc;
      for (int64_t k0 = 0; k0 < g.k; k0 += kc) {
        int64_t depth = g.k - k0 < kc ? g.k - k0 : kc;
        bool add = g.accumulate || k0 > 0;
        pack(b + k0 * g.stridesB[0] + j0 * g.stridesB[1], g.stridesB[1],
             g.stridesB[0], columns, depth, nr, packedB);
        for (int64_t i0 = 0; i0 < g.m; i0 += mc) {
          int64_t rows = g.m - i0 < mc ? g.m - i0 : mc;
          pack(a + i0 * g.stridesA[0] + k0 * g.stridesA[1], g.stridesA[0],
               g.stridesA[1], rows, depth, mr, packedA);
          for (int64_t j = 0; j < columns; j += nr)
            for (int64_t i = 0; i < rows; i += mr) {
              multiply(depth, packedA + i * depth, packedB + j * depth, tile);
              int64_t height = rows - i < mr ? rows - i : mr;
              int64_t breadth = columns - j < nr ? columns - j : nr;
              for (int64_t y = 0; y < height; ++y) {
                T *row = c + (i0 + i + y) * g.strideC + j0 + j;
                for (int64_t x = 0; x < breadth; ++x)
                  row[x] = add ? row[x] + tile[y * nr + x] : tile[y * nr + x];
              }
            }
        }
      }
    }
  }
};

} // namespace

#define MPRT_CONCAT2(a, b) a##b
#define MPRT_CONCAT(a, b) MPRT_CONCAT2(a, b)

extern "C" void MPRT_CONCAT(mprt_gemm_f32_,
                            MPRT_ISA)(const mprt::host::BuiltinGemm &gemm) {
  Kernel<float>::run(gemm);
}
extern "C" void MPRT_CONCAT(mprt_gemm_f64_,
                            MPRT_ISA)(const mprt::host::BuiltinGemm &gemm) {
  Kernel<double>::run(gemm);
}
