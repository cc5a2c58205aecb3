//===- ShardsTest.cpp - files of state with shards ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/checkpoint/Shards.h"
#include "files/Hash.h"
#include "files/StateFile.h"
#include "support/Trace.h"

#include "FolderTest.h"

#include <gtest/gtest.h>

#include <fstream>

using namespace mprt;

namespace fs = std::filesystem;

namespace {

TEST(CopyMemoryTest, Stays) {
  CopyMemory memory;
  char *first = memory.take(5 << 20);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 4096, 0u);
  EXPECT_EQ(memory.take(0), first);
  EXPECT_EQ(memory.take(5 << 20), first);
  EXPECT_NE(memory.take(9 << 20), nullptr);
  EXPECT_EQ(memory.take(uint64_t(1) << 62), nullptr);
  EXPECT_NE(memory.take(1), nullptr);
}

TEST(PaceTest, TakesItsTime) {
  std::atomic<bool> isHurried{false};
  Pace pace(0.2, isHurried);
  uint64_t begin = nowNanoseconds();
  pace.begin(1 << 30);
  pace.keep(1 << 29);
  EXPECT_GE(nowNanoseconds() - begin, 100'000'000u);
  pace.keep(1 << 30);
  EXPECT_GE(nowNanoseconds() - begin, 200'000'000u);
}

// Otherwise these would not end.
TEST(PaceTest, Hurries) {
  std::atomic<bool> isHurried{true};
  Pace pace(1e9, isHurried);
  pace.begin(uint64_t(1) << 60);
  pace.keep(uint64_t(1) << 59);
  isHurried = false;
  Pace little(1e9, isHurried);
  little.begin(1000);
  little.keep(1000);
}

class StateFileTest : public FolderTest {
protected:
  std::string name(const std::string &file) { return folder / file; }
  /// A file with the tensor `tensor`; its header's checksum.
  std::string write(const std::string &file, const std::string &tensor,
                    std::map<std::string, std::string> metadata = {}) {
    std::vector<TensorToWrite> list = {{tensor, MPRT_F32, {2}, values}};
    list[0].checksum = hashOf(values, sizeof(values));
    Error error = writeSafetensors(file, list, metadata);
    EXPECT_TRUE(error.ok()) << error.message();
    return withChecksums(list, metadata).at("mpcomm.checksum");
  }
  /// Names the shard of rank 1 as an index has it.
  static std::map<std::string, std::string> shard(const std::string &text) {
    return {{"mpcomm.shard.1", text}};
  }
  std::string messageOf(const std::string &file) {
    Expected<StateFile> opened = StateFile::open(file);
    return opened ? "" : opened.message();
  }

  float values[2] = {1, 2};
};

TEST_F(StateFileTest, ReadsShards) {
  std::string sum = write(name("c.shard-01-1"), "b");
  write(name("c"), "a", shard("c.shard-01-1 " + sum));
  Expected<StateFile> file = StateFile::open(name("c"));
  ASSERT_TRUE(file.ok()) << file.message();
  for (const char *tensor : {"a", "b"}) {
    float read[2] = {};
    const TensorEntry *entry = file->find(tensor);
    ASSERT_TRUE(entry);
    EXPECT_TRUE(file->read(tensor, *entry, read).ok());
    EXPECT_EQ(read[1], 2);
  }
  EXPECT_EQ(file->find("c"), nullptr);
}

TEST_F(StateFileTest, RefusesOtherShards) {
  std::string sum = write(name("c.shard-01-1"), "b");
  auto with = [&](const std::string &text) {
    write(name("c"), "a", shard(text));
    return messageOf(name("c"));
  };
  EXPECT_NE(with("c.shard-01-1 " + std::string(16, '0')).find("has checksum"),
            std::string::npos);
  EXPECT_NE(with("c.shard-02-1 " + sum).find("No such file"),
            std::string::npos);
  for (const std::string &text :
       {"../c.shard-01-1 " + sum, "/etc/.shard-passwd " + sum,
        std::string("c.shard-01-1"), "other " + sum, std::string()})
    EXPECT_NE(with(text).find("expected the name of a shard"),
              std::string::npos)
        << text;
  std::string twice = write(name("c.shard-03-1"), "a");
  EXPECT_NE(with("c.shard-03-1 " + twice).find("tensor 'a' is in another file"),
            std::string::npos);
}

