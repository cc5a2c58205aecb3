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
#include <set>
#include <vector>

namespace mpcomm {

/// Follows GSPMD (Xu et al., "GSPMD: General and Scalable Parallelization for
/// ML Computation Graphs", 2021) with the factors of Shardy: what is split
/// along one dimension of a factor is split along the factor's others, whether
/// of operands or results. Ops without a reduced factor come first, and ops in
/// program order; a value keeps the sharding that reaches it first. What is
/// declared stays; so do arguments of public functions that are no state, which
/// have to be fed. For ops of few operands, n log n in the ops and the
/// dimensions that are split.
class Propagation {
public:
  /// Of all functions of `module` that it follows, over the axes of `mesh`. The
  /// shardings that are declared in them are of it.
  Propagation(mlir::ModuleOp module, MeshOp mesh);

  /// Whether the function has one block, which returns its results.
  static bool follows(mlir::func::FuncOp function);

  /// What ranks hold of `value`, of a block of a function; null where its type
  /// has no static shape.
  ShardingAttr get(mlir::Value value) const;
  /// The dimensions of that alone.
  ShardingAttr getSplit(mlir::Value value) const;

  /// Of the ops of a function.
  struct Counts {
    /// Values that some reader needs in another sharding than they have, or
    /// that their op computes in another one.
    llvm::DenseSet<mlir::Value> moved;
    int64_t bytes = 0; ///< of these, whole; twice of those to be reduced
    int64_t split = 0, partial = 0; ///< results
  };
  /// Of `function`, which is followed.
  const Counts &getCounts(mlir::func::FuncOp function) const {
    return counts.find(function)->second;
  }

private:
  using Dims = llvm::SmallVector<mlir::ArrayAttr, 4>;
  struct Held {
    Dims dims; ///< for each the axes that split it; null for none
    mlir::ArrayAttr partial, local;
    ShardingAttr declared;
    bool isFixed = false;
  };
  /// A dimension of a value.
  struct Member {
    mlir::Value value;
    int64_t dim;
  };
  using Members = llvm::SmallVector<Member, 4>;
  /// Another value that is split alike, but over none of `except`, names.
  struct Tie {
    mlir::Value value;
    mlir::ArrayAttr except;
  };
  /// What an op's factor is split over.
  struct Choice {
    const ShardingFactor *factor;
    mlir::ArrayAttr axes;
    int64_t saved; ///< bytes that would move if it were not
  };

  Held *find(mlir::Value value) {
    auto found = held.find(value);
    return found == held.end() ? nullptr : &found->second;
  }
  const Held *find(mlir::Value value) const {
    auto found = held.find(value);
    return found == held.end() ? nullptr : &found->second;
  }
  Dims getDims(mlir::Value value) const;
  bool isPartial(mlir::Value value) const;
  int64_t countRanksOf(mlir::ArrayAttr axes) const;

  void add(mlir::Value value);
  void tie(mlir::Value a, mlir::Value b, mlir::ArrayAttr except = {});
  void tieOf(mlir::func::FuncOp function);
  void fix(mlir::Value value, ShardingAttr declared);
  void seed(mlir::func::FuncOp function);

  void push(mlir::Operation *op);
  void split(const Member &member, mlir::ArrayAttr axes);
  mlir::ArrayAttr choose(const Members &members) const;
  void propagate(const Members &members, int64_t size);
  static Members getMembers(mlir::Operation *op, const ShardingFactor &factor);
  void visit(mlir::Operation *op);
  void visitTies(mlir::Value value);
  void run();

  void count(mlir::Value value, Counts &found) const;
  void countUnlike(mlir::Value value, llvm::ArrayRef<mlir::ArrayAttr> dims,
                   Counts &found) const;
  llvm::SmallVector<Choice> chooseAxes(mlir::Operation *op,
                                       const ShardingRule &rule) const;
  void countMoved(mlir::Operation *op, llvm::ArrayRef<Choice> taken,
                  Counts &found) const;
  void setPartial(mlir::Value value, llvm::ArrayRef<mlir::Attribute> partial,
                  Counts &found);
  void finishReturn(mlir::func::FuncOp function, Counts &found);
  void finishCollective(CollectiveOpInterface op, Counts &found);
  void finishPerGradient(mlir::Operation *op, Counts &found);
  void finishByRule(mlir::Operation *op, const ShardingRule &rule,
                    Counts &found);
  void finish(mlir::Operation *op, Counts &found);

  mutable MeshOp mesh; // a handle; not changed
  mlir::FlatSymbolRefAttr meshName;
  llvm::DenseMap<mlir::Value, Held> held;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Tie, 1>> ties;
  llvm::DenseMap<mlir::Operation *, Counts> counts;
  /// Ops by their number, those that are to be visited, and values whose ties
  /// are.
  std::vector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, size_t> numbers;
  std::set<size_t> queue;
  std::deque<mlir::Value> changed;
  bool isFirst = true; // no op with a reduced factor yet
};

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_SHARD_PROPAGATION_H
