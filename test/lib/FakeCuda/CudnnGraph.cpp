//===- CudnnGraph.cpp - a test double of cuDNN's graph API ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Descriptors take only the attributes that they have, of the right type and
// number, and copy what they refer to, which has to be final. Any graph that is
// right is supported, by five engines: one whose results are wrong by 1 and
// that says that it does not repeat its bits, one without a plan, one that
// needs more of a workspace than there is, one that is slow, and one that needs
// a workspace.
//
//===----------------------------------------------------------------------===//

#include "CudnnHandle.h"
#include "CudnnOperation.h"
#include "Library.h"

#include <algorithm>
#include <cstring>
#include <memory>

using namespace fake;

namespace {

enum Engine : int64_t { ByChance, Planless, Greedy, Slow, Fast, NumEngines };

constexpr int64_t workspaces[] = {0, 0, int64_t(1) << 40, 0, 64 << 10};

using Operations = std::vector<GraphOperation>;

struct Descriptor {
  int kind = -1;
  bool isFinal = false;
  /// Numbers and pointers of attributes, as 8 bytes each.
  std::map<int, std::vector<int64_t>> numbers;
  /// What attributes refer to.
  std::map<int, std::vector<std::shared_ptr<const Descriptor>>> others;

  // Filled in when it is final.
  GraphTensor tensor;
  GraphOperation operation;
  std::shared_ptr<const Operations> graph;
  int64_t engine = -1;

  int64_t number(int attribute, int64_t otherwise = -1) const {
    auto found = numbers.find(attribute);
    return found == numbers.end() ? otherwise : found->second.front();
  }
  const Descriptor *other(int attribute) const {
    auto found = others.find(attribute);
    return found == others.end() ? nullptr : found->second.front().get();
  }
  bool finalize();
};

/// An attribute of a kind of descriptor.
struct Attribute {
  int kind, name, type;
  int64_t least, most;
  int refersTo = -1;
};

#define FAKE_ONE(kind, name, type)                                             \
  {CUDNN_BACKEND_##kind##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_##type, 1, \
   1}
#define FAKE_REFERENCE(kind, name, other)                                      \
  {CUDNN_BACKEND_##kind##_DESCRIPTOR,                                          \
   CUDNN_ATTR_##name,                                                          \
   CUDNN_TYPE_BACKEND_DESCRIPTOR,                                              \
   1,                                                                          \
   1,                                                                          \
   CUDNN_BACKEND_##other##_DESCRIPTOR}

constexpr Attribute attributes[] = {
    FAKE_ONE(TENSOR, TENSOR_UNIQUE_ID, INT64),
    FAKE_ONE(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE),
    FAKE_ONE(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64),
    FAKE_ONE(TENSOR, TENSOR_IS_VIRTUAL, BOOLEAN),
    FAKE_ONE(TENSOR, TENSOR_IS_BY_VALUE, BOOLEAN),
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DIMENSIONS,
     CUDNN_TYPE_INT64, 4, 4},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_STRIDES,
     CUDNN_TYPE_INT64, 4, 4},
    FAKE_ONE(POINTWISE, POINTWISE_MODE, POINTWISE_MODE),
    FAKE_ONE(POINTWISE, POINTWISE_MATH_PREC, DATA_TYPE),
    FAKE_ONE(POINTWISE, POINTWISE_AXIS, INT64),
    FAKE_ONE(REDUCTION, REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE),
    FAKE_ONE(REDUCTION, REDUCTION_COMP_TYPE, DATA_TYPE),
    FAKE_ONE(MATMUL, MATMUL_COMP_TYPE, DATA_TYPE),
    FAKE_REFERENCE(OPERATION_POINTWISE, OPERATION_POINTWISE_PW_DESCRIPTOR,
                   POINTWISE),
    FAKE_REFERENCE(OPERATION_POINTWISE, OPERATION_POINTWISE_XDESC, TENSOR),
    FAKE_REFERENCE(OPERATION_POINTWISE, OPERATION_POINTWISE_BDESC, TENSOR),
    FAKE_REFERENCE(OPERATION_POINTWISE, OPERATION_POINTWISE_YDESC, TENSOR),
    FAKE_REFERENCE(OPERATION_POINTWISE, OPERATION_POINTWISE_TDESC, TENSOR),
    FAKE_REFERENCE(OPERATION_REDUCTION, OPERATION_REDUCTION_DESC, REDUCTION),
    FAKE_REFERENCE(OPERATION_REDUCTION, OPERATION_REDUCTION_XDESC, TENSOR),
    FAKE_REFERENCE(OPERATION_REDUCTION, OPERATION_REDUCTION_YDESC, TENSOR),
    FAKE_REFERENCE(OPERATION_MATMUL, OPERATION_MATMUL_DESC, MATMUL),
    FAKE_REFERENCE(OPERATION_MATMUL, OPERATION_MATMUL_ADESC, TENSOR),
    FAKE_REFERENCE(OPERATION_MATMUL, OPERATION_MATMUL_BDESC, TENSOR),
    FAKE_REFERENCE(OPERATION_MATMUL, OPERATION_MATMUL_CDESC, TENSOR),
    FAKE_REFERENCE(OPERATION_RESHAPE, OPERATION_RESHAPE_XDESC, TENSOR),
    FAKE_REFERENCE(OPERATION_RESHAPE, OPERATION_RESHAPE_YDESC, TENSOR),
    FAKE_ONE(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE),
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 64},
    FAKE_REFERENCE(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, OPERATIONGRAPH),
    FAKE_ONE(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE),
    FAKE_ONE(EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE),
    FAKE_REFERENCE(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, ENGINECFG),
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
     CUDNN_TYPE_INT64, 1, 64},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
     CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 1, 64},
    FAKE_ONE(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR),
};

