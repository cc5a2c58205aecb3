//===- SessionAdapt.cpp - sessions that adjust their plan -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every so many steps ranks tell one another what they have measured, look at
// it (adapt/Monitor.h), and each decides what all decide (adapt/Policy.h).
//
//===----------------------------------------------------------------------===//

#include "session/Session.h"

#include "support/Trace.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace mprt;
using Json = nlohmann::ordered_json;

/// Of a function with more collectives, those with the most bytes are looked
/// at one by one.
static constexpr size_t mostCollectives = 64;
/// Transfers that take so many times as long as when the links were measured
/// are a reason to measure them again.
static constexpr double probeFactor = 1.5;

/// The collectives that are looked at one by one, in the order of the manifest.
static std::vector<const ManifestCollective *>
watchedOf(const ManifestFunction *function) {
  std::vector<const ManifestCollective *> all;
  if (!function)
    return all;
  for (const ManifestCollective &collective : function->collectives)
    all.push_back(&collective);
  if (all.size() > mostCollectives) {
    std::sort(all.begin(), all.end(), [](auto *a, auto *b) {
      return a->bytes != b->bytes ? a->bytes > b->bytes : a < b;
    });
    all.resize(mostCollectives);
    std::sort(all.begin(), all.end());
  }
  return all;
}

//===----------------------------------------------------------------------===//
// What ranks tell one another
//===----------------------------------------------------------------------===//

/// Every rank's times. Rank 0 also says how many bytes a new plan has, 0
/// without one.
static Expected<std::vector<RankTimes>> exchange(Rank &rank,
                                                 const Manifest &manifest,
                                                 const RankTimes &mine,
                                                 size_t &planBytes) {
  constexpr size_t fixed = 5;
  std::vector<size_t> counts;
  for (size_t r = 0; r < rank.size(); ++r)
    counts.push_back(watchedOf(manifest.find("train_step", r)).size());
  size_t each = fixed + 2 * *std::max_element(counts.begin(), counts.end());
  std::vector<double> sent = {mine.step, mine.exposed, mine.compute, mine.busy,
                              double(planBytes)};
  sent.insert(sent.end(), mine.busyOf.begin(), mine.busyOf.end());
  sent.insert(sent.end(), mine.waitedOf.begin(), mine.waitedOf.end());
  sent.resize(each);
  std::vector<double> all(each * rank.size());
  if (Error error = rank.gather(sent.data(), all.data(), each * sizeof(double)))
    return error;
  planBytes = size_t(all[fixed - 1]);
  std::vector<RankTimes> ranks;
  for (size_t r = 0; r < rank.size(); ++r) {
    const double *its = &all[r * each];
    const double *busy = its + fixed, *waited = busy + counts[r];
    ranks.push_back({its[0], its[1], its[2], its[3],
                     std::vector<double>(busy, busy + counts[r]),
                     std::vector<double>(waited, waited + counts[r])});
  }
  return ranks;
}

/// What a message takes from this rank to the next: the shorter of two, each
/// until its receiver has answered.
static Error probe(Rank &rank, unsigned from, unsigned to, double &seconds) {
  std::vector<char> message(probeBytes);
  const char *what = "measuring a link";
  for (int round = 0; round < 2; ++round) {
    uint64_t begin = nowNanoseconds();
    if (rank.index() == from) {
      if (Error error = rank.send(to, message.data(), probeBytes, what))
        return error;
      if (Error error = rank.receive(to, message.data(), 1, what))
        return error;
      double taken = 1e-9 * double(nowNanoseconds() - begin);
      seconds = round ? std::min(seconds, taken) : taken;
    } else if (rank.index() == to) {
      if (Error error = rank.receive(from, message.data(), probeBytes, what))
        return error;
      if (Error error = rank.send(from, message.data(), 1, what))
        return error;
    }
  }
  return {};
}

/// The links from each rank to the next. No rank is at two of them at a time.
static Expected<std::vector<LinkTime>> measureLinks(Rank &rank) {
  unsigned size = rank.size();
  double mine = 0;
  for (unsigned phase = 0; phase < 3; ++phase)
    for (unsigned from = 0; from < size; ++from) {
      bool isLast = from + 1 == size && size % 2;
      if ((isLast ? 2 : from % 2) == phase)
        if (Error error = probe(rank, from, (from + 1) % size, mine))
          return error;
    }
  std::vector<double> all(size);
  if (Error error = rank.gather(&mine, all.data(), sizeof(mine)))
    return error;
  std::vector<LinkTime> links;
  for (unsigned from = 0; from < size; ++from)
    links.push_back({from, (from + 1) % size, all[from]});
  return links;
}

