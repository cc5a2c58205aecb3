//===- Trace.cpp - what ran when, for a trace viewer ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each rank renders its own events. They travel in rounds of one block a rank,
// so that no rank holds more than the blocks of one round.
//
//===----------------------------------------------------------------------===//

#include "report/Trace.h"

#include "files/Json.h"
#include "files/OutputFile.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <limits>
#include <optional>
#include <string_view>

using namespace mpcomm::run;

namespace {

std::string microseconds(uint64_t nanoseconds) {
  char text[40];
  std::snprintf(text, sizeof(text), "%" PRIu64 ".%03u", nanoseconds / 1000,
                static_cast<unsigned>(nanoseconds % 1000));
  return text;
}

std::string streamName(uint32_t stream, const Manifest &manifest) {
  if (stream == MPRT_COMPUTE_STREAM)
    return "compute";
  std::string name = "communicator " + std::to_string(stream - 1);
  if (stream - 1 >= manifest.communicators.size())
    return name;
  const ManifestCommunicator &communicator = manifest.communicators[stream - 1];
  std::string text;
  for (size_t axis : communicator.axes)
    text += (text.empty() ? "" : ", ") + manifest.axes[axis].name;
  if (communicator.channel)
    text += ", channel " + std::to_string(communicator.channel);
  return name + " (" + text + ")";
}

/// The tracks of a rank: streams of all programs, those of one name together.
class Tracks {
public:
  explicit Tracks(const std::vector<Manifest> &manifests) {
    for (const Manifest &manifest : manifests) {
      std::vector<size_t> &streams = numbers.emplace_back();
      for (uint32_t i = 0; i <= manifest.communicators.size(); ++i) {
        std::string name = streamName(i, manifest);
        auto known = std::find(names.begin(), names.end(), name);
        streams.push_back(size_t(known - names.begin()));
        if (known == names.end())
          names.push_back(name);
      }
    }
  }
  const std::vector<std::string> &all() const { return names; }
  size_t of(uint32_t program, uint32_t stream) const {
    return numbers.at(program).at(stream);
  }

private:
  std::vector<std::string> names;
  std::vector<std::vector<size_t>> numbers; // of each program's streams
};

/// The lines that name the process and its tracks.
std::vector<std::string> describeRank(uint64_t rank, uint64_t dropped,
                                      const Tracks &tracks) {
  std::string pid = std::to_string(rank);
  auto meta = [&](const char *what, uint64_t track, const std::string &args) {
    return std::string("{\"ph\":\"M\",\"name\":\"") + what +
           "\",\"pid\":" + pid + ",\"tid\":" + std::to_string(track) +
           ",\"args\":{" + args + "}}";
  };
  std::vector<std::string> lines;
  lines.push_back(meta("process_name", 0, "\"name\":\"rank " + pid + "\""));
  lines.push_back(meta("process_sort_index", 0, "\"sort_index\":" + pid));
  if (dropped)
    lines.push_back(meta("process_labels", 0,
                         "\"labels\":\"" + std::to_string(dropped) +
                             " earlier events are lost\""));
  for (size_t track = 0; track < tracks.all().size(); ++track)
    lines.push_back(
        meta("thread_name", track, "\"name\":" + quoted(tracks.all()[track])));
  return lines;
}

std::string render(const TraceEvent &event, size_t track, uint64_t rank,
                   uint64_t origin) {
  std::string line = "{\"ph\":\"X\",\"name\":" + quoted(event.name);
  line += std::string(",\"cat\":\"") + mprt::nameOf(event.kind) + "\"";
  line += ",\"pid\":" + std::to_string(rank);
  line += ",\"tid\":" + std::to_string(track);
  line += ",\"ts\":" + microseconds(event.begin - origin);
  line += ",\"dur\":" + microseconds(event.end - event.begin);
  line += ",\"args\":{\"location\":" + quoted(event.location) +
          ",\"bytes\":" + std::to_string(event.bytes);
  if (event.flops)
    line += ",\"flops\":" + std::to_string(event.flops);
  if (event.type)
    line += ",\"type\":" + quoted(event.type);
  return line + "}}";
}

/// Cuts `lines` from `next` on into `block`; how much of it that fills. A line
/// that fills more than a block is left out.
uint64_t fill(std::span<char> block, const std::vector<std::string> &lines,
              size_t &next) {
  uint64_t bytes = 0;
  for (; next < lines.size(); ++next) {
    std::string line = ",\n" + lines[next];
    if (line.size() > block.size())
      continue;
    if (line.size() > block.size() - bytes)
      break;
    bytes += line.copy(block.data() + bytes, line.size());
  }
  return bytes;
}

/// The file, and whether an event is in it already.
class TraceFile {
public:
  explicit TraceFile(const std::string &path) : file(path) {}

