//===- Encoding.cpp - from values in files to those of a program ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each byte of an image is looked up: 256 values a channel, each rounded once.
//
//===----------------------------------------------------------------------===//

#include "data/Encoding.h"

#include "support/Integers.h"

#include "mpcomm/Runtime/Exactly.h"

#include <algorithm>
#include <cstring>

using namespace mpcomm::run;

namespace {

/// Calls `use` with a value of the type of a stored token.
template <typename Use> auto withToken(uint64_t bytes, Use use) {
  return bytes == 2 ? use(uint16_t()) : use(uint32_t());
}

/// Calls `use` with a value of an integer type of `bytes` bytes.
template <typename Use> void withBits(size_t bytes, Use use) {
  withInteger(bytes == 1   ? MPRT_U8
              : bytes == 2 ? MPRT_I16
              : bytes == 4 ? MPRT_I32
                           : MPRT_I64,
              use);
}

/// Those that an integer type holds, but for the greatest of i64.
std::pair<int64_t, int64_t> rangeOf(DType type) {
  auto [least, greatest] = limitsOf(type);
  return {least, greatest + (type != MPRT_I64)};
}

} // namespace

Encoding Encoding::ofTokens(const ManifestArgument &argument,
                            uint64_t tokenBytes, uint64_t shift) {
  Encoding made(argument);
  made.kind = Kind::Tokens;
  made.valueBytes = tokenBytes;
  made.valuesPerSample =
      argument.elements / static_cast<uint64_t>(argument.shape[0]);
  made.shift = shift;
  made.range = argument.range.value_or(rangeOf(argument.type));
  made.conversion = "tokens of " + std::to_string(tokenBytes) + " bytes, " +
                    std::to_string(made.valuesPerSample) + " from " +
                    std::to_string(shift);
  return made;
}

Expected<Encoding> Encoding::ofTensor(const ManifestArgument &argument,
                                      const TensorEntry &tensor,
                                      const DataFormat &format) {
  Encoding made(argument);
  Shape sample(argument.shape.begin() + 1, argument.shape.end());
  auto expected = [&](const auto &...more) {
    return fail("is ", describe(tensor), ", expected samples of ",
                describe(argument.type, sample), " after a leading dimension",
                more...);
  };
  if (!tensor.otherType.empty() || tensor.shape.empty())
    return expected();
  Shape stored(tensor.shape.begin() + 1, tensor.shape.end());
  if (tensor.type == MPRT_U8 && isFloat(argument.type)) {
    if (!format.convertsImages())
      return expected("; --image-mean and --image-std convert bytes");
    if (Error status = made.convertImage(stored, format); status.failed())
      return expected(status.message());
    return made;
  }
  if (tensor.type != argument.type || stored != sample)
    return expected();
  made.valueBytes = sizeOf(argument.type);
  made.valuesPerSample =
      argument.elements / static_cast<uint64_t>(argument.shape[0]);
  made.range = argument.range;
  if (argument.type == MPRT_BOOL)
    made.range = rangeOf(MPRT_BOOL);
  return made;
}

Error Encoding::convertImage(const Shape &stored, const DataFormat &format) {
  Shape sample(argument->shape.begin() + 1, argument->shape.end());
  valuesPerSample =
      argument->elements / static_cast<uint64_t>(argument->shape[0]);
  kind = Kind::Image;
  channels =
      std::max<size_t>({1, format.imageMean.size(), format.imageStd.size()});
  auto isFirst = [&](const Shape &shape) {
    return !shape.empty() && static_cast<uint64_t>(shape.front()) == channels;
  };
  auto isLast = [&](const Shape &shape) {
    return !shape.empty() && static_cast<uint64_t>(shape.back()) == channels;
  };
  // [H, W, C] of the file for [C, H, W] of the program.
  Shape turned = sample;
  if (!turned.empty())
    std::rotate(turned.begin(), turned.begin() + 1, turned.end());
  bool isTurned = stored != sample && stored == turned &&
                  (channels == 1 || isFirst(sample));
  if (stored != sample && !isTurned)
    return fail("");
  if (isTurned)
    channels = static_cast<uint64_t>(sample.front());
  bool isChannelFirst = channels == 1 || isFirst(sample);
  if (!isChannelFirst && !isLast(sample))
    return fail("; it has no ", channels,
                " channels, as --image-mean and --image-std have");
  uint64_t pixels = valuesPerSample / channels;
  auto set = [&](uint64_t (&target)[2], bool first) {
    target[0] = first ? pixels : 1;
    target[1] = first ? 1 : channels;
  };
  set(strides, isChannelFirst);
  set(storedStrides, isChannelFirst && !isTurned);
  auto of = [](const std::vector<double> &numbers, size_t c, double otherwise) {
    return numbers.empty()       ? otherwise
           : numbers.size() == 1 ? numbers[0]
                                 : numbers[c];
  };
  size_t size = sizeOf(argument->type);
  table.resize(channels * 256 * size);
  conversion = isTurned ? "bytes, channels last" : "bytes";
  for (size_t c = 0; c < channels; ++c) {
    double mean = of(format.imageMean, c, 0), scale = of(format.imageStd, c, 1);
    conversion += ", " + exactly(mean) + " " + exactly(scale);
    for (size_t b = 0; b < 256; ++b)
      storeNumber(argument->type, table.data(), 256 * c + b,
                  (static_cast<double>(b) / 255 - mean) / scale);
  }
  return {};
}

void Encoding::decode(const char *stored, char *target) const {
  if (kind == Kind::Same) {
    std::memcpy(target, stored, stride());
    return;
  }
  size_t size = sizeOf(argument->type);
  if (kind == Kind::Tokens)
    return withToken(valueBytes, [&](auto token) {
      withBits(size, [&](auto wide) {
        for (uint64_t i = 0; i < valuesPerSample; ++i)
          storeAs(target, i,
                  decltype(wide)(loadAs<decltype(token)>(stored, i)));
      });
    });
  withBits(size, [&](auto bits) {
    using Bits = decltype(bits);
    const auto *bytes = reinterpret_cast<const unsigned char *>(stored);
    uint64_t pixels = valuesPerSample / channels;
    for (uint64_t c = 0; c < channels; ++c)
      for (uint64_t p = 0; p < pixels; ++p)
        storeAs(
            target, c * strides[0] + p * strides[1],
            loadAs<Bits>(
                table.data(),
                256 * c + bytes[c * storedStrides[0] + p * storedStrides[1]]));
  });
}

size_t Encoding::findBad(const char *stored, size_t count,
                         bool allowNonFinite) const {
  if (kind == Kind::Image)
    return count;
  if (kind == Kind::Tokens)
    return withToken(valueBytes, [&](auto token) {
      return findOutside<decltype(token)>(stored, count, range->first,
                                          range->second - 1);
    });
  if (isFloat(argument->type))
    return allowNonFinite ? count
                          : findNonFinite(argument->type, stored, count);
  return range ? findOutside(argument->type, stored, count, range->first,
                             range->second - 1)
               : count;
}

std::string Encoding::describeBad(const char *stored, size_t index) const {
  if (isFloat(argument->type))
    return fail(loadFloat(argument->type, stored, index),
                " is not finite; --allow-nonfinite accepts it")
        .message();
  int64_t value = isTokens()
                      ? withToken(valueBytes,
                                  [&](auto token) {
                                    return static_cast<int64_t>(
                                        loadAs<decltype(token)>(stored, index));
                                  })
                      : loadInteger(argument->type, stored, index);
  return fail(value, " is outside [", range->first, ", ", range->second, ")")
      .message();
}
