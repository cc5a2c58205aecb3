//===- Replicas.h - what all ranks of a group run and have ------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which values are the same on all ranks of a group, in a function that a pass
// rewrites. AxisShardings proves it for functions whose arguments all say by
// their roles what they are; of others only what a collective has made the same
// is known to be.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_COMMUNICATE_REPLICAS_H
#define MPCOMM_LIB_TRANSFORMS_COMMUNICATE_REPLICAS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mpcomm/Analysis/Dataflow/AxisShardings.h"
#include "llvm/ADT/DenseMap.h"
#include <memory>

namespace mpcomm {

/// Who runs the functions of a module.
class RankFunctions {
public:
  explicit RankFunctions(mlir::ModuleOp module);

  /// Whether all ranks of a group over `axes` run the same functions: no
  /// mpcomm.program gives them different ones.
  bool areShared(mlir::ArrayAttr axes) const;

  bool hasOneMesh() const { return numMeshes == 1; }

private:
  llvm::DenseSet<mlir::Attribute> programAxes;
  int64_t numMeshes = 0;
};

/// Has to see all ops that are made and erased while it is asked:
/// builders take it as their listener.
class Replicas : public mlir::RewriterBase::Listener {
public:
  Replicas(mlir::FunctionOpInterface function, const RankFunctions &ranks);

  /// Whether `value` is the same on all ranks of the group of `op`. May walk
  /// the function the first time that an axis is asked about.
  bool isReplicated(mlir::Value value, CollectiveOpInterface op);
  bool isReplicated(mlir::Value value, mlir::FlatSymbolRefAttr mesh,
                    mlir::ArrayAttr axes);

  void notifyOperationInserted(mlir::Operation *op,
                               mlir::OpBuilder::InsertPoint) override;
  void notifyOperationErased(mlir::Operation *op) override;

private:
  mlir::FunctionOpInterface function;
  const RankFunctions &ranks;
  bool hasRoles;
  llvm::DenseMap<mlir::Attribute, std::unique_ptr<AxisShardings>> byAxis;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_COMMUNICATE_REPLICAS_H
