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

#include "support/Error.h"
#include "support/Tensor.h"

namespace mpcomm::run {

// The runner is written against the session library. Where there is a function
// of the same name here, the library's is one of several.
using namespace mprt;
using mprt::describe;
using mprt::nameOf;

using Status = Error;
template <typename T> using Result = Expected<T>;

} // namespace mpcomm::run

#endif // MPCOMM_RUN_DATA_STATUS_H
