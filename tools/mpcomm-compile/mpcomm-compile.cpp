//===- mpcomm-compile.cpp - a training step to a program file -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the pipeline mpcomm-compile on a file and makes of the result a shared
// object that mpcomm-run loads.
//
//===----------------------------------------------------------------------===//

#include "CodeGen.h"
#include "DescribeGraph.h"
#include "MakeProgram.h"
#include "Report.h"
#include "ToolDiagnostics.h"
#include "ToolHelp.h"
#include "ToolOptions.h"
#include "Variants.h"
#include "files/OutputFile.h"
#include "mlir/IR/AsmState.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mpcomm/InitAllDialects.h"
#include "mpcomm/Pipelines/MeshChoice.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include <set>

using namespace mlir;
namespace cl = llvm::cl;

namespace {

enum class From { Graph, Programs };
enum class Emit { Program, Object, LLVM, MLIR };

struct CompileOptions {
  cl::OptionCategory category{"mpcomm-compile options"};
  cl::list<std::string> inputs{cl::Positional, cl::desc("<step.mlir>..."),
                               cl::cat(category)};
  cl::opt<std::string> output{"o", cl::value_desc("file"),
                              cl::desc("File to write"), cl::cat(category)};
  cl::opt<int> np{"np", cl::init(0), cl::value_desc("N"),
                  cl::desc("Data-parallel ranks; short for mesh=dp:N"),
                  cl::cat(category)};
  cl::list<std::string> settings{
      "options", cl::value_desc("key=value ..."),
      cl::desc("Options of the pipeline: `mpcomm-opt --help=mpcomm-compile`"),
      cl::cat(category)};
  cl::list<std::string> variants{
      "variant", cl::value_desc("name: key=value ..."),
      cl::desc("Another plan of the step in the same file, with these options "
               "beside those of --options; a session can switch to it. With "
               "other micro-batches it needs the step imported with another "
               "batch size as one more <step.mlir>"),
      cl::cat(category)};
  cl::opt<std::string> cpu{"cpu", cl::init("native"), cl::value_desc("name"),
                           cl::desc("Processor to generate code for"),
                           cl::cat(category)};
  cl::opt<From> from{
      "from", cl::init(From::Graph), cl::desc("What the input is"),
      cl::values(clEnumValN(From::Graph, "graph", "a training graph (default)"),
                 clEnumValN(From::Programs, "programs",
                            "scheduled rank programs, written by hand or by "
                            "mpcomm-opt --mpcomm-graph")),
      cl::cat(category)};
  cl::opt<Emit> emit{
      "emit", cl::init(Emit::Program), cl::desc("What to write"),
      cl::values(clEnumValN(Emit::Program, "so", "a program file (default)"),
                 clEnumValN(Emit::Object, "obj", "an object file"),
                 clEnumValN(Emit::LLVM, "llvm", "optimised LLVM IR"),
                 clEnumValN(Emit::MLIR, "mlir", "the LLVM dialect")),
      cl::cat(category)};
  cl::opt<bool> report{"report", cl::desc("Print decisions and memory"),
                       cl::cat(category)};
  cl::opt<unsigned> level{"O", cl::Prefix, cl::init(2),
                          cl::desc("Optimisation level of the code generator"),
                          cl::cat(category)};
};

} // namespace

static int fail(const llvm::Twine &message) {
  llvm::errs() << "mpcomm-compile: error: " << message << "\n";
  return 1;
}

namespace {

/// The step with one set of options.
struct Plan {
  std::string name;  ///< of a variant; empty for the program itself
  std::string input; ///< the file that it is compiled of
  mpcomm::CompileOptions options;
  OwningOpRef<ModuleOp> module;
};

} // namespace

using Plans = std::vector<std::unique_ptr<Plan>>;

/// A program file with all plans.
static llvm::Expected<std::string> makeFile(mpcomm::CodeGen &codeGen,
                                            const Plans &plans) {
  llvm::LLVMContext context;
  std::vector<std::unique_ptr<llvm::Module>> translated;
  std::vector<llvm::Module *> modules;
  std::vector<std::string> names;
  for (const std::unique_ptr<Plan> &plan : plans) {
    translated.push_back(codeGen.translate(*plan->module, context));
    if (!translated.back())
      return llvm::createStringError("cannot translate the program to LLVM IR");
    modules.push_back(translated.back().get());
    if (plan->name.empty())
      continue;
    mpcomm::addSuffix(*modules.back(), plan->name);
    names.push_back(plan->name);
  }
  if (!names.empty())
    mpcomm::listVariants(*modules.front(), names);
  return mpcomm::makeProgram(codeGen, modules);
}

