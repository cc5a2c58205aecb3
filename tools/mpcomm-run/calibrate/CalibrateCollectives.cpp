//===- CalibrateCollectives.cpp - alpha and beta of each collective -------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Payloads grow by a factor of 4 from 1 KB up to what the time allows; then all
// sizes are measured in turns, several times (long ones fewer), so that a
// disturbance hits one round and not one size. A sample is the mean of
// collectives one after the other, of the slowest rank; a size is the median of
// its samples. Some that are not timed go before: links that limit a rate let a
// burst pass at once after a pause (token buckets, in clouds too), which a step
// with more than that to send does not see.
//
//===----------------------------------------------------------------------===//

#include "calibrate/Calibrate.h"

#include <algorithm>
#include <chrono>

using namespace mpcomm::run;

using Clock = std::chrono::steady_clock;

namespace {

constexpr unsigned rounds = 7;
/// Of sizes that take longer than `longSeconds`, which noise disturbs less.
constexpr unsigned longRounds = 3;
constexpr double longSeconds = 0.02;
constexpr uint64_t firstBytes = 1024, factor = 4;
/// A sample lasts at least so long, or has so many collectives.
constexpr double sampleSeconds = 2e-3;
constexpr uint64_t mostInSample = 50;
/// What goes before a sample lasts about so long, and is nothing where one
/// collective takes that much longer than a burst.
constexpr double leadSeconds = 10e-3, noLeadSeconds = 0.1;

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Measures one kind on one group.
class KindBench {
public:
  KindBench(Bench &bench, mprt_collective_kind kind, const MeasuredGroup &group)
      : bench(bench), ranks(group.ranks) {
    call.kind = static_cast<uint8_t>(kind);
    call.communicator = group.communicator;
    call.type = call.accumulate = MPRT_F32;
    call.reduction = MPRT_SUM;
    call.peer = kind == MPRT_BROADCAST ? 0 : -1;
    call.name = "calibration";
    call.location = "mpcomm-run";
    back = call;
    if (kind != MPRT_SEND)
      return;
    // Even ranks send first; messages come back in full size.
    uint64_t partner = group.index ^ 1;
    first = group.index % 2 == 0;
    idle = partner >= ranks;
    call.peer = back.peer = static_cast<int32_t>(partner);
    call.kind = first ? MPRT_SEND : MPRT_RECV;
    back.kind = first ? MPRT_RECV : MPRT_SEND;
  }

  /// The largest payload that fits the buffers.
  uint64_t mostPayload() const {
    return call.kind == MPRT_ALL_GATHER ? bench.mostBytes / ranks
                                        : bench.mostBytes;
  }

  /// Seconds of one collective of `bytes` of payload: the mean of `count`,
  /// after `lead` that do not count.
  Error sample(uint64_t bytes, uint64_t lead, uint64_t count, double &seconds) {
    uint64_t elements = bytes / sizeof(float);
    if (call.kind == MPRT_REDUCE_SCATTER || call.kind == MPRT_ALL_TO_ALL)
      elements /= ranks;
    call.count = back.count = elements;
    if (Error error = run(lead))
      return error;
    if (Error error = bench.meet())
      return error;
    Clock::time_point begin = Clock::now();
    if (Error error = run(count))
      return error;
    seconds = secondsSince(begin) /
              static_cast<double>(goesBothWays() ? 2 * count : count);
    return bench.largest(seconds);
  }

private:
  bool goesBothWays() const {
    return call.kind == MPRT_SEND || call.kind == MPRT_RECV;
  }

  /// One after the other, `count` times.
  Error run(uint64_t count) {
    for (uint64_t i = 0; i < count && !idle; ++i) {
      Error status = bench.run(call, bench.source, bench.target);
      if (!status.failed() && goesBothWays())
        status = bench.run(back, bench.source, bench.target);
      if (status.failed())
        return status;
    }
    return bench.finish();
  }

  Bench &bench;
  uint64_t ranks;
  mprt_collective call{}, back{};
  bool first = false, idle = false;
};

Error measureKind(Bench &bench, mprt_collective_kind kind,
                  const MeasuredGroup &group, double seconds,
                  MeasuredKind &measured) {
  KindBench kindBench(bench, kind, group);
  measured.kind = kind;
  measured.ranks = group.ranks;
  measured.link = group.link;
  Clock::time_point begin = Clock::now();
  std::vector<uint64_t> sizes, leads, counts;
  std::vector<unsigned> repeats;
  double planned = 0;
  for (uint64_t bytes = firstBytes; bytes <= kindBench.mostPayload();
       bytes *= factor) {
    double warm = 0, once = 0, spent = 0;
    for (double *each : {&warm, &once})
      if (Error error = kindBench.sample(bytes, 0, 1, *each))
        return error;
    sizes.push_back(bytes);
    counts.push_back(std::clamp<uint64_t>(
        static_cast<uint64_t>(sampleSeconds / std::max(once, 1e-9)), 1,
        mostInSample));
    leads.push_back(
        once > noLeadSeconds
            ? 0
            : std::clamp<uint64_t>(
                  static_cast<uint64_t>(leadSeconds / std::max(once, 1e-9)), 1,
                  mostInSample));
    repeats.push_back(once > longSeconds ? longRounds : rounds);
    planned += once * static_cast<double>((leads.back() + counts.back()) *
                                          repeats.back());
    spent = secondsSince(begin);
    if (Error error = bench.largest(spent))
      return error;
    // The next size takes some `factor` times as long.
    bool enough = sizes.size() >= 4;
    double next = factor * once;
    if (enough &&
        spent + planned +
                next * (2 + (next > longSeconds ? longRounds : rounds)) >
            seconds)
      break;
  }
  std::vector<std::vector<double>> samples(sizes.size());
  for (unsigned round = 0; round < rounds; ++round)
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (round >= repeats[i])
        continue;
      double value = 0;
      if (Error error = kindBench.sample(sizes[i], leads[i], counts[i], value))
        return error;
      samples[i].push_back(value);
    }
  for (size_t i = 0; i < sizes.size(); ++i)
    measured.points.push_back(
        {static_cast<double>(sizes[i]), medianOf(samples[i])});
  measured.line = fitLine(measured.points);
  return {};
}

} // namespace

Error mpcomm::run::measureCollectives(Bench &bench, const MeasuredGroup &group,
                                      double seconds,
                                      std::vector<MeasuredKind> &lines) {
  const mprt_collective_kind kinds[] = {MPRT_ALL_REDUCE, MPRT_REDUCE_SCATTER,
                                        MPRT_ALL_GATHER, MPRT_ALL_TO_ALL,
                                        MPRT_BROADCAST,  MPRT_SEND};
  for (mprt_collective_kind kind : kinds) {
    if (kind == MPRT_SEND && !group.sends)
      continue;
    MeasuredKind measured;
    if (Error error = measureKind(bench, kind, group,
                                  seconds / std::size(kinds), measured))
      return error;
    lines.push_back(measured);
    if (kind != MPRT_SEND)
      continue;
    lines.back().ranks = 2;
    measured.ranks = 2;
    measured.kind = MPRT_RECV;
    lines.push_back(measured);
  }
  return {};
}
