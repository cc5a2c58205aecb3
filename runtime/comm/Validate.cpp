//===- Validate.cpp - is this a collective that can be run? ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Validate.h"

#include "../core/DType.h"
#include "Reduce.h"

using namespace mprt;

/// Bytes that one rank may send or receive at once; what is above is a mistake.
static constexpr uint64_t maxBytes = uint64_t(1) << 46;

std::string mprt::describe(mprt_collective_kind kind, const char *name,
                           const char *location) {
  std::string text = nameOf(kind);
  if (name && *name)
    text += std::string(" \"") + name + '"';
  if (location && *location)
    text += std::string(" at ") + location;
  return text;
}

std::string mprt::describe(const mprt_collective &collective) {
  return describe(mprt_collective_kind(collective.kind), collective.name,
                  collective.location);
}

uint64_t mprt::sendElements(const mprt_collective &collective, unsigned size) {
  switch (collective.kind) {
  case MPRT_REDUCE_SCATTER:
  case MPRT_ALL_TO_ALL:
    return collective.count * size;
  case MPRT_RECV:
  case MPRT_BARRIER:
    return 0;
  default:
    return collective.count;
  }
}

uint64_t mprt::recvElements(const mprt_collective &collective, unsigned size) {
  switch (collective.kind) {
  case MPRT_ALL_GATHER:
  case MPRT_ALL_TO_ALL:
    return collective.count * size;
  case MPRT_SEND:
  case MPRT_BARRIER:
    return 0;
  default:
    return collective.count;
  }
}

Error mprt::validateCollective(const mprt_collective &collective, unsigned size,
                               unsigned rank, const void *send,
                               const void *recv) {
  auto invalid = [&](const auto &...parts) {
    return makeError(MPRT_INVALID_ARGUMENT, describe(collective), ": ",
                     parts...);
  };
  if (collective.kind > MPRT_BARRIER)
    return invalid("unknown kind ", unsigned(collective.kind));
  if (collective.kind == MPRT_BARRIER)
    return {};

  auto type = mprt_dtype(collective.type);
  uint64_t width = sizeOf(type);
  if (width == 0)
    return invalid("unknown type ", unsigned(collective.type));
  if (collective.count > maxBytes / width / size)
    return invalid("count ", collective.count, " is too large");

  bool reduces = collective.kind == MPRT_ALL_REDUCE ||
                 collective.kind == MPRT_REDUCE_SCATTER;
  if (reduces) {
    if (collective.reduction > MPRT_MEAN)
      return invalid("unknown reduction ", unsigned(collective.reduction));
    auto reduction = mprt_reduction(collective.reduction);
    auto accumulate = mprt_dtype(collective.accumulate);
    if (sizeOf(accumulate) == 0)
      return invalid("unknown type to accumulate in ", unsigned(accumulate));
    bool holds = isFloat(type)
                     ? isFloat(accumulate) && sizeOf(accumulate) >= width
                     : accumulate == type;
    if (!holds)
      return invalid("sums of ", nameOf(type), " cannot be kept in ",
                     nameOf(accumulate));
    if (!findReduce(type, mprt_dtype(collective.accumulate), reduction))
      return makeError(MPRT_UNSUPPORTED, describe(collective), ": ",
                       nameOf(reduction), " of ", nameOf(type),
                       " is not supported");
  }

  bool hasPeer = collective.kind == MPRT_BROADCAST ||
                 collective.kind == MPRT_SEND || collective.kind == MPRT_RECV;
  if (hasPeer && (collective.peer < 0 || unsigned(collective.peer) >= size))
    return invalid("expected a rank of the group (0 to ", size - 1, "), found ",
                   collective.peer);
  if ((collective.kind == MPRT_SEND || collective.kind == MPRT_RECV) &&
      unsigned(collective.peer) == rank)
    return invalid("a rank cannot be its own peer (", rank, ")");

  if (collective.count == 0)
    return {};
  bool sends =
      collective.kind != MPRT_RECV &&
      (collective.kind != MPRT_BROADCAST || unsigned(collective.peer) == rank);
  bool receives = collective.kind != MPRT_SEND;
  if (sends && !send)
    return invalid("the buffer to send is null");
  if (receives && !recv)
    return invalid("the buffer to receive is null");
  return {};
}
