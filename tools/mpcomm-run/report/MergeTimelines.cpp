//===- MergeTimelines.cpp - a step of several ranks -----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The reasons are found as the simulator finds them (SimulatorSummary.cpp,
// `explain`), from times that were measured: what half of the exposed time is
// due to. What only the compiler knows, a run cannot tell: limits of memory or
// of the user, and whether a collective saturates its link.
//
//===----------------------------------------------------------------------===//

#include "report/Timeline.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <map>

using namespace mpcomm::run;

using Json = nlohmann::ordered_json;

namespace {

/// When the last member came to a collective, of those that say so.
struct LastArrival {
  double time = 0;
  uint64_t rank = 0, members = 0;
};

using Arrivals = std::map<std::string, LastArrival>;

double timeOf(const Json &value, const char *key) {
  return value[key].get<double>();
}

void addArrivals(const Json &timeline, Arrivals &arrivals) {
  for (const auto &[name, value] : timeline["arrivals"].items()) {
    LastArrival &last = arrivals[name];
    if (auto time = value.get<double>(); !last.members++ || time > last.time) {
      last.time = time;
      last.rank = timeline["rank"].get<uint64_t>();
    }
  }
}

std::string inMicroseconds(double seconds) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.1f µs", seconds * 1e6);
  return text;
}

/// What is on the compute stream of a rank, waits left out.
std::vector<const Json *> computeOf(const Json &timeline) {
  std::vector<const Json *> events;
  for (const Json &stream : timeline["streams"])
    if (stream["name"] == "compute")
      for (const Json &event : stream["events"])
        if (!event.contains("flow"))
          events.push_back(&event);
  return events;
}

/// Gives `collective` its reason. `before`: the one before it on its stream, or
/// null; `compute`: what its rank computes; `first`: where its rank's
/// collectives begin in the whole.
void explain(Json &collective, const Json *before, size_t first,
             const std::vector<const Json *> &compute,
             const Arrivals &arrivals) {
  double exposed = timeOf(collective, "exposed");
  auto conclude = [&](const char *reason, const std::string &detail = "") {
    collective["reason"] = reason;
    if (!detail.empty())
      collective["detail"] = detail;
  };
  if (exposed <= 0)
    return conclude("none");
  double ready = timeOf(collective, "ready");
  double awaited = timeOf(collective, "awaited");
  auto last = arrivals.find(collective["for_all"].get<std::string>());
  if (last == arrivals.end() ||
      last->second.members < collective["members"].get<uint64_t>())
    return; // somebody may have been late
  double arrival = last->second.time;
  if (arrival - awaited >= exposed / 2)
    return conclude("late-peer",
                    "rank " + std::to_string(last->second.rank) + " came " +
                        inMicroseconds(arrival - ready) + " later");
  if (before && timeOf(*before, "end") - arrival >= exposed / 2)
    return conclude("stream-order",
                    "after collective " +
                        std::to_string((*before)["id"].get<size_t>() + first) +
                        " on its communicator");
  double available = 0;
  const Json *next = nullptr;
  for (const Json *event : compute) {
    if (timeOf(*event, "begin") >= ready)
      available += timeOf(*event, "end") - timeOf(*event, "begin");
    if (!next && timeOf(*event, "begin") >= awaited)
      next = event;
  }
  if (!next ||
      available < timeOf(collective, "end") - timeOf(collective, "start"))
    return conclude("nothing-to-hide-under");
  std::string place = (*next)["location"].get<std::string>();
  conclude("dependency", (*next)["name"].get<std::string>() +
                             (place.empty() ? "" : " at " + place) +
                             " comes next");
}

void explainAll(Json &timeline, size_t first, const Arrivals &arrivals) {
  std::vector<const Json *> compute = computeOf(timeline);
  // By collective, the one before it on its stream.
  std::map<size_t, size_t> before;
  for (const Json &stream : timeline["streams"]) {
    if (stream["name"] == "compute")
      continue;
    const Json *last = nullptr;
    for (const Json &event : stream["events"]) {
      if (!event.contains("flow"))
        continue;
      if (last)
        before[event["flow"].get<size_t>()] = last->get<size_t>();
      last = &event["flow"];
    }
  }
  Json &collectives = timeline["collectives"];
  for (Json &collective : collectives) {
    auto found = before.find(collective["id"].get<size_t>());
    explain(collective,
            found == before.end() ? nullptr : &collectives[found->second],
            first, compute, arrivals);
  }
}

