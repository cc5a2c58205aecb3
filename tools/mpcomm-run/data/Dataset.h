//===- Dataset.h - samples for a function's batch arguments ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A dataset is a safetensors file with one tensor for each batch argument, of
// the argument's type and shape but for the leading dimension, which counts
// samples. It stays in the page cache; batches are gathered out of the mapping.
// Where ranks run several functions of one name, each of them takes what its
// own has as arguments.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_DATA_DATASET_H
#define MPCOMM_RUN_DATA_DATASET_H

#include "data/Status.h"
#include "session/files/SafeTensors.h"
#include "session/program/Manifest.h"
#include "session/state/RankState.h"

#include <map>
#include <optional>
#include <span>
#include <string>

namespace mpcomm::run {

class Dataset {
public:
  /// Opens `path` for the batch arguments of `functions`, all of one name,
  /// which must outlive the dataset. Checks types and shapes, not yet the
  /// values.
  static Result<Dataset>
  open(const std::string &path,
       const std::vector<const ManifestFunction *> &functions);

  uint64_t samples() const { return sampleCount; }
  const std::string &path() const { return file.path(); }

  /// Looks at every value once: integers against the argument's range, bool
  /// against 0 and 1, and floats, unless `allowNonFinite`, for NaN and
  /// infinity. Names the first offending sample. Takes the checksum of each
  /// tensor on the way, and compares it with the one that the file may have.
  /// Linear in the file; what it has read does not stay in this process'
  /// memory. What `known` has validated, a dataset of the same file, is not
  /// read again.
  Status validate(bool allowNonFinite, const Dataset *known = nullptr);

  /// Fails where the file has other contents than `validate` has seen. Reads it
  /// again only where somebody has written to it, or touched it.
  Status checkUnchanged(bool allowNonFinite);

  /// XXH64 of each tensor that is used, by name; empty before `validate`.
  const std::map<std::string, uint64_t> &checksums() const { return hashes; }
  /// One number for all of them.
  uint64_t checksum() const;

  /// Copies the samples `indices` into the batch slots of `binding`, which
  /// belongs to one of the functions that the dataset was opened for.
  void gather(std::span<const uint64_t> indices, RankState &state,
              const Binding &binding);

private:
  explicit Dataset(SafeTensors file) : file(std::move(file)) {}

  struct Column {
    const ManifestArgument *argument;
    const char *data;
    uint64_t sampleBytes;
  };

  Status addColumn(const ManifestArgument &argument);
  /// The checksum of a tensor that was validated for such an argument.
  std::optional<uint64_t> knownHash(const ManifestArgument &argument) const;
  Status validateColumn(const Column &column, bool allowNonFinite);

  SafeTensors file;
  std::vector<Column> columns;
  SafeTensors::Stamp validated;
  std::map<std::string, uint64_t> hashes;
  uint64_t sampleCount = 0;
  /// Bytes gathered since pages were last given back.
  uint64_t touchedBytes = 0;
};

} // namespace mpcomm::run

#endif // MPCOMM_RUN_DATA_DATASET_H
