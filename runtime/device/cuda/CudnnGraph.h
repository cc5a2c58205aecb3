//===- CudnnGraph.h - operation graphs of cuDNN -----------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cuDNN's graph API takes descriptions of tensors and of operations on them.
// Tensors that are not virtual have memory or, by value, a number. Engines of
// the library match the graph and compute it as one kernel or a few; a plan is
// an engine with its options.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_CUDA_CUDNNGRAPH_H
#define MPCOMM_RUNTIME_DEVICE_CUDA_CUDNNGRAPH_H

#include "device/cuda/Cudnn.h"
#include "device/cuda/CudnnGraphNumbers.h"

#include <array>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace mprt::cuda {

enum : int {
#define MPRT_CUDNN_NUMBER(name, number) name = number,
  MPRT_CUDNN_GRAPH_NUMBERS(MPRT_CUDNN_NUMBER)
#undef MPRT_CUDNN_NUMBER
};

/// Sizes or strides of a tensor.
using DnnDims = std::array<int64_t, 4>;

/// One description of the library's.
class CudnnDescriptor {
public:
  CudnnDescriptor(const Cudnn &library, int type)
      : library(library),
        error(library.check(
            library.cudnnBackendCreateDescriptor(type, &descriptor),
            "cudnnBackendCreateDescriptor")) {}
  ~CudnnDescriptor() {
    if (descriptor)
      library.cudnnBackendDestroyDescriptor(descriptor);
  }
  CudnnDescriptor(const CudnnDescriptor &) = delete;
  CudnnDescriptor &operator=(const CudnnDescriptor &) = delete;

  /// Sets an attribute of `type`, unless a call failed before.
  void set(int attribute, int type, int64_t count, const void *values) {
    if (!error)
      error = library.check(library.cudnnBackendSetAttribute(
                                descriptor, attribute, type, count, values),
                            "cudnnBackendSetAttribute");
  }
  template <typename T> void set(int attribute, int type, const T &value) {
    set(attribute, type, 1, &value);
  }
  void set(int attribute, const CudnnDescriptor &other) {
    if (!error)
      error = other.error;
    set(attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.descriptor);
  }
  /// Ends the description: the first failure, if any.
  const Error &finalize() {
    if (!error)
      error = library.check(library.cudnnBackendFinalize(descriptor),
                            "cudnnBackendFinalize");
    return error;
  }
  /// Reads up to `count` values: how many there are.
  Expected<int64_t> get(int attribute, int type, int64_t count,
                        void *values) const;

  DnnDescriptor get() const { return descriptor; }
  const Error &failure() const { return error; }

private:
  const Cudnn &library;
  DnnDescriptor descriptor = nullptr;
  Error error;
};

/// A graph, built op by op. The first failure is kept, and reported by
/// `finalize`.
class CudnnGraph {
public:
  using Tensor = const CudnnDescriptor *;

  explicit CudnnGraph(const Cudnn &library) : library(library) {}

  /// A tensor in memory, aligned to 16 bytes, with the number `id`.
  Tensor memory(int64_t id, int type, const DnnDims &sizes,
                const DnnDims &strides);
  /// A number of f32 that plans get with their pointers.
  Tensor number(int64_t id);
  /// A tensor between operations, row-major or with `strides`.
  Tensor between(int type, const DnnDims &sizes);
  Tensor between(int type, const DnnDims &sizes, const DnnDims &strides);

  /// y = x op b; `b` is null where the op has one operand. In f32, or of
  /// booleans.
  void pointwise(int mode, Tensor x, Tensor b, Tensor y);
  /// y = the position of each element along `axis`.
  void index(int axis, Tensor x, Tensor y);
  /// y = x where `condition` holds, else `otherwise`.
  void select(Tensor condition, Tensor x, Tensor otherwise, Tensor y);
  void reduce(int op, Tensor x, Tensor y);
  /// c[..., i, j] = sum_k a[..., i, k] b[..., k, j], in f32.
  void matmul(Tensor a, Tensor b, Tensor c);
  /// y = x with its last two dimensions exchanged, as y's strides say.
  void transpose(Tensor x, Tensor y);

  Error finalize(DnnHandle handle);

  /// A plan that is ready to run.
  struct Plan {
    std::unique_ptr<CudnnDescriptor> config, plan;
    uint64_t workspaceBytes = 0;
  };
  /// Plans of the library's heuristics, best first, up to `most`: those whose
  /// engines repeat bit by bit and that need at most `workspaceBytes`. Fails
  /// with MPRT_UNSUPPORTED where there are none, and says why.
  Expected<std::vector<Plan>> list(DnnHandle handle, size_t most,
                                   uint64_t workspaceBytes) const;

private:
  CudnnDescriptor &make(int type);
  void end(CudnnDescriptor &made);
  CudnnDescriptor &beginPointwise(int mode, int precision, int64_t axis = -1);
  Tensor tensor(int64_t id, int type, const DnnDims &sizes,
                const DnnDims &strides, int marked);

  const Cudnn &library;
  std::vector<std::unique_ptr<CudnnDescriptor>> all;
  std::vector<DnnDescriptor> operations;
  const CudnnDescriptor *graph = nullptr;
  int64_t nextId = 1000;
  Error failed;
};

} // namespace mprt::cuda

#endif // MPCOMM_RUNTIME_DEVICE_CUDA_CUDNNGRAPH_H
