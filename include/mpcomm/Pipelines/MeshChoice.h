//===- MeshChoice.h - how to distribute a step over ranks -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Data parallelism, pipelines, or pipelines beside one another: every way is
// compiled to rank programs and simulated, and the fastest is taken. A step has
// the same samples in each.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_PIPELINES_MESHCHOICE_H
#define MPCOMM_PIPELINES_MESHCHOICE_H

#include "mlir/IR/BuiltinOps.h"
#include "mpcomm/Pipelines/Pipelines.h"

namespace mpcomm {

/// A way to distribute a step over ranks, and what the simulation says about
/// it. Times are seconds of a step, sizes bytes.
struct MeshCandidate {
  unsigned graph = 0; ///< which of the graphs
  int64_t pipelineRanks = 1, dataRanks = 1;
  /// Stages on a rank of a pipeline; micro-batches of each pipeline.
  int64_t chunks = 1, microBatches = 1;
  /// Why it cannot be taken; empty where it can.
  std::string error;
  /// Of a pipeline, its schedule.
  std::string schedule;
  /// `compute` is the mean over the ranks, and `seconds` - `compute` what they
  /// wait; the most bytes that a rank sends, and holds at a time.
  double seconds = 0, compute = 0;
  int64_t sentBytes = 0, peakBytes = 0;

  /// As option `mesh` has it.
  std::string getMesh() const;
};

struct MeshChoice {
  /// In the order in which they were tried.
  std::vector<MeshCandidate> candidates;
  /// Index of the fastest that fits, the first of equals; -1: none does.
  int chosen = -1;
  /// Samples of a step.
  int64_t samples = 0;
  /// What is wrong with the request itself; empty where nothing is.
  std::string error;
};

/// Whether `mesh` asks for a choice, `auto:N`; N goes to `ranks`, 0 where it is
/// no number from 1 to 2^15.
bool isAutoMesh(llvm::StringRef mesh, int64_t &ranks);

/// Tries every pp:P,dp:D with P * D = `ranks`, with one and two stages on each
/// rank of a pipeline unless `options` gives `chunks`, for every graph: the
/// same step, imported with batches of several sizes, which makes micro-batches
/// of as many sizes. `options.globalBatch` is the samples of a step; 0: what
/// `microBatches` batches of the first graph have on each rank. Pipelines
/// follow the `schedule` of the options, `auto` where they give none. What
/// needs more than `memoryBytes`, or than the cluster's device has, is not
/// taken. Time: the graph phase of the compilation, for each.
MeshChoice chooseMesh(llvm::ArrayRef<mlir::ModuleOp> graphs,
                      const CompileOptions &options, int64_t ranks);

/// Sets what `options` leaves to the choice.
void applyMesh(const MeshCandidate &candidate, CompileOptions &options);

/// A table of the candidates, and why one is chosen.
void printChoice(const MeshChoice &choice, llvm::raw_ostream &os);

} // namespace mpcomm

#endif // MPCOMM_PIPELINES_MESHCHOICE_H
