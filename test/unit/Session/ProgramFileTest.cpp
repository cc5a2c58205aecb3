//===- ProgramFileTest.cpp - reading program files without opening them ---===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Files that are whole, damaged, or sealed and wrong. Programs that are built
// by a compiler are in test/Runtime/run/program.py.
//
//===----------------------------------------------------------------------===//

#include "session/program/ProgramFile.h"
#include "files/Hash.h"

#include "mpcomm/Runtime/ProgramSeal.h"

#include <gtest/gtest.h>

#include <cstring>
#include <elf.h>
#include <random>

using namespace mprt;

namespace {

/// A shared object with one segment and an object `answer` of 4 bytes in it.
struct SmallObject {
  Elf64_Ehdr header = {};
  Elf64_Phdr segment = {};
  Elf64_Sym symbols[3] = {};
  char strings[16] = "\0answer\0outside";
  uint32_t answer = 42;
  Elf64_Shdr sections[3] = {};

  SmallObject() {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_type = ET_DYN;
    header.e_phoff = offsetof(SmallObject, segment);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 1;
    header.e_shoff = offsetof(SmallObject, sections);
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = 3;
    segment.p_type = PT_LOAD;
    segment.p_vaddr = 0x1000;
    segment.p_filesz = sizeof(SmallObject);
    symbols[1] = {1, 0, 0, 1, 0x1000 + offsetof(SmallObject, answer), 4};
    symbols[2] = {8, 0, 0, 1, 0x900000, 4};
    sections[1].sh_type = SHT_DYNSYM;
    sections[1].sh_offset = offsetof(SmallObject, symbols);
    sections[1].sh_size = sizeof(symbols);
    sections[1].sh_link = 2;
    sections[2].sh_type = SHT_STRTAB;
    sections[2].sh_offset = offsetof(SmallObject, strings);
    sections[2].sh_size = sizeof(strings);
  }

  std::string bytes() const {
    return {reinterpret_cast<const char *>(this), sizeof(*this)};
  }
};

std::string sealed(const std::string &bytes) {
  mpcomm::ProgramSeal seal;
  seal.digest = hashOf(bytes.data(), bytes.size());
  return bytes + std::string(reinterpret_cast<char *>(&seal), sizeof(seal));
}

Expected<ProgramFile> parse(const std::string &bytes) {
  return ProgramFile::parse("p", bytes);
}

TEST(ProgramFileTest, ReadsObjects) {
  SmallObject object;
  Expected<ProgramFile> file = parse(sealed(object.bytes()));
  ASSERT_TRUE(file.ok()) << file.message();
  EXPECT_EQ(file->digest(), hashOf(&object, sizeof(object)));
  EXPECT_EQ(file->contentsOf("answer"), std::string_view("\x2a\0\0\0", 4));
  EXPECT_TRUE(file->exports("outside"));
  EXPECT_TRUE(file->contentsOf("outside").empty());
  EXPECT_FALSE(file->exports("other"));
  EXPECT_TRUE(file->contentsOf("other").empty());
}

TEST(ProgramFileTest, FindsEveryFlippedBitAndEveryCut) {
  std::string whole = sealed(SmallObject().bytes());
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] ^= char(1 << bit % 8);
    EXPECT_TRUE(parse(damaged).failed()) << "bit " << bit;
  }
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_TRUE(parse(whole.substr(0, length)).failed()) << length << " bytes";
}

// With a right seal the contents are as somebody meant them to be; wherever
// they point, it is not outside of the file.
TEST(ProgramFileTest, TrustsNoOffset) {
  std::mt19937_64 random(1);
  const uint64_t edges[] = {0,          1,          0x7fffffff,    0xffffffff,
                            1ull << 63, UINT64_MAX, UINT64_MAX - 7};
  int taken = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = SmallObject().bytes();
    for (uint64_t n = 1 + random() % 3; n; --n) {
      uint64_t value = random() % 2 ? edges[random() % std::size(edges)]
                                    : random() % (2 * bytes.size());
      size_t width = size_t(1) << random() % 4;
      size_t at = random() % (bytes.size() / width) * width;
      if (at >= EI_NIDENT)
        std::memcpy(bytes.data() + at, &value, width);
    }
    Expected<ProgramFile> file = parse(sealed(bytes));
    if (file.failed())
      continue;
    ++taken;
    for (const char *name : {"answer", "outside", ""}) {
      std::string_view contents = file->contentsOf(name);
      EXPECT_NE(bytes.find(contents), std::string::npos);
    }
  }
  EXPECT_GT(taken, 1000);
}

} // namespace
