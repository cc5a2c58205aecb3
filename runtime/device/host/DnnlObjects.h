//===- DnnlObjects.h - what callers of oneDNN share -------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Objects of the library that end with their owner, the engine and the stream
// that primitives run on, and a hash for what primitives are kept by.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_HOST_DNNLOBJECTS_H
#define MPCOMM_RUNTIME_DEVICE_HOST_DNNLOBJECTS_H

#include "support/Error.h"

#include <array>
#include <cstdint>
#include <dlfcn.h>
#include <dnnl.h>

namespace mprt::host {

/// What `call` of the library failed with.
inline Error dnnlFailure(const char *call, dnnl_status_t status) {
  return makeError(status == dnnl_out_of_memory ? MPRT_OUT_OF_MEMORY
                                                : MPRT_INTERNAL,
                   "oneDNN's ", call, " returned status ", int(status));
}

/// Owns an object of the library.
template <typename T, dnnl_status_t (*destroy)(T)> struct DnnlOwned {
  T value = nullptr;

  DnnlOwned() = default;
  DnnlOwned(const DnnlOwned &) = delete;
  DnnlOwned &operator=(const DnnlOwned &) = delete;
  ~DnnlOwned() { reset(); }
  void reset() {
    if (value)
      destroy(value);
    value = nullptr;
  }
  /// Where a function of the library puts a new one.
  T *operator&() {
    reset();
    return &value;
  }
};

/// The processor as the library sees it, on the calling thread alone.
struct DnnlEngine {
  DnnlOwned<dnnl_engine_t, dnnl_engine_destroy> engine;
  DnnlOwned<dnnl_stream_t, dnnl_stream_destroy> stream;

  DnnlEngine() {
    // The library takes its threads from OpenMP, which nothing else here links.
    using Function = void (*)(int);
    if (auto set = reinterpret_cast<Function>(
            dlsym(RTLD_DEFAULT, "omp_set_num_threads")))
      set(1);
  }

  /// Makes both, the first time.
  Error open() {
    if (stream.value)
      return {};
    if (dnnl_status_t status = dnnl_engine_create(&engine, dnnl_cpu, 0))
      return dnnlFailure("engine", status);
    if (dnnl_status_t status = dnnl_stream_create(&stream, engine.value,
                                                  dnnl_stream_default_flags))
      return dnnlFailure("stream", status);
    return {};
  }
};

/// Of the numbers of a descriptor that a primitive depends on.
struct DnnlKeyHash {
  template <size_t n>
  size_t operator()(const std::array<int64_t, n> &key) const {
    uint64_t hash = 0;
    for (int64_t word : key)
      hash = (hash ^ uint64_t(word)) * 0x9E3779B97F4A7C15u, hash ^= hash >> 29;
    return hash;
  }
};

} // namespace mprt::host

#endif // MPCOMM_RUNTIME_DEVICE_HOST_DNNLOBJECTS_H
