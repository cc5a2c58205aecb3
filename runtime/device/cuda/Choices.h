//===- Choices.h - algorithms that were chosen ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_CUDA_CHOICES_H
#define MPCOMM_RUNTIME_DEVICE_CUDA_CHOICES_H

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace mprt::cuda {

/// What the choice of an algorithm depends on.
using ChoiceKey = std::vector<int64_t>;

/// Choices of the process: a second device object of the same program, as for
/// evaluation, does not measure again.
template <typename Choice> class Choices {
public:
  std::optional<Choice> find(const ChoiceKey &key) {
    std::lock_guard lock(mutex);
    auto known = choices.find(key);
    if (known == choices.end())
      return std::nullopt;
    return known->second;
  }

  void add(ChoiceKey key, const Choice &choice) {
    std::lock_guard lock(mutex);
    choices.emplace(std::move(key), choice);
  }

private:
  std::mutex mutex;
  std::map<ChoiceKey, Choice> choices;
};

} // namespace mprt::cuda

#endif // MPCOMM_RUNTIME_DEVICE_CUDA_CHOICES_H
