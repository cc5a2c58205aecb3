//===- Timeline.cpp - what a rank did in a step ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "report/Timeline.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <tuple>

using namespace mpcomm::run;

using Json = nlohmann::ordered_json;

static bool computes(const TraceEvent &event) {
  return event.stream == MPRT_COMPUTE_STREAM && event.kind != TraceEvent::Wait;
}

namespace {

using Events = std::vector<const TraceEvent *>;

/// Seconds that [begin, end) shares with each of some intervals, added up.
double overlap(uint64_t begin, uint64_t end, const Events &intervals) {
  uint64_t sum = 0;
  for (const TraceEvent *event : intervals) {
    uint64_t from = std::max(begin, event->begin);
    uint64_t to = std::min(end, event->end);
    sum += to > from ? to - from : 0;
  }
  return static_cast<double>(sum) * 1e-9;
}

/// The events of one step of one rank.
class StepEvents {
public:
  StepEvents(const StepSpan &step, const StepSpan &base,
             const std::vector<TraceEvent> &events, const StepsOrigin &origin);

  /// When this rank came to each collective, by what all its members call it.
  Json arrivals() const;
  Json collectives();
  Json streams() const;

  double computed = 0, waited = 0;

private:
  double seconds(uint64_t time) const {
    return static_cast<double>(std::max(time, base.begin) - base.begin) * 1e-9;
  }
  Json span(const TraceEvent &first, const TraceEvent &last) const {
    return {{"begin", seconds(first.begin)}, {"end", seconds(last.end)}};
  }
  /// Of a collective: what its members call it, and how many they are.
  std::pair<std::string, uint64_t> nameForAll(size_t index) const;
  uint64_t tensorsOf(const TraceEvent &event) const;
  Json passes() const;
  const ManifestFunction *function() const {
    return origin.manifest ? origin.manifest->find("train_step", origin.rank)
                           : nullptr;
  }

  const StepSpan &step, &base;
  const StepsOrigin &origin;
  Events compute, waits, started;
  std::map<uint32_t, Events> byStream;
  /// Of `started`: how many with its number came before it on its stream.
  std::vector<uint64_t> occurrences;
  std::map<const TraceEvent *, size_t> flows;
};

} // namespace

StepEvents::StepEvents(const StepSpan &step, const StepSpan &base,
                       const std::vector<TraceEvent> &events,
                       const StepsOrigin &origin)
    : step(step), base(base), origin(origin) {
  for (const TraceEvent &event : events) {
    if (event.begin < step.begin || event.end > step.end)
      continue;
    double length = seconds(event.end) - seconds(event.begin);
    if (computes(event)) {
      compute.push_back(&event);
      computed += length;
    } else if (event.stream == MPRT_COMPUTE_STREAM) {
      waits.push_back(&event);
      waited += length;
    } else if (event.collective) {
      started.push_back(&event);
    }
    byStream[event.stream].push_back(&event);
  }
  auto byBegin = [](const TraceEvent *a, const TraceEvent *b) {
    return a->begin < b->begin;
  };
  std::stable_sort(compute.begin(), compute.end(), byBegin);
  for (auto &[stream, list] : byStream)
    std::stable_sort(list.begin(), list.end(), byBegin);
  // Numbered in the order of the program, which streams run abreast.
  std::sort(started.begin(), started.end(),
            [](const TraceEvent *a, const TraceEvent *b) {
              return std::tie(a->queued, a->stream, a->position) <
                     std::tie(b->queued, b->stream, b->position);
            });
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> seen;
  for (size_t i = 0; i < started.size(); ++i) {
    flows[started[i]] = i;
    occurrences.push_back(
        seen[{started[i]->stream, started[i]->collective->id}]++);
  }
}

std::pair<std::string, uint64_t> StepEvents::nameForAll(size_t index) const {
  const TraceEvent &event = *started[index];
  size_t communicator = event.stream - 1;
  uint64_t group = 0, members = origin.ranks;
  if (origin.manifest && communicator < origin.manifest->communicators.size()) {
    group = origin.manifest->groupOf(origin.rank, communicator);
    members = origin.manifest->groupSize(communicator);
  }
  if (event.collective->kind == MPRT_SEND ||
      event.collective->kind == MPRT_RECV)
    members = 2;
  std::string name;
  for (uint64_t part : {uint64_t(communicator), group,
                        uint64_t(event.collective->id), occurrences[index]})
    name += std::to_string(part) + "/";
  return {name, members};
}

Json StepEvents::arrivals() const {
  Json all = Json::object();
  for (size_t i = 0; origin.hasOneClock && i < started.size(); ++i)
    all[nameForAll(i).first] = seconds(started[i]->queued);
  return all;
}

