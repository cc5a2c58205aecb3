//===- Pipelines.cpp - the way of a training step -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Pipelines/Pipelines.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "mpcomm/Analysis/Precision/PrecisionPolicy.h"
#include "mpcomm/Codegen/Chips.h"
#include "mpcomm/Codegen/Kernels.h"
#include "mpcomm/Codegen/Passes.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"
#include "mpcomm/Conversion/Passes.h"
#include "mpcomm/Scheduling/PipelineSchedule/PipelineSchedule.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MemoryBuffer.h"
#include <limits>

using namespace mlir;
using namespace mpcomm;

/// Reads `loss-scale`; false where it is malformed.
static bool parseLossScale(const CompileOptions &options,
                           ScaleLossPassOptions &scaling) {
  auto [mode, number] = StringRef(options.lossScale).split(':');
  bool takesNumber = mode == "static" || mode == "dynamic";
  double scale = 0;
  if (!number.empty() &&
      (!takesNumber || number.getAsDouble(scale) || !(scale > 0)))
    return false;
  if (mode == "static" && number.empty())
    return false;
  if (scale > 0)
    scaling.initialScale = scale;
  // Bounds that nobody gave make room for a first scale that somebody did.
  scaling.minScale = options.lossScaleMin;
  if (!options.lossScaleMin.hasValue())
    scaling.minScale = std::min<double>(scaling.minScale, scaling.initialScale);
  scaling.maxScale = options.lossScaleMax;
  if (!options.lossScaleMax.hasValue())
    scaling.maxScale = std::max<double>(scaling.maxScale, scaling.initialScale);
  scaling.growth = options.lossScaleGrowth;
  scaling.backoff = options.lossScaleBackoff;
  scaling.interval = options.lossScaleInterval;
  scaling.hysteresis = options.lossScaleHysteresis;
  scaling.clipNorm = options.clipNorm;
  scaling.checkGradients = options.checkGradients;
  scaling.policy = options.precision;
  scaling.policyFile = options.precisionFile;
  auto known = llvm::StringSwitch<std::optional<LossScaling>>(mode)
                   .Case("auto", LossScaling::Auto)
                   .Case("none", LossScaling::None)
                   .Case("static", LossScaling::Static)
                   .Case("dynamic", LossScaling::Dynamic)
                   .Default(std::nullopt);
  if (known)
    scaling.mode = *known;
  return known.has_value();
}

/// What is wrong with the options of loss scaling and clipping; empty where
/// nothing is.
static std::string checkLossScale(const CompileOptions &options) {
  ScaleLossPassOptions scaling;
  if (!parseLossScale(options, scaling))
    return "loss-scale '" + options.lossScale +
           "': expected auto, none, static:X, dynamic or dynamic:X with a "
           "positive number X";
  auto isIn = [](double value, double least, double most) {
    return value >= least && value <= most; // no NaN is
  };
  constexpr double most = std::numeric_limits<float>::max();
  if (!isIn(scaling.growth, 1, most))
    return "loss-scale-growth: expected at least 1";
  if (!(scaling.backoff > 0) || !isIn(scaling.backoff, 0, 1))
    return "loss-scale-backoff: expected more than 0 and at most 1";
  if (!isIn(static_cast<double>(scaling.interval), 1, INT32_MAX))
    return "loss-scale-interval: expected at least 1, in 31 bits";
  if (!isIn(static_cast<double>(scaling.hysteresis), 1, INT32_MAX))
    return "loss-scale-hysteresis: expected at least 1, in 31 bits";
  bool isBounded = scaling.mode == LossScaling::Static ||
                   (isIn(scaling.minScale, 0, scaling.initialScale) &&
                    isIn(scaling.maxScale, scaling.initialScale, most));
  if (!isBounded)
    return "loss-scale-min and loss-scale-max: expected 0 <= min <= first "
           "scale <= max, in f32";
  if (!isIn(scaling.clipNorm, 0, std::numeric_limits<double>::max()))
    return "clip-norm: expected at least 0";
  return "";
}

/// Wire types that have one element of a block. Of how many, the passes that
/// compress check.
static bool isSparseWire(StringRef wire) { return wire.starts_with("top1of"); }

