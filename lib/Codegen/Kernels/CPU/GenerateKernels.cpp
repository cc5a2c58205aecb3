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
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mpcomm/Codegen/Kernels.h"
#include "mpcomm/Codegen/Passes.h"
#include "llvm/ADT/MapVector.h"
#include <map>

#define DEBUG_TYPE "mpcomm-generate-kernels"

using namespace mlir;

namespace mpcomm {
#define GEN_PASS_DEF_GENERATEKERNELSPASS
#include "mpcomm/Codegen/Passes.h.inc"

namespace {
using namespace kernels;
using mprt::LaunchOp;

struct GenerateKernelsPass
    : impl::GenerateKernelsPassBase<GenerateKernelsPass> {
  using GenerateKernelsPassBase::GenerateKernelsPassBase;
  LogicalResult initialize(MLIRContext *context) override;
  void runOnOperation() override;

private:
  LogicalResult specialise(func::FuncOp kernel, ArrayRef<LaunchOp> launches,
                           SymbolTable &symbols);
  /// The function for one list of layouts; null on failure.
  func::FuncOp generate(func::FuncOp kernel, ArrayRef<MemRefType> layouts);
};
} // namespace

func::FuncOp GenerateKernelsPass::generate(func::FuncOp kernel,
                                           ArrayRef<MemRefType> layouts) {
  SmallVector<Type> arguments;
  for (MemRefType layout : layouts)
    arguments.push_back(MemRefType::get(layout.getShape(),
                                        memoryType(layout.getElementType()),
                                        layout.getLayout()));
  OpBuilder b(kernel);
  auto function =
      func::FuncOp::create(b, kernel.getLoc(), kernel.getSymName(),
                           FunctionType::get(&getContext(), arguments, {}));
  function.setPrivate();
  function->setAttr(mprt::kKernelAttr, b.getUnitAttr());
  // One call a launch: what is inlined would only make the step longer.
  SmallVector<Attribute> attributes = {b.getStringAttr("noinline")};
  if (vectorBits >= 512)
    attributes.push_back(b.getStrArrayAttr({"prefer-vector-width", "512"}));
  function->setAttr("passthrough", b.getArrayAttr(attributes));
  b.setInsertionPointToStart(function.addEntryBlock());
  func::ReturnOp::create(b, kernel.getLoc());
  LogicalResult status = failure();
  if (auto skipped = kernel->getAttrOfType<IntegerAttr>(kScatterAddAttr)) {
    status = emitScatterAdd(kernel, skipped.getInt(), vectorBits, function);
  } else if (auto model = KernelModel::build(kernel, layouts)) {
    Schedule schedule = Schedule::compute(*model, vectorBits, unrollColumns);
    function->setAttr(mprt::kMovedBytesAttr,
                      b.getI64IntegerAttr(countMovedBytes(*model)));
    status = emitKernel(*model, schedule, function);
  }
  if (succeeded(status))
    return function;
  function.erase();
  return {};
}

LogicalResult GenerateKernelsPass::specialise(func::FuncOp kernel,
                                              ArrayRef<LaunchOp> launches,
                                              SymbolTable &symbols) {
  std::map<std::vector<const void *>, func::FuncOp> made;
  SmallVector<func::FuncOp> functions;
  SmallVector<std::pair<LaunchOp, func::FuncOp>> calls;
  for (LaunchOp launch : launches) {
    FailureOr<SmallVector<MemRefType>> layouts = layoutsOf(launch, kernel);
    if (failed(layouts))
      return failure();
    std::vector<const void *> key;
    for (MemRefType layout : *layouts)
      key.push_back(layout.getAsOpaquePointer());
    func::FuncOp &function = made[key];
    if (!function) {
      function = generate(kernel, *layouts);
      if (!function)
        return failure();
      functions.push_back(function);
    }
    calls.push_back({launch, function});
  }
  // The first takes the kernel's name, the others one of their own.
  Block::iterator place = std::next(kernel->getIterator());
  symbols.erase(kernel);
  for (func::FuncOp function : functions) {
    function->remove();
    symbols.insert(function, place);
  }
  for (auto [launch, function] : calls)
    launch.setKernel(function.getSymName());
  return success();
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
  for (auto &[kernel, calls] : *launches)
    if (failed(specialise(cast<func::FuncOp>(kernel), calls, symbols)))
      return signalPassFailure();
}

} // namespace mpcomm
