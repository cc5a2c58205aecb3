//===- TimelineTest.cpp - what ran in a step, and why it waited -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "report/Timeline.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace mpcomm::run;
using Json = nlohmann::json;

static TraceEvent event(TraceEvent::Kind kind, uint64_t begin, uint64_t end) {
  TraceEvent made{};
  made.kind = kind;
  made.name = nameOf(kind);
  made.location = "a/add";
  made.begin = begin;
  made.end = end;
  return made;
}

static mprt_collective reduction() {
  mprt_collective call{};
  call.kind = MPRT_ALL_REDUCE;
  return call;
}

/// Collective `position` of the first communicator.
static TraceEvent collective(const mprt_collective &call, uint64_t position,
                             uint64_t queued, uint64_t begin, uint64_t end) {
  TraceEvent made = event(TraceEvent::Collective, begin, end);
  made.stream = 1;
  made.collective = &call;
  made.queued = queued;
  made.position = position;
  return made;
}

static TraceEvent wait(uint64_t position, uint64_t begin, uint64_t end) {
  TraceEvent made = event(TraceEvent::Wait, begin, end);
  made.waitedStream = 1;
  made.position = position;
  return made;
}

static const StepSpan step{0, 10000};

/// What a rank of two says, and what the other one says that is not shown.
static Json merge(const std::vector<TraceEvent> &mine,
                  const std::vector<TraceEvent> &theirs) {
  StepsOrigin first{"p", "shm", 2}, second{"p", "shm", 2, {}, 1};
  return Json::parse(
      mergeTimelines({renderTimeline(step, step, mine, first),
                      renderArrivals(step, step, theirs, second)}));
}

/// In ns.
static double number(const Json &value, const char *key) {
  return value[key].get<double>() * 1e9;
}

TEST(Timeline, CountsHiddenAndExposed) {
  mprt_collective call = reduction();
  Json merged =
      merge({event(TraceEvent::Kernel, 500, 900),
             event(TraceEvent::Kernel, 1000, 2400),
             // It waits for the rest, and notices the end late.
             wait(7, 2500, 3100), collective(call, 7, 900, 1000, 3000),
             event(TraceEvent::Kernel, 3100, 4000)},
            {});
  EXPECT_NEAR(number(merged, "seconds"), 10000, 1e-3);
  EXPECT_NEAR(number(merged, "compute"), 400 + 1400 + 900, 1e-3);
  EXPECT_NEAR(number(merged, "exposed"), 600, 1e-3);
  const Json &described = merged["collectives"][0];
  EXPECT_NEAR(number(described, "ready"), 900, 1e-3);
  EXPECT_NEAR(number(described, "awaited"), 2500, 1e-3);
  EXPECT_NEAR(number(described, "hidden"), 1400, 1e-3);
  // What the step waits is what its collectives make it wait.
  EXPECT_NEAR(number(described, "exposed"), 600, 1e-3);
  EXPECT_EQ(described["name"], "all_reduce");
  EXPECT_FALSE(merged.contains("arrivals"));
  EXPECT_FALSE(described.contains("for_all"));
  // The wait is on the compute stream, where it was.
  EXPECT_EQ(merged["streams"][0]["events"][2]["name"], "wait");
  EXPECT_EQ(merged["streams"][0]["events"][2]["flow"], 0);
}

/// The reason of collective `index`.
static std::string reasonOf(const Json &merged, size_t index,
                            std::string *detail = nullptr) {
  const Json &described = merged["collectives"][index];
  if (detail)
    *detail = described.value("detail", "");
  return described.value("reason", "");
}

TEST(Timeline, FindsTheReason) {
  mprt_collective call = reduction();
  // Rank 0 comes at 1000 and waits from 2000 to 5000.
  TraceEvent mine = collective(call, 1, 1000, 1000, 5000);
  std::vector<TraceEvent> events = {event(TraceEvent::Kernel, 0, 2000),
                                    wait(1, 2000, 5000), mine};
  std::string detail;
  // The other one came at 4000: two of the three are its.
  EXPECT_EQ(reasonOf(merge(events, {collective(call, 1, 4000, 4000, 5000)}), 0,
                     &detail),
            "late-peer");
  EXPECT_EQ(detail, "rank 1 came 3.0 µs later");
  // It came at 3000: one of three is not half. Nothing is computed after it.
  std::vector<TraceEvent> theirs = {collective(call, 1, 3000, 3000, 5000)};
  EXPECT_EQ(reasonOf(merge(events, theirs), 0), "nothing-to-hide-under");
  // Where much is, the first of it may need the result.
  events.push_back(event(TraceEvent::Gemm, 5000, 9500));
  EXPECT_EQ(reasonOf(merge(events, theirs), 0, &detail), "dependency");
  EXPECT_EQ(detail, "gemm at a/add comes next");
  // Nobody knows who has not said when it came.
  EXPECT_EQ(reasonOf(merge(events, {}), 0), "");
  // All of it is hidden.
  events[1] = wait(1, 5000, 5000);
  EXPECT_EQ(reasonOf(merge(events, theirs), 0), "none");
}

