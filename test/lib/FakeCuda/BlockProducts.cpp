//===- BlockProducts.cpp - tensor cores, on the host ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Block.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

using namespace fake;

static float toFloat(uint32_t half, bool isBF16) {
  half &= 0xffff;
  if (isBF16)
    return std::bit_cast<float>(half << 16);
  uint32_t exponent = half >> 10 & 31, mantissa = half & 1023;
  float magnitude =
      exponent == 31 ? (mantissa ? std::numeric_limits<float>::quiet_NaN()
                                 : std::numeric_limits<float>::infinity())
      : exponent     ? std::ldexp(float(mantissa + 1024), int(exponent) - 25)
                     : std::ldexp(float(mantissa), -24);
  return half & 0x8000 ? -magnitude : magnitude;
}

/// An element of a tile that a descriptor tells of, in its layout with a
/// swizzle of 128 bytes: bits 4 to 6 of an address are changed by bits 7 to 9.
uint16_t Block::elementOf(uint64_t descriptor, uint64_t offset) {
  constexpr uint64_t window = 1 << 18;
  auto begin = reinterpret_cast<uint64_t>(sharedMemory());
  uint64_t address = (descriptor & 0x3fff) << 4;
  address = begin + ((address - begin) & (window - 1)) + offset;
  address ^= (address >> 7 & 7) << 4;
  if (!isShared(address, 2)) {
    fault = "a tile of a product is not in shared memory";
    return 0;
  }
  uint16_t value;
  std::memcpy(&value, reinterpret_cast<const char *>(address), 2);
  return value;
}

/// NaNs that name a product in flight and one of its sums.
static constexpr uint32_t flightTag = 0x7fc00000, flightMask = 0xffc00000;

uint32_t Block::resolve(const EmulatedThread &thread, uint32_t word) {
  while ((word & flightMask) == flightTag) {
    uint32_t which = (word >> 8 & 0x3fff) - 1, sum = word & 0xff;
    if (which >= thread.products.size() ||
        sum >= thread.products[which].sums.size())
      return word; // a NaN that was computed
    const TileProduct &product = thread.products[which];
    if (!product.isDone)
      fault = "sums are used before a wait for their product";
    word = product.sums[sum];
  }
  return word;
}

void Block::perform(const EmulatedThread &thread, TileProduct &product) {
  // Eight rows are so many bytes from the next eight, and 64 columns.
  auto strideOf = [](uint64_t d) { return (d >> 32 & 0x3fff) << 4; };
  auto leadOf = [](uint64_t d) { return (d >> 16 & 0x3fff) << 4; };
  for (const auto *all : {&product.tile, &product.right})
    for (uint64_t descriptor : *all)
      if (descriptor >> 62 != 1 || (descriptor >> 49 & 7))
        fault = "a tile of a product is in a layout that is not emulated";
  auto along = [&](uint64_t d, uint64_t row, uint64_t k) {
    return elementOf(d, row % 8 * 128 + row / 8 * strideOf(d) + 2 * k);
  };
  auto across = [&](uint64_t d, uint64_t column, uint64_t k) {
    return elementOf(d, k % 8 * 128 + k / 8 * strideOf(d) +
                            column / 64 * leadOf(d) + column % 64 * 2);
  };
  uint32_t lane = thread.index % warpSize, g = lane / 4, t = lane % 4;
  uint32_t warp = thread.index / warpSize % 4, terms = 16 * product.slices;
  std::vector<float> left(size_t(2) * terms), right(size_t(terms) * 2);
  for (uint32_t k = 0; k < terms; ++k)
    for (uint32_t half = 0; half < 2; ++half)
      left[half * terms + k] =
          toFloat(product.inRegisters ? product.left[half * terms + k]
                                      : along(product.tile[k / 16],
                                              warp * 16 + g + 8 * half, k % 16),
                  product.isBF16);
  for (uint32_t tile = 0; tile < product.columns / 8; ++tile) {
    for (uint32_t side = 0; side < 2; ++side)
      for (uint32_t k = 0; k < terms; ++k) {
        uint32_t column = tile * 8 + 2 * t + side;
        uint64_t d = product.right[k / 16];
        right[side * terms + k] =
            toFloat(product.across ? across(d, column, k % 16)
                                   : along(d, column, k % 16),
                    product.isBF16);
      }
    for (uint32_t i = 0; i < 4; ++i) {
      uint32_t &word = product.sums[tile * 4 + i];
      auto sum = std::bit_cast<float>(resolve(thread, word));
      for (uint32_t k = 0; k < terms; ++k)
        sum += left[i / 2 * terms + k] * right[i % 2 * terms + k];
      word = std::bit_cast<uint32_t>(sum);
    }
  }
  product.isDone = true;
}

