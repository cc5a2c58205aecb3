//===- CheckpointTest.cpp - checkpoints of several ranks ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks are threads that meet over shared memory. State of generated sizes is
// written by so many ranks, and read as others would hold it.
//
//===----------------------------------------------------------------------===//

#include "session/checkpoint/StateKeeper.h"
#include "session/checkpoint/Writers.h"
#include "support/SplitMix64.h"

#include "FolderTest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <thread>

using namespace mprt;

namespace fs = std::filesystem;

namespace {

/// Stores elements [first, first + count) of the tensor `name`, which are
/// numbers that every type has.
void store(const std::string &name, DType type, void *data,
           ElementRange range) {
  uint64_t seed = std::hash<std::string>()(name);
  for (uint64_t i = 0; i < range.count; ++i)
    storeNumber(type, data, i,
                double(SplitMix64(seed + range.first + i).next() % 125));
}

ManifestArgument parameter(const std::string &name, DType type, Shape shape) {
  ManifestArgument argument;
  argument.name = name;
  argument.type = type;
  argument.shape = std::move(shape);
  argument.elements = *elementsOf(argument.shape);
  argument.bytes = *bytesOf(type, argument.shape);
  return argument;
}

/// A program for `ranks` ranks that takes `arguments`; those of `split` ranks
/// share.
struct Model {
  Model(uint64_t ranks, const std::vector<ManifestArgument> &arguments,
        const std::set<std::string> &split = {}) {
    manifest.axes = {{"dp", int64_t(ranks)}};
    ManifestFunction function;
    function.name = "train_step";
    for (const ManifestArgument &whole : arguments) {
      function.arguments.push_back(whole);
      if (!split.count(whole.name))
        continue;
      ManifestArgument &argument = function.arguments.back();
      argument.split = ManifestSplit{whole.shape, {{1, ranks}}};
      argument.elements = (whole.elements + ranks - 1) / ranks;
      argument.shape = {int64_t(argument.elements)};
      argument.bytes = *bytesOf(whole.type, argument.shape);
    }
    manifest.functions.push_back(std::move(function));
  }

  RankState stateOf(uint64_t rank) const {
    Expected<RankState> state =
        RankState::create({&manifest.functions[0]}, rank);
    EXPECT_TRUE(state.ok()) << state.message();
    return state.take();
  }

  Manifest manifest;
};

void fill(RankState &state) {
  for (size_t index : state.stateSlots()) {
    Slot &slot = state.slot(index);
    store(slot.name, slot.type, slot.data, slot.range);
  }
}

void expectFilled(RankState &state) {
  for (size_t index : state.stateSlots()) {
    const Slot &slot = state.slot(index);
    std::vector<char> expected(slot.bytes);
    store(slot.name, slot.type, expected.data(), slot.range);
    EXPECT_EQ(std::memcmp(slot.data, expected.data(), slot.bytes), 0)
        << slot.name;
  }
}

class CheckpointTest : public FolderTest {
protected:
  /// Each rank's state goes through `change` and into the checkpoint; what came
  /// of it on rank 0.
  Error
  write(const Model &model, bool inBackground,
        const std::function<void(uint64_t, RankState &)> &change = nullptr) {
    auto ranks = unsigned(model.manifest.ranks());
    auto local = findBackend("shm")->prepare(ranks, 60);
    EXPECT_TRUE(local.ok()) << local.message();
    std::vector<Error> results(ranks);
    auto live = [&](unsigned index) -> Error {
      Expected<World> world = World::join(**local, index, 60);
      if (!world)
        return world.error();
      Rank rank(world.take());
      RankState state = model.stateOf(index);
      fill(state);
      if (change)
        change(index, state);
      StateKeeper keeper({path()}, rank, [](const std::string &) {});
      SaveRequest request;
      request.info.step = 3;
      request.background = inBackground;
      SharedState shared{&state, {{&model.manifest, {"train_step"}}}};
      Expected<bool> written = keeper.writeCheckpoint(shared, request);
      if (!written)
        return written.error();
      std::optional<WrittenCheckpoint> done = keeper.takeWritten(true);
      return rank.agree(done ? done->error : Error());
    };
    std::vector<std::thread> threads;
    threads.reserve(ranks);
    for (unsigned index = 0; index < ranks; ++index)
      threads.emplace_back([&, index] { results[index] = live(index); });
    for (std::thread &thread : threads)
      thread.join();
    return results[0];
  }

