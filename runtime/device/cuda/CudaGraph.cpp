//===- CudaGraph.cpp - graphs and marks of time on a GPU ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A capture begins on the compute stream; the communicators' streams fork from
// it and are joined again at the end, whether or not the program used them. It
// is of this thread alone: what other threads do at that time is not looked at.
// A graph is uploaded when it has been made, so that its first launch costs the
// host as little as the others. MPRT_GRAPH_DOT=file writes each graph to
// file.rankR.N.dot, with the names of its kernels.
//
//===----------------------------------------------------------------------===//

#include "device/cuda/CudaDevice.h"
#include "support/Trace.h"

#include <cstdio>
#include <cstdlib>

using namespace mprt;
using namespace mprt::cuda;

namespace {

class CudaGraph : public DeviceGraph {
public:
  CudaGraph(const Driver &driver, CUgraphExec executable,
            const GraphNodes &counts)
      : driver(driver), executable(executable), counts(counts) {}
  ~CudaGraph() override { driver.cuGraphExecDestroy(executable); }
  GraphNodes nodes() const override { return counts; }

  const Driver &driver;
  CUgraphExec executable;
  GraphNodes counts;
};

} // namespace

/// Writes a graph where the environment asks for that. What fails here is no
/// failure of the step.
static void writeGraph(const Driver &driver, CUgraph graph, unsigned rank) {
  const char *file = std::getenv("MPRT_GRAPH_DOT");
  if (!file || !*file)
    return;
  static std::atomic<unsigned> written{0};
  std::string path = file + (".rank" + std::to_string(rank)) + "." +
                     std::to_string(written++) + ".dot";
  if (Error error = driver.check(
          driver.cuGraphDebugDotPrint(graph, path.c_str(),
                                      CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE),
          "cuGraphDebugDotPrint"))
    std::fprintf(stderr, "MPRT_GRAPH_DOT: %s: %s\n", path.c_str(),
                 error.message().c_str());
}

static Expected<GraphNodes> countNodes(const Driver &driver, CUgraph graph) {
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
  GraphNodes counts;
  for (CUgraphNode node : nodes) {
    int type = -1;
    if (Error error = driver.check(driver.cuGraphNodeGetType(node, &type),
                                   "cuGraphNodeGetType"))
      return error;
    ++counts.all;
    counts.kernels += type == CU_GRAPH_NODE_TYPE_KERNEL;
    counts.copies += type == CU_GRAPH_NODE_TYPE_MEMCPY;
    counts.fills += type == CU_GRAPH_NODE_TYPE_MEMSET;
  }
  return counts;
}

Error CudaDevice::beginCapture() {
  if (Error error = enter())
    return error;
  if (Error error = check(driver.cuStreamBeginCapture(
                              streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                          "cuStreamBeginCapture"))
    return error;
  capturing = true;
  Error failure =
      check(driver.cuEventRecord(fork, streams[0]), "cuEventRecord");
  for (uint32_t i = 1; i < programStreams() && !failure; ++i)
    failure = check(driver.cuStreamWaitEvent(streams[i], fork, 0),
                    "cuStreamWaitEvent");
  if (failure)
    (void)endCapture();
  return failure;
}

Expected<std::unique_ptr<DeviceGraph>> CudaDevice::endCapture() {
  Error failure;
  for (uint32_t i = 1; i < programStreams() && !failure; ++i) {
    failure = check(driver.cuEventRecord(fork, streams[i]), "cuEventRecord");
    if (!failure)
      failure = check(driver.cuStreamWaitEvent(streams[0], fork, 0),
                      "cuStreamWaitEvent");
  }
  CUgraph graph = nullptr;
  Error ended = check(driver.cuStreamEndCapture(streams[0], &graph),
                      "cuStreamEndCapture");
  capturing = false;
  if (!failure)
    failure = ended;
  if (!failure && !graph)
    failure = Error(MPRT_INTERNAL, "cuStreamEndCapture: there is no graph");
  GraphNodes counts;
  CUgraphExec executable = nullptr;
  if (!failure)
    failure = fills->replace(graph);
  if (!failure) {
    Expected<GraphNodes> counted = countNodes(driver, graph);
    if (counted)
      counts = *counted;
    else
      failure = counted.error();
    writeGraph(driver, graph, rank);
  }
  // Else all of it has the priority of the compute stream.
  if (!failure)
    failure = check(
        driver.cuGraphInstantiateWithFlags(
            &executable, graph, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY),
        "cuGraphInstantiateWithFlags");
  if (graph)
    driver.cuGraphDestroy(graph);
  if (failure)
    return failure;
  auto made = std::make_unique<CudaGraph>(driver, executable, counts);
  if (Error error =
          check(driver.cuGraphUpload(executable, streams[0]), "cuGraphUpload"))
    return error;
  return std::unique_ptr<DeviceGraph>(std::move(made));
}

Error CudaDevice::launchGraph(DeviceGraph &graph) {
  if (Error error = enter())
    return error;
  return check(driver.cuGraphLaunch(static_cast<CudaGraph &>(graph).executable,
                                    streams[0]),
               "cuGraphLaunch");
}

//===----------------------------------------------------------------------===//
// Marks
//===----------------------------------------------------------------------===//

Expected<uint64_t> CudaDevice::mark(uint32_t stream) {
  if (Error error = enter())
    return error;
  std::lock_guard<std::mutex> guard(markMutex);
  if (marked == marks.size()) {
    CUevent event = nullptr;
    if (Error error = check(driver.cuEventCreate(&event, CU_EVENT_DEFAULT),
                            "cuEventCreate"))
      return error;
    marks.push_back(event);
  }
  if (Error error = check(driver.cuEventRecord(marks[marked], streams[stream]),
                          "cuEventRecord"))
    return error;
  return marked++;
}

Expected<uint64_t> CudaDevice::timeOf(uint64_t mark) {
  if (Error error = enter())
    return error;
  std::lock_guard<std::mutex> guard(markMutex);
  float milliseconds = 0;
  if (Error error =
          check(driver.cuEventElapsedTime(&milliseconds, base, marks[mark]),
                "cuEventElapsedTime"))
    return error;
  return baseTime + uint64_t(int64_t(double(milliseconds) * 1e6));
}

Error CudaDevice::clearMarks() {
  if (Error error = enter())
    return error;
  std::lock_guard<std::mutex> guard(markMutex);
  marked = 0;
  if (!base)
    if (Error error = check(driver.cuEventCreate(&base, CU_EVENT_DEFAULT),
                            "cuEventCreate"))
      return error;
  // The stream is idle, so that the event comes somewhere between the two
  // looks at the clock; the closest pair of three, the last of which stays.
  uint64_t closest = ~uint64_t(0), offset = 0;
  for (int i = 0; i < 3; ++i) {
    uint64_t before = nowNanoseconds();
    if (Error error =
            check(driver.cuEventRecord(base, streams[0]), "cuEventRecord"))
      return error;
    if (Error error =
            check(driver.cuEventSynchronize(base), "cuEventSynchronize"))
      return error;
    uint64_t after = nowNanoseconds();
    if (after - before < closest) {
      closest = after - before;
      offset = closest / 2;
    }
    baseTime = before + offset;
  }
  return {};
}
