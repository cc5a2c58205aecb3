//===- SafeTensors.h - reading and writing safetensors files --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A safetensors file is eight bytes with the length of a JSON header (little
// endian), the header, and the tensors back to back. Weights, datasets and
// checkpoints are such files.
//
// The reader trusts nothing: every number in the header is checked against the
// file before it is used, and what it allocates is bounded by the header,
// which is at most 100 MB. The writer never leaves half a file under the name
// that was asked for.
//
// A file may have checksums in its metadata, which other readers ignore: one
// for each tensor, and one of everything in the header. They are compared as
// what they are of is read. A file without them is read as it is.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_FILES_SAFETENSORS_H
#define MPCOMM_RUNTIME_FILES_SAFETENSORS_H

#include "files/MappedFile.h"
#include "support/Error.h"
#include "support/Tensor.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mprt {

/// The longest header that is read, in bytes. The format's own limit.
inline constexpr uint64_t maxSafetensorsHeader = 100'000'000;

/// One tensor of an open file. `begin` counts bytes from the first byte after
/// the header.
struct TensorEntry {
  /// Not the file's where that is none of these: then it is called `otherType`
  /// there, and nothing can be read of the tensor.
  DType type = MPRT_F32;
  std::string otherType = {};
  Shape shape;
  uint64_t begin = 0;
  uint64_t bytes = 0;
};

/// `f32 [2, 3]`, or `'F8_E4M3' [2, 3]`: other types have other texts.
std::string describe(const TensorEntry &entry);

/// Keys of the metadata: the checksum of a tensor is under the prefix and its
/// name.
inline constexpr std::string_view headerChecksumKey = "mpcomm.checksum";
inline constexpr std::string_view tensorChecksumPrefix = "mpcomm.checksum.";

/// XXH64 over the metadata, but for its own entry, and the table of tensors, in
/// the order of names; independent of how the header's JSON is written.
uint64_t checksumOfHeader(const std::map<std::string, TensorEntry> &tensors,
                          const std::map<std::string, std::string> &metadata);

/// An open, checked file, mapped read-only. Pages come in as they are touched,
/// so that a dataset shared by the ranks of a machine lies in memory once.
class SafeTensors {
public:
  /// Maps and checks `path`, and compares the header with its checksum. Linear
  /// in the header, O(n log n) in the number of tensors; touches no tensor.
  static Expected<SafeTensors> open(const std::string &path);

  const std::string &path() const { return file.path(); }
  const std::map<std::string, TensorEntry> &tensors() const { return entries; }
  const std::map<std::string, std::string> &metadata() const { return meta; }

  /// The tensor of that name, or null.
  const TensorEntry *find(const std::string &name) const;

  /// First byte of a tensor. Not aligned in general.
  const char *dataOf(const TensorEntry &entry) const {
    return file.contents().data() + dataOffset + entry.begin;
  }

  /// Fails where the file has a checksum of the tensor and it is not `found`.
  Error compareChecksum(const std::string &name, uint64_t found) const;

  /// Copies a tensor to `destination` through the file descriptor, so that
  /// its pages do not count as memory of this process, and compares it with its
  /// checksum where the file has one.
  Error read(const std::string &name, const TensorEntry &entry,
             void *destination) const;

  using Stamp = MappedFile::Stamp;
  Expected<Stamp> stamp() const { return file.stamp(); }

private:
  SafeTensors() = default;

  MappedFile file;
  uint64_t dataOffset = 0;
  std::map<std::string, TensorEntry> entries;
  std::map<std::string, std::string> meta;
};

/// Checks the header text of a file whose tensors occupy `dataBytes`; the part
/// of `open` that reads no file. `what` begins each message.
Error parseSafetensorsHeader(const std::string &what, std::string_view header,
                             uint64_t dataBytes,
                             std::map<std::string, TensorEntry> &tensors,
                             std::map<std::string, std::string> &metadata);

/// Takes the next bytes of a tensor.
using TensorSink = std::function<Error(const void *data, uint64_t bytes)>;

/// A tensor to be written. `data` stays the caller's. Where there is a
/// `produce`, it is called instead when it is the tensor's turn, and gives the
/// sink all of its bytes in order.
struct TensorToWrite {
  std::string name;
  DType type;
  Shape shape;
  const void *data = nullptr;
  std::function<Error(const TensorSink &)> produce = nullptr;
  /// XXH64 of its bytes, which the file then has.
  std::optional<uint64_t> checksum = std::nullopt;
};

/// Brings tensors, of whatever description has a `type`, into the order in
/// which they are in a file: by falling element size, so that each lies
/// aligned, else as they were.
template <typename Tensor> void sortForFile(std::vector<Tensor> &tensors) {
  std::vector<Tensor> sorted;
  sorted.reserve(tensors.size());
  for (size_t size : {8, 4, 2, 1})
    for (Tensor &tensor : tensors)
      if (sizeOf(tensor.type) == size)
        sorted.push_back(std::move(tensor));
  tensors = std::move(sorted);
}

/// `metadata` as `writeSafetensors` writes it: where tensors have checksums, or
/// there are none, with the checksums of tensors and header.
std::map<std::string, std::string>
withChecksums(const std::vector<TensorToWrite> &tensors,
              std::map<std::string, std::string> metadata);

/// Where the first tensor begins in the file that `writeSafetensors` writes of
/// `tensors` and `metadata`; the others follow it without gaps.
uint64_t dataBegin(const std::vector<TensorToWrite> &tensors,
                   const std::map<std::string, std::string> &metadata);

/// Writes `path` as an OutputFile: it holds either all of the new contents or
/// what it held before. `beforeCommit` is called when all is written and the
/// file does not have its name yet; where it fails, it does not get it. `wrote`
/// is called with the bytes so far, at least every few MB.
Error writeSafetensors(const std::string &path,
                       const std::vector<TensorToWrite> &tensors,
                       const std::map<std::string, std::string> &metadata,
                       const std::function<Error()> &beforeCommit = nullptr,
                       const std::function<void(uint64_t)> &wrote = nullptr);

} // namespace mprt

#endif // MPCOMM_RUNTIME_FILES_SAFETENSORS_H
