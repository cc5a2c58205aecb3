//===- Pipelines.h - pass pipelines and their options -----------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_PIPELINES_PIPELINES_H
#define MPCOMM_PIPELINES_PIPELINES_H

#include "mlir/Pass/PassManager.h"
#include "mpcomm/Pipelines/CheckedOptions.h"
#include "mpcomm/Transforms/PassOptions.h"

namespace mpcomm {

/// Whether batch norms normalise over the samples of a rank or of all ranks.
enum class BatchNormStatistics { Local, Sync };

/// Whether attention that is written as separate ops becomes one op.
enum class AttentionForm { Auto, Fused, Separate };

/// The options of a compilation; see their descriptions.
struct CompileOptions : public CheckedOptions {
  Option<std::string> mesh{
      *this, "mesh",
      llvm::cl::desc("Ranks: dp:N with different samples, or pp:P,dp:N for N "
                     "pipelines of P stages; mpcomm-compile also accepts "
                     "auto:N, and chooses the mesh"),
      llvm::cl::init("dp:1")};
  Option<std::string> schedule{
      *this, "schedule",
      llvm::cl::desc("Order of a pipeline's micro-batches: auto, gpipe, 1f1b, "
                     "interleaved, zb-h1 or zb-v"),
      llvm::cl::init("1f1b")};
  Option<std::string> scheduleFile{
      *this, "schedule-file",
      llvm::cl::desc("File with a pipeline's schedule in PyTorch's CSV format, "
                     "instead of `schedule`"),
      llvm::cl::init("")};
  ListOption<int64_t> placement{
      *this, "placement",
      llvm::cl::desc("The rank of each stage of a pipeline: 0,1,1,0; default: "
                     "those of the schedule")};
  Option<int64_t> chunks{
      *this, "chunks",
      llvm::cl::desc("Stages of a pipeline on each rank; 0: those of "
                     "schedule-file or placement, else 2 for interleaved and "
                     "zb-v, else 1"),
      llvm::cl::init(0)};
  ListOption<std::string> boundaries{
      *this, "boundaries",
      llvm::cl::desc(
          "Stages of ops by names of parameters: PATTERN=STAGE,...")};
  Option<std::string> target{
      *this, "target",
      llvm::cl::desc("Device to compile for: cpu, or cuda for NVIDIA's GPUs"),
      llvm::cl::init("cpu")};
  ListOption<std::string> chips{
      *this, "chip",
      llvm::cl::desc("For target cuda, the chips to assemble kernels for, "
                     "from sm_75 on; default: sm_80, sm_90, sm_100. sm_90a "
                     "alone: with kernels of attention of its own")};
  Option<std::string> ptxas{
      *this, "ptxas",
      llvm::cl::desc("For target cuda, the assembler; default: as found; "
                     "'none': only PTX, which the driver assembles"),
      llvm::cl::init("")};
  Option<Recomputation> recompute{
      *this, "recompute",
      llvm::cl::desc("What a pipeline's stages recompute in their backward "
                     "pass instead of keeping it"),
      llvm::cl::init(Recomputation::None),
      llvm::cl::values(clEnumValN(Recomputation::None, "none", "nothing"),
                       clEnumValN(Recomputation::Selective, "selective",
                                  "all but products and convolutions"),
                       clEnumValN(Recomputation::Stage, "stage",
                                  "all values that the stage does not "
                                  "receive"))};
  Option<std::string> cluster{
      *this, "cluster",
      llvm::cl::desc("Cluster for which decisions are made: a preset or a JSON "
                     "file; empty: mpcomm.cluster of the module, else local, "
                     "or dgx-h100 for target cuda"),
      llvm::cl::init("")};
  Option<std::string> lossScale{
      *this, "loss-scale",
      llvm::cl::desc("Factor on the gradient of the loss: none, static:X, "
                     "dynamic or dynamic:X (X first), or auto: dynamic for "
                     "precision f16"),
      llvm::cl::init("auto")};
  Option<int64_t> lossScaleInterval{
      *this, "loss-scale-interval",
      llvm::cl::desc("Good steps in a row before a dynamic scale grows"),
      llvm::cl::init(2000)};
  Option<double> lossScaleGrowth{
      *this, "loss-scale-growth",
      llvm::cl::desc("Factor by which a dynamic scale grows, at least 1"),
      llvm::cl::init(2)};
  Option<double> lossScaleBackoff{
      *this, "loss-scale-backoff",
      llvm::cl::desc("Factor on a dynamic scale after an overflow, in (0, 1]"),
      llvm::cl::init(0.5)};
  Option<double> lossScaleMin{
      *this, "loss-scale-min",
      llvm::cl::desc("Least dynamic scale; not given: 1, or the first if that "
                     "is less"),
      llvm::cl::init(1)};
  Option<double> lossScaleMax{
      *this, "loss-scale-max",
      llvm::cl::desc("Greatest dynamic scale; not given: 2^24, or the first if "
                     "that is greater"),
      llvm::cl::init(16777216)};
  Option<int64_t> lossScaleHysteresis{
      *this, "loss-scale-hysteresis",
      llvm::cl::desc(
          "Overflows since a dynamic scale grew before it backs off"),
      llvm::cl::init(1)};
  Option<double> clipNorm{
      *this, "clip-norm",
      llvm::cl::desc("Largest norm over all gradients; 0: no clipping"),
      llvm::cl::init(0)};
  Option<bool> checkGradients{
      *this, "check-gradients",
      llvm::cl::desc("Report parameters whose gradients are not finite"),
      llvm::cl::init(false)};
  Option<int64_t> microBatches{
      *this, "micro-batches",
      llvm::cl::desc("Batches of a rank in a step, whose gradients are "
                     "accumulated"),
      llvm::cl::init(1)};
  Option<int64_t> globalBatch{
      *this, "global-batch",
      llvm::cl::desc("With mesh=auto:N, samples of a step; 0: those of "
                     "`micro-batches` batches on each rank"),
      llvm::cl::init(0)};
  Option<std::string> profileFile{
      *this, "profile-file",
      llvm::cl::desc("Measured times, which replace those of the cost model"),
      llvm::cl::init("")};
  Option<std::string> wire{
      *this, "wire",
      llvm::cl::desc(
          "Wire type of gradients: f32, f16, bf16, or i8, f8E4M3FN, "
          "f8E5M2, i4, i1 (signs) with one scale per block, or "
          "top1of8 to top1of256 (the largest of each 8 to 256), or "
          "several of these, as in bf16/i8, of which each bucket has "
          "the fastest in the model; empty: their own type"),
      llvm::cl::init("")};
  Option<int64_t> wireMinBytes{
      *this, "wire-min-bytes",
      llvm::cl::desc("Smallest bucket that a `wire` of 8 bits or fewer, or of "
                     "several types, compresses; -1: if it is faster in the "
                     "model"),
      llvm::cl::init(-1)};
  Option<bool> errorFeedback{
      *this, "error-feedback",
      llvm::cl::desc(
          "Adds what such a `wire` loses of a gradient to the next one; "
          "default: if i4, i1 or one of top1of8 to top1of256 is "
          "in it"),
      llvm::cl::init(false)};
  Option<bool> averageMomentum{
      *this, "average-momentum",
      llvm::cl::desc("Ranks average momentum instead of gradients; AdamW then "
                     "keeps its estimate of the variance, as 1-bit Adam does "
                     "after its warm-up"),
      llvm::cl::init(false)};
  Option<int64_t> lowRank{
      *this, "low-rank",
      llvm::cl::desc("Sends gradients of matrices as products of two of this "
                     "rank, and keeps what that loses for the next step "
                     "(PowerSGD); 0: sends them whole"),
      llvm::cl::init(0)};
  Option<Averaging> averaging{
      *this, "average", llvm::cl::desc("When gradients are divided by ranks"),
      llvm::cl::init(Averaging::After),
      llvm::cl::values(
          clEnumValN(Averaging::After, "after", "after their sum"),
          clEnumValN(Averaging::Before, "before", "before they are sent"))};
  Option<int64_t> deferBytes{
      *this, "defer-bytes",
      llvm::cl::desc("Bytes of gradients that are reduced when the next step "
                     "begins, before it reads their parameters; 0: none, -1: "
                     "what the model says pays"),
      llvm::cl::init(0)};
  Option<int64_t> localSteps{
      *this, "local-steps",
      llvm::cl::desc("Steps that a rank takes by its own gradients before "
                     "ranks average what these did to parameters (local SGD, "
                     "DiLoCo); a step of the program is all of them"),
      llvm::cl::init(1)};
  Option<double> outerLR{
      *this, "outer-lr",
      llvm::cl::desc("With local-steps, learning rate by which the average is "
                     "applied"),
      llvm::cl::init(1)};
  Option<double> outerMomentum{
      *this, "outer-momentum",
      llvm::cl::desc("With local-steps, Nesterov's momentum of the averages, "
                     "in [0, 1)"),
      llvm::cl::init(0)};
  Option<std::string> zero{
      *this, "zero",
      llvm::cl::desc("What data ranks hold a part of, as in ZeRO: 0: nothing; "
                     "1: state of the optimizer; 2: sums of gradients, too; 3: "
                     "parameters, too. mpcomm-compile chooses for auto"),
      llvm::cl::init("0")};
  Option<int64_t> zeroKeep{
      *this, "zero-keep",
      llvm::cl::desc("With zero=3, bytes of gathered parameters that are kept "
                     "for the backward pass, those of the last layers; others "
                     "are gathered again. -1: all. zero=auto chooses"),
      llvm::cl::init(0)};
  Option<BatchNormStatistics> batchNorm{
      *this, "batch-norm",
      llvm::cl::desc("Samples over which batch norms normalise"),
      llvm::cl::init(BatchNormStatistics::Local),
      llvm::cl::values(
          clEnumValN(BatchNormStatistics::Local, "local", "the rank's own"),
          clEnumValN(BatchNormStatistics::Sync, "sync",
                     "those of all ranks, as SyncBatchNorm"))};
  Option<AttentionForm> attention{
      *this, "attention",
      llvm::cl::desc("Whether separate ops of attention become one op"),
      llvm::cl::init(AttentionForm::Auto),
      llvm::cl::values(
          clEnumValN(AttentionForm::Auto, "auto",
                     "for target cuda, 16 bits, and shapes that the kernel "
                     "supports"),
          clEnumValN(AttentionForm::Fused, "fused",
                     "one op for any target and shape"),
          clEnumValN(AttentionForm::Separate, "separate",
                     "products and a softmax, as written"))};
  Option<std::string> precision{
      *this, "precision",
      llvm::cl::desc("Precision of computation and storage: none, bf16, f16 "
                     "or fp8; empty: that of the file, else mpcomm.precision "
                     "of the module, else none"),
      llvm::cl::init("")};
  Option<std::string> precisionFile{
      *this, "precision-file",
      llvm::cl::desc("JSON file with a precision, and exceptions by op and by "
                     "parameter"),
      llvm::cl::init("")};
  Option<std::string> fp8Scaling{
      *this, "fp8-scaling",
      llvm::cl::desc("Scales of precision fp8: delayed (from earlier steps) or "
                     "current (from the same step); empty: that of the file, "
                     "else delayed"),
      llvm::cl::init("")};
  Option<std::string> fp8History{
      *this, "fp8-history",
      llvm::cl::desc("Number of earlier steps for a delayed scale; empty: that "
                     "of the file, else 16"),
      llvm::cl::init("")};
  Option<std::string> fp8Margin{
      *this, "fp8-margin",
      llvm::cl::desc("Scales of fp8 are 2^margin below the largest that fit; "
                     "empty: that of the file, else 0"),
      llvm::cl::init("")};
  Option<BucketPolicy> buckets{
      *this, "buckets",
      llvm::cl::desc("Rule that assigns gradients to buckets"),
      llvm::cl::init(BucketPolicy::Solved),
      llvm::cl::values(
          clEnumValN(BucketPolicy::Solved, "solved",
                     "the solver, checked against the others in the simulator"),
          clEnumValN(BucketPolicy::DDP, "ddp", "as DistributedDataParallel"),
          clEnumValN(BucketPolicy::XLA, "xla", "as XLA's combiner"),
          clEnumValN(BucketPolicy::Horovod, "horovod", "as Horovod"),
          clEnumValN(BucketPolicy::Megatron, "megatron", "as Megatron-LM"),
          clEnumValN(BucketPolicy::MGWFBP, "mg-wfbp", "as MG-WFBP"),
          clEnumValN(BucketPolicy::One, "one", "one bucket"),
          clEnumValN(BucketPolicy::None, "none", "nothing is merged"))};
  Option<int64_t> maxBucketBytes{
      *this, "max-bucket-bytes",
      llvm::cl::desc("Cap on the bytes of a bucket; 0: that of `buckets`"),
      llvm::cl::init(0)};
  Option<int64_t> firstBucketBytes{
      *this, "first-bucket-bytes",
      llvm::cl::desc("The same for the first bucket of a step (ddp)"),
      llvm::cl::init(0)};
  Option<bool> overlap{
      *this, "overlap",
      llvm::cl::desc("Order the step so that computation hides communication"),
      llvm::cl::init(true)};
  Option<int64_t> memoryBytes{
      *this, "memory-bytes",
      llvm::cl::desc("Limit on live bytes of the ordered step, buckets among "
                     "them, and on the memory of pipeline stages; 0: no limit"),
      llvm::cl::init(0)};
  Option<Numerics> numerics{
      *this, "numerics",
      llvm::cl::desc(
          "How rewrites of communication and attention may change values"),
      llvm::cl::init(Numerics::Reassociating),
      llvm::cl::values(
          clEnumValN(Numerics::Exact, "exact", "nothing: the same bits"),
          clEnumValN(Numerics::Reassociating, "reassociating",
                     "sums in another order"),
          clEnumValN(Numerics::Lossy, "lossy",
                     "also fewer bits, as on the wire"))};
  Option<std::string> cpu{*this, "cpu",
                          llvm::cl::desc("Processor named in the program"),
                          llvm::cl::init("")};
  Option<std::string> features{
      *this, "features",
      llvm::cl::desc("Processor features that the program needs"),
      llvm::cl::init("")};

