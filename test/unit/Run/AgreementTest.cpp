//===- AgreementTest.cpp - what ranks differ in ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "launch/Agreement.h"

#include <gtest/gtest.h>

using namespace mpcomm::run;

namespace {

using Settings = std::vector<SharedSetting>;

const Settings first = {
    {"--lr", "0.1"}, {"--resume", std::nullopt}, {"--evaluate", ""}};

TEST(Agreement, EqualListsHaveNoDifference) {
  EXPECT_EQ(describeDifference(first, first, 1), "");
}

TEST(Agreement, NamesBothValues) {
  Settings other = first;
  other[0].value = "0.2";
  EXPECT_EQ(describeDifference(first, other, 3),
            "rank 3 has --lr 0.2 where rank 0 has --lr 0.1");
}

TEST(Agreement, WhatIsNotGiven) {
  Settings other = first;
  other[1].value = "of step 5";
  EXPECT_EQ(describeDifference(first, other, 1),
            "rank 1 has --resume of step 5 where rank 0 has no --resume");
  other = first;
  other[2].value.reset();
  EXPECT_EQ(describeDifference(first, other, 1),
            "rank 1 has no --evaluate where rank 0 has --evaluate");
}

TEST(Agreement, WhatOnlyOneListHas) {
  Settings other = first;
  other.push_back({"--eval-data", "x"});
  EXPECT_EQ(describeDifference(first, other, 1),
            "rank 1 has --eval-data x where rank 0 has no --eval-data");
  EXPECT_EQ(describeDifference(other, first, 1),
            "rank 1 has no --eval-data where rank 0 has --eval-data x");
}

TEST(Agreement, NamesTheOthersToo) {
  Settings other = {{"--lr", "1"}, {"--resume", "x"}};
  EXPECT_EQ(describeDifference(first, other, 1),
            "rank 1 has --lr 1 where rank 0 has --lr 0.1; also different: "
            "--resume, --evaluate");
}

TEST(Agreement, ComparesTheEnvironmentOfGpus) {
  RunOptions options;
  auto settingsOn = [&](const char *device) {
    options.device = device;
    return sharedSettingsOf(options);
  };
  for (auto [name, value] :
       {std::pair("MPRT_TF32", "1"), std::pair("MPRT_CUDA_TUNE", "0")}) {
    unsetenv(name);
    Settings cuda = settingsOn("cuda"), host = settingsOn("host");
    setenv(name, "other", 1);
    EXPECT_EQ(describeDifference(cuda, settingsOn("cuda"), 1), "");
    setenv(name, value, 1);
    std::string text = std::string(name) + "=" + value;
    EXPECT_EQ(describeDifference(cuda, settingsOn("cuda"), 1),
              "rank 1 has " + text + " where rank 0 has no " + text);
    EXPECT_EQ(describeDifference(host, settingsOn("host"), 1), "");
    unsetenv(name);
  }
}

} // namespace
