//===- CostCurve.cpp - what a collective takes by its size
//------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/CostCurve.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>

using namespace mpcomm;

unsigned CostCurve::bestIndex(int64_t bytes) const {
  unsigned best = 0;
  for (unsigned i = 1; i < pieces.size(); ++i)
    if (pieces[i].at(bytes) < pieces[best].at(bytes))
      best = i;
  return best;
}

int64_t CostCurve::getSaturatingBytes(double fraction) const {
  // Piece i is there for bytes n with latency_i + n s_i <= n s / fraction, s
  // being the smallest seconds a byte, that of the last piece.
  double limit = pieces.back().secondsPerByte / fraction;
  std::optional<double> fewest;
  for (const CostLine &piece : pieces)
    if (limit > piece.secondsPerByte) {
      double bytes = piece.latency / (limit - piece.secondsPerByte);
      fewest = std::min(fewest.value_or(bytes), bytes);
    }
  if (!fewest)
    return 0;
  // Not a byte more for what a division rounds up.
  double bytes = std::ceil(*fewest * (1 - 1e-12));
  constexpr int64_t most = std::numeric_limits<int64_t>::max() / 2;
  return static_cast<int64_t>(std::min(bytes, static_cast<double>(most)));
}

CostCurve CostCurve::getEnvelope(std::vector<CostLine> lines) {
  std::sort(lines.begin(), lines.end(),
            [](const CostLine &a, const CostLine &b) {
              return std::tie(a.latency, a.secondsPerByte, a.algorithm) <
                     std::tie(b.latency, b.secondsPerByte, b.algorithm);
            });
  // Where line b takes over from line a.
  auto crossing = [](const CostLine &a, const CostLine &b) {
    return (b.latency - a.latency) / (a.secondsPerByte - b.secondsPerByte);
  };
  CostCurve curve;
  for (const CostLine &line : lines) {
    auto &kept = curve.pieces;
    if (!kept.empty() && line.secondsPerByte >= kept.back().secondsPerByte)
      continue;
    while (kept.size() >= 2 && crossing(kept.back(), line) <=
                                   crossing(kept[kept.size() - 2], kept.back()))
      kept.pop_back();
    kept.push_back(line);
  }
  return curve;
}