/// Wire types of which blocks have scales or places, or several types of fewer
/// bits than f32: whole buckets are compressed.
static bool isCompressedWire(StringRef wires) {
  bool isOfSeveral = wires.contains('/');
  return llvm::all_of(llvm::split(wires, '/'), [&](StringRef wire) {
    return wire == "i8" || wire == "f8E4M3FN" || wire == "f8E5M2" ||
           wire == "i4" || wire == "i1" || isSparseWire(wire) ||
           (isOfSeveral && (wire == "bf16" || wire == "f16"));
  });
}

static bool isPipeline(const CompileOptions &options);

/// Whether gradients are scaled when they meet.
static bool hasLossScale(const CompileOptions &options) {
  ScaleLossPassOptions scaling;
  return parseLossScale(options, scaling) &&
         (scaling.mode == LossScaling::Auto
              ? options.precision == "f16"
              : scaling.mode != LossScaling::None);
}

bool CompileOptions::keepsLost() const {
  if (errorFeedback.hasValue())
    return errorFeedback && isCompressedWire(wire);
  return llvm::any_of(llvm::split(wire, '/'), [](StringRef one) {
    return one == "i4" || one == "i1" || isSparseWire(one);
  });
}

/// What keeps ranks from keeping what compression loses; empty: nothing does.
static std::string checkCompression(const CompileOptions &options) {
  std::string with = options.lowRank
                         ? "low-rank=" + std::to_string(options.lowRank)
                         : "error-feedback of wire=" + options.wire;
  if (options.lowRank < 0 || options.lowRank > 64)
    return with + ": expected a rank from 0 to 64";
  if (options.errorFeedback && !isCompressedWire(options.wire))
    return "error-feedback: expected a compressed wire";
  if (options.lowRank == 0 && !options.keepsLost())
    return "";
  if (options.getZeroLevel() > 1 && options.microBatches > 1)
    return with +
           ": expected zero=0 or 1, or one micro-batch, for ranks reduce "
           "the gradients of each";
  if (options.lowRank && options.averaging == Averaging::Before)
    return with + ": expected average=after";
  return "";
}

/// Of what is lost; that of momentum is of another size than a gradient's.
static const char *getResidualName(const CompileOptions &options) {
  return options.averageMomentum ? "momentum_residual" : "residual";
}

/// What keeps ranks from averaging momentum; empty: nothing does.
static std::string checkMomentum(const CompileOptions &options) {
  std::string with = "average-momentum";
  if (!options.averageMomentum)
    return "";
  if (options.localSteps > 1)
    return with + ": expected local-steps=1, where ranks average gradients";
  if (options.zero != "0")
    return with + ": expected zero=0, where ranks have whole momentum";
  if (isPipeline(options))
    return with + ": expected a mesh without stages";
  if (hasLossScale(options) || options.clipNorm > 0 || options.checkGradients)
    return with + ": expected no loss scaling, clip-norm or check-gradients, "
                  "for it is not gradients that meet";
  return "";
}

/// What keeps ranks from taking steps alone; empty: nothing does.
static std::string checkLocalSteps(const CompileOptions &options) {
  if (options.localSteps < 1 || options.localSteps > 4096)
    return "local-steps=" + std::to_string(options.localSteps) +
           ": expected from 1 to 4096";
  if (options.localSteps == 1)
    return options.outerLR.hasValue() || options.outerMomentum.hasValue()
               ? "outer-lr and outer-momentum: expected local-steps of 2 or "
                 "more"
               : "";
  if (!(static_cast<float>(options.outerLR) > 0) ||
      options.outerLR > std::numeric_limits<float>::max())
    return "outer-lr: expected a positive number, in f32";
  if (!(options.outerMomentum >= 0) || options.outerMomentum >= 1)
    return "outer-momentum: expected at least 0 and less than 1";
  std::string with = "local-steps=" + std::to_string(options.localSteps);
  if (options.zero != "0")
    return with + ": expected zero=0, where ranks have whole parameters";
  if (isPipeline(options))
    return with + ": expected a mesh without stages";
  if (options.batchNorm == BatchNormStatistics::Sync)
    return with +
           ": expected batch-norm=local, for ranks do not meet in a step";
  if (hasLossScale(options))
    return with + ": expected no loss scaling, for ranks that overflow alone "
                  "would no longer have one scale";
  if (options.checkGradients)
    return with + ": expected no check-gradients, of which there is one for a "
                  "step";
  return "";
}

