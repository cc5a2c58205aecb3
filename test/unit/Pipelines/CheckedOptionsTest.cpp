//===- CheckedOptionsTest.cpp - options that say what they expect ---------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Pipelines/Pipelines.h"

#include <gtest/gtest.h>

using namespace mpcomm;

static std::string reasonOf(llvm::StringRef text) {
  CompileOptions options;
  std::string reason;
  bool good = llvm::succeeded(options.parse(text, reason));
  EXPECT_EQ(good, reason.empty()) << text.str();
  return reason;
}

TEST(CheckedOptions, DividesAsLLVMDoes) {
  CompileOptions options;
  std::string reason;
  ASSERT_TRUE(llvm::succeeded(options.parse(
      "  mesh='pp:2,dp:2'  boundaries={a b=0,c=1} overlap micro-batches=0x10 "
      "clip-norm=1e-3 cluster=\"a b\" placement=0,1,1,0 buckets=mg-wfbp",
      reason)))
      << reason;
  EXPECT_EQ(options.mesh.getValue(), "pp:2,dp:2");
  EXPECT_EQ(options.microBatches.getValue(), 16);
  EXPECT_EQ(options.clipNorm.getValue(), 1e-3);
  EXPECT_EQ(options.cluster.getValue(), "a b");
  EXPECT_EQ(options.placement.size(), 4u);
  EXPECT_EQ(options.buckets.getValue(), BucketPolicy::MGWFBP);
  EXPECT_TRUE(options.overlap);
  EXPECT_EQ(options.boundaries.size(), 2u);
}

TEST(CheckedOptions, NamesWhatIsMeant) {
  EXPECT_EQ(reasonOf("meh=dp:2"), "no option 'meh', did you mean 'mesh'?");
  EXPECT_EQ(reasonOf("loss-scale-intervall=3"),
            "no option 'loss-scale-intervall', did you mean "
            "'loss-scale-interval'?");
  EXPECT_EQ(reasonOf("colour=red"), "no option 'colour'");
  EXPECT_EQ(reasonOf("=3"), "no option ''");
  EXPECT_EQ(reasonOf("average=befor"),
            "expected after or before for 'average', got 'befor', did you mean "
            "'before'?");
  EXPECT_EQ(reasonOf("micro-batches="), "expected a value for 'micro-batches'");
  EXPECT_EQ(reasonOf(""), "");
}

/// Of several that are as close, the first.
TEST(CheckedOptions, IsCloseWhereAThirdIsWrong) {
  EXPECT_EQ(didYouMean("abcdef", {"abcdxx", "abcdyy"}),
            ", did you mean 'abcdxx'?");
  EXPECT_EQ(didYouMean("abcdef", {"abcxxx"}), "");
  EXPECT_EQ(didYouMean("abc", {"abc-and-more"}),
            ", did you mean 'abc-and-more'?");
  EXPECT_EQ(didYouMean("x", {}), "");
}
