//===- CommunicationProofRandomTest.cpp - the proof against executions ----===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random programs and mutants of them, proved folded and unfolded, and run by
// the slow twin in many orders. What is accepted must complete in all of them,
// what is rejected in none.
//
//===----------------------------------------------------------------------===//

#include "CommunicationProofRandom.h"
#include "CommunicationProofMutation.h"
#include "CommunicationProofReference.h"
#include <gtest/gtest.h>
#include <iomanip>
#include <iostream>

using namespace mpcomm;
using namespace mpcomm::test;

static const char *const familyNames[] = {"buckets", "pipeline", "hierarchical",
                                          "mixed",   "chain",    "ring"};

/// Every execution of the slow twin that is tried must complete.
static void expectRuns(const ProofProblem &problem, uint32_t seed,
                       int strictRuns, int lenientRuns) {
  for (int i = 0; i < strictRuns + lenientRuns; ++i)
    ASSERT_EQ(
        Reference(problem, seed * 31 + uint32_t(i), i >= strictRuns).run(),
        Reference::Completed)
        << "seed " << seed << ", run " << i;
}

/// Each wait of the cycle is real where the slow twin is blocked, and leads
/// to the next.
static void expectRealCycle(const ProofProblem &problem,
                            const ProofViolation &violation, uint32_t seed) {
  Reference twin(problem, seed);
  ASSERT_EQ(twin.run(), Reference::Stuck) << "seed " << seed;
  ASSERT_FALSE(violation.cycle.empty()) << "seed " << seed;
  for (size_t i = 0; i < violation.cycle.size(); ++i) {
    const ProofWait &wait = violation.cycle[i];
    const ProofWait &next = violation.cycle[(i + 1) % violation.cycle.size()];
    EXPECT_TRUE(twin.hasBegun(wait.head.rank, wait.head.op))
        << violation.message;
    EXPECT_FALSE(twin.hasEnded(wait.head.rank, wait.head.op));
    EXPECT_EQ(wait.needed.rank, next.head.rank) << violation.message;
    ASSERT_GE(wait.needed.op, 0);
    EXPECT_FALSE(twin.hasBegun(wait.needed.rank, wait.needed.op))
        << violation.message;
  }
}

TEST(CommunicationProofRandom, RightProgramsAreAccepted) {
  for (int family = 0; family < RandomPrograms::families; ++family)
    for (uint32_t seed = 0; seed < 300; ++seed) {
      ProofProblem problem = RandomPrograms(seed).make(family);
      ProofResult result = proveCommunication(problem);
      ASSERT_TRUE(result.accepted()) << familyNames[family] << ", seed " << seed
                                     << ": " << result.violation.message;
      ASSERT_LE(result.cells, result.ranks);
      expectRuns(problem, seed, 2, 2);
    }
}

/// What is advised of a deadlock, done, runs.
static void expectAdviceHelps(ProofProblem problem,
                              const ProofViolation &violation, uint32_t seed) {
  auto opsOf = [&](const ProofSide &side) -> std::vector<ProofOp> & {
    return problem.classes[side.classIndex].program.collectives;
  };
  ASSERT_FALSE(violation.moved.empty());
  const ProofOp send = opsOf(violation.moved[0])[violation.moved[0].op];
  ASSERT_EQ(send.kind, ProofKind::Send);
  ProofCommunicator fresh = problem.communicators[send.communicator];
  fresh.channel = 1000;
  int to = int(problem.communicators.size());
  problem.communicators.push_back(fresh);
  for (const ProofSide &side : violation.moved) {
    const ProofOp like = opsOf(side)[side.op];
    ASSERT_EQ(like.communicator, send.communicator);
    for (ProofOp &op : opsOf(side))
      if (op.kind == like.kind && op.communicator == like.communicator &&
          op.peer == like.peer)
        op.communicator = to;
  }
  expectRuns(problem, seed, 2, 0);
}