/// What keeps reductions from ending in the next step; empty: nothing does.
static std::string checkDeferral(const CompileOptions &options) {
  if (options.deferBytes == 0)
    return "";
  std::string with = "defer-bytes=" + std::to_string(options.deferBytes);
  if (options.deferBytes < -1)
    return with + ": expected at least 0, or -1 for what pays";
  if (options.zero != "0")
    return with + ": expected zero=0, where ranks have whole gradients";
  if (isPipeline(options))
    return with + ": expected a mesh without stages";
  if (options.lowRank || isCompressedWire(options.wire))
    return with + ": expected a wire of one type of 16 bits or more, without "
                  "compression";
  if (hasLossScale(options) || options.clipNorm > 0 || options.checkGradients)
    return with + ": expected updates that need no other gradient: no loss "
                  "scaling, clip-norm or check-gradients";
  return "";
}

namespace {
struct MeshSizes {
  int64_t pp = 1, dp = 1;
};
} // namespace

/// `pp:P,dp:N`, either of them left out, but not both; nothing where malformed.
static std::optional<MeshSizes> parseMesh(StringRef text) {
  MeshSizes sizes;
  auto [first, second] = text.split(',');
  auto parse = [](StringRef part, StringRef name, int64_t &size) {
    auto [axis, number] = part.split(':');
    return axis == name && !number.getAsInteger(10, size) && size >= 1 &&
           size <= INT32_MAX;
  };
  bool ok = second.empty() && !text.ends_with(",")
                ? parse(first, "dp", sizes.dp) || parse(first, "pp", sizes.pp)
                : parse(first, "pp", sizes.pp) && parse(second, "dp", sizes.dp);
  if (!ok || sizes.pp * sizes.dp > INT32_MAX)
    return std::nullopt;
  return sizes;
}

std::string CompileOptions::getCluster() const {
  return cluster.empty() && target == "cuda" ? "dgx-h100" : cluster.getValue();
}

int64_t CompileOptions::getPipelineRanks() const {
  std::optional<MeshSizes> sizes = parseMesh(mesh);
  return sizes ? sizes->pp : 1;
}

int64_t CompileOptions::getZeroLevel() const {
  StringRef level = zero.getValue();
  return level.size() == 1 && level >= "0" && level <= "3" ? level[0] - '0'
                                                           : -1;
}

FailureOr<int64_t>
CompileOptions::countPlacedStages(std::string &reason) const {
  if (scheduleFile.empty())
    return placement.size();
  auto file = llvm::MemoryBuffer::getFile(scheduleFile, /*IsText=*/true);
  PipelineScheduleOr read;
  if (file)
    read = parsePipelineSchedule((*file)->getBuffer().str());
  else
    read.error = file.getError().message();
  if (read.error.empty())
    return read.schedule.virtualStages();
  reason = scheduleFile + ": " + read.error;
  return failure();
}

/// Stages of a pipeline, of which there is one.
static FailureOr<int64_t> countStages(const CompileOptions &options,
                                      std::string &reason) {
  int64_t ranks = options.getPipelineRanks();
  FailureOr<int64_t> placed = options.countPlacedStages(reason);
  if (failed(placed))
    return failure();
  if (*placed > 0 && options.chunks > 0 && *placed != ranks * options.chunks) {
    reason = std::to_string(*placed) + " stages are placed, expected " +
             std::to_string(ranks * options.chunks) +
             " of chunks=" + std::to_string(options.chunks);
    return failure();
  }
  if (*placed > 0)
    return *placed;
  if (options.chunks > 0)
    return ranks * options.chunks;
  bool isDouble =
      options.schedule == "interleaved" || options.schedule == "zb-v";
  return ranks * (isDouble ? 2 : 1);
}

static bool isPipeline(const CompileOptions &options) {
  return StringRef(options.mesh).starts_with("pp:");
}

