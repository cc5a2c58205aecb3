//===- SafeTensorsTest.cpp - reading and writing safetensors --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Round trips, and headers that lie. Whole hostile files are in
// test/Runtime/run.
//
//===----------------------------------------------------------------------===//

#include "files/SafeTensors.h"
#include "files/Hash.h"
#include "files/OutputFile.h"

#include "FolderTest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sys/resource.h>

using namespace mprt;

namespace fs = std::filesystem;

namespace {

class SafeTensorsTest : public FolderTest {
protected:
  std::string pathOf(const char *name) const {
    return (folder / name).string();
  }
  size_t filesInFolder() const {
    return std::distance(fs::directory_iterator(folder),
                         fs::directory_iterator());
  }
};

std::string headerError(std::string_view header, uint64_t dataBytes) {
  std::map<std::string, TensorEntry> tensors;
  std::map<std::string, std::string> metadata;
  return parseSafetensorsHeader("f", header, dataBytes, tensors, metadata)
      .message();
}

} // namespace

TEST_F(SafeTensorsTest, TensorsFollowTheHeaderAsTheyLieInMemory) {
  // The first two lie together; what follows them does not.
  std::vector<float> memory = {1, 2, 3, 4, 5, 6, 7, 8};
  const float *at = memory.data();
  std::vector<TensorToWrite> list = {{"b", MPRT_F32, {2}, at},
                                     {"none", MPRT_F32, {0}, at + 2},
                                     {"a", MPRT_F32, {3}, at + 2},
                                     {"c", MPRT_F32, {2}, at + 6}};
  list[0].checksum = 7;
  std::map<std::string, std::string> metadata = {{"key", "value"}};
  std::string path = pathOf("x.safetensors");
  ASSERT_TRUE(writeSafetensors(path, list, metadata).ok());
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::vector<float> expected = {1, 2, 3, 4, 5, 7, 8}, found(7);
  uint64_t begin = dataBegin(list, metadata);
  ASSERT_EQ(text.size(), begin + 7 * sizeof(float));
  std::memcpy(found.data(), text.data() + begin, 7 * sizeof(float));
  EXPECT_EQ(found, expected);
}

TEST_F(SafeTensorsTest, TellsHowMuchIsWritten) {
  std::vector<float> memory(5 << 20);
  memory.back() = 3;
  std::vector<TensorToWrite> list = {
      {"a", MPRT_F32, {(5 << 20) - 1}, memory.data()},
      {"b", MPRT_F32, {1}, memory.data() + memory.size() - 1}};
  std::vector<uint64_t> told;
  ASSERT_TRUE(writeSafetensors(pathOf("x.safetensors"), list, {}, nullptr,
                               [&](uint64_t all) { told.push_back(all); })
                  .ok());
  ASSERT_GT(told.size(), 2u);
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_EQ(told.back(), memory.size() * sizeof(float));
  Expected<SafeTensors> file = SafeTensors::open(pathOf("x.safetensors"));
  ASSERT_TRUE(file.ok()) << file.message();
  float read = 0;
  ASSERT_TRUE(file->read("b", *file->find("b"), &read).ok());
  EXPECT_EQ(read, 3);
}

TEST_F(SafeTensorsTest, RoundTrip) {
  std::vector<float> a = {1, 2, 3, 4, 5, 6};
  std::vector<uint8_t> b = {0, 1, 1};
  std::vector<int64_t> c = {-7};
  std::string path = pathOf("x.safetensors");
  Error written =
      writeSafetensors(path,
                       {{"b", MPRT_BOOL, {3}, b.data()},
                        {"a \"quoted\"\n", MPRT_F32, {2, 3}, a.data()},
                        {"c", MPRT_I64, {}, c.data()},
                        {"empty", MPRT_F64, {0, 4}, nullptr}},
                       {{"key", "välue"}});
  ASSERT_TRUE(written.ok()) << written.message();
  EXPECT_EQ(filesInFolder(), 1u);

  Expected<SafeTensors> file = SafeTensors::open(path);
  ASSERT_TRUE(file.ok()) << file.message();
  EXPECT_EQ(file->metadata().at("key"), "välue");
  ASSERT_EQ(file->tensors().size(), 4u);
  const TensorEntry *entry = file->find("a \"quoted\"\n");
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->shape, (Shape{2, 3}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file->dataOf(*entry)) % 4, 0u);
  EXPECT_EQ(std::memcmp(file->dataOf(*entry), a.data(), 24), 0);
  int64_t read = 0;
  ASSERT_TRUE(file->read("c", *file->find("c"), &read).ok());
  EXPECT_EQ(read, -7);
  EXPECT_EQ(file->find("empty")->bytes, 0u);
  EXPECT_FALSE(file->find("d"));
}

