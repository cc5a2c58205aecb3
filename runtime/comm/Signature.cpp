//===- Signature.cpp - what ranks must agree on ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Signature.h"

#include "comm/Validate.h"
#include "support/DType.h"

#include <cstring>

using namespace mprt;

Signature::Signature(const mprt_collective &call)
    : id(call.id), kind(call.kind) {
  if (kind != MPRT_BARRIER) {
    count = call.count;
    type = call.type;
  }
  if (reduces(call)) {
    reduction = call.reduction;
    accumulate = call.accumulate;
  }
  if (hasRoot(call))
    peer = call.peer;
  if (kind == MPRT_PERMUTE) {
    targets = 0x811c9dc5u; // FNV-1a
    for (uint32_t i = 0; i < call.num_targets; ++i)
      targets = (targets ^ uint32_t(call.targets[i])) * 0x01000193u;
  }
}

std::string Signature::describe() const {
  mprt_collective call{};
  call.kind = kind;
  std::string text = nameOf(mprt_collective_kind(kind));
  text += '(';
  if (reduces(call))
    text += std::string(nameOf(mprt_reduction(reduction))) + ", ";
  if (kind != MPRT_BARRIER)
    text += std::to_string(count) + " x " + nameOf(mprt_dtype(type)) + ", ";
  if (reduces(call) && accumulate != type)
    text += std::string("kept in ") + nameOf(mprt_dtype(accumulate)) + ", ";
  if (hasRoot(call))
    text += "root " + std::to_string(peer) + ", ";
  if (kind == MPRT_PERMUTE)
    text += "targets with hash " + std::to_string(targets) + ", ";
  return text + "id " + std::to_string(id) + ')';
}

CallWords::CallWords(const mprt_collective &call) {
  if (call.name)
    strncpy(name, call.name, sizeof(name) - 1);
  if (call.location)
    strncpy(location, call.location, sizeof(location) - 1);
}

std::string mprt::describe(const Signature &signature, CallWords words) {
  words.name[sizeof(words.name) - 1] = 0;
  words.location[sizeof(words.location) - 1] = 0;
  return describe(mprt_collective_kind(signature.kind), words.name,
                  words.location);
}

Error mprt::makeMismatch(const mprt_collective &call, unsigned rank,
                         unsigned peer, const Signature &theirs,
                         const CallWords &words) {
  return makeError(MPRT_MISMATCH, describe(call), " on rank ", rank,
                   ": ranks call different collectives: rank ", rank, " calls ",
                   Signature(call).describe(), ", rank ", peer, " calls ",
                   theirs.describe(), ", ", describe(theirs, words));
}
