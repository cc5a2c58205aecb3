//===- CommunicationProofReference.h - every rank apart ---------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The slow twin of the proof: runs the programs of all ranks, none folded, one
// step of one stream after another in random order, and compares what meets
// when it meets. It looks at nothing ahead of time.
//
// As a lenient runtime it does more than the model promises: sends may end
// without their recv, the root of a broadcast may be done before others have
// come, and two ops of a stream may be under way at once, as long as they end
// in order.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_UNIT_SCHEDULING_COMMUNICATIONPROOFREFERENCE_H
#define MPCOMM_TEST_UNIT_SCHEDULING_COMMUNICATIONPROOFREFERENCE_H

#include "mpcomm/Scheduling/CommunicationProof/CommunicationProof.h"
#include <map>
#include <random>
#include <set>

namespace mpcomm::test {

class Reference {
public:
  /// Undelivered: it completes, but the next step would take what is left.
  enum Outcome { Completed, Stuck, Mismatched, Undelivered, Invalid };

  Reference(const ProofProblem &problem, uint32_t seed, bool lenient = false)
      : problem(problem), random(seed), window(lenient ? 1 + seed % 2 : 1),
        lenient(lenient) {
    int64_t ranks = 1;
    for (const ProofAxis &axis : problem.mesh)
      ranks *= axis.size;
    for (int64_t r = 0; r < ranks; ++r)
      addRank(r);
  }

  Outcome run() {
    size_t streams = problem.communicators.size();
    size_t actions = ranks.size() * (1 + 2 * streams);
    size_t favourite = random() % actions;
    bool favours = random() % 2;
    while (outcome == Completed) {
      size_t first = favours && random() % 4 ? favourite : random() % actions;
      bool moved = false;
      for (size_t i = 0; i < actions && !moved && outcome == Completed; ++i) {
        size_t action = (first + i) % actions;
        Rank &rank = ranks[action / (1 + 2 * streams)];
        size_t what = action % (1 + 2 * streams);
        if (what == 0)
          moved = step(rank);
        else if (what <= streams)
          moved = begin(rank, int(what - 1));
        else
          moved = retire(rank, int(what - 1 - streams));
      }
      if (!moved)
        break;
    }
    for (const Rank &rank : ranks)
      for (const Stream &stream : rank.streams)
        if (outcome == Completed && stream.ended < stream.ops.size())
          outcome = Stuck;
    for (const auto &[key, meeting] : meetings)
      if (outcome == Completed && meeting.came < meeting.expected)
        outcome = Undelivered;
    return outcome;
  }

  /// After run(): whether the op of a rank was begun on its stream, and ended.
  bool hasBegun(int64_t rank, int op) const {
    return ranks[rank].begun.count(op);
  }
  bool hasEnded(int64_t rank, int op) const {
    return ranks[rank].ended.count(op);
  }

private:
  struct Stream {
    std::vector<int> ops; // started
    size_t begun = 0, ended = 0;
    /// Begun so far: collectives, messages to and from each rank.
    int collectives = 0;
    std::map<int64_t, int> sent, received;
  };
  struct Rank {
    int64_t number;
    std::vector<int64_t> at;
    const ProofProgram *program = nullptr;
    size_t next = 0;
    std::vector<Stream> streams;
    std::set<int> started, awaited, begun, ended;
    /// Ops that end before others have come.
    std::set<int> early;
    /// Of an op that was begun: where it meets others, and who it is there.
    std::map<int, std::vector<int64_t>> meetings;
  };
  /// Where ops meet: the first that came, and how many have.
  struct Meeting {
    std::string what;
    int64_t came = 0, expected = 0;
    bool sent = false, received = false;
  };

  void addRank(int64_t number) {
    Rank rank;
    rank.number = number;
    rank.at.resize(problem.mesh.size());
    int64_t rest = number;
    for (size_t a = problem.mesh.size(); a-- > 0;) {
      rank.at[a] = rest % problem.mesh[a].size;
      rest /= problem.mesh[a].size;
    }
    for (const ProofClass &c : problem.classes)
      for (const ProofBox &box : c.boxes) {
        bool inside = true;
        for (size_t a = 0; a < rank.at.size(); ++a)
          inside &= box.begin[a] <= rank.at[a] && rank.at[a] < box.end[a];
        if (inside)
          rank.program = &c.program;
      }
    rank.streams.resize(problem.communicators.size());
    ranks.push_back(rank);
  }

  int64_t numberOf(const std::vector<int64_t> &at) const {
    int64_t number = 0;
    for (size_t a = 0; a < at.size(); ++a)
      number = number * problem.mesh[a].size + at[a];
    return number;
  }

  /// The ranks of a group, by their numbers in it.
  std::vector<int64_t> groupOf(const Rank &rank, int communicator) const {
    std::set<int> spanned(problem.communicators[communicator].axes.begin(),
                          problem.communicators[communicator].axes.end());
    std::vector<int64_t> group;
    for (const Rank &other : ranks) {
      bool same = true;
      for (size_t a = 0; a < rank.at.size(); ++a)
        same &= spanned.count(int(a)) || other.at[a] == rank.at[a];
      if (same)
        group.push_back(other.number);
    }
    return group;
  }

