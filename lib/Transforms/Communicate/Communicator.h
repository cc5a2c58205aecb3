//===- Communicator.h - who communicates, and in which order ----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the passes that move collectives ask of them.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_COMMUNICATE_COMMUNICATOR_H
#define MPCOMM_LIB_TRANSFORMS_COMMUNICATE_COMMUNICATOR_H

#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

namespace mpcomm {

/// The communicator of a collective, to compare with others: its mesh, its
/// axes, in whatever order they are named, and its channel.
mlir::Attribute getCommunicator(CollectiveOpInterface collective);

/// Whether all axes of `inner` are among those of `outer`.
bool coversAxes(mlir::ArrayAttr outer, mlir::ArrayAttr inner);

/// Whether the reduction `op` may round differently in another order: sums,
/// means and products of floats.
bool dependsOnOrder(CollectiveOpInterface op);

/// Whether an element's place in what `op` reduces may change its value: which
/// rank's is added first depends on it. Not in groups of two: a + b is b + a.
bool dependsOnPlace(CollectiveOpInterface op);

/// Whether `op` is a collective that gives values to all of its group, outside
/// of an async: one that may move among pure ops. Sends, receives and barriers
/// are not.
bool isMovableCollective(mlir::Operation *op);

/// Whether `op` is a movable collective whose results computation waits for,
/// rather than it for operands that are computed last: see
/// BucketableOpInterface::isGather.
bool isMovableGather(mlir::Operation *op);

/// Whether collectives must not move across `op`: it has effects, and is not a
/// movable collective.
bool isOrderingPoint(mlir::Operation *op);

/// The first op of the block of `op` that uses a result of it, or holds a use;
/// null if there is none. Numbers the ops of the block if they are not numbered
/// since the last change: ask before changing anything.
mlir::Operation *getFirstUse(mlir::Operation *op);

/// Whether `op` only moves its one operand, for one op of its block.
bool isMovedOnce(mlir::Operation *op);
/// The op for which such ops, beginning with `use`, move what `use` takes;
/// null: the terminator.
mlir::Operation *getReader(mlir::Operation *use);

/// Whether `op` gathers arguments of its function that are split: nothing but
/// memory keeps it from being the first of all.
bool gathersState(BucketableOpInterface op);

/// For gathers of state in the order of their first uses, of so many bytes
/// each: the one whose first use the last of `bytes` follows, -1 if it follows
/// none. Those in between, which are ahead of their use with it, take no more
/// than the largest of all and a quarter: that is for the small ones around a
/// large one, so that the next large one is under way while one is used.
int getGatherBefore(llvm::ArrayRef<int64_t> bytes, int64_t largest);

/// Where what follows the first part of the collective `op` belongs, if it is
/// made of several: right after the first part, for which it is null, unless
/// ops stand between `op` and the first use of it that collectives must not
/// pass. A rank of a pipeline would wait for the first part before them,
/// although nobody needs it: then it is before that use. Time: linear in
/// the ops between.
mlir::Operation *getLatePlace(mlir::Operation *op);

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_COMMUNICATE_COMMUNICATOR_H
