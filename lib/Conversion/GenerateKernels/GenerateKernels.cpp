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

#include "mpcomm/Conversion/GenerateKernels/GenerateKernels.h"
#include "KernelEmitter.h"
#include "KernelModel.h"
#include "LaneOps.h"
#include "Schedule.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mpcomm/Conversion/Passes.h"
#include "llvm/ADT/MapVector.h"
#include <map>

#define DEBUG_TYPE "mpcomm-generate-kernels"

using namespace mlir;

namespace mpcomm {
#define GEN_PASS_DEF_GENERATEKERNELSPASS
#include "mpcomm/Conversion/Passes.h.inc"

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

/// The strides of an empty buffer, which no type tells: row-major ones of the
/// smallest buffer that holds it.
static SmallVector<int64_t> stridesOfEmpty(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t d = static_cast<int64_t>(shape.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * std::max<int64_t>(shape[d + 1], 1);
  return strides;
}

/// The buffers of a launch as its kernel sees them: offset 0, same strides,
/// bytes for i1.
static FailureOr<SmallVector<MemRefType>> layoutsOf(LaunchOp launch) {
  SmallVector<MemRefType> layouts;
  for (auto [i, type] : llvm::enumerate(launch->getOperandTypes())) {
    auto memref = dyn_cast<MemRefType>(type);
    if (!memref)
      return launch.emitOpError() << "has operand #" << i << " of type " << type
                                  << ", expected a buffer";
    SmallVector<int64_t> strides;
    int64_t offset;
    if (memref.getNumElements() == 0) {
      strides = stridesOfEmpty(memref.getShape());
      layouts.push_back(MemRefType::get(
          memref.getShape(), memref.getElementType(),
          StridedLayoutAttr::get(launch.getContext(), 0, strides)));
      continue;
    }
    if (failed(memref.getStridesAndOffset(strides, offset)) ||
        llvm::is_contained(strides, ShapedType::kDynamic) ||
        llvm::any_of(strides, [](int64_t stride) { return stride < 0; }))
      return launch.emitOpError() << "has operand #" << i << " of type " << type
                                  << ", expected strides known and positive";
    MemRefType plain =
        MemRefType::get(memref.getShape(), memref.getElementType());
    if (plain.getStridesAndOffset().first != strides)
      plain = MemRefType::get(
          memref.getShape(), memref.getElementType(),
          StridedLayoutAttr::get(launch.getContext(), 0, strides));
    layouts.push_back(plain);
  }
  return layouts;
}

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
    FailureOr<SmallVector<MemRefType>> layouts = layoutsOf(launch);
    if (failed(layouts))
      return failure();
    for (auto [i, layout, type] :
         llvm::enumerate(*layouts, kernel.getArgumentTypes()))
      if (layout.getElementType() != getElementTypeOrSelf(type))
        return launch.emitOpError()
               << "has operand #" << i << " of " << layout.getElementType()
               << ", but the kernel takes " << getElementTypeOrSelf(type);
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

/// Kernels are erased: nothing but launches may name them.
static LogicalResult checkUses(ModuleOp module, const SymbolTable &symbols,
                               llvm::function_ref<bool(Operation *)> isKernel) {
  auto uses = SymbolTable::getSymbolUses(&module.getBodyRegion());
  if (!uses)
    return success();
  for (const SymbolTable::SymbolUse &use : *uses) {
    Operation *named =
        symbols.lookup(use.getSymbolRef().getRootReference().getValue());
    if (named && !isa<LaunchOp>(use.getUser()) && isKernel(named))
      return use.getUser()->emitOpError()
             << "names kernel " << use.getSymbolRef()
             << ", expected only mprt.launch to do so";
  }
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
  ModuleOp module = getOperation();
  SymbolTable symbols(module);
  llvm::MapVector<Operation *, SmallVector<LaunchOp>> launches;
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    if (function->hasAttr(mprt::kKernelAttr) && !function.isExternal())
      launches[function];
  if (failed(checkUses(module, symbols,
                       [&](Operation *op) { return launches.contains(op); })))
    return signalPassFailure();
  module.walk([&](LaunchOp launch) {
    if (Operation *kernel = symbols.lookup(launch.getKernel()))
      if (auto it = launches.find(kernel); it != launches.end())
        it->second.push_back(launch);
  });
  for (auto &[kernel, calls] : launches)
    if (failed(specialise(cast<func::FuncOp>(kernel), calls, symbols)))
      return signalPassFailure();
}

} // namespace mpcomm
