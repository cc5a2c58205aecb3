//===- ShardsTest.cpp - who writes what of a checkpoint -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/checkpoint/Shards.h"
#include "files/Hash.h"
#include "files/StateFile.h"

#include "FolderTest.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>

using namespace mprt;

namespace fs = std::filesystem;

namespace {

SharedTensor tensorOf(int64_t elements, std::vector<uint64_t> holders) {
  SharedTensor tensor;
  tensor.name = "t";
  tensor.shape = {elements};
  tensor.holders = std::move(holders);
  return tensor;
}

TEST(AssignWritersTest, SmallTensorsStayWithTheirOwner) {
  std::vector<SharedTensor> tensors = {tensorOf(16383, {0, 1, 2}),
                                       tensorOf(3, {1, 2}), tensorOf(0, {2})};
  assignWriters(tensors);
  EXPECT_EQ(tensors[0].writer, 0u);
  EXPECT_EQ(tensors[1].writer, 1u);
  EXPECT_EQ(tensors[2].writer, 2u);
}

TEST(AssignWritersTest, WhatRanksReplicateIsShared) {
  // Of N ranks that hold everything, none writes more than a fair share and the
  // largest tensor: the one that is given a tensor has at most the average.
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    uint64_t ranks = 1 + random() % 8, total = 0, largest = 0;
    std::vector<uint64_t> all(ranks);
    for (uint64_t rank = 0; rank < ranks; ++rank)
      all[rank] = rank;
    std::vector<SharedTensor> tensors;
    for (int i = 0; i < 40; ++i) {
      uint64_t elements = 16384 + random() % 100000;
      tensors.push_back(tensorOf(int64_t(elements), all));
      total += 4 * elements;
      largest = std::max(largest, 4 * elements);
    }
    assignWriters(tensors);
    std::map<uint64_t, uint64_t> load;
    for (const SharedTensor &tensor : tensors)
      load[tensor.writer] += 4 * uint64_t(tensor.shape[0]);
    for (auto [rank, bytes] : load)
      EXPECT_LE(bytes, total / ranks + largest) << "round " << round;
    EXPECT_EQ(load.size(), ranks);
  }
}

TEST(AssignWritersTest, OnlyHoldersWrite) {
  std::vector<SharedTensor> tensors;
  for (int i = 0; i < 6; ++i)
    tensors.push_back(tensorOf(20000, {1, 3}));
  assignWriters(tensors);
  int byThree = 0;
  for (const SharedTensor &tensor : tensors) {
    EXPECT_TRUE(tensor.writer == 1 || tensor.writer == 3);
    byThree += tensor.writer == 3;
  }
  EXPECT_EQ(byThree, 3);
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
