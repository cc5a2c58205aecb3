//===- ProgramFile.cpp - the bytes of a program file ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A reader of the dynamic symbols of an ELF file. The checksum finds damage;
// a file that was made wrong passes it, so that every offset is checked.
//
//===----------------------------------------------------------------------===//

#include "session/program/ProgramFile.h"

#include "files/Hash.h"

#include "mpcomm/Runtime/ProgramSeal.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <elf.h>
#include <new>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

using namespace mprt;

namespace {

/// The structures of an ELF file, each where it is whole.
class ElfView {
public:
  explicit ElfView(std::string_view bytes) : bytes(bytes) {}

  template <typename T> std::optional<T> at(uint64_t offset) const {
    if (!holds(offset, sizeof(T)))
      return std::nullopt;
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
    return value;
  }

  /// Entry `index` of the table at `offset`.
  template <typename T>
  std::optional<T> at(uint64_t offset, uint64_t index) const {
    if (index >= bytes.size() / sizeof(T) || offset > bytes.size())
      return std::nullopt;
    return at<T>(offset + index * sizeof(T));
  }

  /// The text at `offset`, which ends with a zero byte before `end`.
  std::optional<std::string> textAt(uint64_t offset, uint64_t end) const {
    if (end > bytes.size() || offset >= end)
      return std::nullopt;
    size_t stop = bytes.find('\0', offset);
    if (stop >= end)
      return std::nullopt;
    return std::string(bytes.substr(offset, stop - offset));
  }

  bool holds(uint64_t offset, uint64_t count) const {
    return offset <= bytes.size() && count <= bytes.size() - offset;
  }

private:
  std::string_view bytes;
};

/// Where the file keeps `count` bytes that the loader maps to `address`.
std::optional<uint64_t> offsetOf(const ElfView &view, const Elf64_Ehdr &header,
                                 uint64_t address, uint64_t count) {
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    auto segment = view.at<Elf64_Phdr>(header.e_phoff, i);
    if (!segment || segment->p_type != PT_LOAD || address < segment->p_vaddr ||
        address - segment->p_vaddr > segment->p_filesz ||
        count > segment->p_filesz - (address - segment->p_vaddr))
      continue;
    uint64_t within = address - segment->p_vaddr;
    if (segment->p_offset <= UINT64_MAX - within &&
        view.holds(segment->p_offset + within, count))
      return segment->p_offset + within;
  }
  return std::nullopt;
}

/// Reads `count` bytes at `offset`, or those up to the end of the file.
Error readAt(const std::string &path, int descriptor, uint64_t offset,
             uint64_t count, std::string &bytes) {
  bytes.resize(count);
  uint64_t have = 0;
  while (have < count) {
    ssize_t got = pread(descriptor, bytes.data() + have, count - have,
                        static_cast<off_t>(offset + have));
    if (got < 0 && errno != EINTR)
      return fail(path, ": cannot read: ", std::strerror(errno));
    if (got == 0)
      break;
    have += got > 0 ? static_cast<uint64_t>(got) : 0;
  }
  bytes.resize(have);
  return {};
}

Error notWhole(const std::string &path, uint64_t bytes) {
  return fail(path, ": not a whole program file: it has ", bytes,
              " bytes, without a checksum at the end; it was not made by "
              "mpcomm-compile, was cut off, or was changed since (as by "
              "strip): copy or compile it again");
}

/// The checksum at the end of `bytes`, the last ones of a file.
std::optional<mpcomm::ProgramSeal> findSeal(std::string_view bytes) {
  mpcomm::ProgramSeal seal;
  if (bytes.size() < sizeof(seal))
    return std::nullopt;
  std::memcpy(&seal, bytes.data() + bytes.size() - sizeof(seal), sizeof(seal));
  if (std::memcmp(seal.magic, mpcomm::ProgramSeal::expectedMagic,
                  sizeof(seal.magic)))
    return std::nullopt;
  return seal;
}

