//===- MeshChoice.h - how to distribute a step over ranks -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chooses between data parallelism, pipelines, and both together: every mesh is
// compiled to rank programs and simulated, and the fastest is taken. A step has
// the same samples on each mesh.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_PIPELINES_MESHCHOICE_H
#define MPCOMM_PIPELINES_MESHCHOICE_H

#include "mlir/IR/BuiltinOps.h"
#include "mpcomm/Pipelines/Pipelines.h"

namespace mpcomm {

/// A mesh for a step, what its ranks hold a part of, and the result of the
/// simulation. Times are seconds per step, sizes bytes.
struct MeshCandidate {
  unsigned graph = 0; ///< index of the graph
  int64_t pipelineRanks = 1, dataRanks = 1;
  /// As the option `zero`.
  int64_t zero = 0;
  /// As the option `zero-keep`.
  int64_t keepBytes = 0;
  /// Stages per rank of a pipeline; micro-batches of each pipeline.
  int64_t chunks = 1, microBatches = 1;
  /// The reason why it does not qualify; else empty.
  std::string error;
  /// The schedule, for a pipeline.
  std::string schedule;
  /// Time of the step, and the mean computation of a rank. Ranks wait for the
  /// difference.
  double seconds = 0, compute = 0;
  /// The largest number of bytes that a rank sends, and the largest peak of
  /// live bytes.
  int64_t sentBytes = 0, peakBytes = 0;
  /// What `peakBytes` may be.
  int64_t limitBytes = 0;

  /// The mesh in the syntax of the option `mesh`.
  std::string getMesh() const;
  /// `mesh=… zero=…`, and `zero-keep=…` if it is not 0.
  std::string getOptions() const;
};

struct MeshChoice {
  /// In the order in which they were tried.
  std::vector<MeshCandidate> candidates;
  /// Index of the fastest candidate that fits, the first of equals; -1: none.
  int chosen = -1;
  /// Samples of a step; 0 where the mesh is given.
  int64_t samples = 0;
  /// An error in the request itself; else empty.
  std::string error;
};

/// Whether `mesh` is `auto:N`. Sets `ranks` to N, or to 0 if N is not a number
/// from 1 to 2^15.
bool isAutoMesh(llvm::StringRef mesh, int64_t &ranks);

/// Whether the options leave a choice: mesh=auto:N, or zero=auto.
bool hasChoice(const CompileOptions &options);
/// CompileOptions::check of what the options do not leave to the choice: the
/// size of axis dp, 1 for mesh=auto:N.
llvm::FailureOr<int64_t> checkGiven(const CompileOptions &options,
                                    std::string &reason);

/// Of mesh=auto:N, tries every pp:P,dp:D with P * D = N for every graph, with
/// one and two stages per rank of a pipeline unless `options` gives `chunks`;
/// of zero=auto, all levels on each mesh that has data ranks. The graphs
/// are one step imported with several batch sizes, which are the sizes of
/// micro-batches. `options.globalBatch` is the number of samples of a step; 0:
/// that of `microBatches` batches of the first graph on each rank. Pipelines
/// use the `schedule` of the options, or `auto` if it is not given. Candidates
/// that need more memory than `memoryBytes`, or than the cluster's device has,
/// do not qualify. Time: the graph phase of the compilation, per candidate.
MeshChoice chooseMesh(llvm::ArrayRef<mlir::ModuleOp> graphs,
                      const CompileOptions &options);

/// Of `graphs`, one step imported with several batch sizes, the one of which a
/// plan with the micro-batches and local steps of `options` takes as many
/// samples as one with those of `program` does of the first: its index. With as
/// many micro-batches and local steps it is the first. Failure, with a reason,
/// if there is none, or if it is another step.
llvm::FailureOr<size_t> findGraph(llvm::ArrayRef<mlir::ModuleOp> graphs,
                                  const CompileOptions &program,
                                  const CompileOptions &options,
                                  std::string &reason);

/// Sets the options that are left to the choice.
void applyMesh(const MeshCandidate &candidate, CompileOptions &options);

/// Prints a table of the candidates, and the reason for the choice.
void printChoice(const MeshChoice &choice, llvm::raw_ostream &os);

} // namespace mpcomm

#endif // MPCOMM_PIPELINES_MESHCHOICE_H
