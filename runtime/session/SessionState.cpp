//===- SessionState.cpp - state of a session, by name ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The table has every tensor of the state once, whoever holds it. Values on an
// asynchronous device are fetched when they are asked for.
//
//===----------------------------------------------------------------------===//

#include "session/Session.h"

#include "files/Hyperparameters.h"
#include "session/Arrays.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace mprt;

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

void Session::fillTable(const std::vector<TableEntry> &before) {
  std::set<std::string> known;
  for (const TableEntry &entry : before)
    if (entry.slot && entry.hasValue)
      known.insert(entry.shared.name);
  std::map<std::string, Role> roles;
  std::set<std::string> updated, own;
  std::vector<FunctionSet> functions;
  for (const LoadedProgram &loaded : programs) {
    functions.push_back(loaded.functions);
    for (const ManifestFunction &function :
         loaded.program->manifest().functions)
      for (const ManifestArgument &argument : function.arguments) {
        roles[argument.name] = argument.role;
        if (argument.updated)
          updated.insert(argument.name);
        if (argument.split && argument.split->isLocal)
          own.insert(argument.name);
      }
  }
  std::map<std::string, size_t> slots;
  for (size_t index : state->stateSlots())
    slots[state->slot(index).name] = index;
  table.clear();
  for (SharedTensor &shared : unionOfState(functions, /*optimizer=*/true)) {
    if (shared.first && !table.empty() &&
        table.back().shared.name == shared.name) {
      std::vector<uint64_t> &holders = table.back().shared.holders;
      holders.insert(holders.end(), shared.holders.begin(),
                     shared.holders.end());
      table.back().parts.push_back(std::move(shared));
      continue;
    }
    TableEntry &entry = table.emplace_back();
    entry.shared = shared;
    if (shared.whole) {
      entry.shared.shape = *shared.whole;
      entry.parts.push_back(std::move(shared));
    }
    const std::string &name = entry.shared.name;
    entry.role = roles[name];
    entry.isUpdated = updated.count(name);
    entry.isOwn = own.count(name);
    if (auto slot = slots.find(name); slot != slots.end())
      entry.slot = slot->second;
    entry.hasValue =
        known.count(name) || !entry.slot || !state->needsWeights(*entry.slot);
  }
}

Error Session::bringState(const std::vector<TableEntry> &before) {
  // One rank does not know what another has given a value.
  std::vector<uint8_t> mine, all(before.size() * rank->size());
  for (const TableEntry &entry : before)
    mine.push_back(entry.slot && entry.hasValue);
  if (before.empty())
    return {};
  if (Error error = rank->gather(mine.data(), all.data(), mine.size()))
    return error;
  for (size_t i = 0; i < before.size(); ++i) {
    const SharedTensor &shared = before[i].shared;
    auto owner = unsigned(shared.owner());
    if (!all[owner * before.size() + i])
      continue;
    TableEntry &entry = *entryOf(shared.name);
    for (uint64_t holder : entry.shared.holders) {
      auto to = unsigned(holder);
      if (std::count(shared.holders.begin(), shared.holders.end(), holder) ||
          (index() != owner && index() != to))
        continue;
      Slot &slot = state->slot(*entry.slot);
      if (Error error = sendState(owner, to, slot.data, slot.bytes))
        return error;
      entry.hasValue = true;
      if (index() == to)
        state->renewCopies(*entry.slot);
    }
  }
  return {};
}

Session::TableEntry *Session::entryOf(const std::string &name) {
  for (TableEntry &entry : table)
    if (entry.shared.name == name)
      return &entry;
  return nullptr;
}