FailureOr<int64_t> CompileOptions::check(std::string &reason) const {
  if (target != "cpu" && target != "cuda") {
    reason = "cannot compile for target '" + target + "': expected cpu or cuda";
    return failure();
  }
  if (target == "cpu" && !chips.empty()) {
    reason = "cannot compile for a chip, expected target=cuda with chip";
    return failure();
  }
  std::optional<MeshSizes> sizes = parseMesh(mesh);
  if (!sizes) {
    reason = "cannot compile for mesh '" + mesh +
             "': expected dp:N or pp:P,dp:N with N and P >= 1";
    if (StringRef(mesh).starts_with("auto"))
      reason += "; mpcomm-compile chooses for auto:N";
    return failure();
  }
  int64_t ranks = sizes->dp;
  std::string expected;
  if (!precision.empty() && !isPolicyValue("policy", precision, expected)) {
    reason = "cannot compile for precision '" + precision + "': expected " +
             expected;
    return failure();
  }
  auto isNumber = [&](StringRef key, StringRef text) {
    return text.empty() || parsePolicyNumber(key, text, expected);
  };
  auto refuse = [&](StringRef key, StringRef text) {
    reason =
        ("cannot compile for fp8-" + key + " '" + text + "': expected ").str() +
        expected;
    return failure();
  };
  if (!fp8Scaling.empty() && !isPolicyValue("scaling", fp8Scaling, expected))
    return refuse("scaling", fp8Scaling);
  if (!isNumber("history", fp8History))
    return refuse("history", fp8History);
  if (!isNumber("margin", fp8Margin))
    return refuse("margin", fp8Margin);
  if (std::string wrong = checkLossScale(*this); !wrong.empty()) {
    reason = "cannot compile for " + wrong;
    return failure();
  }
  if (!wire.empty() && wire != "f32" && wire != "f16" && wire != "bf16" &&
      !isCompressedWire(wire)) {
    reason = "cannot send gradients as '" + wire +
             "': expected f32, f16, bf16, i8, f8E4M3FN, f8E5M2, i4, i1 or "
             "top1of8 to top1of256, of a power of two, or several of these "
             "but f32, as in bf16/i8";
    return failure();
  }
  if (wireMinBytes < -1) {
    reason = "cannot compress from wire-min-bytes of " +
             std::to_string(wireMinBytes) +
             ": expected at least 0, or -1 for "
             "what pays";
    return failure();
  }
  if (getZeroLevel() < 0) {
    reason = "cannot split state as zero=" + zero + ": expected 0 to 3";
    if (zero == "auto")
      reason += "; mpcomm-compile chooses for auto";
    return failure();
  }
  if (zeroKeep < -1) {
    reason =
        "cannot keep " + std::to_string(zeroKeep) +
        " bytes of gathered parameters: expected at least 0, or -1 for all";
    return failure();
  }
  if (microBatches < 1) {
    reason = "expected at least 1 micro-batch";
    return failure();
  }
  if (std::string wrong = checkCompression(*this); !wrong.empty()) {
    reason = "cannot send gradients with " + wrong;
    return failure();
  }
  if (std::string wrong = checkMomentum(*this); !wrong.empty()) {
    reason = "cannot compile with " + wrong;
    return failure();
  }
  if (std::string wrong = checkLocalSteps(*this); !wrong.empty()) {
    reason = "cannot compile for " + wrong;
    return failure();
  }
  if (std::string wrong = checkDeferral(*this); !wrong.empty()) {
    reason = "cannot compile for " + wrong;
    return failure();
  }
  if (schedule != "auto" && !parsePipelineKind(schedule.getValue())) {
    reason = "cannot schedule '" + schedule +
             "', expected auto, gpipe, 1f1b, interleaved, zb-h1 or zb-v";
    return failure();
  }
  if (chunks < 0 || chunks > INT16_MAX) {
    reason = "expected 0 to 32767 chunks";
    return failure();
  }
  if (isPipeline(*this) && failed(countStages(*this, reason)))
    return failure();
  if (maxBucketBytes < 0 || firstBucketBytes < 0 || memoryBytes < 0) {
    reason = "expected sizes of at least 0 bytes";
    return failure();
  }
  return ranks;
}

