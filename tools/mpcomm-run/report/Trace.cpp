//===- Trace.cpp - what ran when, for a trace viewer ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each rank renders its own events. They travel in rounds of one block a rank,
// cut between events, so that rank 0 writes whatever arrives and no rank holds
// more than the blocks of one round.
//
//===----------------------------------------------------------------------===//

#include "report/Trace.h"

#include "session/Rank.h"
#include "session/files/Json.h"
#include "session/files/OutputFile.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>

using namespace mpcomm::run;

namespace {

/// What a rank sends in one round.
struct Block {
  uint64_t bytes = 0;
  std::array<char, 32 << 10> text;
};

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

/// The lines that name the process and its tracks.
std::vector<std::string> describeRank(uint64_t rank, uint64_t dropped,
                                      const Manifest &manifest) {
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
                         "\"labels\":\"the first " + std::to_string(dropped) +
                             " events are lost\""));
  for (uint32_t stream = 0; stream <= manifest.communicators.size(); ++stream)
    lines.push_back(meta("thread_name", stream,
                         "\"name\":" + quoted(streamName(stream, manifest))));
  return lines;
}

std::string render(const TraceEvent &event, uint64_t rank, uint64_t origin) {
  std::string line = "{\"ph\":\"X\",\"name\":" + quoted(event.name);
  line += std::string(",\"cat\":\"") + mprt::nameOf(event.kind) + "\"";
  line += ",\"pid\":" + std::to_string(rank);
  line += ",\"tid\":" + std::to_string(event.stream);
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

/// Cuts `lines` from `next` on into `block`. A line that fills more than a
/// block is left out.
void fill(Block &block, const std::vector<std::string> &lines, size_t &next) {
  block.bytes = 0;
  while (next < lines.size()) {
    std::string line = ",\n" + lines[next];
    if (line.size() > block.text.size()) {
      ++next;
      continue;
    }
    if (line.size() > block.text.size() - block.bytes)
      return;
    std::memcpy(block.text.data() + block.bytes, line.data(), line.size());
    block.bytes += line.size();
    ++next;
  }
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

/// The lines of this rank, with times from `origin` on.
std::vector<std::string> linesOf(const Rank &rank, const Manifest &manifest,
                                 const std::vector<TraceEvent> &events,
                                 uint64_t origin) {
  std::vector<std::string> lines =
      describeRank(rank.index(), rank.context().trace().dropped(), manifest);
  for (const TraceEvent &event : events)
    lines.push_back(render(event, rank.index(), origin));
  return lines;
}

} // namespace

Error mpcomm::run::writeTrace(const std::string &path, const Manifest &manifest,
                              Rank &rank) {
  std::optional<TraceFile> file;
  Error mine;
  if (rank.index() == 0) {
    file.emplace(path);
    mine = file->open();
  }
  if (Error error = rank.agree(mine))
    return error;

  // Times count from the first event of any rank.
  std::vector<TraceEvent> events = rank.context().trace().events();
  uint64_t first = firstOf(events);
  std::vector<uint64_t> firsts(rank.size());
  if (Error error = rank.gather(&first, firsts.data(), sizeof(first)))
    return error;
  uint64_t origin = *std::min_element(firsts.begin(), firsts.end());
  std::vector<std::string> lines = linesOf(rank, manifest, events, origin);

  auto block = std::make_unique<Block>();
  std::vector<Block> blocks(rank.size());
  for (size_t next = 0;;) {
    fill(*block, lines, next);
    if (Error error = rank.gather(block.get(), blocks.data(), sizeof(Block)))
      return error;
    bool any = false;
    for (const Block &part : blocks) {
      any |= part.bytes > 0;
      if (file && mine.ok())
        mine = file->add({part.text.data(), part.bytes});
    }
    if (!any)
      break;
  }
  if (file && mine.ok())
    mine = file->close();
  return rank.agree(mine);
}

Error mpcomm::run::writeOwnTrace(const std::string &path,
                                 const Manifest &manifest, const Rank &rank) {
  TraceFile file(path);
  Error status = file.open();
  std::vector<TraceEvent> events = rank.context().trace().events();
  for (const std::string &line :
       linesOf(rank, manifest, events, firstOf(events)))
    if (status.ok())
      status = file.add(",\n" + line);
  return status.failed() ? status : file.close();
}