TEST_F(SafeTensorsTest, ReplacesWholeFilesOnly) {
  float value = 1;
  std::string path = pathOf("x.safetensors");
  ASSERT_TRUE(writeSafetensors(path, {{"a", MPRT_F32, {}, &value}}, {}).ok());
  value = 2;
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limit = {20, before.rlim_max};
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  Error written = writeSafetensors(path, {{"a", MPRT_F32, {}, &value}}, {});
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(written.failed());
  Expected<SafeTensors> file = SafeTensors::open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(loadFloat(MPRT_F32, file->dataOf(*file->find("a")), 0), 1.0);
}

TEST_F(SafeTensorsTest, LeavesNothingBesideAFailure) {
  std::vector<float> values(1000);
  std::string path = pathOf("x.safetensors");
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limit = {2000, before.rlim_max};
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  Error written =
      writeSafetensors(path, {{"a", MPRT_F32, {1000}, values.data()}}, {});
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(written.message().find("File too large"), std::string::npos);
  EXPECT_EQ(filesInFolder(), 0u);
}

/// A file with checksums: three tensors, of which one is empty.
class ChecksumTest : public SafeTensorsTest {
protected:
  void SetUp() override {
    SafeTensorsTest::SetUp();
    ASSERT_TRUE(
        writeSafetensors(path(),
                         {{"w", MPRT_F32, {2}, w, nullptr, hashOf(w, 8)},
                          {"b", MPRT_I8, {3}, b, nullptr, hashOf(b, 3)},
                          {"e", MPRT_F32, {0}, w, nullptr, hashOf(w, 0)}},
                         {{"step", "7"}})
            .ok());
    std::ifstream stream(path(), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(stream), {});
  }
  std::string path() const { return pathOf("f"); }
  /// Reads everything in a file of `contents`.
  Error readAll(const std::string &contents) const {
    std::ofstream(path(), std::ios::binary) << contents;
    Expected<SafeTensors> file = SafeTensors::open(path());
    if (file.failed())
      return file.error();
    for (const auto &[name, entry] : file->tensors()) {
      char data[8];
      if (Error status = file->read(name, entry, data); status.failed())
        return status;
    }
    return {};
  }

  const float w[2] = {1.5f, -2};
  const int8_t b[3] = {1, 2, 3};
  std::string bytes;
};

TEST_F(ChecksumTest, AreInTheMetadata) {
  Expected<SafeTensors> file = SafeTensors::open(path());
  ASSERT_TRUE(file.ok()) << file.message();
  EXPECT_EQ(file->metadata().at("mpcomm.checksum.w"), hexOf(hashOf(w, 8)));
  EXPECT_EQ(file->metadata().at("step"), "7");
  EXPECT_EQ(file->metadata().size(), 5u);
  EXPECT_TRUE(readAll(bytes).ok());
}

TEST_F(ChecksumTest, EveryFlippedBitIsNoticed) {
  for (size_t i = 0; i < bytes.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[i] ^= static_cast<char>(1 << bit);
      EXPECT_TRUE(readAll(damaged).failed()) << "byte " << i << ", bit " << bit;
    }
}

TEST_F(ChecksumTest, ADamagedTensorIsNamed) {
  bytes[bytes.size() - 1] ^= 1; // after w, 8 bytes, and e comes b
  EXPECT_NE(readAll(bytes).message().find("f: tensor 'b' has checksum "),
            std::string::npos);
}

TEST_F(ChecksumTest, OtherSpellingsOfTheHeaderAreFine) {
  size_t brace = bytes.find('{');
  bytes.insert(brace + 1, "        ");
  bytes[0] = static_cast<char>(bytes[0] + 8);
  EXPECT_TRUE(readAll(bytes).ok()) << readAll(bytes).message();
}

TEST_F(ChecksumTest, FilesWithoutAreRead) {
  ASSERT_TRUE(writeSafetensors(path(), {{"w", MPRT_F32, {2}, w}}, {}).ok());
  Expected<SafeTensors> file = SafeTensors::open(path());
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->metadata().empty());
}

TEST_F(SafeTensorsTest, RefusesWhatIsNoFile) {
  EXPECT_NE(SafeTensors::open(pathOf("none")).message().find("No such file"),
            std::string::npos);
  EXPECT_NE(
      SafeTensors::open(folder.string()).message().find("not a regular file"),
      std::string::npos);
  EXPECT_NE(SafeTensors::open("/dev/zero").message().find("not a regular file"),
            std::string::npos);
  EXPECT_TRUE(writeSafetensors("/dev/full", {}, {}).failed());
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST(SafeTensorsHeader, Accepts) {
  EXPECT_EQ(headerError("{}", 0), "");
  EXPECT_EQ(headerError("{}   ", 0), "");
  EXPECT_EQ(
      headerError(
          R"({"__metadata__":{},"a":{"shape":[2],"dtype":"F32","data_offsets":[0,8]}})",
          8),
      "");
  // The order of the keys need not be that of the data.
  EXPECT_EQ(
      headerError(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[3,5]},"b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})",
          5),
      "");
}

