//===- ProgramSeal.h - the end of a program file --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The last bytes of a program file, after everything that the loader reads.
// mpcomm-run checks them before it loads the file, to detect damage. See
// docs/Design/Manifest.md.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_PROGRAMSEAL_H
#define MPCOMM_RUNTIME_PROGRAMSEAL_H

#include <cstdint>

namespace mpcomm {

struct ProgramSeal {
  static constexpr char expectedMagic[9] = "mpcommso";
  /// XXH64 of all bytes before the seal.
  uint64_t digest = 0;
  char magic[8] = {'m', 'p', 'c', 'o', 'm', 'm', 's', 'o'};
};

} // namespace mpcomm

#endif // MPCOMM_RUNTIME_PROGRAMSEAL_H
