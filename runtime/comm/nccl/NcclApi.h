//===- NcclApi.h - NCCL as a table of symbols -----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the runtime uses of NCCL, declared here, so that it builds without
// NCCL's header, and found in libnccl.so.2 (MPRT_NCCL_LIBRARY names another
// file) when the communicator is asked for. Types and values are those of
// nccl.h of NCCL 2.18 to 2.28.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_NCCL_NCCLAPI_H
#define MPCOMM_RUNTIME_COMM_NCCL_NCCLAPI_H

#include "support/Error.h"

#include <climits>
#include <cstddef>
#include <cstdint>

namespace mprt::nccl {

using ncclComm_t = struct ncclComm *;
using ncclStream = void *; // a CUstream
using ncclResult_t = int;
using ncclDataType_t = int;
using ncclRedOp_t = int;

struct ncclUniqueId {
  char internal[128];
};

enum : ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};

enum : ncclDataType_t {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt64 = 4,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9
};

enum : ncclRedOp_t {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4
};

/// As of 2.18: later versions read as much as `size` says, and take their
/// defaults for the rest.
struct ncclConfig_t {
  size_t size = sizeof(ncclConfig_t);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = INT_MIN; // INT_MIN: NCCL's choice
  int cgaClusterSize = INT_MIN;
  int minCTAs = INT_MIN;
  int maxCTAs = INT_MIN;
  const char *netName = nullptr;
  int splitShare = INT_MIN;
};

/// X(result, name, parameters) for each function that must be there.
#define MPRT_NCCL_SYMBOLS(X)                                                   \
  X(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id))                        \
  X(ncclResult_t, ncclCommInitRankConfig,                                      \
    (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank,                  \
     ncclConfig_t *config))                                                    \
  X(ncclResult_t, ncclCommSplit,                                               \
    (ncclComm_t comm, int color, int key, ncclComm_t *made,                    \
     ncclConfig_t *config))                                                    \
  X(ncclResult_t, ncclCommFinalize, (ncclComm_t comm))                         \
  X(ncclResult_t, ncclCommDestroy, (ncclComm_t comm))                          \
  X(ncclResult_t, ncclCommAbort, (ncclComm_t comm))                            \
  X(ncclResult_t, ncclCommGetAsyncError,                                       \
    (ncclComm_t comm, ncclResult_t * error))                                   \
  X(const char *, ncclGetErrorString, (ncclResult_t result))                   \
  X(const char *, ncclGetLastError, (ncclComm_t comm))                         \
  X(ncclResult_t, ncclGroupStart, ())                                          \
  X(ncclResult_t, ncclGroupEnd, ())                                            \
  X(ncclResult_t, ncclAllReduce,                                               \
    (const void *send, void *recv, size_t count, ncclDataType_t type,          \
     ncclRedOp_t op, ncclComm_t comm, ncclStream stream))                      \
  X(ncclResult_t, ncclReduceScatter,                                           \
    (const void *send, void *recv, size_t count, ncclDataType_t type,          \
     ncclRedOp_t op, ncclComm_t comm, ncclStream stream))                      \
  X(ncclResult_t, ncclAllGather,                                               \
    (const void *send, void *recv, size_t count, ncclDataType_t type,          \
     ncclComm_t comm, ncclStream stream))                                      \
  X(ncclResult_t, ncclBroadcast,                                               \
    (const void *send, void *recv, size_t count, ncclDataType_t type,          \
     int root, ncclComm_t comm, ncclStream stream))                            \
  X(ncclResult_t, ncclReduce,                                                  \
    (const void *send, void *recv, size_t count, ncclDataType_t type,          \
     ncclRedOp_t op, int root, ncclComm_t comm, ncclStream stream))            \
  X(ncclResult_t, ncclSend,                                                    \
    (const void *send, size_t count, ncclDataType_t type, int peer,            \
     ncclComm_t comm, ncclStream stream))                                      \
  X(ncclResult_t, ncclRecv,                                                    \
    (void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, \
     ncclStream stream))

/// The same for those that are null where the library lacks them.
#define MPRT_NCCL_OPTIONAL_SYMBOLS(X)                                          \
  X(ncclResult_t, ncclMemAlloc, (void **pointer, size_t bytes))                \
  X(ncclResult_t, ncclMemFree, (void *pointer))                                \
  X(ncclResult_t, ncclCommRegister,                                            \
    (ncclComm_t comm, void *buffer, size_t bytes, void **handle))              \
  X(ncclResult_t, ncclCommDeregister, (ncclComm_t comm, void *handle))

struct Api {
#define MPRT_NCCL_MEMBER(result, name, parameters)                             \
  result(*name) parameters = nullptr;
  MPRT_NCCL_SYMBOLS(MPRT_NCCL_MEMBER)
  MPRT_NCCL_OPTIONAL_SYMBOLS(MPRT_NCCL_MEMBER)
#undef MPRT_NCCL_MEMBER

  /// NCCL's number of its version: 22809 for 2.28.9.
  int version = 0;

  /// Loads the library, once a process. Fails with MPRT_UNSUPPORTED where there
  /// is none, or where it is older than 2.18.
  static Expected<const Api *> load();

  /// An error `what: the words for it; NCCL's last words`. `comm` may be null.
  Error failure(ncclResult_t result, const std::string &what,
                ncclComm_t comm) const;
};

/// `2.28.9` of 22809.
std::string describeVersion(int version);

} // namespace mprt::nccl

#endif // MPCOMM_RUNTIME_COMM_NCCL_NCCLAPI_H
