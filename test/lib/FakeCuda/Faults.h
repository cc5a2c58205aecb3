//===- Faults.h - saying what touched what it must not --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_LIB_FAKECUDA_FAULTS_H
#define MPCOMM_TEST_LIB_FAKECUDA_FAULTS_H

namespace fake {

/// Prints a line before a segmentation fault takes its course: which work it
/// was, or that the host touched device memory.
void installFaultHandler();

/// Gives the calling thread a stack on which the handler can run when the
/// thread's own has overflowed.
void useFaultStack();

/// The work that the calling thread is at.
class FaultScope {
public:
  explicit FaultScope(const char *name);
  ~FaultScope();
};

/// Whether this is the thread of host functions, which may not call the API.
bool isHostFunctionThread();

} // namespace fake

#endif // MPCOMM_TEST_LIB_FAKECUDA_FAULTS_H
