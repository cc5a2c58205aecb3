//===- Validate.cpp - is this a collective that can be run? ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Validate.h"

#include "comm/Reduce.h"
#include "support/DType.h"

#include <algorithm>
#include <cstring>
#include <vector>

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
  case MPRT_SCATTER:
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
  case MPRT_GATHER:
    return collective.count * size;
  case MPRT_SEND:
  case MPRT_BARRIER:
    return 0;
  default:
    return collective.count;
  }
}

bool mprt::reduces(const mprt_collective &collective) {
  return collective.kind == MPRT_ALL_REDUCE ||
         collective.kind == MPRT_REDUCE_SCATTER ||
         collective.kind == MPRT_REDUCE;
}

bool mprt::hasRoot(const mprt_collective &collective) {
  return collective.kind == MPRT_BROADCAST || collective.kind == MPRT_REDUCE ||
         collective.kind == MPRT_GATHER || collective.kind == MPRT_SCATTER;
}

std::optional<Block> mprt::blockBetween(const mprt_collective &collective,
                                        unsigned from, unsigned to) {
  auto root = unsigned(collective.peer);
  auto only = [](bool condition, Block block) {
    return condition ? std::optional<Block>(block) : std::nullopt;
  };
  switch (collective.kind) {
  case MPRT_ALL_REDUCE:
  case MPRT_ALL_GATHER:
    return Block{0, from};
  case MPRT_REDUCE_SCATTER:
  case MPRT_ALL_TO_ALL:
    return Block{to, from};
  case MPRT_BROADCAST:
    return only(from == root, {0, 0});
  case MPRT_PERMUTE:
    return only(collective.targets[from] == int32_t(to), {0, 0});
  case MPRT_REDUCE:
  case MPRT_GATHER:
    return only(to == root, {0, from});
  case MPRT_SCATTER:
    return only(from == root, {to, 0});
  default:
    return std::nullopt;
  }
}

bool mprt::isSource(const mprt_collective &collective, unsigned rank) {
  switch (collective.kind) {
  case MPRT_BROADCAST:
  case MPRT_SCATTER:
    return unsigned(collective.peer) == rank;
  case MPRT_PERMUTE:
    return collective.targets[rank] >= 0;
  default:
    return collective.kind != MPRT_RECV && collective.kind != MPRT_BARRIER;
  }
}

bool mprt::isTarget(const mprt_collective &collective, unsigned rank) {
  const int32_t *targets = collective.targets;
  switch (collective.kind) {
  case MPRT_REDUCE:
  case MPRT_GATHER:
    return unsigned(collective.peer) == rank;
  case MPRT_PERMUTE:
    return std::find(targets, targets + collective.num_targets,
                     int32_t(rank)) != targets + collective.num_targets;
  default:
    return collective.kind != MPRT_SEND && collective.kind != MPRT_BARRIER;
  }
}

void mprt::clearUnreached(const mprt_collective &collective, unsigned size,
                          unsigned rank, void *recv) {
  uint64_t bytes =
      recvElements(collective, size) * sizeOf(mprt_dtype(collective.type));
  if (bytes != 0 && !isTarget(collective, rank))
    memset(recv, 0, bytes);
}

/// Why the targets of a permute, or those of another kind, are none; or "".
static std::string checkTargets(const mprt_collective &collective,
                                unsigned size) {
  unsigned expected = collective.kind == MPRT_PERMUTE ? size : 0;
  if (collective.num_targets != expected || (expected && !collective.targets))
    return "expected " + std::to_string(expected) + " targets, found " +
           std::to_string(collective.targets ? collective.num_targets : 0);
  std::vector<bool> seen(expected);
  for (unsigned r = 0; r < expected; ++r) {
    int32_t target = collective.targets[r];
    if (target < -1 || target >= int32_t(size))
      return "expected a rank of the group (0 to " + std::to_string(size - 1) +
             ") or -1 as target of rank " + std::to_string(r) + ", found " +
             std::to_string(target);
    if (target >= 0 && seen[size_t(target)])
      return "rank " + std::to_string(target) + " is the target of two ranks";
    if (target >= 0)
      seen[size_t(target)] = true;
  }
  return "";
}

/// Whether `bytes` at `a` and `otherBytes` at `b` have a byte in common.
static bool overlap(const void *a, uint64_t bytes, const void *b,
                    uint64_t otherBytes) {
  auto from = reinterpret_cast<uintptr_t>(a);
  auto other = reinterpret_cast<uintptr_t>(b);
  return from < other + otherBytes && other < from + bytes;
}

Error mprt::validateCollective(const mprt_collective &collective, unsigned size,
                               unsigned rank, const void *send,
                               const void *recv) {
  auto invalid = [&](const auto &...parts) {
    return makeError(MPRT_INVALID_ARGUMENT, describe(collective), ": ",
                     parts...);
  };
  if (collective.kind > MPRT_SCATTER)
    return invalid("unknown kind ", unsigned(collective.kind));
  if (collective.kind == MPRT_BARRIER)
    return {};

  auto type = mprt_dtype(collective.type);
  uint64_t width = sizeOf(type);
  if (width == 0)
    return invalid("unknown type ", unsigned(collective.type));
  if (collective.count > maxBytes / width / size)
    return invalid("count ", collective.count, " is too large");

  if (reduces(collective)) {
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

  bool isMessage = collective.kind == MPRT_SEND || collective.kind == MPRT_RECV;
  if ((isMessage || hasRoot(collective)) &&
      (collective.peer < 0 || unsigned(collective.peer) >= size))
    return invalid("expected a rank of the group (0 to ", size - 1, "), found ",
                   collective.peer);
  if (isMessage && unsigned(collective.peer) == rank)
    return invalid("a rank cannot be its own peer (", rank, ")");

  if (std::string why = checkTargets(collective, size); !why.empty())
    return invalid(why);

  if (collective.count == 0)
    return {};
  bool sends = isSource(collective, rank);
  bool receives = collective.kind != MPRT_SEND;
  if (sends && !send)
    return invalid("the buffer to send is null");
  if (receives && !recv)
    return invalid("the buffer to receive is null");
  if (collective.kind >= MPRT_PERMUTE && sends &&
      overlap(send, sendElements(collective, size) * width, recv,
              recvElements(collective, size) * width))
    return invalid("the buffers overlap");
  return {};
}