//===----------------------------------------------------------------------===//
// Session
//===----------------------------------------------------------------------===//

Error Session::adapt(const Expected<std::optional<AdaptOptions>> &given) {
  if (Error error = checkReady())
    return error;
  if (Error error = agree(given.error()))
    return error;
  const std::optional<AdaptOptions> &options = *given;
  if (rank->device().isAsynchronous())
    return Error(MPRT_UNSUPPORTED, "adapting on a GPU, where steps do not tell "
                                   "what they have waited for");
  struct Wanted {
    uint64_t isOn, every, leastBits, onlyWatches, budget;
    double gain;
  } mine = {};
  if (options)
    mine = {1,
            options->every,
            options->leastBits,
            options->onlyWatches,
            options->policy.budget,
            options->policy.gain};
  std::vector<Wanted> all(rank->size());
  if (Error error = rank->gather(&mine, all.data(), sizeof(mine)))
    return failed(error);
  for (size_t other = 1; other < all.size(); ++other)
    if (std::memcmp(&all[other], &all[0], sizeof(Wanted)))
      return fail("rank ", other, " adapts by other options than rank 0");
  adaptation.reset();
  if (options) {
    adaptation.emplace();
    adaptation->options = *options;
    if (const auto &graph = manifestOf().graph)
      adaptation->numerics = *graph;
    if (index() == 0 && !options->planCommand.empty() && !options->onlyWatches)
      adaptation->agent = std::make_unique<Agent>(options->planCommand);
    findPlans();
  }
  rank->context().watchCollectives(adaptation.has_value());
  return {};
}

bool Session::mayChoose(const Manifest &manifest, bool isOfOneFile) const {
  auto isSame = [](const ManifestAxis &a, const ManifestAxis &b) {
    return a.name == b.name && a.size == b.size;
  };
  return manifest.forecast && manifest.graph &&
         std::equal(manifest.axes.begin(), manifest.axes.end(),
                    manifestOf().axes.begin(), manifestOf().axes.end(),
                    isSame) &&
         isAllowed(adaptation->numerics, *manifest.graph,
                   adaptation->options.leastBits, isOfOneFile);
}

bool Session::mayChoose(size_t number) const {
  const Program &program = *programs[number].program;
  return mayChoose(program.manifest(),
                   program.digest() == programs[current].program->digest());
}

void Session::findPlans() {
  Adaptation &my = *adaptation;
  my.programs.clear();
  my.policy.reset();
  if (!mayChoose(current))
    return;
  my.programs.push_back(current);
  my.policy.emplace(
      my.options.policy,
      std::vector{PolicyPlan{nameOfPlan(current), *manifestOf().forecast}}, 0);
  for (size_t number = 0; number < programs.size(); ++number)
    if (number != current)
      addPlan(number);
}

void Session::addPlan(size_t number) {
  if (!adaptation || !adaptation->policy || adaptation->options.onlyWatches ||
      !mayChoose(number))
    return;
  adaptation->programs.push_back(number);
  adaptation->policy->add(
      {nameOfPlan(number), *programs[number].program->manifest().forecast});
}

const std::string &Session::nameOfPlan(size_t number) const {
  const LoadedProgram &loaded = programs[number];
  return loaded.planName.empty() ? loaded.program->variant() : loaded.planName;
}

void Session::watchPlan() {
  rank->context().watchCollectives(adaptation.has_value());
  if (!adaptation)
    return;
  adaptation->times.clear();
  std::vector<size_t> &known = adaptation->programs;
  auto found = std::find(known.begin(), known.end(), current);
  if (adaptation->policy && found != known.end())
    adaptation->policy->use(size_t(found - known.begin()));
  else
    findPlans();
}

Error Session::noteStep(double seconds, double exposed) {
  if (!adaptation)
    return {};
  adaptation->times.add(seconds, exposed,
                        rank->context().takeCollectiveTimes());
  return adaptation->times.steps() < adaptation->options.every ? Error()
                                                               : review();
}

void Session::pollAgent() {
  Adaptation &my = *adaptation;
  if (!my.agent)
    return;
  Expected<std::optional<std::string>> made = my.agent->poll();
  if (!made) {
    // Once: what was wrong will be wrong again.
    emit(MPCOMM_EVENT_NETWORK, made.message());
    my.agent.reset();
  } else if (*made) {
    my.plan = std::move(**made);
  }
}

