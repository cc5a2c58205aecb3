//===- Chips.cpp - what NVIDIA's chips have -------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Codegen/Chips.h"
#include "llvm/ADT/STLExtras.h"

using namespace mpcomm;
using llvm::StringRef;

static constexpr StringRef kWarpgroupChip = "sm_90a";

std::optional<unsigned> mpcomm::parseChip(StringRef name) {
  unsigned number;
  // Of names of code that runs on one chip alone this one is known.
  if (isForOneChip(name))
    name = name.drop_back();
  if (!name.consume_front("sm_") || name.getAsInteger(10, number) ||
      number < 75 || number > 999)
    return std::nullopt;
  return number;
}

bool mpcomm::isForOneChip(StringRef name) { return name == kWarpgroupChip; }

static bool hasFeature(StringRef chip, ChipFeature feature) {
  unsigned number = parseChip(chip).value_or(0);
  switch (feature) {
  case ChipFeature::TileProducts:
    return number >= 80;
  case ChipFeature::F8Products:
    return number >= 89;
  case ChipFeature::F8Conversions:
    return number >= 90;
  case ChipFeature::WarpgroupProducts:
    return chip == kWarpgroupChip;
  case ChipFeature::LargeShared:
    return number >= 90;
  }
  return false;
}

bool mpcomm::haveFeature(llvm::ArrayRef<std::string> chips,
                         ChipFeature feature) {
  if (chips.empty())
    return hasFeature("sm_80", feature);
  return llvm::all_of(
      chips, [&](StringRef chip) { return hasFeature(chip, feature); });
}
