//===- AttentionPlan.cpp - attention as cuDNN wants it --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The library's engines match certain graphs, op by op. These are the ones that
// cuDNN's open frontend builds for libraries of version 9 (which newer ones
// still match): a softmax written out, with its logarithm of sums of
// exponentials, the natural one, as the second result. Of the gradient it is
// the form whose sums have one order on sm_90: gradients of scores pass through
// scratch of 16 bits each, and no result is added up with atomics.
//
// Sizes and strides are in the library's order, [batch, heads, positions,
// size].
//
//===----------------------------------------------------------------------===//

#include "device/cuda/AttentionPlan.h"

#include "device/Descriptors.h"

#include <limits>
#include <utility>

using namespace mprt;
using namespace mprt::cuda;

using Tensor = CudnnGraph::Tensor;

/// Numbers of tensors: operands have 1 + theirs.
enum : int64_t { ScaleId = 100, ExcludedId, OneId, DeltaId };

static int typeOf(uint8_t type) {
  return type == MPRT_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

static DnnDims scoresOf(const mprt_attention_desc &d) {
  return {d.batch, d.heads, d.rows, d.columns};
}

/// One number for each row of the scores.
static DnnDims rowsOf(const mprt_attention_desc &d) {
  return {d.batch, d.heads, d.rows, 1};
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

Tensor AttentionPlan::operand(const mprt_attention_desc &d, uint32_t number,
                              int64_t positions, bool transposed) {
  const int64_t *s = d.strides[number];
  DnnDims sizes = {d.batch, d.heads, positions, d.size};
  DnnDims strides = {s[0], s[2], s[1], s[3]};
  if (transposed) {
    std::swap(sizes[2], sizes[3]);
    std::swap(strides[2], strides[3]);
  }
  operands.push_back(number);
  return graph.memory(1 + int64_t(number), typeOf(d.type), sizes, strides);
}

Tensor AttentionPlan::logsumexp(const mprt_attention_desc &d, uint32_t number) {
  const int64_t *s = d.strides[number];
  operands.push_back(number);
  return graph.memory(1 + int64_t(number), CUDNN_DATA_FLOAT, rowsOf(d),
                      {s[0], s[1], s[2], 1});
}

/// Scores of the columns up to the row, -infinity of the others.
Tensor AttentionPlan::keepCausal(Tensor scores, const DnnDims &sizes) {
  Tensor rows = graph.between(CUDNN_DATA_INT32, sizes);
  Tensor columns = graph.between(CUDNN_DATA_INT32, sizes);
  Tensor isKept = graph.between(CUDNN_DATA_BOOLEAN, sizes);
  Tensor kept = graph.between(CUDNN_DATA_FLOAT, sizes);
  graph.index(2, scores, rows);
  graph.index(3, scores, columns);
  graph.pointwise(CUDNN_POINTWISE_CMP_GE, rows, columns, isKept);
  graph.select(isKept, scores, graph.number(ExcludedId), kept);
  return kept;
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

void AttentionPlan::describeForward(const mprt_attention_desc &d,
                                    bool isCausal) {
  DnnDims scores = scoresOf(d), rows = rowsOf(d);
  Tensor q = operand(d, 0, d.rows);
  Tensor k = operand(d, 1, d.columns, /*transposed=*/true);
  Tensor v = operand(d, 2, d.columns);
  Tensor out = operand(d, 3 + d.has_mask, d.rows);
  Tensor lse = logsumexp(d, 4 + d.has_mask);
  Tensor product = graph.between(CUDNN_DATA_FLOAT, scores);
  Tensor scaled = graph.between(CUDNN_DATA_FLOAT, scores);
  graph.matmul(q, k, product);
  graph.pointwise(CUDNN_POINTWISE_MUL, product, graph.number(ScaleId), scaled);
  if (isCausal)
    scaled = keepCausal(scaled, scores);
  Tensor most = graph.between(CUDNN_DATA_FLOAT, rows);
  Tensor below = graph.between(CUDNN_DATA_FLOAT, scores);
  Tensor powers = graph.between(CUDNN_DATA_FLOAT, scores);
  Tensor sum = graph.between(CUDNN_DATA_FLOAT, rows);
  Tensor logarithm = graph.between(CUDNN_DATA_FLOAT, rows);
  Tensor probabilities = graph.between(typeOf(d.type), scores);
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scaled, most);
  graph.pointwise(CUDNN_POINTWISE_SUB, scaled, most, below);
  graph.pointwise(CUDNN_POINTWISE_EXP, below, nullptr, powers);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, powers, sum);
  graph.pointwise(CUDNN_POINTWISE_LOG, sum, nullptr, logarithm);
  graph.pointwise(CUDNN_POINTWISE_ADD, most, logarithm, lse);
  graph.pointwise(CUDNN_POINTWISE_DIV, powers, sum, probabilities);
  graph.matmul(probabilities, v, out);
}

void AttentionPlan::describeGradient(const mprt_attention_desc &d,
                                     bool isCausal) {
  int type = typeOf(d.type);
  DnnDims scores = scoresOf(d), rows = rowsOf(d);
  DnnDims outputs = {d.batch, d.heads, d.rows, d.size};
  // The same elements with rows and columns exchanged.
  DnnDims exchanged = {d.batch, d.heads, d.columns, d.rows};
  DnnDims exchangedStrides = {d.heads * d.rows * d.columns, d.rows * d.columns,
                              1, d.columns};
  uint32_t first = 6 + d.has_mask;
  Tensor dout = operand(d, 0, d.rows), q = operand(d, 1, d.rows);
  Tensor kTransposed = operand(d, 2, d.columns, true);
  Tensor vTransposed = operand(d, 3, d.columns, true);
  Tensor out = operand(d, 4, d.rows), lse = logsumexp(d, 5);
  Tensor dq = operand(d, first, d.rows), dk = operand(d, first + 1, d.columns),
         dv = operand(d, first + 2, d.columns);
  auto f32 = [&](const DnnDims &sizes) {
    return graph.between(CUDNN_DATA_FLOAT, sizes);
  };

  // delta = the sum over a row of dout * out, kept in the workspace.
  Tensor products = f32(outputs), sums = f32(rows);
  Tensor delta = graph.memory(DeltaId, CUDNN_DATA_FLOAT, rows,
                              {d.heads * d.rows, d.rows, 1, 1});
  graph.pointwise(CUDNN_POINTWISE_MUL, dout, out, products);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, products, sums);
  graph.pointwise(CUDNN_POINTWISE_MUL, sums, graph.number(OneId), delta);

  // p = exp(scale q k' - lse)
  Tensor scaleNumber = graph.number(ScaleId);
  Tensor product = f32(scores), scaled = f32(scores), below = f32(scores),
         p = f32(scores);
  graph.matmul(q, kTransposed, product);
  graph.pointwise(CUDNN_POINTWISE_MUL, product, scaleNumber, scaled);
  graph.pointwise(CUDNN_POINTWISE_SUB, scaled, lse, below);
  if (isCausal)
    below = keepCausal(below, scores);
  graph.pointwise(CUDNN_POINTWISE_EXP, below, nullptr, p);

  // dv = p' dout
  Tensor pTransposed = graph.between(type, exchanged, exchangedStrides);
  graph.transpose(p, pTransposed);
  graph.matmul(pTransposed, dout, dv);

  // ds = scale p * (dout v' - delta)
  Tensor dp = f32(scores), centred = f32(scores), weighted = f32(scores),
         ds = f32(scores);
  graph.matmul(dout, vTransposed, dp);
  graph.pointwise(CUDNN_POINTWISE_SUB, dp, delta, centred);
  graph.pointwise(CUDNN_POINTWISE_MUL, centred, p, weighted);
  graph.pointwise(CUDNN_POINTWISE_MUL, weighted, scaleNumber, ds);

  // dk = ds' q, dq = ds k
  Tensor dsTransposed = graph.between(type, exchanged, exchangedStrides);
  graph.transpose(ds, dsTransposed);
  graph.matmul(dsTransposed, q, dk);
  const int64_t *s = d.strides[2];
  Tensor k =
      graph.between(CUDNN_DATA_FLOAT, {d.batch, d.heads, d.columns, d.size},
                    {s[0], s[2], s[1], s[3]});
  graph.transpose(kTransposed, k);
  graph.matmul(ds, k, dq);
  deltaBytes = (uint64_t(d.batch * d.heads * d.rows) * sizeof(float) + 255) &
               ~uint64_t(255);
}

