//===- AxisShardings.h - what ranks along an axis hold ----------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A forward dataflow analysis over the lattice
//
//                local
//     /       |      |      \     (of two that differ: local)
//  split  exchanged  partial ...
//    |        |      |      |
//  share      |      |      |     (of a share and a split: the split)
//     \       |      |      /
//             replicated
//
// for each value of a program whose types are those of a rank. The result is
// conservative: "local" if in doubt.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_DATAFLOW_AXISSHARDINGS_H
#define MPCOMM_ANALYSIS_DATAFLOW_AXISSHARDINGS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SetVector.h"
#include <string>

namespace mpcomm {

/// What the ranks along one axis hold of a value.
class AxisSharding {
public:
  enum Kind : uint8_t {
    Replicated, ///< all of them the same
    Exchanged,  ///< what each has for this one, along a dimension
    Share,      ///< blocks of the sum of that, in some arrangement
    Split,      ///< blocks of it, along a dimension
    Partial,    ///< what has yet to be reduced
    Local       ///< values of their own
  };

  AxisSharding() = default;
  static AxisSharding local() { return {Local, 0}; }
  static AxisSharding share() { return {Share, 0}; }
  static AxisSharding exchanged(int64_t dim) {
    return {Exchanged, static_cast<int32_t>(dim)};
  }
  static AxisSharding split(int64_t dim, bool isPadded = false) {
    AxisSharding sharding(Split, static_cast<int32_t>(dim));
    sharding.padded = isPadded;
    return sharding;
  }
  static AxisSharding partial(Reduction reduction) {
    return {Partial, static_cast<int32_t>(reduction)};
  }

  Kind getKind() const { return kind; }
  bool isReplicated() const { return kind == Replicated; }
  bool isSplit() const { return kind == Split; }
  /// Whether ranks hold blocks, of which together there is a whole.
  bool isOfBlocks() const { return kind == Split || kind == Share; }
  /// The dimension that is split, or along which the other ranks' lie.
  int64_t getDim() const {
    assert(isSplit() || kind == Exchanged);
    return detail;
  }
  /// Whether elements behind those of the whole fill the last blocks up, so
  /// that a reduction of all elements is none of the whole.
  bool isPadded() const { return padded; }
  bool isSplitAlong(int64_t dim) const {
    return kind == Split && detail == dim;
  }
  bool isPartial(Reduction reduction) const {
    return kind == Partial && detail == static_cast<int32_t>(reduction);
  }
  bool operator==(const AxisSharding &other) const = default;
  /// Equal but for padding.
  bool isAs(const AxisSharding &other) const {
    return kind == other.kind && detail == other.detail;
  }

  /// The least that is above both.
  AxisSharding join(AxisSharding other) const {
    if (*this == other || other.isReplicated() ||
        (isSplit() && other.kind == Share))
      return *this;
    if (isAs(other))
      return split(detail, true);
    return isReplicated() || (kind == Share && other.isSplit()) ? other
                                                                : local();
  }
  /// For people: `replicated`, `exchanged along dimension 0`, `a share`, `split
  /// along dimension 0`, `partial sum`, `local`.
  std::string describe() const;

private:
  AxisSharding(Kind kind, int32_t detail) : kind(kind), detail(detail) {}
  Kind kind = Replicated;
  int32_t detail = 0; // dimension or reduction
  bool padded = false;
};

/// What `sharding` says of `axis`, for the type that a rank holds: what is flat
/// is split along its only dimension. A part of an axis is as good as all of
/// it.
AxisSharding getAxisSharding(ShardingAttr sharding, llvm::StringRef axis);

/// Whether `op`, of which `rule` is, gives terms of its results for terms of
/// the operands that `isPartial`, by one of the sets that the rule names.
bool isLinearIn(mlir::Operation *op, const ShardingRule &rule,
                llvm::function_ref<bool(mlir::Value)> isPartial);

/// How ranks that have parts of the gradients of `op` reduce what it makes of
/// all of them, a norm or a flag; nothing for other ops, and where parts do not
/// do.
std::optional<Reduction> getReductionOfGradients(mlir::Operation *op);

/// The function that `op` calls, if it has a body of one block and takes the
/// operands as its arguments; else null.
mlir::FunctionOpInterface getFollowedCallee(mlir::Operation *op);

/// The shardings along `axis` in a function that all ranks run:
/// - arguments are what their `mpcomm.sharding` says; without it, those of role
///   `batch` and `rng` are local, and futures from outside, others replicated;
/// - collectives over the axis make what they are named for: an all_reduce of
///   partial or local values is replicated, as is a broadcast, and an
///   all_gather, unless of blocks along another dimension; a reduce_scatter is
///   split; an all_to_all that puts pieces where they came from is exchanged
///   along that dimension;
/// - what is computed of exchanged values, and of replicated ones whose
///   elements are all equal, or which are made of constants and equal along
///   that dimension, by an op with a sharding rule is exchanged along the
///   dimension that the rule gives; a sum over that dimension is a share, and
///   so is what is computed of shares. Which block of which whole it is, is the
///   program's to say: a share is as good as a split value;
/// - results of an op with a sharding rule are what the rule says: of operands
///   that are split along dimensions of one factor, split or partial (local of
///   state that is split flat and filled up); of partial sums in which the op
///   is linear, partial;
/// - sums of squares of split values are partial;
/// - results of an update by a rank's own gradients (`mpcomm.local_update`) are
///   local where an operand is not replicated;
/// - a recv over another axis of what several stages hold (`kTiedTag`) is
///   replicated where all that is sent with its tag is, each time by another
///   public function of the module whose arguments have roles, or by what it
///   calls, whatever they receive themselves;
/// - results of other recvs, of other collectives over the axis, of ops that
/// depend on
///   the rank's coordinate on it, and of ops with unknown effects, or with an
///   operand, or a value used in one of their regions, that is not replicated,
///   are local.
///
/// Calls of functions of one block are followed; the results hold for all calls
/// of a function together. An op with regions is iterated to a fixed point.
/// Linear in the number of ops for straight-line code, of the function and,
/// where it receives what several stages hold, of those that send it; each
/// level of loops may double the time.
class AxisShardings {
public:
  /// The assumption about the gradients of optimizer ops, and about the
  /// magnitude of mpcomm.update_fp8_scale, but for updates by a rank's own.
  enum class Gradients {
    AsTheyAre,
    Reduced, ///< replicated, whatever get() returns
  };

