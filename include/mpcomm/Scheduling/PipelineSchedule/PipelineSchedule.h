//===- PipelineSchedule.h - orders of passes in a pipeline ------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A pipeline schedule is the order of the forward and backward passes of
// micro-batches on each rank of the pipeline. This file generates schedules
// (GPipe, 1F1B, interleaved 1F1B, ZB-H1, ZB-V), reads and writes PyTorch's CSV,
// verifies schedules and times them. PipelineScheduling.h chooses a schedule.
// Model, schedules, file format and closed forms:
// docs/Design/PipelineSchedules.md. Times are seconds, sizes bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_PIPELINESCHEDULE_PIPELINESCHEDULE_H
#define MPCOMM_SCHEDULING_PIPELINESCHEDULE_PIPELINESCHEDULE_H

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mpcomm {

/// A pass of a micro-batch on a virtual stage. The backward pass is either one
/// action or two: the gradients of the inputs, for which the previous stage
/// waits, and the gradients of the weights, for which no stage waits.
enum class PipelineActionKind : uint8_t {
  Forward,        ///< F
  Backward,       ///< B: I and W at once
  InputBackward,  ///< I ("B" of the zero-bubble papers)
  WeightBackward, ///< W
};

/// F, B, I or W.
char pipelineActionLetter(PipelineActionKind kind);

struct PipelineAction {
  PipelineActionKind kind = PipelineActionKind::Forward;
  int microbatch = 0;
  /// The virtual stage.
  int stage = 0;
  bool operator==(const PipelineAction &) const = default;
  /// In PyTorch's notation: 1F0 is F of micro-batch 0 on stage 1.
  std::string str() const;
};

/// The rank of each virtual stage. The usual placements, for p ranks with v
/// stages each:
using PipelinePlacement = std::vector<int>;
/// Stage s is on rank s mod p.
PipelinePlacement makeLoopPlacement(int ranks, int chunks);
/// Zig-zag: 0 … p-1, then p-1 … 0, and so on.
PipelinePlacement makeVPlacement(int ranks, int chunks);

/// Sizes of activations by virtual stage, and memory limits of ranks, in bytes
/// or any other unit.
struct PipelineMemory {
  /// By virtual stage: the activations of a micro-batch, from the beginning of
  /// F to the end of the backward pass. Empty: 1 each.
  std::vector<int64_t> activations;
  /// By virtual stage: the share of these that is held from the end of I to the
  /// end of W. Empty: all.
  std::vector<int64_t> held;
  /// By rank: constant memory (parameters, gradients, optimizer state, message
  /// buffers). Empty: 0.
  std::vector<int64_t> fixed;
  /// By rank: the memory limit. Empty: no limit.
  std::vector<int64_t> limits;

  int64_t activation(int stage) const {
    return activations.empty() ? 1 : activations[stage];
  }
  int64_t heldOf(int stage) const {
    return held.empty() ? activation(stage) : held[stage];
  }
  int64_t fixedOf(int rank) const { return fixed.empty() ? 0 : fixed[rank]; }
  /// The change of the rank's memory by an action: for F at its beginning, for
  /// the others at their end.
  int64_t change(PipelineActionKind kind, int stage) const;
  int64_t limit(int rank) const {
    return limits.empty() ? std::numeric_limits<int64_t>::max() : limits[rank];
  }
  /// Empty if well formed for that many virtual stages and ranks, else what is
  /// wrong.
  std::string check(int virtualStages, int ranks) const;
};

/// A transfer between two ranks that a schedule implies: an activation over
/// edge e (from virtual stage e to e + 1), or its gradient in return.
struct PipelineMessage {
  int edge = 0;
  bool backward = false;
  int microbatch = 0;
  int sender = 0, receiver = 0;
  /// The position of the action that produces it, in the sender's order, and of
  /// the action that needs it, in the receiver's.
  int made = 0, needed = 0;
  int channel = 0;
};

struct PipelineCosts;

struct PipelineSchedule {
  /// p: ranks of the pipeline.
  int stages = 1;
  /// m
  int microbatches = 1;
  /// Each rank has at least one virtual stage.
  PipelinePlacement placement = {0};
  /// By rank, in the order of execution.
  std::vector<std::vector<PipelineAction>> ranks;

  bool operator==(const PipelineSchedule &) const = default;

  int virtualStages() const { return int(placement.size()); }
  int rankOf(int virtualStage) const { return placement[virtualStage]; }
  /// By rank, its virtual stages, ascending.
  std::vector<std::vector<int>> stagesByRank() const;
  /// Edge e joins virtual stages e and e + 1. It is local if both are on one
  /// rank.
  bool isLocal(int edge) const { return rankOf(edge) == rankOf(edge + 1); }

  /// Channels (communicators) of edges have numbers below channels(). On a
  /// channel a rank has one peer, and only sends or only receives. Messages of
  /// one edge and direction travel on one channel. Each edge and direction in
  /// turn takes the first channel that neither of its ranks uses. Time: O(edges
  /// p).
  int channels() const;
  int channelOf(int edge, bool backward) const;
  /// All of them, those of forward messages first; -1 for local edges.
  std::vector<int> edgeChannels() const;
  /// Channels of exchanges that do not belong to edges (gradients of a
  /// parameter that two ranks hold): numbers from channels() on, two per rank.
  /// The sum of two ranks modulo p and the direction determine the channel, so
  /// a rank has one peer on it.
  int exchangeChannelOf(int from, int to) const {
    return channels() + 2 * ((from + to) % stages) + (from < to);
  }

  /// Empty if the figures are in range (positive, at most 2^24 actions), each
  /// stage is on a rank, and each rank has a stage.
  std::string checkShape() const;
  /// Empty if the schedule can run within the limits of `memory`; else what is
  /// wrong, with rank, action, and what was expected. Each micro-batch has one
  /// F and either B, or I and W, on each virtual stage; no action precedes one
  /// that it needs, on its rank or by a cycle through other ranks; on each
  /// channel messages are received in the order in which they are sent.
  /// Time: O(actions log actions).
  std::string verify(const PipelineMemory &memory = {}) const;
  /// All transfers, by sender, in its order. The schedule must verify.
  /// Time: O(actions).
  std::vector<PipelineMessage> messages() const;
  /// The least number of send buffers per rank and channel without deadlock, if
  /// a send ends together with its recv, the recv of an action is posted when
  /// the previous action begins, and a send waits for the oldest one if all
  /// buffers are in use. The schedule must verify. Time: O(actions log
  /// actions).
  int messageBuffers() const;
  /// The least number of buffers with which the step is no longer than with one
  /// buffer per message. The schedule must verify, and `costs` must check.
  /// Time: O(actions log actions).
  int fastBuffers(const PipelineCosts &costs) const;
  /// By rank, the peak of its memory, including `fixed`. It depends on the
  /// order of the rank alone. Time: O(actions).
  std::vector<int64_t> peaks(const PipelineMemory &memory = {}) const;

  /// PyTorch's CSV, which parsePipelineSchedule() reads: one row per rank, with
  /// stage, kind and micro-batch of each action.
  ///   0F0,0F1,0B0,0B1
  ///   1F0,1B0,1F1,1B1
  std::string str() const;
};

/// A schedule, or the reason why there is none.
struct PipelineScheduleOr {
  PipelineSchedule schedule;
  std::string error;
};

/// Reads PyTorch's CSV, lowered or not, and verifies the schedule. Stages,
/// placement and micro-batches follow from the actions. An error names row and
/// column, counted from 1, and what was expected there.
/// Time: O(length + actions log actions).
PipelineScheduleOr parsePipelineSchedule(std::string_view text);

/// Schedules of the literature.
enum class PipelineKind : uint8_t {
  /// All forwards, then all backwards. (Huang et al., "GPipe", NeurIPS 2019.)
  GPipe,
  /// One forward, one backward. (Narayanan et al., "PipeDream", SOSP 2019, with
  /// a flush; DAPPLE, PPoPP 2021.)
  OneFOneB,
  /// 1F1B with `chunks` virtual stages per rank, in a loop. (Narayanan et al.,
  /// "Efficient large-scale language model training on GPU clusters using
  /// Megatron-LM", SC 2021, section 2.2.)
  Interleaved,
  /// 1F1B with deferred weight gradients that fill the bubble, in the memory of
  /// 1F1B. (Qi et al., "Zero bubble pipeline parallelism", ICLR 2024,
  /// section 2.2.)
  ZBH1,
  /// Two virtual stages per rank, in a V, without bubble, in the memory of
  /// 1F1B. (Qi et al., "Pipeline parallelism with controllable memory", NeurIPS
  /// 2024, V-ZB.)
  ZBV,
};

/// gpipe, 1f1b, interleaved, zb-h1, zb-v.
const char *pipelineKindName(PipelineKind kind);
std::optional<PipelineKind> parsePipelineKind(std::string_view name);

/// The schedule of a kind, for any number of micro-batches. `chunks`: 2 or more
/// for interleaved, 2 for ZB-V, else 1. Time: O(actions).
PipelineScheduleOr makePipelineSchedule(PipelineKind kind, int stages,
                                        int microbatches, int chunks);
/// The same for a placement that equals that of the kind except for the
/// numbering of ranks.
PipelineScheduleOr makePipelineSchedule(PipelineKind kind, int stages,
                                        int microbatches,
                                        const PipelinePlacement &placement);

/// Idle seconds of a rank in a step of that schedule, if every virtual stage
/// takes `forward`, `input` and `weight` seconds and transfers take no time.
/// Exact for every m; for ZB-H1 if weight <= forward, for ZB-V if all three are
/// equal. The step takes chunks * m * (forward + input + weight) seconds more.
double idleFormula(PipelineKind kind, int stages, int microbatches, int chunks,
                   double forward, double input, double weight);

/// Seconds of the actions and transfers of a pipeline.
struct PipelineCosts {
  struct Stage {
    double forward = 0;
    double input = 0;  ///< I
    double weight = 0; ///< W; B takes input + weight
  };
  /// By virtual stage, for one micro-batch.
  std::vector<Stage> stages;
  /// By edge: seconds of a message. Messages of an edge and direction travel
  /// one after the other, in parallel with computation and with the messages of
  /// other edges. Empty: 0. Local edges count as 0.
  std::vector<double> forwardTransfer, backwardTransfer;
  /// By rank: seconds after its last action (the rest of the gradients'
  /// reduction, and the update). Empty: 0.
  std::vector<double> after;

  double seconds(PipelineActionKind kind, int stage) const;
  double transfer(int edge, bool backward) const {
    const std::vector<double> &by =
        backward ? backwardTransfer : forwardTransfer;
    return by.empty() ? 0 : by[edge];
  }
  double afterOf(int rank) const { return after.empty() ? 0 : after[rank]; }
  /// Empty if well formed for that many virtual stages and ranks, else what is
  /// wrong.
  std::string check(int virtualStages, int ranks) const;
};

/// The times of a schedule. Each action starts when the previous one on its
/// rank has ended and its inputs have arrived.
struct PipelineTiming {
  struct Interval {
    double start = 0, end = 0;
  };
  /// As PipelineSchedule::ranks.
  std::vector<std::vector<Interval>> actions;
  /// The end of the step, including `after`.
  double seconds = 0;
  /// The end of the last action.
  double computeEnd = 0;
  /// The longest time from a rank's first start to its last end.
  double span = 0;
  /// Idle share of ranks times `computeEnd`, and of ranks times `span` (the
  /// measure of the zero-bubble papers, in which steps are staggered).
  double bubbleShare = 0, spanBubbleShare = 0;
  /// By rank: seconds of its actions; PipelineSchedule::peaks().
  std::vector<double> busy;
  std::vector<int64_t> peaks;
  /// The reason why the schedule cannot run; else empty.
  std::string error;
};

/// Time: O(actions).
PipelineTiming timePipeline(const PipelineSchedule &schedule,
                            const PipelineCosts &costs,
                            const PipelineMemory &memory = {});

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_PIPELINESCHEDULE_PIPELINESCHEDULE_H
