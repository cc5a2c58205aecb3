//===- Agreement.h - what ranks must have in common -----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks that another launcher starts each have a command line and files of
// their own. Whatever decides what is computed, or when ranks communicate, must
// be the same on all of them: otherwise they train something that nobody asked
// for, or wait for one another. So each lists it as texts, and before the first
// step the lists are compared. What concerns one rank alone, such as where its
// log goes, is not in the list. Sessions compare state.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_LAUNCH_AGREEMENT_H
#define MPCOMM_RUN_LAUNCH_AGREEMENT_H

#include "launch/TrainingJob.h"

#include <optional>
#include <string>
#include <vector>

namespace mpcomm::run {

/// Something that all ranks have in common. An option that is not given has no
/// value; a flag that is given has an empty one.
struct SharedSetting {
  std::string name;
  std::optional<std::string> value;
  bool operator==(const SharedSetting &) const = default;
};

/// What `job` has of that, in the order in which differences are told: causes
/// before what follows from them.
std::vector<SharedSetting> sharedSettingsOf(const TrainingJob &job);

/// The first difference between rank 0's settings and those of `rank`, which
/// differ, and the names of the others.
std::string describeDifference(const std::vector<SharedSetting> &first,
                               const std::vector<SharedSetting> &other,
                               uint64_t rank);

/// What ranks that measure have of it, other than those that train.
std::vector<SharedSetting> sharedSettingsOf(const RunOptions &options);

/// Succeeds where all ranks have the same settings; otherwise fails on all of
/// them, and rank 0 says what differs on the first rank that differs from it.
/// All ranks call it.
Error agreeOn(const std::vector<SharedSetting> &mine,
              const RunSession &session);

/// Rank 0 writes --trace, --timeline and --profile, and all ranks help: they
/// do where rank 0 has the option, whatever they were given. Sets
/// `job.outputs`. All ranks call it.
Error shareOutputs(TrainingJob &job, const RunSession &session);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_LAUNCH_AGREEMENT_H
