//===- CommunicationProofRandom.h - programs that are right -----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random programs of the kinds that the compiler makes, all of them right.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_UNIT_SCHEDULING_COMMUNICATIONPROOFRANDOM_H
#define MPCOMM_TEST_UNIT_SCHEDULING_COMMUNICATIONPROOFRANDOM_H

#include "mpcomm/Scheduling/CommunicationProof/CommunicationProof.h"
#include <algorithm>
#include <random>

namespace mpcomm::test {

inline ProofOp op(ProofKind kind, int communicator, int64_t count,
                  std::string tag = "", ProofPeer peer = {}) {
  ProofOp made;
  made.kind = kind;
  made.communicator = communicator;
  made.count = count;
  made.type = made.wire = "f32";
  if (kind == ProofKind::AllReduce || kind == ProofKind::ReduceScatter ||
      kind == ProofKind::Reduce) {
    made.accumulate = "f32";
    made.reduction = "mean";
  }
  made.tag = std::move(tag);
  made.peer = peer;
  return made;
}

/// Writes a program; ops get their place as location.
class Writer {
public:
  explicit Writer(ProofProgram &program, std::string file = "step.mlir")
      : program(program), file(std::move(file)) {}

  int start(ProofOp made) {
    int k = int(program.collectives.size());
    made.location = here();
    program.collectives.push_back(std::move(made));
    program.instructions.push_back(RankInstruction::start(k));
    return k;
  }
  void await(int k) {
    program.instructions.push_back(RankInstruction::await(k));
  }
  void run(ProofOp made) { await(start(std::move(made))); }

private:
  std::string here() const {
    return file + ":" + std::to_string(program.instructions.size() + 1);
  }
  ProofProgram &program;
  std::string file;
};

class RandomPrograms {
public:
  explicit RandomPrograms(uint32_t seed) : random(seed) {}

  enum Family { Buckets, Pipeline, Hierarchical, Mixed, Chain, Ring };
  static constexpr int families = 6;

  ProofProblem make(int family) {
    switch (family) {
    case Buckets:
      return buckets();
    case Pipeline:
      return pipeline(1 + below(4), 1 + below(3), 1 + below(6));
    case Hierarchical:
      return hierarchical();
    case Mixed:
      return mixed();
    case Chain:
      return chain();
    default:
      return ring();
    }
  }

  /// Data-parallel SPMD: buckets in one or two channels, awaited later.
  ProofProblem buckets() {
    ProofProblem problem = meshOf({2 + below(3), 1 + below(2)});
    problem.communicators = {{{0}, 0}, {{0}, 1}, {{0, 1}, 0}};
    ProofClass &c = whole(problem);
    Writer writer(c.program);
    std::vector<int> pending;
    for (int k = 0, n = 1 + below(8); k < n; ++k) {
      ProofKind kinds[] = {ProofKind::AllReduce, ProofKind::AllReduce,
                           ProofKind::AllGather, ProofKind::AllToAll,
                           ProofKind::Permute,   ProofKind::Barrier,
                           ProofKind::Broadcast, ProofKind::Reduce,
                           ProofKind::Gather,    ProofKind::Scatter};
      int drawn = below(10);
      ProofKind kind = kinds[drawn];
      ProofPeer root;
      if (drawn >= 6)
        root = ProofPeer::member(below(int(problem.mesh[0].size)));
      pending.push_back(writer.start(op(kind, below(3), 10 + below(3),
                                        "bucket " + std::to_string(k), root)));
      while (!pending.empty() && below(3) == 0)
        awaitAny(writer, pending);
    }
    while (!pending.empty() && below(4))
      awaitAny(writer, pending);
    return problem;
  }