void Session::askForPlan() {
  Adaptation &my = *adaptation;
  double bandwidth = my.policy->bandwidth();
  auto isNear = [&](double other) {
    return other < planFactor * bandwidth && bandwidth < planFactor * other;
  };
  if (!my.agent || my.agent->isBusy() || my.askedFor.size() >= mostPlans ||
      std::any_of(my.askedFor.begin(), my.askedFor.end(), isNear))
    return;
  for (const PolicyPlan &plan : my.policy->plans())
    if (isNear(plannedBandwidth(plan.forecast)))
      return;
  my.askedFor.push_back(bandwidth);
  Expected<std::string> cluster = clusterAt(*manifestOf().forecast, bandwidth);
  Error error = cluster ? my.agent->start(*cluster) : cluster.error();
  if (error) {
    emit(MPCOMM_EVENT_NETWORK, error.message());
    my.agent.reset();
  }
}

Error Session::takePlan(size_t bytes) {
  Adaptation &my = *adaptation;
  std::string plan = std::exchange(my.plan, {});
  const char *what = "a plan made for this network";
  plan.resize(bytes);
  for (unsigned to = 1; to < rank->size(); ++to) {
    Error error;
    if (index() == 0)
      error = rank->send(to, plan.data(), bytes, what);
    else if (index() == to)
      error = rank->receive(0, plan.data(), bytes, what);
    if (error)
      return failed(error);
  }
  std::string name = concat("measured-", ++my.plansMade);
  Expected<OpenProgram> opened = fail("no folder");
  if (!my.folder)
    if (auto made = WorkFolder::create())
      my.folder = made.take();
  if (my.folder) {
    std::string path = my.folder->path() + "/" + name + ".so";
    std::ofstream(path, std::ios::binary) << plan;
    opened = OpenProgram::open(path);
  }
  if (opened && !mayChoose(opened->program->manifest()))
    opened = fail("it has other options than the job, or no forecast");
  uint32_t number = 0;
  Error error = load(opened, 0, number, name);
  if (error && failure)
    return failure;
  if (error) {
    // The next plan would be no better.
    my.agent.reset();
    emit(MPCOMM_EVENT_NETWORK,
         concat("a plan made for this network cannot be used: ",
                error.message()));
  }
  return {};
}

Error Session::look() {
  Adaptation &my = *adaptation;
  pollAgent();
  std::vector<uint32_t> ids;
  for (const ManifestCollective *collective : watchedOf(find("train_step")))
    ids.push_back(uint32_t(collective->id));
  size_t planBytes = my.plan.size();
  Expected<std::vector<RankTimes>> ranks =
      exchange(*rank, manifestOf(), my.times.take(ids), planBytes);
  if (!ranks)
    return ranks.error();
  my.ranks = ranks.take();
  if (planBytes)
    if (Error error = takePlan(planBytes))
      return error;
  std::vector<unsigned> group;
  std::map<const ManifestFunction *, unsigned> numbers;
  for (size_t r = 0; r < rank->size(); ++r)
    group.push_back(numbers
                        .emplace(manifestOf().find("train_step", r),
                                 unsigned(numbers.size()))
                        .first->second);
  my.view = lookAt(my.ranks, group, index());
  my.reviewedAt = steps;
  my.reviewed = find("train_step");
  if (my.probedProgram != current ||
      my.view.communication < my.probedAt / probeFactor)
    my.probedAt = 0;
  bool isSlower = my.view.communication > probeFactor * my.probedAt;
  if (rank->size() > 2 && isSlower) {
    Expected<std::vector<LinkTime>> links = measureLinks(*rank);
    if (!links)
      return links.error();
    my.links = links.take();
    if (auto slow = findSlowLink(my.links))
      emit(MPCOMM_EVENT_NETWORK,
           concat(mprt::describe(*slow), slow->rank ? " are" : " is", " slow: ",
                  1e3 * slow->link.seconds, " ms for ", probeBytes, " bytes"));
  }
  if (isSlower) {
    my.probedAt = my.view.communication;
    my.probedProgram = current;
  }
  bool isSure = my.view.straggler == my.lastStraggler;
  my.lastStraggler = my.view.straggler;
  if (isSure && my.view.straggler && my.view.straggler != my.saidStraggler)
    emit(MPCOMM_EVENT_NETWORK,
         concat("rank ", *my.view.straggler, " is slow: the others wait ",
                1e3 * my.view.lateness, " ms for it in a step of ",
                1e3 * my.view.step, " ms"),
         1e3 * my.view.lateness);
  if (isSure)
    my.saidStraggler = my.view.straggler;
  return {};
}

