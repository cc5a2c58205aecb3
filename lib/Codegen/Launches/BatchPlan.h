//===- BatchPlan.h - which launches become one ------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A run is a list of launches with nothing between them that a stream does. It
// is cut into batches, lists of launches none of which depends on another; the
// batches run in order, the launches of a batch as one.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_LAUNCHES_BATCHPLAN_H
#define MPCOMM_LIB_CODEGEN_LAUNCHES_BATCHPLAN_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mpcomm/Dialect/MPRT/IR/Address.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include "llvm/ADT/MapVector.h"

namespace mpcomm::batches {

/// What bounds batches.
struct BatchLimits {
  int64_t processors = 132;
  /// Of the pointers that a kernel takes.
  int64_t parameterBytes = 4096;
};

/// A kernel that may be a member of a batch.
struct BatchMember {
  mutable mlir::gpu::GPUFuncOp code; // whose queries are not const
  mprt::GridAttr grid;
  int64_t ops = 0;
  /// No thread knows of another, so that many of any size run well beside it.
  bool isElementwise = false;
  /// It does not fill the device.
  bool isSmall = false;
};

/// One launch of a run.
struct Launch {
  mutable mprt::LaunchOp op;
  const BatchMember *member = nullptr; ///< null: it is no member
  llvm::SmallVector<Access, 4> accesses;
  /// The first collective after it that touches its buffers, counted in the
  /// block; -1: none. What is joined waits for no other.
  int64_t nextStart = -1;
  /// Launches with one number hand on scratch, those of different numbers have
  /// nothing to do with each other; -1: it has none, -2: whatever is there.
  int64_t chain = -1;
  /// Where its scratch begins.
  int64_t scratchOffset = 0;
};

/// Launches of a run, by their numbers, in order.
using Batch = llvm::SmallVector<unsigned>;

/// Batches in place of `run`, in the order in which they run, and scratch for
/// each launch. Quadratic in the length of the run.
llvm::SmallVector<Batch> planBatches(llvm::MutableArrayRef<Launch> run,
                                     const BatchLimits &limits);

/// Whether the function can be a member, and what it is like; none where not.
std::optional<BatchMember> describeMember(mlir::gpu::GPUFuncOp code,
                                          mprt::GridAttr grid,
                                          const BatchLimits &limits);

/// The pointers that a list of launches takes, each once.
class Pointers {
public:
  using Key = std::pair<mlir::Value, mlir::Type>;
  /// The buffers of a launch, as its kernel sees them.
  static llvm::SmallVector<Key> of(const Launch &launch);
  void add(const Launch &launch);
  /// Those that `launch` adds.
  size_t countNew(const Launch &launch) const;
  size_t size() const { return known.size(); }
  /// True for what is written.
  llvm::MapVector<Key, bool> known;
};

} // namespace mpcomm::batches

#endif // MPCOMM_LIB_CODEGEN_LAUNCHES_BATCHPLAN_H
