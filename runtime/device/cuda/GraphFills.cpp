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

using namespace mprt;
using namespace mprt::cuda;

static constexpr uint64_t wordBytes = 4, vectorBytes = 16, threads = 256,
                          maxGrid = 0x7fffffff;

static const char ptx[] = R"(.version 7.0
.target sm_80
.address_size 64

.visible .entry mprt_zero_words(.param .u64 first, .param .u64 last)
{
	.reg .pred %p1;
	.reg .b32 %r<5>;
	.reg .b64 %rd<6>;

	ld.param.u64 	%rd1, [first];
	ld.param.u64 	%rd2, [last];
	mov.u32 	%r1, %ctaid.x;
	mov.u32 	%r2, %ntid.x;
	mov.u32 	%r3, %tid.x;
	cvt.u64.u32 	%rd3, %r3;
	mad.wide.u32 	%rd4, %r1, %r2, %rd3;
	shl.b64 	%rd4, %rd4, 2;
	add.s64 	%rd5, %rd1, %rd4;
	setp.gt.u64 	%p1, %rd5, %rd2;
	@%p1 bra 	done;
	cvta.to.global.u64 	%rd5, %rd5;
	mov.u32 	%r4, 0;
	st.global.u32 	[%rd5], %r4;
done:
	ret;
}

.visible .entry mprt_zero_vectors(.param .u64 first, .param .u64 last)
{
	.reg .pred %p1;
	.reg .b32 %r<5>;
	.reg .b64 %rd<6>;

	ld.param.u64 	%rd1, [first];
	ld.param.u64 	%rd2, [last];
	mov.u32 	%r1, %ctaid.x;
	mov.u32 	%r2, %ntid.x;
	mov.u32 	%r3, %tid.x;
	cvt.u64.u32 	%rd3, %r3;
	mad.wide.u32 	%rd4, %r1, %r2, %rd3;
	shl.b64 	%rd4, %rd4, 4;
	add.s64 	%rd5, %rd1, %rd4;
	setp.gt.u64 	%p1, %rd5, %rd2;
	@%p1 bra 	done;
	cvta.to.global.u64 	%rd5, %rd5;
	mov.u32 	%r4, 0;
	st.global.v4.u32 	[%rd5], {%r4, %r4, %r4, %r4};
done:
	ret;
}
)";

Expected<std::vector<CUgraphNode>> mprt::cuda::nodesOf(const Driver &driver,
                                                       CUgraph graph) {
  size_t count = 0;
  if (Error error = driver.check(driver.cuGraphGetNodes(graph, nullptr, &count),
                                 "cuGraphGetNodes"))
    return error;
  std::vector<CUgraphNode> nodes(count);
  if (count)
    if (Error error =
            driver.check(driver.cuGraphGetNodes(graph, nodes.data(), &count),
                         "cuGraphGetNodes"))
      return error;
  return nodes;
}

/// The nodes before or behind one, as `query` tells.
template <typename Query>
static Expected<std::vector<CUgraphNode>>
neighboursOf(const Driver &driver, CUgraphNode node, Query query,
             const char *call) {
  size_t count = 0;
  if (Error error = driver.check(query(node, nullptr, &count), call))
    return error;
  std::vector<CUgraphNode> nodes(count);
  if (count)
    if (Error error = driver.check(query(node, nodes.data(), &count), call))
      return error;
  return nodes;
}

Error GraphFills::replaceOne(CUgraph graph, CUgraphNode fill) {
  CUmemsetNodeParams what{};
  if (Error error = driver.check(driver.cuGraphMemsetNodeGetParams(fill, &what),
                                 "cuGraphMemsetNodeGetParams"))
    return error;
  uint64_t bytes = uint64_t(what.width) * what.elementSize;
  if (what.value != 0 || what.height != 1 || bytes == 0 ||
      what.dst % wordBytes != 0 || bytes % wordBytes != 0)
    return {};
  bool isWide = what.dst % vectorBytes == 0 && bytes % vectorBytes == 0;
  uint64_t each = isWide ? vectorBytes : wordBytes;
  uint64_t blocks = (bytes / each + threads - 1) / threads;
  if (blocks > maxGrid)
    return {};

  Expected<std::vector<CUgraphNode>> before =
      neighboursOf(driver, fill, driver.cuGraphNodeGetDependencies,
                   "cuGraphNodeGetDependencies");
  if (!before)
    return before.error();
  Expected<std::vector<CUgraphNode>> behind =
      neighboursOf(driver, fill, driver.cuGraphNodeGetDependentNodes,
                   "cuGraphNodeGetDependentNodes");
  if (!behind)
    return behind.error();

  CUdeviceptr first = what.dst, last = what.dst + bytes - each;
  void *parameters[] = {&first, &last};
  CUkernelNodeParams kernel{};
  kernel.func = isWide ? vectors : words;
  kernel.gridDimX = unsigned(blocks);
  kernel.blockDimX = unsigned(std::min(threads, (bytes / each + 31) / 32 * 32));
  kernel.gridDimY = kernel.gridDimZ = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = parameters;
  CUgraphNode node = nullptr;
  if (Error error =
          driver.check(driver.cuGraphAddKernelNode(&node, graph, before->data(),
                                                   before->size(), &kernel),
                       "cuGraphAddKernelNode"))
    return error;
  std::vector<CUgraphNode> from(behind->size(), node);
  if (!from.empty())
    if (Error error =
            driver.check(driver.cuGraphAddDependencies(
                             graph, from.data(), behind->data(), from.size()),
                         "cuGraphAddDependencies"))
      return error;
  return driver.check(driver.cuGraphDestroyNode(fill), "cuGraphDestroyNode");
}

Error GraphFills::replace(CUgraph graph) {
  Expected<std::vector<CUgraphNode>> nodes = nodesOf(driver, graph);
  if (!nodes)
    return nodes.error();
  for (CUgraphNode node : *nodes) {
    int type = -1;
    if (Error error = driver.check(driver.cuGraphNodeGetType(node, &type),
                                   "cuGraphNodeGetType"))
      return error;
    if (type != CU_GRAPH_NODE_TYPE_MEMSET)
      continue;
    if (!isTried) {
      isTried = true;
      if (driver.cuModuleLoadDataEx(&module, ptx, 0, nullptr, nullptr) !=
          CUDA_SUCCESS)
        module = nullptr;
      if (module &&
          (driver.cuModuleGetFunction(&words, module, "mprt_zero_words") !=
               CUDA_SUCCESS ||
           driver.cuModuleGetFunction(&vectors, module, "mprt_zero_vectors") !=
               CUDA_SUCCESS))
        words = nullptr;
    }
    if (!words)
      return {};
    if (Error error = replaceOne(graph, node))
      return error;
  }
  return {};
}

GraphFills::~GraphFills() {
  if (module)
    driver.cuModuleUnload(module);
}