  /// `cluster`, or its default if it is empty.
  std::string getCluster() const;

  /// Ranks of each pipeline, by `mesh`, which must have passed check().
  int64_t getPipelineRanks() const;

  /// Whether what `wire` loses goes into the next step: where it is asked for,
  /// and where without that a step would hardly be one.
  bool keepsLost() const;

  /// The level of `zero`, which must have passed check().
  int64_t getZeroLevel() const;

  /// Number of stages in `schedule-file` or `placement`; 0 if neither is given.
  /// Failure, with a reason, if the file cannot be read.
  llvm::FailureOr<int64_t> countPlacedStages(std::string &reason) const;

  /// The size of axis dp. Failure, with a reason, if the options are invalid.
  llvm::FailureOr<int64_t> check(std::string &reason) const;
};

/// Form 1 to Form 4: data or pipeline parallelism, buckets, and asynchronous
/// collectives in an order that hides them.
void buildGraphPipeline(mlir::OpPassManager &passes,
                        const CompileOptions &options, int64_t ranks);
/// Form 4 to Form 5: linalg, kernels, buffers, memory, runtime calls.
void buildLowerPipeline(mlir::OpPassManager &passes,
                        const CompileOptions &options);
/// Form 5 to the LLVM dialect: code of kernels, entry points, manifest.
void buildProgramPipeline(mlir::OpPassManager &passes,
                          const CompileOptions &options);
/// The same for NVIDIA GPUs; buildProgramPipeline uses it for target cuda.
void buildCUDAPipeline(mlir::OpPassManager &passes,
                       const CompileOptions &options);
/// Form 1 to the LLVM dialect: the graph, lower and program pipelines.
llvm::LogicalResult buildCompilePipeline(mlir::OpPassManager &passes,
                                         const CompileOptions &options,
                                         std::string &reason);

/// Registers mpcomm-compile and its phases, mpcomm-graph, mpcomm-lower,
/// mpcomm-program and mpcomm-to-cuda, as pass pipelines.
void registerPipelines();

} // namespace mpcomm

#endif // MPCOMM_PIPELINES_PIPELINES_H
