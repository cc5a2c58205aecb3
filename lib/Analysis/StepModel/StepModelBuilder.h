//===- StepModelBuilder.h - a step as timed instructions --------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes a StepModel in a few passes over one block. Ops are numbered by their
// position, the terminator last; values likewise: the arguments, then the
// results in order. Everything is in vectors by these numbers.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_ANALYSIS_STEPMODEL_STEPMODELBUILDER_H
#define MPCOMM_LIB_ANALYSIS_STEPMODEL_STEPMODELBUILDER_H

#include "mpcomm/Analysis/StepModel/StepModel.h"
#include "llvm/ADT/DenseSet.h"

namespace mpcomm {

/// Whether an op becomes part of a kernel: it computes tensors from tensors
/// element by element or row by row in one pass, without other effects.
bool isKernelOp(mlir::Operation *op);

/// How often an op goes over its operands; 1 where it does not say.
int64_t countPasses(mlir::Operation *op);

/// The type whose elements an op with a cost runs over: the largest of its
/// results, and of its operands unless it reads only parts of them.
mlir::RankedTensorType getSpace(mlir::Operation *op);

class StepBuilder {
public:
  /// `caller` models the function that calls this one, if any.
  StepBuilder(mlir::FunctionOpInterface function, const CostModel &model,
              const StepBuilder *caller = nullptr)
      : model(model), caller(caller) {
    step.function = function;
  }

  llvm::FailureOr<StepModel> run();

private:
  /// Ops that one pass over memory runs; see formKernels.
  struct Kernel {
    mlir::RankedTensorType space;
    int slot;
    int members = 1;
    bool isClosed = false;
    bool isLaunched = false;
    int parent; // union-find; its own number if it was not merged away
  };
  /// Memory that values share, from one position to another.
  struct Buffer {
    int64_t bytes;
    int begin, end;
    int owner; // value
  };

  /// What a call of a function of the step takes.
  struct Callee {
    double seconds = 0;
    int64_t bytes = 0; // that live no longer than the call
  };

  llvm::LogicalResult number();
  void findViews();
  void findInlined();
  void findPieces();
  void findUses();
  bool canLieApart(mlir::Value value, llvm::ArrayRef<int64_t> borders,
                   mlir::Operation *writer) const;
  bool isMadeInPlace(ConcatenateOp op, mlir::Value part) const;
  /// Appends what is read where an op has `value` as an operand.
  void addSources(int value, llvm::SmallVectorImpl<int> &read) const;
  llvm::LogicalResult findCalls();
  llvm::LogicalResult modelCallee(mlir::Operation *call,
                                  mlir::FunctionOpInterface function);
  /// The function that an op calls; null where it calls none.
  const Callee *getCallee(int op) const;
  void formKernels();
  void joinKernels(int op);
  int findKernel(int kernel);
  /// The kernel that makes a value, through views or not; -1: none does.
  int getKernelOf(int value);
  /// The position at which an op runs: its kernel's slot.
  int getSlot(int op);
  bool canStayInside(int value);
  bool isOperand(int op, int value) const;
  void fuseFirstPass(int op);
  void costOps();
  double costKernelOp(int op);
  double costPasses(int op);
  double costCopies(int op);
  void applyProfile();
  llvm::LogicalResult findCollectives();
  llvm::LogicalResult addCollective(CollectiveOpInterface op, int position);
  llvm::FailureOr<unsigned> getCommunicator(CollectiveOpInterface op);
  void findAwaits();
  void findLifetimes();
  void addBuffers(int op);
  void addCollectiveBuffers(CollectiveOpInterface op, int position,
                            llvm::SmallVectorImpl<int> &ids);
  void addCallBuffers(int op);
  void addDonations();
  void emitInstructions();
  void linkCollectives();

  int getNumber(mlir::Value value) const;
  int addBuffer(mlir::Type type, int begin, int owner);
  llvm::ArrayRef<int> getUses(int op) const {
    return llvm::ArrayRef(uses).slice(firstUse[op],
                                      firstUse[op + 1] - firstUse[op]);
  }

  const CostModel &model;
  const StepBuilder *caller;
  StepModel step;
  llvm::DenseMap<mlir::Operation *, Callee> parts; // by function
  llvm::DenseMap<int, mlir::Operation *> callees;  // by op

  // By op.
  std::vector<mlir::Operation *> ops;
  std::vector<int> firstUse;
  std::vector<char> isView, isStreamed;
  std::vector<char> isInlined; // nothing but what its readers do
  /// Of concatenations: values that are made in place, bytes of the others.
  llvm::DenseMap<int, llvm::SmallVector<int, 4>> placed;
  llvm::DenseMap<int, llvm::SmallVector<int64_t, 4>> copied;
  /// What the first of several passes finds in the kernel that makes it.
  llvm::DenseMap<int, double> fusedBytes;
  std::vector<int> collectiveOf; // of a collective, async or not; else -1
  std::vector<std::pair<int, int>> awaits; // position, collective; by position

  std::vector<int> uses; // values, of each op after the other
  int numOps = 0;        // without the terminator

  // By value.
  std::vector<mlir::Value> values;
  std::vector<int> def;  // op, -1 of an argument
  std::vector<int> root; // through views
  /// What is read in place of values that their readers compute.
  llvm::DenseMap<int, llvm::SmallVector<int, 4>> sources;
  std::vector<int> useCount;
  std::vector<char> isWritten;
  std::vector<int> bufferOf;

  llvm::DenseSet<std::pair<int, int>> isRead; // kernel and value
  std::vector<Kernel> kernels;
  std::vector<Buffer> buffers;
  /// Buffers of the results of each collective.
  std::vector<llvm::SmallVector<int, 1>> resultBuffers;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_ANALYSIS_STEPMODEL_STEPMODELBUILDER_H
