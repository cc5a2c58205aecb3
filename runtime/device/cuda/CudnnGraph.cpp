//===- CudnnGraph.cpp - operation graphs of cuDNN -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/cuda/CudnnGraph.h"

#include <algorithm>
#include <iterator>

using namespace mprt;
using namespace mprt::cuda;

Expected<int64_t> CudnnDescriptor::get(int attribute, int type, int64_t count,
                                       void *values) const {
  int64_t found = 0;
  if (Error error =
          library.check(library.cudnnBackendGetAttribute(
                            descriptor, attribute, type, count, &found, values),
                        "cudnnBackendGetAttribute"))
    return error;
  return found;
}

//===----------------------------------------------------------------------===//
// Descriptions
//===----------------------------------------------------------------------===//

CudnnDescriptor &CudnnGraph::make(int type) {
  all.push_back(std::make_unique<CudnnDescriptor>(library, type));
  return *all.back();
}

void CudnnGraph::end(CudnnDescriptor &made) {
  if (const Error &error = made.finalize(); error && !failed)
    failed = error;
}

CudnnGraph::Tensor CudnnGraph::tensor(int64_t id, int type,
                                      const DnnDims &sizes,
                                      const DnnDims &strides, int marked) {
  CudnnDescriptor &made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64,
           int64_t(sizes.size()), sizes.data());
  made.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, int64_t(strides.size()),
           strides.data());
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, int64_t(16));
  if (marked >= 0)
    made.set(marked, CUDNN_TYPE_BOOLEAN, true);
  end(made);
  return &made;
}

CudnnGraph::Tensor CudnnGraph::memory(int64_t id, int type,
                                      const DnnDims &sizes,
                                      const DnnDims &strides) {
  return tensor(id, type, sizes, strides, -1);
}

CudnnGraph::Tensor CudnnGraph::number(int64_t id) {
  return tensor(id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1},
                CUDNN_ATTR_TENSOR_IS_BY_VALUE);
}

CudnnGraph::Tensor CudnnGraph::between(int type, const DnnDims &sizes) {
  DnnDims strides;
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0; step *= sizes[i])
    strides[i] = step;
  return between(type, sizes, strides);
}

CudnnGraph::Tensor CudnnGraph::between(int type, const DnnDims &sizes,
                                       const DnnDims &strides) {
  return tensor(nextId++, type, sizes, strides, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
}

CudnnDescriptor &CudnnGraph::beginPointwise(int mode, int precision,
                                            int64_t axis) {
  CudnnDescriptor &how = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, precision);
  if (axis >= 0)
    how.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
  end(how);
  CudnnDescriptor &made = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  operations.push_back(made.get());
  return made;
}

void CudnnGraph::pointwise(int mode, Tensor x, Tensor b, Tensor y) {
  bool compares = mode == CUDNN_POINTWISE_CMP_GE;
  CudnnDescriptor &made = beginPointwise(
      mode, compares ? int(CUDNN_DATA_BOOLEAN) : int(CUDNN_DATA_FLOAT));
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *x);
  if (b)
    made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y);
  end(made);
}

void CudnnGraph::index(int axis, Tensor x, Tensor y) {
  CudnnDescriptor &made =
      beginPointwise(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, axis);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *x);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y);
  end(made);
}

void CudnnGraph::select(Tensor condition, Tensor x, Tensor otherwise,
                        Tensor y) {
  CudnnDescriptor &made =
      beginPointwise(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *x);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *otherwise);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *condition);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y);
  end(made);
}

void CudnnGraph::reduce(int op, Tensor x, Tensor y) {
  CudnnDescriptor &how = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
          op);
  how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
          int(CUDNN_DATA_FLOAT));
  end(how);
  CudnnDescriptor &made = make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *x);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *y);
  operations.push_back(made.get());
  end(made);
}

void CudnnGraph::matmul(Tensor a, Tensor b, Tensor c) {
  CudnnDescriptor &how = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
          int(CUDNN_DATA_FLOAT));
  end(how);
  CudnnDescriptor &made = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, *a);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, *b);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, *c);
  operations.push_back(made.get());
  end(made);
}

void CudnnGraph::transpose(Tensor x, Tensor y) {
  CudnnDescriptor &made = make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *x);
  made.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *y);
  operations.push_back(made.get());
  end(made);
}

Error CudnnGraph::finalize(DnnHandle handle) {
  CudnnDescriptor &made = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  made.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
           int64_t(operations.size()), operations.data());
  if (!failed)
    end(made);
  graph = &made;
  return failed;
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

/// Whether the engine of `config` may give other bits in another run.
static Expected<bool> isByChance(const Cudnn &library,
                                 const CudnnDescriptor &config) {
  CudnnDescriptor engine(library, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  if (engine.failure())
    return engine.failure();
  DnnDescriptor pointer = engine.get();
  if (Expected<int64_t> found =
          config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                     1, &pointer);
      !found)
    return found.error();
  int notes[32] = {};
  Expected<int64_t> count =
      engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                 std::size(notes), notes);
  if (!count)
    return count.error();
  auto known = size_t(std::min<int64_t>(*count, std::size(notes)));
  return std::count(notes, notes + known,
                    CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) != 0;
}

Expected<std::vector<CudnnGraph::Plan>>
CudnnGraph::list(DnnHandle handle, size_t most, uint64_t workspaceBytes) const {
  CudnnDescriptor heuristics(library, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, *graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE,
                 int(CUDNN_HEUR_MODE_A));
  if (const Error &error = heuristics.finalize())
    return error;
  Expected<int64_t> count = heuristics.get(
      CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  if (!count)
    return count.error();
  std::vector<std::unique_ptr<CudnnDescriptor>> configs;
  std::vector<DnnDescriptor> pointers;
  for (int64_t i = 0; i < *count; ++i) {
    configs.push_back(std::make_unique<CudnnDescriptor>(
        library, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    if (const Error &error = configs.back()->failure())
      return error;
    pointers.push_back(configs.back()->get());
  }
  if (!configs.empty())
    count = heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                           CUDNN_TYPE_BACKEND_DESCRIPTOR,
                           int64_t(configs.size()), pointers.data());
  if (!count)
    return count.error();
  std::vector<Plan> plans;
  Error why(MPRT_UNSUPPORTED, "cuDNN has no engine for it");
  for (int64_t i = 0;
       i < std::min(*count, int64_t(configs.size())) && plans.size() < most;
       ++i) {
    Expected<bool> byChance = isByChance(library, *configs[size_t(i)]);
    if (!byChance || *byChance) {
      why = byChance ? Error(MPRT_UNSUPPORTED,
                             "cuDNN's engines do not repeat their bits")
                     : byChance.error();
      continue;
    }
    Plan made;
    made.plan = std::make_unique<CudnnDescriptor>(
        library, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    made.plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
    made.plan->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                   *configs[size_t(i)]);
    if (const Error &error = made.plan->finalize()) {
      why = error;
      continue;
    }
    int64_t bytes = 0;
    if (Expected<int64_t> found =
            made.plan->get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                           CUDNN_TYPE_INT64, 1, &bytes);
        !found) {
      why = found.error();
      continue;
    }
    if (bytes < 0 || uint64_t(bytes) > workspaceBytes) {
      why = makeError(MPRT_UNSUPPORTED, "cuDNN needs ", bytes >> 20,
                      " MiB of scratch, at most ", workspaceBytes >> 20,
                      " MiB expected");
      continue;
    }
    made.config = std::move(configs[size_t(i)]);
    made.workspaceBytes = uint64_t(bytes);
    plans.push_back(std::move(made));
  }
  if (plans.empty())
    return why;
  return plans;
}
