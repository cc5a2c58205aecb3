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

#include "program/ProgramFile.h"

#include "program/Hash.h"

#include "mpcomm/Runtime/ProgramSeal.h"

#include <cerrno>
#include <cstring>
#include <elf.h>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

using namespace mpcomm::run;

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

Status readAll(const std::string &path, int descriptor, std::string &contents) {
  struct stat info;
  bool isRegular = fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
  char buffer[1 << 16];
  ssize_t got = 0;
  // What begins otherwise may be of any size.
  while (isRegular && (got = read(descriptor, buffer, sizeof(buffer))) > 0) {
    contents.append(buffer, static_cast<size_t>(got));
    if (contents.compare(0, SELFMAG, ELFMAG) != 0)
      break;
  }
  int error = got < 0 ? errno : 0;
  if (!isRegular)
    return fail(path, ": not a regular file");
  if (error)
    return fail(path, ": cannot read: ", std::strerror(error));
  if (contents.compare(0, SELFMAG, ELFMAG) != 0)
    return fail(path, ": not a program file: expected a shared object made by "
                      "mpcomm-compile");
  return {};
}

} // namespace

Status ProgramFile::checkSeal(const std::string &path) {
  ProgramSeal seal;
  bool sealed = contents.size() >= sizeof(seal);
  if (sealed)
    std::memcpy(&seal, contents.data() + contents.size() - sizeof(seal),
                sizeof(seal));
  if (!sealed ||
      std::memcmp(seal.magic, ProgramSeal::expectedMagic, sizeof(seal.magic)))
    return fail(path, ": not a whole program file: it has ", contents.size(),
                " bytes, without a checksum at the end; it was not made by "
                "mpcomm-compile, was cut off, or was changed since (as by "
                "strip): copy or compile it again");
  contents.resize(contents.size() - sizeof(seal));
  hash = hashOf(contents.data(), contents.size());
  if (hash != seal.digest)
    return fail(path, ": damaged: its contents have checksum ", hexOf(hash),
                ", expected ", hexOf(seal.digest),
                "; copy or compile it again");
  return {};
}

Status ProgramFile::readSymbols(const std::string &path) {
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

Result<ProgramFile> ProgramFile::parse(const std::string &path,
                                       std::string contents) {
  ProgramFile file;
  file.contents = std::move(contents);
  Status status = file.checkSeal(path);
  if (status.ok())
    status = file.readSymbols(path);
  if (status.failed())
    return status;
  return file;
}

Result<ProgramFile> ProgramFile::read(const std::string &path, int descriptor) {
  std::string contents;
  if (Status status = readAll(path, descriptor, contents); status.failed())
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
