//===- ProgramFile.h - the bytes of a program file ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What can be known of step.so without opening it: whether it is whole, and
// what its exported objects contain. Opening runs code of the file, and maps
// what a damaged one says.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_PROGRAMFILE_H
#define MPCOMM_RUNTIME_SESSION_PROGRAMFILE_H

#include "support/Error.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace mprt {

class ProgramFile {
public:
  /// Reads the file `path` from `descriptor`, which is open at its begin, and
  /// compares its checksum with the one at its end.
  static Expected<ProgramFile> read(const std::string &path, int descriptor);
  /// The same of what was read.
  static Expected<ProgramFile> parse(const std::string &path,
                                     std::string contents);

  /// The file but for the seal.
  std::string_view bytes() const { return contents; }
  /// XXH64 of them.
  uint64_t digest() const { return hash; }
  bool exports(const std::string &symbol) const {
    return symbols.count(symbol);
  }
  /// The contents of an exported object; empty where the file holds none.
  std::string_view contentsOf(const std::string &symbol) const;

private:
  struct Range {
    uint64_t begin = 0, bytes = 0;
  };
  Error checkSeal(const std::string &path);
  Error readSymbols(const std::string &path);

  std::string contents;
  uint64_t hash = 0;
  /// Places in `contents`; without bytes for what is not in the file.
  std::map<std::string, Range> symbols;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_PROGRAMFILE_H
