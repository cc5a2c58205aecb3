//===- StepModel.h - a step as timed instructions ---------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What one rank does in a step, in program order: compute of so many seconds,
// starts of collectives and waits for them, and the memory that each allocates
// and frees. Rules, with their reasons, are in docs/Design/CostModel.md.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_STEPMODEL_STEPMODEL_H
#define MPCOMM_ANALYSIS_STEPMODEL_STEPMODEL_H

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mpcomm/Analysis/CostModel/CostModel.h"
#include "mpcomm/Scheduling/RankProgram.h"
#include "llvm/ADT/DenseMap.h"
#include <vector>

namespace mpcomm {

struct SimProblem; // mpcomm/Scheduling/Simulator.h
struct SimProgram;

/// Unit attributes that a pass leaves on what it has moved or formed, for the
/// explanation: a memory bound delayed the start of this mpcomm.async, or
/// hastened its await; a limit of the user's kept this collective from taking
/// in more.
inline constexpr llvm::StringLiteral kMemoryBoundAttr = "mpcomm.memory_bound";
inline constexpr llvm::StringLiteral kUserCapAttr = "mpcomm.user_cap";

/// A collective of the step.
struct StepCollective {
  CollectiveOpInterface op;
  /// Payload on the wire and tensors of the bucket.
  int64_t bytes = 0;
  unsigned tensors = 0;
  /// What it takes alone, by bytes; and by the best piece at `bytes`, or the
  /// profile: latency, then transfer, in seconds.
  CostCurve cost;
  double latency = 0, transfer = 0;
  /// Index in StepModel::getCommunicators.
  unsigned communicator = 0;
  /// Link level on which it transfers.
  int link = 0;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::Direct;
  /// Its instructions; `await` is -1 where nothing awaits it.
  int start = -1, await = -1;
  /// The Compute that makes the last of its operands, and the first one that
  /// needs its results; -1 where there is none.
  int producer = -1, consumer = -1;

  double getSeconds() const { return latency + transfer; }
};

/// Ranks that differ along some axes of a mesh, and one of their channels.
struct StepCommunicator {
  mlir::FlatSymbolRefAttr mesh;
  mlir::ArrayAttr axes;
  int64_t channel = 0;
  GroupShape shape;
};

struct StepInstruction : RankInstruction {
  StepInstruction(RankInstruction instruction, mlir::Operation *op)
      : RankInstruction(instruction), op(op) {}
  /// That of Start is the mpcomm.async, or the collective itself where it is
  /// synchronous: it then has a Start and an Await, one after the other.
  mlir::Operation *op;
};

/// How far a recorded profile and a step speak of the same ops. In seconds, of
/// compute and collectives.
struct ProfileCoverage {
  /// Of all entries with locations, and of those that found an op.
  double recorded = 0, matched = 0;
  /// By the model, of all ops, and of those that the profile replaced.
  double modeled = 0, replaced = 0;
};

class StepModel {
public:
  /// Reads a function with a body of one block. Fails, with an error at the op,
  /// on another number of blocks, on tensors of dynamic shape, and where a mesh
  /// or an axis is not found. Time: linear in ops, operands and uses.
  static llvm::FailureOr<StepModel> get(mlir::FunctionOpInterface function,
                                        const CostModel &model);

  mlir::FunctionOpInterface getFunction() const { return function; }

  /// One per op of the body but the terminator and ops that take no time and no
  /// memory, in program order. A kernel is one Compute, at the last of its ops
  /// (or the one before which something else needs it): getSeconds gives the
  /// share of each op in it.
  llvm::ArrayRef<StepInstruction> getInstructions() const {
    return instructions;
  }
  /// In the order of their starts.
  llvm::ArrayRef<StepCollective> getCollectives() const { return collectives; }
  llvm::ArrayRef<StepCommunicator> getCommunicators() const {
    return communicators;
  }

  /// Seconds of an op of the body, fused as in this program; 0 for collectives
  /// and for ops that it does not know.
  double getSeconds(mlir::Operation *op) const;
  /// Position of an op of the body, from 0; -1 for others.
  int getPosition(mlir::Operation *op) const;
  /// The kernel that an op runs in: ops of one number are one pass over memory.
  /// -1: none, or several.
  int getKernel(mlir::Operation *op) const;
  /// Bytes that a value of the body holds from its op on: 0 for intermediates
  /// of a kernel, views, and results that take a donated or an operand's
  /// buffer.
  int64_t getBytes(mlir::Value value) const;
  /// The memory that a value is in, which it may share with others; -1 for
  /// arguments, intermediates of a kernel and what is there before the step.
  int getBuffer(mlir::Value value) const;
  /// Bytes of a buffer: 0 where it is a donated argument's.
  int64_t getBufferBytes(int buffer) const { return bufferBytes[buffer]; }
  /// The last position at which a buffer is needed, through views and futures;
  /// the number of ops where the function returns it.
  int getLastUse(mlir::Value value) const;

  /// Nothing where the cost model has no profile.
  const std::optional<ProfileCoverage> &getProfileCoverage() const {
    return coverage;
  }

  /// Ranks of the mesh that it communicates on, 1 where it does not.
  int64_t getNumRanks() const { return ranks; }

  /// Kernels that run in the function itself, and the bytes that they read and
  /// write: those that mpcomm-form-kernels makes.
  int getNumKernels() const { return numKernels; }
  int64_t getKernelBytes() const { return kernelBytes; }

  /// Seconds of all compute.
  double getComputeSeconds() const { return computeSeconds; }
  /// Bytes of the arguments, which stay through the step.
  int64_t getStaticBytes() const { return staticBytes; }
  /// The most bytes at a time in program order, arguments included.
  int64_t getPeakBytes() const { return peakBytes; }

  /// All ranks run this step: one class. RankInstruction i is instruction i,
  /// and SimCollective i collective i.
  SimProblem buildSimProblem(const CostModel &model) const;
  /// The class alone; communicators are those of getCommunicators, links the
  /// cluster's levels. ProgramModel.h joins the classes of several programs.
  SimProgram buildSimProgram() const;

private:
  friend class StepBuilder;
  /// The number of a value of the body, -1 for others.
  int getNumber(mlir::Value value) const;

  mlir::FunctionOpInterface function;
  std::optional<ProfileCoverage> coverage;
  std::vector<StepInstruction> instructions;
  std::vector<StepCollective> collectives;
  std::vector<StepCommunicator> communicators;
  int64_t ranks = 1;

  /// Numbers: ops by position; values are the arguments, then results in order.
  llvm::DenseMap<mlir::Operation *, int> positions;
  std::vector<double> seconds;  ///< by position
  std::vector<int> kernels;     ///< by position
  std::vector<int> firstResult; ///< by position: number of its first result
  std::vector<int64_t> bytes;   ///< by value
  std::vector<int> lastUses;    ///< by value
  std::vector<int> buffers;     ///< by value
  std::vector<int64_t> bufferBytes;
  double computeSeconds = 0;
  int64_t staticBytes = 0, peakBytes = 0;
  int numKernels = 0;
  int64_t kernelBytes = 0;
};

/// A problem of no classes on the links and at the rates of a cluster. With
/// `duplex`, every level has a port for each direction: those that receive are
/// after all that send.
SimProblem makeSimProblem(const Cluster &cluster, bool duplex);

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_STEPMODEL_STEPMODEL_H
