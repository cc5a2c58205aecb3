//===- Staged.cpp - collectives through staging buffers -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For buffers that peers cannot reach. Each rank stages its part of chunk q,
// then, when all have, consumes all ranks' parts of it: it reduces its slice of
// the chunk (all_reduce) or takes what is its own (other kinds). In all_reduce
// it then copies the others' slices from their result buffers. Chunk q uses
// the buffers q % 2, so that
//
//   staging q      needs all to have consumed q - 2,
//   consuming q    needs all to have staged q and, for the result buffer, to
//                  have copied q - 2,
//   copying q      needs all to have consumed q.
//
// Chunks are numbered through all collectives of a communicator, and every rank
// passes every stage of every chunk, so that these counters suffice from one
// collective to the next.
//
//===----------------------------------------------------------------------===//

#include "comm/shm/ShmCommunicator.h"

#include <algorithm>
#include <cstring>

using namespace mprt;
using namespace mprt::shm;

bool ShmCommunicator::stagesParts() const {
  // Kinds that send each rank a block of its own stage a part of every block.
  return call->kind == MPRT_REDUCE_SCATTER || call->kind == MPRT_ALL_TO_ALL ||
         call->kind == MPRT_SCATTER;
}

void ShmCommunicator::beginStaged() {
  uint64_t elements = stageBytes / width / (stagesParts() ? size() : 1);
  uint64_t grain = 64 / width;
  if (elements > grain)
    elements = elements / grain * grain;
  chunkElements = elements;
  numChunks = (call->count + elements - 1) / elements;
  staged = consumed = copied = 0;
  clearUnreached(*call, size(), groupRank, recv);
}

uint64_t ShmCommunicator::chunkLength(uint64_t chunk) const {
  return std::min(chunkElements, call->count - chunk * chunkElements);
}

bool ShmCommunicator::progressStaged() {
  bool moved = false, again = true;
  while (again) {
    again = false;
    // "All have done chunk q - 2" is a count of at least q - 1.
    uint64_t q = chunkBase + staged;
    if (staged < numChunks &&
        (q < 2 || allReached(&ShmMember::consumed, q - 1))) {
      stageChunk(staged++);
      self().staged.store(q + 1, std::memory_order_release);
      again = true;
    }
    q = chunkBase + consumed;
    if (consumed < staged && allReached(&ShmMember::staged, q + 1) &&
        (q < 2 || allReached(&ShmMember::copied, q - 1))) {
      consumeChunk(consumed++);
      self().consumed.store(q + 1, std::memory_order_release);
      again = true;
    }
    q = chunkBase + copied;
    bool copies = call->kind == MPRT_ALL_REDUCE;
    if (copied < consumed &&
        (!copies || allReached(&ShmMember::consumed, q + 1))) {
      if (copies)
        copyChunk(copied);
      ++copied;
      self().copied.store(q + 1, std::memory_order_release);
      again = true;
    }
    moved |= again;
  }
  return moved;
}

void ShmCommunicator::stageChunk(uint64_t chunk) {
  uint8_t *stage = self().stage[(chunkBase + chunk) % 2];
  uint64_t first = chunk * chunkElements, length = chunkLength(chunk);
  if (!isSource(*call, groupRank))
    return;
  for (unsigned r = 0; r < (stagesParts() ? size() : 1); ++r)
    memcpy(stage + r * chunkElements * width,
           send + (r * call->count + first) * width, length * width);
}

void ShmCommunicator::consumeChunk(uint64_t chunk) {
  unsigned parity = (chunkBase + chunk) % 2;
  uint64_t first = chunk * chunkElements, length = chunkLength(chunk);
  uint64_t ownPart = groupRank * chunkElements * width;
  switch (call->kind) {
  case MPRT_ALL_REDUCE: {
    Slice slice = sliceOf(groupRank, length);
    uint64_t offset = slice.begin * width;
    for (unsigned r = 0; r < size(); ++r)
      inputs[r] = member(r).stage[parity] + offset;
    outputs[0] = self().results[parity] + offset;
    outputs[1] = recv + first * width + offset;
    reduceFunction(
        {inputs.data(), size(), outputs.data(), 2, slice.length, size()});
    break;
  }
  case MPRT_REDUCE_SCATTER:
    for (unsigned r = 0; r < size(); ++r)
      inputs[r] = member(r).stage[parity] + ownPart;
    outputs[0] = recv + first * width;
    reduceFunction({inputs.data(), size(), outputs.data(), 1, length, size()});
    break;
  case MPRT_REDUCE:
    if (!isTarget(*call, groupRank))
      break;
    for (unsigned r = 0; r < size(); ++r)
      inputs[r] = member(r).stage[parity];
    outputs[0] = recv + first * width;
    reduceFunction({inputs.data(), size(), outputs.data(), 1, length, size()});
    break;
  default:
    for (unsigned r = 0; r < size(); ++r) {
      std::optional<Block> block = blockBetween(*call, r, groupRank);
      // The own block may be where it belongs.
      bool isThere = block && r == groupRank &&
                     recv + block->received * call->count * width ==
                         send + block->sent * call->count * width;
      if (block && !isThere)
        memcpy(recv + (block->received * call->count + first) * width,
               member(r).stage[parity] + (stagesParts() ? ownPart : 0),
               length * width);
    }
    break;
  }
}

void ShmCommunicator::copyChunk(uint64_t chunk) {
  unsigned parity = (chunkBase + chunk) % 2;
  uint8_t *to = recv + chunk * chunkElements * width;
  for (unsigned r = 0; r < size(); ++r) {
    if (r == groupRank)
      continue;
    Slice slice = sliceOf(r, chunkLength(chunk));
    memcpy(to + slice.begin * width,
           member(r).results[parity] + slice.begin * width,
           slice.length * width);
  }
}
