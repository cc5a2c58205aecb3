//===- ProfileTest.cpp - the form of profiles -----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/CostModel/Profile.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mpcomm;

TEST(ProfileTest, RoundTrip) {
  Profile profile;
  profile.name = "gpt";
  profile.cluster = "local";
  profile.ranks = 2;
  profile.steps = 20;
  profile.entries = {{{"a.py:3:1", "layer/0"}, "", "", 1.5e-3},
                     {{}, "mpcomm.dot_general", "4x8xf32,8x2xf32->4x2xf32", 0}};
  std::string text = toJson(profile);
  llvm::Expected<Profile> again = parseProfile(text);
  ASSERT_TRUE(bool(again)) << llvm::toString(again.takeError());
  EXPECT_EQ(toJson(*again), text);
  EXPECT_EQ(again->entries.size(), 2u);
}

static std::string getError(llvm::StringRef entry) {
  llvm::Expected<Profile> profile = parseProfile(
      (R"({"schema": "mpcomm-profile-1", "entries": [)" + entry + "]}").str(),
      "p.json");
  return profile ? "" : llvm::toString(profile.takeError());
}

TEST(ProfileTest, Errors) {
  EXPECT_EQ(getError(R"({"op": "x", "seconds": 1})"), "");
  EXPECT_EQ(getError(R"({"seconds": 1})"),
            "p.json: entries[0]: expected 'locations' or 'op'");
  EXPECT_EQ(getError(R"({"op": "x"})"),
            "p.json: entries[0]: expected a key 'seconds'");
  EXPECT_EQ(getError(R"({"op": "x", "seconds": -1})"),
            "p.json: entries[0].seconds: expected a number that is not "
            "negative, got -1");
  EXPECT_EQ(getError(R"({"op": "x", "seconds": 2e9})"),
            "p.json: entries[0].seconds: expected at most 1000000000, got "
            "2000000000");
  EXPECT_EQ(getError(R"({"op": "x", "seconds": 1, "us": 2})"),
            "p.json: entries[0].us: unknown key, expected locations, op, "
            "seconds, shapes");
}

TEST(ProfileTest, Places) {
  MLIRContext context;
  Location line = FileLineColLoc::get(&context, "a.py", 3, 7);
  Location name = NameLoc::get(StringAttr::get(&context, "layer"), line);
  Location fused = FusedLoc::get(&context, {name, line});
  std::string places;
  forEachPlace(fused, [&](StringRef place) { places += place.str() + ";"; });
  EXPECT_EQ(places, "layer;a.py:3;a.py:3:7;");
}
