//===- CompileOptions.cpp - what options mean, and their errors -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompileOptions.h"
#include "mpcomm/Analysis/Precision/PrecisionPolicy.h"
#include "mpcomm/Codegen/Chips.h"
#include "mpcomm/Scheduling/PipelineSchedule/PipelineSchedule.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MemoryBuffer.h"
#include <limits>

using namespace mlir;
using namespace mpcomm;

/// Reads `loss-scale`; false where it is malformed.
bool mpcomm::parseLossScale(const CompileOptions &options,
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
bool mpcomm::isCompressedWire(StringRef wires) {
  bool isOfSeveral = wires.contains('/');
  return llvm::all_of(llvm::split(wires, '/'), [&](StringRef wire) {
    return wire == "i8" || wire == "f8E4M3FN" || wire == "f8E5M2" ||
           wire == "i4" || wire == "i1" || isSparseWire(wire) ||
           (isOfSeveral && (wire == "bf16" || wire == "f16"));
  });
}

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
const char *mpcomm::getResidualName(const CompileOptions &options) {
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
FailureOr<int64_t> mpcomm::countStages(const CompileOptions &options,
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

bool mpcomm::isPipeline(const CompileOptions &options) {
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
