//===- SimulatorTimeline.cpp - the JSON form of a step --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Written by hand, since this library links nothing. One line an event, a
// collective and a point of memory, so that files compare by line.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/Simulator/Timeline.h"
#include <cstdio>

using namespace mpcomm;

static std::string quote(const std::string &text) {
  std::string quoted = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += char(c);
    } else if (c < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", c);
      quoted += escape;
    } else {
      quoted += char(c);
    }
  }
  return quoted + '"';
}

static std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

static std::string number(int64_t value) { return std::to_string(value); }

/// `"key": value` with the comma before all but the first of an object.
namespace {
class Object {
public:
  explicit Object(std::string &out) : out(out) { out += '{'; }
  ~Object() { out += '}'; }
  void add(const char *key, const std::string &value) {
    name(key);
    out += quote(value);
  }
  template <typename Number> void add(const char *key, Number value) {
    name(key);
    out += number(value);
  }
  /// An array with a line for each element, which `write` appends.
  template <typename List, typename Write>
  void add(const char *key, const List &list, Write write) {
    name(key);
    out += '[';
    const char *separator = "\n";
    for (const auto &element : list) {
      out += separator;
      separator = ",\n";
      write(element);
    }
    out += ']';
  }

  /// What comes next is the value.
  void open(const char *key) { name(key); }

private:
  void name(const char *key) {
    if (!first)
      out += ", ";
    first = false;
    out += '"';
    out += key;
    out += "\": ";
  }
  std::string &out;
  bool first = true;
};
} // namespace

static void write(const Timeline::Event &event, std::string &out) {
  Object object(out);
  object.add("name", event.name);
  object.add("location", event.location);
  object.add("begin", event.begin);
  object.add("end", event.end);
  if (event.flow >= 0)
    object.add("flow", event.flow);
  if (!event.action.empty()) {
    object.add("action", event.action);
    object.add("stage", event.stage);
  }
}

static void write(const Timeline::Program &program, std::string &out) {
  Object object(out);
  object.add("name", program.name);
  object.add("rank", program.rank);
  object.add("ranks", program.ranks);
  object.add("seconds", program.seconds);
  object.add("compute", program.compute);
  object.add("exposed", program.exposed);
  object.add("peak_bytes", program.peakBytes);
}

static void write(const Timeline::Pipeline &pipeline, std::string &out) {
  Object object(out);
  object.add("schedule", pipeline.schedule);
  object.add("ranks", pipeline.ranks);
  object.add("stages", pipeline.stages);
  object.add("microbatches", pipeline.microbatches);
  object.add("bubble", pipeline.bubble);
  if (pipeline.formula >= 0)
    object.add("formula", pipeline.formula);
}

static void write(const Timeline::Collective &collective, std::string &out) {
  Object object(out);
  object.add("id", collective.id);
  if (collective.rank > 0)
    object.add("rank", collective.rank);
  object.add("name", collective.name);
  object.add("location", collective.location);
  object.add("bytes", collective.bytes);
  object.add("tensors", collective.tensors);
  object.add("ready", collective.ready);
  object.add("start", collective.start);
  object.add("end", collective.end);
  object.add("awaited", collective.awaited);
  object.add("hidden", collective.hidden);
  object.add("exposed", collective.exposed);
  object.add("reason", collective.reason);
  object.add("detail", collective.detail);
}

std::string mpcomm::toJson(const Timeline &timeline) {
  std::string out;
  {
    Object object(out);
    object.add("schema", std::string("mpcomm-timeline-1"));
    object.add("name", timeline.name);
    object.add("kind", timeline.kind);
    object.add("cluster", timeline.cluster);
    object.add("ranks", timeline.ranks);
    object.add("seconds", timeline.seconds);
    object.add("lower_bound", timeline.lowerBound);
    object.add("compute", timeline.compute);
    object.add("exposed", timeline.exposed);
    object.add("peak_bytes", timeline.peakBytes);
    if (!timeline.programs.empty())
      object.add("programs", timeline.programs,
                 [&](const auto &program) { write(program, out); });
    if (timeline.pipeline) {
      object.open("pipeline");
      write(*timeline.pipeline, out);
    }
    object.add("streams", timeline.streams, [&](const auto &stream) {
      Object object(out);
      object.add("name", stream.name);
      object.add("rank", stream.rank);
      object.add("events", stream.events,
                 [&](const auto &event) { write(event, out); });
    });
    object.add("collectives", timeline.collectives,
               [&](const auto &collective) { write(collective, out); });
    object.add("memory", timeline.memory, [&](const auto &point) {
      out += '[' + number(point.first) + ", " + number(point.second) + ']';
    });
  }
  return out + '\n';
}
