//===- GPUSchedule.h - how threads share a kernel ---------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which threads of a GPU compute what of a kernel's domain.
//
// Without reductions each thread takes chunks of columns here and there
// (Items). With them groups of threads go from row to row (Rows): a row's
// columns lie side by side in the threads of its group, held in registers from
// one pass to the next where they fit, so that memory is read once. Sums over
// rows stay in registers, one a thread; what a block has in the end goes to
// scratch, and a second kernel adds up the blocks'.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUSCHEDULE_H
#define MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUSCHEDULE_H

#include "Kernels/Model/KernelModel.h"
#include "Kernels/Model/Schedule.h"

namespace mpcomm::kernels {

/// Bytes of one access.
constexpr int64_t kAccessBytes = 16;

/// Threads of a warp, whose lanes exchange values without a barrier.
constexpr int64_t kWarp = 32;

/// What a schedule is made for.
struct GPULimits {
  /// Blocks that work at a time on each of so many processors.
  int64_t processors = 132;
  /// Whether code may be for sm_90a alone.
  bool warpgroups = false;
  /// Bytes of shared memory that each of two blocks of a processor may ask for
  /// at the launch.
  int64_t launchShared = 0;
};

struct GPUSchedule {
  enum Mapping { Items, Rows };
  Mapping mapping = Items;
  /// In which pass over a row each result is computed.
  Schedule passes;
  /// Columns of a chunk, which a thread loads at once: 16 bytes of the
  /// narrowest operand, where columns divide.
  int64_t vector = 1;
  int64_t threads = 256;

  /// Items: chunks that a thread has in flight.
  int64_t unroll = 1;

  /// Rows: threads that share a row; a power of two, at most a warp or the
  /// whole block.
  int64_t group = kWarp;
  /// Chunks of a row that a thread has, in one turn of the loop over columns.
  int64_t chunks = 1;
  /// There is no such loop: all chunks of a row are in registers.
  bool keepsRow = true;
  /// An operand whose rows are in shared memory from the first pass on, and
  /// their place there. A thread finds there what it has put there itself, so
  /// that there are no barriers.
  struct SharedRow {
    KernelAccess access;
    int64_t offset = 0;
  };
  llvm::SmallVector<SharedRow> sharedRows;
  int64_t sharedRowBytes = 0;
  /// Rows that a group has in flight.
  int64_t rowsAtATime = 1;
  /// Blocks a multiprocessor, where their number is fixed; 0: by threads.
  int64_t blocksAtATime = 0;
  /// Blocks side by side along the columns.
  int64_t columnBlocks = 1;
  /// Dimensions of the rows that sums keep: the same for all rows of a block.
  llvm::SmallVector<int> kept;
  /// Blocks that share the rows of a sum.
  int64_t splits = 1;
  /// Each group has sums of its own, of other kept rows than its neighbours:
  /// a sum has too few rows for the groups of a block.
  bool sumsOfGroups = false;
  /// Sums of columns are added up in scratch memory: no loop over columns has
  /// registers for them.
  bool sumsInScratch = false;

  /// The grid, and whether one of any size does.
  int64_t blocks = 1;
  bool gridStride = true;

  int64_t groups() const { return threads / group; }
  /// The size of the kept dimensions, and of the other rows.
  int64_t keptSize(const KernelModel &model) const;
  int64_t rowsOfBlock(const KernelModel &model) const;

  /// Linear in the size of the kernel.
  static GPUSchedule compute(const KernelModel &model, const GPULimits &limits);
};

/// Cuts long columns into rows where a kernel has too few rows for a GPU and
/// only sums them up; leaves other kernels alone.
void splitColumns(KernelModel &model, const GPULimits &limits);

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUSCHEDULE_H
