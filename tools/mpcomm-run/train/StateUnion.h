//===- StateUnion.h - the state of all ranks in one file ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks that run one function hold the same state; those that run different
// ones, the stages of a pipeline, each hold a part of it, and what several
// stages hold is the same in each. A file has all of it once, by name, so that
// it fits the same model however that is cut. StateSurvey.h compares what ranks
// hold before it is written.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_TRAIN_STATEUNION_H
#define MPCOMM_RUN_TRAIN_STATEUNION_H

#include "launch/Rank.h"
#include "launch/TrainingJob.h"

#include <map>
#include <string>
#include <vector>

namespace mpcomm::run {

/// A tensor of the state, and who holds it.
struct SharedTensor {
  std::string name;
  DType type = MPRT_F32;
  Shape shape;
  /// All ranks that hold it, ascending. The first is of the first data rank,
  /// and gives it to a file.
  std::vector<uint64_t> holders;
  uint64_t owner() const { return holders.front(); }
  /// Of its bytes, on the owner.
  uint64_t checksum = 0;
};

/// The state of all ranks, each tensor once: by owner and then in the order of
/// arguments; without `optimizer`, parameters and buffers only.
std::vector<SharedTensor> unionOfState(const TrainingJob &job, bool optimizer);

/// Replaces `path` by `tensors`, with their checksums. All ranks call it; rank
/// 0 writes, the others send it what they own. Fails on every rank where one
/// rank fails.
Status writeUnion(const std::string &path, const TrainingJob &job, Rank &rank,
                  std::vector<SharedTensor> tensors,
                  const std::map<std::string, std::string> &metadata);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_TRAIN_STATEUNION_H
