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

static void printPipeline(const Timeline::Pipeline &pipeline,
                          llvm::raw_ostream &os) {
  os << format("%-14s %14.2f %%", "bubble", 100 * pipeline.bubble);
  if (pipeline.formula >= 0)
    os << format("  %6.2f %% by the formula for equal stages",
                 100 * pipeline.formula);
  os << "\n";
  os << "pipeline       " << pipeline.stages << " stages on " << pipeline.ranks
     << (pipeline.ranks == 1 ? " rank, " : " ranks, ") << pipeline.microbatches
     << (pipeline.microbatches == 1 ? " micro-batch" : " micro-batches");
  if (!pipeline.schedule.empty())
    os << ", " << pipeline.schedule;
  os << "\n";
}

static void printPrograms(const Timeline &timeline, llvm::raw_ostream &os) {
  os << "\nrank  ranks         step us      compute us      exposed us      "
        "peak bytes  program\n";
  for (const Timeline::Program &program : timeline.programs)
    os << format("%4lld %6lld %15.1f %15.1f %15.1f %15lld  ",
                 static_cast<long long>(program.rank),
                 static_cast<long long>(program.ranks), micro(program.seconds),
                 micro(program.compute), micro(program.exposed),
                 static_cast<long long>(program.peakBytes))
       << program.name << "\n";
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
  if (timeline.pipeline)
    printPipeline(*timeline.pipeline, os);
  if (!timeline.programs.empty())
    printPrograms(timeline, os);
  if (timeline.collectives.empty())
    return;
  bool several = !timeline.programs.empty();
  os << (several ? "\n  id  rank" : "\n  id")
     << "  collective           bytes  tensors    ready us    start us  "
        "    end us  awaited us   hidden us  exposed us  reason\n";
  for (const Timeline::Collective &collective : timeline.collectives) {
    os << format("%4lld", static_cast<long long>(collective.id));
    if (several)
      os << format("  %4lld", static_cast<long long>(collective.rank));
    os << format("  %-14s %11lld %8lld", collective.name.c_str(),
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
