//===- KeptCheckpointsTest.cpp - the last checkpoints ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "files/KeptCheckpoints.h"

#include "FolderTest.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

using namespace mprt;

namespace fs = std::filesystem;

namespace {

class KeptCheckpointsTest : public FolderTest {
protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(FolderTest::SetUp());
    file = folder / "c";
  }
  /// As a checkpoint is: a new file takes the name.
  void write(const std::string &name, const std::string &text) {
    std::ofstream(name + ".new") << text;
    fs::rename(name + ".new", name);
  }
  void checkpoint(KeptCheckpoints &kept, uint64_t step, uint64_t keep = 2) {
    Error before = kept.prepare(step, keep);
    ASSERT_TRUE(before.ok()) << before.message();
    write(file, std::to_string(step));
    Error after = kept.commit(step, keep);
    ASSERT_TRUE(after.ok()) << after.message();
  }
  /// Names in the folder, with what they hold.
  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> all;
    for (const fs::directory_entry &entry : fs::directory_iterator(folder)) {
      std::string text;
      std::ifstream(entry.path()) >> text;
      all[entry.path().filename().string()] = text;
    }
    return all;
  }

  /// A checkpoint holds the number of its step.
  static bool isOfRun(const std::string &path, uint64_t step) {
    std::string text;
    std::ifstream(path) >> text;
    return text == std::to_string(step) || text == "copy";
  }

  using Contents = std::map<std::string, std::string>;
  std::string file;
};

TEST_F(KeptCheckpointsTest, OneAsBefore) {
  KeptCheckpoints kept(file);
  for (uint64_t step : {5, 10, 15})
    checkpoint(kept, step, 1);
  EXPECT_EQ(contents(), (Contents{{"c", "15"}}));
}

TEST_F(KeptCheckpointsTest, TheLastThree) {
  KeptCheckpoints kept(file);
  for (uint64_t step : {5, 10, 15, 20})
    checkpoint(kept, step, 3);
  EXPECT_EQ(contents(),
            (Contents{{"c", "20"}, {"c.step-10", "10"}, {"c.step-15", "15"}}));
}

TEST_F(KeptCheckpointsTest, AnotherNumber) {
  KeptCheckpoints kept(file);
  for (uint64_t step : {1, 2, 3})
    checkpoint(kept, step, 3);
  checkpoint(kept, 4, 2);
  EXPECT_EQ(contents(), (Contents{{"c", "4"}, {"c.step-3", "3"}}));
  checkpoint(kept, 5, 1);
  EXPECT_EQ(contents(), (Contents{{"c", "5"}}));
}

TEST_F(KeptCheckpointsTest, ResumedInTheMiddle) {
  KeptCheckpoints kept(file);
  checkpoint(kept, 1, 3);
  checkpoint(kept, 2, 3);
  kept.resume(file, 2, isOfRun);
  for (uint64_t step : {3, 4, 5})
    checkpoint(kept, step, 3);
  EXPECT_EQ(contents(),
            (Contents{{"c", "5"}, {"c.step-3", "3"}, {"c.step-4", "4"}}));
}

TEST_F(KeptCheckpointsTest, NothingIsRemovedBeforeTheNextIsThere) {
  KeptCheckpoints kept(file);
  checkpoint(kept, 5);
  checkpoint(kept, 10);
  // The next one fails after it was prepared, twice.
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(kept.prepare(15, 2).ok());
    EXPECT_EQ(contents(),
              (Contents{{"c", "10"}, {"c.step-10", "10"}, {"c.step-5", "5"}}));
  }
  checkpoint(kept, 15);
  EXPECT_EQ(contents(), (Contents{{"c", "15"}, {"c.step-10", "10"}}));
}

TEST_F(KeptCheckpointsTest, FilesOfOthersStay) {
  write(file, "other");
  const Contents others = {{"c.step-1", "other"},
                           {"c.step-20", "other"},
                           {"c.step-05", "other"},
                           {"c.step-5.old", "other"}};
  for (const auto &[name, text] : others)
    write(folder / name, text);
  KeptCheckpoints kept(file);
  EXPECT_TRUE(kept.checkNames(0, 20, 5, 2).ok());
  for (uint64_t step : {5, 10, 15, 20})
    checkpoint(kept, step);
  Contents expected = others;
  expected.insert({{"c", "20"}, {"c.step-15", "15"}});
  EXPECT_EQ(contents(), expected);
}

