//===- Control.h - how ranks meet, and hear of failures -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Beside the connections that carry data, each rank keeps one to a small server
// in the process of rank 0. It is
//  - the meeting: nobody goes on before all ranks are there, and those that
//    never come are named;
//  - a key-value store, through which Gloo exchanges addresses;
//  - the news: a rank that fails says so, one whose connection breaks has died,
//    one that says goodbye has left; the others are told at once.
//
// A frame is a header of 8 bytes (length of the payload, type) and the payload.
// All ranks have the same byte order, which the greeting checks.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_GLOO_CONTROL_H
#define MPCOMM_RUNTIME_COMM_GLOO_CONTROL_H

#include "support/Error.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace mprt::control {

enum class FrameType : uint32_t {
  // From a rank.
  JoinRequest,
  Set,
  Get,
  Failed, ///< also to the ranks
  Bye,
  // From the server.
  JoinReply,
  Refused,
  Value,
  Left,
  AllLeft
};

struct FrameHeader {
  uint32_t bytes;
  FrameType type;
};

/// Longer payloads are a mistake, or not of this protocol.
inline constexpr uint32_t maxFrameBytes = 1 << 20;

struct JoinRequest {
  static constexpr uint64_t expectedMagic = 0x31747270'6d6d6f63u;
  uint64_t magic = expectedMagic;
  uint32_t rank = 0, size = 0;
  /// The same on all processes of one machine.
  char machine[40] = {};
};

struct JoinReply {
  uint32_t localRanks = 1;
};

/// What follows a Failed or Left header; then the text of the failure.
struct News {
  uint32_t rank = 0;
  uint32_t status = 0;
};

/// A frame whose payload is `parts`, one after the other.
inline std::string makeFrame(FrameType type,
                             std::initializer_list<std::string> parts) {
  std::string payload;
  for (const std::string &part : parts)
    payload += part;
  FrameHeader header{uint32_t(payload.size()), type};
  return std::string(reinterpret_cast<const char *>(&header), sizeof(header)) +
         payload;
}

/// The bytes of a plain structure.
template <typename T> std::string bytesOf(const T &value) {
  return std::string(reinterpret_cast<const char *>(&value), sizeof(T));
}

/// Reads a plain structure from the front of `payload`, and removes it.
template <typename T> bool takeFront(std::string &payload, T &value) {
  if (payload.size() < sizeof(T))
    return false;
  memcpy(&value, payload.data(), sizeof(T));
  payload.erase(0, sizeof(T));
  return true;
}

/// Cuts the first whole frame off `input`. False where there is none yet;
/// `broken` where there can be none.
bool takeFrame(std::string &input, FrameType &type, std::string &payload,
               bool &broken);

/// Dead machines are noticed after half a minute; small frames go at once.
void configureSocket(int fd);

/// "1, 4, 7 and 12 more".
std::string listRanks(const std::vector<unsigned> &ranks);

} // namespace mprt::control

#endif // MPCOMM_RUNTIME_COMM_GLOO_CONTROL_H
