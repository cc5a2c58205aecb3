//===- Manifest.h - what a program says about itself ------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CONVERSION_MPRTTOLLVM_MANIFEST_H
#define MPCOMM_LIB_CONVERSION_MPRTTOLLVM_MANIFEST_H

#include "StreamCalls.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

namespace mpcomm {

/// Collects the manifest (docs/Design/Manifest.md) of a module's functions.
class Manifest {
public:
  /// `device`: host or cuda. `features`: comma-separated, as in "+avx2,+fma".
  Manifest(mlir::ModuleOp module, llvm::StringRef device, llvm::StringRef cpu,
           llvm::StringRef features);

  /// Adds a bufferized function; `collectives` describes those it runs, and
  /// `counter` counts what it computes.
  llvm::LogicalResult addFunction(mlir::func::FuncOp function,
                                  llvm::StringRef entry, int64_t events,
                                  llvm::json::Array collectives,
                                  StreamCallCounter &counter);
  /// What Descriptors::takeLocations gives.
  void setLocations(llvm::json::Array locations);
  /// The most scratch that a kernel of a GPU takes.
  void setScratch(int64_t bytes);
  std::string str() const;

private:
  /// Coordinates of the ranks that run `function`, and the name of what they
  /// run: no coordinates where all ranks do.
  std::pair<llvm::json::Array, std::string>
  getRanks(mlir::func::FuncOp function);

  /// `sharding` and the shape of the whole, where `attrs` have them.
  void addSharding(llvm::json::Object &tensor, mlir::ShapedType type,
                   mlir::DictionaryAttr attrs);

  mlir::ModuleOp module;
  llvm::json::Object root;
  llvm::json::Array functions;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_CONVERSION_MPRTTOLLVM_MANIFEST_H
