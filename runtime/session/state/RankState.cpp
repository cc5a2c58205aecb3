//===- RankState.cpp - the buffers that a program works on ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Slots are aligned to 64 bytes and more, as kernels expect.
//
//===----------------------------------------------------------------------===//

#include "session/state/RankState.h"

#include "support/SplitMix64.h"

#include <algorithm>
#include <cstring>

using namespace mprt;

namespace {

/// Of a device too: what its wide loads and its libraries ask for.
constexpr uint64_t alignment = 256;

} // namespace

void mprt::storeRandomBits(const ManifestTensor &tensor, char *data,
                           uint64_t seed, uint64_t place) {
  SplitMix64 mixed(seed);
  SplitMix64 generator(mixed.next() ^ place);
  for (uint64_t at = 0; at < tensor.bytes; at += sizeof(uint64_t)) {
    uint64_t word = generator.next();
    std::memcpy(data + at, &word,
                std::min<uint64_t>(sizeof(word), tensor.bytes - at));
  }
}

Expected<RankState>
RankState::create(const std::vector<const ManifestFunction *> &functions,
                  uint64_t rank) {
  RankState state;
  std::map<std::string, size_t> byName;
  std::map<std::string, std::string> copies;
  for (const ManifestFunction *function : functions) {
    Binding binding;
    binding.function = function;
    std::map<std::string_view, const ManifestArgument *> own;
    for (const ManifestArgument &argument : function->arguments) {
      own[argument.name] = &argument;
      if (argument.copyOf)
        copies[argument.name] = *argument.copyOf;
      auto [found, isNew] =
          byName.try_emplace(argument.name, state.slots.size());
      if (isNew) {
        Slot slot;
        static_cast<ManifestTensor &>(slot) = argument;
        slot.defaultValue = argument.defaultValue;
        slot.isAdded = argument.isAdded;
        slot.isTransient = argument.isTransient;
        slot.range = rangeOf(argument, rank);
        state.slots.push_back(std::move(slot));
      }
      // Batches of two functions may differ in size; the buffer fits both.
      Slot &slot = state.slots[found->second];
      slot.bytes = std::max(slot.bytes, argument.bytes);
      binding.arguments.push_back(found->second);
    }
    for (const ManifestResult &result : function->results) {
      if (result.argument) {
        binding.results.push_back(binding.arguments[*result.argument]);
        continue;
      }
      Slot slot;
      static_cast<ManifestTensor &>(slot) = result;
      slot.range = rangeOf(result, rank);
      binding.results.push_back(state.slots.size());
      state.slots.push_back(std::move(slot));
      auto argument = own.find(result.name);
      if (isState(result.role) && argument != own.end() &&
          argument->second->bytes == result.bytes)
        binding.traded.push_back(
            {byName.at(result.name), binding.results.back()});
    }
    state.bindings.push_back(std::move(binding));
  }
  // The manifest's reader has seen to it that the parameters are there.
  for (const auto &[name, source] : copies)
    state.slots[byName.at(name)].copyOf = byName.at(source);

  for (bool inputs : {true, false}) {
    for (Slot &slot : state.slots) {
      if (isInput(slot.role) != inputs)
        continue;
      slot.offset = state.memoryBytes;
      uint64_t padded;
      if (__builtin_add_overflow(slot.bytes, alignment - 1, &padded) ||
          __builtin_add_overflow(state.memoryBytes, padded & -alignment,
                                 &state.memoryBytes))
        return fail("buffers of the program overflow the address space");
    }
    if (inputs)
      state.inputsEnd = state.memoryBytes;
  }
  state.memoryBytes = std::max(state.memoryBytes, alignment);
  Expected<Pages> pages = Pages::make(state.memoryBytes);
  if (pages.failed())
    return pages.error().withContext("parameters and batches: ");
  state.memory = pages.take();
  for (Slot &slot : state.slots)
    slot.data = state.memory.data() + slot.offset;
  state.refresh();
  return state;
}

static void storeDefault(Slot &slot) {
  if (slot.defaultValue)
    for (uint64_t i = 0; i < slot.elements; ++i)
      storeNumber(slot.type, slot.data, i, *slot.defaultValue);
}

void RankState::storeDefaults() {
  for (Slot &slot : slots)
    storeDefault(slot);
}

Binding &RankState::bindingOf(const ManifestFunction &function) {
  return *std::find_if(
      bindings.begin(), bindings.end(),
      [&](const Binding &binding) { return binding.function == &function; });
}

uint64_t RankState::bytesOf(Role role) const {
  uint64_t bytes = 0;
  for (const Slot &slot : slots)
    if (slot.role == role)
      bytes += slot.bytes;
  return bytes;
}

