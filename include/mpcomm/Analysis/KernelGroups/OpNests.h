//===- OpNests.h - the loop nests that an op becomes ------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What nests a compute op becomes is what its lowering makes of it: the op is
// lowered alone, once for each name, attributes and types, and the result is
// kept. The lowering itself is registered as an interface of the dialect, for
// the analysis does not depend on conversions.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_KERNELGROUPS_OPNESTS_H
#define MPCOMM_ANALYSIS_KERNELGROUPS_OPNESTS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectInterface.h"
#include "mpcomm/Analysis/KernelGroups/KernelGroups.h"
#include <map>
#include <memory>
#include <mutex>

namespace mpcomm {

/// What one op becomes when it is lowered alone: a block of nests, views, fills
/// and others, of which a product has one. Its values are those of `problem`.
struct LoweredOp {
  struct Step {
    size_t key;               // equal where two do the same to their operands
    bool isReshape = false;   // of its source
    bool isGeneric = false;   // may read through any index
    bool isBroadcast = false; // repeats the elements of what it reads
    bool isWidening = false;  // of what it reads, element by element
    bool isProduct = false;   // a runtime library computes it
    llvm::SmallVector<int, 2> uses; // values, those of regions apart
  };
  KernelProblem problem;
  std::vector<Step> steps;       // by op of the problem
  std::vector<mlir::Type> types; // by value
  std::vector<int> operands;     // values; -1: in the code, or not needed
  std::vector<int> results;      // values
  int numOthers = 0;             // steps of OpKind::Other that make tensors
  bool isProduct = false;        // a runtime library computes it

  bool hasNests() const { return !problem.nests.empty(); }
};

/// Lowers compute ops to linalg. Thread-safe.
class OpLoweringInterface
    : public mlir::DialectInterface::Base<OpLoweringInterface> {
public:
  using Base::Base;

  /// What ops become on a device with or without a kernel for attention; null
  /// for one that becomes more than LoweredOp has. Time: that of hashing
  /// attributes and types, for ops whose like has been seen.
  std::vector<const LoweredOp *> get(llvm::ArrayRef<mlir::Operation *> ops,
                                     bool fusesAttention) const;

protected:
  /// Lowers the compute ops of functions, and simplifies what comes out.
  virtual llvm::LogicalResult lower(mlir::ModuleOp module,
                                    bool fusesAttention) const = 0;

private:
  std::vector<std::unique_ptr<LoweredOp>>
  lowerAlone(llvm::ArrayRef<mlir::Operation *> ops, bool fusesAttention) const;

  mutable std::mutex mutex;
  mutable std::map<std::vector<const void *>, std::unique_ptr<LoweredOp>> known;
};

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_KERNELGROUPS_OPNESTS_H
