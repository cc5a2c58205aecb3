//===- WritersTest.cpp - who writes what of a checkpoint ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/checkpoint/Writers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

using namespace mprt;

namespace {

SharedTensor tensorOf(Shape shape, std::vector<uint64_t> holders) {
  SharedTensor tensor;
  tensor.shape = std::move(shape);
  tensor.holders = std::move(holders);
  return tensor;
}

std::vector<uint64_t> ranksFrom(uint64_t first, uint64_t end) {
  std::vector<uint64_t> ranks(end - first);
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

/// Numbers the tensors, and chooses who writes them.
std::vector<SharedTensor> assign(std::vector<SharedTensor> tensors) {
  for (size_t i = 0; i < tensors.size(); ++i)
    tensors[i].name = std::to_string(i);
  assignWriters(tensors);
  return tensors;
}

std::map<uint64_t, uint64_t> loadOf(const std::vector<SharedTensor> &tensors) {
  std::map<uint64_t, uint64_t> load;
  for (const SharedTensor &tensor : tensors)
    load[tensor.writer] += tensor.bytes();
  return load;
}

/// At least 1.
uint64_t rowBytes(const SharedTensor &tensor) {
  uint64_t rows = tensor.shape.empty() ? 1 : uint64_t(tensor.shape[0]);
  return std::max<uint64_t>(1, tensor.bytes() / std::max<uint64_t>(1, rows));
}

/// Holders alone write, each element of `before` once, whole rows, and no rank
/// two parts of one tensor, for which a file has no names.
void expectWhole(const std::vector<SharedTensor> &before,
                 const std::vector<SharedTensor> &after) {
  size_t at = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const SharedTensor &tensor = before[i];
    SCOPED_TRACE("tensor " + std::to_string(i));
    std::set<uint64_t> writers;
    uint64_t next = tensor.first;
    size_t begin = at;
    for (; at < after.size() && after[at].name == std::to_string(i); ++at) {
      const SharedTensor &part = after[at];
      EXPECT_EQ(part.first, next);
      next += *elementsOf(part.shape);
      EXPECT_EQ((next - tensor.first) * sizeOf(part.type) % rowBytes(tensor),
                0u);
      EXPECT_EQ(part.holders, tensor.holders);
      EXPECT_TRUE(std::count(tensor.holders.begin(), tensor.holders.end(),
                             part.writer));
      EXPECT_TRUE(writers.insert(part.writer).second);
    }
    EXPECT_EQ(next, tensor.first + *elementsOf(tensor.shape));
    if (at - begin == 1) {
      EXPECT_EQ(after[begin].shape, tensor.shape);
      EXPECT_EQ(after[begin].whole, tensor.whole);
    }
    for (size_t part = begin; at - begin > 1 && part < at; ++part) {
      EXPECT_GE(after[part].bytes(), smallBytes);
      EXPECT_EQ(after[part].shape.size(), 1u);
      EXPECT_EQ(*after[part].whole, tensor.whole.value_or(tensor.shape));
    }
  }
  EXPECT_EQ(at, after.size());
}

TEST(WritersTest, SmallTensorsStayWithTheirOwner) {
  std::vector<SharedTensor> tensors =
      assign({tensorOf({16383}, {0, 1, 2}), tensorOf({3}, {1, 2}),
              tensorOf({}, {1, 2}), tensorOf({0}, {2})});
  EXPECT_EQ(tensors[0].writer, 0u);
  EXPECT_EQ(tensors[1].writer, 1u);
  EXPECT_EQ(tensors[2].writer, 1u);
  EXPECT_EQ(tensors[3].writer, 2u);
}

TEST(WritersTest, OnlyHoldersWrite) {
  std::vector<SharedTensor> tensors =
      assign(std::vector<SharedTensor>(6, tensorOf({20000}, {1, 3})));
  EXPECT_EQ(tensors.size(), 6u);
  std::map<uint64_t, uint64_t> load = loadOf(tensors);
  EXPECT_EQ(load[1], 3u * 80000);
  EXPECT_EQ(load[3], 3u * 80000);
}

TEST(WritersTest, NobodyWritesMuchMoreThanAFairShare) {
  // The bound of Writers.h, of ranks that hold everything. Sizes are spread
  // over powers of two, so that often one is most of all.
  size_t cuts = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    uint64_t ranks = 1 + random() % 16, total = 0, row = 0, owned = 0;
    std::vector<SharedTensor> tensors;
    for (size_t count = 1 + random() % 30; tensors.size() < count;) {
      auto size = int64_t(random() % (1u << (4 + random() % 20)));
      int64_t columns = 1 + int64_t(random() % 1000);
      Shape shapes[] = {{size}, {1 + size / columns, columns}, {1, size}};
      tensors.push_back(tensorOf(shapes[random() % 8 ? random() % 2 : 2],
                                 ranksFrom(0, ranks)));
      uint64_t bytes = tensors.back().bytes();
      total += bytes;
      if (bytes < smallBytes)
        owned += bytes;
      row = std::max(row, rowBytes(tensors.back()));
    }
    std::vector<SharedTensor> after = assign(tensors);
    expectWhole(tensors, after);
    cuts += after.size() - tensors.size();
    uint64_t share = (total + ranks - 1) / ranks;
    uint64_t bound =
        std::max({share + share / 8, share + row + 2 * smallBytes, owned});
    for (auto [rank, bytes] : loadOf(after))
      EXPECT_LE(bytes, bound) << "rank " << rank << " of " << ranks;
  }
  EXPECT_GT(cuts, 300u);
}