  /// `function` may be a declaration.
  AxisShardings(mlir::FunctionOpInterface function, llvm::StringRef axis,
                Gradients gradients = Gradients::AsTheyAre);

  mlir::StringAttr getAxis() const { return axis; }

  AxisSharding get(mlir::Value value) const { return states.lookup(value); }
  /// Whether ranks may hold different values.
  bool varies(mlir::Value value) const { return states.contains(value); }

  /// Marks `value`, and everything that depends on it, as local. Linear in the
  /// number of ops.
  void vary(mlir::Value value);

  /// Adds a new `op`. It must not change the sharding of a value.
  void add(mlir::Operation *op) { visit(op); }

  /// Must be called before `op`, which has no regions, is erased.
  void forget(mlir::Operation *op) {
    for (mlir::Value result : op->getResults())
      states.erase(result);
  }

  /// The optimizer ops of the function, in program order, but for updates by a
  /// rank's own gradients.
  llvm::ArrayRef<OptimizerOpInterface> getOptimizers() const {
    return optimizers.getArrayRef();
  }

  /// The innermost op with regions, or branch, because of which only some ranks
  /// may execute `op`; null if all ranks execute it.
  mlir::Operation *getDivergence(mlir::Operation *op) const;

  /// A value that varies by itself, such as a batch argument, on which `value`
  /// depends. `value` must vary.
  mlir::Value getOrigin(mlir::Value value) const;

  /// A description of getOrigin(), for a note.
  std::string describeOrigin(mlir::Value value) const;

private:
  AxisShardings(mlir::FunctionOpInterface function, llvm::StringRef axis,
                Gradients gradients, bool followsMessages);
  void findSent(mlir::ModuleOp module);
  /// Whether ranks receive the same, as a message that the class follows.
  bool isSentReplicated(mlir::Operation *receive);

  /// Joins; true where that changes something.
  bool mark(mlir::Value value, AxisSharding sharding = AxisSharding::local());
  bool markResults(mlir::Operation *op,
                   AxisSharding sharding = AxisSharding::local());
  bool visit(mlir::Operation *op);
  bool visitByRule(mlir::Operation *op, const ShardingRule &rule);
  bool visitExchanged(mlir::Operation *op, const ShardingRule &rule);
  bool visitCollective(CollectiveOpInterface op);
  bool visitPerGradient(OptimizerOpInterface op,
                        llvm::ArrayRef<mlir::OpOperand *> gradients);
  bool visitOptimizer(OptimizerOpInterface op);
  bool visitAwait(AwaitOp op);
  bool visitCall(mlir::Operation *call, mlir::FunctionOpInterface callee);
  bool visitRegion(mlir::Region &region);
  bool anyVaries(mlir::ValueRange values) const;
  bool dependsOnVaryingScalar(mlir::Operation *op) const;

  mlir::FunctionOpInterface function;
  mlir::StringAttr axis;
  Gradients gradients;
  bool followsMessages;
  /// By tag, whether what is sent in other functions is replicated; once asked
  /// for.
  std::optional<llvm::DenseMap<mlir::StringAttr, bool>> sentReplicated;
  /// Those that are not replicated.
  llvm::DenseMap<mlir::Value, AxisSharding> states;
  llvm::SetVector<OptimizerOpInterface> optimizers;
  llvm::DenseSet<mlir::Operation *> followed; // functions that are called
};

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_DATAFLOW_AXISSHARDINGS_H
