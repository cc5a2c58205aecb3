//===- LearningRate.cpp - the learning rate as a function of the step -----===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// After the warm-up, with t = (step - warmup) / (total - warmup) in [0, 1):
// cosine takes base * (1 + cos(pi t)) / 2, linear base * (1 - t).
//
//===----------------------------------------------------------------------===//

#include "files/LearningRate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

using namespace mprt;

const char *mprt::nameOf(DecayKind kind) {
  switch (kind) {
  case DecayKind::Cosine:
    return "cosine";
  case DecayKind::Linear:
    return "linear";
  default:
    return "constant";
  }
}

std::optional<DecayKind> mprt::parseDecayKind(std::string_view name) {
  for (DecayKind kind :
       {DecayKind::Constant, DecayKind::Cosine, DecayKind::Linear})
    if (name == nameOf(kind))
      return kind;
  return std::nullopt;
}

double LearningRate::at(uint64_t step) const {
  if (step < warmup)
    return base * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (kind == DecayKind::Constant || total <= warmup)
    return base;
  double t =
      static_cast<double>(step - warmup) / static_cast<double>(total - warmup);
  t = std::min(t, 1.0);
  if (kind == DecayKind::Linear)
    return base * (1.0 - t);
  return base * 0.5 * (1.0 + std::cos(std::numbers::pi * t));
}