/// A tensor of 7 elements in parts of 3, 3 and 1; elements count from 0.
class PartsTest : public StateFileTest {
protected:
  std::string write(const std::string &file, uint64_t first, int64_t count,
                    std::map<std::string, std::string> metadata,
                    const std::string &part) {
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(float(first) + float(i));
    std::vector<TensorToWrite> list = {{"t", MPRT_F32, {count}, values.data()}};
    list[0].checksum = hashOf(values.data(), values.size() * sizeof(float));
    if (!part.empty())
      metadata["mpcomm.part.t"] = part;
    Error error = writeSafetensors(name(file), list, metadata);
    EXPECT_TRUE(error.ok()) << error.message();
    return withChecksums(list, metadata).at("mpcomm.checksum");
  }
  /// An index of all three; what is said of the second part.
  void writeAll(const std::string &second = describePart(3, {7, 1}),
                int64_t count = 3) {
    std::map<std::string, std::string> index;
    index["mpcomm.shard.1"] =
        "c.shard-01-1 " + write("c.shard-01-1", 3, count, {}, second);
    index["mpcomm.shard.2"] = "c.shard-01-2 " + write("c.shard-01-2", 6, 1, {},
                                                      describePart(6, {7, 1}));
    write("c", 0, 3, index, describePart(0, {7, 1}));
  }
};

TEST_F(PartsTest, ReadsTheWholeAndAnyPart) {
  writeAll();
  Expected<StateFile> file = StateFile::open(name("c"));
  ASSERT_TRUE(file.ok()) << file.message();
  const TensorEntry *entry = file->find("t");
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->shape, (Shape{7, 1}));
  EXPECT_EQ(entry->bytes, 28u);
  for (uint64_t first = 0; first <= 7; ++first)
    for (uint64_t count = 0; first + count <= 7; ++count) {
      std::vector<float> read(8, -1);
      ASSERT_TRUE(file->readPart("t", *entry, first, count, read.data()).ok());
      for (uint64_t i = 0; i < 8; ++i)
        EXPECT_EQ(read[i], i < count ? float(first + i) : -1.f);
    }
  float whole[7] = {};
  ASSERT_TRUE(file->read("t", *entry, whole).ok());
  EXPECT_EQ(whole[6], 6);
}

TEST_F(PartsTest, RefusesPartsThatDoNotFit) {
  auto with = [&](const std::string &second, int64_t count = 3) {
    writeAll(second, count);
    return messageOf(name("c"));
  };
  auto expect = [](const std::string &message, const char *wanted) {
    EXPECT_NE(message.find(wanted), std::string::npos) << message;
  };
  // A gap, an overlap, the same again, another whole, none.
  expect(with(describePart(3, {7, 1}), 2),
         "its part from element 6, expected one from element 5");
  expect(with(describePart(2, {7, 1})),
         "its part from element 2, expected one from element 3");
  expect(with(describePart(0, {7, 1})), "is in another file");
  expect(with(describePart(3, {7})), "is in another file");
  expect(with(""), "is in another file");
  for (const char *text : {"3", "3 of 7", "3 of [7, 1", "-3 of [7, 1]",
                           "3 of [7, 1] ", "3 of [9223372036854775807, 9]"})
    expect(with(text), "expected a part of one dimension");
}

TEST_F(PartsTest, MissesTheLast) {
  std::map<std::string, std::string> index;
  index["mpcomm.shard.1"] =
      "c.shard-01-1 " + write("c.shard-01-1", 3, 3, {}, describePart(3, {7}));
  write("c", 0, 3, index, describePart(0, {7}));
  EXPECT_NE(messageOf(name("c")).find("has 6 of 7 elements"),
            std::string::npos);
}

TEST_F(StateFileTest, RemovesWhatNoIndexNames) {
  auto exists = [&](const char *file) { return fs::exists(name(file)); };
  auto fill = [&] {
    for (const char *file : {"c.shard-01-1", "c.shard-02-1", "c.shard-03-1",
                             "c.shard-03-1.mpcomm-tmp-0123456789abcdef",
                             "cc.shard-01-1", "d.shard-01-1"})
      write(name(file), "b");
    std::string sum = write(name("c.shard-01-1"), "b");
    write(name("c"), "a", shard("c.shard-01-1 " + sum));
    write(name("c.step-7"), "a", shard("c.shard-02-1 " + sum));
  };
  fill();
  removeUnusedShards(name("c"));
  EXPECT_TRUE(exists("c.shard-01-1") && exists("c.shard-02-1"));
  EXPECT_FALSE(exists("c.shard-03-1"));
  EXPECT_FALSE(exists("c.shard-03-1.mpcomm-tmp-0123456789abcdef"));
  EXPECT_TRUE(exists("cc.shard-01-1") && exists("d.shard-01-1"));
  // Whose shards those are, nobody knows.
  fill();
  std::ofstream(name("c.step-8")) << "damaged";
  removeUnusedShards(name("c"));
  EXPECT_TRUE(exists("c.shard-03-1"));
}

} // namespace