/// What `options` ask for.
static llvm::Expected<std::string> emit(const CompileOptions &options,
                                        mpcomm::CodeGen &codeGen,
                                        const Plans &plans) {
  if (options.emit == Emit::Program)
    return makeFile(codeGen, plans);
  ModuleOp module = *plans.front()->module;
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (options.emit == Emit::MLIR) {
    module.print(stream);
    return text;
  }
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> llvmModule = codeGen.translate(module, context);
  if (!llvmModule)
    return llvm::createStringError("cannot translate the program to LLVM IR");
  if (options.emit == Emit::LLVM) {
    llvmModule->print(stream, nullptr);
    return text;
  }
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream objectStream(object);
  if (llvm::Error error = codeGen.emitObject(*llvmModule, objectStream))
    return error;
  return std::string(object.begin(), object.end());
}

/// A failure leaves nothing, and an older program stays whole.
static int write(const CompileOptions &options, mpcomm::CodeGen &codeGen,
                 const Plans &plans) {
  if (mprt::Error status = mprt::probeOutput(options.output); status.failed())
    return fail(status.message());
  llvm::Expected<std::string> contents = emit(options, codeGen, plans);
  if (!contents)
    return fail(llvm::toString(contents.takeError()));
  mprt::OutputFile file(options.output);
  mprt::Error status = file.open();
  if (status.ok())
    status = file.write(contents->data(), contents->size());
  if (status.ok())
    status = file.commit();
  return status.failed() ? fail(status.message()) : 0;
}

/// The module in a file, with a name; null after an error.
static OwningOpRef<ModuleOp>
read(const std::string &input, llvm::SourceMgr &sources, MLIRContext &context) {
  if (llvm::sys::path::extension(input) == ".py") {
    fail("'" + input +
         "' is a Python file: mpcomm-import makes a training "
         "graph of it");
    return nullptr;
  }
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> file = openInputFile(input, &message);
  if (!file) {
    fail(message);
    return nullptr;
  }
  // Each file by itself: the parser reads a manager's first.
  llvm::SourceMgr own;
  own.AddNewSourceBuffer(
      llvm::MemoryBuffer::getMemBuffer(file->getMemBufferRef()), llvm::SMLoc());
  // Diagnostics of later passes show lines of it.
  sources.AddNewSourceBuffer(std::move(file), llvm::SMLoc());
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(own, &context);
  if (!module)
    fail("cannot read '" + input + "'");
  else if (!module->getName())
    module->setName(llvm::sys::path::stem(input));
  return module;
}

/// Which graph to compile; also sets what mesh=auto:N and zero=auto leave open.
static FailureOr<size_t> choose(const CompileOptions &options,
                                mpcomm::CompileOptions &compile,
                                ArrayRef<OwningOpRef<ModuleOp>> modules) {
  auto refuse = [](const llvm::Twine &message) {
    fail(message);
    return failure();
  };
  int64_t ranks;
  bool isAuto = mpcomm::isAutoMesh(compile.mesh, ranks);
  if (!isAuto && compile.globalBatch != 0)
    return refuse("expected mesh=auto:N with global-batch");
  if (!isAuto && modules.size() > 1 && options.variants.empty())
    return refuse("expected one graph, or mesh=auto:N or --variant to choose "
                  "among " +
                  llvm::Twine(modules.size()));
  if (!mpcomm::hasChoice(compile))
    return size_t(0);
  if (options.from != From::Graph)
    return refuse("expected a training graph with mesh=auto:N or zero=auto");
  if (isAuto && ranks == 0)
    return refuse("mesh '" + compile.mesh + "': expected 1 to 32767 ranks");
  if (compile.globalBatch < 0 || compile.microBatches < 1)
    return refuse("expected a global-batch of at least 0 samples and at least "
                  "1 micro-batch");
  SmallVector<ModuleOp> graphs;
  for (const OwningOpRef<ModuleOp> &module : modules)
    graphs.push_back(module.get());
  mpcomm::MeshChoice choice = mpcomm::chooseMesh(graphs, compile);
  if (!choice.error.empty())
    return refuse(choice.error);
  if (choice.chosen < 0) {
    mpcomm::printChoice(choice, llvm::errs());
    return isAuto ? refuse("no mesh of " + llvm::Twine(ranks) +
                           " ranks can be taken")
                  : refuse("no level of zero can be taken");
  }
  if (options.report)
    mpcomm::printChoice(choice, llvm::outs());
  const mpcomm::MeshCandidate &candidate = choice.candidates[choice.chosen];
  mpcomm::applyMesh(candidate, compile);
  return size_t(candidate.graph);
}