  /// 1F1B or GPipe with double buffering, an edge a channel, the gradients of a
  /// stage reduced after its last backward.
  ProofProblem pipeline(int stages, int replicas, int microBatches) {
    ProofProblem problem = meshOf({stages, replicas});
    problem.mesh[0].name = "pp";
    problem.mesh[1].name = "dp";
    // Forward of even and of odd edges, backward likewise; gradients; loss.
    for (int channel = 0; channel < 4; ++channel)
      problem.communicators.push_back({{0}, channel});
    problem.communicators.push_back({{1}, 0});
    problem.communicators.push_back({{0, 1}, 0});
    bool byNeighbour = below(2), gpipe = below(3) == 0;
    int lag = 1 + below(2), reductions = below(4);
    for (int s = 0; s < stages; ++s) {
      ProofClass c;
      c.name = "stage " + std::to_string(s);
      c.boxes = {{{s, 0}, {s + 1, replicas}}};
      writeStage(c.program, s, stages, microBatches, gpipe, byNeighbour, lag);
      Writer writer(c.program, c.name);
      for (int k = 0; k < reductions; ++k)
        writer.start(op(ProofKind::AllReduce, 4, 100 + s,
                        "gradients " + std::to_string(k)));
      writer.run(op(ProofKind::AllReduce, 5, 1, "loss"));
      problem.classes.push_back(std::move(c));
    }
    return problem;
  }

  /// Reduced within a node, across nodes, and gathered: buckets overlap.
  ProofProblem hierarchical() {
    ProofProblem problem = meshOf({1 + below(3), 1 + below(3)});
    problem.communicators = {{{1}, 0}, {{0}, 0}, {{1}, 1}};
    Writer writer(whole(problem).program);
    int count = 1 + below(5);
    std::vector<int> scattered, reduced, gathered;
    bool own = below(2); // gathers have a channel of their own
    for (int turn = 0; turn < count + 2; ++turn) {
      std::string tag = "bucket " + std::to_string(turn);
      if (turn < count)
        scattered.push_back(
            writer.start(op(ProofKind::ReduceScatter, 0, 8, tag)));
      if (turn >= 1 && turn <= count) {
        writer.await(scattered[turn - 1]);
        reduced.push_back(writer.start(op(ProofKind::AllReduce, 1, 8, tag)));
      }
      if (turn >= 2) {
        writer.await(reduced[turn - 2]);
        gathered.push_back(
            writer.start(op(ProofKind::AllGather, own ? 2 : 0, 8, tag)));
      }
    }
    while (!gathered.empty() && below(4))
      awaitAny(writer, gathered);
    return problem;
  }

  /// A grid of classes; what happens in one order of all, and each class does
  /// its part of it in that order.
  ProofProblem mixed() {
    std::vector<int> sizes{1 + below(3), 1 + below(3)};
    if (below(2))
      sizes.push_back(1 + below(2));
    ProofProblem problem = meshOf(sizes);
    int axes = int(sizes.size());
    for (int mask = 1; mask < 1 << axes; ++mask)
      for (int channel = 0; channel < 2; ++channel) {
        ProofCommunicator communicator;
        for (int a = 0; a < axes; ++a)
          if (mask >> a & 1)
            communicator.axes.push_back(a);
        communicator.channel = channel;
        problem.communicators.push_back(communicator);
      }
    std::vector<bool> cut(axes);
    for (int a = 0; a < axes; ++a)
      cut[a] = below(2);
    splitGrid(problem, cut);
    std::vector<Writer> writers;
    for (ProofClass &c : problem.classes)
      writers.emplace_back(c.program, c.name);
    std::vector<std::vector<int>> pending(problem.classes.size());
    for (int event = 0, n = below(12); event < n; ++event) {
      addEvent(problem, cut, writers, pending, event);
      for (size_t c = 0; c < writers.size(); ++c)
        while (!pending[c].empty() && below(3) == 0)
          awaitAny(writers[c], pending[c]);
    }
    return problem;
  }