  std::string path() const { return folder / "c"; }
  uint64_t largestFile() const {
    uint64_t largest = 0;
    for (const fs::directory_entry &entry : fs::directory_iterator(folder))
      largest = std::max<uint64_t>(largest, entry.file_size());
    return largest;
  }
};

TEST_F(CheckpointTest, IsReadByOtherNumbersOfRanks) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    uint64_t ranks = 1 + random() % 6;
    const DType types[] = {MPRT_F32, MPRT_BF16, MPRT_I64, MPRT_U8};
    std::vector<ManifestArgument> arguments;
    std::set<std::string> split;
    uint64_t total = 0, row = 0, small = 0;
    for (int i = 0; i < 12; ++i) {
      // The first is most of all.
      auto rows = int64_t(1 + random() % 300 + (i ? 0 : 3000));
      auto columns = int64_t(1 + random() % 100 + (i ? 0 : 50));
      Shape shapes[] = {
          {rows}, {rows, columns}, {2, rows, columns / 8 + 1}, {}};
      ManifestArgument argument =
          parameter("t" + std::to_string(i), types[random() % 4],
                    shapes[i ? random() % 4 : 1]);
      if (!argument.shape.empty() && random() % 3 == 0)
        split.insert(argument.name);
      total += argument.bytes;
      small += argument.bytes < smallBytes ? argument.bytes : 0;
      if (!argument.shape.empty())
        row = std::max(row, argument.bytes / uint64_t(argument.shape[0]));
      arguments.push_back(std::move(argument));
    }
    bool inBackground = seed % 2;
    Error error = write(Model(ranks, arguments, split), inBackground);
    ASSERT_TRUE(error.ok()) << error.message();
    // What a rank alone has a part of, it writes; the bound of Writers.h is for
    // the rest, with what the headers take.
    uint64_t share = (total + ranks - 1) / ranks;
    constexpr uint64_t header = 1 << 14;
    EXPECT_LE(
        largestFile(),
        std::max({share + share / 8,
                  share + row + 2 * smallBytes + 12 * sizeof(int64_t), small}) +
            header);
    Expected<StateFile> file = StateFile::open(path());
    ASSERT_TRUE(file.ok()) << file.message();
    for (uint64_t others = 1; others <= 7; others += 2)
      for (uint64_t rank = 0; rank < others; ++rank) {
        // Also where another number of tensors is there in parts.
        Model model(others, arguments,
                    rank % 2 ? split : std::set<std::string>{"t0"});
        RankState state = model.stateOf(rank);
        Error wrong = state.check(*file, /*complete=*/true);
        ASSERT_TRUE(wrong.ok()) << wrong.message();
        wrong = state.load(*file);
        ASSERT_TRUE(wrong.ok()) << wrong.message();
        expectFilled(state);
      }
    for (const fs::directory_entry &entry : fs::directory_iterator(folder))
      fs::remove_all(entry);
  }
}

TEST_F(CheckpointTest, OneTensorIsSharedByAll) {
  Model model(4, {parameter("t", MPRT_F32, {10007, 40})});
  Error error = write(model, false);
  ASSERT_TRUE(error.ok()) << error.message();
  Expected<SafeTensors> index = SafeTensors::open(path());
  ASSERT_TRUE(index.ok()) << index.message();
  // 10007 / 4 rows are 2501.75.
  EXPECT_EQ(index->find("t")->shape, (Shape{2502 * 40}));
  EXPECT_EQ(index->metadata().at("mpcomm.part.t"), "0 of [10007, 40]");
  EXPECT_EQ(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()),
      4);
}

TEST_F(CheckpointTest, WhatIsFoundIsOfTheWhole) {
  // Element 300000 is in the third part of four.
  Model model(4, {parameter("a", MPRT_F32, {3}),
                  parameter("t", MPRT_F32, {10000, 40})});
  auto change = [](unsigned rank, float value) {
    return [=](uint64_t index, RankState &state) {
      if (index >= rank)
        storeNumber(MPRT_F32, state.slot(1).data, 300000, value);
    };
  };
  EXPECT_EQ(write(model, false, change(0, NAN)).message(),
            "step 3: rank 0: tensor 't': 1 of 400000 elements is not finite, "
            "the first, element 300000, is nan; the checkpoint is not "
            "written; " +
                path() + " does not exist");
  std::string message = write(model, true, change(2, 1000)).message();
  EXPECT_NE(message.find("step 3: tensor 't' is not the same on ranks 0 and 2, "
                         "which both hold it: checksum "),
            std::string::npos)
      << message;
  EXPECT_NE(message.find(" on ranks 0, 1, "), std::string::npos) << message;
  EXPECT_FALSE(fs::exists(path()));
}

} // namespace
