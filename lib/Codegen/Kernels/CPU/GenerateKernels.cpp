//===- GenerateKernels.cpp - linalg kernels to loops over vectors ---------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pass: one function on buffers per kernel and layout of its operands, in
// place of the kernel's tensor form.
//
//===----------------------------------------------------------------------===//

#include "Kernels/CPU/KernelEmitter.h"
#include "Kernels/Model/KernelModel.h"
#include "Kernels/Model/LaneOps.h"
#include "Kernels/Model/Launches.h"
#include "Kernels/Model/Schedule.h"
#include "Kernels/Model/Specialise.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mpcomm/Codegen/Kernels.h"
#include "mpcomm/Codegen/Passes.h"

#define DEBUG_TYPE "mpcomm-generate-kernels"

using namespace mlir;

namespace mpcomm {
#define GEN_PASS_DEF_GENERATEKERNELSPASS
#include "mpcomm/Codegen/Passes.h.inc"

namespace {
using namespace kernels;

struct GenerateKernelsPass
    : impl::GenerateKernelsPassBase<GenerateKernelsPass> {
  using GenerateKernelsPassBase::GenerateKernelsPassBase;
  LogicalResult initialize(MLIRContext *context) override;
  void runOnOperation() override;

private:
  /// The function for one list of layouts.
  FailureOr<Functions> generate(func::FuncOp kernel,
                                ArrayRef<MemRefType> layouts);
};
} // namespace

FailureOr<Functions>
GenerateKernelsPass::generate(func::FuncOp kernel,
                              ArrayRef<MemRefType> layouts) {
  func::FuncOp function =
      createKernelFunction(kernel.getLoc(), kernel.getSymName(), layouts);
  OpBuilder b(&getContext());
  // One call a launch: what is inlined would only make the step longer.
  SmallVector<Attribute> attributes = {b.getStringAttr("noinline")};
  if (vectorBits >= 512)
    attributes.push_back(b.getStrArrayAttr({"prefer-vector-width", "512"}));
  function->setAttr("passthrough", b.getArrayAttr(attributes));
  b.setInsertionPointToStart(function.addEntryBlock());
  func::ReturnOp::create(b, kernel.getLoc());
  LogicalResult status = failure();
  if (isScatterKernel(kernel)) {
    if (auto scatter = ScatterModel::build(kernel, layouts)) {
      emitScatter(*scatter, vectorBits, function);
      status = success();
    }
  } else if (auto model = KernelModel::build(kernel, layouts)) {
    Schedule schedule =
        Schedule::compute(*model, vectorBits, unrollColumns, cacheBytes);
    function->setAttr(mprt::kMovedBytesAttr,
                      b.getI64IntegerAttr(countMovedBytes(*model)));
    status = emitKernel(*model, schedule, function);
  }
  if (succeeded(status))
    return Functions{function};
  function.erase();
  return failure();
}

LogicalResult GenerateKernelsPass::initialize(MLIRContext *context) {
  if (llvm::isPowerOf2_32(vectorBits) && vectorBits >= 32 && vectorBits <= 4096)
    return success();
  return emitError(UnknownLoc::get(context))
         << "expected 'vector-bits' to be a power of two in [32, 4096], got "
         << vectorBits.getValue();
}

void GenerateKernelsPass::runOnOperation() {
  SymbolTable symbols(getOperation());
  FailureOr<LaunchesByKernel> launches =
      collectLaunches(getOperation(), symbols);
  if (failed(launches))
    return signalPassFailure();
  Specialiser specialiser(symbols, /*alignments=*/nullptr, [](func::FuncOp) {});
  for (auto &[kernel, calls] : *launches) {
    auto tensorForm = cast<func::FuncOp>(kernel);
    auto emit = [&](size_t, ArrayRef<MemRefType> layouts, ArrayRef<uint64_t>) {
      return generate(tensorForm, layouts);
    };
    if (failed(specialiser.replace(tensorForm, calls, emit)))
      return signalPassFailure();
  }
}

} // namespace mpcomm