/// Adds what --variant asks for to the program itself; 0, or the exit status.
/// `modules` are those of the inputs, null for the program's own, which is the
/// only one of variants, too, if it was chosen.
static int addVariants(const CompileOptions &options,
                       ArrayRef<OwningOpRef<ModuleOp>> modules, bool isChosen,
                       Plans &plans) {
  SmallVector<ModuleOp> graphs = {*plans.front()->module};
  SmallVector<std::string> inputs = {plans.front()->input};
  for (auto [input, module] : llvm::zip(options.inputs, modules))
    if (module && !isChosen) {
      graphs.push_back(*module);
      inputs.push_back(input);
    }
  std::set<size_t> used = {0};
  std::set<std::string> names;
  for (const std::string &text : options.variants) {
    llvm::Expected<mpcomm::VariantRequest> request = mpcomm::parseVariant(text);
    if (!request)
      return fail("--variant: " + llvm::toString(request.takeError()));
    if (!names.insert(request->name).second)
      return fail("--variant: '" + request->name +
                  "' is given twice, expected each name once");
    auto plan = std::make_unique<Plan>();
    plan->name = request->name;
    plan->options.copyOptionValuesFrom(plans.front()->options);
    std::string reason;
    if (failed(plan->options.parse(request->settings, reason)))
      return fail("--variant '" + plan->name + "': " + reason);
    if (options.emit != Emit::Program || options.from != From::Graph ||
        plans.front()->options.target != "cpu" || plan->options.target != "cpu")
      return fail("expected --variant with a training graph, for a program "
                  "file, and for processors");
    if (plan->options.cpu != plans.front()->options.cpu ||
        plan->options.features != plans.front()->options.features)
      return fail("--variant '" + plan->name +
                  "': expected the processor as --cpu, for all of the file");
    if (mpcomm::hasChoice(plan->options))
      return fail("--variant '" + plan->name +
                  "': expected a given mesh and level of zero");
    FailureOr<size_t> graph = mpcomm::findGraph(graphs, plans.front()->options,
                                                plan->options, reason);
    if (failed(graph))
      return fail("--variant '" + plan->name + "': " + reason);
    used.insert(*graph);
    plan->input = inputs[*graph];
    plan->module = graphs[*graph].clone();
    plans.push_back(std::move(plan));
  }
  for (size_t i = 0; i < graphs.size(); ++i)
    if (!used.count(i))
      return fail("expected a variant with micro-batches of '" + inputs[i] +
                  "', no plan is of it");
  return 0;
}

