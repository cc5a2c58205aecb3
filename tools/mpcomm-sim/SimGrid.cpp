//===- SimGrid.cpp - the same step on a network of flows ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every rank is simulated, every flow routed over the links of the tree, and
// links are shared max-min fairly (SimGrid's CM02 without its corrections for
// TCP, since costs are measured or modelled above TCP).
//
//===----------------------------------------------------------------------===//

#include "SimGrid.h"
#include <simgrid/s4u.hpp>

using namespace mpcomm;
namespace sg4 = simgrid::s4u;

bool mpcomm::hasSimGrid() { return true; }

namespace {
/// What the actors of all hosts share.
struct SimRun {
  const SimProblem &problem;
  const SimGridOptions &options;
  SimGridResult result;
  std::vector<sg4::Host *> hosts;
};

/// The streams of one rank: the compute stream fills the queues, an actor of
/// each communicator empties its own.
struct Rank {
  explicit Rank(size_t streams, size_t collectives)
      : queues(streams), queued(streams), ended(collectives) {
    for (auto &semaphore : queued)
      semaphore = sg4::Semaphore::create(0);
    for (auto &semaphore : ended)
      semaphore = sg4::Semaphore::create(0);
  }
  std::vector<std::vector<int>> queues;
  std::vector<sg4::SemaphorePtr> queued, ended;
};
} // namespace

/// One collective as rank `me` takes part in it.
static void communicate(SimRun &run, int me, int k) {
  const SimCollective &made = run.problem.classes[0].collectives[k];
  int size = int(run.hosts.size());
  if (made.link != run.options.link || size == 1) {
    sg4::this_actor::sleep_for(made.seconds());
    return;
  }
  int rounds = run.options.rounds;
  double bytes = made.transfer * run.options.bandwidth / rounds;
  for (int round = 0; round < rounds; ++round) {
    sg4::this_actor::sleep_for(made.latency / rounds);
    if (bytes < 1)
      continue;
    int distance =
        run.options.isDirect[k] ? 1 + round * (size - 1) / rounds : 1;
    // Between hosts, by one mailbox for each stream and direction.
    auto mailbox = [&](int from, int to) {
      return sg4::Mailbox::by_name(std::to_string(made.communicator) + ":" +
                                   std::to_string(from) + ">" +
                                   std::to_string(to));
    };
    static int token;
    int *received = nullptr;
    int to = (me + distance) % size, from = (me + size - distance) % size;
    sg4::CommPtr send = mailbox(me, to)->put_async(&token, uint64_t(bytes));
    sg4::CommPtr receive = mailbox(from, me)->get_async<int>(&received);
    send->wait();
    receive->wait();
  }
}

static void runStream(SimRun &run, std::shared_ptr<Rank> rank, int me,
                      int stream, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    rank->queued[stream]->acquire();
    int k = rank->queues[stream][i];
    if (me == 0)
      run.result.start[k] = sg4::Engine::get_clock();
    communicate(run, me, k);
    if (me == 0)
      run.result.end[k] = sg4::Engine::get_clock();
    rank->ended[k]->release();
  }
}

static void runCompute(SimRun &run, std::shared_ptr<Rank> rank) {
  const SimProgram &program = run.problem.classes[0];
  double pending = 0; // computation since the last start or await
  auto settle = [&] {
    if (pending > 0)
      sg4::this_actor::sleep_for(pending);
    pending = 0;
  };
  for (const RankInstruction &instruction : program.instructions) {
    if (instruction.kind == RankInstruction::Compute) {
      pending += instruction.seconds;
      continue;
    }
    settle();
    int k = instruction.collective;
    if (instruction.kind == RankInstruction::Start) {
      int stream = program.collectives[k].communicator;
      rank->queues[stream].push_back(k);
      rank->queued[stream]->release();
    } else {
      rank->ended[k]->acquire();
    }
  }
  settle();
}

SimGridResult mpcomm::simulateOnSimGrid(const SimProblem &problem,
                                        const SimGridOptions &options) {
  SimRun run{problem, options, {}, {}};
  const SimProgram &program = problem.classes[0];
  run.result.start.resize(program.collectives.size());
  run.result.end.resize(program.collectives.size());
  int64_t leaf = std::min<int64_t>(options.hostsPerSwitch, options.hosts);
  if (options.hosts % leaf) {
    run.result.error = "expects whole switches of " + std::to_string(leaf) +
                       " ranks, got " + std::to_string(options.hosts) +
                       " ranks";
    return run.result;
  }
  try {
    static char name[] = "mpcomm-sim", log[] = "--log=root.threshold:error";
    static char *arguments[] = {name, log, nullptr};
    int count = 2;
    sg4::Engine engine(&count, arguments);
    sg4::Engine::set_config("network/model:CM02");
    sg4::Engine::set_config("network/TCP-gamma:0");
    sg4::Engine::set_config("network/crosstraffic:0");
    sg4::Engine::set_config("network/optim:Full");
    sg4::Engine::set_config("contexts/stack-size:64");
    unsigned down = unsigned(leaf), leaves = unsigned(options.hosts / leaf);
    unsigned up =
        unsigned(std::max<int64_t>(1, leaf / options.oversubscription));
    sg4::FatTreeParams tree =
        leaves == 1 ? sg4::FatTreeParams(1, {down}, {1}, {1})
                    : sg4::FatTreeParams(2, {down, leaves}, {1, up}, {1, 1});
    auto host = [&](sg4::NetZone *zone, const std::vector<unsigned long> &,
                    unsigned long id)
        -> std::pair<simgrid::kernel::routing::NetPoint *,
                     simgrid::kernel::routing::NetPoint *> {
      sg4::Host *made =
          zone->create_host("rank" + std::to_string(id), 1e9)->seal();
      run.hosts.push_back(made);
      return {made->get_netpoint(), nullptr};
    };
    sg4::create_fatTree_zone("tree", nullptr, tree, sg4::ClusterCallbacks(host),
                             options.bandwidth, 0,
                             sg4::Link::SharingPolicy::SPLITDUPLEX)
        ->seal();

    std::vector<size_t> counts(problem.communicators.size());
    for (const SimCollective &made : program.collectives)
      ++counts[made.communicator];
    for (int me = 0; me < int(run.hosts.size()); ++me) {
      auto rank =
          std::make_shared<Rank>(counts.size(), program.collectives.size());
      for (int s = 0; s < int(counts.size()); ++s)
        if (counts[s] > 0)
          sg4::Actor::create("stream", run.hosts[me],
                             [&run, rank, me, s, count = counts[s]] {
                               runStream(run, rank, me, s, count);
                             });
      sg4::Actor::create("compute", run.hosts[me],
                         [&run, rank] { runCompute(run, rank); });
    }
    engine.run();
    run.result.seconds = sg4::Engine::get_clock();
  } catch (const std::exception &error) {
    run.result.error = std::string("simgrid: ") + error.what();
  }
  return run.result;
}