/// A descriptor as the API hands it out.
struct Handed {
  std::shared_ptr<Descriptor> shared = std::make_shared<Descriptor>();
};

Descriptor &of(cudnnBackendDescriptor_t descriptor) {
  return *static_cast<Handed *>(descriptor)->shared;
}

size_t bytesOf(int type) {
  switch (type) {
  case CUDNN_TYPE_BOOLEAN:
    return 1;
  case CUDNN_TYPE_HANDLE:
  case CUDNN_TYPE_INT64:
  case CUDNN_TYPE_VOID_PTR:
    return 8;
  default:
    return 4;
  }
}

} // namespace

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

static bool makeTensor(const Descriptor &d, GraphTensor &made) {
  made.id = d.number(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  made.type = int(d.number(CUDNN_ATTR_TENSOR_DATA_TYPE));
  made.isVirtual = d.number(CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0) != 0;
  made.isByValue = d.number(CUDNN_ATTR_TENSOR_IS_BY_VALUE, 0) != 0;
  auto sizes = d.numbers.find(CUDNN_ATTR_TENSOR_DIMENSIONS),
       strides = d.numbers.find(CUDNN_ATTR_TENSOR_STRIDES);
  if (sizes == d.numbers.end() || strides == d.numbers.end())
    return false;
  bool isRight = d.number(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) == 16 &&
                 d.numbers.count(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  for (size_t i = 0; i < 4; ++i) {
    made.sizes[i] = sizes->second[i];
    made.strides[i] = strides->second[i];
    isRight &= made.sizes[i] >= 1 && made.strides[i] >= 1;
  }
  return isRight && made.elementBytes() &&
         !(made.isVirtual && made.isByValue) &&
         (!made.isByValue || made.count() == 1);
}

static bool makeOperation(const Descriptor &d, GraphOperation &made) {
  made.descriptor = d.kind;
  auto tensorOf = [&](int name) -> std::optional<GraphTensor> {
    const Descriptor *found = d.other(name);
    return found ? std::optional(found->tensor) : std::nullopt;
  };
  std::optional<GraphTensor> y;
  const Descriptor *how = nullptr;
  switch (d.kind) {
  case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    how = d.other(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    if (!how)
      return false;
    made.mode = int(how->number(CUDNN_ATTR_POINTWISE_MODE));
    made.computes = int(how->number(CUDNN_ATTR_POINTWISE_MATH_PREC));
    made.axis = how->number(CUDNN_ATTR_POINTWISE_AXIS);
    made.x = tensorOf(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    made.b = tensorOf(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    made.t = tensorOf(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    y = tensorOf(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    break;
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
    how = d.other(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
    if (!how)
      return false;
    made.mode = int(how->number(CUDNN_ATTR_REDUCTION_OPERATOR));
    made.computes = int(how->number(CUDNN_ATTR_REDUCTION_COMP_TYPE));
    made.x = tensorOf(CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    y = tensorOf(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    break;
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    how = d.other(CUDNN_ATTR_OPERATION_MATMUL_DESC);
    if (!how)
      return false;
    made.computes = int(how->number(CUDNN_ATTR_MATMUL_COMP_TYPE));
    made.x = tensorOf(CUDNN_ATTR_OPERATION_MATMUL_ADESC);
    made.b = tensorOf(CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    y = tensorOf(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    break;
  default:
    made.x = tensorOf(CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    y = tensorOf(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
  }
  if (!y)
    return false;
  made.y = *y;
  return made.check() == CUDNN_STATUS_SUCCESS;
}

bool Descriptor::finalize() {
  switch (kind) {
  case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
    return makeTensor(*this, tensor);
  case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
  case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
    return makeOperation(*this, operation);
  case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: {
    auto made = std::make_shared<Operations>();
    for (const auto &one : others[CUDNN_ATTR_OPERATIONGRAPH_OPS])
      made->push_back(one->operation);
    graph = made;
    std::map<int64_t, GraphTensor> outside;
    std::map<int64_t, bool> written;
    return number(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, 0) != 0 &&
           check(*made, outside, written) == CUDNN_STATUS_SUCCESS;
  }
  case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: {
    const Descriptor *of = other(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    if (!of || number(CUDNN_ATTR_ENGINEHEUR_MODE) != CUDNN_HEUR_MODE_A)
      return false;
    graph = of->graph;
    return true;
  }
  case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
    const Descriptor *of = other(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    if (!of || number(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 0) == 0)
      return false;
    graph = of->graph;
    engine = of->engine;
    return true;
  }
  case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
    return numbers[CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS].size() ==
           numbers[CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS].size();
  case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
  case CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
  case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
    return !numbers.empty();
  default:
    return false;
  }
}

cudnnStatus_t
cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                             cudnnBackendDescriptor_t *descriptor) {
  FAKE_CALL(cudnnStatus_t, cudnnBackendCreateDescriptor);
  auto *made = new Handed;
  made->shared->kind = type;
  *descriptor = made;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t
cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<Handed *>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t count, const void *values) {
  FAKE_CALL(cudnnStatus_t, cudnnBackendSetAttribute);
  Descriptor &d = of(descriptor);
  const Attribute *known = std::find_if(
      std::begin(attributes), std::end(attributes), [&](const Attribute &one) {
        return one.kind == d.kind && one.name == name;
      });
  if (known == std::end(attributes) || d.isFinal || known->type != type ||
      count < known->least || count > known->most || !values)
    return CUDNN_STATUS_BAD_PARAM;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    auto &list = d.others[name];
    list.clear();
    for (int64_t i = 0; i < count; ++i) {
      auto *other = static_cast<Handed *const *>(values)[i];
      if (!other || !other->shared->isFinal ||
          (known->refersTo >= 0 && other->shared->kind != known->refersTo))
        return CUDNN_STATUS_BAD_PARAM;
      list.push_back(other->shared);
    }
    return CUDNN_STATUS_SUCCESS;
  }
  auto &list = d.numbers[name];
  list.assign(size_t(count), 0);
  size_t bytes = bytesOf(type);
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(&list[size_t(i)],
                static_cast<const char *>(values) + size_t(i) * bytes, bytes);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  FAKE_CALL(cudnnStatus_t, cudnnBackendFinalize);
  Descriptor &d = of(descriptor);
  if (d.isFinal || !d.finalize())
    return CUDNN_STATUS_BAD_PARAM;
  if (d.kind == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && d.engine == Planless)
    return CUDNN_STATUS_NOT_SUPPORTED;
  d.isFinal = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t
cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor,
                         cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t wanted,
                         int64_t *found, void *values) {
  FAKE_CALL(cudnnStatus_t, cudnnBackendGetAttribute);
  const Descriptor &d = of(descriptor);
  auto isAsked = [&](int kind, int attribute, int ofType) {
    return d.kind == kind && name == attribute && type == ofType;
  };
  if (isAsked(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
              CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR) &&
      d.isFinal) {
    *found = NumEngines;
    for (int64_t i = 0; values && i < std::min<int64_t>(wanted, NumEngines);
         ++i) {
      Descriptor &config = of(static_cast<void *const *>(values)[i]);
      if (config.kind != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
        return CUDNN_STATUS_BAD_PARAM;
      config.graph = d.graph;
      config.engine = i;
      config.isFinal = true;
    }
    return CUDNN_STATUS_SUCCESS;
  }
  if (isAsked(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_ENGINE,
              CUDNN_TYPE_BACKEND_DESCRIPTOR) &&
      wanted == 1 && d.isFinal) {
    Descriptor &engine = of(*static_cast<void *const *>(values));
    if (engine.kind != CUDNN_BACKEND_ENGINE_DESCRIPTOR)
      return CUDNN_STATUS_BAD_PARAM;
    engine.engine = d.engine;
    *found = 1;
    return CUDNN_STATUS_SUCCESS;
  }
  if (isAsked(CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
              CUDNN_TYPE_NUMERICAL_NOTE) &&
      wanted >= 1 && d.engine >= 0) {
    *found = d.engine == ByChance;
    if (*found)
      *static_cast<int *>(values) = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    return CUDNN_STATUS_SUCCESS;
  }
  if (isAsked(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
              CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64) &&
      wanted == 1 && d.isFinal) {
    *static_cast<int64_t *>(values) = workspaces[d.engine];
    *found = 1;
    return CUDNN_STATUS_SUCCESS;
  }
  return CUDNN_STATUS_BAD_PARAM;
}

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

namespace {

struct Execution {
  std::shared_ptr<const Operations> graph;
  int64_t engine;
  std::map<int64_t, GraphTensor> outside;
  std::map<int64_t, bool> written;
  std::map<int64_t, void *> pointers; // of memory
  std::map<int64_t, float> byValue;
  void *workspace;

  int run() const;

private:
  void compute() const;
};

} // namespace

static mprt_dtype elementOf(int type) {
  return type == CUDNN_DATA_HALF       ? MPRT_F16
         : type == CUDNN_DATA_BFLOAT16 ? MPRT_BF16
                                       : MPRT_F32;
}

void Execution::compute() const {
  GraphValues values;
  for (const auto &[id, number] : byValue)
    values[id] = {double(number)};
  for (const auto &[id, pointer] : pointers) {
    if (written.count(id))
      continue;
    const GraphTensor &tensor = outside.at(id);
    Elements elements(elementOf(tensor.type), pointer);
    for (int64_t i = 0; i < tensor.count(); ++i)
      values[id].push_back(elements.get<double>(tensor.offset(i)));
  }
  for (const GraphOperation &operation : *graph)
    fake::compute(operation, values);
  for (const auto &[id, is] : written) {
    const GraphTensor &tensor = outside.at(id);
    Elements elements(elementOf(tensor.type), pointers.at(id));
    for (int64_t i = 0; i < tensor.count(); ++i)
      elements.set<double>(tensor.offset(i),
                           values.at(id)[size_t(i)] + (engine == ByChance));
  }
}

int Execution::run() const {
  std::vector<Operand> operands;
  for (const auto &[id, pointer] : pointers) {
    const GraphTensor &tensor = outside.at(id);
    operands.push_back({elementOf(tensor.type), pointer, tensor.last()});
  }
  return computeOn(operands, workspace, size_t(workspaces[engine]),
                   engine == Slow, true, [this](auto) { compute(); });
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle,
                                  cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variantPack) {
  FAKE_CALL(cudnnStatus_t, cudnnBackendExecute);
  const Descriptor &p = of(plan), &pack = of(variantPack);
  if (p.kind != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || !p.isFinal ||
      pack.kind != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR || !pack.isFinal)
    return CUDNN_STATUS_BAD_PARAM;
  auto pointerOf = [](int64_t number) {
    return reinterpret_cast<void *>(number);
  };
  Execution execution{p.graph, p.engine, {}, {}, {}, {}, nullptr};
  check(*p.graph, execution.outside, execution.written);
  execution.workspace =
      pointerOf(pack.number(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 0));
  const auto &ids = pack.numbers.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto &all = pack.numbers.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (size_t i = 0; i < ids.size(); ++i) {
    auto tensor = execution.outside.find(ids[i]);
    if (tensor == execution.outside.end() || all[i] == 0)
      return CUDNN_STATUS_BAD_PARAM;
    if (tensor->second.isByValue)
      execution.byValue[ids[i]] =
          *static_cast<const float *>(pointerOf(all[i]));
    else if (all[i] % 16 == 0)
      execution.pointers[ids[i]] = pointerOf(all[i]);
  }
  if (execution.byValue.size() + execution.pointers.size() !=
          execution.outside.size() ||
      ids.size() != execution.outside.size())
    return CUDNN_STATUS_BAD_PARAM;
  mpfake_note(p.engine == Slow ? "cudnnBackendExecute/slow"
                               : "cudnnBackendExecute/fast");
  return enqueue(handle->stream, "cudnnBackendExecute", execution)
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_EXECUTION_FAILED;
}
