//===- Exchange.cpp - shared memory and arithmetic of the fake NCCL -------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fake.h"

#include "comm/nccl/NcclApi.h"
#include "support/DType.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace fake_nccl;
using namespace mprt::nccl;

Region *fake_nccl::openRegion(const std::string &name) {
  int file = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0)
    return nullptr;
  void *memory = MAP_FAILED;
  if (ftruncate(file, sizeof(Region)) == 0)
    memory = mmap(nullptr, sizeof(Region), PROT_READ | PROT_WRITE, MAP_SHARED,
                  file, 0);
  close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<Region *>(memory);
}

size_t fake_nccl::widthOf(int type) {
  switch (type) {
  case ncclInt8:
  case ncclUint8:
    return 1;
  case ncclFloat16:
  case ncclBfloat16:
    return 2;
  case ncclInt32:
  case ncclFloat32:
    return 4;
  case ncclInt64:
  case ncclFloat64:
    return 8;
  default:
    return 0;
  }
}

namespace {

/// Numbers that compute as T and are stored as S.
template <typename T, typename S> struct Plain {
  using Stored = S;
  static T load(S value) { return T(value); }
  static S store(T value) { return S(value); }
};
struct Bf16 {
  using Stored = uint16_t;
  static float load(uint16_t value) {
    return std::bit_cast<float>(uint32_t(value) << 16);
  }
  static uint16_t store(float value) { return mprt::floatToBf16(value); }
};
/// Half precision, by the compiler's own type.
struct F16 {
  using Stored = uint16_t;
  static float load(uint16_t value) {
    return float(std::bit_cast<_Float16>(value));
  }
  static uint16_t store(float value) {
    return std::bit_cast<uint16_t>(_Float16(value));
  }
};

template <typename Number>
void reduceAs(void *result, const std::vector<const void *> &inputs,
              size_t first, size_t count, int op) {
  using Stored = typename Number::Stored;
  using T = decltype(Number::load(Stored()));
  size_t n = inputs.size();
  auto *out = static_cast<Stored *>(result);
  for (size_t i = 0; i < count; ++i) {
    Stored sum{};
    for (size_t k = 0; k < n; ++k) {
      Stored next = static_cast<const Stored *>(inputs[(first + k) % n])[i];
      if (op == ncclAvg)
        next = Number::store(T(Number::load(next) / T(n)));
      if (k == 0) {
        sum = next;
        continue;
      }
      T a = Number::load(sum), b = Number::load(next);
      if (op == ncclProd)
        a = a * b;
      else if (op == ncclSum || op == ncclAvg)
        a = a + b;
      else if constexpr (std::is_floating_point_v<T>)
        a = op == ncclMax ? std::fmax(a, b) : std::fmin(a, b);
      else // sums wrap around, and are unsigned for that
        a = T(op == ncclMax ? std::max(sum, next) : std::min(sum, next));
      sum = Number::store(a);
    }
    out[i] = sum;
  }
}

} // namespace

void fake_nccl::reduce(void *result, const std::vector<const void *> &inputs,
                       size_t first, size_t count, int type, int op) {
  switch (type) {
  case ncclInt8:
    return reduceAs<Plain<int32_t, int8_t>>(result, inputs, first, count, op);
  case ncclUint8:
    return reduceAs<Plain<uint32_t, uint8_t>>(result, inputs, first, count, op);
  case ncclInt32:
    return reduceAs<Plain<uint32_t, int32_t>>(result, inputs, first, count, op);
  case ncclInt64:
    return reduceAs<Plain<uint64_t, int64_t>>(result, inputs, first, count, op);
  case ncclFloat16:
    return reduceAs<F16>(result, inputs, first, count, op);
  case ncclBfloat16:
    return reduceAs<Bf16>(result, inputs, first, count, op);
  case ncclFloat32:
    return reduceAs<Plain<float, float>>(result, inputs, first, count, op);
  case ncclFloat64:
    return reduceAs<Plain<double, double>>(result, inputs, first, count, op);
  }
}
