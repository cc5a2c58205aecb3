//===- GPUCode.cpp - LLVM IR to code for a GPU ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See GPUCode.h.
//
//===----------------------------------------------------------------------===//

#include "Assemble/GPUCode.h"
#include "mpcomm/Codegen/Chips.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

#include <cstdlib>
#include <mutex>

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

using namespace llvm;

namespace mpcomm {

static Error makeError(const Twine &message) {
  return createStringError(inconvertibleErrorCode(), message);
}

static void initializeTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

/// The intrinsic that a function of libdevice is; none for those that are code.
static Intrinsic::ID intrinsicOf(StringRef function) {
  if (!function.consume_front("__nv_"))
    return Intrinsic::not_intrinsic;
  function.consume_back("f");
  return StringSwitch<Intrinsic::ID>(function)
      .Case("ceil", Intrinsic::ceil)
      .Case("copysign", Intrinsic::copysign)
      .Case("fabs", Intrinsic::fabs)
      .Case("floor", Intrinsic::floor)
      .Case("fma", Intrinsic::fma)
      .Case("fmax", Intrinsic::maxnum)
      .Case("fmin", Intrinsic::minnum)
      .Case("rint", Intrinsic::rint)
      .Case("round", Intrinsic::round)
      .Case("sqrt", Intrinsic::sqrt)
      .Case("trunc", Intrinsic::trunc)
      .Default(Intrinsic::not_intrinsic);
}

static void useIntrinsics(Module &module) {
  for (Function &function : make_early_inc_range(module)) {
    Intrinsic::ID id = function.isDeclaration()
                           ? intrinsicOf(function.getName())
                           : Intrinsic::not_intrinsic;
    if (id == Intrinsic::not_intrinsic)
      continue;
    for (User *user : make_early_inc_range(function.users())) {
      auto *call = cast<CallInst>(user);
      IRBuilder<> builder(call);
      SmallVector<Value *> arguments(call->args());
      call->replaceAllUsesWith(
          builder.CreateIntrinsic(id, {call->getType()}, arguments));
      call->eraseFromParent();
    }
    function.eraseFromParent();
  }
}

/// Folders that NVIDIA's toolkit may be in.
static SmallVector<std::string> toolkits() {
  SmallVector<std::string> folders;
  if (const char *home = std::getenv("CUDA_HOME"))
    folders.push_back(home);
  folders.push_back("/usr/local/cuda");
  return folders;
}

/// Links what `module` calls of libdevice, where the toolkit is there.
static Error linkLibdevice(Module &module) {
  bool calls = any_of(module, [](const Function &function) {
    return function.isDeclaration() && function.getName().starts_with("__nv_");
  });
  if (!calls)
    return Error::success();
  for (const std::string &folder : toolkits()) {
    SmallString<128> path(folder);
    sys::path::append(path, "nvvm", "libdevice", "libdevice.10.bc");
    auto file = MemoryBuffer::getFile(path);
    if (!file)
      continue;
    auto library = parseBitcodeFile(**file, module.getContext());
    if (!library)
      return library.takeError();
    (*library)->setDataLayout(module.getDataLayout());
    (*library)->setTargetTriple(module.getTargetTriple());
    if (Linker::linkModules(module, std::move(*library),
                            Linker::Flags::LinkOnlyNeeded))
      return makeError("cannot link '" + path + "'");
    // Of the kernels alone.
    for (Function &function : module)
      if (!function.isDeclaration() &&
          function.getCallingConv() != CallingConv::PTX_Kernel)
        function.setLinkage(GlobalValue::InternalLinkage);
    return Error::success();
  }
  return Error::success();
}

static void optimize(Module &module, TargetMachine &machine) {
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager sccs;
  ModuleAnalysisManager modules;
  PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(OptimizationLevel::O3)
      .run(module, modules);
}

/// The assembler unrolls loops even where that takes more registers than a
/// thread has. Threads of the largest blocks, of which 1,024 are to be on a
/// multiprocessor, have 64: their loops stay as they are, with as much in
/// flight as the kernel's schedule says.
static void keepLoopsOfLargeBlocks(Module &module) {
  for (Function &function : module) {
    unsigned threads;
    StringRef size = function.getFnAttribute("nvvm.maxntid").getValueAsString();
    if (function.isDeclaration() ||
        size.split(',').first.getAsInteger(10, threads) || threads < 512)
      continue;
    DominatorTree tree(function);
    LoopInfo loops(tree);
    for (Loop *loop : loops.getLoopsInPreorder())
      loop->setLoopAlreadyUnrolled();
  }
}

/// Whether `module` has copies and products that came with sm_80, for which the
/// backend has no instruction before.
static bool needsSM80(const Module &module) {
  return any_of(module, [](const Function &function) {
    StringRef name = function.getName();
    return name.starts_with("llvm.nvvm.cp.async.") ||
           name.starts_with("llvm.nvvm.mma.m16n8k16.");
  });
}

/// What no pass may copy into branches: inline assembly of kernels is of
/// instructions that all threads of a warp come to.
static void keepTogether(Module &module) {
  for (Function &function : module)
    for (Instruction &instruction : instructions(function))
      if (auto *call = dyn_cast<CallInst>(&instruction);
          call && call->isInlineAsm())
        call->setConvergent();
}

/// Shared memory that launches ask for has no size of its own, and lies behind
/// all that has one.
static void declareLaunchShared(Module &module) {
  constexpr unsigned shared = 3;
  for (GlobalVariable &global : module.globals())
    if (global.getAddressSpace() == shared &&
        global.getValueType()->isArrayTy() &&
        global.getValueType()->getArrayNumElements() == 0) {
      global.setInitializer(nullptr);
      global.setLinkage(GlobalValue::ExternalLinkage);
    }
}

/// Whether `module` multiplies by warpgroups.
static bool needsSM90a(const Module &module) {
  for (const Function &function : module)
    for (const Instruction &instruction : instructions(function))
      if (const auto *call = dyn_cast<CallInst>(&instruction))
        if (const auto *code = dyn_cast<InlineAsm>(call->getCalledOperand());
            code && code->getAsmString().find("wgmma") != std::string::npos)
          return true;
  return false;
}

Expected<std::string> translateToPTX(Module &module, StringRef chip) {
  std::string chips[] = {chip.str()};
  if (!haveFeature(chips, ChipFeature::WarpgroupProducts) && needsSM90a(module))
    return makeError("kernels of attention that multiply by warpgroups need "
                     "sm_90a, got '" +
                     chip + "'");
  if (!haveFeature(chips, ChipFeature::TileProducts) && needsSM80(module))
    return makeError("kernels of attention need sm_80 or later, got '" + chip +
                     "'");
  initializeTarget();
  Triple triple("nvptx64-nvidia-cuda");
  std::string message;
  const Target *target = TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return makeError("this LLVM has no NVPTX backend: " + message);
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Standard;
  std::unique_ptr<MCSubtargetInfo> info(
      target->createMCSubtargetInfo(triple, chip, ""));
  if (!info || !info->isCPUStringValid(chip))
    return makeError("this LLVM does not know the chip '" + chip + "'");
  std::unique_ptr<TargetMachine> machine(
      target->createTargetMachine(triple, chip, "", options, std::nullopt,
                                  std::nullopt, CodeGenOptLevel::Aggressive));
  if (!machine)
    return makeError("cannot generate code for '" + chip + "'");
  module.setDataLayout(machine->createDataLayout());
  module.setTargetTriple(triple);
  useIntrinsics(module);
  keepTogether(module);
  declareLaunchShared(module);
  if (Error error = linkLibdevice(module))
    return std::move(error);
  optimize(module, *machine);
  keepLoopsOfLargeBlocks(module);
  for (const Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic() &&
        !function.use_empty())
      return makeError("kernels use '" + function.getName() +
                       "', which GPUs do not have");
  SmallString<0> text;
  raw_svector_ostream stream(text);
  legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr,
                                   CodeGenFileType::AssemblyFile))
    return makeError("the NVPTX backend writes no assembly");
  passes.run(module);
  return text.str().str();
}

