//===- CastPlacementFlow.cpp - minimum cuts -------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See CastPlacementFlow.h. Levels count from the sink, so that a search from
// the source meets no dead ends but those that earlier paths of its phase made.
//
//===----------------------------------------------------------------------===//

#include "CastPlacement/CastPlacementFlow.h"
#include <algorithm>

using namespace mpcomm;

void CutGraph::addEdge(int from, int to, int64_t capacity) {
  if (from == to || to == source || from == sink || capacity <= 0)
    return;
  edges.push_back({from, to, capacity});
  edges.push_back({to, from, 0});
}

void CutGraph::buildLists() {
  first.assign(numNodes + 1, 0);
  for (const Edge &edge : edges)
    ++first[edge.from + 1];
  for (int node = 0; node < numNodes; ++node)
    first[node + 1] += first[node];
  incident.resize(edges.size());
  std::vector<int> end(first.begin(), first.end() - 1);
  for (size_t e = 0; e < edges.size(); ++e)
    incident[end[edges[e].from]++] = int(e);
}

/// Distances to the sink in the residual graph; false where the source has
/// none.
bool CutGraph::findLevels() {
  level.assign(numNodes, -1);
  std::vector<int> queue = {sink};
  level[sink] = 0;
  for (size_t head = 0; head < queue.size(); ++head) {
    int node = queue[head];
    for (int i = first[node]; i < first[node + 1]; ++i) {
      int e = incident[i], before = edges[e].to;
      if (edges[e ^ 1].capacity > 0 && level[before] < 0) {
        level[before] = level[node] + 1;
        queue.push_back(before);
      }
    }
  }
  return level[source] >= 0;
}

/// Paths from the source, one edge a level, until none is left.
void CutGraph::blockFlow() {
  next.assign(first.begin(), first.end() - 1);
  std::vector<int> path;
  int node = source;
  while (true) {
    if (node == sink) {
      int64_t flow = infinite;
      for (int e : path)
        flow = std::min(flow, edges[e].capacity);
      size_t kept = path.size();
      for (size_t i = path.size(); i-- > 0;) {
        Edge &edge = edges[path[i]];
        edge.capacity -= flow;
        edges[path[i] ^ 1].capacity += flow;
        if (edge.capacity == 0)
          kept = i;
      }
      // Go on from where the path is cut first.
      node = kept < path.size() ? edges[path[kept]].from : source;
      path.resize(std::min(kept, path.size()));
      if (path.empty())
        node = source;
      continue;
    }
    int found = -1;
    for (int &i = next[node]; i < first[node + 1]; ++i) {
      int e = incident[i];
      if (edges[e].capacity > 0 && level[edges[e].to] == level[node] - 1) {
        found = e;
        break;
      }
    }
    if (found >= 0) {
      path.push_back(found);
      node = edges[found].to;
    } else if (node == source) {
      return;
    } else {
      node = edges[path.back()].from;
      path.pop_back();
      ++next[node];
    }
  }
}

std::vector<bool> CutGraph::cut() {
  buildLists();
  while (findLevels())
    blockFlow();
  std::vector<bool> reached(numNodes);
  std::vector<int> stack = {source};
  reached[source] = true;
  while (!stack.empty()) {
    int node = stack.back();
    stack.pop_back();
    for (int i = first[node]; i < first[node + 1]; ++i) {
      const Edge &edge = edges[incident[i]];
      if (edge.capacity > 0 && !reached[edge.to]) {
        reached[edge.to] = true;
        stack.push_back(edge.to);
      }
    }
  }
  return reached;
}
