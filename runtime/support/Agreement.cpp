//===- Agreement.cpp - whether all ranks go on ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/Agreement.h"

#include <algorithm>
#include <vector>

using namespace mprt;

Error mprt::agree(uint64_t index, uint64_t size, const Error &mine,
                  const Gather &gather) {
  uint8_t failed = mine.failed();
  std::vector<uint8_t> all(size);
  if (Error error = gather(&failed, all.data(), 1))
    return mine ? mine : error;
  auto first = uint64_t(std::find(all.begin(), all.end(), 1) - all.begin());
  if (first == size || first == index)
    return mine;
  return mine ? mine.reportedElsewhere() : Error::elsewhereOn(unsigned(first));
}
