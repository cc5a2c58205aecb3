//===- StagePartition.h - which ops form a pipeline stage -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Cuts the forward ops of a training graph, in a topological order, into stages
// that are runs of that order. The objective is the least time of the slowest
// stage, under a bound on the memory of each stage and with given stages for
// some ops; among equal partitions the fewest bytes sent, then the smallest
// peak of memory. The solution is exact.
//
// Model, algorithm and proofs: docs/Design/StagePartition.md. Times are
// seconds, sizes bytes. Internally times are whole picoseconds, so sums do not
// round and comparisons are exact.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_STAGEPARTITION_STAGEPARTITION_H
#define MPCOMM_SCHEDULING_STAGEPARTITION_STAGEPARTITION_H

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace mpcomm {

/// The graph to cut. A stage is a non-empty run [begin, end) of `ops`, with the
/// backward computation of these ops. Stage s sends the values that later ops
/// read to stage s + 1 and receives their gradients. Values that skip stages
/// are forwarded by each of them.
struct StagePartitionProblem {
  static constexpr int64_t unlimited = std::numeric_limits<int64_t>::max();

  struct Op {
    /// Seconds for one micro-batch: of the forward pass, and of the backward
    /// pass for gradients of inputs and of weights.
    double forward = 0, backwardInput = 0, backwardWeight = 0;
    /// The required stage; -1: any.
    int stage = -1;
  };
  struct Value {
    /// Bytes for one micro-batch: of the value, and of the gradient that a
    /// later stage sends back (0: none).
    int64_t bytes = 0, gradientBytes = 0;
    /// The op that produces it; -1: every stage has it (the batch, constants,
    /// values that each stage recomputes), so it is never sent.
    int producer = -1;
    /// Whether it is an input that depends on the batch (arrangeForStages()).
    bool isBatch = false;
    /// Ops that read it, in any order, each once or more often.
    std::vector<int> consumers;
    /// Ops whose backward computation reads it: the producer or later ops. Each
    /// stage with such an op keeps the value, once, from its forward to its
    /// backward pass.
    std::vector<int> keepers;
  };
  struct Parameter {
    /// Bytes in each stage that uses it, with gradient and optimizer state.
    int64_t bytes = 0;
    /// For a parameter that several stages use (tied): the seconds of the sum
    /// of its gradient over stages, divided by the number of micro-batches.
    double reductionSeconds = 0;
    /// Ops that read it, in any order; at least one.
    std::vector<int> users;
  };
  struct Stage {
    /// Largest number of micro-batches whose kept values it holds: min(m, p -
    /// s) for 1F1B of m micro-batches, m for GPipe.
    int64_t inFlight = 1;
    /// Bound on the bytes of its parameters, kept values and boundary buffers.
    int64_t memoryBytes = unlimited;
  };

  /// In a topological order.
  std::vector<Op> ops;
  std::vector<Value> values;
  std::vector<Parameter> parameters;
  /// At least one. Each chunk of an interleaved schedule is a stage.
  std::vector<Stage> stages = {Stage()};

  /// A transfer of n > 0 bytes between neighbours takes linkLatency +
  /// linkSecondsPerByte * n.
  double linkLatency = 0, linkSecondsPerByte = 0;
  /// Whether values and gradients travel at the same time, or in turn.
  bool linkDuplex = true;
  /// The exposed share of transfers: 0 if computation hides all of them, 1 if
  /// it hides none.
  double exposedShare = 0;
  /// Number of buffers for each boundary of a stage. Each buffer has the bytes
  /// that cross the boundary in both directions. 2 for double buffering.
  int64_t boundaryBuffers = 0;

  /// Empty if the problem is well formed, else what is wrong with it. More
  /// stages than ops, and given stages that contradict each other, are well
  /// formed. Time: linear.
  std::string check() const;
};

/// The constraint that determines the time of the slowest stage.
enum class StageBinding {
  Compute,    ///< the ops, which are not divisible
  Transfer,   ///< transfers over boundaries, and sums over tied parameters
  Memory,     ///< the stages' memory bounds
  Constraint, ///< stages given to ops
};

/// A name for remarks: "compute", "transfer", "memory", "constraint".
const char *getName(StageBinding binding);

/// Stages, in order, with their costs.
struct StagePartition {
  struct Stage {
    /// Its ops are [begin, end).
    int begin = 0, end = 0;
    /// For one micro-batch: forward and backward computation, sums over tied
    /// parameters, exposed transfers, and the busier one of its links.
    double computeSeconds = 0, reductionSeconds = 0, exposedSeconds = 0;
    double linkSeconds = 0;
    /// max(computeSeconds + reductionSeconds + exposedSeconds, linkSeconds)
    double seconds = 0;
    int64_t parameterBytes = 0;
    /// Kept values of one micro-batch.
    int64_t activationBytes = 0;
    int64_t bufferBytes = 0;
    /// parameterBytes + inFlight * activationBytes + bufferBytes
    int64_t memoryBytes = 0;
    /// To the next stage, and gradients to the one before, for one micro-batch.
    int64_t sentBytes = 0, returnedBytes = 0;
  };
  std::vector<Stage> stages;
  /// Time of the slowest stage: the least interval between micro-batches.
  double seconds = 0;
  /// Over all boundaries, in both directions.
  int64_t boundaryBytes = 0;
  /// Largest memory of a stage.
  int64_t peakBytes = 0;
  /// Slowest stage divided by the mean over stages; 1 is perfect.
  double balance = 1;
  /// Parameters that several stages hold, by index.
  std::vector<int> tiedParameters;
  /// The least possible `seconds`; then the same without memory bounds, without
  /// given stages, and without transfers (and tied sums). `binding` names the
  /// least of the last three, if it is less than the first.
  double leastSeconds = 0;
  double secondsWithoutMemory = 0, secondsWithoutConstraints = 0;
  double secondsWithoutTransfers = 0;
  StageBinding binding = StageBinding::Compute;
  /// The reason why there is no partition; else empty. If memory is the reason:
  /// the fewest bytes by which all bounds must grow, and the stage that then
  /// has no memory left.
  std::string error;
  int64_t missingBytes = 0;
  int missingStage = -1;

  /// Computes all members up to `tiedParameters` from `begin` and `end` of the
  /// stages, which must be consecutive runs of all ops. Time: linear, except
  /// for sorting the users of a value.
  void evaluate(const StagePartitionProblem &problem);
  /// Empty if this is a partition for `problem` that respects its bounds and
  /// given stages, with the figures that evaluate() gives; else what is wrong.
  std::string verify(const StagePartitionProblem &problem) const;
  /// The stage of each op.
  std::vector<int> stageOfOp() const;
};

struct StagePartitionOptions {
  /// Partitions whose slowest stage is slower than the optimum by at most this
  /// share count as equal; the fewest bytes then decide.
  double tolerance = 0;
  /// Whether to compute `binding` and the three times without a constraint.
  bool explain = true;
};

/// The best partition: the least time of the slowest stage (see `tolerance`),
/// then the fewest `boundaryBytes`, then the smallest `peakBytes`. Exact. If
/// there is no partition, `error` gives the reason and there are no stages.
///
/// Time: O((n + u) log n) for u uses of values and parameters, and O(w (c + log
/// n)) for each bound that is tried. w is the number of pairs of a boundary and
/// a cut that the bound on time permits (at most n p; few if stages are even),
/// c the number of cuts before it that are not dominated (usually a few). About
/// 40 bounds on time and 40 on memory are tried.
StagePartition partitionStages(const StagePartitionProblem &problem,
                               const StagePartitionOptions &options = {});

/// A topological order to cut into stages: at each place the index of the op in
/// `problem`. Ops that do not depend on the batch (casts of parameters,
/// position embeddings, masks) move directly before their first consumer if
/// that does not increase the bytes that are sent and their stage is not given.
/// All other ops keep their order, and for each of them the bytes of values
/// that pass it do not increase. Time: linear, except for sorting the readers
/// of a value.
std::vector<int> arrangeForStages(const StagePartitionProblem &problem);

/// `problem` with its ops in `order`, a topological order such as that of
/// arrangeForStages().
StagePartitionProblem reorder(const StagePartitionProblem &problem,
                              const std::vector<int> &order);

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_STAGEPARTITION_STAGEPARTITION_H
