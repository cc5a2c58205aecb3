//===- StateSurvey.cpp - what all ranks hold, compared --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See StateSurvey.h. Two gathers of fixed size: the checksums, and of each rank
// its first tensor that is not finite.
//
//===----------------------------------------------------------------------===//

#include "session/state/StateSurvey.h"

#include "files/Hash.h"

#include <algorithm>
#include <sstream>

using namespace mprt;

namespace {

/// Of one rank, its first tensor that is not finite. As it travels.
struct Finding {
  /// Place of the tensor in the list; -1 for none.
  int64_t tensor = -1;
  /// How many tensors are not finite, and elements of the first, of how many.
  uint64_t tensors = 0;
  NonFinite elements;
  uint64_t all = 0;
  double value = 0;
};

/// Looks at elements [first, end) of `tensor`, block by block, so that each is
/// in the cache for both. Their checksum.
uint64_t inspect(const StateTensor &tensor, uint64_t first, uint64_t end,
                 LookFor what, NonFinite &found) {
  constexpr uint64_t block = 1 << 16;
  const auto *bytes = static_cast<const char *>(tensor.data);
  uint64_t size = sizeOf(tensor.type);
  Hash hash;
  for (uint64_t begin = first; begin < end; begin += block) {
    uint64_t elements = std::min(block, end - begin);
    hash.add(bytes + begin * size, elements * size);
    if (what == LookFor::Differences)
      continue;
    NonFinite here = countNonFinite(tensor.type, bytes + begin * size, elements,
                                    mayBeInfinite(tensor.role));
    if (here.count && !found.count)
      found.first = begin + here.first;
    found.count += here.count;
  }
  return hash.value();
}

/// "rank 3", "ranks 0, 1 and 5 more".
std::string describeRanks(const std::vector<uint64_t> &ranks) {
  constexpr size_t most = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < std::min(most, ranks.size()); ++i)
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  if (ranks.size() > most)
    text += " and " + std::to_string(ranks.size() - most) + " more";
  return text;
}

/// Who holds what of `tensor`, of which rank `r` has checksum `of(r)`; empty
/// where all hold the same.
template <typename ChecksumOf>
std::string describeDifference(const SharedTensor &tensor, ChecksumOf of) {
  // By checksum, in the order of their first ranks.
  std::vector<std::pair<uint64_t, std::vector<uint64_t>>> groups;
  for (uint64_t rank : tensor.holders) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto &g) {
      return g.first == of(rank);
    });
    if (group == groups.end())
      group = groups.insert(group, {of(rank), {}});
    group->second.push_back(rank);
  }
  if (groups.size() < 2)
    return "";
  std::ostringstream text;
  text << "tensor '" << printable(tensor.name) << "' is not the same on ranks "
       << groups[0].second[0] << " and " << groups[1].second[0]
       << ", which both hold it: checksum ";
  for (size_t i = 0; i < groups.size() && i < 4; ++i)
    text << (i ? ", " : "") << hexOf(groups[i].first) << " on "
         << describeRanks(groups[i].second);
  return text.str();
}

std::string describeFinding(const Finding &finding, uint64_t rank,
                            const SharedTensor &tensor) {
  std::ostringstream text;
  text << "rank " << rank << ": tensor '" << printable(tensor.name)
       << "': " << finding.elements.count << " of " << finding.all
       << (finding.elements.count == 1 ? " elements is" : " elements are")
       << " not finite, the first, element " << finding.elements.first
       << ", is " << finding.value;
  if (finding.tensors > 1)
    text << "; " << finding.tensors - 1
         << (finding.tensors == 2 ? " other tensor is" : " other tensors are")
         << " not finite either";
  return text.str();
}

} // namespace

Expected<StateSurvey> mprt::surveyState(std::vector<SharedTensor> tensors,
                                        const RankState &state, Rank &rank,
                                        LookFor what) {
  StateSurvey survey;
  survey.tensors = std::move(tensors);
  std::map<std::pair<std::string, uint64_t>, size_t> places;
  for (size_t i = 0; i < survey.tensors.size(); ++i)
    places[{survey.tensors[i].name, survey.tensors[i].first}] = i;

  // Of what this rank does not hold, nobody looks at the checksum.
  std::vector<uint64_t> mine(survey.tensors.size());
  Finding finding;
  for (const StateTensor &tensor : state.tensors(/*optimizer=*/true)) {
    // None for a part that is all padding, nor for state that is not asked for.
    auto first = places.find({tensor.name, tensor.first});
    if (first == places.end())
      continue;
    NonFinite found;
    uint64_t count = *elementsOf(tensor.shape), at = 0;
    for (auto part = first;
         part != places.end() && part->first.first == tensor.name &&
         (at < count || part == first);
         ++part) {
      uint64_t end = at + *elementsOf(survey.tensors[part->second].shape);
      mine[part->second] = inspect(tensor, at, end, what, found);
      at = end;
    }
    if (found.count && finding.tensors++ == 0) {
      finding.tensor = static_cast<int64_t>(first->second);
      finding.elements = found;
      finding.all = count;
      finding.value = loadFloat(tensor.type, tensor.data, found.first);
    }
  }

  std::vector<uint64_t> checksums(mine.size() * rank.size());
  if (!mine.empty())
    if (Error status = rank.gather(mine.data(), checksums.data(),
                                   mine.size() * sizeof(uint64_t));
        status.failed())
      return status;
  for (size_t i = 0; i < survey.tensors.size(); ++i) {
    SharedTensor &tensor = survey.tensors[i];
    auto checksumOf = [&](uint64_t r) {
      return checksums[r * mine.size() + i];
    };
    tensor.checksum = checksumOf(tensor.owner());
    if (survey.difference.empty())
      survey.difference = describeDifference(tensor, checksumOf);
  }
  if (what == LookFor::Differences)
    return survey;

  std::vector<Finding> findings(rank.size());
  if (Error status = rank.gather(&finding, findings.data(), sizeof(finding));
      status.failed())
    return status;
  for (uint64_t r = 0; r < findings.size() && survey.nonFinite.empty(); ++r)
    if (findings[r].tensor >= 0)
      survey.nonFinite =
          describeFinding(findings[r], r, survey.tensors[findings[r].tensor]);
  return survey;
}
