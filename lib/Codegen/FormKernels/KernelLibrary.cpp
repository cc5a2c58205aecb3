//===- KernelLibrary.cpp - kernels of a module, each once -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FormKernels/KernelLibrary.h"
#include "mlir/IR/OperationSupport.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

using namespace mlir;
using namespace mpcomm;

/// Equal for functions that `isSame` takes for equal.
static size_t hashKernel(func::FuncOp kernel) {
  llvm::hash_code hash =
      llvm::hash_value(kernel.getFunctionType().getAsOpaquePointer());
  kernel.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    hash =
        llvm::hash_combine(hash, OperationEquivalence::computeHash(
                                     op, OperationEquivalence::ignoreHashValue,
                                     OperationEquivalence::ignoreHashValue,
                                     OperationEquivalence::IgnoreLocations));
  });
  return hash;
}

static bool isSame(func::FuncOp a, func::FuncOp b) {
  return a.getFunctionType() == b.getFunctionType() &&
         OperationEquivalence::isRegionEquivalentTo(
             &a.getBody(), &b.getBody(), OperationEquivalence::IgnoreLocations);
}

func::FuncOp KernelLibrary::add(func::FuncOp kernel, StringRef label) {
  auto &candidates = byHash[hashKernel(kernel)];
  for (func::FuncOp known : candidates)
    if (isSame(known, kernel)) {
      kernel.erase();
      return known;
    }
  unsigned number = numOfLabel[label]++;
  kernel.setName(("kernel_" + label + "_" + Twine(number)).str());
  kernel.setPrivate();
  kernel->setAttr(mprt::kKernelAttr, UnitAttr::get(kernel.getContext()));
  symbols.insert(kernel, module.getBody()->end());
  candidates.push_back(kernel);
  ++numKernels;
  return kernel;
}
