//===- LoadBackend.h - finds the shared object of a communicator ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Backends whose libraries a machine may lack live in shared objects beside the
// runtime's own.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SUPPORT_LOADBACKEND_H
#define MPCOMM_RUNTIME_SUPPORT_LOADBACKEND_H

#include "support/Error.h"

namespace mprt {

struct BackendLibrary {
  const char *file;
  /// The function that joins the ranks.
  const char *symbol;
  /// Whether plugins of the backend's library need its symbols.
  bool global;
  /// For the message where it cannot be loaded.
  const char *complaint, *advice;
};

/// The address of the symbol. Looks beside the runtime's library first, then
/// where the loader looks. The library stays loaded. MPRT_UNSUPPORTED where it
/// cannot be loaded, with the loader's reason.
Expected<void *> loadBackend(const BackendLibrary &backend);

} // namespace mprt

#endif // MPCOMM_RUNTIME_SUPPORT_LOADBACKEND_H