  /// Even ranks of a line send to the next while odd ones receive, and so on.
  ProofProblem chain() {
    int size = 2 + below(5), rounds = 1 + below(3), width = 1 + below(2);
    ProofProblem problem = meshOf({size, width});
    problem.communicators = {{{0}, 0}, {{0, 1}, 0}};
    ProofClass edges[4];
    for (int at = 0; at < 4; ++at) {
      bool first = at == 0, last = at == 3;
      edges[at].name = first     ? "first"
                       : last    ? "last"
                       : at == 1 ? "odd"
                                 : "even";
    }
    for (int x = 0; x < size; ++x) {
      int at = x == 0 ? 0 : x == size - 1 ? 3 : x % 2 ? 1 : 2;
      edges[at].boxes.push_back({{x, 0}, {x + 1, width}});
    }
    for (int at = 0; at < 4; ++at) {
      if (edges[at].boxes.empty())
        continue;
      bool even = at == 0 || at == 2 || (at == 3 && size % 2 == 1);
      Writer writer(edges[at].program, edges[at].name);
      for (int r = 0; r < rounds; ++r) {
        std::string tag = "halo " + std::to_string(r);
        auto exchange = [&](int offset) {
          if ((at == 0 && offset < 0) || (at == 3 && offset > 0))
            return;
          ProofPeer peer = ProofPeer::neighbour(0, offset);
          ProofOp first =
              op(even ? ProofKind::Send : ProofKind::Recv, 0, 5, tag, peer);
          ProofOp second =
              op(even ? ProofKind::Recv : ProofKind::Send, 0, 7, tag, peer);
          writer.run(first);
          writer.run(second);
        };
        exchange(even ? 1 : -1);
        exchange(even ? -1 : 1);
        if (r == 0)
          writer.run(op(ProofKind::AllReduce, 1, 1, "norm"));
      }
      problem.classes.push_back(edges[at]);
    }
    return problem;
  }

  /// All send round a ring, in a channel that buffers.
  ProofProblem ring() {
    int size = 2 + below(5);
    ProofProblem problem = meshOf({size, 1 + below(2)});
    problem.communicators = {{{0}, 0, true}, {{0, 1}, 0}};
    Writer writer(whole(problem).program);
    for (int r = 0, rounds = 1 + below(3); r < rounds; ++r) {
      std::string tag = "block " + std::to_string(r);
      int offset = below(4) ? 1 : size - 1;
      int sent = writer.start(op(ProofKind::Send, 0, 9, tag,
                                 ProofPeer::neighbour(0, offset, true)));
      writer.run(op(ProofKind::Recv, 0, 9, tag,
                    ProofPeer::neighbour(0, -offset, true)));
      writer.await(sent);
      if (below(2))
        writer.run(op(ProofKind::AllReduce, 1, 3, tag));
    }
    return problem;
  }

private:
  int below(int n) { return int(random() % uint32_t(n)); }

  static ProofProblem meshOf(std::vector<int> sizes) {
    const char *names[] = {"x", "y", "z"};
    ProofProblem problem;
    for (size_t a = 0; a < sizes.size(); ++a)
      problem.mesh.push_back({names[a], sizes[a]});
    return problem;
  }

  static ProofClass &whole(ProofProblem &problem) {
    ProofClass c;
    c.name = "step";
    c.boxes.emplace_back();
    for (const ProofAxis &axis : problem.mesh) {
      c.boxes[0].begin.push_back(0);
      c.boxes[0].end.push_back(axis.size);
    }
    problem.classes = {c};
    return problem.classes[0];
  }

  void awaitAny(Writer &writer, std::vector<int> &pending) {
    int i = below(int(pending.size()));
    writer.await(pending[i]);
    pending.erase(pending.begin() + i);
  }

  void writeStage(ProofProgram &program, int s, int stages, int microBatches,
                  bool gpipe, bool byNeighbour, int lag) {
    auto peer = [&](int offset) {
      return byNeighbour ? ProofPeer::neighbour(0, offset)
                         : ProofPeer::member(s + offset);
    };
    std::vector<std::pair<bool, int>> actions; // backward, micro-batch
    int warmUp = gpipe ? microBatches : std::min(microBatches, stages - s);
    for (int i = 0; i < warmUp; ++i)
      actions.push_back({false, i});
    for (int i = 0; i < microBatches; ++i) {
      actions.push_back({true, i});
      if (warmUp + i < microBatches)
        actions.push_back({false, warmUp + i});
    }
    Writer writer(program, "stage " + std::to_string(s));
    std::vector<int> received(actions.size(), -1);
    auto post = [&](size_t a) {
      if (a >= actions.size())
        return;
      auto [backward, i] = actions[a];
      std::string tag = (backward ? "B" : "F") + std::to_string(i);
      if (!backward && s > 0)
        received[a] =
            writer.start(op(ProofKind::Recv, (s - 1) % 2, 50, tag, peer(-1)));
      if (backward && s + 1 < stages)
        received[a] =
            writer.start(op(ProofKind::Recv, 2 + s % 2, 50, tag, peer(1)));
    };
    std::vector<int> sent[2];
    post(0);
    for (size_t a = 0; a < actions.size(); ++a) {
      post(a + 1);
      if (received[a] >= 0)
        writer.await(received[a]);
      auto [backward, i] = actions[a];
      std::string tag = (backward ? "B" : "F") + std::to_string(i);
      if (backward ? s == 0 : s + 1 == stages)
        continue;
      // The buffer of the send before the last is used again.
      std::vector<int> &queue = sent[backward];
      if (int(queue.size()) >= lag)
        writer.await(queue[queue.size() - lag]);
      queue.push_back(
          writer.start(op(ProofKind::Send, backward ? 2 + (s - 1) % 2 : s % 2,
                          50, tag, peer(backward ? -1 : 1))));
    }
  }

