//===- mpcomm-sim.cpp - the step time of a program on a cluster -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads rank programs, or a training graph and the passes that make rank
// programs of it, and simulates a step. Ranks that run one program are one to
// the simulator, so thousands cost no more than two.
//
//===----------------------------------------------------------------------===//

#include "SimGrid.h"
#include "StepTimeline.h"
#include "ToolDiagnostics.h"
#include "ToolHelp.h"
#include "ToolOptions.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Verifier.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/InitAllDialects.h"
#include "mpcomm/InitAllPasses.h"
#include "mpcomm/Pipelines/Pipelines.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace mpcomm;
namespace cl = llvm::cl;

namespace {
enum class Backend { Fluid, SimGrid };

struct SimOptions {
  cl::OptionCategory category{"mpcomm-sim options"};
  cl::opt<std::string> input{cl::Positional, cl::init("-"),
                             cl::desc("<step.mlir>"), cl::cat(category)};
  cl::opt<std::string> cluster{
      "cluster", cl::value_desc("name or file.json"),
      cl::desc("Cluster; default: that of the module, else 'local'"),
      cl::cat(category)};
  cl::opt<std::string> writeCluster{
      "write-cluster", cl::value_desc("file.json"),
      cl::desc("Write the cluster of --cluster to a file and exit"),
      cl::cat(category)};
  cl::opt<int64_t> ranks{
      "ranks", cl::init(0), cl::value_desc("N"),
      cl::desc("Ranks of the mesh, by the size of its axis dp"),
      cl::cat(category)};
  cl::opt<std::string> pipeline{
      "pipeline", cl::value_desc("passes"),
      cl::desc("Passes to run first, as for mpcomm-opt --pass-pipeline without "
               "builtin.module(); for a training graph without a mesh: "
               "mpcomm-graph{mesh=dp:N cluster=...}"),
      cl::cat(category)};
  cl::opt<std::string> function{
      "function", cl::value_desc("name"),
      cl::desc("Function or mpcomm.program to simulate; default: "
               "'train_step', else the only function"),
      cl::cat(category)};
  cl::opt<std::string> profile{
      "profile-file", cl::value_desc("file.json"),
      cl::desc("Measured times, which replace the model's"), cl::cat(category)};
  cl::opt<Backend> backend{
      "backend", cl::init(Backend::Fluid), cl::desc("How to simulate"),
      cl::values(clEnumValN(Backend::Fluid, "fluid",
                            "with folded ranks and shared ports (default)"),
                 clEnumValN(Backend::SimGrid, "simgrid",
                            "also with every rank on a fat-tree in SimGrid")),
      cl::cat(category)};
  cl::opt<int> oversubscription{
      "oversubscription", cl::init(1), cl::value_desc("N"),
      cl::desc("SimGrid: ports of a switch per uplink"), cl::cat(category)};
  cl::opt<int> rounds{"rounds", cl::init(16), cl::value_desc("N"),
                      cl::desc("SimGrid: rounds of a collective"),
                      cl::cat(category)};
  cl::opt<std::string> json{"json", cl::value_desc("file"),
                            cl::desc("Write the timeline for mpcomm-report"),
                            cl::cat(category)};
  cl::opt<std::string> writeSchedule{
      "write-schedule", cl::value_desc("file.csv"),
      cl::desc("Write the schedule of a pipeline in PyTorch's format"),
      cl::cat(category)};
  cl::opt<std::string> name{"name", cl::value_desc("text"),
                            cl::desc("Title of the table and the timeline"),
                            cl::cat(category)};
};
} // namespace

static int fail(const llvm::Twine &message) {
  llvm::errs() << "mpcomm-sim: error: " << message << "\n";
  return 1;
}

static LogicalResult runPasses(const SimOptions &options, ModuleOp module) {
  PassManager passes(module.getContext());
  if (failed(applyPassManagerCLOptions(passes)))
    return failure();
  applyDefaultTimingPassManagerCLOptions(passes);
  if (!options.pipeline.empty()) {
    if (failed(parsePassPipeline(options.pipeline, passes)))
      return failure();
    return passes.run(module);
  }
  if (!module.getOps<MeshOp>().empty())
    return success();
  CompileOptions compile;
  compile.mesh = "dp:" + std::to_string(std::max<int64_t>(options.ranks, 1));
  // Decisions are weighed for the cluster that is simulated.
  compile.cluster = options.cluster.getValue();
  std::string reason;
  FailureOr<int64_t> ranks = compile.check(reason);
  if (failed(ranks))
    return module.emitError(reason);
  buildGraphPipeline(passes, compile, *ranks);
  return passes.run(module);
}