/// Adds a pass that makes, moves or changes communication, and the proof that
/// no rank can hang after it. The proof costs little, and names the pass that
/// is to blame.
static void addProved(OpPassManager &passes, std::unique_ptr<Pass> pass) {
  passes.addPass(std::move(pass));
  passes.addPass(createVerifyCommunicationPass());
}

/// What a pass may do to what is computed.
enum class Meaning {
  Rewritten, ///< compute it in another way
  Recorded,  ///< the same; those that follow do not
  Kept       ///< nothing: it only moves communication
};

/// The same in Forms 3 and 4, and the check of what ranks hold after it.
static void addChecked(OpPassManager &passes, std::unique_ptr<Pass> pass,
                       Meaning meaning = Meaning::Rewritten) {
  addProved(passes, std::move(pass));
  VerifyShardingsPassOptions options;
  options.record = meaning == Meaning::Recorded;
  passes.addPass(createVerifyShardingsPass(options));
}

/// Whether all GPUs that are compiled for have a feature.
static bool chipsHave(const CompileOptions &options, ChipFeature feature) {
  return options.target == "cuda" &&
         haveFeature(SmallVector<std::string>(options.chips.begin(),
                                              options.chips.end()),
                     feature);
}

/// Whether products may read 8 bits, which tensor cores add up in less than
/// f32.
static bool canMultiplyF8(const CompileOptions &options) {
  return options.numerics != Numerics::Exact &&
         chipsHave(options, ChipFeature::F8Products);
}

/// Whether kernels can compute attention.
static bool canFuseAttention(const CompileOptions &options) {
  return chipsHave(options, ChipFeature::TileProducts);
}

