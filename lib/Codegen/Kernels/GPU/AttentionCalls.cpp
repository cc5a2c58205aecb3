//===- AttentionCalls.cpp - attention that a library may compute ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a mask holds is not known here: the runtime reads it once, which is
// enough if it never changes.
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/AttentionCalls.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPRT/IR/AttentionCall.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mpcomm;

namespace {

class FixedBuffers {
public:
  explicit FixedBuffers(SymbolTable &symbols) : symbols(symbols) {
    symbols.getOp()->walk(
        [&](mprt::CallOp call) { calls[call.getCallee()].push_back(call); });
    symbols.getOp()->walk([&](func::FuncOp function) {
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        if (function.getArgAttr(i, mprt::kUpdateAttr))
          updated.insert(getArgumentName(function, i));
    });
  }

  /// Whether `buffer` has the same elements in each step.
  bool contains(Value buffer);

private:
  bool containsArgument(func::FuncOp function, unsigned number);

  SymbolTable &symbols;
  llvm::StringMap<SmallVector<mprt::CallOp>> calls; // by callee
  llvm::StringSet<> updated; // names of what some function replaces
  llvm::DenseMap<std::pair<Operation *, unsigned>, bool> known;
};

} // namespace

bool FixedBuffers::contains(Value buffer) {
  Value root = mprt::getViewRoot(buffer);
  if (auto get = root.getDefiningOp<memref::GetGlobalOp>()) {
    auto global = symbols.lookup<memref::GlobalOp>(get.getName());
    return global && global.getConstant();
  }
  auto argument = dyn_cast<BlockArgument>(root);
  auto function =
      argument
          ? dyn_cast_or_null<func::FuncOp>(argument.getOwner()->getParentOp())
          : func::FuncOp();
  return function && containsArgument(function, argument.getArgNumber());
}

bool FixedBuffers::containsArgument(func::FuncOp function, unsigned number) {
  // Functions do not call themselves; false stands where one did.
  auto [entry, isNew] = known.try_emplace({function, number}, false);
  if (!isNew)
    return entry->second;
  bool isFixed;
  if (function.isPublic()) {
    isFixed = getArgumentRole(function, number) == Role::Buffer &&
              !updated.contains(getArgumentName(function, number));
  } else {
    ArrayRef<mprt::CallOp> callers = calls[function.getSymName()];
    FailureOr<mprt::CalleeSignature> signature =
        mprt::getCalleeSignature(function);
    isFixed =
        succeeded(signature) && !callers.empty() &&
        number < signature->arguments.size() &&
        signature->arguments[number].kind == mprt::CalleeSignature::Input &&
        llvm::all_of(
            callers,
            [&](mprt::CallOp call) {
              // Each trip of a loop has a part of what is stacked.
              Value given = call.getArguments(*signature)[number];
              return !call.isStacked(given,
                                     function.getArgument(number).getType()) &&
                     contains(given);
            });
  }
  return known[{function, number}] = isFixed;
}

void kernels::markAttentionCalls(ArrayRef<mprt::AttentionOp> ops,
                                 SymbolTable &symbols) {
  FixedBuffers fixed(symbols);
  for (mprt::AttentionOp op : ops) {
    Value mask = op.getMask();
    bool isFixed =
        !mask || op->hasAttr(mprt::kFixedMaskAttr) || fixed.contains(mask);
    if (isFixed && !op.getBias())
      mprt::AttentionCall::set(op);
    op->removeAttr(mprt::kFixedMaskAttr);
  }
}
