//===- Memory.cpp - device memory that the host cannot reach --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Memory.h"

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

using namespace fake;

/// Allocations begin at multiples of this, and so much lies before each at
/// least. Programs may count on 256 bytes.
static constexpr size_t grain = 256;
static constexpr int poison = 0xff;
static constexpr unsigned char fence = 0xa7;

static size_t roundUp(size_t bytes) {
  return (bytes + grain - 1) & ~(grain - 1);
}

/// What an allocation takes, its fences on both sides included.
static size_t extent(size_t bytes) { return roundUp(bytes + grain) + grain; }

bool DeviceMemory::addDevice(size_t bytes, bool guard) {
  bytes = (bytes + 0xffff) & ~size_t(0xffff);
  int file = memfd_create("fake-device-memory", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, off_t(bytes)) != 0)
    return false;
  void *real =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  void *seen =
      guard ? mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0) : real;
  close(file);
  if (real == MAP_FAILED || seen == MAP_FAILED)
    return false;
  pools.push_back(
      {static_cast<char *>(seen), static_cast<char *>(real), bytes, 0, {}});
  return true;
}

DeviceMemory::Pool *DeviceMemory::poolOf(uint64_t address) {
  for (Pool &pool : pools) {
    auto begin = reinterpret_cast<uint64_t>(pool.seen);
    if (address >= begin && address < begin + pool.bytes)
      return &pool;
  }
  return nullptr;
}

uint64_t DeviceMemory::allocate(int device, size_t bytes, bool live) {
  Pool &pool = pools[size_t(device)];
  auto begin = reinterpret_cast<uint64_t>(pool.seen);
  if (bytes > pool.bytes)
    return 0;
  // The first gap that is large enough.
  uint64_t at = begin;
  for (const auto &[address, allocation] : pool.allocations) {
    if (address - grain - at >= extent(bytes))
      break;
    at = address - grain + extent(allocation.bytes);
  }
  if (at + extent(bytes) > begin + pool.bytes)
    return 0;
  uint64_t address = at + grain;
  pool.allocations[address] = {bytes, live};
  pool.used += extent(bytes);
  char *real = pool.real + (at - begin);
  std::memset(real, fence, grain);
  if (isPoisoned)
    std::memset(real + grain, poison, bytes);
  std::memset(real + grain + bytes, fence, extent(bytes) - grain - bytes);
  return address;
}

DeviceMemory::Allocation *DeviceMemory::find(uint64_t address) {
  Pool *pool = poolOf(address);
  if (!pool)
    return nullptr;
  auto found = pool->allocations.find(address);
  return found == pool->allocations.end() ? nullptr : &found->second;
}

void DeviceMemory::free(uint64_t address) {
  Pool *pool = poolOf(address);
  auto found = pool->allocations.find(address);
  if (isPoisoned)
    std::memset(translate(address), poison, found->second.bytes);
  pool->used -= extent(found->second.bytes);
  pool->allocations.erase(found);
}

size_t DeviceMemory::freeAll(int device) {
  Pool &pool = pools[size_t(device)];
  size_t count = pool.allocations.size();
  while (!pool.allocations.empty())
    free(pool.allocations.begin()->first);
  return count;
}

bool DeviceMemory::covers(uint64_t address, size_t bytes, bool live) const {
  const Pool *pool = poolOf(address);
  if (!pool)
    return isPinned(address, bytes);
  auto next = pool->allocations.upper_bound(address);
  if (next == pool->allocations.begin())
    return false;
  const auto &[begin, allocation] = *--next;
  return (allocation.live || !live) && address - begin <= allocation.bytes &&
         bytes <= allocation.bytes - (address - begin);
}

bool DeviceMemory::isPinned(uint64_t address, size_t bytes) const {
  auto next = pinned.upper_bound(address);
  if (next == pinned.begin())
    return false;
  const auto &[begin, range] = *--next;
  return address - begin <= range.bytes &&
         bytes <= range.bytes - (address - begin);
}

bool DeviceMemory::isDevice(uint64_t address) const {
  return poolOf(address) != nullptr;
}

char *DeviceMemory::translate(uint64_t address) const {
  const Pool *pool = poolOf(address);
  return pool ? pool->real + (address - reinterpret_cast<uint64_t>(pool->seen))
              : reinterpret_cast<char *>(address);
}

bool DeviceMemory::pin(void *pointer, size_t bytes, bool allocated) {
  auto address = reinterpret_cast<uint64_t>(pointer);
  auto next = pinned.upper_bound(address);
  if (next != pinned.end() && next->first < address + bytes)
    return false;
  if (next != pinned.begin()) {
    --next;
    if (next->first + next->second.bytes > address)
      return false;
  }
  pinned[address] = {bytes, allocated};
  return true;
}

bool DeviceMemory::unpin(void *pointer, bool allocated) {
  auto found = pinned.find(reinterpret_cast<uint64_t>(pointer));
  if (found == pinned.end() || found->second.allocated != allocated)
    return false;
  pinned.erase(found);
  return true;
}

uint64_t DeviceMemory::findOverrun() {
  for (Pool &pool : pools)
    for (const auto &[address, allocation] : pool.allocations) {
      auto *begin = reinterpret_cast<unsigned char *>(translate(address));
      unsigned char *end = begin + allocation.bytes;
      unsigned char *last = begin + extent(allocation.bytes) - grain;
      bool changed = false;
      auto check = [&](unsigned char *from, unsigned char *to) {
        for (; from != to; ++from)
          if (*from != fence) {
            *from = fence;
            changed = true;
          }
      };
      check(begin - grain, begin);
      check(end, last);
      if (changed)
        return address;
    }
  return 0;
}
