//===- DataFile.cpp - one file of a data set ------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See DataFile.h.
//
//===----------------------------------------------------------------------===//

#include "data/DataFile.h"

#include "data/NpyFile.h"

#include <filesystem>

using namespace mpcomm::run;

/// Where the name of a file begins in NAME=FILE; 0 where there is no name. An
/// argument's name has no slash.
static size_t beginOfFile(const std::string &given) {
  size_t equals = given.find('=');
  bool named = given.ends_with(".npy") && equals != given.npos && equals > 0 &&
               given.find('/') > equals;
  return named ? equals + 1 : 0;
}

std::string mpcomm::run::fileOf(const std::string &given) {
  return given.substr(beginOfFile(given));
}

static Expected<MappedFile> openFilled(const std::string &path) {
  Expected<MappedFile> file = MappedFile::open(path);
  if (!file.failed() && file->contents().empty())
    return fail(path, ": the file is empty");
  return file;
}

Expected<DataFile> DataFile::open(const std::string &given) {
  if (!given.ends_with(".npy")) {
    Expected<SafeTensors> opened = SafeTensors::open(given);
    if (opened.failed())
      return opened.error();
    return DataFile(opened.take());
  }
  size_t begin = beginOfFile(given);
  std::string path = given.substr(begin);
  Expected<MappedFile> opened = openFilled(path);
  if (opened.failed())
    return opened.error();
  Expected<TensorEntry> array = parseNpy(path, opened->contents());
  if (array.failed())
    return array.error();
  DataFile file(opened.take());
  file.array = array.take();
  file.onlyArgument = begin ? given.substr(0, begin - 1)
                            : std::filesystem::path(path).stem().string();
  return file;
}

Expected<DataFile> DataFile::openTokens(const std::string &path) {
  Expected<MappedFile> opened = openFilled(path);
  if (opened.failed())
    return opened.error();
  return DataFile(opened.take());
}

const std::string &DataFile::path() const {
  return std::visit(
      [](const auto &f) -> const std::string & { return f.path(); }, file);
}

Expected<MappedFile::Stamp> DataFile::stamp() const {
  return std::visit([](const auto &f) { return f.stamp(); }, file);
}

std::optional<std::pair<TensorEntry, const char *>>
DataFile::find(const std::string &name) const {
  if (const auto *tensors = std::get_if<SafeTensors>(&file)) {
    const TensorEntry *entry = tensors->find(name);
    if (!entry)
      return std::nullopt;
    return std::pair(*entry, tensors->dataOf(*entry));
  }
  if (name != onlyArgument)
    return std::nullopt;
  return std::pair(array, contents().data() + array.begin);
}

std::string_view DataFile::contents() const {
  return std::get<MappedFile>(file).contents();
}

Error DataFile::compareChecksum(const std::string &name, uint64_t found) const {
  const auto *tensors = std::get_if<SafeTensors>(&file);
  return tensors ? tensors->compareChecksum(name, found) : Error();
}
