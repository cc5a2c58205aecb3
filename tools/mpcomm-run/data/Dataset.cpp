//===- Dataset.cpp - samples for a function's batch arguments -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Mapped pages count as memory of the process that touched them. So that a
// large dataset does not pass for a large process, they are given back every
// 32 MiB or so; they stay in the page cache. Validation is in
// DatasetValidation.cpp.
//
//===----------------------------------------------------------------------===//

#include "data/Dataset.h"

#include <algorithm>

using namespace mpcomm::run;

namespace {

constexpr uint64_t residentLimit = 32 << 20;
/// What the kernel maps around a page that is touched.
constexpr uint64_t faultAroundBytes = 64 << 10;

uint64_t batchOf(const ManifestArgument &argument) {
  return static_cast<uint64_t>(argument.shape[0]);
}

Shape sampleOf(const ManifestArgument &argument) {
  return Shape(argument.shape.begin() + 1, argument.shape.end());
}

/// `x (i64 [128]), y (i64 [128])`, for messages.
std::string listOf(const std::vector<const ManifestArgument *> &arguments) {
  std::string text;
  for (const ManifestArgument *argument : arguments)
    text += (text.empty() ? "" : ", ") + printable(argument->name) + " (" +
            describe(argument->type, sampleOf(*argument)) + ")";
  return text;
}

} // namespace

//===- which arguments get tokens -----------------------------------------===//

Expected<std::vector<TokenArgument>> mpcomm::run::chooseTokenArguments(
    const std::vector<const ManifestArgument *> &arguments,
    const DataFormat &format) {
  std::vector<TokenArgument> chosen;
  auto unclear = [&](const auto &...why) {
    return fail("--tokens: ", why...,
                "; --token-arguments NAME,NAME+1 says which arguments get the "
                "tokens, and which those that follow; there are ",
                listOf(arguments));
  };
  for (const ManifestArgument *argument : arguments) {
    const std::string &name = argument->name;
    auto given =
        std::find_if(format.tokenArguments.begin(), format.tokenArguments.end(),
                     [&](const auto &entry) { return entry.first == name; });
    bool fits = isInteger(argument->type) && argument->shape.size() == 2;
    if (!format.tokenArguments.empty()
            ? given == format.tokenArguments.end() || !fits
            : !fits)
      return unclear("argument '", printable(name), "' gets none");
    if (chosen.empty() && format.context &&
        *format.context != static_cast<uint64_t>(argument->shape[1]))
      return fail("--context ", *format.context, ": argument '",
                  printable(name), "' has samples of ", argument->shape[1]);
    if (argument->shape[1] != arguments[0]->shape.back())
      return unclear("samples differ in length");
    bool isTarget = name == "y" || name == "target" || name == "targets";
    chosen.push_back({argument, format.tokenArguments.empty()
                                    ? isTarget && arguments.size() > 1
                                    : given->second});
  }
  for (const auto &[name, shift] : format.tokenArguments)
    if (std::none_of(chosen.begin(), chosen.end(), [&](const auto &entry) {
          return entry.argument->name == name;
        }))
      return unclear("no argument is called '", printable(name), "'");
  size_t inputs = std::count_if(chosen.begin(), chosen.end(),
                                [](const auto &e) { return e.shift == 0; });
  if (format.tokenArguments.empty() && (chosen.size() > 2 || inputs != 1))
    return unclear("which arguments are inputs and which targets is not clear");
  return chosen;
}

//===- opening ------------------------------------------------------------===//

Error Dataset::openFiles() {
  for (const std::string &path : source.paths) {
    Expected<DataFile> file =
        source.areTokens ? DataFile::openTokens(path) : DataFile::open(path);
    if (file.failed())
      return file.error();
    opened.push_back(file.take());
  }
  return {};
}