void Block::multiplyTiles(TileProduct product, uint32_t *words) {
  EmulatedThread *self = current;
  uint32_t count = product.columns / 2, warp = self->index / warpSize;
  if (size() % 128)
    fault = "a product of less than a warpgroup";
  for (const EmulatedThread &thread : threads)
    if (!thread.isFenced)
      fault = "a product without a fence after a wait for copies";
  if (product.columns > 128 || self->products.size() > 0x3ff0)
    fault = "a product that is not emulated";
  // All lanes come, and those of a row find each other's parts of it.
  self->left = words + count;
  exchange({warpgroupMode, 0, count, warpSize});
  if (fault)
    return suspend(EmulatedThread::Ready);
  product.sums.assign(words, words + count);
  const uint32_t *rest = words + count;
  if (product.inRegisters) {
    uint32_t terms = 16 * product.slices, lane = self->index % warpSize;
    product.left.resize(size_t(2) * terms);
    for (uint32_t t = 0; t < 4; ++t) {
      const uint32_t *theirs = threads[warp * warpSize + lane / 4 * 4 + t].left;
      for (uint32_t k = 0; k < product.slices; ++k)
        for (uint32_t i = 0; i < 4; ++i)
          for (uint32_t side = 0; side < 2; ++side)
            product.left[i % 2 * terms + 16 * k + 2 * t + side + i / 2 * 8] =
                uint16_t(theirs[4 * k + i] >> (16 * side));
    }
    rest += 4 * product.slices;
  }
  // Nobody changes the words while others read them.
  exchange({ballotMode, 0, 0, warpSize});
  auto take = [&](std::vector<uint64_t> &descriptors) {
    for (uint32_t k = 0; k < product.slices; ++k, rest += 2)
      descriptors.push_back(rest[0] | uint64_t(rest[1]) << 32);
  };
  if (!product.inRegisters)
    take(product.tile);
  take(product.right);
  self->products.push_back(std::move(product));
  auto number = uint32_t(self->products.size());
  for (uint32_t i = 0; i < count; ++i)
    words[i] = flightTag | number << 8 | i;
  if (random.below(2) == 0)
    perform(*self, self->products.back());
}

void Block::waitForProducts(uint32_t others, uint32_t count, uint32_t *words) {
  EmulatedThread *self = current;
  std::vector<TileProduct> &products = self->products;
  for (size_t i = 0; i + others < products.size(); ++i)
    if (!products[i].isDone)
      perform(*self, products[i]);
  // What was performed early is not known before its wait.
  size_t known = products.size() > others ? products.size() - others : 0;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t word = words[i];
    if ((word & flightMask) == flightTag && (word >> 8 & 0x3fff) > known &&
        (word >> 8 & 0x3fff) <= products.size())
      fault = "a wait for a product that may be in flight after it";
    words[i] = resolve(*self, word);
  }
  if (fault)
    suspend(EmulatedThread::Ready);
}

/// Matrix i has its rows where lanes 8 i to 8 i + 7 say; a lane gets row
/// lane / 4, elements 2 (lane % 4) and the next, of each, or of its transpose.
void Block::loadMatrices(uint32_t first) {
  for (uint32_t lane = 0; lane < warpSize; ++lane) {
    const LaneExchange &e = threads[first + lane].exchange;
    if (e.address % 16 || !isShared(e.address, 16)) {
      fault = "a row of a matrix is not at 16 bytes of shared memory";
      return;
    }
  }
  auto element = [&](uint32_t matrix, uint32_t row, uint32_t column) {
    uint16_t value;
    uint64_t from = threads[first + 8 * matrix + row].exchange.address;
    std::memcpy(&value, reinterpret_cast<char *>(from) + 2 * column, 2);
    return uint32_t(value);
  };
  for (uint32_t lane = 0; lane < warpSize; ++lane) {
    const LaneExchange &e = threads[first + lane].exchange;
    uint32_t row = lane / 4, column = lane % 4 * 2;
    for (uint32_t i = 0; i < 4; ++i)
      e.words[i] =
          e.offset
              ? element(i, column, row) | element(i, column + 1, row) << 16
              : element(i, row, column) | element(i, row, column + 1) << 16;
  }
}

/// Fragments as PTX lays them out, with g = lane / 4 and t = lane % 4.
void Block::multiply(uint32_t first) {
  bool isBF16 = threads[first].exchange.offset;
  float a[16][16], b[16][8];
  for (uint32_t lane = 0; lane < warpSize; ++lane) {
    const uint32_t *words = threads[first + lane].exchange.words;
    uint32_t g = lane / 4, t = lane % 4;
    for (uint32_t side = 0; side < 2; ++side) {
      for (uint32_t i = 0; i < 4; ++i)
        a[g + i % 2 * 8][2 * t + side + i / 2 * 8] =
            toFloat(words[i] >> (16 * side), isBF16);
      for (uint32_t i = 0; i < 2; ++i)
        b[2 * t + side + i * 8][g] =
            toFloat(words[4 + i] >> (16 * side), isBF16);
    }
  }
  for (uint32_t lane = 0; lane < warpSize; ++lane) {
    uint32_t *sums = threads[first + lane].exchange.words + 6;
    for (uint32_t i = 0; i < 4; ++i) {
      auto sum = std::bit_cast<float>(sums[i]);
      for (uint32_t k = 0; k < 16; ++k)
        sum += a[lane / 4 + i / 2 * 8][k] * b[k][lane % 4 * 2 + i % 2];
      sums[i] = std::bit_cast<uint32_t>(sum);
    }
  }
}
