//===- Json.h - text as JSON has it ---------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Files that are written in one go, without a tree of values.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_FILES_JSON_H
#define MPCOMM_RUNTIME_FILES_JSON_H

#include <string>

namespace mprt {

/// `text` as a string of JSON, with its quotes. What is not UTF-8 is replaced
/// by U+FFFD.
std::string quoted(const std::string &text);

} // namespace mprt

#endif // MPCOMM_RUNTIME_FILES_JSON_H
