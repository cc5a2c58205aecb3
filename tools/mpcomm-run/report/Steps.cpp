//===- Steps.cpp - what ran in each step ----------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "report/Steps.h"

#include "calibrate/RobustLine.h"
#include "files/OutputFile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

using namespace mpcomm::run;

using Json = nlohmann::ordered_json;

static std::string dump(const Json &json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Error mpcomm::run::writeText(const std::string &path, const std::string &text) {
  OutputFile file(path);
  Error status = file.open();
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

StepSpan mpcomm::run::medianStep(std::vector<StepSpan> steps) {
  if (steps.empty())
    return {};
  std::sort(steps.begin(), steps.end(),
            [](const StepSpan &a, const StepSpan &b) {
              return a.end - a.begin < b.end - b.begin;
            });
  return steps[steps.size() / 2];
}

/// The op that a call of the runtime's is; empty for a kernel that the compiler
/// has made of several.
static std::string opOf(const TraceEvent &event) {
  static const std::set<std::string_view> ops = {
      "convolution",   "convolution_input_grad",
      "max_pool",      "convolution_filter_grad",
      "max_pool_grad", "avg_pool",
      "avg_pool_grad"};
  if (event.collective) {
    auto kind = mprt_collective_kind(event.collective->kind);
    // mpcomm.reduce, for one, is of a tensor.
    bool isPrefixed = kind == MPRT_BROADCAST || kind >= MPRT_PERMUTE;
    return std::string(isPrefixed ? "mpcomm.collective_" : "mpcomm.") +
           mprt::nameOf(kind);
  }
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
