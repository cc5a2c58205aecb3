//===- Error.cpp - a status and one line that explains it -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/Error.h"

#include <algorithm>
#include <cstdint>

const char *mprt::nameOf(mprt_status status) {
  switch (status) {
  case MPRT_OK:
    return "MPRT_OK";
  case MPRT_INVALID_ARGUMENT:
    return "MPRT_INVALID_ARGUMENT";
  case MPRT_OUT_OF_MEMORY:
    return "MPRT_OUT_OF_MEMORY";
  case MPRT_UNSUPPORTED:
    return "MPRT_UNSUPPORTED";
  case MPRT_TIMEOUT:
    return "MPRT_TIMEOUT";
  case MPRT_PEER_FAILED:
    return "MPRT_PEER_FAILED";
  case MPRT_MISMATCH:
    return "MPRT_MISMATCH";
  case MPRT_IO_ERROR:
    return "MPRT_IO_ERROR";
  case MPRT_INTERNAL:
    return "MPRT_INTERNAL";
  case MPRT_NOT_FOUND:
    return "MPRT_NOT_FOUND";
  case MPRT_NOT_READY:
    return "MPRT_NOT_READY";
  }
  return "an unknown status";
}

void mprt::copyText(char *target, size_t capacity, std::string_view text) {
  size_t length = std::min(text.size(), capacity - 1);
  while (length < text.size() && length && (text[length] & 0xc0) == 0x80)
    --length;
  std::copy_n(text.data(), length, target);
  target[length] = 0;
}

bool mprt::isUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    auto first = static_cast<unsigned char>(text[at]);
    // Bytes after the first, and the least character that takes as many.
    size_t more = first < 0x80           ? 0
                  : (first >> 5) == 0x6  ? 1
                  : (first >> 4) == 0xe  ? 2
                  : (first >> 3) == 0x1e ? 3
                                         : text.size();
    if (more >= text.size() - at)
      return false;
    static constexpr uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    uint32_t character = more ? first & (0x3f >> more) : first;
    for (size_t i = 1; i <= more; ++i) {
      auto next = static_cast<unsigned char>(text[at + i]);
      if ((next & 0xc0) != 0x80)
        return false;
      character = character << 6 | (next & 0x3f);
    }
    bool isSurrogate = character >= 0xd800 && character < 0xe000;
    if (character < least[more] || character > 0x10ffff || isSurrogate)
      return false;
    at += more + 1;
  }
  return true;
}

std::string mprt::printable(const std::string &text, size_t limit) {
  static const char digits[] = "0123456789abcdef";
  std::string result;
  for (unsigned char c : text) {
    if (result.size() >= limit)
      return result + "...";
    if (c >= 0x20 && c != 0x7f) {
      result += static_cast<char>(c);
      continue;
    }
    result += "\\x";
    result += digits[c >> 4];
    result += digits[c & 15];
  }
  return result;
}
