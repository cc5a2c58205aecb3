//===- Fibre.h - a stack of its own to run on -----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_LIB_FAKECUDA_FIBRE_H
#define MPCOMM_TEST_LIB_FAKECUDA_FIBRE_H

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace fake {

/// 64 KiB of stack, with a page below that faults. What it runs may be left
/// in the middle: `begin` starts anew.
class Fibre {
public:
  Fibre();
  Fibre(const Fibre &) = delete;
  Fibre &operator=(const Fibre &) = delete;

  /// Makes the next `resume` call `function(data)`. When that returns the
  /// fibre is suspended, and must not be resumed before it has begun anew.
  void begin(void (*function)(void *), void *data);
  /// Runs the fibre until it suspends itself.
  void resume();
  /// Goes back to where the fibre was resumed.
  void suspend();

private:
  static void enter();

  char *stack;
  void (*function)(void *) = nullptr;
  void *data = nullptr;
#if defined(__x86_64__)
  void *inside = nullptr, *outside = nullptr;
#else
  ucontext_t inside, outside;
#endif
};

} // namespace fake

#endif // MPCOMM_TEST_LIB_FAKECUDA_FIBRE_H