void mpcomm::buildGraphPipeline(OpPassManager &passes,
                                const CompileOptions &options, int64_t ranks) {
  // What comes in is checked before anything relies on it.
  passes.addPass(createVerifyTrainingGraphPass());
  // Front ends leave views of views and shared subexpressions.
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());

  // Before casts, which then see what is done to gradients; before gradients
  // meet, so that they do so scaled.
  ScaleLossPassOptions scaling;
  if (parseLossScale(options, scaling))
    passes.addPass(createScaleLossPass(scaling));
  // Before gradients meet: in the type that they have then they travel.
  InsertCastsPassOptions casts;
  casts.policy = options.precision;
  casts.policyFile = options.precisionFile;
  casts.fp8Scaling = options.fp8Scaling;
  casts.fp8History = options.fp8History;
  casts.fp8Margin = options.fp8Margin;
  casts.cluster = options.getCluster();
  casts.multiplyF8 = canMultiplyF8(options);
  passes.addPass(createInsertCastsPass(casts));
  // After casts, which say what has 16 bits; before anything weighs what a
  // step costs and keeps.
  if (options.attention == AttentionForm::Fused ||
      (options.attention == AttentionForm::Auto && canFuseAttention(options))) {
    FuseAttentionPassOptions attention;
    attention.numerics = options.numerics;
    if (options.attention == AttentionForm::Fused)
      attention.shapes = AttentionShapes::All;
    passes.addPass(createFuseAttentionPass(attention));
  }

  // The order of dimensions says what runs in one kernel: before anything
  // weighs what a step costs. Kernels of a GPU wait for memory.
  if (options.target == "cuda") {
    if (options.numerics != Numerics::Exact)
      passes.addPass(createSinkMovementPass());
    passes.addPass(createHoistReversePass());
    passes.addPass(createRecomputeElementwisePass());
  }
  passes.addPass(createChannelsLastPass());

  AccumulateGradientsPassOptions accumulate;
  accumulate.microBatches = options.microBatches;
  bool isLocal = options.localSteps > 1;
  if (isLocal) {
    // Each step has its micro-batches, and ranks meet after all of them.
    passes.addPass(createAccumulateGradientsPass(accumulate));
    LocalStepsPassOptions local;
    local.steps = options.localSteps;
    local.outerLR = options.outerLR;
    local.outerMomentum = options.outerMomentum;
    passes.addPass(createLocalStepsPass(local));
  }

  if (options.averageMomentum)
    passes.addPass(createAverageMomentumPass());
  DataParallelPassOptions dataParallel;
  dataParallel.size = ranks;
  dataParallel.microBatches = isLocal ? 1 : options.microBatches.getValue();
  // What is to be compressed keeps its type until its bucket is.
  dataParallel.wire =
      isCompressedWire(options.wire) ? "f32" : options.wire.getValue();
  dataParallel.averaging = options.averaging;
  addChecked(passes, createDataParallelPass(dataParallel));
  // On the mesh of the ranks that have different samples.
  if (options.batchNorm == BatchNormStatistics::Sync)
    addChecked(passes, createSyncBatchNormPass());
  passes.addPass(createVerifyRankProgramsPass());
  // Before the step comes apart: what an update is made of is known there.
  int64_t zero = options.getZeroLevel();
  if (zero > 0) {
    AssignShardingsPassOptions assign;
    assign.zero = zero;
    passes.addPass(createAssignShardingsPass(assign));
    passes.addPass(createPropagateShardingsPass());
    InsertReshardsPassOptions reshards;
    reshards.gradients = zero > 1;
    reshards.keepBytes = options.zeroKeep;
    passes.addPass(createInsertReshardsPass(reshards));
  }
  // What ranks hold can be checked where they hold what is declared: state that
  // is to be split is still whole until it is localized.
  auto addBeforeLocal = [&](std::unique_ptr<Pass> pass) {
    if (zero > 0)
      addProved(passes, std::move(pass));
    else
      addChecked(passes, std::move(pass));
  };
  // After the reductions, which then run once a step.
  if (isPipeline(options)) {
    int64_t pipelineRanks = options.getPipelineRanks();
    PartitionPipelinePassOptions partition;
    std::string reason; // check() has said it
    FailureOr<int64_t> stages = countStages(options, reason);
    partition.stages = succeeded(stages) ? *stages : 0;
    partition.microBatches = options.microBatches;
    partition.cluster = options.getCluster();
    partition.profileFile = options.profileFile;
    partition.memoryBytes = options.memoryBytes;
    llvm::append_range(partition.boundaries, options.boundaries);
    passes.addPass(createPartitionPipelinePass(partition));
    if (options.recompute != Recomputation::None) {
      RecomputePassOptions recompute;
      recompute.policy = options.recompute;
      recompute.cluster = options.getCluster();
      recompute.profileFile = options.profileFile;
      passes.addPass(createRecomputePass(recompute));
    }
    SchedulePipelinePassOptions pipeline;
    pipeline.ranks = pipelineRanks;
    pipeline.microBatches = options.microBatches;
    pipeline.schedule = options.schedule;
    pipeline.scheduleFile = options.scheduleFile;
    llvm::append_range(pipeline.placement, options.placement);
    pipeline.memoryBytes = options.memoryBytes;
    pipeline.cluster = options.getCluster();
    pipeline.profileFile = options.profileFile;
    addBeforeLocal(createSchedulePipelinePass(pipeline));
  } else if (options.microBatches > 1 && !isLocal) {
    addBeforeLocal(createAccumulateGradientsPass(accumulate));
  }

  // After micro-batches and stages, which are made of whole types.
  if (zero > 0)
    addChecked(passes, createLocalizePass());

  // Gradients are complete where they meet.
  if (options.lowRank > 0) {
    LowRankGradientsPassOptions lowRank;
    lowRank.rank = options.lowRank;
    lowRank.residual = getResidualName(options);
    addChecked(passes, createLowRankGradientsPass(lowRank), Meaning::Recorded);
  }

  // What need not travel is not worth a bucket.
  SimplifyCollectivesPassOptions simplify;
  simplify.cluster = options.getCluster();
  simplify.profileFile = options.profileFile;
  simplify.numerics = options.numerics;
  addChecked(passes, createSimplifyCollectivesPass(simplify));
  MoveCastsPassOptions moveCasts;
  moveCasts.numerics = options.numerics;
  addChecked(passes, createMoveCastsPass(moveCasts), Meaning::Recorded);

  // Updates wait for gradients: below the backward pass they leave room for
  // the collectives to run.
  passes.addPass(createSinkUpdatesPass());
  if (options.deferBytes != 0) {
    DeferReductionsPassOptions defer;
    defer.maxBytes = options.deferBytes;
    defer.cluster = options.getCluster();
    defer.profileFile = options.profileFile;
    addChecked(passes, createDeferReductionsPass(defer), Meaning::Recorded);
  }
  CombineCollectivesPassOptions combine;
  combine.policy = options.buckets;
  combine.cluster = options.getCluster();
  combine.profileFile = options.profileFile;
  combine.maxBucketBytes = options.maxBucketBytes;
  combine.firstBucketBytes = options.firstBucketBytes;
  combine.numerics = options.numerics;
  combine.decompose = options.overlap;
  // Another order may take more memory, which only the schedule bounds.
  combine.reorder = options.overlap && options.memoryBytes == 0;
  combine.peakBytes = options.memoryBytes;
  if (isCompressedWire(options.wire)) {
    combine.compress = options.wire;
    combine.compressMinBytes = options.wireMinBytes;
  }
  addChecked(passes, createCombineCollectivesPass(combine), Meaning::Kept);
  if (isCompressedWire(options.wire)) {
    CompressCollectivesPassOptions compress;
    compress.type = options.wire;
    compress.minBytes = options.wireMinBytes;
    compress.errorFeedback = options.keepsLost();
    compress.residual = getResidualName(options);
    compress.cluster = options.getCluster();
    compress.profileFile = options.profileFile;
    addChecked(passes, createCompressCollectivesPass(compress),
               Meaning::Recorded);
  }
  // How a bucket travels depends on its size. The parts of what is decomposed
  // wait for one another: only a schedule hides them.
  if (options.overlap) {
    DecomposeCollectivesPassOptions decompose;
    decompose.cluster = options.getCluster();
    decompose.profileFile = options.profileFile;
    decompose.numerics = options.numerics;
    addChecked(passes, createDecomposeCollectivesPass(decompose),
               Meaning::Kept);
  }
  addChecked(passes, createMakeAsyncPass(), Meaning::Kept);
  if (options.overlap) {
    ScheduleOverlapPassOptions overlap;
    overlap.cluster = options.getCluster();
    overlap.profileFile = options.profileFile;
    overlap.memoryBytes = options.memoryBytes;
    addChecked(passes, createScheduleOverlapPass(overlap), Meaning::Kept);
  }
  passes.addPass(createVerifyScheduledProgramsPass());
  // Of what remains, somebody may want to know why.
  ExplainCommunicationPassOptions explain;
  explain.cluster = options.getCluster();
  explain.profileFile = options.profileFile;
  passes.addPass(createExplainCommunicationPass(explain));
}

