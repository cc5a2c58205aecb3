//===- Graphs.cpp - captures and graphs of the fake driver ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Modules.h"
#include "State.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <string_view>

using namespace fake;

static thread_local CUstreamCaptureMode threadMode =
    CUstreamCaptureMode(CU_STREAM_CAPTURE_MODE_GLOBAL);

CUresult fake::refuseWhileCapturing() {
  bool refused = false;
  for (const std::shared_ptr<Capture> &capture : state().captures) {
    bool mine = capture->thread == std::this_thread::get_id();
    bool forbids = false;
    if (int(threadMode) != CU_STREAM_CAPTURE_MODE_RELAXED && mine)
      forbids = int(capture->mode) != CU_STREAM_CAPTURE_MODE_RELAXED;
    if (int(threadMode) == CU_STREAM_CAPTURE_MODE_GLOBAL && !mine)
      forbids = int(capture->mode) == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (forbids)
      capture->invalid = refused = true;
  }
  return refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  FAKE_ENTER(cuThreadExchangeStreamCaptureMode, Nothing);
  if (!mode || int(*mode) < 0 || int(*mode) > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, threadMode);
  return CUDA_SUCCESS;
}

//===----------------------------------------------------------------------===//
// Capture
//===----------------------------------------------------------------------===//

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  FAKE_ENTER(cuStreamBeginCapture_v2, Current);
  std::shared_ptr<Stream> stream = findStream(entry, handle);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  if (int(mode) < 0 || int(mode) > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  if (stream == entry.context->legacy)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->isCapturing())
    return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->graph = std::make_shared<Graph>();
  capture->graph->context = stream->context;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream.get();
  stream->end.capture = capture;
  stream->end.tail.clear();
  state().captures.push_back(capture);
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
  FAKE_ENTER(cuStreamIsCapturing, Current);
  std::shared_ptr<Stream> stream = findStream(entry, handle);
  if (!stream || !status)
    return stream ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
  int now = CU_STREAM_CAPTURE_STATUS_NONE;
  if (stream->isCapturing())
    now = stream->end.capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  *status = CUstreamCaptureStatus(now);
  return CUDA_SUCCESS;
}

