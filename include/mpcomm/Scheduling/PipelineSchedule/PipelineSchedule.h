//===- PipelineSchedule.h - who computes what when in a pipeline -*- C++
//-*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A pipeline schedule as data: for each rank of the pipeline the order of its
// forward and backward passes of micro-batches. Schedules are generated
// (GPipe, 1F1B, interleaved 1F1B, ZB-H1, ZB-V), read and written as PyTorch's
// CSV, verified, and timed. Which one to take is decided in
// PipelineScheduling.h. The model, the schedules, the file format and the
// closed forms are in docs/Design/PipelineSchedules.md. Times are seconds,
// sizes bytes.
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

/// What is done with a micro-batch on a virtual stage. Its backward pass is
/// either one action, or two: the gradients of the inputs, which the stage
/// before waits for, and those of the weights, which nobody waits for.
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
  /// As PyTorch writes it: 1F0 is F of micro-batch 0 on stage 1.
  std::string str() const;
};

/// Which rank holds which virtual stage: the rank of each. The usual ones, for
/// p ranks of v stages:
using PipelinePlacement = std::vector<int>;
/// Stage s is on rank s mod p.
PipelinePlacement makeLoopPlacement(int ranks, int chunks);
/// Zig-zag: 0 … p-1, then p-1 … 0, and so on.
PipelinePlacement makeVPlacement(int ranks, int chunks);

/// Activations by virtual stage, and what a rank may hold. Sizes are bytes, or
/// any other unit.
struct PipelineMemory {
  /// By virtual stage: what a micro-batch keeps from the begin of its F to the
  /// end of its backward pass. Empty: 1 each.
  std::vector<int64_t> activations;
  /// By virtual stage: what of it stays from the end of I to the end of W.
  /// Empty: all of it.
  std::vector<int64_t> held;
  /// By rank: what is there all the time (parameters, gradients, optimizer
  /// state, buffers of messages). Empty: 0.
  std::vector<int64_t> fixed;
  /// By rank: the most at a time. Empty: no limit.
  std::vector<int64_t> limits;

  int64_t activation(int stage) const {
    return activations.empty() ? 1 : activations[stage];
  }
  int64_t heldOf(int stage) const {
    return held.empty() ? activation(stage) : held[stage];
  }
  int64_t fixedOf(int rank) const { return fixed.empty() ? 0 : fixed[rank]; }
  /// By how much an action changes what its rank holds: F at its begin, the
  /// others at their end.
  int64_t change(PipelineActionKind kind, int stage) const;
  int64_t limit(int rank) const {
    return limits.empty() ? std::numeric_limits<int64_t>::max() : limits[rank];
  }
  /// Empty if well formed for that many virtual stages and ranks, else what is
  /// wrong.
  std::string check(int virtualStages, int ranks) const;
};

/// A transfer between two ranks that a schedule implies: an activation that
/// crosses edge e (from virtual stage e to e + 1), or its gradient back.
struct PipelineMessage {
  int edge = 0;
  bool backward = false;
  int microbatch = 0;
  int sender = 0, receiver = 0;
  /// Positions in the orders of sender and receiver of the action that makes
  /// it, and of the one that needs it.
  int made = 0, needed = 0;
  int channel = 0;
};

struct PipelineCosts;

struct PipelineSchedule {
  /// p: ranks of the pipeline.
  int stages = 1;
  /// m
  int microbatches = 1;
  /// Each rank has one virtual stage at least.
  PipelinePlacement placement = {0};
  /// By rank, in the order of execution.
  std::vector<std::vector<PipelineAction>> ranks;

  bool operator==(const PipelineSchedule &) const = default;

  int virtualStages() const { return int(placement.size()); }
  int rankOf(int virtualStage) const { return placement[virtualStage]; }
  /// By rank, its virtual stages, ascending.
  std::vector<std::vector<int>> stagesByRank() const;
  /// Edge e joins virtual stages e and e + 1; a local one joins two of a rank.
  bool isLocal(int edge) const { return rankOf(edge) == rankOf(edge + 1); }

  /// Channels (communicators) in numbers below channels(). On a channel a rank
  /// only sends or only receives, and has one peer; messages of an edge and
  /// direction travel on one channel. Each edge and direction in turn takes the
  /// first that neither of its ranks has. Time: O(edges p).
  int channels() const;
  int channelOf(int edge, bool backward) const;
  /// All of them, those of forward messages first; -1 for local edges.
  std::vector<int> edgeChannels() const;
  /// Channels of what any two ranks exchange beside edges (gradients of a
  /// parameter that both have): numbers from channels() on, twice as many as
  /// ranks. Of a rank and a sum of two ranks modulo p there is one peer; the
  /// direction chooses between two channels for each sum.
  int exchangeChannelOf(int from, int to) const {
    return channels() + 2 * ((from + to) % stages) + (from < to);
  }

