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

#include "Kernels/GPU/GPUEmitter.h"
#include "Kernels/GPU/GPUSchedule.h"
#include "Kernels/Model/LaneOps.h"
#include "Kernels/Model/Launches.h"
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
#include <map>

#define DEBUG_TYPE "mpcomm-generate-gpu-kernels"

using namespace mlir;

namespace mpcomm {
#define GEN_PASS_DEF_GENERATEGPUKERNELSPASS
#include "mpcomm/Codegen/Passes.h.inc"

namespace {
using namespace kernels;
using mprt::LaunchOp;

struct GenerateGPUKernelsPass
    : impl::GenerateGPUKernelsPassBase<GenerateGPUKernelsPass> {
  using GenerateGPUKernelsPassBase::GenerateGPUKernelsPassBase;
  LogicalResult initialize(MLIRContext *context) override;
  void runOnOperation() override;

private:
  LogicalResult specialise(func::FuncOp kernel, ArrayRef<LaunchOp> launches,
                           const Alignments &alignments, SymbolTable &symbols);
  /// The functions for one list of layouts.
  FailureOr<SmallVector<GPUKernel>> generate(func::FuncOp kernel,
                                             ArrayRef<MemRefType> layouts,
                                             ArrayRef<uint64_t> alignments);

  /// Makes a kernel of each distinct pool.
  LogicalResult generatePools(ArrayRef<mprt::WindowOp> pools,
                              SymbolTable &symbols);
  LogicalResult generateAttention(ArrayRef<mprt::AttentionOp> ops,
                                  const Alignments &alignments,
                                  SymbolTable &symbols);

  gpu::GPUModuleOp device;
};
} // namespace

FailureOr<SmallVector<GPUKernel>>
GenerateGPUKernelsPass::generate(func::FuncOp kernel,
                                 ArrayRef<MemRefType> layouts,
                                 ArrayRef<uint64_t> alignments) {
  GPULimits limits;
  limits.processors = processors;
  OpBuilder b(&getContext());
  b.setInsertionPointToEnd(device.getBody());
  StringRef name = kernel.getSymName();
  SmallVector<GPUKernel> kernels;
  if (auto skipped = kernel->getAttrOfType<IntegerAttr>(kScatterAddAttr)) {
    if (failed(emitGPUScatterAdd(kernel, skipped.getInt(), layouts, alignments,
                                 limits, b, name, kernels)))
      return failure();
    return kernels;
  }
  std::optional<KernelModel> model = KernelModel::build(kernel, layouts);
  if (!model)
    return failure();
  model->alignments.assign(alignments.begin(), alignments.end());
  splitColumns(*model, limits);
  return emitGPUKernels(*model, GPUSchedule::compute(*model, limits), b, name);
}

/// Blocks of a grid at most (compute capability 3.0 and later).
static constexpr int64_t kMaxBlocks = INT32_MAX;

/// What a launch needs to know of `kernel`, as a declaration beside the host's
/// functions.
static func::FuncOp declare(OpBuilder &b, func::FuncOp like,
                            const GPUKernel &kernel,
                            ArrayRef<MemRefType> layouts) {
  SmallVector<Type> arguments;
  for (MemRefType layout : layouts)
    arguments.push_back(MemRefType::get(layout.getShape(),
                                        memoryType(layout.getElementType()),
                                        layout.getLayout()));
  gpu::GPUFuncOp code = kernel.function;
  auto function =
      func::FuncOp::create(b, like.getLoc(), code.getName(),
                           FunctionType::get(b.getContext(), arguments, {}));
  function.setPrivate();
  function->setAttr(mprt::kKernelAttr, b.getUnitAttr());
  // The blocks of a kernel with a grid-stride loop go over what is left.
  function->setAttr(mprt::kGridAttr,
                    mprt::GridAttr::get(b.getContext(), kernel.threads,
                                        std::min(kernel.blocks, kMaxBlocks),
                                        kernel.gridStride,
                                        kernel.scratchBytes));
  if (kernel.movedBytes >= 0)
    function->setAttr(mprt::kMovedBytesAttr,
                      b.getI64IntegerAttr(kernel.movedBytes));
  return function;
}

LogicalResult GenerateGPUKernelsPass::specialise(func::FuncOp kernel,
                                                 ArrayRef<LaunchOp> launches,
                                                 const Alignments &alignments,
                                                 SymbolTable &symbols) {
  using Key = std::pair<std::vector<const void *>, std::vector<uint64_t>>;
  struct Generated {
    SmallVector<GPUKernel> kernels;
    SmallVector<MemRefType> layouts;
    SmallVector<func::FuncOp> declarations;
  };
  std::map<Key, Generated> made;
  SmallVector<Generated *> inOrder;
  SmallVector<std::pair<LaunchOp, Generated *>> calls;
  for (LaunchOp launch : launches) {
    FailureOr<SmallVector<MemRefType>> layouts = layoutsOf(launch, kernel);
    if (failed(layouts))
      return failure();
    Key key;
    for (auto [operand, layout] : llvm::zip(launch->getOperands(), *layouts)) {
      key.first.push_back(layout.getAsOpaquePointer());
      key.second.push_back(alignments.of(operand));
    }
    auto [entry, isNew] = made.try_emplace(key);
    Generated &generated = entry->second;
    if (isNew) {
      FailureOr<SmallVector<GPUKernel>> kernels =
          generate(kernel, *layouts, key.second);
      if (failed(kernels))
        return failure();
      for (const GPUKernel &code : *kernels)
        if (!code.gridStride && code.blocks > kMaxBlocks)
          return launch.emitOpError()
                 << "would take " << code.blocks << " blocks, expected at most "
                 << kMaxBlocks << " on a GPU";
      generated.kernels = *kernels;
      generated.layouts = *layouts;
      inOrder.push_back(&generated);
    }
    calls.push_back({launch, &generated});
  }
  // The first takes the kernel's name, the others one of their own; code and
  // declaration have the same.
  OpBuilder b(kernel);
  SmallVector<func::FuncOp> declarations;
  for (Generated *generated : inOrder)
    for (const GPUKernel &code : generated->kernels) {
      func::FuncOp declaration = declare(b, kernel, code, generated->layouts);
      declaration->remove();
      generated->declarations.push_back(declaration);
      declarations.push_back(declaration);
    }
  Block::iterator place = std::next(kernel->getIterator());
  symbols.erase(kernel);
  for (func::FuncOp declaration : declarations)
    symbols.insert(declaration, place);
  for (Generated *generated : inOrder)
    for (auto [code, declaration] :
         llvm::zip(generated->kernels, generated->declarations))
      code.function.setName(declaration.getSymName());
  for (auto [launch, generated] : calls) {
    b.setInsertionPoint(launch);
    for (func::FuncOp declaration : generated->declarations) {
      auto next = cast<LaunchOp>(b.clone(*launch));
      next.setKernel(declaration.getSymName());
    }
    launch.erase();
  }
  return success();
}

LogicalResult
GenerateGPUKernelsPass::generatePools(ArrayRef<mprt::WindowOp> pools,
                                      SymbolTable &symbols) {
  std::map<std::vector<const void *>, func::FuncOp> made;
  for (mprt::WindowOp pool : pools) {
    FailureOr<SmallVector<MemRefType>> layouts = layoutsOf(pool);
    if (failed(layouts))
      return failure();
    std::vector<const void *> key{
        pool->getDiscardableAttrDictionary().getAsOpaquePointer(),
        pool.getProperties().window.getAsOpaquePointer(),
        pool.getProperties().strides.getAsOpaquePointer(),
        pool.getProperties().low.getAsOpaquePointer(),
        pool.getProperties().kind.getAsOpaquePointer(),
        pool.getProperties().channels_last.getAsOpaquePointer(),
        pool.getProperties().count_padding.getAsOpaquePointer()};
    for (MemRefType layout : *layouts)
      key.push_back(layout.getAsOpaquePointer());
    func::FuncOp &declaration = made[key];
    OpBuilder b(pool);
    if (!declaration) {
      b.setInsertionPointToEnd(device.getBody());
      GPUKernel kernel =
          emitGPUPool(pool, *layouts, b, ("kernel_" + pool.getKind()).str());
      auto function = pool->getParentOfType<func::FuncOp>();
      b.setInsertionPoint(function);
      declaration = declare(b, function, kernel, *layouts);
      declaration->remove();
      symbols.insert(declaration, function->getIterator());
      kernel.function.setName(declaration.getSymName());
    }
    b.setInsertionPoint(pool);
    LaunchOp::create(b, pool.getLoc(), TypeRange(), declaration.getSymName(),
                     pool.getInputs(), pool.getOutputs());
    pool.erase();
  }
  return success();
}

LogicalResult
GenerateGPUKernelsPass::generateAttention(ArrayRef<mprt::AttentionOp> ops,
                                          const Alignments &alignments,
                                          SymbolTable &symbols) {
  GPULimits limits;
  limits.processors = processors;
  using Key = std::pair<std::vector<const void *>, std::vector<uint64_t>>;
  std::map<Key, SmallVector<func::FuncOp>> made;
  for (mprt::AttentionOp op : ops) {
    FailureOr<SmallVector<MemRefType>> layouts = layoutsOf(op);
    if (failed(layouts))
      return failure();
    Key key{{op.getKindAttr().getAsOpaquePointer(),
             op.getScaleAttr().getAsOpaquePointer()},
            {}};
    for (auto [operand, layout] : llvm::zip(op->getOperands(), *layouts)) {
      key.first.push_back(layout.getAsOpaquePointer());
      key.second.push_back(alignments.of(operand));
    }
    auto [entry, isNew] = made.try_emplace(key);
    OpBuilder b(op);
    if (isNew) {
      b.setInsertionPointToEnd(device.getBody());
      auto function = op->getParentOfType<func::FuncOp>();
      SmallVector<GPUKernel> kernels =
          emitGPUAttention(op, *layouts, key.second, limits, b,
                           ("kernel_" + op.getKind()).str());
      for (const GPUKernel &kernel : kernels) {
        b.setInsertionPoint(function);
        func::FuncOp declaration = declare(b, function, kernel, *layouts);
        declaration->remove();
        symbols.insert(declaration, function->getIterator());
        gpu::GPUFuncOp code = kernel.function;
        code.setName(declaration.getSymName());
        entry->second.push_back(declaration);
      }
    }
    b.setInsertionPoint(op);
    for (func::FuncOp declaration : entry->second)
      LaunchOp::create(b, op.getLoc(), TypeRange(), declaration.getSymName(),
                       op.getInputs(), op.getOutputs());
    op.erase();
  }
  return success();
}

LogicalResult GenerateGPUKernelsPass::initialize(MLIRContext *context) {
  if (processors >= 1 && processors <= 4096)
    return success();
  return emitError(UnknownLoc::get(context))
         << "expected 'processors' in [1, 4096], got " << processors.getValue();
}

void GenerateGPUKernelsPass::runOnOperation() {
  SymbolTable symbols(getOperation());
  FailureOr<LaunchesByKernel> launches =
      collectLaunches(getOperation(), symbols);
  if (failed(launches))
    return signalPassFailure();
  SmallVector<mprt::WindowOp> pools;
  getOperation().walk([&](mprt::WindowOp op) {
    if (*op.getKindNumber() > MPRT_CONVOLUTION_FILTER_GRAD &&
        isa<MemRefType>(op->getOperandTypes().front()))
      pools.push_back(op);
  });
  SmallVector<mprt::AttentionOp> attention;
  getOperation().walk([&](mprt::AttentionOp op) {
    if (isa<MemRefType>(op->getOperandTypes().front()))
      attention.push_back(op);
  });
  if (launches->empty() && pools.empty() && attention.empty())
    return;
  OpBuilder b = OpBuilder::atBlockEnd(getOperation().getBody());
  device =
      gpu::GPUModuleOp::create(b, getOperation().getLoc(), mprt::kGPUModule);
  device->remove();
  symbols.insert(device, getOperation().getBody()->end());
  Alignments alignments(getOperation());
  for (auto &[kernel, calls] : *launches)
    if (failed(
            specialise(cast<func::FuncOp>(kernel), calls, alignments, symbols)))
      return signalPassFailure();
  if (failed(generatePools(pools, symbols)) ||
      failed(generateAttention(attention, alignments, symbols)))
    return signalPassFailure();
}

} // namespace mpcomm
