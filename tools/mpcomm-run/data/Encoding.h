//===- Encoding.h - from values in files to those of a program ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Samples are in files as the program takes them, as bytes that become floats,
// or as windows of a stream of tokens. Windows follow one another at a distance
// of their length: each token is an input once in an epoch.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_DATA_ENCODING_H
#define MPCOMM_RUN_DATA_ENCODING_H

#include "data/DataFormat.h"
#include "files/Manifest.h"
#include "files/SafeTensors.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mpcomm::run {

class Encoding {
public:
  /// Samples of `argument` from the rows of a tensor. Fails, with what was
  /// found and expected, where they do not make any.
  static Expected<Encoding> ofTensor(const ManifestArgument &argument,
                                     const TensorEntry &tensor,
                                     const DataFormat &format);
  /// Windows of tokens of `tokenBytes`, each `shift` tokens after where the
  /// sample begins.
  static Encoding ofTokens(const ManifestArgument &argument,
                           uint64_t tokenBytes, uint64_t shift);

  /// Bytes in the file from one sample to the next, and from the first that
  /// belongs to a sample to the first of its values.
  uint64_t stride() const { return valuesPerSample * valueBytes; }
  uint64_t offset() const { return shift * valueBytes; }
  uint64_t bytesOfValue() const { return valueBytes; }
  bool isTokens() const { return kind == Kind::Tokens; }
  /// Whether `findBad` is the same for both.
  bool acceptsSame(const Encoding &other) const {
    return kind == other.kind && valueBytes == other.valueBytes &&
           range == other.range && argument->type == other.argument->type;
  }

  /// Converts the sample at `stored`, where its first value is.
  void decode(const char *stored, char *target) const;
  /// Index of the first of `count` stored values that the program cannot take,
  /// or `count`.
  size_t findBad(const char *stored, size_t count, bool allowNonFinite) const;
  /// What is wrong with value `index`, which `findBad` has found.
  std::string describeBad(const char *stored, size_t index) const;

  /// What the program gets depends on it besides the bytes of the file; empty
  /// where it does not.
  const std::string &description() const { return conversion; }

private:
  enum class Kind : uint8_t { Same, Image, Tokens };
  explicit Encoding(const ManifestArgument &argument) : argument(&argument) {}

  Error convertImage(const Shape &stored, const DataFormat &format);

  const ManifestArgument *argument;
  Kind kind = Kind::Same;
  uint64_t valuesPerSample = 0, valueBytes = 1;
  /// Integers outside [first, second) are bad, where there is one.
  std::optional<std::pair<int64_t, int64_t>> range;

  uint64_t shift = 0;

  /// Of an image: the value of byte b of channel c is at 256 c + b, and pixel p
  /// of channel c at c * strides[0] + p * strides[1].
  std::vector<char> table;
  uint64_t channels = 1;
  uint64_t storedStrides[2] = {}, strides[2] = {}; // of channels, pixels
  std::string conversion;
};

} // namespace mpcomm::run

#endif // MPCOMM_RUN_DATA_ENCODING_H
