//===- Propagation.h - shardings through ops, by factors --------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which dimensions of values are split over which axes, given those of some
// arguments and results, in a module whose types are those of the whole.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_SHARD_PROPAGATION_H
#define MPCOMM_LIB_TRANSFORMS_SHARD_PROPAGATION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPComm/IR/ShardingRule.h"
#include "llvm/ADT/DenseMap.h"
#include <deque>

namespace mpcomm {

/// Follows GSPMD (Xu et al., "GSPMD: General and Scalable Parallelization for
/// ML Computation Graphs", 2021) with the factors of Shardy: what is split
/// along one dimension of a factor is split along the factor's others, whether
/// of operands or results. Ops without a reduced factor come first. What is
/// declared stays; so do arguments of public functions that are no state, which
/// have to be fed. Linear in the ops times the dimensions that are split.
class Propagation {
public:
  /// Of all functions of one block in `module`, over the axes of `mesh`.
  Propagation(mlir::ModuleOp module, MeshOp mesh);

  /// What ranks hold of `value`, of a block of a function; null where its type
  /// has no static shape.
  ShardingAttr get(mlir::Value value) const;

  /// Values of which some reader needs, or whose op computes, something else
  /// than is held.
  struct Reshards {
    llvm::DenseSet<mlir::Value> values;
    int64_t bytes = 0; ///< of the whole values; twice of those to be reduced
  };
  /// Of the ops of `function`.
  Reshards getReshards(mlir::func::FuncOp function) const {
    return reshards.lookup(function);
  }

private:
  /// By dimension the axes that split it; null for none.
  struct Held {
    llvm::SmallVector<mlir::ArrayAttr, 4> dims;
    mlir::ArrayAttr partial;
    ShardingAttr declared;
    bool isFixed = false;
  };
  /// A dimension of a value.
  struct Member {
    mlir::Value value;
    int64_t dim;
  };
  using Members = llvm::SmallVector<Member, 4>;
  /// What an op's factor is split over.
  struct Choice {
    const ShardingFactor *factor;
    mlir::ArrayAttr axes;
    int64_t saved; ///< bytes that would move if it were not
  };
  static Members getMembers(mlir::Operation *op, const ShardingFactor &factor);

  void add(mlir::Value value);
  Held *find(mlir::Value value) {
    auto found = held.find(value);
    return found == held.end() ? nullptr : &found->second;
  }
  const Held *find(mlir::Value value) const {
    auto found = held.find(value);
    return found == held.end() ? nullptr : &found->second;
  }
  bool isPartial(mlir::Value value) const;
  void fix(mlir::Value value, ShardingAttr declared);
  void seed(mlir::func::FuncOp function);
  void push(mlir::Operation *op);
  void pushAround(mlir::Value value);
  void split(const Member &member, mlir::ArrayAttr axes);
  mlir::ArrayAttr choose(const Members &members) const;
  void propagate(const Members &members);
  void tie(mlir::Value a, mlir::Value b);
  void visit(mlir::Operation *op, bool isFirst);
  void run(bool isFirst);
  void count(mlir::Value value, Reshards &found) const;
  void countWhole(mlir::ValueRange values, Reshards &found) const;
  llvm::SmallVector<Choice> chooseAxes(mlir::Operation *op,
                                       const ShardingRule &rule) const;
  void countMoved(mlir::Operation *op, llvm::ArrayRef<Choice> taken,
                  Reshards &found) const;
  void finish(mlir::Operation *op, Reshards &found);

  mutable MeshOp mesh; // a handle; not changed
  mlir::FlatSymbolRefAttr meshName;
  llvm::DenseMap<mlir::Value, Held> held;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Operation *, 1>>
      calls; // by function
  llvm::DenseMap<mlir::Operation *, Reshards> reshards;
  std::deque<mlir::Operation *> queue;
  llvm::DenseSet<mlir::Operation *> queued;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_SHARD_PROPAGATION_H
