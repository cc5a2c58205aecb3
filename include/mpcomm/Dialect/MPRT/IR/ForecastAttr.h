//===- ForecastAttr.h - what a step takes on other links --------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The attribute of a module that mpcomm-forecast-step sets and that becomes
// `forecast` of the manifest. docs/Design/Manifest.md explains its entries.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_DIALECT_MPRT_IR_FORECASTATTR_H
#define MPCOMM_DIALECT_MPRT_IR_FORECASTATTR_H

#include "llvm/ADT/StringRef.h"

namespace mpcomm::mprt {

inline constexpr llvm::StringLiteral kForecastAttr = "mprt.forecast";
/// Its entries: the cluster as JSON, the name of the link, the seconds of
/// computation, and lists of doubles that run parallel: bytes/s of the link,
/// seconds of the step, and seconds of communication.
inline constexpr llvm::StringLiteral kForecastCluster = "cluster";
inline constexpr llvm::StringLiteral kForecastLink = "link";
inline constexpr llvm::StringLiteral kForecastCompute = "compute";
inline constexpr llvm::StringLiteral kForecastBandwidth = "bandwidth";
inline constexpr llvm::StringLiteral kForecastStep = "step";
inline constexpr llvm::StringLiteral kForecastCommunication = "communication";

} // namespace mpcomm::mprt

#endif // MPCOMM_DIALECT_MPRT_IR_FORECASTATTR_H
