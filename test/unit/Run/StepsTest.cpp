//===- StepsTest.cpp - what ran in each step ------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "report/Steps.h"

#include <algorithm>
#include <cctype>
#include <gtest/gtest.h>

using namespace mpcomm::run;

static TraceEvent event(TraceEvent::Kind kind, uint64_t begin, uint64_t end) {
  TraceEvent made{};
  made.kind = kind;
  made.name = nameOf(kind);
  made.location = "a/add";
  made.begin = begin;
  made.end = end;
  return made;
}

TEST(Steps, ProfileNamesAllPlaces) {
  TraceEvent fused = event(TraceEvent::Kernel, 5, 9);
  fused.location = "a, b, c and 1 more";
  std::vector<TraceEvent> events = {event(TraceEvent::Kernel, 1, 2), fused};
  StepsOrigin origin{"p", "shm", 2, {{fused.location, {{"a", "b", "c", "d"}}}}};
  std::string text = renderProfile({{0, 10}}, events, origin);
  text.erase(std::remove_if(text.begin(), text.end(), ::isspace), text.end());
  EXPECT_NE(text.find("\"locations\":[\"a/add\"]"), std::string::npos) << text;
  EXPECT_NE(text.find("\"locations\":[\"a\",\"b\",\"c\",\"d\"]"),
            std::string::npos)
      << text;
}

TEST(Steps, OnlyWholeStepsCount) {
  std::vector<StepSpan> spans = {{0, 10}, {10, 20}, {20, 30}};
  std::vector<TraceEvent> events = {event(TraceEvent::Kernel, 11, 12)};
  EXPECT_EQ(completeSteps(spans, events, 0).size(), 2u);
  // Events that ended before 12 are gone, some of the second step's maybe.
  std::vector<StepSpan> left = completeSteps(spans, events, 3);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].begin, 20u);
  EXPECT_EQ(completeSteps({{0, 10}}, events, 0).size(), 1u);
  EXPECT_TRUE(completeSteps({{0, 10}}, {}, 3).empty());
}

TEST(Steps, ProfileIsTheMedianOfSums) {
  std::vector<StepSpan> steps = {{0, 100}, {100, 200}, {200, 300}};
  std::vector<TraceEvent> events = {
      event(TraceEvent::Kernel, 0, 10),    event(TraceEvent::Kernel, 20, 30),
      event(TraceEvent::Kernel, 100, 150), event(TraceEvent::Kernel, 200, 204),
      event(TraceEvent::Gemm, 210, 214),   event(TraceEvent::Wait, 220, 290)};
  std::string text = renderProfile(steps, events, {"p", "shm", 2});
  // 20, 50 and 4 ns.
  EXPECT_NE(text.find("\"seconds\": 2e-08"), std::string::npos) << text;
  EXPECT_NE(text.find("\"op\": \"mpcomm.dot_general\""), std::string::npos);
  EXPECT_EQ(text.find("wait"), std::string::npos);
}

/// Convolutions are products to a trace, and ops of their own to the compiler;
/// pools are kernels.
TEST(Steps, ProfileNamesConvolutions) {
  std::vector<TraceEvent> events = {event(TraceEvent::Gemm, 0, 4),
                                    event(TraceEvent::Gemm, 4, 9),
                                    event(TraceEvent::Kernel, 9, 11)};
  events[0].name = "convolution_filter_grad";
  events[1].name = "product";
  events[2].name = "max_pool";
  std::string text = renderProfile({{0, 20}}, events, {"p", "shm", 2});
  auto has = [&](const std::string &op, const std::string &seconds) {
    size_t at = text.find("\"op\": \"mpcomm." + op + "\"");
    return at != std::string::npos && text.find("\"seconds\": " + seconds, at) <
                                          text.find("\"op\"", at + 1);
  };
  EXPECT_TRUE(has("convolution_filter_grad", "4e-09")) << text;
  EXPECT_TRUE(has("dot_general", "5e-09")) << text;
  EXPECT_TRUE(has("max_pool", "2e-09")) << text;
}

/// A kernel that is called for each of four micro-batches, and a message.
TEST(Steps, ProfileIsOfOneMicroBatch) {
  std::vector<TraceEvent> events;
  mprt_collective send{};
  send.kind = MPRT_SEND;
  for (uint64_t k = 0; k < 4; ++k) {
    events.push_back(event(TraceEvent::Kernel, 10 * k, 10 * k + 5));
    events.push_back(event(TraceEvent::Collective, 10 * k + 6, 10 * k + 7));
    events.back().collective = &send;
  }
  StepsOrigin origin{"p", "shm", 2, {{"a/add", {{"a/add"}, 4}}}};
  std::string text = renderProfile({{0, 100}}, events, origin);
  EXPECT_NE(text.find("\"seconds\": 5e-09"), std::string::npos) << text;
  EXPECT_NE(text.find("\"seconds\": 4e-09"), std::string::npos) << text;
}

TEST(Steps, MergesProfilesOfStages) {
  mprt_collective call{};
  call.kind = MPRT_SEND;
  TraceEvent sent = event(TraceEvent::Collective, 1000, 3000);
  sent.stream = 1;
  sent.collective = &call;
  TraceEvent other = event(TraceEvent::Kernel, 1500, 1900);
  other.location = "b/mul";
  StepsOrigin first{"p", "shm", 2}, second{"p", "shm", 2, {}, 1};
  std::string profile =
      mergeProfiles({renderProfile({{0, 10000}}, {sent}, first),
                     renderProfile({{0, 10000}}, {sent, other}, second)});
  size_t at = profile.find("mpcomm.send");
  EXPECT_NE(at, std::string::npos);
  EXPECT_EQ(profile.find("mpcomm.send", at + 1), std::string::npos) << profile;
  EXPECT_NE(profile.find("b/mul"), std::string::npos) << profile;
}
