//===- CodeGen.cpp - from the LLVM dialect to a program file --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CodeGen.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace mpcomm;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

static Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

Expected<CodeGen> CodeGen::create(StringRef cpu, unsigned optLevel) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  CodeGen result;
  result.optLevel = optLevel;
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  std::string message;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return makeError(message);
  result.cpu = cpu.str();
  llvm::SubtargetFeatures features;
  if (cpu == "native") {
    result.cpu = llvm::sys::getHostCPUName().str();
    for (auto &feature : llvm::sys::getHostCPUFeatures())
      features.AddFeature(feature.first(), feature.second);
  }
  result.features = features.getString();
  std::unique_ptr<llvm::MCSubtargetInfo> info(
      target->createMCSubtargetInfo(triple, result.cpu, result.features));
  if (!info || !info->isCPUStringValid(result.cpu))
    return makeError("unknown processor '" + result.cpu + "'");
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  options.FunctionSections = true; // so that a linker can fold them
  result.machine.reset(target->createTargetMachine(
      triple, result.cpu, result.features, options, llvm::Reloc::PIC_));
  if (!result.machine)
    return makeError("cannot generate code for " + triple.str());
  result.machine->setOptLevel(optLevel == 0   ? llvm::CodeGenOptLevel::None
                              : optLevel == 1 ? llvm::CodeGenOptLevel::Less
                              : optLevel == 2
                                  ? llvm::CodeGenOptLevel::Default
                                  : llvm::CodeGenOptLevel::Aggressive);
  return result;
}

/// Those features without which the generated code would be refused by a
/// processor; the runner checks them before it runs anything.
std::string CodeGen::getManifestFeatures() const {
  static constexpr StringRef known[] = {
      "avx",      "avx2",     "fma",      "f16c",       "avx512f",   "avx512bw",
      "avx512dq", "avx512vl", "avx512cd", "avx512bf16", "avx512fp16"};
  const llvm::MCSubtargetInfo *info = machine->getMCSubtargetInfo();
  llvm::SmallVector<std::string> names;
  for (StringRef name : known)
    if (info->checkFeatures(("+" + name).str()))
      names.push_back(("+" + name).str());
  return llvm::join(names, ",");
}

/// Without instructions for bf16, values of that type live in f32 where they
/// cross blocks, and code for that calls `__truncsfbf2` (to nearest, ties to
/// even), which libraries of compilers before GCC 13 lack.
static llvm::Function *defineBFloatTruncation(llvm::Module &module) {
  llvm::IRBuilder<> builder(module.getContext());
  auto *type = llvm::FunctionType::get(
      builder.getBFloatTy(), {builder.getFloatTy()}, /*isVarArg=*/false);
  auto *function = llvm::Function::Create(type, llvm::Function::WeakAnyLinkage,
                                          "__truncsfbf2", module);
  function->setVisibility(llvm::GlobalValue::HiddenVisibility);
  builder.SetInsertPoint(
      llvm::BasicBlock::Create(module.getContext(), "", function));
  llvm::Value *wide = function->getArg(0);
  llvm::Value *bits = builder.CreateBitCast(wide, builder.getInt32Ty());
  llvm::Value *high = builder.CreateLShr(bits, 16);
  llvm::Value *tie = builder.CreateAnd(high, 1);
  llvm::Value *nearest = builder.CreateLShr(
      builder.CreateAdd(bits, builder.CreateAdd(tie, builder.getInt32(0x7fff))),
      16);
  llvm::Value *quiet = builder.CreateOr(high, 0x40);
  llvm::Value *word =
      builder.CreateSelect(builder.CreateFCmpUNO(wide, wide), quiet, nearest);
  builder.CreateRet(builder.CreateBitCast(
      builder.CreateTrunc(word, builder.getInt16Ty()), builder.getBFloatTy()));
  return function;
}

