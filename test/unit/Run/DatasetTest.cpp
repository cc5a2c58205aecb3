//===- DatasetTest.cpp - what is looked at of data ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What one dataset has validated, another of the same file takes from it. To
// see that nothing is read again, the other file here is another.
//
//===----------------------------------------------------------------------===//

#include "data/Dataset.h"

#include "FolderTest.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

using namespace mpcomm::run;

namespace fs = std::filesystem;

namespace {

class DatasetTest : public FolderTest {
protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(FolderTest::SetUp());
    function.name = "train_step";
    ManifestArgument &argument = function.arguments.emplace_back();
    argument.name = "label";
    argument.role = Role::Batch;
    argument.type = MPRT_I64;
    argument.shape = {2};
    argument.elements = 2;
    argument.bytes = 16;
    argument.range = {0, 10};
  }
  Dataset open(const ManifestFunction &user, const char *name, int64_t last) {
    const int64_t labels[] = {1, 2, 3, last};
    std::string path = folder / name;
    EXPECT_TRUE(
        writeSafetensors(path, {{"label", MPRT_I64, {4}, labels}}, {}).ok());
    Expected<Dataset> data = Dataset::open({{path}}, {}, {&user});
    EXPECT_TRUE(data.ok()) << data.message();
    return data.take();
  }

  ManifestFunction function;
};

TEST_F(DatasetTest, WhatIsKnownIsNotReadAgain) {
  Dataset good = open(function, "good", 4), bad = open(function, "bad", 10);
  EXPECT_TRUE(bad.validate(false).failed());
  // Not yet validated, it knows nothing.
  EXPECT_TRUE(bad.validate(false, &good).failed());
  ASSERT_TRUE(good.validate(false).ok());
  EXPECT_TRUE(bad.validate(false, &good).ok());
  EXPECT_EQ(bad.checksum(), good.checksum());
}

TEST_F(DatasetTest, AnotherRangeIsLookedAt) {
  ManifestFunction strict = function;
  strict.arguments[0].range = {0, 4};
  Dataset data = open(function, "data", 4), same = open(strict, "data", 4);
  ASSERT_TRUE(data.validate(false).ok());
  EXPECT_NE(same.validate(false, &data).message().find("4 is outside [0, 4)"),
            std::string::npos);
}

} // namespace
