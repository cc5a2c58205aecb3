//===- DescribeGraph.h - by what a graph is known again ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TOOLS_MPCOMM_COMPILE_DESCRIBEGRAPH_H
#define MPCOMM_TOOLS_MPCOMM_COMPILE_DESCRIBEGRAPH_H

#include "mlir/IR/BuiltinOps.h"
#include "mpcomm/Pipelines/Pipelines.h"

namespace mpcomm {

/// Gives `module`, a training graph that no pass has seen yet, the attribute
/// `mprt.graph`: what a checkpoint remembers of the program that wrote it
/// (docs/Design/Manifest.md). It depends on the graph and on those options that
/// decide what is computed, and neither on the mesh nor on the target. Fails,
/// with a reason, where precision-file cannot be read.
llvm::LogicalResult describeGraph(mlir::ModuleOp module,
                                  const CompileOptions &options,
                                  std::string &reason);

} // namespace mpcomm

#endif // MPCOMM_TOOLS_MPCOMM_COMPILE_DESCRIBEGRAPH_H
