//===- Error.cpp - a status and one line that explains it -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/Error.h"

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
