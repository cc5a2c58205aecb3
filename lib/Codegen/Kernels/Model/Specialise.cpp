//===- Specialise.cpp - a function for each layout of a kernel ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Model/Specialise.h"
#include "Kernels/Model/LaneOps.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mpcomm/Dialect/MPRT/IR/AttentionCall.h"
#include <map>

using namespace mlir;

namespace mpcomm::kernels {

using mprt::LaunchOp;

func::FuncOp createKernelFunction(Location loc, StringRef name,
                                  ArrayRef<MemRefType> layouts) {
  SmallVector<Type> arguments;
  for (MemRefType layout : layouts)
    arguments.push_back(MemRefType::get(layout.getShape(),
                                        memoryType(layout.getElementType()),
                                        layout.getLayout()));
  auto function = func::FuncOp::create(
      loc, name, FunctionType::get(loc.getContext(), arguments, {}));
  function.setPrivate();
  function->setAttr(mprt::kKernelAttr, UnitAttr::get(loc.getContext()));
  return function;
}

FailureOr<SmallVector<size_t>> Specialiser::emitAll(
    ArrayRef<Operation *> ops, function_ref<const void *(Operation *)> code,
    GetLayouts getLayouts, Emit emit, std::vector<Specialised> &made) {
  using Key = std::pair<std::vector<const void *>, SmallVector<uint64_t>>;
  std::map<Key, size_t> numbers;
  SmallVector<size_t> uses;
  for (auto [i, op] : llvm::enumerate(ops)) {
    FailureOr<SmallVector<MemRefType>> layouts = getLayouts(op);
    if (failed(layouts))
      return failure();
    Key key{{code(op)}, {}};
    for (auto [operand, layout] : llvm::zip(op->getOperands(), *layouts)) {
      key.first.push_back(layout.getAsOpaquePointer());
      key.second.push_back(alignments ? alignments->of(operand) : 0);
    }
    auto [entry, isNew] = numbers.try_emplace(key, made.size());
    if (isNew) {
      FailureOr<Functions> functions = emit(i, *layouts, key.second);
      if (failed(functions))
        return failure();
      made.push_back({op, std::move(*functions)});
    }
    uses.push_back(entry->second);
  }
  return uses;
}

void Specialiser::insert(func::FuncOp function, Block::iterator place) {
  symbols.insert(function, place);
  setName(function);
}

LogicalResult Specialiser::replace(func::FuncOp kernel,
                                   ArrayRef<LaunchOp> launches, Emit emit) {
  SmallVector<Operation *> ops(launches.begin(), launches.end());
  std::vector<Specialised> made;
  auto getLayouts = [&](Operation *op) { return layoutsOf(op, kernel); };
  auto getCode = [&](Operation *) -> const void * { return kernel; };
  FailureOr<SmallVector<size_t>> uses =
      emitAll(ops, getCode, getLayouts, emit, made);
  if (failed(uses))
    return failure();
  Block::iterator place = std::next(kernel->getIterator());
  symbols.erase(kernel);
  for (Specialised &specialised : made)
    for (func::FuncOp function : specialised.functions)
      insert(function, place);
  for (auto [i, number] : llvm::enumerate(*uses)) {
    LaunchOp launch = launches[i];
    OpBuilder b(launch);
    for (func::FuncOp function : made[number].functions) {
      LaunchOp next = launch.clone();
      next.setKernel(function.getSymName());
      b.insert(next);
    }
    launch.erase();
  }
  return success();
}

LogicalResult Specialiser::replace(ArrayRef<Operation *> ops, Emit emit) {
  std::vector<Specialised> made;
  auto getLayouts = [](Operation *op) { return layoutsOf(op); };
  auto getCode = [](Operation *op) {
    return op->getAttrDictionary().getAsOpaquePointer();
  };
  FailureOr<SmallVector<size_t>> uses =
      emitAll(ops, getCode, getLayouts, emit, made);
  if (failed(uses))
    return failure();
  for (Specialised &specialised : made)
    for (func::FuncOp function : specialised.functions)
      insert(function,
             specialised.first->getParentOfType<func::FuncOp>()->getIterator());
  for (auto [op, number] : llvm::zip_equal(ops, *uses)) {
    OpBuilder b(op);
    auto style = cast<DestinationStyleOpInterface>(op);
    Attribute call = op->getAttr(mprt::kAttentionAttr);
    for (func::FuncOp function : made[number].functions) {
      auto launch =
          LaunchOp::create(b, op->getLoc(), TypeRange(), function.getSymName(),
                           style.getDpsInputs(), style.getDpsInits());
      if (call)
        launch->setAttr(mprt::kAttentionAttr, call);
      call = call ? b.getUnitAttr() : call;
    }
    op->erase();
  }
  return success();
}

} // namespace mpcomm::kernels