TEST(SafeTensorsHeader, Grammar) {
  EXPECT_EQ(headerError("", 0), "f: header is not JSON in UTF-8, at byte 1");
  EXPECT_EQ(headerError("[]", 0),
            "f: header is not a JSON object, found an array");
  EXPECT_EQ(headerError("3", 0),
            "f: header is not a JSON object, found a number");
  EXPECT_EQ(headerError("{} x", 0),
            "f: header is not JSON in UTF-8, at byte 4");
  EXPECT_EQ(headerError("{\"\xff\":{}}", 0),
            "f: header is not JSON in UTF-8, at byte 3");
  EXPECT_EQ(
      headerError(
          R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4],"x":1}})", 4),
      "f: tensor 'a': unknown key 'x'");
  EXPECT_EQ(headerError(R"({"a":{"dtype":"F32","dtype":"F32"}})", 4),
            "f: tensor 'a': key 'dtype' occurs twice");
  EXPECT_EQ(
      headerError(R"({"a":{"dtype":"F32","shape":[]}})", 4),
      "f: tensor 'a': data_offsets is missing or holds fewer than 2 numbers");
  EXPECT_EQ(headerError(R"({"a":7})", 0),
            "f: tensor 'a': expected an object, found a number");
  EXPECT_EQ(headerError(R"({"a":{"dtype":"F32","shape":[[1]]}})", 0),
            "f: tensor 'a': shape is not an array of natural numbers, found an "
            "array");
  EXPECT_EQ(headerError(R"({"__metadata__":{"a":1}})", 0),
            "f: metadata 'a' is not a string, found a number");
  EXPECT_EQ(headerError(R"({"__metadata__":{},"__metadata__":{}})", 0),
            "f: key '__metadata__' occurs twice");
  EXPECT_EQ(headerError(std::string(200000, '['), 0),
            "f: header is not a JSON object, found an array");
}

TEST(SafeTensorsHeader, Numbers) {
  EXPECT_EQ(
      headerError(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})",
                  4),
      "f: tensor 'a': negative number -1 in shape");
  EXPECT_EQ(
      headerError(R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})",
                  4),
      "f: tensor 'a': number 1.0 in shape is not an integer below 2^64");
  EXPECT_EQ(
      headerError(
          R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
          0),
      "f: tensor 'a': size of f32 [4294967296, 4294967296] overflows");
  EXPECT_EQ(headerError(
                R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4),
            "f: tensor 'a': data_offsets [4, 0) end before they begin");
  EXPECT_EQ(headerError(
                R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
            "f: tensor 'a': data_offsets [0, 8) hold 8 bytes, expected 12 for "
            "f32 [3]");
  EXPECT_EQ(
      headerError(
          R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[18446744073709551615,18446744073709551615]}})",
          8),
      "f: tensor 'a' ends at byte 18446744073709551615 of the data, but the "
      "file has 8 (is it truncated?)");
}

TEST(SafeTensorsHeader, Layout) {
  auto two = [](int b1, int e1, int b2, int e2, uint64_t bytes) {
    auto entry = [](int b, int e) {
      return "{\"dtype\":\"U8\",\"shape\":[" + std::to_string(e - b) +
             "],\"data_offsets\":[" + std::to_string(b) + "," +
             std::to_string(e) + "]}";
    };
    return headerError(
        "{\"a\":" + entry(b1, e1) + ",\"b\":" + entry(b2, e2) + "}", bytes);
  };
  EXPECT_EQ(two(0, 4, 4, 9, 9), "");
  EXPECT_EQ(two(0, 4, 4, 4, 4), "");
  EXPECT_EQ(
      two(0, 4, 3, 9, 9),
      "f: tensor 'b' begins at byte 3, inside another tensor that ends at 4");
  EXPECT_EQ(
      two(0, 4, 0, 4, 4),
      "f: tensor 'b' begins at byte 0, inside another tensor that ends at 4");
  EXPECT_EQ(two(0, 4, 6, 9, 9),
            "f: 2 bytes before tensor 'b' belong to no tensor");
  EXPECT_EQ(two(0, 4, 4, 9, 12), "f: 3 trailing bytes belong to no tensor");
  EXPECT_EQ(two(0, 4, 4, 9, 8), "f: tensor 'b' ends at byte 9 of the data, but "
                                "the file has 8 (is it truncated?)");
}

// Any change of one byte gives a header that parses or an error; never a crash,
// and never a tensor outside the data.
TEST(SafeTensorsHeader, SurvivesMutation) {
  const std::string header =
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"I64","shape":[],"data_offsets":[24,32]}})";
  ASSERT_EQ(headerError(header, 32), "");
  std::mt19937_64 random(20260101);
  for (int round = 0; round < 20000; ++round) {
    std::string changed = header;
    for (uint64_t edits = 1 + random() % 3; edits > 0; --edits)
      changed[random() % changed.size()] = static_cast<char>(random());
    std::map<std::string, TensorEntry> tensors;
    std::map<std::string, std::string> metadata;
    if (parseSafetensorsHeader("f", changed, 32, tensors, metadata).failed())
      continue;
    for (const auto &[name, entry] : tensors)
      ASSERT_LE(entry.begin + entry.bytes, 32u) << changed;
  }
}
