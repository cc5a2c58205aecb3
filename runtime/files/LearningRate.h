//===- LearningRate.h - the learning rate as a function of the step -------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Warm-up and decay. A function of the step alone, so that a resumed run needs
// no state for it.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_FILES_LEARNINGRATE_H
#define MPCOMM_RUNTIME_FILES_LEARNINGRATE_H

#include <cstdint>
#include <optional>
#include <string_view>

namespace mprt {

enum class DecayKind : uint8_t { Constant, Cosine, Linear };

/// `constant`, `cosine` or `linear`.
const char *nameOf(DecayKind kind);
std::optional<DecayKind> parseDecayKind(std::string_view name);

struct LearningRate {
  double base = 0;
  DecayKind kind = DecayKind::Constant;
  /// Steps over which the rate rises linearly to `base`; step k of them (from
  /// 0) takes base * (k + 1) / warmup.
  uint64_t warmup = 0;
  /// Steps of the whole run, where a decay ends at zero.
  uint64_t total = 0;

  /// The rate of step `step`, counted from 0.
  double at(uint64_t step) const;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_FILES_LEARNINGRATE_H
