//===- LossScale.h - outcome of a scaled step -------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program that scales its loss keeps the scale, and the number of steps that
// it skipped, as state of role `loss_scale`. They are read after a step has
// ended; no step waits for it. A program that checks its gradients also
// returns `nonfinite`, one flag for each parameter in the order of arguments.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_LOSSSCALE_H
#define MPCOMM_RUNTIME_SESSION_LOSSSCALE_H

#include "session/Rank.h"
#include "session/state/RankState.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mprt {

/// Of one step.
struct LossScaleRecord {
  /// The scale of the next step, where the program has one.
  std::optional<double> scale;
  /// Whether parameters kept their values; false where nothing counts that.
  bool isSkipped = false;
  /// Parameters whose gradient was not finite, where the program tells.
  std::vector<std::string> nonFinite;
};

class LossScaleWatch {
public:
  /// Finds the state of `function` that is to be watched, and takes note of
  /// its present values: call it once the state is loaded.
  void attach(RankState &state, const ManifestFunction &function);

  /// What `read` looks at.
  std::vector<size_t> slots() const;

  /// To be called after each step.
  LossScaleRecord read(RankState &state);

private:
  std::optional<size_t> scaleSlot, skippedSlot, flagsSlot;
  int64_t now = 0;
  std::vector<std::string> parameters;
};

/// Of the stages of a pipeline, each finds its own parameters: rank 0 learns of
/// all. All ranks call it after a step.
Error gatherNonFinite(const Manifest &manifest, Rank &rank,
                      std::vector<std::string> &parameters);

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_LOSSSCALE_H
