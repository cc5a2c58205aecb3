//===- Exactly.h - numbers as text ----------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How mpcomm-compile and mpcomm-run write numbers that are compared as text.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_EXACTLY_H
#define MPCOMM_RUNTIME_EXACTLY_H

#include <charconv>
#include <string>

namespace mpcomm {

/// The shortest text that reads back as the same float or double.
template <typename T> std::string exactly(T value) {
  char text[40];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

} // namespace mpcomm

#endif // MPCOMM_RUNTIME_EXACTLY_H
