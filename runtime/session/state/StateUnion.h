//===- StateUnion.h - the state of all ranks in one file ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks that run one function hold the same state; those that run different
// ones, the stages of a pipeline, each hold a part of it, and what several
// stages hold is the same in each. A file has all of it once, by name, so that
// it fits the same model however that is cut. StateSurvey.h compares what ranks
// hold before it is written.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_STATEUNION_H
#define MPCOMM_RUNTIME_SESSION_STATEUNION_H

#include "session/Rank.h"
#include "session/state/RankState.h"

#include <map>
#include <string>
#include <vector>

namespace mprt {

/// Functions of a program, by their names: which ranks hold which state follows
/// from the arguments of what they run under those names.
struct FunctionSet {
  const Manifest *manifest = nullptr;
  std::vector<std::string> names;

  /// What `rank` runs; null where it runs none of a name.
  std::vector<const ManifestFunction *> of(uint64_t rank) const;
};

/// The state of all ranks: this rank's, and by what the others' is known.
struct SharedState {
  const RankState *mine = nullptr;
  std::vector<FunctionSet> functions;
};

/// A tensor of the state, or a part of one, and who holds it.
struct SharedTensor {
  std::string name;
  Role role = Role::Parameter;
  DType type = MPRT_F32;
  /// Of a part: how many elements, in row-major order from `first`, of a tensor
  /// of shape `whole`.
  Shape shape;
  uint64_t first = 0;
  std::optional<Shape> whole = std::nullopt;
  uint64_t bytes() const { return *bytesOf(type, shape); }
  /// All ranks that hold it, ascending. The first is of the first data rank,
  /// and gives it to a file.
  std::vector<uint64_t> holders;
  uint64_t owner() const { return holders.front(); }
  /// Which of the holders writes it into a checkpoint (Writers.h), of which
  /// several may each write a part.
  uint64_t writer = 0;
  /// Of its bytes, on the owner.
  uint64_t checksum = 0;
};

/// The state of all ranks, each tensor once: by owner and then in the order of
/// arguments; without `optimizer`, parameters and buffers only. State that is
/// transient is left out. Parts of one tensor follow one another, by rising
/// `first`.
std::vector<SharedTensor>
unionOfState(const std::vector<FunctionSet> &functions, bool optimizer);

/// The data of this rank's tensors by name.
std::map<std::string, const void *> dataOf(const RankState &state);

/// Replaces `path` by one file with `tensors`, put together of their parts, and
/// their checksums. All ranks
/// call it; rank 0 writes, the others send it what they own. Fails on every
/// rank where one rank fails.
Error writeUnion(const std::string &path, const RankState &state, Rank &rank,
                 std::vector<SharedTensor> tensors,
                 const std::map<std::string, std::string> &metadata);

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_STATEUNION_H
