//===- StepTimeline.cpp - the timeline of a simulated step ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Names and places of ops beside the times of their instructions.
//
//===----------------------------------------------------------------------===//

#include "StepTimeline.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mpcomm;

static std::string getName(Operation *op) {
  StringRef name = op->getName().getStringRef();
  return name.substr(name.rfind('.') + 1).str();
}

/// The first place with a file, as file:line; else the location's name.
static std::string getPlace(Location location) {
  std::string place;
  location->walk([&](Location inner) {
    if (auto file = dyn_cast<FileLineColLoc>(inner)) {
      place = file.getFilename().str() + ":" + std::to_string(file.getLine());
      return WalkResult::interrupt();
    }
    if (auto name = dyn_cast<NameLoc>(inner); name && place.empty())
      place = name.getName().str();
    return WalkResult::advance();
  });
  return place;
}

static std::string describe(const StepModel &model, int instruction) {
  Operation *op = model.getInstructions()[instruction].op;
  std::string place = getPlace(op->getLoc());
  return getName(op) + (place.empty() ? "" : " at " + place);
}

static std::string getDetail(const StepModel &model,
                             const SimCollectiveResult &seen) {
  switch (seen.reason) {
  case SimReason::Dependency:
    if (seen.reasonIndex >= 0)
      return describe(model, seen.reasonIndex) + " needs it";
    return "";
  case SimReason::StreamOrder:
    return "behind collective " + std::to_string(seen.reasonIndex) +
           " on its communicator";
  default:
    return "";
  }
}

static void addStreams(const StepModel &model, const SimClassResult &seen,
                       Timeline &timeline) {
  Timeline::Stream &compute = timeline.streams.emplace_back();
  compute.name = "compute";
  llvm::ArrayRef<StepInstruction> instructions = model.getInstructions();
  for (auto [i, instruction] : llvm::enumerate(instructions)) {
    if (seen.end[i] <= seen.begin[i])
      continue;
    Timeline::Event &event = compute.events.emplace_back();
    event.name = getName(instruction.op);
    event.location = getPlace(instruction.op->getLoc());
    event.begin = seen.begin[i];
    event.end = seen.end[i];
    event.flow = instruction.collective;
  }
  llvm::StringSet<> names = {"compute"};
  for (auto [c, communicator] : llvm::enumerate(model.getCommunicators())) {
    std::vector<std::string> axes;
    for (Attribute axis : communicator.axes)
      axes.push_back(cast<StringAttr>(axis).str());
    Timeline::Stream &stream = timeline.streams.emplace_back();
    stream.name = llvm::join(axes, ",");
    if (!names.insert(stream.name).second)
      stream.name += "#" + std::to_string(c);
    for (auto [k, collective] : llvm::enumerate(model.getCollectives())) {
      if (collective.communicator != c)
        continue;
      Timeline::Event &event = stream.events.emplace_back();
      event.name = getName(collective.op);
      event.location = getPlace(collective.op->getLoc());
      event.begin = seen.collectives[k].start;
      event.end = seen.collectives[k].end;
      event.flow = int64_t(k);
    }
  }
}

Timeline mpcomm::makeTimeline(const StepModel &model, const SimResult &result) {
  const SimClassResult &seen = result.classes[0];
  Timeline timeline;
  timeline.seconds = result.seconds;
  timeline.lowerBound = result.lowerBound;
  timeline.compute = seen.compute + seen.slowdown;
  timeline.exposed = seen.exposed;
  timeline.peakBytes = seen.peakBytes;
  timeline.memory = seen.memory;
  addStreams(model, seen, timeline);
  for (auto [k, made] : llvm::enumerate(model.getCollectives())) {
    const SimCollectiveResult &one = seen.collectives[k];
    Timeline::Collective &collective = timeline.collectives.emplace_back();
    collective.id = int64_t(k);
    collective.name = getName(made.op);
    collective.location = getPlace(made.op->getLoc());
    collective.bytes = made.bytes;
    collective.tensors = made.tensors;
    collective.ready = one.ready;
    collective.start = one.start;
    collective.end = one.end;
    collective.awaited = one.awaited;
    collective.hidden = one.hidden;
    collective.exposed = one.exposed;
    collective.reason = toString(one.reason);
    collective.detail = getDetail(model, one);
  }
  return timeline;
}