TEST(WritersTest, GPT2) {
  // Parameters of GPT-2 (124M) and two moments of each.
  std::vector<Shape> shapes = {{50257, 768}, {1024, 768}, {768}, {768}};
  for (int layer = 0; layer < 12; ++layer)
    for (Shape shape :
         {Shape{768, 2304}, Shape{2304}, Shape{768, 768}, Shape{768},
          Shape{768, 3072}, Shape{3072}, Shape{3072, 768}, Shape{768},
          Shape{768}, Shape{768}, Shape{768}, Shape{768}})
      shapes.push_back(shape);
  for (uint64_t ranks : {2, 3, 4, 8, 16, 24, 64}) {
    SCOPED_TRACE(ranks);
    std::vector<SharedTensor> tensors;
    uint64_t total = 0;
    for (int state = 0; state < 3; ++state)
      for (const Shape &shape : shapes) {
        tensors.push_back(tensorOf(shape, ranksFrom(0, ranks)));
        total += tensors.back().bytes();
      }
    std::vector<SharedTensor> after = assign(tensors);
    expectWhole(tensors, after);
    uint64_t share = (total + ranks - 1) / ranks;
    std::map<uint64_t, uint64_t> load = loadOf(after);
    EXPECT_EQ(load.size(), ranks);
    for (auto [rank, bytes] : load)
      EXPECT_LE(bytes, share + share / 8) << "rank " << rank;
    // Few ranks need no cut.
    if (ranks <= 8)
      EXPECT_EQ(after.size(), tensors.size());
    else
      EXPECT_GT(after.size(), tensors.size());
  }
}

TEST(WritersTest, WhatIsLeftOverIsCut) {
  // Three of a size on two ranks: none is more than a fair share.
  std::vector<SharedTensor> tensors = assign(
      std::vector<SharedTensor>(3, tensorOf({1000, 256}, ranksFrom(0, 2))));
  ASSERT_EQ(tensors.size(), 4u);
  EXPECT_EQ(tensors[2].shape, (Shape{500 * 256}));
  EXPECT_EQ(tensors[3].first, 500u * 256);
  EXPECT_EQ(*tensors[3].whole, (Shape{1000, 256}));
  std::map<uint64_t, uint64_t> load = loadOf(tensors);
  EXPECT_EQ(load[0], load[1]);
}

TEST(WritersTest, PartsAreCutFurther) {
  // Of a tensor of 3 * 10^5 elements two halves, each on two ranks.
  SharedTensor first = tensorOf({150000}, {0, 2});
  first.whole = Shape{1000, 300};
  SharedTensor second = first;
  second.first = 150000;
  second.holders = {1, 3};
  std::vector<SharedTensor> tensors = {first, second};
  for (SharedTensor &tensor : tensors)
    tensor.name = "t";
  assignWriters(tensors);
  ASSERT_EQ(tensors.size(), 4u);
  std::set<uint64_t> writers;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(tensors[i].first, i * 75000);
    EXPECT_EQ(tensors[i].shape, (Shape{75000}));
    EXPECT_EQ(*tensors[i].whole, (Shape{1000, 300}));
    writers.insert(tensors[i].writer);
  }
  EXPECT_EQ(writers.size(), 4u);
}

TEST(WritersTest, WhatManyHoldFillsWhatFewLeave) {
  // Stages of two ranks each; the second has less, and both have the embedding.
  std::vector<SharedTensor> tensors = {tensorOf({9000, 100}, {0, 1, 2, 3}),
                                       tensorOf({4000, 100}, {0, 1}),
                                       tensorOf({1000, 100}, {2, 3})};
  std::vector<SharedTensor> after = assign(tensors);
  expectWhole(tensors, after);
  // 14000 rows, 3500 each; no cut rounds by more than a row.
  for (auto [rank, bytes] : loadOf(after))
    EXPECT_LE(std::abs(int64_t(bytes) - 3500 * 400), 400) << rank;
}

} // namespace