/// Gives the mesh `ranks` ranks. What a rank holds must not depend on that.
static LogicalResult resizeMesh(ModuleOp module, int64_t ranks) {
  auto meshes = module.getOps<MeshOp>();
  if (meshes.empty())
    return module.emitError("expects a mesh");
  MeshOp mesh = *meshes.begin();
  if (mesh.getNumRanks() == ranks)
    return success();
  std::optional<int64_t> axis = mesh.getAxisSize("dp");
  if (!llvm::hasSingleElement(meshes) || !axis)
    return mesh.emitError("cannot choose its ranks: expects one mesh with an "
                          "axis 'dp'");
  int64_t others = mesh.getNumRanks() / *axis;
  if (ranks % others)
    return mesh.emitError("cannot have ")
           << ranks << " ranks: its other axes have " << others;
  auto dependsOnRanks = [](Operation *op) {
    auto collective = dyn_cast<CollectiveOpInterface>(op);
    if (!collective)
      return isa<AllSliceOp>(op);
    // What stays within other axes sees no difference.
    if (llvm::none_of(collective.getAxesAttr(), [](Attribute name) {
          return cast<StringAttr>(name).getValue() == "dp";
        }))
      return false;
    CollectiveKind kind = collective.getCollectiveKind();
    return kind != CollectiveKind::AllReduce &&
           kind != CollectiveKind::Broadcast &&
           kind != CollectiveKind::Reduce && kind != CollectiveKind::Barrier;
  };
  WalkResult result = module.walk([&](Operation *op) {
    if (!dependsOnRanks(op))
      return WalkResult::advance();
    op->emitError("has types that depend on the number of ranks, which "
                  "--ranks cannot change");
    return WalkResult::interrupt();
  });
  if (result.wasInterrupted())
    return failure();
  SmallVector<int64_t> sizes(mesh.getAxisSizes());
  for (auto [i, name] : llvm::enumerate(mesh.getAxisNames()))
    if (cast<StringAttr>(name).getValue() == "dp")
      sizes[i] = ranks / others;
  mesh.setAxisSizes(sizes);
  return mlir::verify(mesh);
}

/// The program or the function of that name, of the step without a name; else
/// the only function with a body.
static Operation *findStep(ModuleOp module, StringRef name) {
  Operation *named =
      module.lookupSymbol(name.empty() ? StringRef(kTrainStep) : name);
  if (isa_and_nonnull<ProgramOp>(named))
    return named;
  auto function = dyn_cast_or_null<FunctionOpInterface>(named);
  if (function && !function.isExternal())
    return function;
  if (!name.empty()) {
    module.emitError("expects a function or an mpcomm.program '")
        << name << "'";
    return nullptr;
  }
  Operation *found = nullptr;
  for (auto function : module.getOps<FunctionOpInterface>()) {
    if (function.isExternal())
      continue;
    if (found) {
      function.emitError("cannot choose the function to simulate: expects one, "
                         "or --function");
      return nullptr;
    }
    found = function;
  }
  if (!found)
    module.emitError("expects a function with a body");
  return found;
}

static int64_t countRanks(ModuleOp module) {
  for (MeshOp mesh : module.getOps<MeshOp>())
    return mesh.getNumRanks();
  return 1;
}

static int writeFile(StringRef text, StringRef path) {
  std::error_code code;
  llvm::ToolOutputFile file(path, code, llvm::sys::fs::OF_Text);
  if (!code) {
    file.os() << text;
    file.os().flush();
    code = file.os().error();
    file.os().clear_error();
  }
  if (code)
    return fail("cannot write '" + path + "': " + code.message());
  file.keep();
  return 0;
}

/// One line: the step on a fat-tree whose ports are those of the outermost link
/// that the step uses, against the fluid at full rates.
static int compareWithSimGrid(const SimOptions &options, const StepModel &model,
                              const Cluster &cluster, SimProblem problem,
                              int64_t ranks) {
  problem.computeRateUnderComm = problem.commRateUnderCompute = 1;
  double fluid = simulateSeconds(problem);
  SimGridOptions grid;
  grid.hosts = ranks;
  grid.oversubscription = options.oversubscription;
  grid.rounds = options.rounds;
  for (const StepCollective &collective : model.getCollectives()) {
    grid.link = std::max(grid.link, int(collective.link));
    grid.isDirect.push_back(collective.algorithm ==
                            CollectiveAlgorithm::Direct);
  }
  grid.bandwidth = cluster.links[grid.link].bandwidth;
  SimGridResult result = simulateOnSimGrid(problem, grid);
  if (!result.error.empty())
    return fail(result.error);
  llvm::outs() << llvm::format(
      "simgrid        %14.1f us  %+.2f %% on %.1f us at full rates (%lld hosts "
      "on %s, %d to 1)\n",
      result.seconds * 1e6, 100 * (result.seconds / fluid - 1), fluid * 1e6,
      static_cast<long long>(grid.hosts), cluster.links[grid.link].name.c_str(),
      grid.oversubscription);
  return 0;
}

