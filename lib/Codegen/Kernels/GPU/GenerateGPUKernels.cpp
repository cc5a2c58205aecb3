//===- GenerateGPUKernels.cpp - linalg kernels to code for a GPU ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pass: functions of a gpu.module per kernel and layout of its operands, in
// place of the kernel's tensor form.
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/AttentionCalls.h"
#include "Kernels/GPU/GPUEmitter.h"
#include "Kernels/GPU/GPUSchedule.h"
#include "Kernels/GPU/GPUTranspose.h"
#include "Kernels/Model/LaneOps.h"
#include "Kernels/Model/Launches.h"
#include "Kernels/Model/ScatterModel.h"
#include "Kernels/Model/Specialise.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mpcomm/Codegen/Passes.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Runtime/mprt.h"

#define DEBUG_TYPE "mpcomm-generate-gpu-kernels"

using namespace mlir;

namespace mpcomm {
#define GEN_PASS_DEF_GENERATEGPUKERNELSPASS
#include "mpcomm/Codegen/Passes.h.inc"

namespace {
using namespace kernels;

struct GenerateGPUKernelsPass
    : impl::GenerateGPUKernelsPassBase<GenerateGPUKernelsPass> {
  using GenerateGPUKernelsPassBase::GenerateGPUKernelsPassBase;
  LogicalResult initialize(MLIRContext *context) override;
  void runOnOperation() override;

private:
  LogicalResult emitCode(func::FuncOp kernel, ArrayRef<MemRefType> layouts,
                         ArrayRef<uint64_t> alignments, OpBuilder &b,
                         SmallVectorImpl<GPUKernel> &kernels);
  /// What the host knows of kernels in place of `op`: declarations beside its
  /// functions, of the names that the code gets in `setName`.
  FailureOr<Functions> declare(Operation *op, ArrayRef<GPUKernel> kernels,
                               ArrayRef<MemRefType> layouts);
  void setName(func::FuncOp declaration) {
    codeOf.lookup(declaration).setName(declaration.getSymName());
  }

  GPULimits limits;
  gpu::GPUModuleOp device;
  llvm::DenseMap<Operation *, gpu::GPUFuncOp> codeOf; // by declaration
};
} // namespace

LogicalResult
GenerateGPUKernelsPass::emitCode(func::FuncOp kernel,
                                 ArrayRef<MemRefType> layouts,
                                 ArrayRef<uint64_t> alignments, OpBuilder &b,
                                 SmallVectorImpl<GPUKernel> &kernels) {
  StringRef name = kernel.getSymName();
  if (isScatterKernel(kernel))
    return emitGPUScatter(kernel, layouts, alignments, limits, b, name,
                          kernels);
  std::optional<KernelModel> model = KernelModel::build(kernel, layouts);
  if (!model)
    return failure();
  model->alignments.assign(alignments.begin(), alignments.end());
  if (std::optional<TransposePlan> plan = matchTranspose(*model)) {
    kernels.push_back(emitGPUTranspose(*model, *plan, b, name));
    return success();
  }
  splitColumns(*model, limits);
  llvm::append_range(
      kernels,
      emitGPUKernels(*model, GPUSchedule::compute(*model, limits), b, name));
  return success();
}

/// Bytes of shared memory of a block at most, on any chip.
static constexpr int64_t kMaxShared = 227 << 10;

/// Blocks of a grid at most (compute capability 3.0 and later).
static constexpr int64_t kMaxBlocks = INT32_MAX;

FailureOr<Functions>
GenerateGPUKernelsPass::declare(Operation *op, ArrayRef<GPUKernel> kernels,
                                ArrayRef<MemRefType> layouts) {
  for (const GPUKernel &kernel : kernels)
    if (!kernel.gridStride && kernel.blocks > kMaxBlocks)
      return op->emitOpError()
             << "would take " << kernel.blocks << " blocks, expected at most "
             << kMaxBlocks << " on a GPU";
  Builder b(&getContext());
  Functions declarations;
  for (const GPUKernel &kernel : kernels) {
    gpu::GPUFuncOp code = kernel.function;
    func::FuncOp function =
        createKernelFunction(code.getLoc(), code.getName(), layouts);
    // The blocks of a kernel with a grid-stride loop go over what is left.
    function->setAttr(mprt::kGridAttr,
                      mprt::GridAttr::get(b.getContext(), kernel.threads,
                                          std::min(kernel.blocks, kMaxBlocks),
                                          kernel.gridStride,
                                          kernel.scratchBytes));
    if (kernel.sharedBytes)
      function->setAttr(mprt::kSharedBytesAttr,
                        b.getI64IntegerAttr(kernel.sharedBytes));
    if (kernel.movedBytes >= 0)
      function->setAttr(mprt::kMovedBytesAttr,
                        b.getI64IntegerAttr(kernel.movedBytes));
    codeOf[function] = code;
    declarations.push_back(function);
  }
  return declarations;
}

LogicalResult GenerateGPUKernelsPass::initialize(MLIRContext *context) {
  if (processors < 1 || processors > 4096)
    return emitError(UnknownLoc::get(context))
           << "expected 'processors' in [1, 4096], got "
           << processors.getValue();
  if (launchShared < 0 || launchShared > kMaxShared)
    return emitError(UnknownLoc::get(context))
           << "expected 'launch-shared' in [0, " << kMaxShared << "], got "
           << launchShared.getValue();
  return success();
}

void GenerateGPUKernelsPass::runOnOperation() {
  SymbolTable symbols(getOperation());
  FailureOr<LaunchesByKernel> launches =
      collectLaunches(getOperation(), symbols);
  if (failed(launches))
    return signalPassFailure();
  SmallVector<mprt::PoolOp> pools;
  getOperation().walk([&](mprt::PoolOp op) {
    if (isa<MemRefType>(op->getOperandTypes().front()))
      pools.push_back(op);
  });
  SmallVector<mprt::AttentionOp> attention;
  getOperation().walk([&](mprt::AttentionOp op) {
    if (isa<MemRefType>(op->getOperandTypes().front()))
      attention.push_back(op);
  });
  if (launches->empty() && pools.empty() && attention.empty())
    return;
  markAttentionCalls(attention, symbols);
  OpBuilder b = OpBuilder::atBlockEnd(getOperation().getBody());
  device =
      gpu::GPUModuleOp::create(b, getOperation().getLoc(), mprt::kGPUModule);
  device->remove();
  symbols.insert(device, getOperation().getBody()->end());
  b.setInsertionPointToEnd(device.getBody());
  limits.processors = processors;
  limits.warpgroups = warpgroups;
  limits.launchShared = launchShared;
  codeOf.clear();
  Alignments alignments(getOperation());
  auto rename = [&](func::FuncOp declaration) { setName(declaration); };
  Specialiser specialiser(symbols, &alignments, rename);
  for (auto &[kernel, calls] : *launches) {
    auto tensorForm = cast<func::FuncOp>(kernel);
    auto emit = [&, &calls = calls](
                    size_t i, ArrayRef<MemRefType> layouts,
                    ArrayRef<uint64_t> aligned) -> FailureOr<Functions> {
      SmallVector<GPUKernel> kernels;
      if (failed(emitCode(tensorForm, layouts, aligned, b, kernels)))
        return failure();
      return declare(calls[i], kernels, layouts);
    };
    if (failed(specialiser.replace(tensorForm, calls, emit)))
      return signalPassFailure();
  }
  auto emitPool = [&](size_t i, ArrayRef<MemRefType> layouts,
                      ArrayRef<uint64_t> aligned) {
    std::string name = ("kernel_" + pools[i].getKind()).str();
    return declare(pools[i], emitGPUPool(pools[i], layouts, aligned, b, name),
                   layouts);
  };
  auto emitAttention = [&](size_t i, ArrayRef<MemRefType> layouts,
                           ArrayRef<uint64_t> aligned) {
    std::string name = ("kernel_" + attention[i].getKind()).str();
    return declare(
        attention[i],
        emitGPUAttention(attention[i], layouts, aligned, limits, b, name),
        layouts);
  };
  if (failed(specialiser.replace(llvm::to_vector_of<Operation *>(pools),
                                 emitPool)) ||
      failed(specialiser.replace(llvm::to_vector_of<Operation *>(attention),
                                 emitAttention)))
    return signalPassFailure();
}

} // namespace mpcomm
