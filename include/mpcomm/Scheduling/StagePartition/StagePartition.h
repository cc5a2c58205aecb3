//===- StagePartition.h - which ops form a pipeline stage -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The forward ops of a training graph, in a topological order, are cut into
// stages: runs of that order. Wanted is the cut whose slowest stage is fastest,
// under a bound on each stage's memory and with the stage of some ops given;
// among equals the one that sends the fewest bytes, then the one with the
// smallest peak of memory. This is solved exactly.
//
// Model, algorithm and proofs: docs/Design/StagePartition.md. Times are
// seconds, sizes bytes. Times are counted in whole picoseconds, so that sums
// do not round and equal is equal.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_STAGEPARTITION_STAGEPARTITION_H
#define MPCOMM_SCHEDULING_STAGEPARTITION_STAGEPARTITION_H

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace mpcomm {

/// What is to be cut. A stage is a run [begin, end) of `ops`, not empty; it has
/// the backward parts of its ops too. Stage s sends to stage s + 1 what later
/// ops read, and gets its gradient back; what skips stages is handed on by
/// each of them.
struct StagePartitionProblem {
  static constexpr int64_t unlimited = std::numeric_limits<int64_t>::max();

  struct Op {
    /// Seconds for one micro-batch: forward; backward, by what it computes.
    double forward = 0, backwardInput = 0, backwardWeight = 0;
    /// The stage that it must be in; -1: any.
    int stage = -1;
  };
  struct Value {
    /// Of one micro-batch: the value, and what of its gradient a later stage
    /// sends back (0: it has none).
    int64_t bytes = 0, gradientBytes = 0;
    /// The op that makes it; -1: every stage has it (the batch, constants, what
    /// each stage makes for itself), so that it is never sent.
    int producer = -1;
    /// From outside, and of the batch: see arrangeForStages().
    bool isBatch = false;
    /// Ops that read it, in any order, each once or more often.
    std::vector<int> consumers;
    /// Ops whose backward parts read it, the producer or any later op: each
    /// stage that has one of them keeps the value, once, from its forward to
    /// its backward pass.
    std::vector<int> keepers;
  };
  struct Parameter {
    /// With its gradient and optimizer state, in each stage that uses it.
    int64_t bytes = 0;
    /// What summing its gradient over stages costs each of them where several
    /// use it (tied parameters), for one micro-batch: the seconds of the sum
    /// divided by the number of micro-batches.
    double reductionSeconds = 0;
    /// Ops that read it, in any order; at least one.
    std::vector<int> users;
  };
  struct Stage {
    /// Micro-batches whose kept values it holds at a time: min(m, p - s) for
    /// 1F1B of m micro-batches, m for GPipe.
    int64_t inFlight = 1;
    /// The most bytes of its parameters, kept values and boundary buffers.
    int64_t memoryBytes = unlimited;
  };

  /// In a topological order.
  std::vector<Op> ops;
  std::vector<Value> values;
  std::vector<Parameter> parameters;
  /// One or more. Chunks of an interleaved schedule are stages of their own.
  std::vector<Stage> stages = {Stage()};

  /// A transfer of n > 0 bytes between neighbours takes linkLatency +
  /// linkSecondsPerByte * n.
  double linkLatency = 0, linkSecondsPerByte = 0;
  /// Values and gradients travel at the same time; else in turn.
  bool linkDuplex = true;
  /// The share of its boundaries' transfers that a stage waits for: 0 where all
  /// are hidden behind computation, 1 where none is.
  double exposedShare = 0;
  /// Buffers that a stage has for each of its boundaries, each of the bytes
  /// that cross it in both directions: 2 for double buffering.
  int64_t boundaryBuffers = 0;

  /// Empty if the problem is well formed, else what is wrong with it. More
  /// stages than ops, and given stages that contradict each other, are well
  /// formed. Time: linear.
  std::string check() const;
};

/// What keeps the slowest stage from being faster.
enum class StageBinding {
  Compute,    ///< the ops themselves and where they can be cut
  Transfer,   ///< what crosses boundaries, and sums over tied parameters
  Memory,     ///< the stages' memory bounds
  Constraint, ///< stages given to ops
};

/// A name for remarks: "compute", "transfer", "memory", "constraint".
const char *getName(StageBinding binding);

/// Stages, in order, with what they come to.
struct StagePartition {
  struct Stage {
    /// Its ops are [begin, end).
    int begin = 0, end = 0;
    /// For one micro-batch: all parts of its ops, sums over tied parameters,
    /// transfers that it waits for, and the busier one of its links.
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
  /// The slowest stage: no micro-batch can follow another faster.
  double seconds = 0;
  /// Over all boundaries, both directions.
  int64_t boundaryBytes = 0;
  /// Of the stage with most.
  int64_t peakBytes = 0;
  /// Slowest stage over mean of stages: 1 is perfect.
  double balance = 1;
  /// Parameters that several stages hold, by index.
  std::vector<int> tiedParameters;
  /// The least `seconds` that there can be; then without memory bounds, without
  /// given stages, without transfers (and tied sums), each alone. `binding` is
  /// the one of the last three that is least, if it is less than the first.
  double leastSeconds = 0;
  double secondsWithoutMemory = 0, secondsWithoutConstraints = 0;
  double secondsWithoutTransfers = 0;
  StageBinding binding = StageBinding::Compute;
  /// Why there is no partition; empty if there is one. If memory is why: the
  /// fewest bytes by which all bounds have to grow, and the stage that then
  /// uses its bound up.
  std::string error;
  int64_t missingBytes = 0;
  int missingStage = -1;

  /// Computes from `begin` and `end` of the stages, which have to be runs that
  /// make up all ops, everything up to `tiedParameters`. Time: linear but for
  /// sorting the users of a value.
  void evaluate(const StagePartitionProblem &problem);
  /// Empty if this is a partition for `problem` that keeps to its bounds and
  /// given stages, with the figures that evaluate() gives, else what is wrong.
  std::string verify(const StagePartitionProblem &problem) const;
  /// The stage of each op.
  std::vector<int> stageOfOp() const;
};

struct StagePartitionOptions {
  /// A slowest stage that is slower than the least by at most this share is as
  /// good: fewer bytes then decide.
  double tolerance = 0;
  /// Find out what binds; else `binding` and the three times without something
  /// are not filled in.
  bool explain = true;
};

/// The best partition: the least time of the slowest stage (see `tolerance`),
/// then the fewest `boundaryBytes`, then the smallest `peakBytes`. Exact.
/// Where there is none, `error` says why and there are no stages.
///
/// Time: O((n + u) log n) for u uses of values and parameters, and then for
/// each bound that is tried O(w (c + log n)), for w pairs of a boundary and a
/// cut that the bound on time leaves possible (at most n p, few where stages
/// are even) and c cuts before it that are not dominated (usually a few). Some
/// 40 bounds on time and 40 on memory are tried.
StagePartition partitionStages(const StagePartitionProblem &problem,
                               const StagePartitionOptions &options = {});

/// A topological order (at each place the op's index in `problem`) for runs to
/// be cut from. Ops that do not depend on the batch (casts of parameters,
/// embeddings of positions, masks) stand directly before their first consumer
/// where that pays, unless their stage is given; all others keep their order.
/// Each of the others is passed, from a producer before it to a reader after
/// it, by no more bytes than before. Time: linear but for sorting the readers
/// of a value.
std::vector<int> arrangeForStages(const StagePartitionProblem &problem);

/// `problem` with its ops in the order that arrangeForStages() or another
/// topological sort has found.
StagePartitionProblem reorder(const StagePartitionProblem &problem,
                              const std::vector<int> &order);

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_STAGEPARTITION_STAGEPARTITION_H
