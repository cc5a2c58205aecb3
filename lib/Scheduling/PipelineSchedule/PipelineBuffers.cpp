//===- PipelineBuffers.cpp - how many messages are on their way -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where a send ends together with its recv, a rank with all its buffers under
// way stands until one arrives, and ranks can wait for each other in a circle
// though the orders alone have none. What can happen does not depend on times:
// ranks only ever wait for others to come on, so advancing each as far as it
// goes reaches the end or the one state in which all stand.
//
// With more buffers than that a rank can still stand for a send that nobody
// takes yet, and the step be longer for it. When things happen follows from
// maxima and sums, in which a further buffer only takes terms away: never
// later.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/PipelineSchedule/PipelineSchedule.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace mpcomm;

static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

namespace {
class BufferRun {
public:
  explicit BufferRun(const PipelineSchedule &schedule);
  bool ends(int buffers) const;
  /// Seconds of the step, with enough buffers to end.
  double time(int buffers, const PipelineCosts &costs) const;
  int most = 1; // messages of one channel

private:
  friend class Clocks;
  const PipelineSchedule &schedule;
  std::vector<PipelineMessage> messages;
  /// By rank and position: the message made there, and its number among those
  /// of its rank and channel; the message needed there. -1: none.
  std::vector<std::vector<int>> made, numbers, needed;
  /// By rank: those that it exchanges messages with, for which alone it waits.
  std::vector<std::vector<int>> peers;
  int channels;
  /// By rank and channel, the messages sent.
  std::vector<std::vector<int>> sent;
};
} // namespace

BufferRun::BufferRun(const PipelineSchedule &schedule)
    : schedule(schedule), messages(schedule.messages()), peers(schedule.stages),
      channels(schedule.channels()), sent(size_t(schedule.stages) * channels) {
  for (int edge = 0; edge + 1 < schedule.virtualStages(); ++edge)
    if (!schedule.isLocal(edge)) {
      peers[schedule.rankOf(edge)].push_back(schedule.rankOf(edge + 1));
      peers[schedule.rankOf(edge + 1)].push_back(schedule.rankOf(edge));
    }
  for (std::vector<int> &of : peers) {
    std::sort(of.begin(), of.end());
    of.erase(std::unique(of.begin(), of.end()), of.end());
  }
  for (const std::vector<PipelineAction> &order : schedule.ranks)
    made.emplace_back(order.size(), -1);
  numbers = needed = made;
  for (int i = 0; i < int(messages.size()); ++i) {
    const PipelineMessage &message = messages[i];
    std::vector<int> &channel =
        sent[size_t(message.sender) * channels + message.channel];
    made[message.sender][message.made] = i;
    numbers[message.sender][message.made] = int(channel.size());
    needed[message.receiver][message.needed] = i;
    channel.push_back(i);
    most = std::max(most, int(channel.size()));
  }
}

namespace {
/// Ranks that may go on, each once.
class ReadyRanks {
public:
  explicit ReadyRanks(int count) : isIn(count, true) {
    for (int rank = 0; rank < count; ++rank)
      ranks.push_back(rank);
  }
  bool empty() const { return ranks.empty(); }
  int take() {
    int rank = ranks.back();
    ranks.pop_back();
    isIn[rank] = false;
    return rank;
  }
  void add(const std::vector<int> &more) {
    for (int rank : more)
      if (!isIn[rank]) {
        isIn[rank] = true;
        ranks.push_back(rank);
      }
  }

private:
  std::vector<int> ranks;
  std::vector<bool> isIn;
};
} // namespace

bool BufferRun::ends(int buffers) const {
  std::vector<int> done(schedule.stages, 0);
  // An action's recv is posted when the action ahead of it begins.
  auto mayStep = [&](int rank) {
    int position = done[rank];
    if (int i = needed[rank][position]; i >= 0)
      if (done[messages[i].sender] <= messages[i].made)
        return false;
    int number = numbers[rank][position];
    if (number < buffers)
      return true;
    const PipelineMessage &message = messages[made[rank][position]];
    const PipelineMessage &before =
        messages[sent[size_t(rank) * channels + message.channel]
                     [number - buffers]];
    return done[before.receiver] >= before.needed - 1;
  };
  ReadyRanks ready(schedule.stages);
  while (!ready.empty()) {
    int rank = ready.take();
    int from = done[rank];
    while (done[rank] < int(schedule.ranks[rank].size()) && mayStep(rank))
      ++done[rank];
    if (done[rank] > from)
      ready.add(peers[rank]);
  }
  for (int rank = 0; rank < schedule.stages; ++rank)
    if (done[rank] < int(schedule.ranks[rank].size()))
      return false;
  return true;
}

