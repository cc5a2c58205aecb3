//===- StepModel.h - a step as timed instructions ---------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The step of one rank in program order: computation with its seconds, starts
// and awaits of collectives, and the memory that each allocates and frees.
// Rules and reasons: docs/Design/CostModel.md.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_STEPMODEL_STEPMODEL_H
#define MPCOMM_ANALYSIS_STEPMODEL_STEPMODEL_H

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mpcomm/Analysis/CostModel/CostModel.h"
#include "mpcomm/Scheduling/Arena/ArenaPlanning.h"
#include "mpcomm/Scheduling/RankProgram.h"
#include "llvm/ADT/DenseMap.h"
#include <vector>

namespace mpcomm {

struct SimProblem; // mpcomm/Scheduling/Simulator.h
struct SimProgram;

/// Unit attributes of collectives, for mpcomm-explain-communication: a memory
/// bound delayed the start of this mpcomm.async or advanced its await; a limit
/// of the user kept this bucket from including the next tensor.
inline constexpr llvm::StringLiteral kMemoryBoundAttr = "mpcomm.memory_bound";
inline constexpr llvm::StringLiteral kUserCapAttr = "mpcomm.user_cap";

/// A collective of the step.
struct StepCollective {
  CollectiveOpInterface op;
  /// Payload on the wire, and number of tensors of the bucket.
  int64_t bytes = 0;
  unsigned tensors = 0;
  /// Its cost by bytes; and the seconds of latency and transfer at `bytes`, by
  /// the best piece or the profile.
  CostCurve cost;
  double latency = 0, transfer = 0;
  /// Index in StepModel::getCommunicators.
  unsigned communicator = 0;
  /// Link level on which it transfers.
  int link = 0;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::Direct;
  /// Its instructions; `await` is -1 if nothing awaits it.
  int start = -1, await = -1;
  /// The Compute that produces the last of its operands, and the first Compute
  /// that needs its results; -1 if there is none.
  int producer = -1, consumer = -1;

  double getSeconds() const { return latency + transfer; }
};

/// The axes of a mesh along which the ranks of a group differ, and a channel.
struct StepCommunicator {
  mlir::FlatSymbolRefAttr mesh;
  mlir::ArrayAttr axes;
  int64_t channel = 0;
  GroupShape shape;
};

struct StepInstruction : RankInstruction {
  StepInstruction(RankInstruction instruction, mlir::Operation *op)
      : RankInstruction(instruction), op(op) {}
  /// For a Start, the mpcomm.async or the synchronous collective. A synchronous
  /// collective has a Start directly followed by an Await.
  mlir::Operation *op;
};

/// How well a profile covers a step, in seconds of compute and collectives.
struct ProfileCoverage {
  /// Measured seconds of all entries with locations, and of those that match an
  /// op.
  double recorded = 0, matched = 0;
  /// Predicted seconds of all ops, and of those that have a measured time.
  double modeled = 0, replaced = 0;
};

class StepModel {
public:
  /// Reads a function with one block. Fails, with an error at the op, if there
  /// are several blocks, if a tensor has a dynamic shape, or if a mesh or an
  /// axis is not found. Time: linear in ops, operands and uses.
  static llvm::FailureOr<StepModel> get(mlir::FunctionOpInterface function,
                                        const CostModel &model);

  mlir::FunctionOpInterface getFunction() const { return function; }

  /// The instructions in program order: one for each op of the body, except the
  /// terminator and ops that take neither time nor memory. A kernel is one
  /// Compute, at the last of its ops, or at the last one before another op
  /// needs a result. getSeconds gives the share of each op.
  llvm::ArrayRef<StepInstruction> getInstructions() const {
    return instructions;
  }
  /// In the order of their starts.
  llvm::ArrayRef<StepCollective> getCollectives() const { return collectives; }
  llvm::ArrayRef<StepCommunicator> getCommunicators() const {
    return communicators;
  }

  /// Seconds of an op of the body, with fusion; 0 for collectives and unknown
  /// ops.
  double getSeconds(mlir::Operation *op) const;
  /// Position of an op of the body, from 0; -1 for others.
  int getPosition(mlir::Operation *op) const;
  /// The number of the kernel of an op. Ops of one kernel are one pass over
  /// memory. -1: none, or several.
  int getKernel(mlir::Operation *op) const;
  /// Bytes that a value of the body allocates: 0 for intermediates of a kernel,
  /// views, and results that reuse a donated buffer or that of an operand.
  int64_t getBytes(mlir::Value value) const;
  /// The buffer of a value, which other values may share; -1 for arguments,
  /// intermediates of a kernel, and memory that exists before the step.
  int getBuffer(mlir::Value value) const;
  /// Bytes of a buffer; 0 if it belongs to a donated argument.
  int64_t getBufferBytes(int buffer) const { return bufferBytes[buffer]; }
  /// The last position at which the buffer of a value is needed, through views
  /// and futures; the number of ops if the function returns it.
  int getLastUse(mlir::Value value) const;

  /// Nothing if the cost model has no profile.
  const std::optional<ProfileCoverage> &getProfileCoverage() const {
    return coverage;
  }

  /// Ranks of the mesh on which it communicates; 1 if it does not.
  int64_t getNumRanks() const { return ranks; }

  /// Kernels that run in the function itself, and the bytes that they read and
  /// write: those that mpcomm-form-kernels makes.
  int getNumKernels() const { return numKernels; }
  int64_t getKernelBytes() const { return kernelBytes; }

  /// Bytes of the arena that mpcomm-plan-memory makes for what lives neither in
  /// arguments nor in results. Time: that of planArena.
  int64_t getArenaBytes() const { return planArena(arena).bytes; }

  /// Seconds of all compute, with what functions take that the step calls.
  double getComputeSeconds() const { return computeSeconds; }
  /// Of these, the seconds in which called functions wait for communication.
  double getCallWaitSeconds() const { return callWaitSeconds; }
  /// Bytes that a rank sends, also in called functions, where all collectives
  /// go around rings.
  double getSentBytes() const { return sentBytes; }
  /// Bytes of the arguments, which live through the whole step.
  int64_t getStaticBytes() const { return staticBytes; }
  /// Peak of live bytes in program order, including arguments.
  int64_t getPeakBytes() const { return peakBytes; }

  /// The problem with one class, for a step that all ranks run. RankInstruction
  /// i is instruction i, and SimCollective i is collective i.
  SimProblem buildSimProblem(const CostModel &model) const;
  /// The program of the class. Communicators are those of getCommunicators,
  /// links are the levels of the cluster. ProgramModel.h joins the classes of
  /// several programs.
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
  double computeSeconds = 0, callWaitSeconds = 0, sentBytes = 0;
  int64_t staticBytes = 0, peakBytes = 0;
  ArenaProblem arena;
  int numKernels = 0;
  int64_t kernelBytes = 0;
};

/// A problem without classes, with the links and rates of a cluster. With
/// `duplex`, every level has a port for each direction; receiving ports follow
/// all sending ports.
SimProblem makeSimProblem(const Cluster &cluster, bool duplex);

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_STEPMODEL_STEPMODEL_H
