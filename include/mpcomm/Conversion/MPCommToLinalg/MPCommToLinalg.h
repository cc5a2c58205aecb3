//===- MPCommToLinalg.h - compute ops to linalg on tensors ---- -*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The patterns of `convert-mpcomm-to-linalg`, by theme. All are plain rewrite
// patterns: they run under a dialect conversion as well as under a greedy or
// walking driver, in any order.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_CONVERSION_MPCOMMTOLINALG_MPCOMMTOLINALG_H
#define MPCOMM_CONVERSION_MPCOMMTOLINALG_MPCOMMTOLINALG_H

#include "mlir/IR/PatternMatch.h"

namespace mpcomm {

/// arith and math on tensors: one `linalg.generic` per op.
void populateElementwiseToLinalgPatterns(mlir::RewritePatternSet &patterns);
/// transpose, reshape, broadcast_in_dim, slice, concatenate, pad, iota.
void populateMovementToLinalgPatterns(mlir::RewritePatternSet &patterns);
/// dot_general.
void populateContractionToLinalgPatterns(mlir::RewritePatternSet &patterns);
/// reduce, for kernels that sum at least `rowsAtATime` rows in parallel.
void populateReductionToLinalgPatterns(mlir::RewritePatternSet &patterns,
                                       int64_t rowsAtATime = 1);
/// softmax, log_softmax, layer_norm and rms_norm with their gradients.
void populateSoftmaxToLinalgPatterns(mlir::RewritePatternSet &patterns);
void populateLayerNormToLinalgPatterns(mlir::RewritePatternSet &patterns);
/// gelu, gelu_grad.
void populateActivationToLinalgPatterns(mlir::RewritePatternSet &patterns);
/// cross_entropy, cross_entropy_grad.
void populateLossToLinalgPatterns(mlir::RewritePatternSet &patterns);
/// gather, gather_grad, scatter.
void populateGatherToLinalgPatterns(mlir::RewritePatternSet &patterns);
/// sgd_update, adamw_update.
void populateOptimizerToLinalgPatterns(mlir::RewritePatternSet &patterns);
/// Replaces each update in `root` by the ops of its region.
void inlineUpdates(mlir::Operation *root);
/// unscale, clip_by_global_norm, update_loss_scale, update_fp8_scale.
void populateScalingToLinalgPatterns(mlir::RewritePatternSet &patterns);
/// dropout, dropout_grad.
void populateDropoutToLinalgPatterns(mlir::RewritePatternSet &patterns);
/// rng.
void populateRngToLinalgPatterns(mlir::RewritePatternSet &patterns);
/// top_k.
void populateTopKToLinalgPatterns(mlir::RewritePatternSet &patterns);
/// cumulative.
void populateCumulativeToLinalgPatterns(mlir::RewritePatternSet &patterns);
/// batch_norm_training, batch_norm_inference, batch_norm_grad.
void populateBatchNormToLinalgPatterns(mlir::RewritePatternSet &patterns);
/// attention, attention_grad, to products, a softmax and row sums.
void populateAttentionToLinalgPatterns(mlir::RewritePatternSet &patterns);
/// convolution, max_pool, avg_pool and their gradients, to mprt.convolution
/// and mprt.pool.
void populateSlidingWindowToMPRTPatterns(mlir::RewritePatternSet &patterns);

/// Rows that kernels of GPUs sum in parallel: warps of a block are side by side
/// along the rows.
inline constexpr int64_t kRowsAtATimeOnGPU = 8;

/// All of the above; they do not depend on the device.
void populateMPCommToLinalgPatterns(mlir::RewritePatternSet &patterns,
                                    int64_t rowsAtATime = 1);

/// attention, attention_grad, to mprt.attention if GPU kernels support the
/// shapes; with a higher benefit than the other patterns.
void populateAttentionToMPRTPatterns(mlir::RewritePatternSet &patterns);

/// Rewrites on linalg after the conversion that remove data movement.
/// Transposes of operands and results become maps of the contraction if a
/// strided matrix product can still compute it. Broadcasts and splats become
/// maps and scalars of the generics that read them. Reshapes move out of
/// concatenations.
void populateFoldMovementPatterns(mlir::RewritePatternSet &patterns);

/// Has contractions of two tensors widened from 8 bits read the 8 bits, where
/// tensor cores can multiply them: sizes and strides are multiples of 16, and
/// not both are f8E5M2. Operands come to lie along what is summed. Time: linear
/// in the ops.
void readNarrowOperands(mlir::Operation *root);

/// Gives the dialect its OpLoweringInterface: what the analysis of kernels
/// lowers single ops with. Loads the dialects that they are lowered to.
void registerOpLowering(mlir::DialectRegistry &registry);

} // namespace mpcomm

#endif // MPCOMM_CONVERSION_MPCOMMTOLINALG_MPCOMMTOLINALG_H
