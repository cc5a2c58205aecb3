//===- CheckNcclApi.cpp - the runtime's words for NCCL, against its own ---===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiled where NCCL's header is, and never run: a number, a structure or a
// signature that the runtime has wrong does not compile.
//
//===----------------------------------------------------------------------===//

#include <nccl.h>

#include "comm/nccl/NcclApi.h"

#include <type_traits>

namespace ours = mprt::nccl;

#define CHECK_NUMBER(name) static_assert(int(ours::name) == int(::name), #name)
CHECK_NUMBER(ncclSuccess);
CHECK_NUMBER(ncclUnhandledCudaError);
CHECK_NUMBER(ncclSystemError);
CHECK_NUMBER(ncclInternalError);
CHECK_NUMBER(ncclInvalidArgument);
CHECK_NUMBER(ncclInvalidUsage);
CHECK_NUMBER(ncclRemoteError);
CHECK_NUMBER(ncclInProgress);
CHECK_NUMBER(ncclInt8);
CHECK_NUMBER(ncclUint8);
CHECK_NUMBER(ncclInt32);
CHECK_NUMBER(ncclInt64);
CHECK_NUMBER(ncclFloat16);
CHECK_NUMBER(ncclFloat32);
CHECK_NUMBER(ncclFloat64);
CHECK_NUMBER(ncclBfloat16);
CHECK_NUMBER(ncclSum);
CHECK_NUMBER(ncclProd);
CHECK_NUMBER(ncclMax);
CHECK_NUMBER(ncclMin);
CHECK_NUMBER(ncclAvg);

static_assert(sizeof(ours::ncclUniqueId) == sizeof(::ncclUniqueId));

#define CHECK_FIELD(name)                                                      \
  static_assert(offsetof(ours::ncclConfig_t, name) ==                          \
                    offsetof(::ncclConfig_t, name),                            \
                #name)
CHECK_FIELD(size);
CHECK_FIELD(magic);
CHECK_FIELD(version);
CHECK_FIELD(blocking);
CHECK_FIELD(cgaClusterSize);
CHECK_FIELD(minCTAs);
CHECK_FIELD(maxCTAs);
CHECK_FIELD(netName);
CHECK_FIELD(splitShare);

/// Whether an argument of one function could be handed to the other: pointers,
/// numbers of one size, structures of one size.
template <typename A, typename B>
constexpr bool matches =
    sizeof(A) == sizeof(B) && (std::is_class_v<A> == std::is_class_v<B>) &&
    (std::is_pointer_v<A> == std::is_pointer_v<B>);

template <typename A, typename B> struct Signatures;
template <typename R, typename... As, typename S, typename... Bs>
struct Signatures<R (*)(As...), S (*)(Bs...)> {
  static constexpr bool match() {
    if constexpr (sizeof...(As) == sizeof...(Bs))
      return matches<R, S> && (matches<As, Bs> && ...);
    else
      return false;
  }
};

#define CHECK_FUNCTION(result, name, parameters)                               \
  static_assert(                                                               \
      Signatures<decltype(ours::Api::name), decltype(&::name)>::match(),       \
      #name);
MPRT_NCCL_SYMBOLS(CHECK_FUNCTION)
MPRT_NCCL_OPTIONAL_SYMBOLS(CHECK_FUNCTION)
