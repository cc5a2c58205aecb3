//===- CompileOptions.h - what options mean ---------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_PIPELINES_COMPILEOPTIONS_H
#define MPCOMM_LIB_PIPELINES_COMPILEOPTIONS_H

#include "mpcomm/Pipelines/Pipelines.h"
#include "mpcomm/Transforms/Passes.h"

namespace mpcomm {

/// Reads `loss-scale`; false where it is malformed.
bool parseLossScale(const CompileOptions &options,
                    ScaleLossPassOptions &scaling);

/// Whether `wires` has wire types of which blocks have scales or places, or
/// several types of fewer bits than f32: whole buckets are compressed.
bool isCompressedWire(llvm::StringRef wires);

/// The name of what is lost; that of momentum is of another size than a
/// gradient's.
const char *getResidualName(const CompileOptions &options);

/// Whether the mesh has stages.
bool isPipeline(const CompileOptions &options);

/// Stages of a pipeline, of which there is one; a failure with a `reason`
/// where options contradict each other.
llvm::FailureOr<int64_t> countStages(const CompileOptions &options,
                                     std::string &reason);

} // namespace mpcomm

#endif // MPCOMM_LIB_PIPELINES_COMPILEOPTIONS_H