  /// One class for each box of the grid that cuts these axes everywhere.
  static void splitGrid(ProofProblem &problem, const std::vector<bool> &cut) {
    std::vector<ProofBox> boxes(1);
    for (size_t a = 0; a < cut.size(); ++a) {
      std::vector<ProofBox> grown;
      for (const ProofBox &box : boxes)
        for (int64_t x = 0; x < (cut[a] ? problem.mesh[a].size : 1); ++x) {
          grown.push_back(box);
          grown.back().begin.push_back(x);
          grown.back().end.push_back(cut[a] ? x + 1 : problem.mesh[a].size);
        }
      boxes = grown;
    }
    for (const ProofBox &box : boxes) {
      ProofClass c;
      c.name = "class " + std::to_string(problem.classes.size());
      c.boxes = {box};
      problem.classes.push_back(c);
    }
  }

  /// A collective of some group of classes, or a message between two.
  void addEvent(const ProofProblem &problem, const std::vector<bool> &cut,
                std::vector<Writer> &writers,
                std::vector<std::vector<int>> &pending, int event) {
    int k = below(int(problem.communicators.size()));
    const std::vector<int> &axes = problem.communicators[k].axes;
    auto spans = [&](int a) {
      return std::find(axes.begin(), axes.end(), a) != axes.end();
    };
    size_t one = random() % problem.classes.size();
    const ProofBox &box = problem.classes[one].boxes[0];
    std::string tag = "event " + std::to_string(event);
    // A message along one axis, if that is cut: its ranks have one coordinate.
    int axis = axes[below(int(axes.size()))];
    int64_t size = problem.mesh[axis].size;
    bool single = axes.size() == 1;
    if (cut[axis] && size > 1 && below(2)) {
      int64_t to = (box.begin[axis] + 1 + below(int(size) - 1)) % size;
      int64_t offset = to - box.begin[axis];
      bool wraps = below(2);
      for (size_t c = 0; c < problem.classes.size(); ++c) {
        ProofBox target = box;
        target.begin[axis] = to;
        bool receives = problem.classes[c].boxes[0].begin == target.begin;
        if (!receives && c != one)
          continue;
        ProofPeer peer =
            ProofPeer::neighbour(axis, receives ? -offset : offset, wraps);
        if (single && below(2))
          peer = ProofPeer::member(receives ? box.begin[axis] : to);
        pending[c].push_back(
            writers[c].start(op(receives ? ProofKind::Recv : ProofKind::Send, k,
                                4 + below(1), tag, peer)));
      }
      return;
    }
    ProofKind kinds[] = {ProofKind::AllReduce, ProofKind::ReduceScatter,
                         ProofKind::AllGather, ProofKind::AllToAll,
                         ProofKind::Barrier};
    ProofKind kind = kinds[below(5)];
    int64_t count = 4 + below(2);
    for (size_t c = 0; c < problem.classes.size(); ++c) {
      bool member = true;
      for (size_t a = 0; a < cut.size(); ++a)
        member &= spans(int(a)) ||
                  problem.classes[c].boxes[0].begin[a] == box.begin[a];
      if (member)
        pending[c].push_back(writers[c].start(op(kind, k, count, tag)));
    }
  }

  std::mt19937 random;
};

} // namespace mpcomm::test

#endif // MPCOMM_TEST_UNIT_SCHEDULING_COMMUNICATIONPROOFRANDOM_H
