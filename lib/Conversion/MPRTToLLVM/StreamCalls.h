//===- StreamCalls.h - what a step runs on the compute stream ---*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Counts the runtime calls of a function on the compute stream, those of its
// parts as often as it calls them. A trace has one event for each of them, in
// order, so the counts tell which events are a pass of a pipeline.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CONVERSION_MPRTTOLLVM_STREAMCALLS_H
#define MPCOMM_LIB_CONVERSION_MPRTTOLLVM_STREAMCALLS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"

namespace mpcomm {

/// Calls of a function, by what they run.
struct StreamCalls {
  int64_t kernels = 0, products = 0, windows = 0, copies = 0;

  int64_t all() const { return kernels + products + windows + copies; }
  /// Adds `times` times what `other` has.
  void add(const StreamCalls &other, int64_t times = 1);
};

class StreamCallCounter {
public:
  /// `device`: host or cuda, on which a product and its epilogue, or the
  /// kernels of an attention, are one call.
  StreamCallCounter(mlir::SymbolTable &symbols, llvm::StringRef device)
      : symbols(symbols), device(device) {}

  /// Of a function of runtime calls (Form 5).
  StreamCalls count(mlir::func::FuncOp function);

  /// The passes of micro-batches among the calls of `function`, in order:
  /// `action`, `stage`, the number of calls before it (`first`) and its own
  /// (`calls`).
  llvm::json::Array passes(mlir::func::FuncOp function);

private:
  StreamCalls countOp(mlir::Operation *op);

  mlir::SymbolTable &symbols;
  llvm::StringRef device;
  llvm::StringMap<StreamCalls> known; // by function
};

} // namespace mpcomm

#endif // MPCOMM_LIB_CONVERSION_MPRTTOLLVM_STREAMCALLS_H
