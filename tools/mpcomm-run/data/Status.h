//===- Status.h - success, or one line that says what went wrong ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The runner throws nothing: what can fail returns a `Status`, or a
// `Result<T>` that holds a value or the failure. Messages are lower-case, one
// line, and name the file, the tensor, and what was expected and found.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_DATA_STATUS_H
#define MPCOMM_RUN_DATA_STATUS_H

#include "session/Session.h"

#include <string>

namespace mpcomm::run {

using Status = mprt::Error;
template <typename T> using Result = mprt::Expected<T>;

/// Concatenates `parts` into a failed Status. Nobody asks for its code.
template <typename... Parts> Status fail(const Parts &...parts) {
  return mprt::makeError(MPRT_INVALID_ARGUMENT, parts...);
}

/// `text` made safe for one line of a terminal: control characters escaped,
/// cut at `limit` bytes. Names from files go through this before they are
/// printed.
std::string printable(const std::string &text, size_t limit = 120);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_DATA_STATUS_H