/// Runs the pipelines; 0, or the exit status.
static int compilePlan(const CompileOptions &options, Plan &plan) {
  ModuleOp module = *plan.module;
  std::string reason;
  PassManager passes(module.getContext());
  if (failed(applyPassManagerCLOptions(passes)))
    return 1;
  applyDefaultTimingPassManagerCLOptions(passes);
  if (options.from == From::Graph) {
    if (failed(mpcomm::describeGraph(module, plan.options, reason)) ||
        failed(mpcomm::buildCompilePipeline(passes, plan.options, reason)))
      return fail(plan.name.empty()
                      ? reason
                      : "--variant '" + plan.name + "': " + reason);
  } else {
    if (options.np > 0)
      return fail("expected no --np: rank programs have a mesh");
    if (failed(plan.options.check(reason)))
      return fail(reason);
    // Nobody has looked at programs that are written by hand.
    passes.addPass(mpcomm::createVerifyCommunicationPass());
    mpcomm::buildLowerPipeline(passes, plan.options);
    mpcomm::buildProgramPipeline(passes, plan.options);
  }
  bool hasMesh = !module.getOps<mpcomm::MeshOp>().empty();
  if (failed(passes.run(module)))
    return fail("cannot compile '" + plan.input + "'" +
                (plan.name.empty() ? "" : " as variant '" + plan.name + "'") +
                (hasMesh && options.from == From::Graph
                     ? "; rank programs, which communicate, are compiled with "
                       "--from=programs"
                     : ""));
  if (!options.report)
    return 0;
  if (!plan.name.empty())
    llvm::outs() << "\nvariant " << plan.name << "\n";
  mpcomm::printReport(module, llvm::outs());
  return 0;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  registerMLIRContextCLOptions();
  registerPassManagerCLOptions();
  registerAsmPrinterCLOptions();
  registerDefaultTimingManagerCLOptions();
  mpcomm::setVersion("mpcomm-compile");
  CompileOptions options;
  cl::HideUnrelatedOptions(options.category);
  mpcomm::CompileOptions compile;
  mpcomm::parseCommandLine(
      argc, argv, "mpcomm-compile",
      "mpcomm-compile: compiles a training step for N ranks\n\n"
      "  mpcomm-compile step.mlir -o step.so --np 2 --report\n"
      "  mpcomm-compile step.mlir -o step.so --options=\"mesh=pp:2,dp:2 "
      "micro-batches=8 precision=bf16\"\n\n"
      "`mpcomm-opt --help=mpcomm-compile` lists what --options takes. Options "
      "of MLIR are\ntaken too: --mlir-print-ir-after-all, --mlir-timing, "
      "...\n",
      {mpcomm::checked(options.np), mpcomm::checked(options.from),
       mpcomm::checked(options.emit), mpcomm::checked(options.report),
       mpcomm::checked(options.level)},
      &compile);

  if (options.inputs.empty())
    return fail("expected a training graph, as in mpcomm-compile step.mlir -o "
                "step.so");
  if (options.output.empty())
    return fail("expected the file to write, as in -o step.so");
  std::string settings;
  for (const std::string &setting : options.settings)
    settings += (settings.empty() ? "" : " ") + setting;
  std::string reason;
  if (failed(compile.parse(settings, reason)))
    return fail("--options: " + reason);
  if (compile.cpu.hasValue() || compile.features.hasValue())
    return fail("expected the processor as --cpu, not in --options");
  if (options.level > 3)
    return fail("expected -O0 to -O3, got -O" + llvm::Twine(options.level));
  if (options.np.getNumOccurrences() && options.np < 1)
    return fail("expected --np of at least 1");
  int64_t autoRanks;
  if (options.np > 0 && mpcomm::isAutoMesh(compile.mesh, autoRanks))
    return fail("expected no --np with mesh=auto:N");
  if (options.np > 0 && compile.mesh.hasValue()) {
    FailureOr<int64_t> samples = mpcomm::checkGiven(compile, reason);
    if (failed(samples))
      return fail(reason);
    int64_t ranks = compile.getPipelineRanks() * *samples;
    if (ranks != options.np)
      return fail("expected --np and mesh=" + compile.mesh +
                  " to be of as many ranks, got " + llvm::Twine(options.np) +
                  " and " + llvm::Twine(ranks));
  } else if (options.np > 0) {
    compile.mesh = "dp:" + std::to_string(options.np);
  }
  // Of a program for a GPU the host's part is a list of calls, for any host.
  bool isForHost = compile.target == "cpu" || options.cpu.getNumOccurrences();
  auto codeGen = mpcomm::CodeGen::create(
      isForHost ? options.cpu.getValue() : "generic", options.level);
  if (!codeGen)
    return fail(llvm::toString(codeGen.takeError()));
  compile.cpu = codeGen->getCpu().str();
  compile.features = codeGen->getManifestFeatures();

  DialectRegistry registry;
  registerAllDialects(registry);
  registerAllExtensions(registry);
  registerAllToLLVMIRTranslations(registry);
  mpcomm::registerAllDialects(registry);
  MLIRContext context(registry);
  // An error names its place; the op after some passes says less to a user.
  context.printOpOnDiagnostic(false);

  llvm::SourceMgr sources;
  mpcomm::ToolDiagnostics handler(sources, &context);
  std::vector<OwningOpRef<ModuleOp>> modules;
  for (const std::string &input : options.inputs) {
    modules.push_back(read(input, sources, context));
    if (!modules.back())
      return 1;
  }
  bool isChosen = mpcomm::hasChoice(compile);
  FailureOr<size_t> chosen = choose(options, compile, modules);
  if (failed(chosen))
    return 1;

  Plans plans;
  plans.push_back(std::make_unique<Plan>());
  plans.back()->options.copyOptionValuesFrom(compile);
  plans.back()->input = options.inputs[*chosen];
  plans.back()->module = std::move(modules[*chosen]);
  if (addVariants(options, modules, isChosen, plans))
    return 1;
  for (const std::unique_ptr<Plan> &plan : plans) {
    if (int status = compilePlan(options, *plan))
      return status;
    if (plan->name.empty())
      continue;
    if (llvm::Error error = mpcomm::checkVariant(*plans.front()->module,
                                                 *plan->module, plan->name))
      return fail(llvm::toString(std::move(error)));
  }
  return write(options, *codeGen, plans);
}