Error Session::review() {
  uint64_t begin = nowNanoseconds();
  Error error = decide();
  if (adaptation)
    adaptation->reviewSeconds = 1e-9 * double(nowNanoseconds() - begin);
  return error;
}

Error Session::decide() {
  Adaptation &my = *adaptation;
  if (Error error = look())
    return failed(error);
  my.decision.clear();
  if (!my.policy)
    return {};
  PolicyDecision decision = my.policy->review(
      {steps, my.view.step, my.view.compute, my.view.communication});
  askForPlan();
  // All have decided the same, unless their machines round otherwise.
  std::vector<uint64_t> all(rank->size());
  uint64_t mine = decision.plan;
  if (Error error = rank->gather(&mine, all.data(), sizeof(mine)))
    return failed(error);
  my.policy->use(size_t(all[0]));
  size_t chosen = my.programs[size_t(all[0])];
  if (chosen == current)
    return {};
  my.decision = decision.reason;
  ++my.switches;
  emit(MPCOMM_EVENT_ADAPTED, decision.reason);
  // The results of this step stay where they are.
  const ManifestFunction *called = lastCalled;
  if (Error error = switchTo(uint32_t(chosen))) {
    if (failure)
      return failure;
    // State that only the other plan has is old: it is none for this job.
    emit(MPCOMM_EVENT_NETWORK, error.message());
    my.programs.clear();
    my.policy.reset();
  }
  lastCalled = called;
  return {};
}

Error Session::network(const char *&json) {
  if (!adaptation)
    return Error(MPRT_NOT_READY, "the session does not adapt");
  Adaptation &my = *adaptation;
  if (my.reviewedAt == 0)
    return Error(MPRT_NOT_READY, "there was no review yet");
  const NetworkView &view = my.view;
  auto milliseconds = [](double seconds) { return 1e3 * seconds; };
  Json ranks = Json::array(), collectives = Json::array(),
       plans = Json::array(), links = Json::array();
  for (size_t r = 0; r < my.ranks.size(); ++r)
    ranks.push_back({{"rank", r},
                     {"milliseconds", milliseconds(my.ranks[r].step)},
                     {"compute", milliseconds(my.ranks[r].compute)},
                     {"exposed", milliseconds(my.ranks[r].exposed)},
                     {"waited", milliseconds(view.waited[r])}});
  const RankTimes &own = my.ranks[index()];
  auto watched = watchedOf(my.reviewed);
  for (size_t i = 0; i < watched.size(); ++i)
    collectives.push_back({{"id", watched[i]->id},
                           {"kind", watched[i]->kind},
                           {"name", watched[i]->name},
                           {"bytes", watched[i]->bytes},
                           {"transfer", milliseconds(view.transferOf[i])},
                           {"late", milliseconds(view.lateOf[i])},
                           {"exposed", milliseconds(own.waitedOf[i])}});
  for (size_t i = 0; my.policy && i < my.programs.size(); ++i)
    plans.push_back({{"name", my.policy->plans()[i].name},
                     {"milliseconds", milliseconds(my.policy->expected()[i])},
                     {"current", my.programs[i] == current}});
  for (const LinkTime &link : my.links)
    links.push_back({{"from", link.from},
                     {"to", link.to},
                     {"milliseconds", milliseconds(link.seconds)}});
  Json all = {{"step", my.reviewedAt},
              {"milliseconds", milliseconds(view.step)},
              {"compute", milliseconds(view.compute)},
              {"exposed", milliseconds(view.exposed)},
              {"communication", milliseconds(view.communication)},
              {"bandwidth", nullptr},
              {"straggler", nullptr},
              {"late", milliseconds(view.lateness)},
              {"review", milliseconds(my.reviewSeconds)},
              {"slow_link", nullptr},
              {"slow_links_of", nullptr},
              {"switches", my.switches},
              {"decision", my.decision},
              {"ranks", ranks},
              {"collectives", collectives},
              {"plans", plans},
              {"links", links}};
  if (my.policy)
    all["bandwidth"] = my.policy->bandwidth();
  if (view.straggler)
    all["straggler"] = *view.straggler;
  if (auto slow = findSlowLink(my.links)) {
    all["slow_link"] = {slow->link.from, slow->link.to};
    if (slow->rank)
      all["slow_links_of"] = *slow->rank;
  }
  my.text = all.dump(-1, ' ', false, Json::error_handler_t::replace);
  json = my.text.c_str();
  return {};
}