Error AttentionPlan::prepare(const mprt_attention_desc &desc, bool isCausal,
                             DnnHandle handle, size_t most,
                             uint64_t workspaceBytes) {
  isMasked = isCausal;
  isGradient = desc.kind == MPRT_ATTENTION_GRAD;
  scale = float(desc.scale);
  isGradient ? describeGradient(desc, isCausal)
             : describeForward(desc, isCausal);
  if (Error error = graph.finalize(handle))
    return error;
  if (deltaBytes > workspaceBytes)
    return makeError(MPRT_UNSUPPORTED, "it needs more than ",
                     workspaceBytes >> 20, " MiB of scratch");
  Expected<std::vector<CudnnGraph::Plan>> found =
      graph.list(handle, most, workspaceBytes - deltaBytes);
  if (!found)
    return found.error();
  plans = found.take();
  return {};
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

bool AttentionPlan::isAligned(const mprt_attention_desc &desc,
                              void *const *args) {
  for (uint32_t i = 0; i < countOperands(desc); ++i)
    if (!(desc.has_mask && i == maskOf(desc)) &&
        reinterpret_cast<uintptr_t>(args[i]) % 16 != 0)
      return false;
  return true;
}

Error AttentionPlan::run(size_t i, DnnHandle handle, void *workspace,
                         void *const *args) {
  float excluded = -std::numeric_limits<float>::infinity(), one = 1;
  std::vector<int64_t> ids;
  std::vector<void *> pointers;
  auto add = [&](int64_t id, void *pointer) {
    ids.push_back(id);
    pointers.push_back(pointer);
  };
  for (uint32_t number : operands)
    add(1 + int64_t(number), args[number]);
  add(ScaleId, &scale);
  if (isMasked)
    add(ExcludedId, &excluded);
  if (isGradient) {
    add(OneId, &one);
    add(DeltaId, workspace);
    workspace = static_cast<char *>(workspace) + deltaBytes;
  }
  CudnnDescriptor pack(library, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
           int64_t(ids.size()), ids.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           int64_t(pointers.size()), pointers.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  if (const Error &error = pack.finalize())
    return error;
  return library.check(
      library.cudnnBackendExecute(handle, plans[i].plan->get(), pack.get()),
      "cudnnBackendExecute");
}