Error Dataset::addColumn(const ManifestArgument &argument) {
  std::optional<Column> column;
  const std::string quoted = "tensor '" + printable(argument.name) + "'";
  auto missing = [&](const std::string &where) {
    return fail(where, ": no ", quoted, ", expected samples of ",
                describe(argument.type, sampleOf(argument)));
  };
  bool isOfNpy = std::any_of(opened.begin(), opened.end(), [&](const auto &f) {
    return f.argument() == argument.name;
  });
  uint64_t samples = 0;
  for (size_t i = 0; i < opened.size(); ++i) {
    const DataFile &file = opened[i];
    auto found = file.find(argument.name);
    if (!found && (isOfNpy || !file.argument().empty()))
      continue;
    if (!found)
      return missing(file.path());
    const auto &[entry, data] = *found;
    Expected<Encoding> encoding = Encoding::ofTensor(argument, entry, format);
    if (encoding.failed())
      return fail(file.path(), ": ", quoted, " ", encoding.message());
    if (!column)
      column.emplace(Column{&argument, encoding.take(), {}});
    else if (encoding->description() != column->encoding.description())
      return fail(file.path(), ": ", quoted, " is ", describe(entry),
                  ", and has other samples in ",
                  opened[column->pieces[0].file].path());
    auto count = static_cast<uint64_t>(entry.shape[0]);
    column->pieces.push_back({i, {data, entry.bytes}, samples, count});
    samples += count;
    allBytes += entry.bytes;
  }
  if (!column)
    return missing(name());
  columns.push_back(std::move(*column));
  return {};
}

Error Dataset::addTokens(
    const std::vector<const ManifestArgument *> &arguments) {
  auto chosen = chooseTokenArguments(arguments, format);
  if (chosen.failed())
    return chosen.error();
  context = static_cast<uint64_t>(arguments[0]->shape[1]);
  uint64_t shift = 0, size = format.tokenBytes;
  for (const TokenArgument &entry : *chosen)
    shift = std::max(shift, entry.shift);
  for (const TokenArgument &entry : *chosen) {
    Column column{entry.argument,
                  Encoding::ofTokens(*entry.argument, size, entry.shift),
                  {}};
    uint64_t samples = 0;
    leftOver = allBytes = 0; // of all columns the same
    for (size_t i = 0; i < opened.size(); ++i) {
      std::string_view stored = opened[i].contents();
      if (stored.size() % size != 0)
        return fail(opened[i].path(), ": ", stored.size(),
                    " bytes are no whole number of tokens of ", size);
      uint64_t tokens = stored.size() / size;
      uint64_t count = tokens > shift ? (tokens - shift) / context : 0;
      column.pieces.push_back({i, stored, samples, count});
      samples += count;
      leftOver += tokens - count * context;
      allBytes += stored.size();
    }
    columns.push_back(std::move(column));
  }
  return {};
}

/// Of a file with several columns, each sample is in one row of all of them.
Error Dataset::checkCounts() const {
  const Column &first = columns[0];
  for (const Column &column : columns) {
    for (const Piece &piece : column.pieces)
      for (const Piece &other : first.pieces)
        if (piece.file == other.file && piece.samples != other.samples)
          return fail(opened[piece.file].path(), ": tensor '",
                      printable(column.argument->name), "' holds ",
                      piece.samples, " samples, '",
                      printable(first.argument->name), "' holds ",
                      other.samples);
    if (column.samples() != first.samples())
      return fail(name(), ": tensor '", printable(column.argument->name),
                  "' holds ", column.samples(), " samples, '",
                  printable(first.argument->name), "' holds ", first.samples());
  }
  return {};
}

Expected<Dataset>
Dataset::open(const DataFiles &files, const DataFormat &format,
              const std::vector<const ManifestFunction *> &functions) {
  Dataset dataset(files, format);
  if (Error error = dataset.openFiles())
    return error;
  std::vector<const ManifestArgument *> arguments;
  for (const ManifestFunction *function : functions)
    for (const ManifestArgument &argument : function->arguments)
      if (argument.role == Role::Batch &&
          std::none_of(arguments.begin(), arguments.end(),
                       [&](const auto *a) { return a->name == argument.name; }))
        arguments.push_back(&argument);
  if (arguments.empty())
    return fail(dataset.name(), ": function '", functions[0]->name,
                "' takes no batch, so it needs no data");
  Error status;
  if (files.areTokens)
    status = dataset.addTokens(arguments);
  else
    for (const ManifestArgument *argument : arguments)
      if (status = dataset.addColumn(*argument); status.failed())
        break;
  if (status.ok())
    status = dataset.checkCounts();
  if (status.failed())
    return status;
  dataset.sampleCount = dataset.columns[0].samples();
  dataset.readsAtStart =
      format.readsAtStart.value_or(dataset.allBytes <= mostReadAtStart);
  return dataset;
}

