//===- Chips.h - what NVIDIA's chips have -----------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chips have the names of ptxas: sm_90 for compute capability 9.0. Code for
// sm_90a uses what that chip has and runs on no later one.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_CODEGEN_CHIPS_H
#define MPCOMM_CODEGEN_CHIPS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>

namespace mpcomm {

/// The number of a chip's name, 90 for "sm_90" and "sm_90a"; none where it is
/// no such name, or of a chip before sm_75.
std::optional<unsigned> parseChip(llvm::StringRef name);

/// Whether code for a chip of this name runs on no later one.
bool isForOneChip(llvm::StringRef name);

/// What kernels and libraries can use.
enum class ChipFeature {
  TileProducts,      ///< mma.sync of 16 bits, cp.async: from sm_80 on
  F8Products,        ///< products of 8-bit floats: from sm_89 on
  F8Conversions,     ///< cvt to 8-bit floats: from sm_90 on; of sm_89 in a
                     ///< version of PTX that LLVM does not use for it
  WarpgroupProducts, ///< wgmma: sm_90a alone
  LargeShared,       ///< twice kLaunchShared a multiprocessor: sm_90, sm_100
};

/// Bytes of shared memory that a block may ask for at the launch: as many as
/// chips have on which PTX for one with LargeShared runs, too (sm_120: one
/// block a multiprocessor).
constexpr int64_t kLaunchShared = 99 << 10;

/// Whether all chips that are compiled for have a feature. Without names it is
/// the default ones, from sm_80 on.
bool haveFeature(llvm::ArrayRef<std::string> chips, ChipFeature feature);

} // namespace mpcomm

#endif // MPCOMM_CODEGEN_CHIPS_H
