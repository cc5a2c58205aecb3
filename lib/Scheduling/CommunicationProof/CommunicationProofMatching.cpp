//===- CommunicationProofMatching.cpp - ops that meet agree ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The k-th collectives that the members of a group start meet, and the k-th
// send from a rank to another meets the k-th recv there, both on their
// communicator. So sequences are compared, by number; only where two differ is
// anything looked at op by op.
//
//===----------------------------------------------------------------------===//

#include "CommunicationProof/CommunicationProofImpl.h"
#include <algorithm>

using namespace mpcomm;
using namespace mpcomm::proof;

namespace {

/// Ops of a cell's program that are to meet those of another.
struct Sequence {
  int64_t cell;
  std::vector<int> ops;
};

/// Two sequences that differ, and how.
class Difference {
public:
  Difference(const ProofModel &model, const Sequence &a, const Sequence &b);

  ProofViolationKind kind = ProofViolationKind::None;
  /// Where they part, and whether it is `b` that lacks the op there.
  size_t at = 0;
  bool secondLacks = false;

private:
  int signature(const Sequence &s, size_t i) const {
    return model.programOf(s.cell).signatureOf[s.ops[i]];
  }
  /// `s` has some ops at `at` that `t` has not, and is the same after them.
  bool goesOn(const Sequence &s, const Sequence &t) const;
  ProofViolationKind compare(const ProofOp &a, const ProofOp &b) const;

  const ProofModel &model;
};

} // namespace

bool Difference::goesOn(const Sequence &s, const Sequence &t) const {
  size_t more = s.ops.size() - t.ops.size();
  for (size_t i = at; i < t.ops.size(); ++i)
    if (signature(s, i + more) != signature(t, i))
      return false;
  return true;
}

ProofViolationKind Difference::compare(const ProofOp &a,
                                       const ProofOp &b) const {
  if (a.kind != b.kind && !(isMessage(a.kind) && isMessage(b.kind)))
    return ProofViolationKind::MismatchedKind;
  if (a.count != b.count)
    return ProofViolationKind::MismatchedCount;
  if (a.type != b.type)
    return ProofViolationKind::MismatchedType;
  if (a.wire != b.wire)
    return ProofViolationKind::MismatchedWire;
  if (reduces(a.kind) && a.accumulate != b.accumulate)
    return ProofViolationKind::MismatchedAccumulate;
  if (reduces(a.kind) && a.reduction != b.reduction)
    return ProofViolationKind::MismatchedReduction;
  if (hasRoot(a.kind) && a.peer.number != b.peer.number)
    return ProofViolationKind::MismatchedRoot;
  return ProofViolationKind::MismatchedTag;
}

Difference::Difference(const ProofModel &model, const Sequence &a,
                       const Sequence &b)
    : model(model) {
  size_t shorter = std::min(a.ops.size(), b.ops.size());
  while (at < shorter && signature(a, at) == signature(b, at))
    ++at;
  if (at == a.ops.size() && at == b.ops.size())
    return;
  if (a.ops.size() != b.ops.size()) {
    secondLacks = a.ops.size() > b.ops.size();
    if (secondLacks ? goesOn(a, b) : goesOn(b, a)) {
      kind = ProofViolationKind::MissingParticipant;
      return;
    }
  } else {
    std::vector<int> ofA, ofB;
    for (size_t i = at; i < a.ops.size(); ++i) {
      ofA.push_back(signature(a, i));
      ofB.push_back(signature(b, i));
    }
    std::sort(ofA.begin(), ofA.end());
    std::sort(ofB.begin(), ofB.end());
    if (ofA == ofB) {
      kind = ProofViolationKind::MismatchedOrder;
      return;
    }
  }
  const auto &classes = model.problem.classes;
  kind = compare(classes[model.classOf[a.cell]].program.collectives[a.ops[at]],
                 classes[model.classOf[b.cell]].program.collectives[b.ops[at]]);
}

