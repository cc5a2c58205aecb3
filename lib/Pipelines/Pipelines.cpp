//===- Pipelines.cpp - the way of a training step -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Pipelines/Pipelines.h"
#include "CompileOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "mpcomm/Codegen/Chips.h"
#include "mpcomm/Codegen/Kernels.h"
#include "mpcomm/Codegen/Passes.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"
#include "mpcomm/Conversion/Passes.h"
#include "mpcomm/Transforms/Passes.h"

using namespace mlir;
using namespace mpcomm;

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
  if (chipsHave(options, ChipFeature::LargeShared))
    kernels.launchShared = kLaunchShared;
  passes.addPass(createGenerateGPUKernelsPass(kernels));
  passes.addPass(createBatchLaunchesPass());
  ConvertMPRTToLLVMPassOptions llvmOptions;
  llvmOptions.device = "cuda";
  llvmOptions.cpu = options.cpu;
  llvmOptions.features = options.features;
  passes.addPass(createConvertMPRTToLLVMPass(llvmOptions));
  addGPULoweringPipeline(passes,
                         chipsHave(options, ChipFeature::F8Conversions));
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