TEST(CommunicationProofRandom, AcceptsExactlyWhatRuns) {
  int accepted = 0, stuck = 0, mismatched = 0, deadlocks = 0, advised = 0;
  for (uint32_t seed = 0; seed < 6000; ++seed) {
    ProofProblem problem =
        RandomPrograms(seed).make(int(seed) % RandomPrograms::families);
    Mutator mutator(seed);
    if (seed % 5 == 0)
      mutator.merge(problem);
    for (uint32_t i = seed / 6 % 4; i-- > 0;)
      mutator.mutate(problem, int((seed / 24 + i) % Mutator::mutations));
    ProofResult folded = proveCommunication(problem);
    ProofResult apart = proveCommunication(problem, {false});
    ASSERT_NE(folded.violation.kind, ProofViolationKind::Malformed)
        << folded.violation.message;
    ASSERT_EQ(folded.accepted(), apart.accepted()) << "seed " << seed;
    bool deadlock = folded.violation.kind == ProofViolationKind::Deadlock;
    EXPECT_EQ(deadlock, apart.violation.kind == ProofViolationKind::Deadlock)
        << "seed " << seed;
    if (folded.accepted()) {
      ++accepted;
      expectRuns(problem, seed, 3, 3);
      continue;
    }
    if (deadlock) {
      ++deadlocks;
      expectRealCycle(problem, folded.violation, seed);
      expectRealCycle(problem, apart.violation, seed);
      if (!folded.violation.advice.empty()) {
        ++advised;
        expectAdviceHelps(problem, folded.violation, seed);
      }
    }
    for (uint32_t run = 0; run < 3; ++run) {
      auto outcome = Reference(problem, seed * 7 + run).run();
      ASSERT_NE(outcome, Reference::Completed)
          << "seed " << seed << ": " << folded.violation.message;
      (outcome == Reference::Stuck ? stuck : mismatched) += run == 0;
    }
  }
  std::cout << "accepted " << accepted << ", rejected: " << stuck
            << " that stick, " << mismatched << " that mismatch; of "
            << deadlocks << " deadlocks " << advised
            << " are resolved by a channel\n";
  // Each case is there often enough to mean something.
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(stuck, 500);
  EXPECT_GT(mismatched, 500);
  EXPECT_GT(deadlocks, 100);
  EXPECT_GT(advised, 5);
}

namespace {
struct MutantCounts {
  int mutants = 0, rejected = 0;
  /// What the slow twin does with them: they hang; what meets does not match;
  /// or a message is left over.
  int hang = 0, mismatch = 0, other = 0;
  /// Rejected, and complete in all tries as a lenient runtime.
  int lenient = 0;
};
} // namespace

static void print(const std::string &name, const MutantCounts &counts) {
  std::cout << std::setw(13) << name;
  for (int number : {counts.mutants, counts.rejected, counts.hang,
                     counts.mismatch, counts.other, counts.lenient})
    std::cout << std::setw(9) << number;
  std::cout << "\n";
}

TEST(CommunicationProofRandom, MutantsThatHangOrCorruptAreRejected) {
  MutantCounts byFamily[RandomPrograms::families],
      byMutation[Mutator::mutations], all;
  for (uint32_t seed = 0; all.mutants < 4000; ++seed) {
    int family = int(seed) % RandomPrograms::families;
    int mutation = int(seed / RandomPrograms::families) % Mutator::mutations;
    ProofProblem problem = RandomPrograms(seed / 30).make(family);
    if (!Mutator(seed).mutate(problem, mutation))
      continue;
    ProofResult result = proveCommunication(problem);
    int failures = 0;
    Reference::Outcome outcome = Reference::Completed;
    for (uint32_t run = 0; run < 4; ++run) {
      outcome = Reference(problem, seed * 13 + run).run();
      failures += outcome != Reference::Completed;
    }
    // One order of execution tells of all.
    ASSERT_TRUE(failures == 0 || failures == 4) << "seed " << seed;
    ASSERT_EQ(result.accepted(), failures == 0)
        << familyNames[family] << ", " << Mutator::nameOf(mutation) << ", seed "
        << seed << ": " << result.violation.message;
    bool runsLenient = true;
    for (uint32_t run = 0; run < 4; ++run)
      runsLenient &= Reference(problem, seed * 17 + run, true).run() ==
                     Reference::Completed;
    ASSERT_TRUE(!result.accepted() || runsLenient) << "seed " << seed;
    for (MutantCounts *counts :
         {&byFamily[family], &byMutation[mutation], &all}) {
      ++counts->mutants;
      counts->rejected += !result.accepted();
      counts->hang += outcome == Reference::Stuck;
      counts->mismatch += outcome == Reference::Mismatched;
      counts->other += failures != 0 && outcome != Reference::Stuck &&
                       outcome != Reference::Mismatched;
      counts->lenient += !result.accepted() && runsLenient;
    }
  }
  std::cout << "               mutants rejected     hang mismatch    other  "
               "lenient\n";
  for (int f = 0; f < RandomPrograms::families; ++f)
    print(familyNames[f], byFamily[f]);
  for (int m = 0; m < Mutator::mutations; ++m)
    print(Mutator::nameOf(m), byMutation[m]);
  print("all", all);
  EXPECT_EQ(all.rejected, all.hang + all.mismatch + all.other);
  EXPECT_GT(all.hang, 500);
  EXPECT_GT(all.mismatch, 500);
}
