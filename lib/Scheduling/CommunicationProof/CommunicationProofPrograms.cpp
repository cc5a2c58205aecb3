//===- CommunicationProofPrograms.cpp - programs as numbers ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is right or wrong about one program alone: awaits after starts, and
// peers that exist on each of its ranks. Ops become numbers that are equal
// where ops match.
//
//===----------------------------------------------------------------------===//

#include "CommunicationProof/CommunicationProofImpl.h"
#include <algorithm>
#include <array>

using namespace mpcomm;
using namespace mpcomm::proof;

int Signatures::of(const ProofOp &op) {
  std::string key;
  // With its length, so that no two lists of parts give one key.
  auto add = [&](const std::string &part) {
    key += std::to_string(part.size()) + ':' + part;
  };
  // A send matches a recv.
  add(isMessage(op.kind) ? "message" : mpcomm::toString(op.kind));
  add(op.tag);
  if (op.kind != ProofKind::Barrier) {
    add(std::to_string(op.count));
    add(op.type);
    add(op.wire);
  }
  if (reduces(op.kind)) {
    add(op.accumulate);
    add(op.reduction);
  }
  if (hasRoot(op.kind))
    add(std::to_string(op.peer.number));
  return ops.of(key);
}

/// The use to which a message belongs, a new one if it is the first.
using UseKey = std::array<int64_t, 6>;
static int findUse(Numbering<UseKey> &numbers, Compiled &compiled, int stream,
                   const ProofOp &op) {
  bool sends = op.kind == ProofKind::Send;
  int use = numbers.of({stream, sends, op.peer.kind, op.peer.number,
                        op.peer.axis, op.peer.wraps});
  if (use == int(compiled.uses.size()))
    compiled.uses.push_back({stream, sends, op.peer, {}, 0});
  return use;
}

ProgramError proof::compile(const ProofProgram &program, size_t communicators,
                            Signatures &signatures, Compiled &compiled) {
  size_t size = program.collectives.size();
  compiled.streamOf.assign(communicators, -1);
  compiled.useOf.assign(size, -1);
  compiled.signatureOf.assign(size, -1);
  compiled.startOf.assign(size, -1);
  std::vector<int> positions(size, -1);
  std::vector<char> awaited(size, false);
  Numbering<UseKey> uses;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const RankInstruction &instruction = program.instructions[i];
    int k = instruction.collective;
    const ProofOp &op = program.collectives[k];
    bool awaits = instruction.kind == RankInstruction::Await;
    if (awaits && positions[k] < 0)
      return {ProofViolationKind::AwaitBeforeStart, int(i)};
    if (awaits && awaited[k])
      return {ProofViolationKind::DoubleAwait, int(i)};
    if (!awaits && positions[k] >= 0)
      return {ProofViolationKind::DoubleStart, int(i)};
    int &stream = compiled.streamOf[op.communicator];
    if (stream < 0) {
      stream = int(compiled.streams.size());
      compiled.streams.push_back({op.communicator, {}, {}, 0});
    }
    Compiled::Stream &queue = compiled.streams[stream];
    if (awaits) {
      awaited[k] = true;
    } else {
      positions[k] = int(queue.ops.size());
      queue.ops.push_back(k);
      compiled.startOf[k] = int(i);
      compiled.signatureOf[k] = signatures.of(op);
      if (isMessage(op.kind)) {
        compiled.useOf[k] = findUse(uses, compiled, stream, op);
        compiled.uses[compiled.useOf[k]].ops.push_back(k);
      } else {
        queue.collectives.push_back(k);
      }
    }
    compiled.steps.push_back({awaits, stream, positions[k]});
  }
  auto numberOf = [&](const std::vector<int> &ops) {
    std::vector<int> sequence;
    for (int k : ops)
      sequence.push_back(compiled.signatureOf[k]);
    return signatures.sequences.of(sequence);
  };
  for (Compiled::Stream &stream : compiled.streams)
    stream.sequence = numberOf(stream.collectives);
  for (Compiled::Use &use : compiled.uses)
    use.sequence = numberOf(use.ops);
  return {};
}