/// Without instructions for bf16, code for a vector of it moves one element at
/// a time. Integers of as many bits move as one.
static void moveBFloatsAsIntegers(llvm::Module &module) {
  llvm::IRBuilder<> builder(module.getContext());
  auto getMoved = [&](llvm::Type *type) -> llvm::Type * {
    auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
    return vector && vector->getElementType()->isBFloatTy()
               ? llvm::FixedVectorType::get(builder.getInt16Ty(),
                                            vector->getNumElements())
               : nullptr;
  };
  for (llvm::Function &function : module)
    for (llvm::BasicBlock &block : function)
      for (llvm::Instruction &op : llvm::make_early_inc_range(block)) {
        builder.SetInsertPoint(&op);
        if (auto *load = llvm::dyn_cast<llvm::LoadInst>(&op)) {
          llvm::Type *moved = getMoved(load->getType());
          if (!moved || !load->isSimple())
            continue;
          llvm::LoadInst *bits = builder.CreateAlignedLoad(
              moved, load->getPointerOperand(), load->getAlign());
          bits->copyMetadata(*load);
          load->replaceAllUsesWith(
              builder.CreateBitCast(bits, load->getType()));
          load->eraseFromParent();
        } else if (auto *store = llvm::dyn_cast<llvm::StoreInst>(&op)) {
          llvm::Value *value = store->getValueOperand();
          llvm::Type *moved = getMoved(value->getType());
          if (!moved || !store->isSimple())
            continue;
          llvm::StoreInst *bits = builder.CreateAlignedStore(
              builder.CreateBitCast(value, moved), store->getPointerOperand(),
              store->getAlign());
          bits->copyMetadata(*store);
          store->eraseFromParent();
        }
      }
}

std::unique_ptr<llvm::Module> CodeGen::translate(mlir::ModuleOp module,
                                                 llvm::LLVMContext &context) {
  std::unique_ptr<llvm::Module> llvmModule =
      mlir::translateModuleToLLVMIR(module, context);
  if (!llvmModule)
    return nullptr;
  llvmModule->setDataLayout(machine->createDataLayout());
  llvmModule->setTargetTriple(machine->getTargetTriple());
  const llvm::MCSubtargetInfo *info = machine->getMCSubtargetInfo();
  bool wide = info->checkFeatures("+avx512f");
  // The optimizer does not see the calls that use it.
  if (!info->checkFeatures("+avx512bf16"))
    llvm::appendToCompilerUsed(*llvmModule,
                               defineBFloatTruncation(*llvmModule));
  for (llvm::Function &function : *llvmModule) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", cpu);
    function.addFnAttr("target-features", features);
    if (wide) { // kernels are written in 512-bit vectors
      function.addFnAttr("prefer-vector-width", "512");
      function.addFnAttr("min-legal-vector-width", "512");
    }
  }
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(machine.get());
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  llvm::OptimizationLevel level = optLevel == 0   ? llvm::OptimizationLevel::O0
                                  : optLevel == 1 ? llvm::OptimizationLevel::O1
                                  : optLevel == 2 ? llvm::OptimizationLevel::O2
                                                  : llvm::OptimizationLevel::O3;
  llvm::ModulePassManager passes =
      optLevel == 0 ? builder.buildO0DefaultPipeline(level)
                    : builder.buildPerModuleDefaultPipeline(level);
  passes.run(*llvmModule, modules);
  // Last: the optimizer would bring the type back.
  if (!info->checkFeatures("+avx512bf16"))
    moveBFloatsAsIntegers(*llvmModule);
  return llvmModule;
}

Error CodeGen::emitObject(llvm::Module &module,
                          llvm::raw_pwrite_stream &stream) {
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr,
                                   llvm::CodeGenFileType::ObjectFile))
    return makeError("cannot generate object files for this target");
  passes.run(module);
  return Error::success();
}

Error mpcomm::linkShared(llvm::ArrayRef<std::string> objects,
                         StringRef output) {
  // Where there may be none in PATH, one is installed beside this program.
  std::string self = llvm::sys::fs::getMainExecutable(
      nullptr, reinterpret_cast<void *>(&mpcomm::linkShared));
  StringRef beside = llvm::sys::path::parent_path(self);
  for (StringRef name : {"ld.lld-22", "ld.lld", "ld", "ld.bfd", "ld.gold"}) {
    llvm::ErrorOr<std::string> linker =
        llvm::sys::findProgramByName(name, {beside});
    if (!linker)
      linker = llvm::sys::findProgramByName(name);
    if (!linker)
      continue;
    llvm::SmallVector<StringRef> args{*linker, "-shared", "-o", output};
    args.append(objects.begin(), objects.end());
    if (name.contains("lld") && objects.size() > 1)
      args.push_back("--icf=all");
    // Functions of libm and libc that kernels call are found by the loader.
    std::string message;
    int status = llvm::sys::ExecuteAndWait(*linker, args, std::nullopt, {}, 0,
                                           0, &message);
    if (status == 0)
      return Error::success();
    return makeError("'" + *linker + "' failed on '" + objects.front() + "'" +
                     (message.empty() ? "" : ": " + message));
  }
  return makeError("found no linker (ld.lld or ld) in PATH");
}