/// What the difference of two sequences on a communicator means.
static ProofViolation describeDifference(const ProofModel &model,
                                         const Sequence &a, const Sequence &b,
                                         int communicator, bool messages) {
  const ProofProblem &problem = model.problem;
  Difference difference(model, a, b);
  auto side = [&](const Sequence &s) {
    return sideOf(model, s.cell,
                  difference.at < s.ops.size() ? s.ops[difference.at] : -1);
  };
  ProofViolation violation;
  violation.kind = difference.kind;
  violation.sides = {side(a), side(b)};
  std::string on = " on " + describeCommunicator(problem, communicator);
  std::string number = std::to_string(difference.at + 1);
  if (difference.kind == ProofViolationKind::MissingParticipant) {
    if (!difference.secondLacks)
      std::swap(violation.sides[0], violation.sides[1]);
    const ProofSide &has = violation.sides[0], &lacks = violation.sides[1];
    violation.message = describeRank(problem, has) + " calls " +
                        describeOp(problem, has) + on + ", ";
    std::string other = describeRank(problem, lacks);
    if (messages) {
      bool sends =
          problem.classes[has.classIndex].program.collectives[has.op].kind ==
          ProofKind::Send;
      violation.kind = sends ? ProofViolationKind::SendWithoutRecv
                             : ProofViolationKind::RecvWithoutSend;
      violation.message +=
          other + (sends ? " has no recv" : " has no send") + " for it";
    } else {
      violation.message += other + " does not take part";
    }
    violation.message += lacks.op < 0
                             ? " and has no more after it"
                             : ", its next is " + describeOp(problem, lacks);
    return violation;
  }
  std::string name = toString(difference.kind);
  std::replace(name.begin(), name.end(), '-', ' ');
  violation.message = name + ": " + (messages ? "message " : "collective ") +
                      number + (messages ? " between two ranks" : "") + on;
  for (const ProofSide &s : violation.sides)
    violation.message += (&s == &violation.sides[0] ? ": " : ", ") +
                         describeRank(problem, s) + " calls " +
                         describeOp(problem, s);
  return violation;
}

ProofViolation proof::matchCollectives(ProofModel &model) {
  const Grid &grid = model.grid;
  for (size_t k = 0; k < model.problem.communicators.size(); ++k) {
    const std::vector<int> &axes = model.axesOf(int(k));
    auto sequenceOf = [&](int64_t cell) {
      const Compiled &program = model.programOf(cell);
      int stream = program.streamOf[k];
      return stream < 0 ? 0 : program.streams[stream].sequence;
    };
    for (int64_t cell = 0; cell < grid.cells(); ++cell) {
      int64_t group = grid.groupOf(cell, axes);
      if (sequenceOf(cell) == sequenceOf(group))
        continue;
      // The one that is at odds with the most is to blame.
      std::vector<int64_t> members = grid.members(group, axes);
      std::map<int, int> votes;
      for (int64_t member : members)
        ++votes[sequenceOf(member)];
      auto more = [](const auto &x, const auto &y) {
        return x.second < y.second;
      };
      int usual = std::max_element(votes.begin(), votes.end(), more)->first;
      auto find = [&](bool wanted) {
        Sequence found{*std::find_if(members.begin(), members.end(),
                                     [&](int64_t member) {
                                       return (sequenceOf(member) == usual) ==
                                              wanted;
                                     }),
                       {}};
        const Compiled &program = model.programOf(found.cell);
        if (program.streamOf[k] >= 0)
          found.ops = program.streams[program.streamOf[k]].collectives;
        return found;
      };
      return describeDifference(model, find(true), find(false), int(k), false);
    }
  }
  return {};
}

/// The messages of one direction of a flow, in the order of their Starts.
static Sequence messagesOf(const ProofModel &model, int64_t cell,
                           const std::vector<int> &uses) {
  const Compiled &program = model.programOf(cell);
  Sequence sequence{cell, {}};
  for (int use : uses)
    sequence.ops.insert(sequence.ops.end(), program.uses[use].ops.begin(),
                        program.uses[use].ops.end());
  // One rank may be called by two names.
  if (uses.size() > 1)
    std::sort(sequence.ops.begin(), sequence.ops.end(), [&](int a, int b) {
      return program.startOf[a] < program.startOf[b];
    });
  return sequence;
}

ProofViolation proof::matchMessages(ProofModel &model) {
  for (const Flow &flow : model.flows) {
    if (flow.sends.size() == 1 && flow.recvs.size() == 1 &&
        model.programOf(flow.from).uses[flow.sends[0]].sequence ==
            model.programOf(flow.to).uses[flow.recvs[0]].sequence)
      continue;
    Sequence sends = messagesOf(model, flow.from, flow.sends);
    Sequence recvs = messagesOf(model, flow.to, flow.recvs);
    if (Difference(model, sends, recvs).kind == ProofViolationKind::None)
      continue;
    return describeDifference(model, sends, recvs, flow.communicator, true);
  }
  return {};
}