ProofViolation proof::layPrograms(ProofModel &model) {
  const ProofProblem &problem = model.problem;
  model.classOf.assign(model.grid.cells(), -1);
  for (size_t c = 0; c < problem.classes.size(); ++c)
    for (const ProofBox &box : problem.classes[c].boxes)
      model.grid.forEachCell(
          box, [&](int64_t cell) { model.classOf[cell] = int(c); });
  // No collective at all is a sequence too.
  model.signatures.sequences.of({});
  model.compiled.resize(problem.classes.size());
  for (size_t c = 0; c < problem.classes.size(); ++c) {
    const ProofProgram &program = problem.classes[c].program;
    ProgramError error = compile(program, problem.communicators.size(),
                                 model.signatures, model.compiled[c]);
    if (error.kind == ProofViolationKind::None)
      continue;
    int64_t cell =
        std::find(model.classOf.begin(), model.classOf.end(), int(c)) -
        model.classOf.begin();
    const RankInstruction &wrong = program.instructions[error.instruction];
    ProofViolation violation;
    violation.kind = error.kind;
    ProofSide side = sideOf(model, cell, wrong.collective);
    side.instruction = error.instruction;
    violation.message = describeRank(problem, side);
    if (error.kind == ProofViolationKind::DoubleStart)
      violation.message += " starts ";
    else
      violation.message += " awaits ";
    violation.message += describeOp(problem, side);
    violation.message += error.kind == ProofViolationKind::AwaitBeforeStart
                             ? " before its start"
                             : " a second time";
    violation.sides = {side};
    return violation;
  }
  return {};
}

namespace {
struct FlowKey {
  int64_t from, to, offset;
  int communicator;
  bool operator==(const FlowKey &) const = default;
};
struct FlowHash {
  size_t operator()(const FlowKey &key) const {
    size_t hash = 0;
    for (int64_t part :
         {key.from, key.to, key.offset, int64_t(key.communicator)})
      hash = (hash ^ size_t(part)) * 0x9e3779b97f4a7c15ull + (hash >> 29);
    return hash;
  }
};
} // namespace

ProofViolation proof::resolvePeers(ProofModel &model) {
  std::unordered_map<FlowKey, int64_t, FlowHash> numbers;
  for (int64_t cell = 0; cell < model.grid.cells(); ++cell) {
    const Compiled &program = model.programOf(cell);
    model.firstStream.push_back(
        cell == 0 ? 0
                  : model.firstStream.back() +
                        int64_t(model.programOf(cell - 1).streams.size()));
    model.firstUse.push_back(int64_t(model.flowOf.size()));
    for (size_t u = 0; u < program.uses.size(); ++u) {
      const Compiled::Use &use = program.uses[u];
      int communicator = program.streams[use.stream].communicator;
      auto peer =
          model.grid.resolve(cell, model.axesOf(communicator), use.peer);
      if (!peer) {
        ProofViolation violation;
        violation.kind = ProofViolationKind::InvalidPeer;
        violation.sides = {sideOf(model, cell, use.ops.front())};
        violation.message =
            describeRank(model.problem, violation.sides[0]) + " calls " +
            describeOp(model.problem, violation.sides[0]) + " on " +
            describeCommunicator(model.problem, communicator) +
            ", expected another rank of its group as peer";
        return violation;
      }
      FlowKey key{cell, peer->cell, peer->offset, communicator};
      if (!use.sends) {
        std::swap(key.from, key.to);
        // Against the direction of the message.
        key.offset = -key.offset;
      }
      if (use.peer.kind == ProofPeer::Neighbour && key.offset < 0)
        key.offset += model.problem.mesh[use.peer.axis].size;
      auto [it, isNew] = numbers.try_emplace(key, int64_t(model.flows.size()));
      if (isNew)
        model.flows.push_back({key.from, key.to, communicator, {}, {}});
      Flow &flow = model.flows[it->second];
      (use.sends ? flow.sends : flow.recvs).push_back(int(u));
      model.flowOf.push_back(it->second);
    }
  }
  return {};
}
