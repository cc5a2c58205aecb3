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
  }
  return "an unknown status";
}
