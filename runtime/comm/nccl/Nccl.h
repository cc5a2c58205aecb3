//===- Nccl.h - collectives of GPUs by NCCL -------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A transport built on another one: that one has brought the ranks
// together and carries the news of failed ranks, NCCL moves the data, on the
// streams of a CUDA device.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_NCCL_NCCL_H
#define MPCOMM_RUNTIME_COMM_NCCL_NCCL_H

#include "comm/Registry.h"
#include "comm/Transport.h"
#include "device/Device.h"

namespace mprt {

/// Makes the ranks' transport for memory of their devices; all ranks call it.
/// Fails on all of them where one cannot: MPRT_UNSUPPORTED where there is no
/// NCCL, or an older one than 2.18, MPRT_MISMATCH where ranks have different
/// versions.
///
/// Its communicators are ordered by the device's streams. `allocate` gives
/// device memory that NCCL moves without copies of its own where it can; with
/// MPRT_NCCL_REGISTER=0 in the environment it is memory like any other.
///
/// Numerics: sums and products keep partial results in the type that travels,
/// and minima and maxima drop NaN. Where a collective asks for more (a wider
/// `accumulate` among more than two ranks; floating point minima and maxima
/// among more than one) it fails with MPRT_UNSUPPORTED, unless
/// MPRT_NCCL_NUMERICS=nccl says that this will do.
Expected<std::unique_ptr<Transport>> joinNccl(const MoverOptions &options);

} // namespace mprt

#endif // MPCOMM_RUNTIME_COMM_NCCL_NCCL_H