/// A copy of so many bytes takes a GPU less time than its launch.
static constexpr int64_t kCopyKernelBytes = 1 << 20;

void mpcomm::buildLowerPipeline(OpPassManager &passes,
                                const CompileOptions &options) {
  // Collectives first: their casts and transposes are compute like any other.
  passes.addPass(createConvertMPCommToMPRTPass());
  ConvertMPCommToLinalgPassOptions linalg;
  linalg.device = canFuseAttention(options) ? "cuda" : "host";
  linalg.multiplyF8 = canMultiplyF8(options);
  if (options.target == "cuda" && options.numerics != Numerics::Exact)
    linalg.rowsAtATime = kRowsAtATimeOnGPU;
  passes.addPass(createConvertMPCommToLinalgPass(linalg));
  // Constants and views that several ops made are one before grouping.
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(createFormKernelsPass());
  // Kernels keep their tensors until their code is generated; what is
  // bufferized is the flat list of launches, contractions and collectives.
  passes.addPass(createBufferizeStepPass());
  passes.addPass(createPlanMemoryPass());
  // After the plan, which may copy into and out of buckets.
  ConvertLinalgToMPRTPassOptions calls;
  if (options.target == "cuda")
    calls.copyKernelBytes = kCopyKernelBytes;
  addProved(passes, createConvertLinalgToMPRTPass(calls));
  passes.addPass(createVerifyRuntimeProgramsPass());
}