std::optional<std::string> findAssembler(StringRef given) {
  if (!given.empty())
    return given.str();
  for (const std::string &folder : toolkits())
    if (auto found =
            sys::findProgramByName("ptxas", StringRef(folder + "/bin")))
      return *found;
  if (auto found = sys::findProgramByName("ptxas"))
    return *found;
  return std::nullopt;
}

SmallVector<KernelUse> parseAssemblerOutput(StringRef text) {
  SmallVector<KernelUse> kernels;
  auto numberBefore = [](StringRef line, StringRef word) {
    auto [before, after] = line.split(word);
    int64_t value = 0;
    if (before.size() == line.size())
      return value;
    before = before.rtrim();
    size_t digits = before.find_last_not_of("0123456789");
    (void)before.substr(digits + 1).getAsInteger(10, value);
    return value;
  };
  for (StringRef line : split(text, '\n')) {
    if (line.contains("Compiling entry function")) {
      KernelUse kernel;
      kernel.name = line.split('\'').second.split('\'').first.str();
      kernels.push_back(kernel);
    }
    if (kernels.empty())
      continue;
    KernelUse &kernel = kernels.back();
    if (line.contains("stack frame")) {
      kernel.stack = numberBefore(line, " bytes stack frame");
      kernel.spillStores = numberBefore(line, " bytes spill stores");
      kernel.spillLoads = numberBefore(line, " bytes spill loads");
    }
    if (line.contains("Used ")) {
      kernel.registers = numberBefore(line, " registers");
      kernel.sharedBytes = numberBefore(line, " bytes smem");
    }
  }
  return kernels;
}