  /// -1: there is no such rank.
  int64_t peerOf(const Rank &rank, const ProofOp &op) const {
    if (op.peer.kind == ProofPeer::Member) {
      std::vector<int64_t> group = groupOf(rank, op.communicator);
      bool has = op.peer.number >= 0 && op.peer.number < int64_t(group.size());
      int64_t peer = has ? group[op.peer.number] : -1;
      return peer == rank.number ? -1 : peer;
    }
    std::vector<int64_t> at = rank.at;
    int64_t size = problem.mesh[op.peer.axis].size;
    at[op.peer.axis] += op.peer.number;
    if (op.peer.wraps)
      at[op.peer.axis] = (at[op.peer.axis] % size + size) % size;
    if (at[op.peer.axis] < 0 || at[op.peer.axis] >= size || at == rank.at)
      return -1;
    return numberOf(at);
  }

  bool step(Rank &rank) {
    if (rank.next == rank.program->instructions.size())
      return false;
    const RankInstruction &instruction = rank.program->instructions[rank.next];
    int k = instruction.collective;
    const ProofOp &op = rank.program->collectives[k];
    if (instruction.kind == RankInstruction::Start) {
      if (!rank.started.insert(k).second)
        outcome = Invalid;
      rank.streams[op.communicator].ops.push_back(k);
    } else {
      if (!rank.started.count(k) || rank.awaited.count(k))
        outcome = Invalid;
      else if (!rank.ended.count(k))
        return false;
      rank.awaited.insert(k);
    }
    ++rank.next;
    return true;
  }

  bool begin(Rank &rank, int communicator) {
    Stream &stream = rank.streams[communicator];
    if (stream.begun == stream.ops.size() ||
        stream.begun >= stream.ended + window)
      return false;
    int k = stream.ops[stream.begun++];
    rank.begun.insert(k);
    const ProofOp &op = rank.program->collectives[k];
    bool sends = op.kind == ProofKind::Send;
    bool message = sends || op.kind == ProofKind::Recv;
    // What is compared, in a form of its own.
    std::string what = message ? "message" : toString(op.kind);
    what += "|" + op.tag;
    if (op.kind != ProofKind::Barrier)
      what += "|" + std::to_string(op.count) + "|" + op.type + "|" + op.wire;
    bool gives =
        op.kind == ProofKind::Broadcast || op.kind == ProofKind::Scatter;
    bool takes = op.kind == ProofKind::Reduce || op.kind == ProofKind::Gather;
    if (gives || takes)
      what += "|" + std::to_string(op.peer.number);
    if (op.kind == ProofKind::AllReduce || op.kind == ProofKind::Reduce ||
        op.kind == ProofKind::ReduceScatter)
      what += "|" + op.accumulate + "|" + op.reduction;
    std::vector<int64_t> key{communicator};
    int64_t expected = 2;
    if (message) {
      int64_t peer = peerOf(rank, op);
      if (peer < 0) {
        outcome = Invalid;
        return true;
      }
      int64_t from = sends ? rank.number : peer;
      int64_t to = sends ? peer : rank.number;
      int number = sends ? stream.sent[peer]++ : stream.received[peer]++;
      key.insert(key.end(), {1, from, to, number});
    } else {
      std::vector<int64_t> group = groupOf(rank, communicator);
      expected = int64_t(group.size());
      key.insert(key.end(), {0, group.front(), stream.collectives++});
    }
    rank.meetings[k] = key;
    // A root that gives, and the others where the root takes.
    bool isRoot = (gives || takes) &&
                  groupOf(rank, communicator)[op.peer.number] == rank.number;
    bool mayBeEarly = sends || (gives && isRoot) || (takes && !isRoot);
    if (lenient && mayBeEarly && random() % 2)
      rank.early.insert(k);
    Meeting &meeting = meetings[key];
    if (meeting.came++ == 0)
      meeting.what = what;
    else if (meeting.what != what)
      outcome = Mismatched;
    meeting.expected = expected;
    if (message)
      (sends ? meeting.sent : meeting.received) = true;
    return true;
  }

  bool retire(Rank &rank, int communicator) {
    Stream &stream = rank.streams[communicator];
    if (stream.ended == stream.begun)
      return false;
    int k = stream.ops[stream.ended];
    const ProofOp &op = rank.program->collectives[k];
    const Meeting &meeting = meetings[rank.meetings[k]];
    bool done = meeting.came == meeting.expected;
    if (op.kind == ProofKind::Send &&
        problem.communicators[communicator].buffered)
      done = true;
    if (op.kind == ProofKind::Recv)
      done = meeting.sent;
    if (!done && !rank.early.count(k))
      return false;
    ++stream.ended;
    rank.ended.insert(k);
    return true;
  }

  const ProofProblem &problem;
  std::mt19937 random;
  size_t window;
  bool lenient;
  Outcome outcome = Completed;
  std::vector<Rank> ranks;
  std::map<std::vector<int64_t>, Meeting> meetings;
};

} // namespace mpcomm::test

#endif // MPCOMM_TEST_UNIT_SCHEDULING_COMMUNICATIONPROOFREFERENCE_H