  /// Empty if the figures are in range (positive, 2^24 actions at most) and
  /// each stage is on a rank and each rank has a stage.
  std::string checkShape() const;
  /// Empty if this can run and keeps to the limits of `memory`, else what is
  /// wrong, with rank, action, and what was expected: each micro-batch has one
  /// F and either B or I and W on each virtual stage; no action is before
  /// one that it needs, on its rank or by a cycle through others; on each
  /// channel messages are received in the order in which they are sent.
  /// Time: O(actions log actions).
  std::string verify(const PipelineMemory &memory = {}) const;
  /// All transfers, by sender, in its order. Of a schedule that verifies.
  /// Time: O(actions).
  std::vector<PipelineMessage> messages() const;
  /// The least number of buffers for a rank's sends on a channel with which no
  /// ranks stand for ever, where a send ends together with its recv, an
  /// action's recv is posted as the action ahead of it begins, and a send that
  /// finds all buffers under way waits for the first. Of a schedule that
  /// verifies. Time: O(actions log actions).
  int messageBuffers() const;
  /// The least number of them with which the step is no longer than with as
  /// many as there are messages. Of a schedule that verifies, with costs that
  /// check. Time: O(actions log actions).
  int fastBuffers(const PipelineCosts &costs) const;
  /// By rank, the most that it holds at a time, `fixed` with it. A property of
  /// each rank's order alone. Time: O(actions).
  std::vector<int64_t> peaks(const PipelineMemory &memory = {}) const;

  /// PyTorch's CSV, which parsePipelineSchedule() reads: a row a rank, of
  /// stage, kind and micro-batch of its actions.
  ///   0F0,0F1,0B0,0B1
  ///   1F0,1B0,1F1,1B1
  std::string str() const;
};

/// A schedule, or why there is none.
struct PipelineScheduleOr {
  PipelineSchedule schedule;
  std::string error;
};

/// Reads PyTorch's CSV, lowered or not, and verifies it. Stages, placement and
/// micro-batches are those of its actions. An error names row and column (from
/// 1; row r is that of rank r - 1) and what was expected there.
/// Time: O(length + actions log actions).
PipelineScheduleOr parsePipelineSchedule(std::string_view text);

/// Schedules of the literature.
enum class PipelineKind : uint8_t {
  /// All forwards, then all backwards. (Huang et al., "GPipe", NeurIPS 2019.)
  GPipe,
  /// One forward, one backward. (Narayanan et al., "PipeDream", SOSP 2019, with
  /// a flush; DAPPLE, PPoPP 2021.)
  OneFOneB,
  /// 1F1B of `chunks` virtual stages a rank, in a loop. (Narayanan et al.,
  /// "Efficient large-scale language model training on GPU clusters using
  /// Megatron-LM", SC 2021, section 2.2.)
  Interleaved,
  /// 1F1B with weight gradients put off to fill the bubble, in the memory of
  /// 1F1B. (Qi et al., "Zero bubble pipeline parallelism", ICLR 2024,
  /// section 2.2.)
  ZBH1,
  /// Two virtual stages a rank, in a V, without bubble in the memory of 1F1B.
  /// (Qi et al., "Pipeline parallelism with controllable memory", NeurIPS 2024,
  /// V-ZB.)
  ZBV,
};

/// gpipe, 1f1b, interleaved, zb-h1, zb-v.
const char *pipelineKindName(PipelineKind kind);
std::optional<PipelineKind> parsePipelineKind(std::string_view name);

/// The schedule of a kind, for any number of micro-batches. `chunks`: 2 or more
/// for interleaved, 2 for ZB-V, else 1. Time: O(actions).
PipelineScheduleOr makePipelineSchedule(PipelineKind kind, int stages,
                                        int microbatches, int chunks);
/// The same for a placement that is the kind's up to the numbers of ranks.
PipelineScheduleOr makePipelineSchedule(PipelineKind kind, int stages,
                                        int microbatches,
                                        const PipelinePlacement &placement);

/// Idle seconds of that schedule's step on a rank, where every virtual stage
/// takes `forward`, `input` and `weight` seconds and transfers take none. Exact
/// for every m, for ZB-H1 if weight <= forward, for ZB-V if all three are
/// equal. The step takes chunks * m * (forward + input + weight) beside it.
double idleFormula(PipelineKind kind, int stages, int microbatches, int chunks,
                   double forward, double input, double weight);

/// Seconds of a pipeline's parts.
struct PipelineCosts {
  struct Stage {
    double forward = 0;
    double input = 0;  ///< I
    double weight = 0; ///< W; B takes input + weight
  };
  /// By virtual stage, for one micro-batch.
  std::vector<Stage> stages;
  /// By edge: from the end of what makes a message to its arrival; messages of
  /// an edge and direction travel one after the other, beside computation and
  /// other edges' messages. Empty: 0. Local edges count as 0.
  std::vector<double> forwardTransfer, backwardTransfer;
  /// By rank: seconds after its last action (what of the gradients' reduction
  /// and of the update is left). Empty: 0.
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

/// When a schedule's actions run: each as soon as the one before it on its rank
/// has ended and what it needs has arrived.
struct PipelineTiming {
  struct Interval {
    double start = 0, end = 0;
  };
  /// As PipelineSchedule::ranks.
  std::vector<std::vector<Interval>> actions;
  /// The step, with what comes `after`.
  double seconds = 0;
  /// The end of the last action.
  double computeEnd = 0;
  /// The longest time from a rank's first start to its last end.
  double span = 0;
  /// Idle share of ranks times `computeEnd`, and of ranks times `span` (the
  /// zero-bubble papers' measure: steps follow one another staggered).
  double bubbleShare = 0, spanBubbleShare = 0;
  /// By rank: seconds of its actions; PipelineSchedule::peaks().
  std::vector<double> busy;
  std::vector<int64_t> peaks;
  /// Why there are no times (the schedule cannot run); empty if there are.
  std::string error;
};

/// Time: O(actions).
PipelineTiming timePipeline(const PipelineSchedule &schedule,
                            const PipelineCosts &costs,
                            const PipelineMemory &memory = {});

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_PIPELINESCHEDULE_PIPELINESCHEDULE_H
