//===- Steps.cpp - what ran in each step ----------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "report/Steps.h"

#include "calibrate/RobustLine.h"
#include "session/files/OutputFile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

using namespace mpcomm::run;

using Json = nlohmann::ordered_json;

static bool computes(const TraceEvent &event) {
  return event.stream == MPRT_COMPUTE_STREAM && event.kind != TraceEvent::Wait;
}

static std::string dump(const Json &json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status mpcomm::run::writeText(const std::string &path,
                              const std::string &text) {
  OutputFile file(path);
  Status status = file.open();
  if (status.ok())
    status = file.write(text.data(), text.size());
  return status.failed() ? status : file.commit();
}

std::vector<StepSpan>
mpcomm::run::completeSteps(const std::vector<StepSpan> &spans,
                           const std::vector<TraceEvent> &events,
                           uint64_t droppedEvents) {
  std::vector<StepSpan> steps;
  for (size_t i = 0; i < spans.size(); ++i) {
    // What was dropped ended before what is left.
    bool lost =
        droppedEvents && (events.empty() || spans[i].begin < events[0].end);
    if (!lost && (i > 0 || spans.size() == 1))
      steps.push_back(spans[i]);
  }
  return steps;
}

//===----------------------------------------------------------------------===//
// Timeline
//===----------------------------------------------------------------------===//

namespace {

/// Seconds that [begin, end) shares with each of some intervals, added up.
double overlap(uint64_t begin, uint64_t end,
               const std::vector<const TraceEvent *> &intervals) {
  uint64_t sum = 0;
  for (const TraceEvent *event : intervals) {
    uint64_t from = std::max(begin, event->begin);
    uint64_t to = std::min(end, event->end);
    sum += to > from ? to - from : 0;
  }
  return static_cast<double>(sum) * 1e-9;
}

} // namespace

StepSpan mpcomm::run::medianStep(std::vector<StepSpan> steps) {
  if (steps.empty())
    return {};
  std::sort(steps.begin(), steps.end(),
            [](const StepSpan &a, const StepSpan &b) {
              return a.end - a.begin < b.end - b.begin;
            });
  return steps[steps.size() / 2];
}

std::string mpcomm::run::renderTimeline(const StepSpan &step,
                                        const StepSpan &base,
                                        const std::vector<TraceEvent> &events,
                                        const StepsOrigin &origin) {
  auto seconds = [&](uint64_t time) {
    return static_cast<double>(std::max(time, base.begin) - base.begin) * 1e-9;
  };
  std::vector<const TraceEvent *> compute, collectives;
  std::map<uint32_t, std::vector<const TraceEvent *>> waits, streams;
  double computed = 0, exposed = 0;
  for (const TraceEvent &event : events) {
    if (event.begin < step.begin || event.end > step.end)
      continue;
    double length = seconds(event.end) - seconds(event.begin);
    if (event.kind == TraceEvent::Wait && event.stream == MPRT_COMPUTE_STREAM) {
      waits[event.waitedStream].push_back(&event);
      exposed += length;
      continue;
    }
    if (computes(event)) {
      compute.push_back(&event);
      computed += length;
    } else if (event.collective) {
      collectives.push_back(&event);
    }
    streams[event.stream].push_back(&event);
  }

  // Numbered in the order of the program, which streams run abreast.
  std::sort(collectives.begin(), collectives.end(),
            [](const TraceEvent *a, const TraceEvent *b) {
              return std::tie(a->queued, a->stream, a->position) <
                     std::tie(b->queued, b->stream, b->position);
            });
  std::map<const TraceEvent *, size_t> ids;
  Json described = Json::array();
  for (const TraceEvent *event : collectives) {
    const std::vector<const TraceEvent *> &waiting = waits[event->stream];
    uint64_t awaited = step.end;
    for (const TraceEvent *wait : waiting)
      if (wait->position >= event->position)
        awaited = std::min(awaited, wait->begin);
    ids[event] = ids.size();
    described.push_back(
        {{"id", ids[event]},
         {"rank", origin.rank},
         {"name", event->name},
         {"location", event->location},
         {"bytes", event->bytes},
         {"ready", seconds(event->queued)},
         {"start", seconds(event->begin)},
         {"end", seconds(event->end)},
         {"awaited", seconds(awaited)},
         {"hidden", overlap(event->begin, event->end, compute)},
         {"exposed", overlap(event->begin, event->end, waiting)}});
  }

  Json rendered = Json::array();
  for (auto &[stream, list] : streams) {
    std::sort(list.begin(), list.end(),
              [](const TraceEvent *a, const TraceEvent *b) {
                return a->begin < b->begin;
              });
    Json track = Json::array();
    for (const TraceEvent *event : list) {
      Json entry = {{"name", event->name},
                    {"location", event->location},
                    {"begin", seconds(event->begin)},
                    {"end", seconds(event->end)}};
      if (auto id = ids.find(event); id != ids.end())
        entry["flow"] = id->second;
      track.push_back(entry);
    }
    std::string name = stream == MPRT_COMPUTE_STREAM
                           ? "compute"
                           : "communicator " + std::to_string(stream - 1);
    rendered.push_back(
        {{"name", name}, {"rank", origin.rank}, {"events", track}});
  }
  return dump({{"schema", "mpcomm-timeline-1"},
               {"name", origin.program},
               {"kind", "measured"},
               {"cluster", origin.backend},
               {"ranks", origin.ranks},
               {"seconds", seconds(base.end)},
               {"compute", computed},
               {"exposed", exposed},
               {"streams", rendered},
               {"collectives", described},
               {"memory", Json::array()}});
}

std::string
mpcomm::run::mergeTimelines(const std::vector<std::string> &timelines) {
  Json merged;
  double computed = 0, exposed = 0, count = 0;
  for (const std::string &text : timelines) {
    Json timeline = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!timeline.is_object())
      continue;
    computed += timeline["compute"].get<double>();
    exposed += timeline["exposed"].get<double>();
    ++count;
    if (merged.is_null()) {
      merged = timeline;
      continue;
    }
    // Collectives are numbered over the whole.
    size_t before = merged["collectives"].size();
    for (Json &collective : timeline["collectives"]) {
      collective["id"] = collective["id"].get<size_t>() + before;
      merged["collectives"].push_back(collective);
    }
    for (Json &stream : timeline["streams"]) {
      for (Json &event : stream["events"])
        if (event.contains("flow"))
          event["flow"] = event["flow"].get<size_t>() + before;
      merged["streams"].push_back(stream);
    }
  }
  // Of a step on several ranks the means.
  if (count > 0) {
    merged["compute"] = computed / count;
    merged["exposed"] = exposed / count;
  }
  return dump(merged);
}