/// Reads the file if its first and last bytes are a program's: another may be
/// of any size.
Error readAll(const std::string &path, int descriptor, std::string &contents) {
  struct stat info;
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode))
    return fail(path, ": not a regular file");
  uint64_t size = static_cast<uint64_t>(info.st_size);
  std::string ends;
  if (Error status = readAt(path, descriptor, 0, SELFMAG, ends);
      status.failed())
    return status;
  if (ends != ELFMAG)
    return fail(path, ": not a program file: expected a shared object made by "
                      "mpcomm-compile");
  uint64_t last = std::min<uint64_t>(size, sizeof(mpcomm::ProgramSeal));
  if (Error status = readAt(path, descriptor, size - last, last, ends);
      status.failed())
    return status;
  if (!findSeal(ends))
    return notWhole(path, size);
  // The compiler refuses constants of more than 1 GiB.
  constexpr uint64_t most = uint64_t(8) << 30;
  if (size > most)
    return fail(path, ": has ", size, " bytes, a program file at most ", most);
  try {
    return readAt(path, descriptor, 0, size, contents);
  } catch (const std::bad_alloc &) {
    return fail(path, ": no memory for its ", size, " bytes");
  }
}

} // namespace

Error ProgramFile::checkSeal(const std::string &path) {
  std::optional<mpcomm::ProgramSeal> seal = findSeal(contents);
  if (!seal)
    return notWhole(path, contents.size());
  contents.resize(contents.size() - sizeof(*seal));
  hash = hashOf(contents.data(), contents.size());
  if (hash != seal->digest)
    return fail(path, ": damaged: its contents have checksum ", hexOf(hash),
                ", expected ", hexOf(seal->digest),
                "; copy or compile it again");
  return {};
}

Error ProgramFile::readSymbols(const std::string &path) {
  ElfView view(contents);
  auto malformed = [&](const char *what) {
    return fail(path, ": malformed program file: ", what);
  };
  auto header = view.at<Elf64_Ehdr>(0);
  if (!header || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_ident[EI_DATA] != ELFDATA2LSB || header->e_type != ET_DYN ||
      header->e_phentsize != sizeof(Elf64_Phdr) ||
      header->e_shentsize != sizeof(Elf64_Shdr))
    return malformed("expected a shared object of 64 bits, little-endian");
  for (unsigned i = 0; i < header->e_shnum; ++i) {
    auto section = view.at<Elf64_Shdr>(header->e_shoff, i);
    if (!section)
      return malformed("the table of sections is not in it");
    if (section->sh_type != SHT_DYNSYM)
      continue;
    auto strings = view.at<Elf64_Shdr>(header->e_shoff, section->sh_link);
    if (!strings || !view.holds(strings->sh_offset, strings->sh_size) ||
        !view.holds(section->sh_offset, section->sh_size))
      return malformed("the table of symbols is not in it");
    uint64_t end = strings->sh_offset + strings->sh_size;
    for (uint64_t k = 0; k < section->sh_size / sizeof(Elf64_Sym); ++k) {
      auto symbol = view.at<Elf64_Sym>(section->sh_offset, k);
      if (!symbol || symbol->st_shndx == SHN_UNDEF ||
          symbol->st_name > strings->sh_size)
        continue;
      auto name = view.textAt(strings->sh_offset + symbol->st_name, end);
      if (!name)
        return malformed("the name of a symbol is not in it");
      auto begin = offsetOf(view, *header, symbol->st_value, symbol->st_size);
      symbols[*name] = begin ? Range{*begin, symbol->st_size} : Range{};
    }
  }
  return {};
}

Expected<ProgramFile> ProgramFile::parse(const std::string &path,
                                         std::string contents) {
  ProgramFile file;
  file.contents = std::move(contents);
  Error status = file.checkSeal(path);
  if (status.ok())
    status = file.readSymbols(path);
  if (status.failed())
    return status;
  return file;
}

Expected<ProgramFile> ProgramFile::read(const std::string &path,
                                        int descriptor) {
  std::string contents;
  if (Error status = readAll(path, descriptor, contents); status.failed())
    return status;
  return parse(path, std::move(contents));
}

std::string_view ProgramFile::contentsOf(const std::string &symbol) const {
  auto found = symbols.find(symbol);
  if (found == symbols.end())
    return {};
  return std::string_view(contents).substr(found->second.begin,
                                           found->second.bytes);
}