/// Whether all that other streams did in the capture comes before the end of
/// the stream that it began in.
static bool isJoined(const Stream &origin) {
  const Graph &graph = *origin.end.capture->graph;
  std::vector<bool> before(graph.nodes.size());
  for (size_t node : origin.end.tail)
    before[node] = true;
  for (size_t i = graph.nodes.size(); i-- > 0;)
    if (before[i])
      for (size_t node : graph.nodes[i].after)
        before[node] = true;
  for (const auto &[handle, other] : state().streams)
    if (other->end.capture == origin.end.capture)
      for (size_t node : other->end.tail)
        if (!before[node])
          return false;
  return true;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graphHandle) {
  FAKE_ENTER(cuStreamEndCapture, Current);
  std::shared_ptr<Stream> stream = findStream(entry, handle);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!graphHandle)
    return CUDA_ERROR_INVALID_VALUE;
  *graphHandle = nullptr;
  std::shared_ptr<Capture> capture = stream->end.capture;
  if (!capture)
    return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream.get()) {
    capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (int(capture->mode) != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  CUresult result = CUDA_SUCCESS;
  if (capture->invalid)
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  else if (!isJoined(*stream))
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  capture->ended = true;
  std::erase(state().captures, capture);
  for (const auto &[other, object] : state().streams)
    if (object->end.capture == capture) {
      object->end.capture = nullptr;
      object->end.tail.clear();
    }
  if (!result)
    *graphHandle = static_cast<CUgraph>(state().graphs.add(capture->graph));
  // Events that were recorded in it outlive it.
  capture->graph = nullptr;
  return result;
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

namespace {
/// A node that is not destroyed; its handle is its address.
struct Known {
  std::shared_ptr<Graph> graph;
  size_t index = 0;
  Graph::GraphNode &node() const { return graph->nodes[index]; }
};
} // namespace

static CUgraphNode handleOf(Graph::GraphNode &node) {
  return reinterpret_cast<CUgraphNode>(&node);
}

static Known findNode(CUgraphNode handle) {
  for (const auto &[name, graph] : state().graphs)
    for (size_t i = 0; i < graph->nodes.size(); ++i)
      if (handleOf(graph->nodes[i]) == handle && !graph->nodes[i].destroyed)
        return {graph, i};
  return {};
}

/// Answers as many nodes as there is room for, or how many there are.
static CUresult answer(std::vector<CUgraphNode> found, CUgraphNode *nodes,
                       size_t *count) {
  if (!count)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; nodes && i < *count; ++i)
    nodes[i] = i < found.size() ? found[i] : nullptr;
  if (!nodes || *count > found.size())
    *count = found.size();
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *count) {
  FAKE_ENTER(cuGraphGetNodes, Current);
  std::shared_ptr<Graph> graph = state().graphs.find(handle);
  if (!graph)
    return CUDA_ERROR_INVALID_HANDLE;
  std::vector<CUgraphNode> found;
  for (Graph::GraphNode &node : graph->nodes)
    if (!node.destroyed)
      found.push_back(handleOf(node));
  return answer(std::move(found), nodes, count);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes,
                                    size_t *count) {
  FAKE_ENTER(cuGraphNodeGetDependencies, Current);
  Known known = findNode(node);
  if (!known.graph)
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> found;
  for (size_t other : known.node().after)
    found.push_back(handleOf(known.graph->nodes[other]));
  return answer(std::move(found), nodes, count);
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes,
                                      size_t *count) {
  FAKE_ENTER(cuGraphNodeGetDependentNodes, Current);
  Known known = findNode(node);
  if (!known.graph)
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> found;
  for (Graph::GraphNode &other : known.graph->nodes)
    if (!other.destroyed &&
        std::count(other.after.begin(), other.after.end(), known.index))
      found.push_back(handleOf(other));
  return answer(std::move(found), nodes, count);
}

/// By what enqueued it.
static int typeOf(const Graph::GraphNode &node) {
  std::string_view name = node.work->name;
  if (node.work->kind == Work::Host)
    return CU_GRAPH_NODE_TYPE_HOST;
  if (node.work->kind != Work::Device)
    return CU_GRAPH_NODE_TYPE_EMPTY;
  return name.starts_with("cuMemcpy")   ? CU_GRAPH_NODE_TYPE_MEMCPY
         : name.starts_with("cuMemset") ? CU_GRAPH_NODE_TYPE_MEMSET
                                        : CU_GRAPH_NODE_TYPE_KERNEL;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
  FAKE_ENTER(cuGraphNodeGetType, Current);
  Known known = findNode(node);
  if (!known.graph || !type)
    return CUDA_ERROR_INVALID_VALUE;
  *type = CUgraphNodeType(typeOf(known.node()));
  return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node,
                                    CUDA_MEMSET_NODE_PARAMS *parameters) {
  FAKE_ENTER(cuGraphMemsetNodeGetParams, Current);
  Known known = findNode(node);
  if (!known.graph || !parameters ||
      typeOf(known.node()) != CU_GRAPH_NODE_TYPE_MEMSET)
    return CUDA_ERROR_INVALID_VALUE;
  const Work::Filled &filled = known.node().work->filled;
  *parameters = {};
  parameters->dst = filled.to;
  parameters->value = filled.value;
  parameters->elementSize = unsigned(filled.size);
  parameters->width = filled.count;
  parameters->height = 1;
  return CUDA_SUCCESS;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph handle,
                                 const CUgraphNode *before, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS *parameters) {
  FAKE_ENTER(cuGraphAddKernelNode_v2, Current);
  std::shared_ptr<Graph> graph = state().graphs.find(handle);
  if (!graph)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!node || !parameters || (count && !before))
    return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Function> function = state().functions.find(parameters->func);
  if (!function || function->module->context != graph->context)
    return CUDA_ERROR_INVALID_HANDLE;
  Graph::GraphNode made{};
  for (size_t i = 0; i < count; ++i) {
    Known known = findNode(before[i]);
    if (known.graph != graph)
      return CUDA_ERROR_INVALID_VALUE;
    made.after.push_back(known.index);
    made.group = known.node().group;
  }
  const CUDA_KERNEL_NODE_PARAMS &p = *parameters;
  Work work;
  if (CUresult error =
          makeLaunch(function, {p.gridDimX, p.gridDimY, p.gridDimZ},
                     {p.blockDimX, p.blockDimY, p.blockDimZ}, p.sharedMemBytes,
                     p.kernelParams, p.extra, work))
    return error;
  made.work = std::make_shared<const Work>(std::move(work));
  graph->nodes.push_back(std::move(made));
  *node = handleOf(graph->nodes.back());
  return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies(CUgraph handle, const CUgraphNode *from,
                                const CUgraphNode *to, size_t count) {
  FAKE_ENTER(cuGraphAddDependencies, Current);
  std::shared_ptr<Graph> graph = state().graphs.find(handle);
  if (!graph)
    return CUDA_ERROR_INVALID_HANDLE;
  for (size_t i = 0; i < count; ++i) {
    Known first = findNode(from[i]), second = findNode(to[i]);
    if (first.graph != graph || second.graph != graph)
      return CUDA_ERROR_INVALID_VALUE;
    second.node().after.push_back(first.index);
  }
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroyNode(CUgraphNode node) {
  FAKE_ENTER(cuGraphDestroyNode, Current);
  Known known = findNode(node);
  if (!known.graph)
    return CUDA_ERROR_INVALID_VALUE;
  known.node().destroyed = true;
  known.node().after.clear();
  for (Graph::GraphNode &other : known.graph->nodes)
    std::erase(other.after, known.index);
  return CUDA_SUCCESS;
}

CUresult cuGraphDebugDotPrint(CUgraph handle, const char *path, unsigned) {
  FAKE_ENTER(cuGraphDebugDotPrint, Current);
  std::shared_ptr<Graph> graph = state().graphs.find(handle);
  if (!graph)
    return CUDA_ERROR_INVALID_HANDLE;
  std::FILE *file = path ? std::fopen(path, "w") : nullptr;
  if (!file)
    return CUDA_ERROR_INVALID_VALUE;
  std::fprintf(file, "digraph dot {\n");
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    if (graph->nodes[i].destroyed)
      continue;
    std::fprintf(file, "\"%zu\" [label=\"%s\"]\n", i,
                 graph->nodes[i].work->name);
    for (size_t other : graph->nodes[i].after)
      std::fprintf(file, "\"%zu\" -> \"%zu\"\n", other, i);
  }
  std::fprintf(file, "}\n");
  std::fclose(file);
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph handle,
                                     unsigned long long flags) {
  FAKE_ENTER(cuGraphInstantiateWithFlags, Current);
  std::shared_ptr<Graph> graph = state().graphs.find(handle);
  if (!graph)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!exec || flags > 15)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = refuseWhileCapturing())
    return error;
  // The driver would take it, and run all with the priority of the stream that
  // it is launched on.
  std::optional<int> first;
  for (const Graph::GraphNode &node : graph->nodes)
    if (!node.destroyed && !first)
      first = node.priority;
    else if (!node.destroyed && node.priority != *first &&
             !(flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)) {
      explain("a graph of streams of several priorities without its nodes' "
              "priorities");
      return CUDA_ERROR_NOT_SUPPORTED;
    }
  auto made = std::make_shared<GraphExec>();
  made->graph = graph;
  *exec = static_cast<CUgraphExec>(state().execs.add(std::move(made)));
  return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec handle, CUstream streamHandle) {
  FAKE_ENTER(cuGraphUpload, Current);
  return state().execs.find(handle) && findStream(entry, streamHandle)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream streamHandle) {
  FAKE_ENTER(cuGraphLaunch, Current);
  std::shared_ptr<GraphExec> exec = state().execs.find(handle);
  std::shared_ptr<Stream> stream = findStream(entry, streamHandle);
  if (!exec || !stream || exec->graph->context != stream->context)
    return CUDA_ERROR_INVALID_HANDLE;
  if (stream->isCapturing()) {
    explain("a graph inside of a graph is not emulated");
    stream->end.capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  // Nodes come after what is in the stream, and after the launch before.
  Work begin, end;
  begin.name = end.name = "cuGraphLaunch";
  std::shared_ptr<Node> first;
  if (CUresult error = enqueue(*stream, std::move(begin), &first))
    return error;
  const Graph &graph = *exec->graph;
  std::vector<std::shared_ptr<Node>> nodes;
  std::vector<std::shared_ptr<Node>> placed(graph.nodes.size());
  std::function<void(size_t)> place = [&](size_t i) {
    const Graph::GraphNode &node = graph.nodes[i];
    if (placed[i] || node.destroyed)
      return;
    std::vector<std::shared_ptr<Node>> before = {first, exec->last};
    for (size_t other : node.after) {
      place(other);
      before.push_back(placed[other]);
    }
    placed[i] =
        state().scheduler.add(*stream->context, node.group, node.work, before);
    nodes.push_back(placed[i]);
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    place(i);
  nodes.push_back(first);
  exec->last = stream->end.node = state().scheduler.add(
      *stream->context, stream->group,
      std::make_shared<const Work>(std::move(end)), nodes);
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph handle) {
  FAKE_ENTER(cuGraphDestroy, Current);
  return state().graphs.erase(handle) ? CUDA_SUCCESS
                                      : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  FAKE_ENTER(cuGraphExecDestroy, Current);
  return state().execs.erase(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
