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
                             const SimCollectiveResult &seen, int64_t base) {
  switch (seen.reason) {
  case SimReason::Dependency:
    if (seen.reasonIndex >= 0)
      return describe(model, seen.reasonIndex) + " needs it";
    return "";
  case SimReason::StreamOrder:
    return "after collective " + std::to_string(base + seen.reasonIndex) +
           " on its communicator";
  default:
    return "";
  }
}

namespace {
/// Writes down what the ranks of one class do. Ids of its collectives begin at
/// `base`.
class ClassWriter {
public:
  ClassWriter(const StepModel &model, const SimClassResult &seen, int64_t rank,
              Timeline &timeline)
      : model(model), seen(seen), rank(rank), timeline(timeline),
        base(int64_t(timeline.collectives.size())) {}

  void addCompute();
  void addCommunicators();
  void addCollectives();

private:
  const StepModel &model;
  const SimClassResult &seen;
  int64_t rank;
  Timeline &timeline;
  int64_t base;
};
} // namespace

void ClassWriter::addCompute() {
  Timeline::Stream &compute = timeline.streams.emplace_back();
  compute.name = "compute";
  compute.rank = rank;
  llvm::ArrayRef<StepInstruction> instructions = model.getInstructions();
  for (auto [i, instruction] : llvm::enumerate(instructions)) {
    if (seen.end[i] <= seen.begin[i])
      continue;
    Timeline::Event &event = compute.events.emplace_back();
    event.name = getName(instruction.op);
    event.location = getPlace(instruction.op->getLoc());
    event.begin = seen.begin[i];
    event.end = seen.end[i];
    if (instruction.collective >= 0)
      event.flow = base + instruction.collective;
    if (auto action = getStageAction(instruction.op);
        action && instruction.kind == RankInstruction::Compute) {
      event.action = pipelineActionLetter(action->kind) +
                     std::to_string(action->microbatch);
      event.stage = action->stage;
    }
  }
}

void ClassWriter::addCommunicators() {
  llvm::StringSet<> names = {"compute"};
  for (auto [c, communicator] : llvm::enumerate(model.getCommunicators())) {
    std::vector<std::string> axes;
    for (Attribute axis : communicator.axes)
      axes.push_back(cast<StringAttr>(axis).str());
    Timeline::Stream &stream = timeline.streams.emplace_back();
    stream.rank = rank;
    stream.name = llvm::join(axes, ",");
    if (communicator.channel != 0)
      stream.name += ":" + std::to_string(communicator.channel);
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
      event.flow = base + int64_t(k);
    }
  }
}

void ClassWriter::addCollectives() {
  for (auto [k, made] : llvm::enumerate(model.getCollectives())) {
    const SimCollectiveResult &one = seen.collectives[k];
    Timeline::Collective &collective = timeline.collectives.emplace_back();
    collective.id = base + int64_t(k);
    collective.rank = rank;
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
    collective.detail = getDetail(model, one, base);
  }
}

static Timeline::Program describeClass(const ProgramModel::RankClass &made,
                                       const SimClassResult &seen) {
  Timeline::Program program;
  program.name = mlir::FunctionOpInterface(made.function).getName().str();
  program.rank = made.firstRank;
  program.ranks = made.ranks;
  program.seconds = seen.seconds;
  program.compute = seen.compute + seen.slowdown;
  program.exposed = seen.exposed;
  program.peakBytes = seen.peakBytes;
  return program;
}

Timeline mpcomm::makeTimeline(const ProgramModel &program,
                              const SimResult &result) {
  Timeline timeline;
  timeline.seconds = result.seconds;
  timeline.lowerBound = result.lowerBound;
  llvm::ArrayRef<ProgramModel::RankClass> classes = program.getRankClasses();
  for (auto [c, made] : llvm::enumerate(classes)) {
    const SimClassResult &seen = result.classes[c];
    timeline.compute +=
        (seen.compute + seen.slowdown) / static_cast<double>(classes.size());
    if (seen.peakBytes > timeline.peakBytes || c == 0) {
      timeline.peakBytes = seen.peakBytes;
      timeline.memory = seen.memory;
    }
    ClassWriter writer(program.getStep(c), seen, made.firstRank, timeline);
    writer.addCompute();
    writer.addCommunicators();
    writer.addCollectives();
    if (classes.size() > 1)
      timeline.programs.push_back(describeClass(made, seen));
  }
  // Of one class the simulator's own sum: a difference would round.
  timeline.exposed = classes.size() == 1
                         ? result.classes[0].exposed
                         : std::max(0.0, timeline.seconds - timeline.compute);
  if (auto figures = getPipelineFigures(program, result)) {
    Timeline::Pipeline &pipeline = timeline.pipeline.emplace();
    pipeline.schedule = program.getSchedule().str();
    pipeline.ranks = figures->ranks;
    pipeline.stages = figures->stages;
    pipeline.microbatches = figures->microbatches;
    pipeline.bubble = figures->bubble;
    pipeline.formula = figures->formula.value_or(-1);
  }
  return timeline;
}