/// A line about the rank, as mpcomm-sim has one for each program.
Json describeProgram(const Json &timeline) {
  std::string name = timeline["function"].get<std::string>();
  if (name.starts_with("mpcomm_"))
    name = name.substr(7);
  return {{"name", name},
          {"rank", timeline["rank"]},
          {"ranks", timeline["sharing"]},
          {"seconds", timeline["own_seconds"]},
          {"compute", timeline["compute"]},
          {"exposed", timeline["exposed"]}};
}

/// The pipeline, by the passes of its ranks; null where there are none.
Json describePipeline(const Json &timeline) {
  double busy = 0, end = 0;
  int64_t ranks = 0, stages = 0, microbatches = 0;
  for (const Json &stream : timeline["streams"]) {
    if (stream["name"] != "passes")
      continue;
    ++ranks;
    for (const Json &pass : stream["events"]) {
      busy += timeOf(pass, "end") - timeOf(pass, "begin");
      end = std::max(end, timeOf(pass, "end"));
      stages = std::max(stages, pass["stage"].get<int64_t>() + 1);
      // The manifest's reader has looked at it.
      std::string number = pass["action"].get<std::string>().substr(1);
      microbatches = std::max<int64_t>(microbatches, std::stoll(number) + 1);
    }
  }
  if (end <= 0)
    return nullptr;
  return {
      {"schedule", timeline["schedule"]},
      {"ranks", ranks},
      {"stages", stages},
      {"microbatches", microbatches},
      {"bubble", std::max(0.0, 1 - busy / (end * static_cast<double>(ranks)))}};
}

/// Moves streams and collectives of `timeline` to the end of `merged`.
void append(Json &merged, Json &timeline) {
  // Collectives are numbered over the whole.
  size_t before = merged["collectives"].size();
  for (Json &collective : timeline["collectives"]) {
    collective["id"] = collective["id"].get<size_t>() + before;
    merged["collectives"].push_back(std::move(collective));
  }
  for (Json &stream : timeline["streams"]) {
    for (Json &event : stream["events"])
      if (event.contains("flow"))
        event["flow"] = event["flow"].get<size_t>() + before;
    merged["streams"].push_back(std::move(stream));
  }
}

} // namespace

std::string
mpcomm::run::mergeTimelines(const std::vector<std::string> &timelines) {
  std::vector<Json> shown;
  Arrivals arrivals;
  for (const std::string &text : timelines) {
    Json timeline = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!timeline.is_object())
      continue;
    addArrivals(timeline, arrivals);
    if (timeline.contains("schema"))
      shown.push_back(std::move(timeline));
  }
  if (shown.empty())
    return "";
  // Of a step on several ranks the means. Before it begins its step and after
  // it has ended it, a rank waits for the others.
  double computed = 0, exposed = 0;
  size_t collectives = 0;
  Json programs = Json::array();
  for (Json &timeline : shown) {
    explainAll(timeline, collectives, arrivals);
    collectives += timeline["collectives"].size();
    computed += timeOf(timeline, "compute");
    exposed += timeOf(timeline, "exposed") + timeOf(timeline, "seconds") -
               timeOf(timeline, "own_seconds");
    programs.push_back(describeProgram(timeline));
  }
  Json merged = std::move(shown.front());
  for (size_t i = 1; i < shown.size(); ++i)
    append(merged, shown[i]);
  merged["compute"] = computed / static_cast<double>(shown.size());
  merged["exposed"] = exposed / static_cast<double>(shown.size());
  if (shown.size() > 1)
    merged["programs"] = programs;
  if (Json pipeline = describePipeline(merged); !pipeline.is_null())
    merged["pipeline"] = pipeline;
  for (Json &collective : merged["collectives"]) {
    collective.erase("for_all");
    collective.erase("members");
  }
  for (const char *key :
       {"rank", "own_seconds", "function", "sharing", "schedule", "arrivals"})
    merged.erase(key);
  return merged.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}
