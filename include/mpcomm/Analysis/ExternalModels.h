//===- ExternalModels.h - interfaces for upstream's ops ---------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CostOpInterface, PrecisionOpInterface, LinearOpInterface and
// ShardingOpInterface for the ops of arith, math, tensor and linalg, so that
// passes treat them like the ops of the mpcomm dialect.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_EXTERNALMODELS_H
#define MPCOMM_ANALYSIS_EXTERNALMODELS_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace mpcomm {

/// Attaches CostOpInterface to arith, math, tensor and linalg ops when these
/// dialects are loaded. A dynamic size counts as 1.
void registerCostModels(mlir::DialectRegistry &registry);

/// Attaches PrecisionOpInterface to the same ops.
void registerPrecisionModels(mlir::DialectRegistry &registry);

/// Attaches LinearOpInterface to arith and math ops.
void registerLinearityModels(mlir::DialectRegistry &registry);

/// Attaches LinearOpInterface to mpcomm.scan.
void registerLoopLinearityModel(mlir::DialectRegistry &registry);

/// Attaches ShardingOpInterface to arith, tensor and linalg ops; those of math
/// need none.
void registerShardingModels(mlir::DialectRegistry &registry);

/// Attaches all of these interfaces.
inline void registerExternalModels(mlir::DialectRegistry &registry) {
  registerCostModels(registry);
  registerPrecisionModels(registry);
  registerLinearityModels(registry);
  registerLoopLinearityModel(registry);
  registerShardingModels(registry);
}

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_EXTERNALMODELS_H
