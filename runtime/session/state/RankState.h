//===- RankState.h - the buffers that a program works on ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every argument, and every result that is not in an argument, has a
// slot: a buffer with a name. Functions of one program share the slots of their
// arguments by name, so that `evaluate` sees the parameters that `train_step`
// has just updated. All slots lie in one mapping, made once; those that each
// step gives anew come first. On an asynchronous device each has a twin
// (DeviceState.h), which is what programs are given.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_RANKSTATE_H
#define MPCOMM_RUNTIME_SESSION_RANKSTATE_H

#include "files/Manifest.h"
#include "files/StateFile.h"
#include "support/Error.h"
#include "support/Pages.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace mprt {

/// Whether each step gives it anew.
inline bool isInput(Role role) {
  return role == Role::Batch || role == Role::Hyperparameter ||
         role == Role::Rng;
}

/// Fills an input with random bits: a function of the seed and of `place`, a
/// number for step and data rank, so that they need no room in a checkpoint.
void storeRandomBits(const ManifestTensor &tensor, char *data, uint64_t seed,
                     uint64_t place);

/// The metadata of a checkpoint with the names of tensors of which each rank
/// had its own, one a line.
inline constexpr const char *localKey = "mpcomm.local";

struct Slot : ManifestTensor {
  std::optional<double> defaultValue;
  /// The compiler added it to a step; no file has it.
  bool isAdded = false, isTransient = false;
  /// Slot of the parameter that it starts as a copy of.
  std::optional<size_t> copyOf;
  /// On the host.
  char *data = nullptr;
  /// Its twin on the device, or null.
  char *device = nullptr;
  uint64_t offset = 0;
  /// What of the tensor it holds; behind that is padding.
  ElementRange range;
};

/// State as a file has it, and what it is for.
struct StateTensor : TensorToWrite {
  Role role = Role::Parameter;
  /// Of a part, the first element that it has.
  uint64_t first = 0;
};

/// One function with its slots. `arguments` and `results` run parallel to the
/// manifest's.
struct Binding {
  const ManifestFunction *function = nullptr;
  std::vector<size_t> arguments, results;
  /// Slots of arguments, and of the results in buffers of their own that are
  /// these arguments in the next call.
  std::vector<std::pair<size_t, size_t>> traded;
  /// What the entry point is called with; kept current by RankState.
  std::vector<void *> pointers;
};

class RankState {
public:
  /// Lays out the buffers of `functions`, which `rank` runs. The memory is
  /// zero, and takes no room until it is touched.
  static Expected<RankState>
  create(const std::vector<const ManifestFunction *> &functions, uint64_t rank);

  /// Gives state with a default its values.
  void storeDefaults();

  /// The binding of a function given to `create`.
  Binding &bindingOf(const ManifestFunction &function);
  Slot &slot(size_t index) { return slots[index]; }
  const std::vector<Slot> &all() const { return slots; }

  /// Bytes of all slots, and of those that each step gives anew, which come
  /// first.
  uint64_t bytes() const { return memoryBytes; }
  uint64_t inputBytes() const { return inputsEnd; }
  /// Programs are given the slots' twins, with the same layout at `memory`.
  void useDevice(char *memory);
  /// What a step is given is stored at `memory`, with the same layout.
  void useInputs(char *memory);

  /// Bytes of all slots of that role, each counted once.
  uint64_t bytesOf(Role role) const;

  /// To be called after each run of a function: state that the program
  /// returned in a buffer of its own trades places with its argument.
  void adoptResults(Binding &binding);

  /// Compares a weights file with the state. Parameters must be there with the
  /// manifest's type and shape. Buffers too, unless they have a default or are
  /// copies; other state may be missing (then it is zero, its default, or a
  /// copy), if `complete` only copies and loss scales with a default.
  Error check(const StateFile &file, bool complete) const;
  /// Fills the state from a file that `check` has accepted; copies that are
  /// missing are made anew.
  Error load(const StateFile &file);

  /// Whether any slot needs a weights file, or this one, a state argument's.
  bool needsWeights() const;
  bool needsWeights(size_t index) const;
  /// Gives the slot `index` its part of a whole tensor of its type at `whole`,
  /// and the copies of it theirs; which those are.
  std::vector<size_t> storeWhole(size_t index, const void *whole);
  /// Gives copies of the slot `source` its values; which those are. Not of one
  /// that is a part, of which there are whole copies.
  std::vector<size_t> renewCopies(size_t source);
  /// The same for all copies but those with a name of `names`.
  std::vector<size_t> renewCopiesExcept(const std::set<std::string> &names);
  /// Takes over the state of `other` that has a name of this one's; copies that
  /// `other` has not are made anew.
  void copyState(const RankState &other);
  /// Slots of state arguments, each once.
  std::vector<size_t> stateSlots() const;
  /// Of them, those that files have.
  std::vector<size_t> savedSlots() const;

  /// What a checkpoint holds, or without `optimizer` what a weights file does.
  std::vector<StateTensor> tensors(bool optimizer) const;

private:
  RankState() = default;
  void refresh();
  void renewCopy(Slot &slot);
  void renewCopy(Slot &slot, const Slot &source, const void *whole);
  Error loadCopy(const StateFile &file, Slot &slot);

  std::vector<Slot> slots;
  std::vector<Binding> bindings;
  Pages memory;
  uint64_t memoryBytes = 0, inputsEnd = 0;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_RANKSTATE_H
