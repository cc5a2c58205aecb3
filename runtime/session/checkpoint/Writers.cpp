//===- Writers.cpp - who writes what of a checkpoint ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Longest processing time first (Graham, "Bounds on multiprocessing timing
// anomalies", SIAM J. Appl. Math. 17, 1969), where what would be too long for
// every rank is cut. When a tensor's turn comes, the fair share times the
// number of its holders is what they have and what is still to be dealt out, so
// that the one that has least is below the fair share, and what all are below
// it is room for the tensor.
//
//===----------------------------------------------------------------------===//

#include "session/checkpoint/Writers.h"

#include <algorithm>
#include <map>

using namespace mprt;

/// Rows [begin, end) of a tensor or of a part.
static SharedTensor rowsOf(const SharedTensor &tensor, uint64_t begin,
                           uint64_t end) {
  SharedTensor part = tensor;
  uint64_t row = *elementsOf(tensor.shape) / uint64_t(tensor.shape[0]);
  part.shape = {int64_t((end - begin) * row)};
  part.first += begin * row;
  if (!part.whole)
    part.whole = tensor.shape;
  return part;
}

/// Cuts `tensor` into parts that fill its holders, of which rank `r` has to
/// write `load[r]` bytes, up to `share`. What is left of a room, because it is
/// no whole row or too small for a part, goes to the next holder. Nothing where
/// there would be one part.
static std::vector<SharedTensor> cut(const SharedTensor &tensor, uint64_t share,
                                     const std::vector<uint64_t> &load) {
  if (tensor.shape.empty())
    return {};
  auto rows = uint64_t(tensor.shape[0]);
  uint64_t row = tensor.bytes() / rows;
  std::vector<uint64_t> order = tensor.holders;
  std::sort(order.begin(), order.end(), [&](uint64_t a, uint64_t b) {
    return std::pair(load[a], a) < std::pair(load[b], b);
  });
  std::vector<SharedTensor> parts;
  uint64_t begin = 0, room = 0;
  for (uint64_t holder : order) {
    room += share - std::min(share, load[holder]);
    uint64_t end = std::min(rows, (room + row / 2) / row);
    if (holder == order.back() || (rows - end) * row < smallBytes)
      end = rows;
    if ((end - begin) * row < smallBytes)
      continue;
    parts.push_back(rowsOf(tensor, begin, end));
    parts.back().writer = holder;
    begin = end;
    if (begin == rows)
      break;
  }
  return parts.size() < 2 ? std::vector<SharedTensor>() : parts;
}

/// Chooses who writes `tensor`, or its parts, which are what is returned, and
/// counts it into `load`.
static std::vector<SharedTensor> deal(SharedTensor tensor, uint64_t share,
                                      std::vector<uint64_t> &load) {
  tensor.writer = *std::min_element(
      tensor.holders.begin(), tensor.holders.end(),
      [&](uint64_t a, uint64_t b) { return load[a] < load[b]; });
  std::vector<SharedTensor> parts;
  if (load[tensor.writer] + tensor.bytes() > share + share / 8)
    parts = cut(tensor, share, load);
  if (parts.empty())
    parts.push_back(std::move(tensor));
  for (const SharedTensor &part : parts)
    load[part.writer] += part.bytes();
  return parts;
}

void mprt::assignWriters(std::vector<SharedTensor> &tensors) {
  uint64_t ranks = 0;
  for (const SharedTensor &tensor : tensors)
    ranks = std::max(ranks, tensor.holders.back() + 1);
  std::vector<uint64_t> load(ranks);
  // What becomes of each.
  std::vector<std::vector<SharedTensor>> dealt(tensors.size());
  // Places in the list of the large ones, by holders. Where few can write there
  // is the least choice.
  auto isSmaller = [](const auto &a, const auto &b) {
    return a.size() == b.size() ? a < b : a.size() < b.size();
  };
  std::map<std::vector<uint64_t>, std::vector<size_t>, decltype(isSmaller)>
      large;
  for (size_t i = 0; i < tensors.size(); ++i) {
    SharedTensor &tensor = tensors[i];
    if (tensor.bytes() >= smallBytes) {
      large[tensor.holders].push_back(i);
      continue;
    }
    tensor.writer = tensor.owner();
    load[tensor.writer] += tensor.bytes();
    dealt[i] = {tensor};
  }
  for (auto &[holders, places] : large) {
    uint64_t bytes = 0;
    for (uint64_t holder : holders)
      bytes += load[holder];
    for (size_t place : places)
      bytes += tensors[place].bytes();
    uint64_t share = (bytes + holders.size() - 1) / holders.size();
    std::sort(places.begin(), places.end(), [&](size_t a, size_t b) {
      return std::pair(tensors[b].bytes(), a) <
             std::pair(tensors[a].bytes(), b);
    });
    for (size_t place : places)
      dealt[place] = deal(tensors[place], share, load);
  }
  tensors.clear();
  for (std::vector<SharedTensor> &parts : dealt)
    std::move(parts.begin(), parts.end(), std::back_inserter(tensors));
}