void mpcomm::buildCUDAPipeline(OpPassManager &passes,
                               const CompileOptions &options) {
  if (options.numerics != Numerics::Exact)
    passes.addPass(createFormEpiloguesPass());
  GenerateGPUKernelsPassOptions kernels;
  kernels.warpgroups = chipsHave(options, ChipFeature::WarpgroupProducts);
  passes.addPass(createGenerateGPUKernelsPass(kernels));
  passes.addPass(createBatchLaunchesPass());
  ConvertMPRTToLLVMPassOptions llvmOptions;
  llvmOptions.device = "cuda";
  llvmOptions.cpu = options.cpu;
  llvmOptions.features = options.features;
  passes.addPass(createConvertMPRTToLLVMPass(llvmOptions));
  addGPULoweringPipeline(passes);
  AssembleKernelsPassOptions assemble;
  llvm::append_range(assemble.chips, options.chips);
  assemble.ptxas = options.ptxas;
  passes.addPass(createAssembleKernelsPass(assemble));
}

void mpcomm::buildProgramPipeline(OpPassManager &passes,
                                  const CompileOptions &options) {
  if (options.target == "cuda")
    return buildCUDAPipeline(passes, options);
  passes.addPass(createGenerateKernelsPass());
  ConvertMPRTToLLVMPassOptions llvmOptions;
  llvmOptions.cpu = options.cpu;
  llvmOptions.features = options.features;
  passes.addPass(createConvertMPRTToLLVMPass(llvmOptions));
  addKernelLoweringPipeline(passes, KernelTarget::ofFeatures(options.features));
  passes.addPass(createPackKernelsPass());
}

LogicalResult mpcomm::buildCompilePipeline(OpPassManager &passes,
                                           const CompileOptions &options,
                                           std::string &reason) {
  FailureOr<int64_t> ranks = options.check(reason);
  if (failed(ranks))
    return failure();
  buildGraphPipeline(passes, options, *ranks);
  ForecastStepPassOptions forecast;
  forecast.cluster = options.getCluster();
  forecast.profileFile = options.profileFile;
  passes.addPass(createForecastStepPass(forecast));
  buildLowerPipeline(passes, options);
  buildProgramPipeline(passes, options);
  return success();
}

/// Registers a pipeline whose options are checked when it is built, so that a
/// bad value is an error of the command line. `target` stands for one that is
/// not given.
template <typename Build>
static void registerPipeline(StringRef name, StringRef description, Build build,
                             StringRef target = "cpu") {
  registerPassPipeline(
      name, description,
      [build, target](
          OpPassManager &passes, StringRef text,
          function_ref<LogicalResult(const Twine &)> error) -> LogicalResult {
        CompileOptions options;
        std::string reason;
        if (failed(options.parse(text, reason)))
          return error(reason);
        if (!options.target.hasValue())
          options.target = target.str();
        FailureOr<int64_t> ranks = options.check(reason);
        if (failed(ranks))
          return error(reason);
        build(passes, options, *ranks);
        return success();
      },
      [](function_ref<void(const mlir::detail::PassOptions &)> visit) {
        visit(CompileOptions());
      });
}

void mpcomm::registerPipelines() {
  registerPipeline(
      "mpcomm-compile",
      "The whole way of a training step: graph, lower, program",
      [](OpPassManager &passes, const CompileOptions &options, int64_t ranks) {
        buildGraphPipeline(passes, options, ranks);
        buildLowerPipeline(passes, options);
        buildProgramPipeline(passes, options);
      });
  registerPipeline(
      "mpcomm-graph", "Training graph to scheduled rank programs (Form 1 to 4)",
      [](OpPassManager &passes, const CompileOptions &options, int64_t ranks) {
        buildGraphPipeline(passes, options, ranks);
      });
  registerPipeline("mpcomm-lower",
                   "Scheduled rank programs to runtime programs (Form 4 to 5)",
                   [](OpPassManager &passes, const CompileOptions &options,
                      int64_t) { buildLowerPipeline(passes, options); });
  registerPipeline(
      "mpcomm-to-cuda",
      "Runtime programs to the LLVM dialect, with their kernels "
      "for GPUs (Form 5 to 6)",
      [](OpPassManager &passes, const CompileOptions &options, int64_t) {
        buildCUDAPipeline(passes, options);
      },
      "cuda");
  registerPipeline("mpcomm-program",
                   "Runtime programs to the LLVM dialect (Form 5 to 6)",
                   [](OpPassManager &passes, const CompileOptions &options,
                      int64_t) { buildProgramPipeline(passes, options); });
}
