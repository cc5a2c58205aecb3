//===- Control.cpp - how ranks meet, and hear of failures -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/gloo/Control.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

using namespace mprt;

bool control::takeFrame(std::string &input, FrameType &type,
                        std::string &payload, bool &broken) {
  FrameHeader header;
  broken = false;
  if (input.size() < sizeof(header))
    return false;
  memcpy(&header, input.data(), sizeof(header));
  if (header.bytes > maxFrameBytes || header.type > FrameType::AllLeft) {
    broken = true;
    return false;
  }
  if (input.size() < sizeof(header) + header.bytes)
    return false;
  type = header.type;
  payload = input.substr(sizeof(header), header.bytes);
  input.erase(0, sizeof(header) + header.bytes);
  return true;
}

void control::configureSocket(int fd) {
  int on = 1, idle = 10, interval = 5, count = 4;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

std::string control::listRanks(const std::vector<unsigned> &ranks) {
  constexpr size_t most = 16;
  std::string text;
  for (size_t i = 0; i < ranks.size() && i < most; ++i)
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  if (ranks.size() > most)
    text += " and " + std::to_string(ranks.size() - most) + " more";
  return text;
}
