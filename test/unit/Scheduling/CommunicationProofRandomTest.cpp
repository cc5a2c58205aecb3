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

/// Each wait of the cycle is real where the slow twin stands still, and leads
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

TEST(CommunicationProofRandom, AcceptsExactlyWhatRuns) {
  int accepted = 0, stuck = 0, mismatched = 0;
  for (uint32_t seed = 0; seed < 6000; ++seed) {
    ProofProblem problem =
        RandomPrograms(seed).make(int(seed) % RandomPrograms::families);
    Mutator mutator(seed);
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
      expectRealCycle(problem, folded.violation, seed);
      expectRealCycle(problem, apart.violation, seed);
    }
    for (uint32_t run = 0; run < 3; ++run) {
      auto outcome = Reference(problem, seed * 7 + run).run();
      ASSERT_NE(outcome, Reference::Completed)
          << "seed " << seed << ": " << folded.violation.message;
      (outcome == Reference::Stuck ? stuck : mismatched) += run == 0;
    }
  }
  std::cout << "accepted " << accepted << ", rejected: " << stuck
            << " that stick, " << mismatched << " that mismatch\n";
  // Each case is there often enough to mean something.
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(stuck, 500);
  EXPECT_GT(mismatched, 500);
}

TEST(CommunicationProofRandom, MutantsThatHangOrCorruptAreRejected) {
  struct Count {
    int mutants = 0, rejected = 0, failing = 0, lenient = 0;
  };
  Count counts[RandomPrograms::families][Mutator::mutations];
  Count all;
  for (uint32_t seed = 0; all.mutants < 4000; ++seed) {
    int family = int(seed) % RandomPrograms::families;
    int mutation = int(seed / RandomPrograms::families) % Mutator::mutations;
    ProofProblem problem = RandomPrograms(seed / 30).make(family);
    if (!Mutator(seed).mutate(problem, mutation))
      continue;
    ProofResult result = proveCommunication(problem);
    int failures = 0;
    for (uint32_t run = 0; run < 4; ++run)
      failures +=
          Reference(problem, seed * 13 + run).run() != Reference::Completed;
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
    for (Count *count : {&counts[family][mutation], &all}) {
      ++count->mutants;
      count->rejected += !result.accepted();
      count->failing += failures != 0;
      count->lenient += !result.accepted() && runsLenient;
    }
  }
  auto print = [](const char *family, const char *mutation, const Count &c) {
    std::cout << std::setw(13) << family << std::setw(9) << mutation
              << std::setw(9) << c.mutants << std::setw(10) << c.rejected
              << std::setw(9) << c.failing << std::setw(17) << c.lenient
              << "\n";
  };
  std::cout << "       family mutation  mutants  rejected  failing  run if "
               "lenient\n";
  for (int f = 0; f < RandomPrograms::families; ++f)
    for (int m = 0; m < Mutator::mutations; ++m)
      print(familyNames[f], Mutator::nameOf(m), counts[f][m]);
  print("all", "", all);
  EXPECT_EQ(all.rejected, all.failing);
  EXPECT_GT(all.failing, 1000);
}
