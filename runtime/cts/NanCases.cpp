//===- NanCases.cpp - NaN in reductions -----------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where one rank has NaN, whichever it is, all ranks get NaN: from a sum
// because arithmetic says so, from a minimum or maximum because mprt.h's
// reductions must not hide a broken number on some ranks and show it on others.
//
//===----------------------------------------------------------------------===//

#include "cts/Harness.h"

#include "support/DType.h"

#include <cmath>
#include <limits>

using namespace mprt;
using namespace mprt::cts;

static void store(mprt_dtype type, void *data, size_t index, float value) {
  switch (type) {
  case MPRT_F64:
    static_cast<double *>(data)[index] = value;
    return;
  case MPRT_F32:
    static_cast<float *>(data)[index] = value;
    return;
  default:
    static_cast<uint16_t *>(data)[index] =
        type == MPRT_F16 ? floatToF16(value) : floatToBf16(value);
  }
}

static double load(mprt_dtype type, const void *data, size_t index) {
  switch (type) {
  case MPRT_F64:
    return static_cast<const double *>(data)[index];
  case MPRT_F32:
    return static_cast<const float *>(data)[index];
  default:
    uint16_t bits = static_cast<const uint16_t *>(data)[index];
    return type == MPRT_F16 ? f16ToFloat(bits) : bf16ToFloat(bits);
  }
}

static void runOne(Rank &rank, mprt_dtype type, mprt_reduction reduction,
                   size_t count) {
  mprt_collective call = {};
  call.kind = MPRT_ALL_REDUCE;
  call.reduction = reduction;
  call.type = uint8_t(type);
  call.accumulate = uint8_t(type == MPRT_F64 ? MPRT_F64 : MPRT_F32);
  call.peer = -1;
  call.count = count;
  call.name = "nan";
  call.location = "cts";
  if (!rank.supports(call))
    return;
  rank.begin(std::string("all_reduce ") + nameOf(type) + " " +
             nameOf(reduction) + " of " + std::to_string(count) + " with NaN");
  unsigned size = rank.size(0), self = rank.rank(0);
  // Every seventh element is NaN on one rank, in turns.
  auto nanRank = [&](size_t i) {
    return i % 7 == 0 ? unsigned(i / 7 % size) : size;
  };
  std::vector<double> storage(count);
  void *data = storage.data();
  for (size_t i = 0; i < count; ++i)
    store(type, data, i,
          nanRank(i) == self ? std::numeric_limits<float>::quiet_NaN()
                             : float(i % 5) - float(self));
  rank.map(data, count * sizeof(double));
  if (rank.run(call, data, data)) {
    rank.healthy();
    return;
  }
  for (size_t i = 0; i < count; ++i)
    if (std::isnan(load(type, data, i)) != (nanRank(i) < size)) {
      rank.fail("element " + std::to_string(i) + ": found " +
                std::to_string(load(type, data, i)) +
                (nanRank(i) < size
                     ? ", expected NaN from rank " + std::to_string(nanRank(i))
                     : std::string(", expected a number")));
      return;
    }
}

void mprt::cts::runNanCases(Rank &rank) {
  for (mprt_dtype type : {MPRT_F32, MPRT_F64, MPRT_F16, MPRT_BF16})
    for (mprt_reduction reduction : {MPRT_SUM, MPRT_MIN, MPRT_MAX, MPRT_MEAN})
      for (size_t count : {70, 30011})
        if (!rank.owner().error())
          runOne(rank, type, reduction, count);
}
