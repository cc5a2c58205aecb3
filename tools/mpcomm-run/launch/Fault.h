//===- Fault.h - failures on purpose --------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The environment variable MPRT_FAULT makes one rank fail, so that tests can
// watch what the others do. docs/Testing/Faults.md lists the forms.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_LAUNCH_FAULT_H
#define MPCOMM_RUN_LAUNCH_FAULT_H

#include "data/Runtime.h"

#include <cstdint>
#include <string>

namespace mpcomm::run {

struct Fault {
  enum class Kind : uint8_t { None, Kill, Stop, NeverStart, Program, Flip };
  Kind kind = Kind::None;
  uint64_t rank = 0;
  /// For Kill and Stop: the step (counted from 1) in whose middle it happens.
  /// For Flip: that after which one bit of a parameter is another.
  uint64_t step = 0;
  /// For Program: the program file that this rank loads instead.
  std::string file;

  /// Whether this is fault `kind` of `rank`.
  bool hits(Kind wanted, uint64_t ofRank) const {
    return kind == wanted && rank == ofRank;
  }
};

/// Reads MPRT_FAULT; no fault where it is unset.
Expected<Fault> faultFromEnvironment();

/// Kills or stops this process if `fault` says so for this rank and step.
void maybeFail(const Fault &fault, uint64_t rank, uint64_t step);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_LAUNCH_FAULT_H