/// One line: how much of the recorded time has an op in this step, and how much
/// of what the model sees in the step was recorded.
static void printCoverage(const ProfileCoverage &coverage) {
  auto percent = [](double part, double whole) {
    return whole > 0 ? 100 * part / whole : 100;
  };
  llvm::outs() << llvm::format("profile        %14.1f us  %.2f %% of it found "
                               "its ops, which are %.2f %% "
                               "of the step by the model\n",
                               coverage.recorded * 1e6,
                               percent(coverage.matched, coverage.recorded),
                               percent(coverage.replaced, coverage.modeled));
}

static int run(const SimOptions &options, ModuleOp module) {
  if (failed(runPasses(options, module)))
    return fail("cannot make rank programs of '" + options.input + "'");
  if (options.ranks > 0 && failed(resizeMesh(module, options.ranks)))
    return 1;
  Operation *step = findStep(module, options.function);
  FailureOr<CostModel> costs =
      getCostModel(module, options.cluster, options.profile);
  if (!step || failed(costs))
    return 1;
  FailureOr<ProgramModel> model = ProgramModel::get(step, *costs);
  if (failed(model))
    return 1;
  SimProblem problem = model->buildSimProblem(*costs);
  if (std::string error = problem.check(); !error.empty())
    return fail(error);
  SimResult result = simulate(problem);
  if (!result.error.empty())
    return fail(result.error);
  Timeline timeline = makeTimeline(*model, result);
  timeline.name = options.name;
  if (timeline.name.empty())
    timeline.name = llvm::sys::path::stem(options.input).str();
  timeline.cluster = costs->getCluster().name;
  timeline.ranks = countRanks(module);
  // Before the table, of which a reader may have seen enough.
  // Locations and names may be any bytes.
  if (!options.json.empty() &&
      writeFile(llvm::json::fixUTF8(toJson(timeline)), options.json))
    return 1;
  if (!options.writeSchedule.empty()) {
    PipelineScheduleOr schedule = getPipelineSchedule(*model);
    if (!schedule.error.empty())
      return fail("--write-schedule: '" + options.input + "' " +
                  schedule.error);
    if (writeFile(schedule.schedule.str(), options.writeSchedule))
      return 1;
  }
  printTable(timeline, llvm::outs());
  if (const auto &coverage = model->getStep(0).getProfileCoverage();
      coverage && model->getRankClasses().size() == 1)
    printCoverage(*coverage);
  if (options.backend == Backend::SimGrid) {
    if (model->getRankClasses().size() > 1)
      return fail(
          "--backend=simgrid: expected one program for all ranks, got " +
          llvm::Twine(model->getRankClasses().size()));
    if (compareWithSimGrid(options, model->getStep(0), costs->getCluster(),
                           problem, timeline.ranks))
      return 1;
  }
  return 0;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  setVersion("mpcomm-sim");
  mlir::registerAllPasses();
  mpcomm::registerAllPasses();
  registerMLIRContextCLOptions();
  registerPassManagerCLOptions();
  registerAsmPrinterCLOptions();
  registerDefaultTimingManagerCLOptions();
  SimOptions options;
  cl::HideUnrelatedOptions(options.category);
  parseCommandLine(
      argc, argv, "mpcomm-sim",
      "mpcomm-sim: predicts the time of a training step on a cluster\n\n"
      "  mpcomm-sim step.mlir --cluster=dgx-h100 --ranks=1024 --json "
      "out.json\n\n"
      "Options of MLIR are taken too: --mlir-print-ir-after-all, "
      "--mlir-timing, ...\n",
      {checked(options.ranks), checked(options.backend),
       checked(options.oversubscription), checked(options.rounds)});
  if (options.ranks < 0)
    return fail("expected --ranks of at least 1");
  if (options.oversubscription < 1 || options.rounds < 1)
    return fail("expected --oversubscription and --rounds of at least 1");
  if (!options.writeCluster.empty()) {
    if (options.cluster.empty())
      return fail("expected --cluster with --write-cluster");
    llvm::Expected<Cluster> cluster = loadCluster(options.cluster);
    if (!cluster)
      return fail(llvm::toString(cluster.takeError()));
    return writeFile(toJson(*cluster), options.writeCluster);
  }
  if (options.backend == Backend::SimGrid && !hasSimGrid())
    return fail("this build has no SimGrid (Debian: libsimgrid-dev)");

  DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  mpcomm::registerAllDialects(registry);
  MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  ToolDiagnostics handler(sources, &context);
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(options.input, sources, &context);
  if (!module)
    return fail("cannot read '" + options.input + "'");
  return run(options, *module);
}
