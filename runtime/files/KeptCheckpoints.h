//===- KeptCheckpoints.h - the last checkpoints of a run ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where N checkpoints are kept, those before the latest, FILE, stay as
// FILE.step-K. Before FILE is replaced, it gets that name beside its own; once
// it is replaced, what is too old is removed. So there are never fewer than
// asked for, and whatever fails in between costs none. Files that neither this
// run nor the one that it resumes has written are left alone: where one has a
// name that the run needs, that is an error before the first step.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_FILES_KEPTCHECKPOINTS_H
#define MPCOMM_RUNTIME_FILES_KEPTCHECKPOINTS_H

#include "support/Error.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace mprt {

/// K where `name` is that of a checkpoint kept beside `file`, FILE.step-K.
std::optional<uint64_t> stepOfKept(const std::string &name,
                                   const std::string &file);

class KeptCheckpoints {
public:
  explicit KeptCheckpoints(std::string path) : path(std::move(path)) {}

  /// The run goes on from `file`, written after `step` steps: where that is
  /// one of these, so are those before it that are checkpoints of the run, as
  /// `isOfRun` says of a file and the step that its name has; and no others.
  void
  resume(const std::string &file, uint64_t step,
         const std::function<bool(const std::string &, uint64_t)> &isOfRun);

  /// Fails where a file that is not of this run has a name that a run with a
  /// checkpoint each `every` steps (0: none) between `first` and `last` needs,
  /// of which `keep` are kept.
  Error checkNames(uint64_t first, uint64_t last, uint64_t every,
                   uint64_t keep) const;

  /// Before `path` is replaced by the checkpoint after `step` steps, where
  /// `keep` are to be there then.
  Error prepare(uint64_t step, uint64_t keep);
  /// After it was.
  Error commit(uint64_t step, uint64_t keep);

private:
  std::string nameOf(uint64_t step) const {
    return path + ".step-" + std::to_string(step);
  }

  /// Steps of the files FILE.step-K that are there, whose ever they are.
  std::vector<uint64_t> findSteps() const;
  Error describeClash(uint64_t step, uint64_t keep) const;
  /// Whether FILE.step-K for that step may be replaced.
  bool isOwn(uint64_t step) const;

  std::string path;
  /// Step of what lies at `path`, where it is of this run.
  std::optional<uint64_t> latest;
  /// Step of the checkpoint that the run goes on from, where there is a copy of
  /// it beside it.
  std::optional<uint64_t> resumed;
  /// Of the files beside it, ascending.
  std::vector<uint64_t> older;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_FILES_KEPTCHECKPOINTS_H
