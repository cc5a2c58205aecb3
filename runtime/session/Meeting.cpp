//===- Meeting.cpp - a few words between ranks outside of any program -----===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/Meeting.h"

#include <cstring>
#include <numeric>

using namespace mprt;

/// An id that no program uses: compilers count from 0.
static constexpr uint32_t meetingId = 0xffffffffu;

Expected<std::unique_ptr<Meeting>> Meeting::create(Transport &transport,
                                                   double timeoutSeconds) {
  std::unique_ptr<Meeting> meeting(new Meeting());
  meeting->ranks = transport.size();
  std::vector<unsigned> everyone(transport.size());
  std::iota(everyone.begin(), everyone.end(), 0u);
  auto world = transport.createCommunicator(everyone);
  if (!world)
    return world.error();
  std::vector<std::unique_ptr<Communicator>> communicators;
  communicators.push_back(world.take());
  ContextOptions options;
  options.timeoutSeconds = timeoutSeconds;
  options.progress = ProgressMode::Poll;
  auto context = Context::create(options, &transport, std::move(communicators));
  if (!context)
    return context.error();
  meeting->context = context.take();
  return meeting;
}

Error Meeting::run(mprt_collective_kind kind, int32_t peer, const void *send,
                   void *receive, uint64_t bytes, const char *what) {
  call = {};
  call.id = meetingId;
  call.kind = uint8_t(kind);
  call.type = MPRT_U8;
  call.accumulate = MPRT_U8;
  call.peer = peer;
  call.count = bytes;
  call.name = what;
  call.location = place;
  uint64_t sent = send ? bytes : 0;
  uint64_t received = receive ? bytes : 0;
  if (kind == MPRT_ALL_GATHER)
    received *= ranks;
  auto staged = std::make_unique_for_overwrite<uint8_t[]>(sent + received + 1);
  if (sent)
    memcpy(staged.get(), send, sent);
  if (Error error = context->run(call, send ? staged.get() : nullptr,
                                 receive ? staged.get() + sent : nullptr)) {
    retired.push_back(std::move(staged));
    return error;
  }
  if (received)
    memcpy(receive, staged.get() + sent, received);
  return {};
}

Error Meeting::gather(const void *mine, void *all, uint64_t bytes) {
  return run(MPRT_ALL_GATHER, -1, mine, all, bytes, "meeting of all ranks");
}

Error Meeting::send(unsigned to, const void *data, uint64_t bytes,
                    const char *what) {
  return run(MPRT_SEND, int32_t(to), data, nullptr, bytes, what);
}

Error Meeting::receive(unsigned from, void *data, uint64_t bytes,
                       const char *what) {
  return run(MPRT_RECV, int32_t(from), nullptr, data, bytes, what);
}
