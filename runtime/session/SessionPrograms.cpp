//===- SessionPrograms.cpp - programs of a session ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program is opened without a world, and loaded by all ranks of one.
//
//===----------------------------------------------------------------------===//

#include "session/Session.h"

#include "files/Hash.h"

#include <algorithm>
#include <cstring>

using namespace mprt;

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

Expected<OpenProgram> OpenProgram::open(const std::string &path) {
  Expected<Program> program = Program::load(path);
  if (!program)
    return program.error();
  OpenProgram opened;
  opened.program = std::make_shared<const Program>(program.take());
  FunctionSet &set = opened.functions;
  set.manifest = &opened.program->manifest();
  for (const ManifestFunction &function : set.manifest->functions)
    if (!opened.calls(function.name))
      set.names.push_back(function.name);
  return opened;
}

OpenProgram OpenProgram::variant(size_t index) const {
  OpenProgram other;
  other.program = program->variants()[index];
  other.functions.manifest = &other.program->manifest();
  for (const std::string &name : functions.names)
    if (!other.functions.manifest->findAll(name).empty())
      other.functions.names.push_back(name);
  other.addPending();
  return other;
}

bool OpenProgram::calls(const std::string &name) const {
  const std::vector<std::string> &names = functions.names;
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Steps that leave updates to the next are nothing without the function that
/// makes them.
void OpenProgram::addPending() {
  bool isThere = false;
  for (const ManifestFunction *function :
       functions.manifest->findAll(ManifestFunction::applyPending))
    isThere |= function->isApplyPending();
  if (isThere && calls("train_step") && !calls(ManifestFunction::applyPending))
    functions.names.push_back(ManifestFunction::applyPending);
}

Error OpenProgram::select(std::span<const char *const> names) {
  std::vector<std::string> chosen;
  for (const char *name : names) {
    if (!name)
      return fail("the name of a function is null");
    if (functions.manifest->findAll(name).empty())
      return makeError(MPRT_NOT_FOUND, program->path(), ": no function '",
                       printable(name), "'");
    if (std::find(chosen.begin(), chosen.end(), name) == chosen.end())
      chosen.emplace_back(name);
  }
  functions.names = std::move(chosen);
  addPending();
  return {};
}

Error OpenProgram::checkState(const std::string &path, bool complete) const {
  std::optional<StateFile> file;
  if (!path.empty()) {
    Expected<StateFile> opened = StateFile::open(path);
    if (!opened)
      return opened.error();
    file.emplace(opened.take());
  }
  // Ranks with the same functions have the same state.
  std::set<std::vector<const ManifestFunction *>> seen;
  for (int64_t rank = 0; rank < functions.manifest->ranks(); ++rank) {
    std::vector<const ManifestFunction *> mine = functions.of(uint64_t(rank));
    std::erase(mine, nullptr);
    if (!seen.insert(mine).second)
      continue;
    Expected<RankState> state = RankState::create(mine, uint64_t(rank));
    if (!state)
      return state.error();
    if (!file && state->needsWeights())
      return Error(MPRT_NOT_READY, "the program has parameters");
    if (file)
      if (Error error = state->check(*file, complete))
        return error;
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

const ManifestFunction *Session::find(const std::string &function) const {
  return programs[current].calls(function)
             ? manifestOf().find(function, rank->index())
             : nullptr;
}

const Manifest &Session::ownManifest() const {
  size_t number = current;
  while (number > 0 && !nameOfPlan(number).empty())
    --number;
  return programs[number].program->manifest();
}

/// `own`: the program of which it is a variant, or null.
Error Session::checkProgram(const Program &program, const Program *own) const {
  const Manifest &manifest = program.manifest();
  const std::string &path = program.path();
  if (uint64_t(manifest.ranks()) != rank->size())
    return fail(path, ": compiled for ", manifest.ranks(), " ranks (",
                manifest.describeMesh(), "), this world has ", rank->size());
  if (wantedDevice != "auto" && wantedDevice != manifest.device)
    return fail(path, ": compiled for device '", manifest.device,
                "', this session is on '", wantedDevice, "'");
  if (wantedComm == "nccl" && manifest.device != "cuda")
    return fail(path, ": compiled for device '", manifest.device,
                "', and nccl moves memory of GPUs");
  std::vector<const Manifest *> others;
  for (const LoadedProgram &loaded : programs)
    others.push_back(&loaded.program->manifest());
  if (own)
    others.push_back(&own->manifest());
  if (others.empty())
    return {};
  if (manifest.device != "host" || others.front()->device != "host")
    return Error(MPRT_UNSUPPORTED,
                 path + ": a second program, on a GPU, where a session can "
                        "have one");
  // What has one name in both must be the same thing; batches may be others.
  std::map<std::string, const ManifestArgument *> known;
  for (const Manifest *other : others)
    for (const ManifestFunction &f : other->functions)
      for (const ManifestArgument &argument : f.arguments)
        known[argument.name] = &argument;
  for (const ManifestFunction &f : manifest.functions)
    for (const ManifestArgument &argument : f.arguments)
      if (auto found = known.find(argument.name); found != known.end()) {
        const ManifestArgument &other = *found->second;
        bool isSame = other.type == argument.type &&
                      other.shape == argument.shape &&
                      other.split == argument.split;
        if (other.role != argument.role || (isState(argument.role) && !isSame))
          return fail(path, ": ", nameOf(argument.role), " '",
                      printable(argument.name), "' is ",
                      mprt::describe(argument.type, argument.shape),
                      ", and in the programs before it ", nameOf(other.role),
                      " ", mprt::describe(other.type, other.shape));
      }
  return {};
}

Error Session::compare(
    uint64_t mine,
    const std::function<Error(size_t, uint64_t, uint64_t)> &describe) {
  std::vector<uint64_t> all(rank->size());
  if (Error error = rank->gather(&mine, all.data(), sizeof(mine)))
    return failed(error);
  for (size_t other = 1; other < all.size(); ++other)
    if (all[other] != all[0])
      return describe(other, all[other], all[0]);
  return {};
}

Error Session::agreeOnProgram(const Program &program) {
  return compare(program.digest(), [](size_t rank, uint64_t its, uint64_t of0) {
    return fail("rank ", rank,
                " loads another program file than rank 0, with checksum ",
                hexOf(its), " where rank 0's has ", hexOf(of0));
  });
}

Error Session::agreeOnSettings() {
  std::string settings = rank->device().sharedSettings();
  // So it is on all ranks: their devices are of one kind.
  if (settings.empty())
    return {};
  struct Text {
    char text[64] = {};
  };
  Text mine;
  copyText(mine.text, sizeof(mine.text), settings);
  std::vector<Text> all(rank->size());
  if (Error error = rank->gather(&mine, all.data(), sizeof(mine)))
    return failed(error);
  for (Text &each : all)
    each.text[sizeof(each.text) - 1] = 0;
  for (size_t other = 1; other < all.size(); ++other)
    if (std::strcmp(all[other].text, all[0].text) != 0)
      return fail("rank ", other, " has ", printable(all[other].text),
                  " where rank 0 has ", printable(all[0].text),
                  "; set it in the environment of all ranks, or of none");
  return {};
}

/// Bytes of the largest arena of the functions that this rank runs.
uint64_t Session::arenaBytesOf(const OpenProgram &opened) const {
  uint64_t bytes = 0;
  for (const ManifestFunction *function : opened.functions.of(index()))
    if (function)
      bytes = std::max(bytes, function->arenaBytes);
  return bytes;
}

/// Only one program runs at a time: those of a file share an arena, which the
/// first of them makes.
Error Session::openProgram(LoadedProgram &loaded, uint32_t traceCapacity,
                           const LoadedProgram *first) {
  const Manifest &manifest = loaded.program->manifest();
  if (wantedComm == "nccl")
    Rank::prepareNccl(manifest);
  if (Error error = agree(rank->openDevice(manifest, loaded.program->images())))
    return error;
  if (Error error = agreeOnSettings())
    return error;
  if (wantedComm == "nccl")
    if (Error error = rank->openNccl())
      return failed(error);
  uint32_t eventCount = 0;
  for (const ManifestFunction *function : loaded.functions.of(index()))
    if (function)
      eventCount = std::max(eventCount, function->events);
  Error error =
      rank->createContext(manifest, eventCount, traceCapacity, flightCapacity);
  if (error.ok() && first) {
    loaded.arena = first->arena;
  } else if (error.ok()) {
    Expected<void *> memory = rank->allocate(loaded.arenaBytes);
    if (memory)
      loaded.arena = *memory;
    error = memory.error();
  }
  return agree(error);
}

Error Session::layOutState() {
  std::vector<const ManifestFunction *> functions;
  for (const LoadedProgram &loaded : programs)
    for (const ManifestFunction *function : loaded.functions.of(index()))
      if (function)
        functions.push_back(function);
  Expected<RankState> made = RankState::create(functions, index());
  if (!made)
    return made.error();
  made->storeDefaults();
  if (state)
    made->copyState(*state);
  std::optional<RankState> before = std::move(state);
  state.reset();
  state.emplace(made.take());
  Expected<DeviceState> twin =
      DeviceState::create(rank->device(), rank->context(), *state);
  if (!twin) {
    state = std::move(before);
    return twin.error();
  }
  onDevice.emplace(twin.take());
  return {};
}

Error Session::load(const Expected<OpenProgram> &opened, uint32_t traceCapacity,
                    uint32_t &number, const std::string &planName) {
  if (failure)
    return failure;
  finishWriting(/*waits=*/true);
  std::lock_guard guard(changing);
  std::vector<LoadedProgram> all;
  Error error = opened.error();
  if (opened) {
    all.push_back({*opened});
    for (size_t i = 0; i < opened->program->variants().size(); ++i)
      all.push_back({opened->variant(i)});
  }
  for (const LoadedProgram &program : all) {
    all.front().arenaBytes =
        std::max(all.front().arenaBytes, arenaBytesOf(program));
    if (error.ok())
      error = checkProgram(*program.program, &program == &all.front()
                                                 ? nullptr
                                                 : all.front().program.get());
  }
  if ((error = agree(error)))
    return error;
  if ((error = agreeOnProgram(*opened->program)))
    return error;
  size_t first = programs.size();
  for (LoadedProgram &program : all) {
    programs.push_back(std::move(program));
    programs.back().freshAt = steps;
    if (programs.size() == first + 1)
      programs.back().planName = planName;
    bool isFirst = programs.size() == first + 1;
    if ((error = openProgram(programs.back(), traceCapacity,
                             isFirst ? nullptr : &programs[first])))
      break;
  }
  if (error.ok())
    error = agree(layOutState());
  if (error) {
    unload(first);
    return error;
  }
  number = uint32_t(first);
  std::vector<TableEntry> before = std::move(table);
  fillTable(before);
  use(current);
  if (Error lost = bringState(before))
    return failed(lost);
  for (size_t added = first; added < programs.size(); ++added)
    addPlan(added);
  emit(MPCOMM_EVENT_LOADED, opened->program->path());
  return {};
}

/// Leaves the first programs.
void Session::unload(size_t count) {
  bool hadMover = rank->hasMover();
  programs.resize(count);
  // NCCL is on the device that goes.
  if (!failure && hadMover)
    giveUp(Error(MPRT_UNSUPPORTED, "NCCL was there for a program that could "
                                   "not be loaded"));
  onDevice.reset();
  stepper.reset();
  rank->closePrograms(programs.size());
  if (programs.empty()) {
    state.reset();
    return;
  }
  if (Error error = layOutState())
    giveUp(error);
  else
    use(current);
}

Error Session::renewCopies() {
  std::set<std::string> updated;
  for (const ManifestFunction *function :
       programs[current].functions.of(index()))
    if (function)
      for (const ManifestArgument &argument : function->arguments)
        if (argument.updated)
          updated.insert(argument.name);
  return onDevice->store(state->renewCopiesExcept(updated));
}

void Session::use(size_t number) {
  current = number;
  rank->useProgram(number);
  fedStep.reset();
  lastCalled = watchedFunction = completeFunction = nullptr;
  stepper.emplace(*rank, *programs[number].program, *state, *onDevice,
                  programs[number].arena);
  watchPlan();
}

std::string Session::findStale(const LoadedProgram &program) const {
  if (program.freshAt == steps)
    return {};
  std::set<std::string> known;
  for (const ManifestFunction *function :
       programs[current].functions.of(index()))
    for (size_t i = 0; function && i < function->arguments.size(); ++i)
      known.insert(function->arguments[i].name);
  for (const ManifestFunction *function : program.functions.of(index()))
    for (size_t i = 0; function && i < function->arguments.size(); ++i) {
      const ManifestArgument &argument = function->arguments[i];
      // What a program keeps for itself waits until it runs again.
      if (isState(argument.role) && !argument.copyOf && !argument.isAdded &&
          !known.count(argument.name))
        return argument.name;
    }
  return {};
}

Error Session::switchTo(uint32_t number) {
  if (Error error = checkReady())
    return error;
  if (number >= programs.size())
    return fail("program ", number, ", expected one of ", programs.size());
  std::string stale = findStale(programs[number]);
  struct Place {
    uint64_t number, step, isStale;
  } mine{number, steps, !stale.empty()};
  std::vector<Place> all(rank->size());
  if (Error error = rank->gather(&mine, all.data(), sizeof(mine)))
    return failed(error);
  for (size_t other = 1; other < all.size(); ++other)
    if (all[other].number != all[0].number || all[other].step != all[0].step)
      return fail("rank ", other, " switches to program ", all[other].number,
                  " after step ", all[other].step, ", rank 0 to program ",
                  all[0].number, " after step ", all[0].step);
  for (size_t other = 0; other < all.size(); ++other)
    if (all[other].isStale)
      return fail("rank ", other, " holds ",
                  other == index() ? "'" + printable(stale) + "'"
                                   : std::string("state"),
                  " in program ", number, " and not in the current one, which ",
                  "has made steps since it was loaded: load it again");
  if (Error error = applyPending())
    return error;
  if (Error error = renewCopies())
    return callFailed(error);
  programs[current].freshAt = steps;
  std::lock_guard guard(changing);
  use(number);
  const Program &now = *programs[number].program;
  emit(MPCOMM_EVENT_SWITCHED,
       now.path() + (now.variant().empty() ? "" : ":" + now.variant()));
  return {};
}

Error Session::manifest(uint32_t number, const char *&json) const {
  if (number >= programs.size())
    return fail("program ", number, ", expected one of ", programs.size());
  json = programs[number].program->manifestText().c_str();
  return {};
}

Error Session::variant(uint32_t number, const char *&name) const {
  if (number >= programs.size())
    return fail("program ", number, ", expected one of ", programs.size());
  name = nameOfPlan(number).c_str();
  return {};
}