void RankState::refresh() {
  auto bufferOf = [this](size_t index) {
    const Slot &slot = slots[index];
    return slot.device ? slot.device : slot.data;
  };
  for (Binding &binding : bindings) {
    binding.pointers.clear();
    for (size_t index : binding.arguments)
      binding.pointers.push_back(bufferOf(index));
    for (size_t i = 0; i < binding.results.size(); ++i)
      if (!binding.function->results[i].argument)
        binding.pointers.push_back(bufferOf(binding.results[i]));
  }
}

void RankState::useDevice(char *twins) {
  for (Slot &slot : slots)
    slot.device = twins + slot.offset;
  refresh();
}

void RankState::useInputs(char *inputs) {
  for (Slot &slot : slots)
    if (isInput(slot.role))
      slot.data = inputs + slot.offset;
}

void RankState::adoptResults(Binding &binding) {
  for (auto [argument, result] : binding.traded) {
    std::swap(slots[argument].data, slots[result].data);
    std::swap(slots[argument].device, slots[result].device);
  }
  if (!binding.traded.empty())
    refresh();
}

std::vector<size_t> RankState::stateSlots() const {
  std::vector<size_t> list;
  std::vector<bool> seen(slots.size());
  for (const Binding &binding : bindings)
    for (size_t index : binding.arguments) {
      if (isState(slots[index].role) && !seen[index])
        list.push_back(index);
      seen[index] = true;
    }
  return list;
}

std::vector<size_t> RankState::savedSlots() const {
  std::vector<size_t> list = stateSlots();
  std::erase_if(list, [&](size_t index) { return slots[index].isTransient; });
  return list;
}

/// Whether a file may leave out what the slot holds.
static bool mayBeMissing(const Slot &slot, bool complete) {
  bool starts = slot.defaultValue || slot.copyOf;
  switch (slot.role) {
  case Role::Parameter:
    return false;
  case Role::Buffer:
    return slot.copyOf || (starts && !complete);
  case Role::LossScale:
    return starts || !complete;
  default:
    return slot.copyOf || slot.isAdded || !complete;
  }
}

/// Whether each rank had its own of a tensor of `file`.
static bool wasLocal(const StateFile &file, const std::string &name) {
  auto found = file.metadata().find(localKey);
  return found != file.metadata().end() &&
         ("\n" + found->second + "\n").find("\n" + name + "\n") !=
             std::string::npos;
}

/// Of how many ranks a file has what each had of its own, where they are not
/// those of the slot: one, where all had the same; 0 where it has something
/// else.
static uint64_t countOtherRanks(const Slot &slot, const TensorEntry &entry,
                                const StateFile &file) {
  bool isLocal = slot.split && slot.split->isLocal;
  if (entry.shape == slot.wholeShape() ||
      (!isLocal && (slot.split || !wasLocal(file, slot.name))))
    return 0;
  Shape own = slot.wholeShape();
  if (isLocal)
    own.erase(own.begin());
  if (entry.shape == own)
    return 1;
  bool isOfRanks = !entry.shape.empty() && entry.shape.front() > 0 &&
                   Shape(entry.shape.begin() + 1, entry.shape.end()) == own;
  return isOfRanks ? uint64_t(entry.shape.front()) : 0;
}

/// Their mean: what means over ranks have still to be given stays the same.
static Error loadMean(const StateFile &file, const TensorEntry &entry,
                      uint64_t ranks, Slot &slot) {
  uint64_t count = slot.range.count;
  std::vector<char> part(slot.bytes);
  std::vector<double> sum(count);
  for (uint64_t rank = 0; rank < ranks; ++rank) {
    if (Error error =
            file.readPart(slot.name, entry, rank * count, count, part.data()))
      return error;
    for (uint64_t i = 0; i < count; ++i)
      sum[i] += loadFloat(slot.type, part.data(), i);
  }
  for (uint64_t i = 0; i < count; ++i)
    storeNumber(slot.type, slot.data, i, sum[i] / double(ranks));
  return {};
}

Error RankState::check(const StateFile &file, bool complete) const {
  for (size_t index : savedSlots()) {
    const Slot &slot = slots[index];
    const TensorEntry *entry = file.find(slot.name);
    if (!entry && mayBeMissing(slot, complete))
      continue;
    if (!entry)
      return fail(file.path(), ": no tensor '", printable(slot.name),
                  "', expected ", nameOf(slot.role), " ",
                  describe(slot.type, slot.wholeShape()));
    if (!entry->otherType.empty() || entry->type != slot.type ||
        (entry->shape != slot.wholeShape() &&
         !countOtherRanks(slot, *entry, file)))
      return fail(file.path(), ": tensor '", printable(slot.name), "' is ",
                  describe(*entry), ", expected ",
                  describe(slot.type, slot.wholeShape()));
  }
  return {};
}