Json StepEvents::collectives() {
  // A wait is for the last collective that its stream has to finish.
  std::vector<double> exposed(started.size());
  for (const TraceEvent *wait : waits) {
    const TraceEvent *waited = nullptr;
    for (const TraceEvent *event : started)
      if (event->stream == wait->waitedStream &&
          event->position <= wait->position &&
          (!waited || waited->position < event->position))
        waited = event;
    if (!waited)
      continue;
    flows[wait] = flows.at(waited);
    exposed[flows.at(waited)] += seconds(wait->end) - seconds(wait->begin);
  }
  Json described = Json::array();
  for (size_t i = 0; i < started.size(); ++i) {
    const TraceEvent &event = *started[i];
    uint64_t awaited = step.end;
    for (const TraceEvent *wait : waits)
      if (wait->waitedStream == event.stream &&
          wait->position >= event.position)
        awaited = std::min(awaited, wait->begin);
    auto [name, members] = nameForAll(i);
    described.push_back(
        {{"id", i},
         {"rank", origin.rank},
         {"name", mprt::nameOf(mprt_collective_kind(event.collective->kind))},
         {"location", event.location},
         {"bytes", event.bytes},
         {"tensors", tensorsOf(event)},
         {"ready", seconds(event.queued)},
         {"start", seconds(event.begin)},
         {"end", seconds(event.end)},
         {"awaited", seconds(awaited)},
         {"hidden", overlap(event.begin, event.end, compute)},
         {"exposed", exposed[i]},
         // For mergeTimelines.
         {"for_all", name},
         {"members", members}});
  }
  return described;
}

uint64_t StepEvents::tensorsOf(const TraceEvent &event) const {
  if (function())
    for (const ManifestCollective &known : function()->collectives)
      if (known.id == event.collective->id)
        return known.tensors;
  return 1;
}

/// The calls of each pass are beside one another, as the manifest counts them.
Json StepEvents::passes() const {
  Json track = Json::array();
  if (!function() || function()->computeCalls != compute.size())
    return track;
  for (const ManifestPass &pass : function()->passes) {
    Json entry = {{"name", pass.action}};
    entry.update(
        span(*compute[pass.first], *compute[pass.first + pass.calls - 1]));
    entry.update({{"action", pass.action}, {"stage", pass.stage}});
    track.push_back(entry);
  }
  return track;
}

Json StepEvents::streams() const {
  Json rendered = Json::array();
  if (Json track = passes(); !track.empty())
    rendered.push_back(
        {{"name", "passes"}, {"rank", origin.rank}, {"events", track}});
  for (const auto &[stream, list] : byStream) {
    Json track = Json::array();
    for (const TraceEvent *event : list) {
      auto flow = flows.find(event);
      bool isWait = event->kind == TraceEvent::Wait;
      if (isWait && (flow == flows.end() || event->begin == event->end))
        continue;
      Json entry = {{"name", event->name}, {"location", event->location}};
      entry.update(span(*event, *event));
      if (flow != flows.end())
        entry["flow"] = flow->second;
      track.push_back(entry);
    }
    std::string name = stream == MPRT_COMPUTE_STREAM
                           ? "compute"
                           : "communicator " + std::to_string(stream - 1);
    rendered.push_back(
        {{"name", name}, {"rank", origin.rank}, {"events", track}});
  }
  return rendered;
}

std::string mpcomm::run::renderTimeline(const StepSpan &step,
                                        const StepSpan &base,
                                        const std::vector<TraceEvent> &events,
                                        const StepsOrigin &origin) {
  StepEvents own(step, base, events, origin);
  Json described = own.collectives();
  auto seconds = [](const StepSpan &span) {
    return static_cast<double>(span.end - span.begin) * 1e-9;
  };
  std::string function;
  uint64_t sharing = 1;
  if (origin.manifest) {
    sharing = origin.manifest->dataRanks();
    if (auto *found = origin.manifest->find("train_step", origin.rank))
      function = found->entry;
  }
  return Json({{"schema", "mpcomm-timeline-1"},
               {"name", origin.program},
               {"kind", "measured"},
               {"cluster", origin.backend},
               {"ranks", origin.ranks},
               {"seconds", seconds(base)},
               {"compute", own.computed},
               {"exposed", own.waited},
               {"streams", own.streams()},
               {"collectives", described},
               {"memory", Json::array()},
               // For mergeTimelines.
               {"rank", origin.rank},
               {"own_seconds", seconds(step)},
               {"function", function},
               {"sharing", sharing},
               {"schedule", origin.manifest ? origin.manifest->schedule : ""},
               {"arrivals", own.arrivals()}})
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string mpcomm::run::renderArrivals(const StepSpan &step,
                                        const StepSpan &base,
                                        const std::vector<TraceEvent> &events,
                                        const StepsOrigin &origin) {
  return Json({{"rank", origin.rank},
               {"arrivals", StepEvents(step, base, events, origin).arrivals()}})
      .dump();
}
