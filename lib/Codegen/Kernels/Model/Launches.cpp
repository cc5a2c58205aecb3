//===- Launches.cpp - launches of a module's kernels ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Launches.h.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Model/Launches.h"
#include "Kernels/Model/KernelModel.h"
#include "Kernels/Model/ScatterModel.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "mpcomm/Codegen/Kernels.h"
#include <numeric>

using namespace mlir;

namespace mpcomm::kernels {

using mprt::LaunchOp;

/// Bytes of one access at most, and of the buffers that the runtime gives.
static constexpr uint64_t kMaxAlignment = 16;

/// The strides of an empty buffer, which no type tells: row-major ones of the
/// smallest buffer that holds it.
static SmallVector<int64_t> stridesOfEmpty(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t d = static_cast<int64_t>(shape.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * std::max<int64_t>(shape[d + 1], 1);
  return strides;
}

FailureOr<SmallVector<MemRefType>> layoutsOf(Operation *launch) {
  SmallVector<MemRefType> layouts;
  for (auto [i, type] : llvm::enumerate(launch->getOperandTypes())) {
    auto memref = dyn_cast<MemRefType>(type);
    if (!memref)
      return launch->emitOpError() << "has operand #" << i << " of type "
                                   << type << ", expected a buffer";
    SmallVector<int64_t> strides;
    int64_t offset;
    if (memref.getNumElements() == 0) {
      strides = stridesOfEmpty(memref.getShape());
      layouts.push_back(MemRefType::get(
          memref.getShape(), memref.getElementType(),
          StridedLayoutAttr::get(launch->getContext(), 0, strides)));
      continue;
    }
    if (failed(memref.getStridesAndOffset(strides, offset)) ||
        llvm::is_contained(strides, ShapedType::kDynamic) ||
        llvm::any_of(strides, [](int64_t stride) { return stride < 0; }))
      return launch->emitOpError()
             << "has operand #" << i << " of type " << type
             << ", expected strides known and positive";
    MemRefType plain =
        MemRefType::get(memref.getShape(), memref.getElementType());
    if (plain.getStridesAndOffset().first != strides)
      plain = MemRefType::get(
          memref.getShape(), memref.getElementType(),
          StridedLayoutAttr::get(launch->getContext(), 0, strides));
    layouts.push_back(plain);
  }
  return layouts;
}

FailureOr<SmallVector<MemRefType>> layoutsOf(Operation *launch,
                                             func::FuncOp kernel) {
  FailureOr<SmallVector<MemRefType>> layouts = layoutsOf(launch);
  if (failed(layouts))
    return failure();
  for (auto [i, layout, type] :
       llvm::enumerate(*layouts, kernel.getArgumentTypes()))
    if (layout.getElementType() != getElementTypeOrSelf(type))
      return launch->emitOpError()
             << "has operand #" << i << " of " << layout.getElementType()
             << ", but the kernel takes " << getElementTypeOrSelf(type);
  return layouts;
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

FailureOr<LaunchesByKernel> collectLaunches(ModuleOp module,
                                            const SymbolTable &symbols) {
  LaunchesByKernel launches;
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    if (function->hasAttr(mprt::kKernelAttr) && !function.isExternal())
      launches[function];
  if (failed(checkUses(module, symbols,
                       [&](Operation *op) { return launches.contains(op); })))
    return failure();
  module.walk([&](LaunchOp launch) {
    if (Operation *kernel = symbols.lookup(launch.getKernel()))
      if (auto it = launches.find(kernel); it != launches.end())
        it->second.push_back(launch);
  });
  return launches;
}

Alignments::Alignments(ModuleOp module) {
  // Callers come in any order, but callees call no callers of theirs.
  SymbolTableCollection symbols;
  bool changed = true;
  while (changed) {
    changed = false;
    module.walk([&](mprt::CallOp call) {
      auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(
          call, call.getCalleeAttr());
      FailureOr<mprt::CalleeSignature> signature =
          callee ? mprt::getCalleeSignature(callee)
                 : FailureOr<mprt::CalleeSignature>(failure());
      if (failed(signature) || callee.isExternal())
        return;
      for (auto [argument, value] :
           llvm::zip(callee.getArguments(), call.getArguments(*signature))) {
        uint64_t known = of(value);
        if (value && call.isStacked(value, argument.getType()))
          known = std::gcd(known, static_cast<uint64_t>(
                                      detail::countBytes(argument.getType())));
        auto [entry, isNew] = arguments.try_emplace(argument, known);
        changed |= isNew || entry->second > known;
        entry->second = std::min(entry->second, known);
      }
    });
  }
}

uint64_t Alignments::of(Value buffer) const {
  auto type = cast<MemRefType>(buffer.getType());
  SmallVector<int64_t> strides;
  int64_t offset = 0;
  if (type.getElementType().isIndex() ||
      failed(type.getStridesAndOffset(strides, offset)) ||
      ShapedType::isDynamic(offset))
    return 1;
  uint64_t bytes = std::max(1u, type.getElementTypeBitWidth() / 8);
  // The type has the offset from the aligned pointer, which only memref.view
  // moves.
  uint64_t known = std::gcd(kMaxAlignment, offset * bytes);
  while (Operation *op = buffer.getDefiningOp()) {
    if (auto view = dyn_cast<memref::ViewOp>(op)) {
      std::optional<int64_t> shift = getConstantIntValue(view.getByteShift());
      known = std::gcd(known, static_cast<uint64_t>(shift.value_or(1)));
      buffer = view.getSource();
    } else if (auto view = dyn_cast<ViewLikeOpInterface>(op)) {
      buffer = view.getViewSource();
    } else {
      break;
    }
  }
  if (auto part = arguments.find(buffer); part != arguments.end())
    known = std::gcd(known, part->second);
  return known;
}

} // namespace mpcomm::kernels

static bool hasModel(func::FuncOp kernel, ArrayRef<MemRefType> layouts) {
  using namespace mpcomm::kernels;
  return isScatterKernel(kernel)
             ? ScatterModel::build(kernel, layouts).has_value()
             : KernelModel::build(kernel, layouts).has_value();
}

bool mpcomm::canGenerateKernel(func::FuncOp kernel) {
  SmallVector<MemRefType> layouts;
  for (Type type : kernel.getArgumentTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    layouts.push_back(
        MemRefType::get(tensor.getShape(), tensor.getElementType()));
  }
  ScopedDiagnosticHandler quiet(kernel.getContext(),
                                [](Diagnostic &) { return success(); });
  return hasModel(kernel, layouts);
}

bool mpcomm::canGenerateKernel(func::FuncOp kernel, mprt::LaunchOp launch) {
  ScopedDiagnosticHandler quiet(kernel.getContext(),
                                [](Diagnostic &) { return success(); });
  FailureOr<SmallVector<MemRefType>> layouts =
      mpcomm::kernels::layoutsOf(launch, kernel);
  return succeeded(layouts) && hasModel(kernel, *layouts);
}
