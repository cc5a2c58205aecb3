//===- Runtime.h - the names of the runtime in the runner
//------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The runner throws nothing: what can fail returns the runtime's `Error` or
// `Expected<T>`. Messages are lower-case, one line, and name the file, the
// tensor, and what was expected and found.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_DATA_RUNTIME_H
#define MPCOMM_RUN_DATA_RUNTIME_H

#include "support/Error.h"
#include "support/Tensor.h"

namespace mpcomm::run {

// The runner is written against the session library. Where there is a function
// of the same name here, the library's is one of several.
using namespace mprt;
using mprt::describe;
using mprt::nameOf;

/// `error`, whose message begins with the name of an option, as the user has
/// given that.
inline Error asOption(const Error &error) {
  return error ? fail("--", error.message()) : error;
}

} // namespace mpcomm::run

#endif // MPCOMM_RUN_DATA_RUNTIME_H
