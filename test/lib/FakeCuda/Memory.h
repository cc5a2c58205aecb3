//===- Memory.h - device memory that the host cannot reach ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A device's memory is a file in memory that is mapped twice: at the addresses
// that programs see, where nothing may be read or written (unless MPFAKE_GUARD
// is 0, then there is one mapping), and where only the device's worker looks.
// Fresh and freed memory is filled with 0xff, a NaN of every type, and between
// allocations lie bytes that must not change.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_LIB_FAKECUDA_MEMORY_H
#define MPCOMM_TEST_LIB_FAKECUDA_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include <map>
#include <vector>

namespace fake {

/// Memory of all devices, and host memory that devices can reach.
class DeviceMemory {
public:
  struct Allocation {
    size_t bytes;
    bool live = true;     // false until the allocation's turn in its stream
    bool freeing = false; // its end is enqueued
  };

  /// Maps the memory of the next device.
  bool addDevice(size_t bytes, bool guard);
  /// Whether what is allocated and freed is overwritten.
  bool isPoisoned = true;

  /// An address, or 0 where there is no room. 256-byte aligned.
  uint64_t allocate(int device, size_t bytes, bool live);
  /// The allocation that begins here, or null.
  Allocation *find(uint64_t address);
  void free(uint64_t address);
  /// All allocations of a device; returns how many there were.
  size_t freeAll(int device);

  size_t total(int device) const { return pools[size_t(device)].bytes; }
  size_t used(int device) const { return pools[size_t(device)].used; }

  /// Whether the bytes belong to one allocation (with `live`, one whose turn
  /// has come), or to pinned host memory. A length of 0 is any place in it, or
  /// its end.
  bool covers(uint64_t address, size_t bytes, bool live) const;
  bool isPinned(uint64_t address, size_t bytes) const;
  /// Whether the address is one of a device, allocated or not.
  bool isDevice(uint64_t address) const;
  /// Where the worker finds what is at the address.
  char *translate(uint64_t address) const;

  bool pin(void *pointer, size_t bytes, bool allocated);
  /// Frees or forgets what was pinned at this address; false where nothing
  /// was, or it was pinned in the other way.
  bool unpin(void *pointer, bool allocated);

  /// The first allocation around which bytes have changed, 0 if none; they are
  /// put back.
  uint64_t findOverrun();

private:
  struct Pool {
    char *seen, *real;
    size_t bytes, used = 0;
    std::map<uint64_t, Allocation> allocations; // by address
  };
  struct Pinned {
    size_t bytes;
    bool allocated;
  };
  Pool *poolOf(uint64_t address);
  const Pool *poolOf(uint64_t address) const {
    return const_cast<DeviceMemory *>(this)->poolOf(address);
  }

  std::vector<Pool> pools;
  std::map<uint64_t, Pinned> pinned;
};

} // namespace fake

#endif // MPCOMM_TEST_LIB_FAKECUDA_MEMORY_H
