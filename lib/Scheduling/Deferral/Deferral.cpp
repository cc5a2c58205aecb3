//===- Deferral.cpp - reductions that end in the next step ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/Deferral/Deferral.h"
#include <algorithm>
#include <numeric>

using namespace mpcomm;

static constexpr size_t kMostTried = 32;

/// The numbers of all items, in the order of a member.
static std::vector<size_t> orderBy(const std::vector<DeferralItem> &items,
                                   double DeferralItem::*member) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return items[a].*member < items[b].*member;
  });
  return order;
}

/// The same, with both orders given.
static double simulate(const std::vector<DeferralItem> &items,
                       const std::vector<size_t> &byNeed,
                       const std::vector<size_t> &byReady,
                       const std::vector<bool> &isDeferred, double compute) {
  // Compute is late by `stall`, from the point `since` of its clock on.
  std::vector<std::pair<double, double>> stalls;
  double link = 0, stall = 0;
  for (size_t i : byNeed) {
    if (!isDeferred[i])
      continue;
    link += items[i].seconds;
    if (link > items[i].needed + stall) {
      stall = link - items[i].needed;
      stalls.push_back({items[i].needed, stall});
    }
  }
  auto at = stalls.begin();
  double late = 0;
  for (size_t i : byReady) {
    if (isDeferred[i])
      continue;
    for (; at != stalls.end() && at->first < items[i].ready; ++at)
      late = at->second;
    link = std::max(link, items[i].ready + late) + items[i].seconds;
  }
  return std::max(link, compute + stall);
}

double mpcomm::simulateDeferral(const std::vector<DeferralItem> &items,
                                const std::vector<bool> &isDeferred,
                                double compute) {
  return simulate(items, orderBy(items, &DeferralItem::needed),
                  orderBy(items, &DeferralItem::ready), isDeferred, compute);
}

DeferralChoice mpcomm::chooseDeferral(const std::vector<DeferralItem> &items,
                                      double compute) {
  std::vector<size_t> byNeed = orderBy(items, &DeferralItem::needed);
  std::vector<size_t> byReady = orderBy(items, &DeferralItem::ready);
  size_t count = items.size();
  std::vector<bool> best(count, false);
  DeferralChoice choice;
  choice.before = choice.after =
      simulate(items, byNeed, byReady, best, compute);
  int64_t least = 0;
  size_t tries = std::max<size_t>(std::min(count, kMostTried), 1);
  for (size_t a = 0; a <= tries; ++a)
    for (size_t b = 0; a + b <= tries; ++b) {
      size_t first = a * count / tries, last = b * count / tries;
      std::vector<bool> isDeferred(count, false);
      int64_t bytes = 0;
      for (size_t i = 0; i < count; ++i) {
        if (i >= first && i < count - last)
          continue;
        isDeferred[byNeed[i]] = true;
        bytes += items[byNeed[i]].bytes;
      }
      double seconds = simulate(items, byNeed, byReady, isDeferred, compute);
      if (seconds > choice.after || (seconds == choice.after && bytes >= least))
        continue;
      choice.after = seconds;
      least = bytes;
      best = std::move(isDeferred);
    }
  for (size_t item : byNeed)
    if (best[item])
      choice.items.push_back(item);
  return choice;
}

DeferralChoice mpcomm::takeDeferral(const std::vector<DeferralItem> &items,
                                    double compute, int64_t bytes) {
  std::vector<bool> isDeferred(items.size(), false);
  DeferralChoice choice;
  choice.before = simulateDeferral(items, isDeferred, compute);
  int64_t taken = 0;
  for (size_t item : orderBy(items, &DeferralItem::needed)) {
    if (taken >= bytes)
      break;
    taken += items[item].bytes;
    isDeferred[item] = true;
    choice.items.push_back(item);
  }
  choice.after = simulateDeferral(items, isDeferred, compute);
  return choice;
}
