//===- StepTimeline.h - the timeline of a simulated step --------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TOOLS_MPCOMM_SIM_STEPTIMELINE_H
#define MPCOMM_TOOLS_MPCOMM_SIM_STEPTIMELINE_H

#include "mpcomm/Analysis/StepModel/ProgramModel.h"
#include "mpcomm/Scheduling/Simulator/Timeline.h"

namespace mpcomm {

/// What `result`, the simulation of `program`, says of the ops of the step.
Timeline makeTimeline(const ProgramModel &program, const SimResult &result);

/// The timeline as a table: what the step takes, a line for each of several
/// programs, and a line a collective.
void printTable(const Timeline &timeline, llvm::raw_ostream &os);

} // namespace mpcomm

#endif // MPCOMM_TOOLS_MPCOMM_SIM_STEPTIMELINE_H
