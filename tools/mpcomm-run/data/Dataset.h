//===- Dataset.h - samples for a function's batch arguments ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The samples of several files, one after another. Files of tensors hold, for
// each batch argument, samples of its type and shape; files of tokens hold
// windows. Both stay in the page cache; batches are gathered out of the
// mappings. Where ranks run several functions of one name, each of them takes
// what its own has as arguments.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_DATA_DATASET_H
#define MPCOMM_RUN_DATA_DATASET_H

#include "data/DataFile.h"
#include "data/DataFormat.h"
#include "data/Encoding.h"
#include "data/Runtime.h"
#include "files/Manifest.h"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mpcomm::run {

/// What the tokens of a stream are for.
struct TokenArgument {
  const ManifestArgument *argument;
  /// It starts so many tokens after the first of a sample.
  uint64_t shift;
};

/// The batch arguments, `arguments` in all, that get tokens. Without
/// --token-arguments these are the integer arguments with samples of one
/// dimension: a single one, or two of which the one called y, target or targets
/// starts one token later. All have samples of --context tokens.
Expected<std::vector<TokenArgument>>
chooseTokenArguments(const std::vector<const ManifestArgument *> &arguments,
                     const DataFormat &format);

class Dataset {
public:
  /// Opens `files` for the batch arguments of `functions`, all of one name,
  /// which must outlive the dataset. Checks types and shapes, not yet the
  /// values.
  static Expected<Dataset>
  open(const DataFiles &files, const DataFormat &format,
       const std::vector<const ManifestFunction *> &functions);

  uint64_t samples() const { return sampleCount; }
  /// Of a sample, where the files are of tokens; else 0.
  uint64_t tokensPerSample() const { return context; }
  /// Tokens at the ends of files that no sample has as an input.
  uint64_t tokensLeftOver() const { return leftOver; }
  /// Of all files that are used, in bytes.
  uint64_t bytes() const { return allBytes; }
  /// Whether values are converted on the way in.
  bool converts() const;
  /// The files, for messages.
  std::string name() const;
  const DataFiles &files() const { return source; }
  /// An .npy file of the dataset for an argument of another name than `known`.
  Error checkArguments(const std::vector<std::string> &known) const;

  /// Looks at every value once: integers against the argument's range, bool
  /// against 0 and 1, and floats, unless `allowNonFinite`, for NaN and
  /// infinity. Names the first offending sample. Takes the checksum of each
  /// column on the way, and compares that of a tensor with the one that its
  /// file may have. Linear in the files; what it has read does not stay in this
  /// process' memory. What `known` has validated, a dataset of the same files,
  /// is not read again. Where data is not read at start, values are looked at
  /// by `gather` instead, and checksums are of samples of the files.
  Error validate(bool allowNonFinite, const Dataset *known = nullptr);

  /// Fails where a file has other contents than `validate` has seen. Reads them
  /// again only where somebody has written to one, or touched it.
  Error checkUnchanged(bool allowNonFinite);

  /// One for each column, by the name of its argument; empty before `validate`.
  const std::map<std::string, uint64_t> &checksums() const { return hashes; }
  /// One number for all of them.
  uint64_t checksum() const;

  /// Batch arguments that have samples.
  size_t columnCount() const { return columns.size(); }
  const ManifestArgument &argumentOf(size_t column) const {
    return *columns[column].argument;
  }
  /// Converts the samples `indices` of each column to where `targets` has it;
  /// null is left out. Fails for values that were not looked at before and that
  /// the program cannot take.
  Error gather(std::span<const uint64_t> indices,
               std::span<char *const> targets);
  /// Says how samples will be gathered from now on.
  void expectOrder(bool isShuffled) const;

private:
  Dataset(DataFiles source, const DataFormat &format)
      : source(std::move(source)), format(format) {}

  /// What of a column is in one file.
  struct Piece {
    size_t file;
    /// All of it; samples are at multiples of the stride.
    std::string_view stored;
    /// Samples before it, and in it.
    uint64_t first, samples;
  };
  struct Column {
    const ManifestArgument *argument;
    Encoding encoding;
    std::vector<Piece> pieces;
    uint64_t samples() const {
      return pieces.back().first + pieces.back().samples;
    }
    /// Where sample `index` begins in the file.
    std::pair<const Piece *, const char *> find(uint64_t index) const;
  };

  Error openFiles();
  Error addColumn(const ManifestArgument &argument);
  Error addTokens(const std::vector<const ManifestArgument *> &arguments);
  Error checkCounts() const;
  /// The checksum of a column that was validated for such an argument.
  std::optional<uint64_t> knownHash(const Column &column) const;
  /// Looks at all of a column; its checksum.
  Expected<uint64_t> validateColumn(const Column &column) const;
  /// A checksum of some of it.
  uint64_t sampleHash(const Column &column) const;
  /// The failure that value `index` of a piece is.
  Error describeBad(const Column &column, const Piece &piece,
                    uint64_t index) const;
  Expected<std::vector<MappedFile::Stamp>> stamps() const;
  void release() const;

  DataFiles source;
  DataFormat format;
  std::vector<DataFile> opened;
  std::vector<Column> columns;
  std::vector<MappedFile::Stamp> validated;
  std::map<std::string, uint64_t> hashes;
  uint64_t sampleCount = 0, context = 0, leftOver = 0, allBytes = 0;
  bool allowsNonFinite = false, readsAtStart = true;
  /// Bytes gathered since pages were last given back.
  uint64_t touchedBytes = 0;
};

} // namespace mpcomm::run

#endif // MPCOMM_RUN_DATA_DATASET_H
