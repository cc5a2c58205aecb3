//===- MeshChoice.cpp - how to distribute a step over ranks ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Nothing is estimated apart: a candidate's figures are those of the programs
// that it would run.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Pipelines/MeshChoice.h"
#include "mpcomm/Analysis/StepModel/ProgramModel.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Scheduling/Simulator/Simulator.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mpcomm;

bool mpcomm::isAutoMesh(StringRef mesh, int64_t &ranks) {
  ranks = 0;
  if (!mesh.consume_front("auto:"))
    return false;
  if (mesh.getAsInteger(10, ranks) || ranks < 1 || ranks > INT16_MAX)
    ranks = 0;
  return true;
}

std::string MeshCandidate::getMesh() const {
  std::string data = "dp:" + std::to_string(dataRanks);
  return pipelineRanks == 1
             ? data
             : "pp:" + std::to_string(pipelineRanks) + "," + data;
}

std::string MeshCandidate::getOptions() const {
  std::string text = "mesh=" + getMesh() + " zero=" + std::to_string(zero);
  if (keepBytes != 0)
    text += " zero-keep=" + std::to_string(keepBytes);
  return text;
}

bool mpcomm::hasChoice(const CompileOptions &options) {
  int64_t ranks;
  return isAutoMesh(options.mesh, ranks) || options.zero == "auto";
}

FailureOr<int64_t> mpcomm::checkGiven(const CompileOptions &options,
                                      std::string &reason) {
  CompileOptions given;
  given.copyOptionValuesFrom(options);
  int64_t ranks;
  if (isAutoMesh(options.mesh, ranks))
    given.mesh = "dp:1";
  if (options.zero == "auto")
    given.zero = "0";
  return given.check(reason);
}

void mpcomm::applyMesh(const MeshCandidate &candidate,
                       CompileOptions &options) {
  options.zero = std::to_string(candidate.zero);
  options.zeroKeep = candidate.keepBytes;
  int64_t ranks;
  if (!isAutoMesh(options.mesh, ranks))
    return;
  options.mesh = candidate.getMesh();
  options.microBatches = candidate.microBatches;
  if (candidate.pipelineRanks == 1)
    return;
  if (options.scheduleFile.empty() && options.placement.empty())
    options.chunks = candidate.chunks;
  if (!options.schedule.hasValue())
    options.schedule = "auto";
}

