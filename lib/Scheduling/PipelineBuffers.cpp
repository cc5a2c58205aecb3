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
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/PipelineSchedule.h"
#include <algorithm>

using namespace mpcomm;

namespace {
class Run {
public:
  explicit Run(const PipelineSchedule &schedule);
  bool ends(int buffers) const;
  int most = 1; // messages of one channel

private:
  const PipelineSchedule &schedule;
  std::vector<PipelineMessage> messages;
  /// By rank and position: the message made there, and its number among those
  /// of its rank and channel; the message needed there. -1: none.
  std::vector<std::vector<int>> made, numbers, needed;
  /// By rank and channel, the messages sent.
  std::vector<std::vector<int>> sent;
};
} // namespace

Run::Run(const PipelineSchedule &schedule)
    : schedule(schedule), messages(schedule.messages()),
      sent(size_t(schedule.stages) * schedule.channels()) {
  for (const std::vector<PipelineAction> &order : schedule.ranks)
    made.emplace_back(order.size(), -1);
  numbers = needed = made;
  for (int i = 0; i < int(messages.size()); ++i) {
    const PipelineMessage &message = messages[i];
    std::vector<int> &channel =
        sent[size_t(message.sender) * schedule.channels() + message.channel];
    made[message.sender][message.made] = i;
    numbers[message.sender][message.made] = int(channel.size());
    needed[message.receiver][message.needed] = i;
    channel.push_back(i);
    most = std::max(most, int(channel.size()));
  }
}

bool Run::ends(int buffers) const {
  std::vector<int> done(schedule.stages, 0), ready;
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
        messages[sent[size_t(rank) * schedule.channels() + message.channel]
                     [number - buffers]];
    return done[before.receiver] >= before.needed - 1;
  };
  for (int rank = 0; rank < schedule.stages; ++rank)
    ready.push_back(rank);
  while (!ready.empty()) {
    int rank = ready.back();
    ready.pop_back();
    int from = done[rank];
    while (done[rank] < int(schedule.ranks[rank].size()) && mayStep(rank))
      ++done[rank];
    // A rank waits for neighbours alone.
    if (done[rank] > from)
      for (int other : {rank - 1, rank + 1})
        ready.push_back((other + schedule.stages) % schedule.stages);
  }
  for (int rank = 0; rank < schedule.stages; ++rank)
    if (done[rank] < int(schedule.ranks[rank].size()))
      return false;
  return true;
}

int PipelineSchedule::messageBuffers() const {
  Run run(*this);
  int low = 1, high = run.most; // with all of them no send is awaited
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (run.ends(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}
