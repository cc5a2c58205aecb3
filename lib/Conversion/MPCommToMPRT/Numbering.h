//===- Numbering.h - communicators and numbers of collectives ---*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks that take part in one collective give it one number, also where they
// run different functions of a program. Which collectives meet is known by
// their tags; those without one are distinguished by their order on their
// communicator, in which they must meet.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CONVERSION_MPCOMMTOMPRT_NUMBERING_H
#define MPCOMM_LIB_CONVERSION_MPCOMMTOMPRT_NUMBERING_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace mpcomm {

class Numbering {
public:
  explicit Numbering(mlir::ModuleOp module);

  /// What is numbered next is in `function`.
  void enter(mlir::func::FuncOp function);

  /// The communicator of `op`: there is one for each list of axes and channel.
  /// An error where `op` is on another mesh than those before.
  llvm::FailureOr<int64_t> communicatorOf(CollectiveOpInterface op);

  /// The number of one start of `op`, which is on `communicator`; `part` counts
  /// the starts of `op`.
  int64_t idOf(CollectiveOpInterface op, int64_t communicator, unsigned part);

  /// Writes what has been found to the module.
  void note();

private:
  struct Communicator {
    mlir::ArrayAttr axes; // in the order of the mesh
    int64_t channel = 0;
    bool operator==(const Communicator &) const = default;
  };

  mlir::ModuleOp module;
  mlir::FlatSymbolRefAttr mesh;
  llvm::SmallVector<Communicator> communicators;
  /// The program that runs a function.
  llvm::DenseMap<mlir::Attribute, ProgramOp> programs;
  mlir::func::FuncOp function;
  ProgramOp program; // of `function`; null where every rank runs it
  /// Of `function`: collectives without a tag, by communicator.
  llvm::DenseMap<int64_t, int64_t> numUntagged;
  /// Numbers given to what others meet, by a key of all that they agree on.
  llvm::StringMap<int64_t> shared;
  int64_t nextId = 0;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_CONVERSION_MPCOMMTOMPRT_NUMBERING_H