Expected<size_t> Session::slotOf(const std::string &name) {
  if (TableEntry *entry = entryOf(name)) {
    if (entry->slot)
      return *entry->slot;
    return makeError(MPRT_NOT_FOUND, "tensor '", printable(name),
                     "' is not on rank ", index(), "; rank ",
                     entry->shared.owner(), " has it");
  }
  if (lastCalled) {
    Binding &binding = state->bindingOf(*lastCalled);
    for (size_t i = 0; i < lastCalled->results.size(); ++i)
      if (lastCalled->results[i].name == name)
        return binding.results[i];
  }
  return makeError(MPRT_NOT_FOUND, "no tensor '", printable(name),
                   "' in the state, nor among the results of the last call");
}

void Session::describe(const ManifestTensor &tensor,
                       mpcomm_tensor &result) const {
  result.role = int32_t(tensor.role);
  result.name = tensor.name.c_str();
  result.dtype = tensor.type;
  result.ndim = uint32_t(tensor.shape.size());
  result.shape = tensor.shape.data();
  result.global_ndim = uint32_t(tensor.wholeShape().size());
  result.global_shape = tensor.wholeShape().data();
  result.bytes = tensor.elements * sizeOf(tensor.type);
  result.owner = int32_t(index());
  result.is_local = 1;
}

void Session::describe(const TableEntry &entry, mpcomm_tensor &result) const {
  const SharedTensor &shared = entry.shared;
  result.role = int32_t(entry.role);
  result.name = shared.name.c_str();
  result.dtype = shared.type;
  const Shape &mine = entry.parts.empty() ? shared.shape
                      : entry.slot        ? state->all()[*entry.slot].shape
                                          : entry.parts[0].shape;
  result.ndim = uint32_t(mine.size());
  result.shape = mine.data();
  result.global_ndim = uint32_t(shared.shape.size());
  result.global_shape = shared.shape.data();
  result.bytes = *bytesOf(shared.type, mine);
  result.owner = int32_t(shared.owner());
  result.is_local = entry.slot.has_value();
  result.is_replicated =
      entry.parts.empty() && shared.holders.size() == rank->size();
  result.is_updated = entry.isUpdated;
  result.needs_value = !entry.hasValue;
}

Error Session::stateAt(uint32_t index, mpcomm_tensor &tensor) {
  if (index >= table.size())
    return makeError(MPRT_NOT_FOUND, "tensor ", index, " of ", table.size());
  const TableEntry &entry = table[index];
  describe(entry, tensor);
  if (entry.slot && !rank->device().isAsynchronous())
    tensor.data = state->slot(*entry.slot).data;
  return {};
}

Error Session::tensor(const std::string &name, mpcomm_tensor &tensor) {
  if (Error error = checkReady())
    return error;
  TableEntry *entry = entryOf(name);
  if (entry) {
    describe(*entry, tensor);
    if (!entry->slot)
      return {};
  }
  Expected<size_t> slot = slotOf(name);
  if (!slot)
    return slot.error();
  if (Error error = onDevice->fetch({*slot}))
    return callFailed(error);
  if (!entry)
    describe(state->slot(*slot), tensor);
  tensor.data = state->slot(*slot).data;
  return {};
}