TEST_F(KeptCheckpointsTest, AFileThatIsInTheWayStays) {
  write(file + ".step-5", "other");
  KeptCheckpoints kept(file);
  EXPECT_NE(kept.checkNames(0, 20, 5, 2)
                .message()
                .find("c.step-5: is there already, and is not of this run"),
            std::string::npos);
  EXPECT_TRUE(kept.checkNames(5, 20, 5, 2).ok());
  EXPECT_TRUE(kept.checkNames(0, 20, 2, 2).ok());
  EXPECT_TRUE(kept.checkNames(0, 20, 0, 2).ok());
  EXPECT_TRUE(KeptCheckpoints(file).checkNames(0, 20, 5, 1).ok());
  // It may also come later.
  checkpoint(kept, 5);
  EXPECT_TRUE(kept.prepare(10, 2).failed());
  EXPECT_EQ(contents(), (Contents{{"c", "5"}, {"c.step-5", "other"}}));
}

TEST_F(KeptCheckpointsTest, ACopyOfWhatIsResumedIsItsOwn) {
  write(file, "5");
  write(file + ".step-5", "copy");
  KeptCheckpoints kept(file);
  kept.resume(file, 5, isOfRun);
  checkpoint(kept, 10);
  EXPECT_EQ(contents(), (Contents{{"c", "10"}, {"c.step-5", "5"}}));
  checkpoint(kept, 15);
  EXPECT_EQ(contents(), (Contents{{"c", "15"}, {"c.step-10", "10"}}));
}

TEST_F(KeptCheckpointsTest, SaysThatTheNewOneIsWritten) {
  KeptCheckpoints kept(file);
  checkpoint(kept, 5);
  checkpoint(kept, 10);
  ASSERT_TRUE(kept.prepare(15, 2).ok());
  write(file, "15");
  fs::remove(file + ".step-5");
  fs::create_directory(file + ".step-5");
  std::string message = kept.commit(15, 2).message();
  EXPECT_NE(message.find("c: the checkpoint of step 15 is written, but "),
            std::string::npos)
      << message;
}

TEST_F(KeptCheckpointsTest, ResumedRunsGoOnWithTheirs) {
  {
    KeptCheckpoints kept(file);
    for (uint64_t step : {5, 10, 15})
      checkpoint(kept, step, 3);
  }
  write(file + ".step-90", "later");
  write(file + ".step-x", "other");
  KeptCheckpoints kept(file);
  kept.resume(file, 15, isOfRun);
  checkpoint(kept, 15, 3); // nothing was left to do
  checkpoint(kept, 20, 3);
  EXPECT_EQ(contents(), (Contents{{"c", "20"},
                                  {"c.step-10", "10"},
                                  {"c.step-15", "15"},
                                  {"c.step-90", "later"},
                                  {"c.step-x", "other"}}));
}

TEST_F(KeptCheckpointsTest, FilesOfOthersAreLeftAlone) {
  write(file, "15");
  write(file + ".step-3", "notes");
  write(file + ".step-10", "10");
  fs::create_directory(file + ".step-4");
  KeptCheckpoints kept(file);
  kept.resume(file, 15, isOfRun);
  ASSERT_TRUE(kept.checkNames(15, 30, 5, 2).ok());
  checkpoint(kept, 20);
  checkpoint(kept, 25);
  EXPECT_EQ(contents(), (Contents{{"c", "25"},
                                  {"c.step-20", "20"},
                                  {"c.step-3", "notes"},
                                  {"c.step-4", ""}}));
}

TEST_F(KeptCheckpointsTest, WhatIsResumedDoesNotReplaceAnother) {
  write(file, "15");
  write(file + ".step-15", "other");
  KeptCheckpoints kept(file);
  kept.resume(file, 15, isOfRun);
  EXPECT_NE(kept.checkNames(15, 30, 5, 2).message().find("c.step-15: is there"),
            std::string::npos);
  EXPECT_TRUE(kept.prepare(20, 2).failed());
  EXPECT_EQ(contents(), (Contents{{"c", "15"}, {"c.step-15", "other"}}));
}

TEST_F(KeptCheckpointsTest, AFileThatIsGoneIsNotMissed) {
  KeptCheckpoints kept(file);
  checkpoint(kept, 5);
  fs::remove(file);
  checkpoint(kept, 10);
  EXPECT_EQ(contents(), (Contents{{"c", "10"}}));
}

} // namespace
