//===- StageProgram.h - what a rank of a pipeline runs ----------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One function a rank: the actions of a schedule as calls of the stages'
// functions, with what travels between ranks started early and awaited late,
// and after them the collectives and updates of what the rank has. Design:
// docs/Design/PipelineParallelism.md.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TRANSFORMS_PARALLELIZE_STAGEPROGRAM_H
#define MPCOMM_TRANSFORMS_PARALLELIZE_STAGEPROGRAM_H

#include "Parallelize/StageFunctions.h"

namespace mpcomm {

/// The pipeline's ranks on a mesh.
struct PipelineMesh {
  mlir::FlatSymbolRefAttr mesh;
  mlir::ArrayAttr axes; // the pipeline's one
};

/// Makes the programs of all ranks of `schedule`, which verifies, before
/// the step, in the order of ranks. On a channel a rank has at most `buffers`
/// messages under way. Fails, with an error, where what follows the
/// micro-batches cannot be distinguished by ranks. Time: linear in actions, and
/// for each rank in the step.
mlir::FailureOr<llvm::SmallVector<mlir::func::FuncOp>>
buildStagePrograms(StageFunctions &stageFunctions,
                   const PipelineSchedule &schedule, int buffers,
                   const PipelineMesh &mesh);

/// The same for `@evaluate`, in one pass over the stages: an op goes to the
/// first stage that has its parameters and follows what it reads.
mlir::FailureOr<llvm::SmallVector<mlir::func::FuncOp>> buildEvaluatePrograms(
    mlir::func::FuncOp evaluate, const StageFunctions &stageFunctions,
    const PipelineSchedule &schedule, const PipelineMesh &mesh);

/// Starts a send or a receive on the channel of an edge; the future.
mlir::Value startSend(mlir::OpBuilder &builder, const PipelineMesh &mesh,
                      mlir::Value value, int to, int channel,
                      const llvm::Twine &tag);
mlir::Value startRecv(mlir::OpBuilder &builder, const PipelineMesh &mesh,
                      mlir::Location loc, mlir::Type type, int from,
                      int channel, const llvm::Twine &tag);

/// Gives all ranks the value that `root` has, as `tag`.
mlir::Value broadcastFrom(mlir::OpBuilder &builder, const PipelineMesh &mesh,
                          mlir::Value value, int root, mlir::StringRef tag);

} // namespace mpcomm

#endif // MPCOMM_TRANSFORMS_PARALLELIZE_STAGEPROGRAM_H