Error RankState::load(const StateFile &file) {
  for (size_t index : stateSlots()) {
    Slot &slot = slots[index];
    if (slot.isTransient) {
      storeDefault(slot);
      continue;
    }
    const TensorEntry *entry = file.find(slot.name);
    // What was added for other values is nothing to these.
    if (!entry && slot.isAdded)
      storeDefault(slot);
    if (!entry)
      continue;
    uint64_t others = countOtherRanks(slot, *entry, file);
    Error status = others ? loadMean(file, *entry, others, slot)
                   : slot.split
                       ? file.readPart(slot.name, *entry, slot.range.first,
                                       slot.range.count, slot.data)
                       : file.read(slot.name, *entry, slot.data);
    if (status.failed())
      return status;
    uint64_t held = slot.range.count * sizeOf(slot.type);
    std::memset(slot.data + held, 0, slot.bytes - held);
  }
  for (size_t index : stateSlots()) {
    Slot &slot = slots[index];
    if (slot.copyOf && !file.find(slot.name))
      if (Error error = loadCopy(file, slot))
        return error;
  }
  return {};
}

/// A whole copy of a part is made of what the file has of it.
Error RankState::loadCopy(const StateFile &file, Slot &slot) {
  const Slot &source = slots[*slot.copyOf];
  const TensorEntry *entry = file.find(source.name);
  if (slot.split == source.split || !entry) {
    renewCopy(slot);
    return {};
  }
  std::vector<char> whole(entry->bytes);
  if (Error error = file.read(source.name, *entry, whole.data()))
    return error;
  renewCopy(slot, source, whole.data());
  return {};
}

/// `from` has the element `slot.range.first` of the source first.
static void convert(const Slot &slot, DType type, const void *from) {
  for (uint64_t i = 0; i < slot.range.count; ++i)
    storeNumber(slot.type, slot.data, i, loadFloat(type, from, i));
}

void RankState::renewCopy(Slot &slot) {
  const Slot &source = slots[*slot.copyOf];
  convert(slot, source.type, source.data);
}

void RankState::renewCopy(Slot &slot, const Slot &source, const void *whole) {
  convert(slot, source.type,
          static_cast<const char *>(whole) +
              slot.range.first * sizeOf(source.type));
}

std::vector<size_t> RankState::storeWhole(size_t index, const void *whole) {
  Slot &slot = slots[index];
  uint64_t size = sizeOf(slot.type);
  std::memcpy(slot.data,
              static_cast<const char *>(whole) + slot.range.first * size,
              slot.range.count * size);
  std::vector<size_t> copies;
  for (size_t other : stateSlots())
    if (slots[other].copyOf == index) {
      renewCopy(slots[other], slot, whole);
      copies.push_back(other);
    }
  return copies;
}

std::vector<size_t> RankState::renewCopies(size_t source) {
  std::vector<size_t> copies;
  for (size_t index : stateSlots())
    if (slots[index].copyOf == source) {
      renewCopy(slots[index]);
      copies.push_back(index);
    }
  return copies;
}

std::vector<size_t>
RankState::renewCopiesExcept(const std::set<std::string> &names) {
  std::vector<size_t> copies;
  for (size_t index : stateSlots())
    if (slots[index].copyOf && !names.count(slots[index].name)) {
      renewCopy(slots[index]);
      copies.push_back(index);
    }
  return copies;
}

void RankState::copyState(const RankState &other) {
  std::map<std::string, const Slot *> known;
  std::set<std::string> names;
  for (size_t index : other.stateSlots()) {
    known[other.slots[index].name] = &other.slots[index];
    names.insert(other.slots[index].name);
  }
  for (size_t index : stateSlots())
    if (auto found = known.find(slots[index].name); found != known.end())
      std::memcpy(slots[index].data, found->second->data, slots[index].bytes);
  renewCopiesExcept(names);
}

bool RankState::needsWeights(size_t index) const {
  return !mayBeMissing(slots[index], /*complete=*/false);
}

bool RankState::needsWeights() const {
  for (size_t index : stateSlots())
    if (needsWeights(index))
      return true;
  return false;
}

std::vector<StateTensor> RankState::tensors(bool optimizer) const {
  std::vector<StateTensor> list;
  for (size_t index : savedSlots()) {
    const Slot &slot = slots[index];
    if (optimizer || isWeight(slot.role))
      list.push_back(
          {{slot.name, slot.type,
            slot.split ? Shape{int64_t(slot.range.count)} : slot.shape,
            slot.data},
           slot.role,
           slot.range.first});
  }
  return list;
}
