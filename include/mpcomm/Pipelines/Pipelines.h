//===- Pipelines.h - the way of a training step -----------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_PIPELINES_PIPELINES_H
#define MPCOMM_PIPELINES_PIPELINES_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace mpcomm {

/// What a user decides of a compilation; option texts are in the help.
struct CompileOptions : public mlir::PassPipelineOptions<CompileOptions> {
  Option<std::string> mesh{
      *this, "mesh",
      llvm::cl::desc("Ranks as axis:size, as in dp:4; dp is data parallelism"),
      llvm::cl::init("dp:1")};
  Option<std::string> target{*this, "target",
                             llvm::cl::desc("Device to compile for: cpu"),
                             llvm::cl::init("cpu")};
  Option<int64_t> maxBucketBytes{
      *this, "max-bucket-bytes",
      llvm::cl::desc("Most bytes of gradients that one all_reduce carries"),
      llvm::cl::init(25 << 20)};
  Option<int64_t> firstBucketBytes{
      *this, "first-bucket-bytes",
      llvm::cl::desc("The same for the first all_reduce of a step"),
      llvm::cl::init(1 << 20)};
  Option<std::string> cpu{
      *this, "cpu", llvm::cl::desc("Processor that the program names"),
      llvm::cl::init("")};
  Option<std::string> features{
      *this, "features",
      llvm::cl::desc("Processor features that the program needs"),
      llvm::cl::init("")};

  /// The size of axis dp; failure, with a reason, where `mesh` or `target`
  /// cannot be compiled for.
  llvm::FailureOr<int64_t> check(std::string &reason) const;
};

/// Form 1 to Form 4: data parallelism, buckets, asynchronous collectives.
void buildGraphPipeline(mlir::OpPassManager &passes,
                        const CompileOptions &options, int64_t ranks);
/// Form 4 to Form 5: linalg, kernels, buffers, memory, runtime calls.
void buildLowerPipeline(mlir::OpPassManager &passes,
                        const CompileOptions &options);
/// Form 5 to the LLVM dialect: code of kernels, entry points, manifest.
void buildProgramPipeline(mlir::OpPassManager &passes,
                          const CompileOptions &options);
/// All of it.
llvm::LogicalResult buildCompilePipeline(mlir::OpPassManager &passes,
                                         const CompileOptions &options,
                                         std::string &reason);

/// Registers mpcomm-compile and its phases, mpcomm-graph, mpcomm-lower and
/// mpcomm-program, as pass pipelines.
void registerPipelines();

} // namespace mpcomm

#endif // MPCOMM_PIPELINES_PIPELINES_H