/// Samples of a batch of a graph; 0 where it has none.
static int64_t countSamples(ModuleOp graph) {
  auto step = graph.lookupSymbol<FunctionOpInterface>(kTrainStep);
  if (!step || step.isExternal())
    return 0;
  for (auto [i, type] : llvm::enumerate(step.getArgumentTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (getArgumentRole(step, i) == Role::Batch && tensor &&
        tensor.getRank() > 0 && !tensor.isDynamicDim(0))
      return tensor.getDimSize(0);
  }
  return 0;
}

/// What of two graphs cannot be the same step with batches of two sizes; empty
/// if they can.
static std::string compareSteps(ModuleOp first, ModuleOp second) {
  auto a = first.lookupSymbol<FunctionOpInterface>(kTrainStep);
  auto b = second.lookupSymbol<FunctionOpInterface>(kTrainStep);
  if (a.getNumArguments() != b.getNumArguments())
    return std::to_string(b.getNumArguments()) + " arguments, expected " +
           std::to_string(a.getNumArguments());
  for (unsigned i = 0; i < a.getNumArguments(); ++i) {
    std::optional<Role> role = getArgumentRole(a, i);
    Type expected = a.getArgumentTypes()[i], found = b.getArgumentTypes()[i];
    auto whole = dyn_cast<RankedTensorType>(expected);
    auto other = dyn_cast<RankedTensorType>(found);
    if (role == Role::Batch && whole && other && whole.getRank() > 0 &&
        other.getRank() > 0) {
      SmallVector<int64_t> shape(other.getShape());
      shape[0] = whole.getDimSize(0);
      found = other.clone(shape);
    }
    if (role == getArgumentRole(b, i) &&
        getArgumentName(a, i) == getArgumentName(b, i) && found == expected)
      continue;
    std::string text;
    llvm::raw_string_ostream(text)
        << "argument #" << i << " '" << getArgumentName(b, i) << "' of type "
        << b.getArgumentTypes()[i] << ", expected '" << getArgumentName(a, i)
        << "' of type " << expected;
    return text;
  }
  return "";
}

FailureOr<size_t> mpcomm::findGraph(ArrayRef<ModuleOp> graphs,
                                    const CompileOptions &program,
                                    const CompileOptions &options,
                                    std::string &reason) {
  auto countBatches = [](const CompileOptions &of) {
    return mpcomm::detail::multiplySaturated(of.microBatches, of.localSteps);
  };
  if (countBatches(program) == countBatches(options))
    return size_t(0);
  auto count = [&](const CompileOptions &of, ModuleOp graph) {
    return mpcomm::detail::multiplySaturated(countBatches(of),
                                             countSamples(graph));
  };
  int64_t samples = count(program, graphs.front());
  if (samples == 0) {
    reason = "expected a graph with a batch whose first dimension is its "
             "samples, for other micro-batches";
    return failure();
  }
  std::string others;
  for (auto [i, graph] : llvm::enumerate(graphs)) {
    int64_t own = count(options, graph);
    if (own != samples) {
      others += (others.empty() ? "" : ", ") + std::to_string(own);
      continue;
    }
    reason = compareSteps(graphs.front(), graph);
    if (!reason.empty()) {
      reason = "graph " + std::to_string(i) +
               " is another step than graph 0: it has " + reason;
      return failure();
    }
    return i;
  }
  reason = "expected a graph of which a step of " +
           std::to_string(countBatches(options)) + " batches has " +
           std::to_string(samples) +
           " samples, as that of the program; those of the graphs have " +
           others;
  return failure();
}

/// Compiles and simulates one candidate.
static void evaluate(ModuleOp graph, const CompileOptions &given,
                     MeshCandidate &candidate) {
  std::string firstError;
  ScopedDiagnosticHandler handler(
      graph.getContext(), [&](Diagnostic &diagnostic) {
        if (firstError.empty() &&
            diagnostic.getSeverity() == DiagnosticSeverity::Error)
          firstError = diagnostic.str();
        return success();
      });
  auto fail = [&](const Twine &why) {
    candidate.error = firstError.empty() ? why.str() : firstError;
  };
  CompileOptions options;
  options.copyOptionValuesFrom(given);
  applyMesh(candidate, options);
  std::string reason;
  FailureOr<int64_t> dataRanks = options.check(reason);
  if (failed(dataRanks))
    return fail(reason);
  OwningOpRef<ModuleOp> module = graph.clone();
  PassManager passes(graph.getContext());
  buildGraphPipeline(passes, options, *dataRanks);
  if (failed(passes.run(*module)))
    return fail("cannot be compiled");
  FailureOr<CostModel> costs =
      getCostModel(*module, options.getCluster(), options.profileFile);
  if (failed(costs))
    return fail("has no cluster");
  FailureOr<ProgramModel> program =
      ProgramModel::get(module->lookupSymbol(kTrainStep), *costs);
  if (failed(program))
    return fail("cannot be simulated");
  SimResult result = simulate(program->buildSimProblem(*costs));
  if (!result.error.empty())
    return fail(result.error);
  candidate.seconds = result.seconds;
  candidate.schedule = program->getSchedule().str();
  for (auto [c, seen] : llvm::enumerate(result.classes)) {
    const StepModel &step = program->getStep(c);
    candidate.compute +=
        (seen.compute + seen.slowdown - step.getCallWaitSeconds()) /
        static_cast<double>(result.classes.size());
    candidate.peakBytes = std::max(candidate.peakBytes, seen.peakBytes);
    candidate.sentBytes = std::max(candidate.sentBytes,
                                   static_cast<int64_t>(step.getSentBytes()));
  }
  candidate.limitBytes = costs->getCluster().device.memoryBytes;
  if (options.memoryBytes > 0)
    candidate.limitBytes =
        std::min<int64_t>(candidate.limitBytes, options.memoryBytes);
  if (candidate.peakBytes > candidate.limitBytes)
    fail("needs " + Twine(candidate.peakBytes) +
         " bytes on a rank, which has " + Twine(candidate.limitBytes));
}

static int64_t countParameterBytes(ModuleOp graph) {
  int64_t bytes = 0;
  if (func::FuncOp step = graph.lookupSymbol<func::FuncOp>(kTrainStep))
    for (unsigned i = 0; i < step.getNumArguments(); ++i)
      if (getArgumentRole(step, i) == Role::Parameter)
        bytes += mpcomm::detail::countBytes(step.getArgumentTypes()[i]);
  return bytes;
}

/// Evaluates the candidate, and takes it if it is the fastest.
static const MeshCandidate &addCandidate(const MeshCandidate &candidate,
                                         ModuleOp graph,
                                         const CompileOptions &options,
                                         MeshChoice &choice) {
  MeshCandidate &added = choice.candidates.emplace_back(candidate);
  if (added.error.empty())
    evaluate(graph, options, added);
  if (added.error.empty() &&
      (choice.chosen < 0 ||
       added.seconds < choice.candidates[choice.chosen].seconds))
    choice.chosen = static_cast<int>(choice.candidates.size()) - 1;
  return added;
}

/// The candidate with each level of ZeRO that `options` leave open. At level 3
/// also with as many parameters kept as the memory left over takes.
static void addCandidates(MeshCandidate candidate, ModuleOp graph,
                          const CompileOptions &options, MeshChoice &choice) {
  bool isOpen = options.zero == "auto";
  int64_t first = isOpen ? 0 : options.getZeroLevel();
  int64_t last =
      isOpen && candidate.dataRanks > 1 && candidate.error.empty() ? 3 : first;
  candidate.keepBytes = isOpen ? 0 : options.zeroKeep;
  for (candidate.zero = first; candidate.zero <= last; ++candidate.zero) {
    // Sums over one micro-batch are none.
    if (first < last && candidate.zero == 2 && candidate.microBatches == 1)
      continue;
    const MeshCandidate &added =
        addCandidate(candidate, graph, options, choice);
    if (!isOpen || candidate.zero != 3 || !added.error.empty())
      continue;
    MeshCandidate keeping = candidate;
    keeping.keepBytes = added.limitBytes - added.peakBytes;
    if (keeping.keepBytes >= countParameterBytes(graph))
      keeping.keepBytes = -1;
    if (keeping.keepBytes == 0)
      continue;
    MeshCandidate without = added; // the list may grow
    int chosen = choice.chosen;
    const MeshCandidate &with = addCandidate(keeping, graph, options, choice);
    // Too little for any: the same program.
    if (with.error.empty() && with.seconds == without.seconds &&
        with.compute == without.compute &&
        with.sentBytes == without.sentBytes &&
        with.peakBytes == without.peakBytes) {
      choice.candidates.pop_back();
      choice.chosen = chosen;
    }
  }
}

MeshChoice mpcomm::chooseMesh(ArrayRef<ModuleOp> graphs,
                              const CompileOptions &options) {
  MeshChoice choice;
  int64_t ranks;
  bool isAuto = isAutoMesh(options.mesh, ranks);
  // What no candidate could be compiled with is an error of all.
  FailureOr<int64_t> dataRanks = checkGiven(options, choice.error);
  if (failed(dataRanks))
    return choice;
  FailureOr<int64_t> placed = options.countPlacedStages(choice.error);
  if (failed(placed))
    return choice;
  if (!isAuto) {
    MeshCandidate candidate;
    candidate.pipelineRanks = options.getPipelineRanks();
    candidate.dataRanks = *dataRanks;
    candidate.chunks = std::max<int64_t>(options.chunks, 1);
    candidate.microBatches = options.microBatches;
    addCandidates(candidate, graphs.front(), options, choice);
    return choice;
  }
  SmallVector<int64_t> samples;
  for (auto [g, graph] : llvm::enumerate(graphs)) {
    samples.push_back(countSamples(graph));
    if (samples.back() == 0) {
      choice.error = "expected a graph with a batch whose first dimension is "
                     "its samples, to choose a mesh";
      return choice;
    }
    std::string other = compareSteps(graphs.front(), graph);
    if (!other.empty()) {
      choice.error = "graph " + std::to_string(g) +
                     " is another step than "
                     "graph 0: it has " +
                     other;
      return choice;
    }
  }
  if (options.localSteps != 1) {
    choice.error = "cannot choose a mesh for local-steps, which only meshes of "
                   "dp alone have: expected local-steps=1";
    return choice;
  }
  choice.samples = options.globalBatch;
  if (choice.samples == 0) {
    if (options.microBatches > INT64_MAX / ranks / samples.front()) {
      choice.error = "expected steps of at most 2^63 - 1 samples";
      return choice;
    }
    choice.samples = options.microBatches * ranks * samples.front();
  }
  for (auto [g, graph] : llvm::enumerate(graphs))
    for (int64_t pipeline = 1; pipeline <= ranks; ++pipeline) {
      if (ranks % pipeline != 0)
        continue;
      // Two stages on a rank halve the bubble, and double what is sent.
      int64_t given = *placed > 0 ? std::max<int64_t>(*placed / pipeline, 1)
                                  : options.chunks;
      int64_t most = pipeline == 1 || given > 0 ? 1 : 2;
      for (int64_t chunks = 1; chunks <= most; ++chunks) {
        MeshCandidate candidate;
        candidate.graph = static_cast<unsigned>(g);
        candidate.pipelineRanks = pipeline;
        candidate.dataRanks = ranks / pipeline;
        candidate.chunks = chunks;
        if (pipeline > 1 && given > 0)
          candidate.chunks = given;
        int64_t whole = candidate.dataRanks * samples[g];
        candidate.microBatches = choice.samples / whole;
        if (candidate.microBatches * whole != choice.samples)
          candidate.error = "its micro-batches have " + std::to_string(whole) +
                            " samples together, of which the step's " +
                            std::to_string(choice.samples) + " are no multiple";
        else if (candidate.microBatches < pipeline)
          candidate.error = "has " + std::to_string(candidate.microBatches) +
                            " micro-batches for " + std::to_string(pipeline) +
                            " ranks of a pipeline";
        addCandidates(candidate, graph, options, choice);
      }
    }
  return choice;
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

static double milli(double seconds) { return seconds * 1e3; }

static std::string printKept(int64_t bytes) {
  return bytes < 0    ? "all"
         : bytes == 0 ? "-"
                      : llvm::formatv("{0:f1} MB", bytes / 1e6).str();
}

static double mega(int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

/// The fastest of the candidates with another mesh or level of ZeRO than the
/// chosen one's; null if there is none.
static const MeshCandidate *findNext(const MeshChoice &choice) {
  const MeshCandidate *next = nullptr;
  std::string chosen = choice.candidates[choice.chosen].getOptions();
  for (const MeshCandidate &candidate : choice.candidates)
    if (candidate.error.empty() && candidate.getOptions() != chosen &&
        (!next || candidate.seconds < next->seconds))
      next = &candidate;
  return next;
}

static void explain(const MeshChoice &choice, llvm::raw_ostream &os) {
  const MeshCandidate &best = choice.candidates[choice.chosen];
  os << best.getOptions() << " is chosen";
  const MeshCandidate *next = findNext(choice);
  if (!next) {
    os << ": no other can be taken\n";
    return;
  }
  os << llvm::format(": %.3f of the step of ", best.seconds / next->seconds)
     << next->getOptions()
     << llvm::format(". A rank computes %.3f against %.3f ms, waits %.3f "
                     "against %.3f ms, and sends %.3f against %.3f MB\n",
                     milli(best.compute), milli(next->compute),
                     milli(best.seconds - best.compute),
                     milli(next->seconds - next->compute), mega(best.sentBytes),
                     mega(next->sentBytes));
}

void mpcomm::printChoice(const MeshChoice &choice, llvm::raw_ostream &os) {
  if (choice.samples > 0)
    os << "meshes for " << choice.samples << " samples a step\n";
  else
    os << "levels of zero\n";
  os << "  graph  mesh          zero     kept  chunks  micro-batches  schedule "
        "        "
        "step ms   compute ms      wait ms      sent MB      peak MB\n";
  for (auto [i, candidate] : llvm::enumerate(choice.candidates)) {
    os << (static_cast<int>(i) == choice.chosen ? "* " : "  ")
       << llvm::format("%5u  %-12s %5lld %8s %7lld %14lld  %-12s",
                       candidate.graph, candidate.getMesh().c_str(),
                       static_cast<long long>(candidate.zero),
                       printKept(candidate.keepBytes).c_str(),
                       static_cast<long long>(candidate.chunks),
                       static_cast<long long>(candidate.microBatches),
                       candidate.schedule.c_str());
    if (candidate.error.empty() || candidate.seconds > 0)
      os << llvm::format(" %12.3f %12.3f %12.3f %12.3f %12.3f",
                         milli(candidate.seconds), milli(candidate.compute),
                         milli(candidate.seconds - candidate.compute),
                         mega(candidate.sentBytes), mega(candidate.peakBytes));
    if (!candidate.error.empty())
      os << "  cannot be taken: " << candidate.error;
    os << "\n";
  }
  if (choice.chosen >= 0)
    explain(choice, os);
}
