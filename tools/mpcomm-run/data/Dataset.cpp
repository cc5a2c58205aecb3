//===- Dataset.cpp - samples for a function's batch arguments -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Mapped pages count as memory of the process that touched them. So that a
// large dataset does not pass for a large process, they are given back every
// 32 MiB or so; they stay in the page cache.
//
//===----------------------------------------------------------------------===//

#include "data/Dataset.h"

#include "session/files/Hash.h"

#include <algorithm>
#include <cstring>

using namespace mpcomm::run;

namespace {

constexpr uint64_t residentLimit = 32 << 20;
/// What the kernel maps around a page that is touched.
constexpr uint64_t faultAroundBytes = 64 << 10;

/// Index of the first integer outside [low, high), or `count`.
size_t findOutside(DType type, const char *data, size_t count, int64_t low,
                   int64_t high) {
  for (size_t i = 0; i < count; ++i) {
    int64_t value = loadInteger(type, data, i);
    if (value < low || value >= high)
      return i;
  }
  return count;
}

} // namespace

Status Dataset::addColumn(const ManifestArgument &argument) {
  for (const Column &column : columns)
    if (column.argument->name == argument.name)
      return {};
  const TensorEntry *entry = file.find(argument.name);
  Shape sample(argument.shape.begin() + 1, argument.shape.end());
  if (!entry)
    return fail(path(), ": no tensor '", printable(argument.name),
                "', expected samples of ", describe(argument.type, sample));
  if (!entry->otherType.empty() || entry->type != argument.type ||
      entry->shape.empty() ||
      Shape(entry->shape.begin() + 1, entry->shape.end()) != sample)
    return fail(path(), ": tensor '", printable(argument.name), "' is ",
                describe(*entry), ", expected samples of ",
                describe(argument.type, sample), " after a leading dimension");
  auto samples = static_cast<uint64_t>(entry->shape[0]);
  if (!columns.empty() && samples != sampleCount)
    return fail(path(), ": tensor '", printable(argument.name), "' holds ",
                samples, " samples, '", printable(columns[0].argument->name),
                "' holds ", sampleCount);
  sampleCount = samples;
  columns.push_back(
      {&argument, file.dataOf(*entry),
       argument.bytes / static_cast<uint64_t>(argument.shape[0])});
  return {};
}

Result<Dataset>
Dataset::open(const std::string &path,
              const std::vector<const ManifestFunction *> &functions) {
  Result<SafeTensors> opened = SafeTensors::open(path);
  if (opened.failed())
    return opened.error();
  Dataset dataset(opened.take());
  for (const ManifestFunction *function : functions)
    for (const ManifestArgument &argument : function->arguments)
      if (argument.role == Role::Batch)
        if (Status status = dataset.addColumn(argument); status.failed())
          return status;
  if (dataset.columns.empty())
    return fail(path, ": function '", functions[0]->name,
                "' takes no batch, so it needs no data");
  return dataset;
}

Status Dataset::validateColumn(const Column &column, bool allowNonFinite) {
  const ManifestArgument &argument = *column.argument;
  DType type = argument.type;
  std::optional<std::pair<int64_t, int64_t>> range = argument.range;
  if (type == MPRT_BOOL)
    range = {0, 2};
  bool scansFloats = isFloat(type) && !allowNonFinite;
  Hash hash;

  uint64_t perSample = column.sampleBytes / sizeOf(type);
  uint64_t total = perSample * sampleCount;
  uint64_t block = residentLimit / 4 / sizeOf(type);
  for (uint64_t begin = 0; begin < total; begin += block) {
    uint64_t count = std::min(block, total - begin);
    const char *data = column.data + begin * sizeOf(type);
    size_t at =
        scansFloats ? findNonFinite(type, data, count)
        : range ? findOutside(type, data, count, range->first, range->second)
                : count;
    hash.add(data, count * sizeOf(type));
    if (at == count) {
      file.releasePages();
      continue;
    }
    uint64_t index = begin + at;
    Status where =
        fail(path(), ": tensor '", printable(argument.name), "', sample ",
             index / perSample, ", element ", index % perSample, ": ");
    if (scansFloats)
      return fail(where.message(), loadFloat(type, data, at),
                  " is not finite; --allow-nonfinite accepts it");
    return fail(where.message(), loadInteger(type, data, at), " is outside [",
                range->first, ", ", range->second, ")");
  }
  hashes[argument.name] = hash.value();
  return file.compareChecksum(argument.name, hash.value());
}

std::optional<uint64_t>
Dataset::knownHash(const ManifestArgument &argument) const {
  for (const Column &column : columns)
    if (column.argument->name == argument.name &&
        column.argument->range == argument.range)
      if (auto hash = hashes.find(argument.name); hash != hashes.end())
        return hash->second;
  return std::nullopt;
}

Status Dataset::validate(bool allowNonFinite, const Dataset *known) {
  Result<SafeTensors::Stamp> stamp = file.stamp();
  if (stamp.failed())
    return stamp.error();
  validated = *stamp;
  for (const Column &column : columns) {
    std::optional<uint64_t> hash;
    if (known)
      hash = known->knownHash(*column.argument);
    if (hash)
      hashes[column.argument->name] = *hash;
    else if (Status status = validateColumn(column, allowNonFinite);
             status.failed())
      return status;
  }
  return {};
}

Status Dataset::checkUnchanged(bool allowNonFinite) {
  Result<SafeTensors::Stamp> stamp = file.stamp();
  if (stamp.failed())
    return stamp.error();
  if (*stamp == validated)
    return {};
  std::map<std::string, uint64_t> before = hashes;
  if (stamp->bytes == validated.bytes && validate(allowNonFinite).ok() &&
      hashes == before)
    return {};
  return fail(path(), ": its contents were changed while the run used them; to "
                      "replace it meanwhile, write another file and rename it "
                      "to that name");
}

uint64_t Dataset::checksum() const {
  Hash hash;
  for (const auto &[name, checksum] : hashes) {
    uint64_t bytes = name.size();
    hash.add(&bytes, sizeof(bytes));
    hash.add(name.data(), bytes);
    hash.add(&checksum, sizeof(checksum));
  }
  return hash.value();
}

void Dataset::gather(std::span<const uint64_t> indices, RankState &state,
                     const Binding &binding) {
  const std::vector<ManifestArgument> &arguments = binding.function->arguments;
  for (const Column &column : columns) {
    auto found = std::find_if(arguments.begin(), arguments.end(),
                              [&](const ManifestArgument &argument) {
                                return argument.name == column.argument->name;
                              });
    if (found == arguments.end())
      continue; // another stage's
    char *target =
        state.slot(binding.arguments[found - arguments.begin()]).data;
    for (uint64_t index : indices) {
      std::memcpy(target, column.data + index * column.sampleBytes,
                  column.sampleBytes);
      target += column.sampleBytes;
    }
    touchedBytes +=
        indices.size() * std::max(column.sampleBytes, faultAroundBytes);
  }
  if (file.fileBytes() > residentLimit && touchedBytes > residentLimit) {
    file.releasePages();
    touchedBytes = 0;
  }
}
