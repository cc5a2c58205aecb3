//===- NcclTest.cpp - what is asked of NCCL, and what not -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/nccl/NcclCommunicator.h"

#include <gtest/gtest.h>

using namespace mprt;
using namespace mprt::nccl;

static mprt_collective make(mprt_collective_kind kind, mprt_reduction reduction,
                            mprt_dtype type, mprt_dtype accumulate) {
  mprt_collective c{};
  c.kind = uint8_t(kind);
  c.reduction = uint8_t(reduction);
  c.type = uint8_t(type);
  c.accumulate = uint8_t(accumulate);
  c.count = 10;
  c.name = "grads";
  c.location = "gpt.py:12";
  return c;
}

/// `type x width op`, or the reason.
static std::string form(mprt_reduction reduction, mprt_dtype type,
                        mprt_dtype accumulate, unsigned size,
                        bool takesNcclNumerics = false) {
  Expected<Form> made =
      formOf(make(MPRT_ALL_REDUCE, reduction, type, accumulate), size,
             takesNcclNumerics);
  if (!made) {
    EXPECT_EQ(made.error().status(), MPRT_UNSUPPORTED);
    return made.error().message();
  }
  return std::to_string(made->type) + " x" + std::to_string(made->width) + " " +
         std::to_string(made->op);
}

TEST(Nccl, NumbersTypesAndReductions) {
  EXPECT_EQ(form(MPRT_SUM, MPRT_F32, MPRT_F32, 8), "7 x1 0");
  EXPECT_EQ(form(MPRT_MEAN, MPRT_F64, MPRT_F64, 8), "8 x1 4");
  EXPECT_EQ(form(MPRT_PROD, MPRT_I32, MPRT_I32, 8), "2 x1 1");
  EXPECT_EQ(form(MPRT_MAX, MPRT_I64, MPRT_I64, 8), "4 x1 2");
  EXPECT_EQ(form(MPRT_MIN, MPRT_U8, MPRT_U8, 8), "1 x1 3");
  // "or" and "and" of bytes that are 0 or 1.
  EXPECT_EQ(form(MPRT_SUM, MPRT_BOOL, MPRT_BOOL, 8), "1 x1 2");
  EXPECT_EQ(form(MPRT_PROD, MPRT_BOOL, MPRT_BOOL, 8), "1 x1 3");
  EXPECT_EQ(form(MPRT_SUM, MPRT_I16, MPRT_I16, 2),
            "all_reduce \"grads\" at gpt.py:12: NCCL has no reductions of i16");
}

TEST(Nccl, MovesBytes) {
  for (mprt_collective_kind kind :
       {MPRT_ALL_GATHER, MPRT_SEND, MPRT_RECV, MPRT_BROADCAST, MPRT_ALL_TO_ALL,
        MPRT_PERMUTE, MPRT_GATHER, MPRT_SCATTER}) {
    Expected<Form> made =
        formOf(make(kind, MPRT_SUM, MPRT_I16, MPRT_I16), 8, false);
    ASSERT_TRUE(bool(made));
    EXPECT_EQ(made->type, ncclUint8);
    EXPECT_EQ(made->width, 2u);
  }
}

TEST(Nccl, RefusesSumsThatItRoundsMoreOften) {
  // One addition is rounded once, in whatever type it is made.
  EXPECT_EQ(form(MPRT_SUM, MPRT_BF16, MPRT_F32, 2), "9 x1 0");
  EXPECT_EQ(form(MPRT_MEAN, MPRT_F16, MPRT_F32, 2), "6 x1 4");
  EXPECT_EQ(form(MPRT_SUM, MPRT_F32, MPRT_F64, 2), "7 x1 0");
  EXPECT_EQ(form(MPRT_SUM, MPRT_BF16, MPRT_F32, 3),
            "all_reduce \"grads\" at gpt.py:12: NCCL keeps partial sums in "
            "bf16, not in f32, among 3 ranks: send f32 (wire=f32 when "
            "compiling); MPRT_NCCL_NUMERICS=nccl in the environment takes what "
            "NCCL computes");
  EXPECT_NE(form(MPRT_MEAN, MPRT_F32, MPRT_F64, 3), "7 x1 4");
  // It may be what is asked for, or what will do.
  EXPECT_EQ(form(MPRT_SUM, MPRT_BF16, MPRT_BF16, 3), "9 x1 0");
  EXPECT_EQ(form(MPRT_SUM, MPRT_BF16, MPRT_F32, 3, true), "9 x1 0");
}

TEST(Nccl, RefusesExtremesThatDropNaN) {
  for (mprt_reduction reduction : {MPRT_MIN, MPRT_MAX}) {
    EXPECT_NE(form(reduction, MPRT_F32, MPRT_F32, 2).find("of NCCL drops NaN"),
              std::string::npos);
    EXPECT_EQ(form(reduction, MPRT_F32, MPRT_F32, 1).substr(0, 4), "7 x1");
    EXPECT_EQ(form(reduction, MPRT_F32, MPRT_F32, 2, true).substr(0, 4),
              "7 x1");
  }
}

TEST(Nccl, NamesVersions) {
  EXPECT_EQ(describeVersion(22809), "2.28.9");
  EXPECT_EQ(describeVersion(21805), "2.18.5");
  EXPECT_EQ(describeVersion(2708), "2.7.8");
}
