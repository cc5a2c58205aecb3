//===- Links.cpp - a group's connections, and messages over them ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/gloo/Links.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

using namespace mprt;

/// Waits have no limit of their own: the context that drives a communicator
/// counts the time in which nothing moves, and stops it.
static constexpr std::chrono::milliseconds noTimeout(std::chrono::hours(24));
/// Staging memory of a communicator, in chunks: what keeps a link busy while
/// the news of a free place travels.
static constexpr unsigned stagedChunks = 16;
static constexpr unsigned leastWindow = 2, mostWindow = 8;

GlooLinks::GlooLinks(std::shared_ptr<gloo::rendezvous::Context> made,
                     uint64_t chunkBytes)
    : context(std::move(made)), chunkBytes(chunkBytes),
      slots(std::clamp(stagedChunks / (size() - 1), leastWindow, mostWindow)),
      peers(size()) {
  for (unsigned p = 0; p < size(); ++p) {
    if (p == rank())
      continue;
    for (Lane lane : {Lane::Header, Lane::PairHeader}) {
      for (HeaderRing *ring :
           {&peers[p].in[ringOf(lane)], &peers[p].out[ringOf(lane)]}) {
        ring->memory.resize(placeBytes * headerDepth);
        ring->buffer = context->createUnboundBuffer(ring->memory.data(),
                                                    ring->memory.size());
      }
      for (unsigned i = 0; i < headerDepth; ++i)
        postHeader(lane, p, i);
    }
    // Not touched, hence no memory, until a large reduction comes.
    peers[p].stagingMemory.reset(
        static_cast<uint8_t *>(std::aligned_alloc(64, chunkBytes * slots)));
    if (!peers[p].stagingMemory)
      throw std::bad_alloc();
    peers[p].staging = context->createUnboundBuffer(
        peers[p].stagingMemory.get(), chunkBytes * slots);
    for (unsigned i = 0; i < slots; ++i)
      post(Lane::Staged, p, *peers[p].staging, true, i * chunkBytes,
           chunkBytes);
  }
}

GlooLinks::~GlooLinks() { disconnect(); }

void GlooLinks::disconnect() {
  if (!connected)
    return;
  connected = false;
  try {
    context->closeConnections();
  } catch (const std::exception &) {
    // What is broken already needs no closing.
  }
}

//===----------------------------------------------------------------------===//
// One message
//===----------------------------------------------------------------------===//

void GlooLinks::post(Lane lane, unsigned peer, Buffer &buffer, bool receive,
                     uint64_t offset, uint64_t bytes) {
  try {
    if (receive)
      buffer.recv(int(peer), uint64_t(lane), offset, bytes);
    else
      buffer.send(int(peer), uint64_t(lane), offset, bytes);
  } catch (const std::exception &error) {
    throw PeerLost{peer, error.what()};
  }
}

void GlooLinks::wait(unsigned peer, Buffer &buffer, bool receive) {
  {
    std::lock_guard<std::mutex> guard(mutex);
    if (stopping)
      throw Stopped{};
    waitedFor = &buffer;
    waitsToReceive = receive;
  }
  bool done = false;
  std::string what;
  try {
    done = receive ? buffer.waitRecv(nullptr, noTimeout)
                   : buffer.waitSend(nullptr, noTimeout);
  } catch (const std::exception &error) {
    what = error.what();
  }
  {
    std::lock_guard<std::mutex> guard(mutex);
    waitedFor = nullptr;
    if (stopping)
      throw Stopped{};
  }
  if (!done)
    throw PeerLost{peer, what};
  if (onMove)
    onMove();
}

void GlooLinks::stop() {
  std::lock_guard<std::mutex> guard(mutex);
  stopping = true;
  if (!waitedFor)
    return;
  if (waitsToReceive)
    waitedFor->abortWaitRecv();
  else
    waitedFor->abortWaitSend();
}

//===----------------------------------------------------------------------===//
// Headers and staged chunks
//===----------------------------------------------------------------------===//

void GlooLinks::postHeader(Lane lane, unsigned peer, uint64_t k) {
  HeaderRing &ring = peers[peer].in[ringOf(lane)];
  auto *header = reinterpret_cast<GlooHeader *>(ring.place(k));
  header->stamp = 0;
  post(lane, peer, *ring.buffer, true, k % headerDepth * placeBytes,
       placeBytes);
}

void GlooLinks::sendHeader(Lane lane, unsigned peer, const GlooHeader &header,
                           const void *data, uint64_t bytes) {
  HeaderRing &ring = peers[peer].out[ringOf(lane)];
  // What went out from this place before must have gone.
  if (ring.count >= headerDepth)
    wait(peer, *ring.buffer, false);
  uint8_t *place = ring.place(ring.count);
  GlooHeader stamped = header;
  stamped.stamp = 1;
  memcpy(place, &stamped, sizeof(stamped));
  if (bytes)
    memcpy(place + headerBytes, data, bytes);
  post(lane, peer, *ring.buffer, false, ring.count % headerDepth * placeBytes,
       headerBytes + bytes);
  ++ring.count;
}

const GlooHeader &GlooLinks::receiveHeader(Lane lane, unsigned peer,
                                           const uint8_t *&data) {
  HeaderRing &ring = peers[peer].in[ringOf(lane)];
  wait(peer, *ring.buffer, true);
  uint8_t *place = ring.place(ring.count);
  ++ring.count;
  data = place + headerBytes;
  return *reinterpret_cast<const GlooHeader *>(place);
}

void GlooLinks::releaseHeader(Lane lane, unsigned peer) {
  postHeader(lane, peer, peers[peer].in[ringOf(lane)].count - 1);
}

/// Gloo's thread may be writing the place: whichever value is read will do.
__attribute__((no_sanitize("thread"))) static uint32_t
peek(const volatile uint32_t &value) {
  return value;
}

bool GlooLinks::hasHeader(Lane lane, unsigned peer) {
  HeaderRing &ring = peers[peer].in[ringOf(lane)];
  return peek(reinterpret_cast<GlooHeader *>(ring.place(ring.count))->stamp) !=
         0;
}

const uint8_t *GlooLinks::receiveStaged(unsigned peer) {
  Peer &from = peers[peer];
  wait(peer, *from.staging, true);
  return from.stagingMemory.get() + from.staged++ % slots * chunkBytes;
}

void GlooLinks::releaseStaged(unsigned peer) {
  Peer &from = peers[peer];
  post(Lane::Staged, peer, *from.staging, true,
       (from.staged - 1) % slots * chunkBytes, chunkBytes);
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

GlooLinks::Region::Region(GlooLinks &links, unsigned peer, const void *data,
                          uint64_t bytes)
    : links(&links), peer(peer), buffer(links.context->createUnboundBuffer(
                                     const_cast<void *>(data), bytes)) {}

GlooLinks::Region::~Region() = default;

void GlooLinks::Region::send(Lane lane, uint64_t offset, uint64_t bytes) {
  links->post(lane, peer, *buffer, false, offset, bytes);
  ++posted;
}

void GlooLinks::Region::receive(Lane lane, uint64_t offset, uint64_t bytes) {
  links->post(lane, peer, *buffer, true, offset, bytes);
}

void GlooLinks::Region::waitSent(uint64_t count) {
  for (; sent < count; ++sent)
    links->wait(peer, *buffer, false);
}

void GlooLinks::Region::waitReceived(uint64_t count) {
  for (; received < count; ++received)
    links->wait(peer, *buffer, true);
}
