//===- OutputFileTest.cpp - files that are written whole ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Links stay links; what dead writers leave is removed, and nothing else. What
// is written does not take room in the page cache.
//
//===----------------------------------------------------------------------===//

#include "files/OutputFile.h"

#include "FolderTest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <set>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace mprt;

namespace fs = std::filesystem;

namespace {

class OutputFileTest : public FolderTest {
protected:
  std::set<std::string> files(const fs::path &in) const {
    std::set<std::string> names;
    for (const auto &entry : fs::directory_iterator(in))
      names.insert(entry.path().filename());
    return names;
  }
  std::set<std::string> files() const { return files(folder); }

  void put(const std::string &name) { std::ofstream(folder / name) << "old"; }

  static Error write(const fs::path &path) {
    OutputFile file(path);
    Error status = file.open();
    if (status.ok())
      status = file.write("new", 3);
    return status.failed() ? status : file.commit();
  }

  static std::string read(const fs::path &path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

/// How many pages of a file the page cache has.
size_t pagesInMemory(const fs::path &path) {
  size_t bytes = fs::file_size(path), pages = (bytes + 4095) / 4096;
  int file = open(path.c_str(), O_RDONLY);
  void *data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
  std::vector<unsigned char> present(pages);
  EXPECT_EQ(mincore(data, bytes, present.data()), 0);
  munmap(data, bytes);
  close(file);
  return std::count_if(present.begin(), present.end(),
                       [](unsigned char flags) { return flags & 1; });
}

TEST_F(OutputFileTest, WritesPastThePageCache) {
  constexpr size_t block = 1 << 20, page = directBytes;
  std::vector<char> memory(4 * block + page);
  for (size_t i = 0; i < memory.size(); ++i)
    memory[i] = static_cast<char>(i * i >> 7);
  char *aligned = memory.data();
  aligned += page - reinterpret_cast<uintptr_t>(aligned) % page;
  // The bytes of each write: short of, at and over the limits; the last begins
  // at the same place of a page in memory and file.
  std::vector<std::vector<size_t>> cases = {{},
                                            {1},
                                            {page},
                                            {block},
                                            {block - 1},
                                            {block + 1},
                                            {1, 2 * block},
                                            {77, block - 77, 5},
                                            {100, 3 * block + 12},
                                            {page + 9, block, block, 3}};
  for (const std::vector<size_t> &pieces : cases) {
    OutputFile file(folder / "c");
    ASSERT_TRUE(file.open().ok());
    size_t at = 0;
    for (size_t bytes : pieces) {
      ASSERT_TRUE(file.write(aligned + at, bytes).ok());
      at += bytes;
    }
    Error error = file.commit();
    ASSERT_TRUE(error.ok()) << error.message();
    ASSERT_EQ(read(folder / "c"), std::string(aligned, at)) << at;
  }
  int probe = open((folder / "c").c_str(), O_RDONLY | O_DIRECT);
  if (probe < 0)
    GTEST_SKIP() << "a file system without O_DIRECT";
  close(probe);
  // Neither what lies as in the file, nor what does not.
  for (size_t shift : {0, 1}) {
    OutputFile file(folder / "c");
    ASSERT_TRUE(file.open().ok());
    ASSERT_TRUE(file.write(aligned + shift, 3 * block).ok());
    ASSERT_TRUE(file.commit().ok());
    EXPECT_EQ(pagesInMemory(folder / "c"), 0u);
  }
}

TEST_F(OutputFileTest, FollowsLinks) {
  fs::create_directory(folder / "far");
  put("far/target");
  fs::create_symlink("far/target", folder / "near");
  fs::create_symlink(folder / "near", folder / "link");
  ASSERT_TRUE(write(folder / "link").ok());
  EXPECT_EQ(read(folder / "far/target"), "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_TRUE(fs::is_symlink(folder / "near"));
  EXPECT_EQ(files(), (std::set<std::string>{"far", "link", "near"}));
  EXPECT_EQ(files(folder / "far"), std::set<std::string>{"target"});
}

TEST_F(OutputFileTest, KeepsTheModeOfWhatItReplaces) {
  for (mode_t mode : {0600, 0640, 0444}) {
    put("c");
    fs::permissions(folder / "c", fs::perms(mode));
    ASSERT_TRUE(write(folder / "c").ok());
    EXPECT_EQ(read(folder / "c"), "new");
    EXPECT_EQ(fs::status(folder / "c").permissions(), fs::perms(mode));
    fs::remove(folder / "c");
  }
}

TEST_F(OutputFileTest, CreatesWhatALinkLeadsTo) {
  fs::create_directory(folder / "far");
  fs::create_symlink("far/none", folder / "link");
  ASSERT_TRUE(write(folder / "link").ok());
  EXPECT_EQ(read(folder / "far/none"), "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
}

TEST_F(OutputFileTest, RefusesACircleOfLinks) {
  fs::create_symlink("b", folder / "a");
  fs::create_symlink("a", folder / "b");
  EXPECT_NE(write(folder / "a").message().find("Too many levels"),
            std::string::npos);
  EXPECT_TRUE(fs::is_symlink(folder / "a"));
}

TEST_F(OutputFileTest, RemovesWhatDeadWritersLeft) {
  pid_t writer = fork();
  if (writer == 0) {
    OutputFile file(folder / "c");
    _exit(file.open().ok() && file.write("half", 4).ok() ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(writer, &status, 0), writer);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(files().size(), 1u);
  EXPECT_TRUE(probeOutput(folder / "c").ok());
  EXPECT_TRUE(files().empty());
}

TEST_F(OutputFileTest, TemporariesOfKeptCheckpointsAreItsOwn) {
  const std::string end = ".mpcomm-tmp-0123456789abcdef";
  for (const char *name : {"c", "c.step-120"})
    put(name + end);
  std::set<std::string> kept;
  for (const char *name :
       {"c2", "c.step-", "c.step-1x", "c.step-1.step-2", "c.other"}) {
    put(name + end);
    kept.insert(name + end);
  }
  removeAbandoned(folder / "c");
  EXPECT_EQ(files(), kept);
}

TEST_F(OutputFileTest, SaysWhatIsThere) {
  EXPECT_EQ(describeUnchanged(folder / "none"),
            (folder / "none").string() + " does not exist");
  put("c");
  EXPECT_EQ(describeUnchanged(folder / "c"),
            (folder / "c").string() + " is as it was before");
  std::string message = write(folder / "no-folder/c").message();
  EXPECT_NE(message.find("; there is no file of that name"), std::string::npos)
      << message;
}

TEST_F(OutputFileTest, RemovesNothingElse) {
  OutputFile living(folder / "c");
  ASSERT_TRUE(living.open().ok());
  std::set<std::string> kept = files();
  ASSERT_EQ(kept.size(), 1u);
  for (const char *name :
       {"c", "c.tmp-1", "c.mpcomm-tmp-", "c.mpcomm-tmp-0123456789abcde",
        "c.mpcomm-tmp-0123456789ABCDEF", "c.mpcomm-tmp-0123456789abcdef.old",
        "a.mpcomm-tmp-0123456789abcdef"}) {
    put(name);
    kept.insert(name);
  }
  // Not a file, and a file that has another name.
  fs::create_symlink("c", folder / "c.mpcomm-tmp-0000000000000000");
  put("precious");
  fs::create_hard_link(folder / "precious",
                       folder / "c.mpcomm-tmp-1111111111111111");
  kept.insert({"c.mpcomm-tmp-0000000000000000", "precious",
               "c.mpcomm-tmp-1111111111111111"});
  removeAbandoned(folder / "c");
  EXPECT_EQ(files(), kept);
  EXPECT_TRUE(living.write("new", 3).ok());
  EXPECT_TRUE(living.commit().ok());
  EXPECT_EQ(read(folder / "c"), "new");
}

} // namespace
