//===- CompileServer.cpp - compiles many files, each in a process ---------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For tests that compile thousands of small files: libraries are loaded and
// dialects registered once, and each request is served by a forked process, so
// that a crash or a hang is that request's alone. A request is a line of fields
// between tabs:
//
// - program LEVEL SECONDS INPUT OUTPUT OPTIONS: what mpcomm-compile does;
//
// - passes 0 SECONDS INPUT OUTPUT PIPELINE|...: what mpcomm-opt does, with the
//   passes of each pipeline on a copy of the module. It ends at the first that
//   fails: of pipeline K, from 1, with "exit K".
//
// - each 0 SECONDS INPUT OUTPUT -: as passes, in one process, for each line of
//   INPUT, FILE|PIPELINE|..., with SECONDS for each. OUTPUT gets a line for
//   each that was done: K, or 0.
//
// Errors go to OUTPUT.err. The answer is a line: "exit N", or "signal N";
// SIGXCPU says that the processor was busy with it for SECONDS, SIGALRM that
// it took ten times as long without.
//
//===----------------------------------------------------------------------===//

#include "../../../tools/mpcomm-compile/CodeGen.h"
#include "../../../tools/mpcomm-compile/MakeProgram.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mpcomm/InitAllDialects.h"
#include "mpcomm/InitAllPasses.h"
#include "mpcomm/Pipelines/Pipelines.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <map>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir;

namespace {

struct Request {
  std::string mode, input, output, options;
  unsigned level = 0, seconds = 0;
};

class Server {
public:
  Server();
  int serve();

private:
  int run(const Request &request);
  int runPasses(llvm::StringRef pipelines, ModuleOp module);
  int runEach(const Request &request);
  int writeProgram(const Request &request, mpcomm::CodeGen &codeGen,
                   ModuleOp module);

  DialectRegistry registry;
  std::unique_ptr<MLIRContext> context;
  std::map<unsigned, mpcomm::CodeGen> codeGens;
};

} // namespace

static int fail(const llvm::Twine &message) {
  llvm::errs() << "error: " << message << "\n";
  return 1;
}

Server::Server() {
  mlir::registerAllPasses();
  mpcomm::registerAllPasses();
  registerAllDialects(registry);
  registerAllExtensions(registry);
  registerAllToLLVMIRTranslations(registry);
  mpcomm::registerAllDialects(registry);
  // Threads do not live on in a forked process.
  context =
      std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  // A canonicalizer collects the patterns of all dialects that are loaded:
  // those of a program, not all that there are.
  DialectRegistry used;
  PassManager passes(context.get());
  std::string reason;
  for (llvm::StringRef target : {"target=cpu", "target=cuda"}) {
    mpcomm::CompileOptions options;
    if (failed(options.parseFromString(target)) ||
        failed(mpcomm::buildCompilePipeline(passes, options, reason)))
      llvm::report_fatal_error(llvm::Twine("no pipeline for ") + target);
  }
  passes.getDependentDialects(used);
  for (llvm::StringRef name : used.getDialectNames())
    context->getOrLoadDialect(name);
  context->printOpOnDiagnostic(false);
}

int Server::writeProgram(const Request &request, mpcomm::CodeGen &codeGen,
                         ModuleOp module) {
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> translated =
      codeGen.translate(module, llvmContext);
  if (!translated)
    return fail("cannot translate the program to LLVM IR");
  llvm::Expected<std::string> program =
      mpcomm::makeProgram(codeGen, translated.get());
  if (!program)
    return fail(llvm::toString(program.takeError()));
  std::error_code code;
  llvm::raw_fd_ostream file(request.output, code);
  if (code)
    return fail("cannot write '" + request.output + "': " + code.message());
  file << *program;
  return 0;
}

/// From here on. The hard limit stays, at which the signal would be SIGKILL.
static void setLimits(unsigned seconds) {
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  rlim_t before = used.ru_utime.tv_sec + used.ru_stime.tv_sec;
  rlimit limit{before + seconds + 1, RLIM_INFINITY};
  setrlimit(RLIMIT_CPU, &limit);
  alarm(10 * seconds);
}

int Server::runPasses(llvm::StringRef pipelines, ModuleOp module) {
  int number = 0;
  for (llvm::StringRef pipeline : llvm::split(pipelines, '|')) {
    ++number;
    PassManager passes(context.get());
    if (failed(parsePassPipeline(pipeline, passes)))
      return fail("cannot parse the pipeline");
    OwningOpRef<ModuleOp> copy = module.clone();
    if (failed(passes.run(*copy)))
      return number;
  }
  return 0;
}

int Server::runEach(const Request &request) {
  std::ifstream lines(request.input);
  std::ofstream done(request.output);
  for (std::string line; std::getline(lines, line);) {
    setLimits(request.seconds);
    auto [file, pipelines] = llvm::StringRef(line).split('|');
    OwningOpRef<ModuleOp> module =
        parseSourceFile<ModuleOp>(file, context.get());
    done << (module ? runPasses(pipelines, *module) : 1) << std::endl;
  }
  return 0;
}

int Server::run(const Request &request) {
  if (request.mode == "each")
    return runEach(request);
  bool isProgram = request.mode == "program";
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, context.get());
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(request.input, sources, context.get());
  if (!module)
    return fail("cannot read '" + request.input + "'");
  if (!isProgram)
    return runPasses(request.options, *module);
  PassManager passes(context.get());
  if (!module->getName())
    module->setName(llvm::sys::path::stem(request.input));
  mpcomm::CodeGen &codeGen = codeGens.at(request.level);
  mpcomm::CompileOptions options;
  std::string reason;
  if (failed(options.parseFromString(request.options)))
    return fail("cannot parse the options");
  options.cpu = codeGen.getCpu().str();
  options.features = codeGen.getManifestFeatures();
  if (failed(mpcomm::buildCompilePipeline(passes, options, reason)))
    return fail(reason);
  if (failed(passes.run(*module)))
    return fail("cannot compile '" + request.input + "'");
  return writeProgram(request, codeGen, *module);
}

static bool parse(const std::string &line, Request &request) {
  llvm::SmallVector<llvm::StringRef> fields;
  llvm::StringRef(line).split(fields, '\t');
  if (fields.size() != 6 || fields[1].getAsInteger(10, request.level) ||
      fields[2].getAsInteger(10, request.seconds) || request.level > 3 ||
      !llvm::is_contained({"program", "passes", "each"}, fields[0]))
    return false;
  request.mode = fields[0];
  request.input = fields[3];
  request.output = fields[4];
  request.options = fields[5];
  return true;
}

int Server::serve() {
  std::string line;
  while (std::getline(std::cin, line)) {
    Request request;
    if (!parse(line, request))
      return fail("expected 6 fields between tabs, got '" + line + "'");
    if (!codeGens.count(request.level)) {
      auto codeGen = mpcomm::CodeGen::create("native", request.level);
      if (!codeGen)
        return fail(llvm::toString(codeGen.takeError()));
      codeGens.emplace(request.level, std::move(*codeGen));
    }
    pid_t child = fork();
    if (child < 0)
      return fail("cannot fork");
    if (child == 0) {
      std::string errors = request.output + ".err";
      int file =
          open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
      dup2(file, STDERR_FILENO);
      setLimits(request.seconds);
      int status = run(request);
      llvm::errs().flush();
      _exit(status);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
      std::printf("signal %d\n", WTERMSIG(status));
    else
      std::printf("exit %d\n", WEXITSTATUS(status));
    std::fflush(stdout);
  }
  return 0;
}

int main() { return Server().serve(); }
