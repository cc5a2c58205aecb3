//===- FolderTest.h - a folder of a test's own ------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The base of tests that write files.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_UNIT_RUN_FOLDERTEST_H
#define MPCOMM_TEST_UNIT_RUN_FOLDERTEST_H

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

/// Has `folder`, which is empty when a test begins and gone after it.
class FolderTest : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "mpcomm-XXXXXX").string();
    ASSERT_TRUE(mkdtemp(pattern.data()));
    folder = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::filesystem::path folder;
};

#endif // MPCOMM_TEST_UNIT_RUN_FOLDERTEST_H