TEST(Timeline, StandsBehindTheCollectiveBefore) {
  mprt_collective call = reduction(), next = reduction();
  next.id = 1;
  std::vector<TraceEvent> events = {
      event(TraceEvent::Kernel, 0, 2000), collective(call, 1, 500, 500, 5000),
      collective(next, 2, 1000, 5000, 6000), wait(2, 2000, 6000),
      event(TraceEvent::Kernel, 6000, 9900)};
  std::vector<TraceEvent> theirs = {collective(call, 1, 500, 500, 5000),
                                    collective(next, 2, 1000, 5000, 6000)};
  Json merged = merge(events, theirs);
  std::string detail;
  EXPECT_EQ(reasonOf(merged, 1, &detail), "stream-order");
  EXPECT_EQ(detail, "after collective 0 on its communicator");
  // Nothing waits for the first alone.
  EXPECT_EQ(reasonOf(merged, 0), "none");
}

/// A pipeline of two ranks with a pass of one micro-batch each way.
TEST(Timeline, ShowsPassesOfStages) {
  auto manifest = parseManifest(R"({
    "abi": 8, "schedule": "gpipe", "mesh": {"axes": [{"name": "pp", "size": 2}]},
    "communicators": [{"axes": ["pp"]}],
    "functions": [
      {"name": "train_step", "entry": "mpcomm_first", "coordinates": [{"pp": 0}],
       "arena_bytes": 0, "events": 0, "arguments": [], "results": [],
       "calls": {"kernels": 2, "products": 2},
       "passes": [{"action": "F0", "stage": 0, "first": 0, "calls": 2},
                  {"action": "B0", "stage": 0, "first": 2, "calls": 1}]},
      {"name": "train_step", "entry": "mpcomm_second", "coordinates": [{"pp": 1}],
       "arena_bytes": 0, "events": 0, "arguments": [], "results": [],
       "calls": {"kernels": 1},
       "passes": [{"action": "F0", "stage": 1, "first": 0, "calls": 1}]}]})");
  ASSERT_FALSE(manifest.failed()) << manifest.message();
  StepsOrigin first{"p", "shm", 2, {}, 0, &*manifest};
  StepsOrigin second{"p", "shm", 2, {}, 1, &*manifest};
  std::vector<TraceEvent> mine = {event(TraceEvent::Kernel, 0, 1000),
                                  event(TraceEvent::Gemm, 1000, 2000),
                                  event(TraceEvent::Gemm, 4000, 5000),
                                  event(TraceEvent::Kernel, 5000, 6000)};
  std::vector<TraceEvent> theirs = {event(TraceEvent::Kernel, 2000, 4000)};
  Json merged = Json::parse(
      mergeTimelines({renderTimeline({0, 10000}, step, mine, first),
                      renderTimeline({1000, 5000}, step, theirs, second)}));
  const Json &passes = merged["streams"][0];
  EXPECT_EQ(passes["name"], "passes");
  ASSERT_EQ(passes["events"].size(), 2u);
  EXPECT_EQ(passes["events"][0]["action"], "F0");
  EXPECT_NEAR(number(passes["events"][0], "end"), 2000, 1e-3);
  EXPECT_NEAR(number(passes["events"][1], "begin"), 4000, 1e-3);
  EXPECT_NEAR(number(passes["events"][1], "end"), 5000, 1e-3);
  const Json &pipeline = merged["pipeline"];
  EXPECT_EQ(pipeline["schedule"], "gpipe");
  EXPECT_EQ(pipeline["stages"], 2);
  EXPECT_EQ(pipeline["microbatches"], 1);
  // Of twice 5000, 2000 + 1000 + 2000 are passes.
  EXPECT_NEAR(pipeline["bubble"].get<double>(), 0.5, 1e-9);
  EXPECT_EQ(merged["programs"][1]["name"], "second");
  // The second one begins 1000 late and ends 5000 early.
  EXPECT_NEAR(number(merged, "exposed"), 6000 / 2, 1e-3);
  EXPECT_NEAR(number(merged, "compute"), (4000 + 2000) / 2, 1e-3);

  // A trace that has not what the program calls has no passes.
  mine.pop_back();
  merged = Json::parse(
      mergeTimelines({renderTimeline({0, 10000}, step, mine, first)}));
  EXPECT_EQ(merged["streams"][0]["name"], "compute");
  EXPECT_FALSE(merged.contains("pipeline"));
}

TEST(Timeline, NumbersCollectivesOverAllRanks) {
  mprt_collective call{};
  call.kind = MPRT_SEND;
  TraceEvent sent = collective(call, 1, 1000, 1000, 3000);
  TraceEvent other = event(TraceEvent::Kernel, 1500, 1900);
  StepsOrigin first{"p", "shm", 2}, second{"p", "shm", 2, {}, 1};
  StepSpan whole{1000, 5000};
  Json merged = Json::parse(mergeTimelines(
      {renderTimeline(whole, whole, {sent}, first), "",
       // What began before its step is not of it.
       renderTimeline({1200, 4000}, whole, {other, sent}, second),
       renderTimeline({900, 4000}, whole, {other, sent}, second)}));
  ASSERT_EQ(merged["collectives"].size(), 2u);
  EXPECT_EQ(merged["collectives"][1]["id"], 1);
  EXPECT_EQ(merged["collectives"][1]["rank"], 1);
  EXPECT_EQ(merged["streams"].back()["events"][0]["flow"], 1);
}
