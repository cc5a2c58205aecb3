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
// it fits the same model however that is cut.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_STATEUNION_H
#define MPCOMM_RUN_STATEUNION_H

#include "Job.h"
#include "Rank.h"

#include <map>
#include <string>
#include <vector>

namespace mpcomm::run {

/// A tensor of the state, and the lowest rank that holds it.
struct SharedTensor {
  std::string name;
  DType type = DType::F32;
  Shape shape;
  uint64_t owner = 0;
  /// Ranks that run different functions and all hold it.
  std::vector<uint64_t> holders;
};

/// What of the state the ranks of the first data rank hold, by rank and then in
/// the order of arguments; without `optimizer`, of parameters and buffers only.
std::vector<SharedTensor> unionOfState(const Job &job, bool optimizer);

/// Replaces `path` by the union of the state. All ranks call it; rank 0 writes,
/// the others send it what they own. Fails on every rank where one rank fails,
/// or where ranks that hold the same tensor hold different values.
Status writeUnion(const std::string &path, const Job &job, Rank &rank,
                  bool optimizer,
                  const std::map<std::string, std::string> &metadata);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_STATEUNION_H
