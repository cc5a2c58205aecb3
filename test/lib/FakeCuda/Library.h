//===- Library.h - what the emulated libraries have in common -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions that are counted and fail on demand, descriptions on the heap, and
// computations on a stream that check their operands and scribble over their
// workspace.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_LIB_FAKECUDA_LIBRARY_H
#define MPCOMM_TEST_LIB_FAKECUDA_LIBRARY_H

#include "Elements.h"

#include <span>

/// Counts a call, and ends it with the status that was asked for, if any.
#define FAKE_CALL(Status, name)                                                \
  if (int asked = mpfake_note(#name))                                          \
  return Status(asked)

/// The functions that make and free a description with nothing in it yet.
#define FAKE_DESCRIPTION(Status, Create, Destroy, Description)                 \
  Status Create(Description **description) {                                   \
    FAKE_CALL(Status, Create);                                                 \
    *description = new Description;                                            \
    return Status(0);                                                          \
  }                                                                            \
  Status Destroy(Description *description) {                                   \
    delete description;                                                        \
    return Status(0);                                                          \
  }

/// For a list F(name, number) inside of a switch.
#define FAKE_NAME_CASE(name, number)                                           \
  case number:                                                                 \
    return #name;

namespace fake {

/// A factor as libraries take it: f64 beside results in f64, else f32.
inline double scalarAt(const void *value, bool isWide) {
  return isWide ? *static_cast<const double *>(value)
                : double(*static_cast<const float *>(value));
}

/// Elements 0 to `last` of an operand.
struct Operand {
  mprt_dtype type;
  const void *pointer;
  int64_t last;
};

/// Calls `compute` with a zero of the type to add in, once operands and
/// workspace are seen to be there. Returns the context's error, or 0.
template <typename Compute>
int computeOn(std::span<const Operand> operands, void *workspace,
              size_t workspaceBytes, bool isSlow, bool isWide,
              Compute compute) {
  constexpr int illegalAddress = 700;
  if (!mpfake_computes())
    return 0;
  for (const Operand &operand : operands)
    if (!Elements(operand.type, operand.pointer).covers(0, operand.last))
      return illegalAddress;
  if (workspaceBytes) {
    if (!mpfake_covers(workspace, workspaceBytes))
      return illegalAddress;
    std::memset(mpfake_device(workspace), 0x5a, workspaceBytes);
  }
  if (isSlow)
    mpfake_elapse(50000);
  isWide ? compute(double(0)) : compute(float(0));
  return 0;
}

/// Puts `work.run()` on a stream. Whether that succeeded.
template <typename Work>
bool enqueue(void *stream, const char *name, const Work &work) {
  return mpfake_enqueue(
             stream, name,
             [](void *data) { return static_cast<const Work *>(data)->run(); },
             new Work(work),
             [](void *data) { delete static_cast<Work *>(data); }) == 0;
}

} // namespace fake

#endif // MPCOMM_TEST_LIB_FAKECUDA_LIBRARY_H
