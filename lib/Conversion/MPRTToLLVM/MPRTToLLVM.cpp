//===- MPRTToLLVM.cpp - a program for the runtime -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions on planned buffers become entry points, flat lists of runtime
// calls, with what the runtime is told of them: the manifest.
//
//===----------------------------------------------------------------------===//

#include "EntryPoint.h"
#include "mpcomm/Conversion/Passes.h"
#include "mpcomm/Dialect/MPRT/IR/ForecastAttr.h"
#include "mpcomm/Dialect/MPRT/IR/GraphAttr.h"
#include "mpcomm/Runtime/mprt.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

namespace mpcomm {
#define GEN_PASS_DEF_CONVERTMPRTTOLLVMPASS
#include "mpcomm/Conversion/Passes.h.inc"
} // namespace mpcomm

using namespace mlir;
using namespace mpcomm;

/// Each after those that it calls; parts of a step before all others. Fails,
/// with an error, where one calls itself, if by way of others.
static FailureOr<SmallVector<func::FuncOp>>
inCallOrder(ArrayRef<func::FuncOp> functions, SymbolTable &symbols) {
  llvm::SetVector<func::FuncOp> order;
  llvm::DenseSet<func::FuncOp> entered;
  std::function<LogicalResult(func::FuncOp)> visit =
      [&](func::FuncOp function) -> LogicalResult {
    if (!entered.insert(function).second)
      return success();
    for (auto call : function.getBody().front().getOps<mprt::CallOp>()) {
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      if (!callee || callee.isExternal())
        continue;
      if (entered.contains(callee) && !order.contains(callee))
        return call.emitOpError()
               << "calls '" << call.getCallee()
               << "', which is being run: a program has no stack for that";
      if (failed(visit(callee)))
        return failure();
    }
    order.insert(function);
    return success();
  };
  for (bool isPrivate : {true, false})
    for (func::FuncOp function : functions)
      if (function.isPrivate() == isPrivate && failed(visit(function)))
        return failure();
  return SmallVector<func::FuncOp>(order.begin(), order.end());
}

/// Code reaches constants by offsets of 32 bits with a sign; the half of that
/// is left for code and for what else is linked.
static constexpr int64_t kMaxConstantBytes = int64_t(1) << 30;

static LogicalResult checkConstants(ModuleOp module) {
  int64_t bytes = 0;
  for (auto global : module.getOps<memref::GlobalOp>()) {
    bytes += mpcomm::detail::countBytes(global.getType());
    if (bytes > kMaxConstantBytes)
      return global.emitOpError()
             << "takes the program's constants to " << bytes
             << " bytes, expected at most " << kMaxConstantBytes
             << ": larger ones can be arguments";
  }
  return success();
}

/// Symbols of the runtime and of what it reads are not to be had.
static LogicalResult checkNames(ModuleOp module) {
  for (auto symbol : module.getOps<SymbolOpInterface>()) {
    StringRef name = symbol.getName();
    if (!isa<LLVM::LLVMFuncOp>(symbol.getOperation()) &&
        (name.starts_with("mprt_") || name == "mpcomm_manifest" ||
         name == "mpcomm_abi_version"))
      return symbol->emitOpError()
             << "has the name '" << name << "', which is the runtime's";
  }
  return success();
}

/// How often a step runs each part: as often as it calls it, and once more
/// where it does the last micro-batch itself, which it does if it has products
/// (those of a pipeline's rank are all in parts). The body of a loop runs in
/// each trip of it, whenever the part with the loop runs.
static llvm::StringMap<int64_t> countRuns(ArrayRef<func::FuncOp> functions) {
  llvm::StringMap<int64_t> runs;
  auto addCalls = [&](func::FuncOp function, int64_t times) {
    llvm::StringMap<int64_t> calls;
    llvm::StringSet<> loops;
    bool hasProducts = false;
    function.walk([&](Operation *op) {
      if (auto call = dyn_cast<mprt::CallOp>(op)) {
        calls[call.getCallee()] += call.countCalls();
        if (call.getTrips())
          loops.insert(call.getCallee());
      }
      hasProducts |= isa<mprt::GemmOp, mprt::ConvolutionOp, mprt::PoolOp>(op);
    });
    for (auto &part : calls) {
      int64_t &most = runs[part.getKey()];
      bool isRepeated = hasProducts && !loops.contains(part.getKey());
      most = std::max(most, mpcomm::detail::multiplySaturated(
                                part.getValue() + isRepeated, times));
    }
  };
  for (func::FuncOp function : functions)
    if (!function.isPrivate())
      addCalls(function, 1);
  for (func::FuncOp function : functions)
    if (function.isPrivate())
      addCalls(function, std::max<int64_t>(runs.lookup(function.getName()), 1));
  return runs;
}

namespace {

struct ConvertMPRTToLLVM
    : public mpcomm::impl::ConvertMPRTToLLVMPassBase<ConvertMPRTToLLVM> {
  using ConvertMPRTToLLVMPassBase::ConvertMPRTToLLVMPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    Manifest manifest(module, device, cpu, features);
    if (failed(checkNames(module)) || failed(checkConstants(module)))
      return signalPassFailure();
    SymbolTable symbols(module);
    Descriptors descriptors(symbols);
    SmallVector<func::FuncOp> functions;
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() && !function->hasAttr(mprt::kKernelAttr))
        functions.push_back(function);
    llvm::StringMap<int64_t> runs = countRuns(functions);
    StreamCallCounter counter(symbols, device);
    PartCommunication parts;
    FailureOr<SmallVector<func::FuncOp>> order =
        inCallOrder(functions, symbols);
    if (failed(order))
      return signalPassFailure();
    for (func::FuncOp function : *order) {
      descriptors.setRuns(
          std::max<int64_t>(runs.lookup(function.getName()), 1));
      if (failed(
              EntryPoint(function, module, symbols, descriptors, parts, device)
                  .run(manifest, counter)))
        return signalPassFailure();
    }
    // The manifest has it, and the mesh.
    for (auto program : llvm::make_early_inc_range(module.getOps<ProgramOp>()))
      program.erase();
    for (func::FuncOp function : functions)
      symbols.erase(function);
    // The descriptors have them.
    for (auto kernel :
         llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      if (kernel->hasAttr(mprt::kGridAttr))
        symbols.erase(kernel);
    for (auto global :
         llvm::make_early_inc_range(module.getOps<memref::GlobalOp>()))
      symbols.erase(global);

    OpBuilder builder(module.getContext());
    builder.setInsertionPointToStart(module.getBody());
    LLVM::GlobalOp::create(builder, module.getLoc(), builder.getI32Type(),
                           /*isConstant=*/true, LLVM::Linkage::External,
                           "mpcomm_abi_version",
                           builder.getI32IntegerAttr(MPRT_ABI_VERSION));
    manifest.setLocations(descriptors.takeLocations());
    if (device != "host")
      manifest.setScratch(descriptors.getScratchBytes());
    descriptors.string(manifest.str(), "mpcomm_manifest");
    for (auto mesh : llvm::make_early_inc_range(module.getOps<MeshOp>()))
      mesh.erase();
    module->removeAttr(mprt::kCommunicatorsAttr);
    module->removeAttr(mprt::kChannelsAttr);
    module->removeAttr(mprt::kMeshAttr);
    module->removeAttr(mprt::kGraphAttr);
    module->removeAttr(mprt::kForecastAttr);
  }
};

} // namespace
