//===- StepNests.h - the loop nests of a step -------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The ops of a block as the KernelProblem that mpcomm-form-kernels reads from
// the lowered block: each op as it is lowered alone (OpNests.h), and what the
// passes between do across ops: equal nests are one, broadcasts go into the
// indices of what reads them, reshapes cancel out, widenings are done by their
// readers, products of what was widened from 8 bits read these where the module
// says so (kMultiplyF8Attr), and what nothing needs is gone.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_ANALYSIS_STEPMODEL_STEPNESTS_H
#define MPCOMM_LIB_ANALYSIS_STEPMODEL_STEPNESTS_H

#include "mpcomm/Analysis/KernelGroups/OpNests.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace mpcomm {

class StepNests {
public:
  /// Reads the ops of a block. `lowered` are what they become, null for those
  /// that stay as they are; those of `isView` cost nothing. Time: linear in
  /// ops, operands and uses, but for maps.
  void read(llvm::ArrayRef<mlir::Operation *> ops,
            llvm::ArrayRef<const LoweredOp *> lowered,
            llvm::ArrayRef<char> isView);

  /// A product that reads 8 bits.
  struct F8Product {
    mlir::Type element; ///< of an operand
    int64_t bytes = 0;  ///< that it reads and writes
  };
  llvm::DenseMap<int, F8Product> f8Products; ///< by op

  KernelProblem problem;
  /// By op of the problem: the op that it stems from, and the one at which it
  /// is; widenings are at their readers.
  std::vector<int> origins, positions;
  /// Values that each op of the problem uses.
  std::vector<llvm::SmallVector<int, 4>> uses;

  /// The number of a tensor; -1 of other values.
  int getNumber(mlir::Value value) const {
    auto found = numbers.find(value);
    return found == numbers.end() ? -1 : found->second;
  }

private:
  /// What reads by `index` reads `source` by the loops and constants there.
  struct Broadcast {
    int source;
    LoopIndex index;
  };
  /// A cast to wider floats, which other nests repeat.
  struct Widening {
    LoopNest nest;
    int origin;
    int forProducts = -1; // that the last product read
    int lastProduct = -1; // the number of that product
  };

  int addValue(mlir::Type type);
  int addOp(KernelProblem::OpKind kind, int origin,
            llvm::ArrayRef<int> operands);
  void addResult(int op, int value);
  int lookup(mlir::Value value);
  int addWidening(int value, int origin, int result);
  int repeatWidening(int value, int origin);
  int materialise(int value);
  int materialiseForProduct(int value);
  int reshape(int source, mlir::Type type, int origin);
  void addOpaque(mlir::Operation *op, bool isProduct, int position);
  bool addF8Product(mlir::Operation *op);
  int transpose(int source, llvm::ArrayRef<int64_t> dims);
  int transposeNarrow(mlir::Value value, llvm::ArrayRef<int64_t> dims);
  void addLowered(mlir::Operation *op, const LoweredOp &lowered, int position);
  void addNest(const LoweredOp &lowered, int step,
               llvm::MutableArrayRef<int> map, int position);
  std::pair<llvm::SmallVector<int, 1> &, bool>
  findEqual(size_t step, llvm::ArrayRef<int> operands);
  bool moveToProduct(int value, mlir::Operation *op);
  void foldBroadcasts(LoopNest &nest) const;
  void removeDead();

  int position = 0;    // at which ops are added
  int numProducts = 0; // so far
  std::vector<mlir::Type> types;
  llvm::DenseMap<mlir::Value, int> numbers;
  llvm::DenseMap<size_t, llvm::SmallVector<int, 1>> equal;    // by hash
  llvm::DenseMap<std::pair<int, const void *>, int> reshaped; // root and type
  llvm::DenseMap<int, int> roots;                             // of reshapes
  llvm::DenseMap<int, Broadcast> broadcasts;
  llvm::DenseMap<int, Widening> widenings;                   // by result
  llvm::DenseMap<std::pair<int, const void *>, int> widened; // source and type
  llvm::DenseSet<int> repeated; // results of widenings for one nest each
};

} // namespace mpcomm

#endif // MPCOMM_LIB_ANALYSIS_STEPMODEL_STEPNESTS_H
