//===- DataFile.h - one file of a data set --------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A safetensors file holds a tensor for each batch argument. An .npy file holds
// that of one: FILE is for the argument that is called as the file is, without
// folder and ending, and NAME=FILE for NAME. A file of tokens has no header.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_DATA_DATAFILE_H
#define MPCOMM_RUN_DATA_DATAFILE_H

#include "data/Runtime.h"
#include "files/MappedFile.h"
#include "files/SafeTensors.h"

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace mpcomm::run {

class DataFile {
public:
  /// Opens a safetensors file, or an .npy file by its ending, and checks its
  /// header. A name may precede that of an .npy file.
  static Expected<DataFile> open(const std::string &given);
  static Expected<DataFile> openTokens(const std::string &path);

  const std::string &path() const;
  Expected<MappedFile::Stamp> stamp() const;

  /// The tensor for the argument `name`, and its first byte; nothing where the
  /// file has none.
  std::optional<std::pair<TensorEntry, const char *>>
  find(const std::string &name) const;
  /// Of an .npy file, the argument that it is for; else empty.
  const std::string &argument() const { return onlyArgument; }
  /// Of a file of tokens, all of it.
  std::string_view contents() const;

  /// Fails where the file has a checksum of that tensor and it is not `found`.
  Error compareChecksum(const std::string &name, uint64_t found) const;
  /// Whether the file may have one.
  bool mayHaveChecksums() const {
    return std::holds_alternative<SafeTensors>(file);
  }

private:
  using File = std::variant<SafeTensors, MappedFile>;
  explicit DataFile(File file) : file(std::move(file)) {}

  File file;
  std::string onlyArgument;
  TensorEntry array;
};

/// The file that `given` names, without the argument that it is for.
std::string fileOf(const std::string &given);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_DATA_DATAFILE_H