Expected<Assembly> assemble(StringRef assembler, StringRef ptx,
                            StringRef chip) {
  SmallString<128> source, target, log;
  if (std::error_code code =
          sys::fs::createTemporaryFile("mpcomm", "ptx", source))
    return makeError("cannot make a temporary file: " + code.message());
  scope_exit removeSource([&] { sys::fs::remove(source); });
  if (std::error_code code =
          sys::fs::createTemporaryFile("mpcomm", "cubin", target))
    return makeError("cannot make a temporary file: " + code.message());
  scope_exit removeTarget([&] { sys::fs::remove(target); });
  if (std::error_code code = sys::fs::createTemporaryFile("mpcomm", "log", log))
    return makeError("cannot make a temporary file: " + code.message());
  scope_exit removeLog([&] { sys::fs::remove(log); });
  {
    std::error_code code;
    raw_fd_ostream stream(source, code);
    stream << ptx;
    stream.flush();
    if (code || stream.has_error()) {
      if (!code)
        code = stream.error();
      stream.clear_error();
      return makeError("cannot write '" + source + "': " + code.message());
    }
  }
  std::string arch = ("-arch=" + chip).str();
  SmallVector<StringRef> args{assembler, arch, "-O3", "-v",
                              source,    "-o", target};
  std::optional<StringRef> redirects[] = {StringRef(), log.str(), log.str()};
  std::string message;
  int status = sys::ExecuteAndWait(assembler, args, std::nullopt, redirects, 0,
                                   0, &message);
  auto said = MemoryBuffer::getFile(log);
  StringRef text = said ? (*said)->getBuffer() : StringRef();
  if (status != 0)
    return makeError("'" + assembler + "' failed for " + chip + ": " +
                     (message.empty() ? text.trim() : StringRef(message)));
  auto cubin = MemoryBuffer::getFile(target);
  if (!cubin)
    return makeError("cannot read '" + target +
                     "': " + cubin.getError().message());
  Assembly result;
  result.cubin = (*cubin)->getBuffer().str();
  result.kernels = parseAssemblerOutput(text);
  return result;
}

} // namespace mpcomm
