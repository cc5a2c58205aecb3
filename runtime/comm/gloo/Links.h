//===- Links.h - a group's connections, and messages over them ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One connection to each peer of a communicator, by Gloo's TCP transport. Five
// lanes share it; on each, messages of a pair arrive in order:
//
//   Header        what a rank is about to call, with the data if it is small
//   Staged      chunks that are received into staging memory, always posted
//   Direct      chunks that are received where they belong
//   PairHeader    the header of a send, and
//   PairDirect  its chunks, which have nothing to do with collectives
//
// Headers and staged chunks are posted before anyone asks for them, and have
// room for the largest message: they flow without waiting for the receiver's
// word, and a peer that calls something else cannot write beyond them. Direct
// chunks are posted once the peers' headers have been found to agree.
//
// Waits block on a condition variable; Gloo's own thread waits in epoll. What
// goes wrong is thrown, as PeerLost or Stopped, and caught by the communicator.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_GLOO_LINKS_H
#define MPCOMM_RUNTIME_COMM_GLOO_LINKS_H

#include "comm/Signature.h"

#include <atomic>
#include <cstdlib>
#include <functional>
#include <gloo/rendezvous/context.h>
#include <gloo/transport/unbound_buffer.h>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace mprt {

/// A peer's connection broke. `peer` is a rank of the group.
struct PeerLost {
  unsigned peer;
  std::string what;
};

/// The communicator is to end.
struct Stopped {};

/// What a rank is about to call; data of up to `inlineBytes` follows.
struct GlooHeader {
  Signature signature;
  uint64_t chunkBytes = 0;
  CallWords words;
  /// Not zero; tells a header that has come from a place that waits for one.
  uint32_t stamp = 0;
};

enum class Lane : uint64_t { Header, Staged, Direct, PairHeader, PairDirect };

class GlooLinks {
public:
  static constexpr uint64_t inlineBytes = 4096;
  static constexpr uint64_t headerBytes = (sizeof(GlooHeader) + 63) / 64 * 64;

  /// Takes over a connected context of the group.
  GlooLinks(std::shared_ptr<gloo::rendezvous::Context> context,
            uint64_t chunkBytes);
  /// Breaks the connections; peers must be done with them.
  ~GlooLinks();

  unsigned rank() const { return unsigned(context->rank); }
  unsigned size() const { return unsigned(context->size); }
  /// Bytes of a chunk, a multiple of 64.
  uint64_t chunk() const { return chunkBytes; }
  /// Chunks that a peer may send on the Staged lane before any is taken.
  unsigned window() const { return slots; }

  /// Called after each message that was waited for.
  std::function<void()> onMove;

  //===-- Headers
  //-----------------------------------------------------------===//

  /// Sends a header, followed by `bytes` of data (at most inlineBytes).
  void sendHeader(Lane lane, unsigned peer, const GlooHeader &header,
                  const void *data, uint64_t bytes);
  /// Waits for the next header of `peer`; it and its data stay valid until
  /// releaseHeader.
  const GlooHeader &receiveHeader(Lane lane, unsigned peer,
                                  const uint8_t *&data);
  void releaseHeader(Lane lane, unsigned peer);
  /// Whether a header has come that receiveHeader has not returned yet. For
  /// messages: any thread may ask, and the answer may be old.
  bool hasHeader(Lane lane, unsigned peer);

  //===-- Staged chunks ---------------------------------------------------===//

  /// Waits for the next staged chunk of `peer`; valid until releaseStaged.
  const uint8_t *receiveStaged(unsigned peer);
  void releaseStaged(unsigned peer);

  //===-- Chunks from and into memory of the caller's -----------------------//

  /// Memory of the caller's that messages to or from one peer use.
  class Region {
  public:
    Region(GlooLinks &links, unsigned peer, const void *data, uint64_t bytes);
    /// Takes back what is under way; the connection cannot be used after that
    /// unless everything was waited for.
    ~Region();
    Region(const Region &) = delete;
    Region(Region &&) = default;

    void send(Lane lane, uint64_t offset, uint64_t bytes);
    void receive(Lane lane, uint64_t offset, uint64_t bytes);
    /// Wait until so many in all have gone, or come.
    void waitSent(uint64_t count);
    void waitReceived(uint64_t count);
    uint64_t sendsPosted() const { return posted; }

  private:
    GlooLinks *links;
    unsigned peer;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
    uint64_t posted = 0, sent = 0, received = 0;
  };

  /// Makes the present wait, and all later ones, throw Stopped. Any thread.
  void stop();
  /// Breaks all connections at once.
  void disconnect();

private:
  using Buffer = gloo::transport::UnboundBuffer;
  static constexpr unsigned headerDepth = 2;
  static constexpr uint64_t placeBytes = headerBytes + inlineBytes;

  /// Headers to or from one peer on one lane, in turns at `headerDepth` places.
  struct HeaderRing {
    std::vector<uint8_t> memory;
    std::unique_ptr<Buffer> buffer;
    std::atomic<uint64_t> count{0};

    uint8_t *place(uint64_t k) {
      return memory.data() + k % headerDepth * placeBytes;
    }
  };
  struct Peer {
    HeaderRing in[2], out[2]; // Header, PairHeader
    std::unique_ptr<uint8_t[], void (*)(void *)> stagingMemory{nullptr, free};
    std::unique_ptr<Buffer> staging;
    uint64_t staged = 0;
  };

  static unsigned ringOf(Lane lane) { return lane == Lane::Header ? 0 : 1; }
  void postHeader(Lane lane, unsigned peer, uint64_t k);
  void post(Lane lane, unsigned peer, Buffer &buffer, bool receive,
            uint64_t offset, uint64_t bytes);
  void wait(unsigned peer, Buffer &buffer, bool receive);

  std::shared_ptr<gloo::rendezvous::Context> context;
  uint64_t chunkBytes;
  unsigned slots;
  std::vector<Peer> peers;
  std::mutex mutex;
  Buffer *waitedFor = nullptr;
  bool waitsToReceive = false, stopping = false, connected = true;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_COMM_GLOO_LINKS_H