std::string Dataset::name() const {
  std::string text = fileOf(source.paths[0]);
  if (source.paths.size() > 1)
    text += " and " + std::to_string(source.paths.size() - 1) +
            (source.paths.size() > 2 ? " more files" : " more file");
  return text;
}

bool Dataset::converts() const {
  return std::any_of(columns.begin(), columns.end(), [](const Column &c) {
    return !c.encoding.description().empty();
  });
}

Error Dataset::checkArguments(const std::vector<std::string> &known) const {
  for (const DataFile &file : opened) {
    const std::string &argument = file.argument();
    if (!argument.empty() &&
        std::find(known.begin(), known.end(), argument) == known.end()) {
      std::string names;
      for (const std::string &name : known)
        names += (names.empty() ? "" : ", ") + printable(name);
      return fail(file.path(), ": the program has no batch argument '",
                  printable(argument), "'; NAME=FILE says which of ", names,
                  " it is for");
    }
  }
  return {};
}

//===- gathering ----------------------------------------------------------===//

std::pair<const Dataset::Piece *, const char *>
Dataset::Column::find(uint64_t index) const {
  // The last piece that begins at or before it; of several, some are empty.
  auto after = std::upper_bound(
      pieces.begin(), pieces.end(), index,
      [](uint64_t i, const Piece &piece) { return i < piece.first; });
  const Piece &piece = *std::prev(after);
  return {&piece, piece.stored.data() +
                      (index - piece.first) * encoding.stride() +
                      encoding.offset()};
}

Error Dataset::gather(std::span<const uint64_t> indices,
                      std::span<char *const> targets) {
  // From a disk, all at once.
  bool isLarge = allBytes > residentLimit;
  for (size_t c = 0; c < columns.size() && isLarge; ++c)
    for (uint64_t index : indices)
      if (targets[c])
        advisePages(
            {columns[c].find(index).second, columns[c].encoding.stride()},
            PageAdvice::Soon);
  for (size_t c = 0; c < columns.size(); ++c) {
    const Column &column = columns[c];
    char *target = targets[c];
    if (!target)
      continue; // another stage's
    uint64_t bytes = column.argument->bytes / batchOf(*column.argument);
    uint64_t values = column.encoding.stride() / column.encoding.bytesOfValue();
    for (uint64_t index : indices) {
      auto [piece, stored] = column.find(index);
      if (!readsAtStart) {
        size_t bad = column.encoding.findBad(stored, values, allowsNonFinite);
        if (bad < values)
          return describeBad(column, *piece,
                             (stored - piece->stored.data()) /
                                     column.encoding.bytesOfValue() +
                                 bad);
      }
      column.encoding.decode(stored, target);
      target += bytes;
    }
    touchedBytes +=
        indices.size() * std::max(column.encoding.stride(), faultAroundBytes);
  }
  if (isLarge && touchedBytes > residentLimit) {
    release();
    touchedBytes = 0;
  }
  return {};
}

void Dataset::expectOrder(bool isShuffled) const {
  // Of what lies around a sample that is shuffled nothing is wanted soon.
  for (const Column &column : columns)
    for (const Piece &piece : column.pieces)
      if (piece.samples)
        advisePages(piece.stored, isShuffled && allBytes > residentLimit
                                      ? PageAdvice::Random
                                      : PageAdvice::Sequential);
}

void Dataset::release() const {
  for (const Column &column : columns)
    for (const Piece &piece : column.pieces)
      if (!piece.stored.empty())
        advisePages(piece.stored, PageAdvice::Release);
}