namespace {
/// Ranks that go on, each in its own time.
class Clocks {
public:
  Clocks(const BufferRun &run, int buffers, const PipelineCosts &costs)
      : run(run), costs(costs), buffers(buffers), ranks(run.schedule.stages),
        sent(run.messages.size(), unknown), posted(sent), arrived(sent) {}
  double finish();

private:
  struct Rank {
    double now = 0;
    int position = 0;
    enum { Begins, Receives, Sends } next = Begins;
  };
  bool step(int rank);
  void post(int rank, int position);
  double arrival(int message);
  /// The message that `message` must not be more than `by` ahead of.
  int before(int message, int by) const;

  const BufferRun &run;
  const PipelineCosts &costs;
  int buffers;
  std::vector<Rank> ranks;
  /// By message: when its send and its recv start, and when both end.
  std::vector<double> sent, posted, arrived;
};
} // namespace

int Clocks::before(int message, int by) const {
  const PipelineMessage &is = run.messages[message];
  int number = run.numbers[is.sender][is.made];
  return number < by ? -1
                     : run.sent[size_t(is.sender) * run.channels + is.channel]
                               [number - by];
}

void Clocks::post(int rank, int position) {
  if (position < int(run.needed[rank].size()))
    if (int message = run.needed[rank][position]; message >= 0)
      posted[message] = ranks[rank].now;
}

/// Unknown where one of the two has not come to it.
double Clocks::arrival(int message) {
  if (!std::isnan(arrived[message]))
    return arrived[message];
  double first = 0;
  if (int ahead = before(message, 1); ahead >= 0)
    first = arrived[ahead];
  if (std::isnan(first) || std::isnan(sent[message]) ||
      std::isnan(posted[message]))
    return unknown;
  const PipelineMessage &is = run.messages[message];
  return arrived[message] = std::max({first, sent[message], posted[message]}) +
                            costs.transfer(is.edge, is.backward);
}

/// Whether the rank could go on.
bool Clocks::step(int index) {
  Rank &rank = ranks[index];
  const std::vector<PipelineAction> &order = run.schedule.ranks[index];
  if (rank.position == int(order.size()))
    return false;
  if (rank.next == Rank::Begins) {
    if (rank.position == 0)
      post(index, 0);
    post(index, rank.position + 1);
    rank.next = Rank::Receives;
    return true;
  }
  if (rank.next == Rank::Receives) {
    if (int message = run.needed[index][rank.position]; message >= 0) {
      double at = arrival(message);
      if (std::isnan(at))
        return false;
      rank.now = std::max(rank.now, at);
    }
    const PipelineAction &action = order[rank.position];
    rank.now += costs.seconds(action.kind, action.stage);
    rank.next = Rank::Sends;
    return true;
  }
  if (int message = run.made[index][rank.position]; message >= 0) {
    if (int ahead = before(message, buffers); ahead >= 0) {
      double at = arrival(ahead);
      if (std::isnan(at))
        return false;
      rank.now = std::max(rank.now, at);
    }
    sent[message] = rank.now;
  }
  rank.next = Rank::Begins;
  ++rank.position;
  return true;
}

double Clocks::finish() {
  int count = int(ranks.size());
  ReadyRanks ready(count);
  while (!ready.empty()) {
    int rank = ready.take();
    bool moved = false;
    while (step(rank))
      moved = true;
    if (moved)
      ready.add(run.peers[rank]);
  }
  double seconds = 0;
  for (int rank = 0; rank < count; ++rank)
    seconds = std::max(seconds, ranks[rank].now + costs.afterOf(rank));
  return seconds;
}

double BufferRun::time(int buffers, const PipelineCosts &costs) const {
  return Clocks(*this, buffers, costs).finish();
}

/// The least number in [low, high] that will do, as all above it will.
template <typename Fn> static int findLeast(int low, int high, Fn isEnough) {
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (isEnough(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

int PipelineSchedule::messageBuffers() const {
  BufferRun run(*this);
  // With all of them no send is awaited.
  return findLeast(1, run.most, [&](int n) { return run.ends(n); });
}

int PipelineSchedule::fastBuffers(const PipelineCosts &costs) const {
  BufferRun run(*this);
  double least = run.time(run.most, costs) * (1 + 1e-9);
  return findLeast(messageBuffers(), run.most,
                   [&](int n) { return run.time(n, costs) <= least; });
}