  Error open() {
    if (Error error = file.open())
      return error;
    return write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  }

  /// Events, each after a comma and a line break.
  Error add(std::string_view events) {
    // No comma before the very first.
    if (!begun && !events.empty())
      events.remove_prefix(2);
    begun |= !events.empty();
    return write(events);
  }

  Error close() {
    if (Error error = write("\n]}\n"))
      return error;
    return file.commit();
  }

private:
  Error write(std::string_view text) {
    return file.write(text.data(), text.size());
  }

  OutputFile file;
  bool begun = false;
};

uint64_t firstOf(const std::vector<TraceEvent> &events) {
  uint64_t first = std::numeric_limits<uint64_t>::max();
  for (const TraceEvent &event : events)
    first = std::min(first, event.begin);
  return first;
}

std::string render(const TraceMark &mark, uint64_t rank, uint64_t origin) {
  return "{\"ph\":\"i\",\"s\":\"g\",\"name\":" + quoted(mark.text) +
         ",\"cat\":\"session\",\"pid\":" + std::to_string(rank) +
         ",\"tid\":0,\"ts\":" +
         microseconds(mark.at > origin ? mark.at - origin : 0) + "}";
}

/// The lines of this rank, with times from `origin` on. Rank 0 tells the marks.
std::vector<std::string> linesOf(const RunSession &session,
                                 const std::vector<Manifest> &manifests,
                                 const RecordedTrace &trace, uint64_t origin,
                                 const std::vector<TraceMark> &marks) {
  Tracks tracks(manifests);
  std::vector<std::string> lines =
      describeRank(session.index(), trace.dropped, tracks);
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent &event = trace.events[i];
    lines.push_back(render(event, tracks.of(trace.programs[i], event.stream),
                           session.index(), origin));
  }
  if (session.index() == 0)
    for (const TraceMark &mark : marks)
      lines.push_back(render(mark, session.index(), origin));
  return lines;
}

} // namespace

Expected<RecordedTrace> mpcomm::run::traceOf(const RunSession &session) {
  RecordedTrace trace;
  std::vector<mpcomm_trace_event> found;
  uint32_t count = 0;
  do { // how many, then those
    found.resize(count);
    if (Error error = session(mpcomm_session_trace, found.data(), count, &count,
                              &trace.dropped))
      return error;
  } while (found.size() < count);
  for (const mpcomm_trace_event &event : found) {
    trace.programs.push_back(event.program);
    trace.events.push_back({static_cast<TraceEvent::Kind>(event.kind),
                            event.stream, event.name, event.location,
                            event.begin, event.end, event.bytes, event.queued,
                            event.position, event.flops, event.type,
                            event.waited_stream, event.collective});
  }
  return trace;
}

Error mpcomm::run::writeTrace(const std::string &path,
                              const std::vector<Manifest> &manifests,
                              const RunSession &session,
                              const std::vector<TraceMark> &marks) {
  std::optional<TraceFile> file;
  Error mine;
  if (session.index() == 0) {
    file.emplace(path);
    mine = file->open();
  }
  Expected<RecordedTrace> trace = traceOf(session);
  if (Error error = session.agree(mine ? mine : trace.error()))
    return error;

  // Times count from the first event of any rank.
  uint64_t first = firstOf(trace->events);
  std::vector<uint64_t> firsts(session.size());
  if (Error error = session.gather(&first, firsts.data(), sizeof(first)))
    return error;
  uint64_t origin = *std::min_element(firsts.begin(), firsts.end());
  std::vector<std::string> lines =
      linesOf(session, manifests, *trace, origin, marks);

  // Cut between events, so that rank 0 writes whatever arrives.
  size_t next = 0;
  if (Error error = session.exchange(
          [&](std::span<char> block) { return fill(block, lines, next); },
          [&](uint64_t, std::string_view part) {
            if (file && mine.ok())
              mine = file->add(part);
          }))
    return error;
  if (file && mine.ok())
    mine = file->close();
  return session.agree(mine);
}

Error mpcomm::run::writeOwnTrace(const std::string &path,
                                 const std::vector<Manifest> &manifests,
                                 const RunSession &session,
                                 const std::vector<TraceMark> &marks) {
  Expected<RecordedTrace> trace = traceOf(session);
  if (trace.failed())
    return trace.error();
  TraceFile file(path);
  Error status = file.open();
  for (const std::string &line :
       linesOf(session, manifests, *trace, firstOf(trace->events), marks))
    if (status.ok())
      status = file.add(",\n" + line);
  return status.failed() ? status : file.close();
}
