//===- Adaptation.cpp - how a session is to adapt -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/adapt/Adaptation.h"

using namespace mprt;

/// The fewest bits of `numerics`: "exact", the narrowest wire, or "low-rank".
static Expected<unsigned> leastBitsOf(const std::string &numerics) {
  std::string names;
  for (const char *name : {"exact", "bf16", "f16", "i8", "f8E4M3FN", "f8E5M2",
                           "i4", "i1", "low-rank"}) {
    // Neither "exact" nor "low-rank" has a digit.
    if (numerics == name)
      return numerics == "low-rank" ? 0 : wireBits(name);
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return fail("options: numerics '", printable(numerics), "', expected one of ",
              names);
}

Expected<AdaptOptions> AdaptOptions::from(const mpcomm_adapt_options &given) {
  AdaptOptions options;
  if (given.every)
    options.every = given.every;
  options.onlyWatches = given.only_watch;
  if (!(given.gain >= 0 && given.gain < 1))
    return fail("options: a gain of ", given.gain,
                ", expected at least 0 and less than 1");
  if (given.gain > 0)
    options.policy.gain = given.gain;
  if (given.budget)
    options.policy.budget = given.budget;
  if (given.plan_command)
    options.planCommand = given.plan_command;
  Expected<unsigned> bits =
      leastBitsOf(given.numerics ? given.numerics : "exact");
  if (!bits)
    return bits.error();
  options.leastBits = *bits;
  return options;
}