Error Session::argument(const std::string &name, uint32_t index,
                        mpcomm_tensor &tensor) {
  if (programs.empty() || !state)
    return Error(MPRT_NOT_READY, "no program is loaded");
  const ManifestFunction *function = find(name);
  if (!function || index >= function->arguments.size())
    return function ? makeError(MPRT_NOT_FOUND, "argument ", index, " of ",
                                function->arguments.size(), " of function '",
                                printable(name), "'")
                    : makeError(MPRT_NOT_FOUND, "rank ", this->index(),
                                " runs no function '", printable(name), "'");
  const ManifestArgument &argument = function->arguments[index];
  Slot &slot = state->slot(state->bindingOf(*function).arguments[index]);
  // What files never have is not in the table.
  if (const TableEntry *entry = entryOf(argument.name)) {
    describe(*entry, tensor);
  } else {
    describe(argument, tensor);
    tensor.is_replicated = argument.role == Role::Hyperparameter;
  }
  if (!rank->device().isAsynchronous() || argument.role == Role::Batch)
    tensor.data = slot.data;
  if (argument.range) {
    tensor.range_begin = argument.range->first;
    tensor.range_end = argument.range->second;
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Error Session::write(const mpcomm_array &array) {
  if (Error error = checkReady())
    return error;
  if (!array.name)
    return fail("the array has no name");
  TableEntry *entry = entryOf(array.name);
  Expected<size_t> found = slotOf(array.name);
  if (!found)
    return found.error();
  if (!entry)
    return fail("tensor '", printable(array.name),
                "' is a result; what can be written is state");
  Slot &slot = state->slot(*found);
  ManifestTensor whole = slot;
  whole.shape = entry->shared.shape;
  whole.elements = *elementsOf(whole.shape);
  whole.bytes = *bytesOf(whole.type, whole.shape);
  if (Error error = checkArray(array, whole))
    return error;
  std::vector<char> values(slot.split ? whole.bytes : 0);
  if (Error error =
          storeArray(array, whole, slot.split ? values.data() : slot.data))
    return error;
  entry->hasValue = true;
  std::vector<size_t> changed = slot.split
                                    ? state->storeWhole(*found, values.data())
                                    : state->renewCopies(*found);
  changed.push_back(*found);
  watchedFunction = nullptr;
  Error error = onDevice->store(changed);
  return error ? callFailed(error) : error;
}

/// Whether a tensor of `expected` bytes goes to `bytes` bytes at `data`.
static Error checkRoom(const std::string &name, uint64_t expected,
                       const void *data, uint64_t bytes) {
  if (bytes != expected)
    return fail("tensor '", printable(name), "' has ", expected,
                " bytes, found room for ", bytes);
  if (bytes && !data)
    return fail("data is null, expected room for the ", bytes,
                " bytes of tensor '", printable(name), "'");
  return {};
}

Error Session::read(const std::string &name, void *data, uint64_t bytes) {
  if (programs.empty() || !state)
    return Error(MPRT_NOT_READY, "no program is loaded");
  Expected<size_t> found = slotOf(name);
  if (!found)
    return found.error();
  Slot &slot = state->slot(*found);
  uint64_t expected = slot.elements * sizeOf(slot.type);
  if (Error error = checkRoom(name, expected, data, bytes))
    return error;
  if (Error error = onDevice->fetch({*found}))
    return callFailed(error);
  if (bytes)
    std::memcpy(data, slot.data, bytes);
  return {};
}

Error Session::readGlobal(const std::string &name, void *data, uint64_t bytes) {
  if (Error error = checkReady())
    return error;
  TableEntry *entry = entryOf(name);
  Error mine;
  if (!entry)
    mine = makeError(MPRT_NOT_FOUND, "no tensor '", printable(name),
                     "' in the state");
  else
    mine = checkRoom(name, *bytesOf(entry->shared.type, entry->shared.shape),
                     data, bytes);
  if (Error error = agree(mine))
    return error;
  uint64_t size = sizeOf(entry->shared.type);
  if (entry->slot) {
    if (Error error = onDevice->fetch({*entry->slot}))
      return callFailed(error);
    const Slot &slot = state->slot(*entry->slot);
    if (bytes)
      std::memcpy(static_cast<char *>(data) + slot.range.first * size,
                  slot.data, slot.range.count * size);
  }
  if (Error error = agree({}))
    return error;
  std::vector<SharedTensor> whole{entry->shared};
  for (const SharedTensor &part : entry->parts.empty() ? whole : entry->parts) {
    auto owner = unsigned(part.owner());
    const std::vector<uint64_t> &holders = part.holders;
    for (unsigned to = 0; to < rank->size(); ++to)
      if (std::find(holders.begin(), holders.end(), to) == holders.end())
        if (Error error = sendState(
                owner, to, static_cast<char *>(data) + part.first * size,
                *bytesOf(part.type, part.shape)))
          return failed(error);
  }
  return agree({});
}

Error Session::sendState(unsigned owner, unsigned to, void *data,
                         uint64_t bytes) {
  constexpr uint64_t block = 1 << 20;
  constexpr const char *what = "state of a rank";
  if (index() != owner && index() != to)
    return {};
  for (uint64_t at = 0; at < bytes; at += block) {
    char *place = static_cast<char *>(data) + at;
    uint64_t count = std::min(block, bytes - at);
    if (Error error = index() == owner
                          ? rank->send(to, place, count, what)
                          : rank->receive(owner, place, count, what))
      return error;
  }
  return {};
}

void Session::markLoaded(const StateFile &file) {
  for (TableEntry &entry : table)
    if (file.find(entry.shared.name))
      entry.hasValue = true;
  watchedFunction = nullptr;
  fedStep.reset();
}

Error Session::checkValuesOf(const ManifestFunction &function) {
  if (completeFunction == &function)
    return {};
  for (const TableEntry &entry : table)
    if (!entry.hasValue)
      for (const ManifestArgument &argument : function.arguments)
        if (argument.name == entry.shared.name)
          return Error(MPRT_NOT_READY,
                       std::string(nameOf(entry.role)) + " '" +
                           printable(entry.shared.name) +
                           "' has no value yet: read a file of weights, "
                           "resume a checkpoint, or write it");
  for (const ManifestArgument &argument : function.arguments)
    if (argument.role == Role::Hyperparameter && !argument.defaultValue &&
        !values.count(argument.name) && !(argument.name == "lr" && schedule))
      return Error(MPRT_NOT_READY, "hyperparameter '" +
                                       printable(argument.name) +
                                       "' has no default and no value yet");
  completeFunction = &function;
  return {};
}

//===----------------------------------------------------------------------===//
// Hyperparameters
//===----------------------------------------------------------------------===//

std::vector<const ManifestArgument *> Session::hyperparameters() const {
  std::vector<const ManifestArgument *> all;
  // The current program's come first: a default is its.
  auto add = [&](const LoadedProgram &loaded) {
    for (const ManifestFunction &function :
         loaded.program->manifest().functions)
      for (const ManifestArgument &argument : function.arguments)
        if (argument.role == Role::Hyperparameter)
          all.push_back(&argument);
  };
  if (!programs.empty())
    add(programs[current]);
  for (size_t i = 0; i < programs.size(); ++i)
    if (i != current)
      add(programs[i]);
  return all;
}

double Session::hyperparameter(const ManifestArgument &argument,
                               uint64_t at) const {
  if (auto set = values.find(argument.name); set != values.end())
    return set->second;
  if (argument.name == "lr" && schedule)
    return schedule->at(at);
  return argument.defaultValue.value_or(0);
}

Error Session::set(const std::string &name, double value) {
  if (Error error = checkReady())
    return error;
  if (Error error = checkHyperparameter(hyperparameters(), name, value))
    return error;
  values[name] = value;
  valuesSet.insert(name);
  valuesChanged = true;
  return {};
}

Error Session::get(const std::string &name, double &value) const {
  if (Error error = checkReady())
    return error;
  for (const ManifestArgument *argument : hyperparameters())
    if (argument->name == name) {
      value = hyperparameter(*argument, steps);
      return {};
    }
  return makeError(MPRT_NOT_FOUND, "no hyperparameter '", printable(name), "'");
}

Error Session::setSchedule(const LearningRate &wanted) {
  if (Error error = checkReady())
    return error;
  if (Error error = checkHyperparameter(hyperparameters(), "lr", wanted.base))
    return error;
  schedule = wanted;
  values.erase("lr");
  valuesSet.insert("lr");
  valuesChanged = true;
  return {};
}

Error Session::setSeed(uint64_t value) {
  seed = value;
  seedIsSet = true;
  fedStep.reset();
  return {};
}

Error Session::setStep(uint64_t value) {
  for (LoadedProgram &loaded : programs)
    if (loaded.freshAt == steps)
      loaded.freshAt = value;
  steps = value;
  fedStep.reset();
  return {};
}