//===----------------------------------------------------------------------===//
// Profile
//===----------------------------------------------------------------------===//

/// The op that a call of the runtime's is; empty for a kernel that the compiler
/// has made of several.
static std::string opOf(const TraceEvent &event) {
  static const std::set<std::string_view> ops = {
      "convolution",   "convolution_input_grad",
      "max_pool",      "convolution_filter_grad",
      "max_pool_grad", "avg_pool",
      "avg_pool_grad"};
  if (event.collective)
    return std::string("mpcomm.") +
           mprt::nameOf(mprt_collective_kind(event.collective->kind));
  if (ops.count(event.name))
    return std::string("mpcomm.") + event.name;
  return event.kind == TraceEvent::Gemm ? "mpcomm.dot_general" : "";
}

std::string mpcomm::run::renderProfile(const std::vector<StepSpan> &steps,
                                       const std::vector<TraceEvent> &events,
                                       const StepsOrigin &origin) {
  // Events by op and location, in the order in which the first step has them.
  struct Call {
    std::string op;
    ManifestLocation location;
    std::vector<double> seconds; // a step
  };
  auto placesOf = [&](const std::string &location) {
    auto known = origin.places.find(location);
    return known == origin.places.end() ? ManifestLocation{{location}}
                                        : known->second;
  };
  std::vector<Call> calls;
  std::map<std::pair<std::string, std::string>, size_t> known;
  for (size_t s = 0; s < steps.size(); ++s)
    for (const TraceEvent &event : events) {
      if (event.begin < steps[s].begin || event.end > steps[s].end ||
          !*event.location)
        continue;
      bool isWork = event.collective || event.kind == TraceEvent::Gemm ||
                    event.kind == TraceEvent::Kernel;
      if (!isWork || event.kind == TraceEvent::Wait)
        continue;
      std::string op = opOf(event);
      auto [place, isNew] =
          known.try_emplace({op, event.location}, calls.size());
      if (isNew)
        calls.push_back({op, placesOf(event.location),
                         std::vector<double>(steps.size(), 0)});
      // Messages count all: each has its own op in a step.
      if (isNew && event.collective)
        calls.back().location.runs = 1;
      calls[place->second].seconds[s] +=
          static_cast<double>(event.end - event.begin) * 1e-9;
    }
  Json entries = Json::array();
  for (const Call &call : calls) {
    Json entry = {{"locations", call.location.places}};
    if (!call.op.empty())
      entry["op"] = call.op;
    entry["seconds"] =
        medianOf(call.seconds) / static_cast<double>(call.location.runs);
    entries.push_back(entry);
  }
  return dump({{"schema", "mpcomm-profile-1"},
               {"name", origin.program},
               {"cluster", origin.backend},
               {"ranks", origin.ranks},
               {"steps", steps.size()},
               {"entries", entries}});
}

std::string
mpcomm::run::mergeProfiles(const std::vector<std::string> &profiles) {
  Json merged;
  std::set<std::pair<std::string, std::string>> known; // op, locations
  for (const std::string &text : profiles) {
    Json profile = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!profile.is_object())
      continue;
    Json entries = profile["entries"];
    if (merged.is_null()) {
      merged = profile;
      merged["entries"] = Json::array();
    }
    for (const Json &entry : entries)
      if (known.insert({entry.value("op", ""), entry["locations"].dump()})
              .second)
        merged["entries"].push_back(entry);
  }
  return dump(merged);
}
