//===- StateFile.h - a file of state, with its shards ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Weights and checkpoints are safetensors files. A checkpoint that several
// ranks have written is an index and shards, each of them such a file: the
// index has rank 0's tensors, and in its metadata, under `mpcomm.shard.R`, the
// name of the file that rank R has written beside it and the checksum of that
// file's header, which has the checksums of its tensors.
//
// Parts of a tensor are tensors of one dimension, of its name, in several of
// the files. In the metadata of each, under `mpcomm.part.NAME`, is the first
// element that it has, in row-major order, and the shape of the whole: "640 of
// [64, 20]".
//
// Shards are never changed: what is another shard has another name. Those that
// no index names any more go.
//
// In a checkpoint, the metadata of a file has the role of each of its tensors
// that is neither parameter nor buffer, under `mpcomm.role.NAME`, and that of
// the index the number of parameters and buffers, as `mpcomm.weights`.
//
// A large model of Hugging Face is several such files and a JSON file, whose
// name ends with ".index.json", that says which tensor is in which of them. It
// is a file of state, too.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_FILES_STATEFILE_H
#define MPCOMM_RUNTIME_FILES_STATEFILE_H

#include "files/SafeTensors.h"

namespace mprt {

/// Before the number of a rank, in the metadata of an index.
inline constexpr std::string_view shardPrefix = "mpcomm.shard.";

/// Before the name of a tensor of which a file has a part, in its metadata.
inline constexpr std::string_view partPrefix = "mpcomm.part.";
/// The metadata of a part.
std::string describePart(uint64_t first, const Shape &whole);

/// Before the name of a tensor of the optimizer, in the metadata of a
/// checkpoint.
inline constexpr std::string_view rolePrefix = "mpcomm.role.";
/// How many parameters and buffers a checkpoint has, in the index.
inline constexpr std::string_view weightsKey = "mpcomm.weights";

/// An open file of state, with all of its shards.
class StateFile {
public:
  /// Opens the files and checks their headers, and that the shards are those
  /// that the index was written with.
  static Expected<StateFile> open(const std::string &path);

  /// Of the index.
  const std::string &path() const { return files[0].path(); }
  const std::map<std::string, std::string> &metadata() const {
    return files[0].metadata();
  }
  /// The same for two files whose headers are the same, shards included.
  uint64_t digest() const;

  /// The tensor of that name, or null.
  const TensorEntry *find(const std::string &name) const;
  /// Of all tensors, ascending.
  std::vector<std::string> names() const;
  /// What a tensor is where it is neither parameter nor buffer, as the manifest
  /// calls it; empty otherwise.
  std::string roleOf(const std::string &name) const;
  /// Whether all parts of a tensor have checksums, which `read` compares.
  bool hasChecksum(const std::string &name) const;
  /// Of all files, the index first.
  std::vector<std::string> paths() const;
  /// As SafeTensors::read.
  Error read(const std::string &name, const TensorEntry &entry,
             void *destination) const {
    return readPart(name, entry, 0, *elementsOf(entry.shape), destination);
  }
  /// The elements [first, first + count), in row-major order.
  Error readPart(const std::string &name, const TensorEntry &entry,
                 uint64_t first, uint64_t count, void *destination) const;

private:
  static Expected<StateFile> openModel(const std::string &path);
  Error add(SafeTensors file);
  Error checkParts();

  std::vector<SafeTensors> files;
  struct Tensor {
    TensorEntry whole;
    /// By first element: which of the files has it. One that is not split has
    /// one part.
    std::map<uint64_t, size_t> parts;
  };
  std::map<std::string, Tensor> tensors;
};

/// Name of the shard of `rank` of a checkpoint at `path`, where that leads to.
/// `token` is a hash of what is in the shards of a checkpoint.
std::string shardNameOf(const std::string &path, uint64_t token, uint64_t rank);

/// Removes shards beside `path` that neither the checkpoint there nor one that
/// is kept beside it names: of checkpoints that were replaced, and of jobs that
/// were killed while they wrote. Removes none where an index cannot be read.
/// Nobody else may write there meanwhile.
void removeUnusedShards(const std::string &path);

} // namespace mprt

#endif // MPCOMM_RUNTIME_FILES_STATEFILE_H
