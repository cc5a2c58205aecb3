//===- ContractionPlanTest.cpp - contractions as products -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/Contraction/ContractionPlan.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <random>
#include <vector>

using namespace mpcomm;

namespace {

using Numbers = std::vector<int64_t>;

/// A contraction of up to three dimensions of each kind: operands have theirs
/// in any order, without gaps.
struct Contraction {
  explicit Contraction(std::mt19937 &random) {
    auto draw = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(random);
    };
    // Which operands have a dimension: m, n, k, batch.
    for (bool a : {true, false})
      for (bool b : {true, false})
        for (bool c : {true, false})
          if (a + b + c >= 2)
            for (int64_t i = draw(0, 3); i > 0; --i)
              dims.push_back({draw(1, 3), a, b, c});
    for (auto member : {&ContractionDim::a, &ContractionDim::b,
                        &ContractionDim::c}) {
      std::vector<ContractionDim *> own;
      for (ContractionDim &dim : dims)
        if (dim.*member)
          own.push_back(&dim);
      std::shuffle(own.begin(), own.end(), random);
      int64_t elements = 1;
      for (ContractionDim *dim : own) {
        dim->*member = elements;
        elements *= dim->size;
      }
      sizes.push_back(elements);
    }
    for (int64_t size : {sizes[0], sizes[1], sizes[2]}) {
      Numbers &values = operands.emplace_back();
      for (int64_t i = 0; i < size; ++i)
        values.push_back(draw(-9, 9));
    }
  }

  /// C by the definition: over all dimensions at once.
  Numbers expected(bool accumulate) const {
    Numbers c = accumulate ? operands[2] : Numbers(operands[2].size());
    std::vector<int64_t> index(dims.size());
    while (true) {
      int64_t at[3] = {};
      for (size_t d = 0; d < dims.size(); ++d) {
        at[0] += index[d] * dims[d].a;
        at[1] += index[d] * dims[d].b;
        at[2] += index[d] * dims[d].c;
      }
      c[at[2]] += operands[0][at[0]] * operands[1][at[1]];
      size_t d = 0;
      while (d < dims.size() && ++index[d] == dims[d].size)
        index[d++] = 0;
      if (d == dims.size())
        return c;
    }
  }

  std::vector<ContractionDim> dims;
  std::vector<int64_t> sizes;
  std::vector<Numbers> operands;
};

/// Runs a product, by the documentation of mprt_gemm_desc.
void run(const StridedGemm &gemm, const Numbers &first, const Numbers &second,
         Numbers &c) {
  const Numbers &a = gemm.swapped ? second : first;
  const Numbers &b = gemm.swapped ? first : second;
  std::vector<int64_t> index(gemm.batch.size());
  while (true) {
    int64_t atA = gemm.offsetA, atB = gemm.offsetB, atC = gemm.offsetC;
    for (size_t d = 0; d < index.size(); ++d) {
      atA += index[d] * gemm.batch[d].a;
      atB += index[d] * gemm.batch[d].b;
      atC += index[d] * gemm.batch[d].c;
    }
    for (int64_t m = 0; m < gemm.m.size; ++m)
      for (int64_t n = 0; n < gemm.n.size; ++n) {
        int64_t sum = 0;
        for (int64_t k = 0; k < gemm.k.size; ++k)
          sum += a.at(atA + m * gemm.m.a + k * gemm.k.a) *
                 b.at(atB + k * gemm.k.b + n * gemm.n.b);
        int64_t &place = c.at(atC + m * gemm.m.c + n * gemm.n.c);
        place = sum + (gemm.accumulate ? place : 0);
      }
    size_t d = 0;
    while (d < index.size() && ++index[d] == gemm.batch[d].size)
      index[d++] = 0;
    if (d == index.size())
      return;
  }
}

TEST(ContractionPlan, ProductsAreTheContraction) {
  std::mt19937 random(1);
  int planned = 0, several = 0;
  for (int round = 0; round < 4000; ++round) {
    Contraction contraction(random);
    bool accumulate = round % 2;
    llvm::SmallVector<StridedGemm, 0> products;
    std::string reason;
    std::optional<int64_t> count = countProducts(contraction.dims);
    bool succeeds =
        planContraction(contraction.dims, accumulate, products, reason);
    ASSERT_EQ(succeeds, count.has_value()) << reason;
    if (!succeeds) {
      EXPECT_FALSE(reason.empty());
      continue;
    }
    ++planned;
    several += products.size() > 1;
    EXPECT_EQ(int64_t(products.size()), *count);
    Numbers c = contraction.operands[2];
    for (const StridedGemm &gemm : products) {
      EXPECT_LE(gemm.batch.size(), 4u);
      EXPECT_TRUE(gemm.n.c == 1 && (gemm.m.a == 1 || gemm.k.a == 1) &&
                  (gemm.k.b == 1 || gemm.n.b == 1));
      run(gemm, contraction.operands[0], contraction.operands[1], c);
    }
    ASSERT_EQ(c, contraction.expected(accumulate)) << "round " << round;
  }
  EXPECT_GT(planned, 400);
  EXPECT_GT(several, 100);
}

} // namespace
