//===- Parts.h - values that ranks have parts of ----------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which ops of a function, written in whole types, can work on flat parts:
// those that read a part and nothing of the rank's own beside it, and those of
// which nothing but such an op reads a result.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_SHARD_PARTS_H
#define MPCOMM_LIB_TRANSFORMS_SHARD_PARTS_H

#include "Shard/FlatOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mpcomm/Analysis/Dataflow/AxisShardings.h"

namespace mpcomm {

/// What an argument or a result of a function says that ranks hold.
struct DeclaredSharding {
  ShardingAttr sharding;
  mlir::Type type;
  unsigned index;
  bool isResult;
  /// Whether the type is that of a rank already.
  bool isLocal;

  /// For messages.
  std::string describe(mlir::func::FuncOp function) const;
};

/// Of all arguments, then of all results, that say so.
llvm::SmallVector<DeclaredSharding>
getDeclaredShardings(mlir::func::FuncOp function);

/// How the state of a function is split: flat, over whole axes.
struct FlatSharding {
  ShardingAttr sharding; ///< of one of the arguments or results
  mlir::ArrayAttr axes;  ///< names
  int64_t ranks = 1;

  explicit operator bool() const { return sharding != nullptr; }

  /// Whether `other` is flat, over whole axes, and this one, if there is one.
  bool accepts(ShardingAttr other) const;

  /// That of all arguments and results whose type is still that of the whole;
  /// none where they have none. Fails, with an error, where they differ, or are
  /// split in another way, or the function has several blocks.
  static mlir::FailureOr<FlatSharding> get(mlir::func::FuncOp function);
};

class Parts {
public:
  /// `function` has one block.
  Parts(mlir::func::FuncOp function, const FlatSharding &flat);

  /// Whether ranks have parts of `whole`.
  bool contains(mlir::Value whole) const { return values.contains(whole); }
  /// Whether `op` works on parts, or makes them, or puts one together.
  bool contains(mlir::Operation *op) const { return ops.contains(op); }
  /// Whether the part is what `use` reads.
  bool isReadBy(mlir::OpOperand &use) const;
  bool areAllReadBy(mlir::Value value) const;

private:
  bool isSplittable(mlir::Operation *op, mlir::Value value) const;
  bool markResults(mlir::Operation *op);
  void markCall(mlir::CallOpInterface call);
  void markForward(mlir::Operation &op);
  void markBackward(mlir::Operation &op);

  mlir::func::FuncOp function;
  mlir::Block &body;
  int64_t ranks;
  llvm::SmallVector<AxisShardings, 1> shardings; // by axis
  llvm::DenseSet<mlir::Value> values;
  llvm::DenseSet<mlir::Operation *> ops;
};

/// The function that `call` calls; null where it has no body here.
mlir::func::FuncOp getCallee(mlir::CallOpInterface call);

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_SHARD_PARTS_H
