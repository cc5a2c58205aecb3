//===- Elements.h - elements of operands of the emulated libraries --------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_LIB_FAKECUDA_ELEMENTS_H
#define MPCOMM_TEST_LIB_FAKECUDA_ELEMENTS_H

#include "FakeCuda.h"
#include "support/DType.h"

#include <bit>
#include <cstring>

namespace fake {

/// An operand where the device's worker finds it, element by element.
class Elements {
public:
  Elements(mprt_dtype type, const void *pointer)
      : type(type), size(mprt::sizeOf(type)), seen(pointer),
        data(static_cast<char *>(mpfake_device(pointer))) {}

  /// Whether elements `first` to `last` lie in one allocation.
  bool covers(int64_t first, int64_t last) const {
    return mpfake_covers(static_cast<const char *>(seen) +
                             first * int64_t(size),
                         size_t(last - first + 1) * size) != 0;
  }

  template <typename Sum> Sum get(int64_t at) const {
    const char *from = data + at * int64_t(size);
    if (type == MPRT_F64)
      return Sum(read<double>(from));
    if (type == MPRT_F32)
      return Sum(read<float>(from));
    if (type == MPRT_F8E4M3 || type == MPRT_F8E5M2)
      return Sum(mprt::loadFloat(type, from, 0));
    auto bits = read<uint16_t>(from);
    return Sum(type == MPRT_F16 ? mprt::f16ToFloat(bits)
                                : mprt::bf16ToFloat(bits));
  }

  template <typename Sum> void set(int64_t at, Sum value) const {
    char *to = data + at * int64_t(size);
    if (type == MPRT_F64)
      write(to, double(value));
    else if (type == MPRT_F32)
      write(to, float(value));
    else
      write(to, type == MPRT_F16 ? mprt::floatToF16(float(value))
                                 : mprt::floatToBf16(float(value)));
  }

private:
  template <typename T> static T read(const char *from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  template <typename T> static void write(char *to, T value) {
    std::memcpy(to, &value, sizeof value);
  }

  mprt_dtype type;
  size_t size;
  const void *seen;
  char *data;
};

/// To the 10 bits of a TF32's fraction, to nearest.
inline double roundToTf32(double value) {
  auto bits = std::bit_cast<uint32_t>(float(value));
  bits = (bits + 0xfffu + ((bits >> 13) & 1u)) & ~0x1fffu;
  return std::bit_cast<float>(bits);
}

} // namespace fake

#endif // MPCOMM_TEST_LIB_FAKECUDA_ELEMENTS_H
