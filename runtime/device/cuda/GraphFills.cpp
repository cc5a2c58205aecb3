//===- GraphFills.cpp - fills of a graph as kernels -----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels are PTX, written by hand: each thread sets one word, or one
// vector of 16 bytes, between the first and the last.
//
//===----------------------------------------------------------------------===//

#include "device/cuda/GraphFills.h"

#include <algorithm>
#include <optional>
#include <vector>

using namespace mprt;
using namespace mprt::cuda;

static constexpr uint64_t wordBytes = 4, vectorBytes = 16, threads = 256,
                          maxGrid = 0x7fffffff;

// What a thread does: 2 to the `shift` bytes at its place are stored to.
#define MPRT_ZERO_ENTRY(name, shift, store)                                    \
  ".visible .entry " name "(.param .u64 first, .param .u64 last)\n"            \
  "{\n"                                                                        \
  "  .reg .pred %p1;\n"                                                        \
  "  .reg .b32 %r<5>;\n"                                                       \
  "  .reg .b64 %rd<6>;\n"                                                      \
  "  ld.param.u64 %rd1, [first];\n"                                            \
  "  ld.param.u64 %rd2, [last];\n"                                             \
  "  mov.u32 %r1, %ctaid.x;\n"                                                 \
  "  mov.u32 %r2, %ntid.x;\n"                                                  \
  "  mov.u32 %r3, %tid.x;\n"                                                   \
  "  cvt.u64.u32 %rd3, %r3;\n"                                                 \
  "  mad.wide.u32 %rd4, %r1, %r2, %rd3;\n"                                     \
  "  shl.b64 %rd4, %rd4, " shift ";\n"                                         \
  "  add.s64 %rd5, %rd1, %rd4;\n"                                              \
  "  setp.gt.u64 %p1, %rd5, %rd2;\n"                                           \
  "  @%p1 bra done;\n"                                                         \
  "  cvta.to.global.u64 %rd5, %rd5;\n"                                         \
  "  mov.u32 %r4, 0;\n"                                                        \
  "  " store ";\n"                                                             \
  "done:\n"                                                                    \
  "  ret;\n"                                                                   \
  "}\n"

static const char ptx[] =
    ".version 7.0\n"
    ".target sm_80\n"
    ".address_size 64\n" MPRT_ZERO_ENTRY("mprt_zero_words", "2",
                                         "st.global.u32 [%rd5], %r4")
        MPRT_ZERO_ENTRY("mprt_zero_vectors", "4",
                        "st.global.v4.u32 [%rd5], {%r4, %r4, %r4, %r4}");
#undef MPRT_ZERO_ENTRY

/// What `query` lists; none where it fails.
template <typename Query>
static std::optional<std::vector<CUgraphNode>> listNodes(Query query) {
  size_t count = 0;
  if (query(nullptr, &count) != CUDA_SUCCESS)
    return std::nullopt;
  std::vector<CUgraphNode> nodes(count);
  if (count && query(nodes.data(), &count) != CUDA_SUCCESS)
    return std::nullopt;
  return nodes;
}

bool GraphFills::load() {
  if (!isTried) {
    isTried = true;
    if (driver.cuModuleLoadDataEx(&module, ptx, 0, nullptr, nullptr) !=
        CUDA_SUCCESS)
      module = nullptr;
    else if (driver.cuModuleGetFunction(&words, module, "mprt_zero_words") !=
                 CUDA_SUCCESS ||
             driver.cuModuleGetFunction(&vectors, module,
                                        "mprt_zero_vectors") != CUDA_SUCCESS)
      words = nullptr;
  }
  return words;
}

Error GraphFills::replaceOne(CUgraph graph, CUgraphNode fill) {
  CUmemsetNodeParams what{};
  if (driver.cuGraphMemsetNodeGetParams(fill, &what) != CUDA_SUCCESS)
    return {};
  uint64_t bytes = uint64_t(what.width) * what.elementSize;
  if (what.value != 0 || what.height != 1 || bytes == 0 ||
      what.dst % wordBytes != 0 || bytes % wordBytes != 0)
    return {};
  bool isWide = what.dst % vectorBytes == 0 && bytes % vectorBytes == 0;
  uint64_t each = isWide ? vectorBytes : wordBytes;
  uint64_t blocks = (bytes / each + threads - 1) / threads;
  if (blocks > maxGrid || !load())
    return {};
  // These fail where edges have more to say than an order.
  auto dependencies = listNodes([&](CUgraphNode *nodes, size_t *count) {
    return driver.cuGraphNodeGetDependencies(fill, nodes, count);
  });
  auto dependents = listNodes([&](CUgraphNode *nodes, size_t *count) {
    return driver.cuGraphNodeGetDependentNodes(fill, nodes, count);
  });
  if (!dependencies || !dependents)
    return {};

  CUdeviceptr first = what.dst, last = what.dst + bytes - each;
  void *parameters[] = {&first, &last};
  CUkernelNodeParams kernel{};
  kernel.func = isWide ? vectors : words;
  kernel.gridDimX = unsigned(blocks);
  kernel.blockDimX = unsigned(std::min(threads, (bytes / each + 31) / 32 * 32));
  kernel.gridDimY = kernel.gridDimZ = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = parameters;
  CUgraphNode node = nullptr;
  if (driver.cuGraphAddKernelNode(&node, graph, dependencies->data(),
                                  dependencies->size(),
                                  &kernel) != CUDA_SUCCESS)
    return {};
  std::vector<CUgraphNode> from(dependents->size(), node);
  CUresult ordered = CUDA_SUCCESS;
  if (!from.empty())
    ordered = driver.cuGraphAddDependencies(graph, from.data(),
                                            dependents->data(), from.size());
  // Without an order to what depends on the fill the kernel must go. With one,
  // a fill that stays beside it does no harm: both clear the same bytes then.
  CUresult destroyed =
      driver.cuGraphDestroyNode(ordered == CUDA_SUCCESS ? fill : node);
  if (ordered != CUDA_SUCCESS)
    return driver.check(destroyed, "cuGraphDestroyNode");
  return {};
}

Error GraphFills::replace(CUgraph graph) {
  auto nodes = listNodes([&](CUgraphNode *found, size_t *count) {
    return driver.cuGraphGetNodes(graph, found, count);
  });
  if (!nodes)
    return {};
  for (CUgraphNode node : *nodes) {
    int type = -1;
    if (driver.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS ||
        type != CU_GRAPH_NODE_TYPE_MEMSET)
      continue;
    if (Error error = replaceOne(graph, node))
      return error;
  }
  return {};
}

GraphFills::~GraphFills() {
  if (module)
    driver.cuModuleUnload(module);
}
