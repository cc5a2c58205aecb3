//===- MpiReduceOps.h - types and reductions for MPI ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where MPI has a type or a reduction with the meaning that mprt.h asks for,
// its own is used; otherwise (16-bit floats, bool, minimum and maximum with
// NaN) one made of the runtime's kernels. Partial results travel in the type of
// the buffers.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_MPI_MPIREDUCEOPS_H
#define MPCOMM_RUNTIME_COMM_MPI_MPIREDUCEOPS_H

#include "mpcomm/Runtime/mprt.h"

#include <mpi.h>

namespace mprt {

/// The MPI type in which elements of `type` are moved and reduced.
MPI_Datatype mpiTypeOf(mprt_dtype type);

/// The reduction, or the sum for a mean; MPI_OP_NULL where there is none. The
/// operation lives until MPI is finalized.
MPI_Op mpiOpOf(mprt_dtype type, mprt_dtype accumulate,
               mprt_reduction reduction);

} // namespace mprt

#endif // MPCOMM_RUNTIME_COMM_MPI_MPIREDUCEOPS_H
