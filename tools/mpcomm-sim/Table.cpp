//===- Table.cpp - a timeline for the eye ---------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepTimeline.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mpcomm;
using llvm::format;

static double micro(double seconds) { return seconds * 1e6; }

static void printLine(const char *name, double seconds, double step,
                      llvm::raw_ostream &os) {
  os << format("%-14s %14.1f us", name, micro(seconds));
  if (step > 0)
    os << format("  %6.2f %%", 100 * seconds / step);
  os << "\n";
}

void mpcomm::printTable(const Timeline &timeline, llvm::raw_ostream &os) {
  os << timeline.name << " on " << timeline.ranks
     << (timeline.ranks == 1 ? " rank of " : " ranks of ") << timeline.cluster
     << "\n";
  printLine("step", timeline.seconds, 0, os);
  printLine("lower bound", timeline.lowerBound, timeline.seconds, os);
  printLine("compute", timeline.compute, timeline.seconds, os);
  printLine("exposed", timeline.exposed, timeline.seconds, os);
  os << format("%-14s %14lld bytes\n", "peak memory",
               static_cast<long long>(timeline.peakBytes));
  if (timeline.collectives.empty())
    return;
  os << "\n  id  collective           bytes  tensors    ready us    start us  "
        "    end us  awaited us   hidden us  exposed us  reason\n";
  for (const Timeline::Collective &collective : timeline.collectives) {
    os << format("%4lld  %-14s %11lld %8lld",
                 static_cast<long long>(collective.id), collective.name.c_str(),
                 static_cast<long long>(collective.bytes),
                 static_cast<long long>(collective.tensors));
    for (double seconds :
         {collective.ready, collective.start, collective.end,
          collective.awaited, collective.hidden, collective.exposed})
      os << format(" %11.1f", micro(seconds));
    os << "  " << collective.reason;
    if (!collective.detail.empty())
      os << ": " << collective.detail;
    os << "\n";
  }
}
