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

#include "StepModel/StepNests.h"
#include "mpcomm/Analysis/KernelGroups/Destinations.h"
#include "mpcomm/Analysis/StepModel/StepModel.h"
#include "llvm/ADT/BitVector.h"

namespace mpcomm {

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
  /// Memory that values share, from one position to another.
  struct Buffer {
    int64_t bytes;
    int begin, end;
    int owner;               // value
    bool isInFlight = false; // a collective uses it until it is awaited
  };

  /// What a call of a function of the step takes.
  struct Callee {
    double seconds = 0;
    double waitSeconds = 0; // of these, for communication
    double sentBytes = 0;
    int64_t bytes = 0; // that live no longer than the call
  };

  llvm::LogicalResult number();
  void findViews();
  void findPieces();
  void findUses();
  bool canLieApart(mlir::Value value, llvm::ArrayRef<int64_t> borders,
                   mlir::Operation *writer) const;
  bool isMadeInPlace(ConcatenateOp op, mlir::Value part) const;
  llvm::LogicalResult findCalls();
  llvm::LogicalResult modelCallee(mlir::Operation *call,
                                  mlir::FunctionOpInterface function);
  /// The function that an op calls; null where it calls none.
  const Callee *getCallee(int op) const;
  /// How often an op that has a callee calls it.
  double countCalls(int op) const;
  void addCommunication();
  void findLowered();
  /// Whether kernels compute an op.
  bool hasNests(int op) const;
  /// Whether what an op reads is what its nests, or StepNests::f8Products, say.
  bool readsByNests(int op) const;
  bool takesStrides(mlir::Operation *op) const;
  void formKernels();
  /// The position at which a kernel runs.
  int getSlot(int group) const;
  /// The first and the last position at which kernels of an op run; its own
  /// where it has none.
  std::pair<int, int> getSlots(int op) const;
  /// The position at which a value is made, through views; -1: before.
  int getMadeSlot(int value) const;
  /// Whether a value has memory of its own: a library makes it, or a kernel for
  /// others.
  bool isInMemory(int value) const;
  void costOps();
  void costKernels();
  static double getReadShare(mlir::Operation *op);
  double costCopies(int op, llvm::ArrayRef<int64_t> parts);
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
  void addIntermediates();
  void shareBuffers();
  std::vector<ArenaProblem::Buffer> findLives() const;
  void collectArena();
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
  std::vector<char> isView;
  std::vector<const LoweredOp *> lowered;
  std::vector<llvm::SmallVector<int, 1>> groupsOf; // kernels that run it
  /// Of concatenations: values that are made in place, bytes of the others.
  llvm::DenseMap<int, llvm::SmallVector<int, 4>> placed;
  llvm::DenseMap<int, llvm::SmallVector<int64_t, 4>> copied;
  std::vector<int> collectiveOf; // of a collective, async or not; else -1
  std::vector<std::pair<int, int>> awaits; // position, collective; by position

  std::vector<int> uses; // values, of each op after the other
  int numOps = 0;        // without the terminator

  // By value.
  std::vector<mlir::Value> values;
  std::vector<int> def;  // op, -1 of an argument
  std::vector<int> root; // through views
  std::vector<int> useCount;
  std::vector<int> bufferOf;

  StepNests nests;
  std::optional<KernelGroups> groups;
  struct Kernel {
    int group;
    KernelOperands operands;
  };
  std::vector<Kernel> kernels; // by slot
  struct Share {
    int op, group; // -1: in no kernel
    double seconds;
  };
  std::vector<Share> shares; // what ops take, by where
  std::vector<Buffer> buffers;
  llvm::DenseMap<int, int> bufferOfNumber;     // by number of nests
  llvm::SmallVector<Destination> destinations; // of results of kernels
  llvm::BitVector isDonated;                   // of what is returned
  /// Buffers of the results of each collective.
  std::vector<llvm::SmallVector<int, 1>> resultBuffers;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_ANALYSIS_STEPMODEL_STEPMODELBUILDER_H
