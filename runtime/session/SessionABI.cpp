//===- SessionABI.cpp - the C ABI of sessions -----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each call checks its pointers, takes the session's lock, and turns an Error
// or what a standard library throws into a status and a mpcomm_error.
//
//===----------------------------------------------------------------------===//

#include "session/Environment.h"
#include "session/Session.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <thread>

using namespace mprt;

struct mpcomm_session {
  std::unique_ptr<Session> session;
  std::mutex mutex;
  /// The thread whose call is under way.
  std::atomic<std::thread::id> caller{};
};

namespace {

mprt_status report(mprt_status status, const char *message, int32_t rank,
                   mpcomm_error *error, std::string_view location = {},
                   bool isElsewhere = false) {
  if (!error)
    return status;
  error->code = status;
  error->rank = rank;
  copyText(error->location, sizeof(error->location), location);
  copyText(error->message, sizeof(error->message), message);
  error->is_elsewhere = isElsewhere;
  std::memset(error->reserved, 0, sizeof(error->reserved));
  return status;
}

mprt_status report(const Error &from, int32_t rank, mpcomm_error *error) {
  if (from.ok())
    return MPRT_OK;
  return report(from.status(), from.message().c_str(),
                from.rank() < 0 ? rank : from.rank(), error, from.location(),
                from.isElsewhere());
}

/// Calls `function`, which returns an Error and may throw.
template <typename Function>
mprt_status guard(int32_t rank, mpcomm_error *error, Function function) {
  try {
    return report(function(), rank, error);
  } catch (const std::bad_alloc &) {
    return report(MPRT_OUT_OF_MEMORY, "out of memory", rank, error);
  } catch (const std::exception &exception) {
    return report(MPRT_INTERNAL, exception.what(), rank, error);
  } catch (...) {
    return report(MPRT_INTERNAL, "unknown exception", rank, error);
  }
}

Error nullArgument(const char *name) { return fail(name, " is null"); }

Error reservedField() {
  return Error(MPRT_UNSUPPORTED, "options: a reserved field is not 0");
}

/// The same with the session, one call at a time: `caller`, which errors name
/// where a rank waits for others in it.
template <typename Function>
mprt_status enter(mpcomm_session *session, mpcomm_error *error,
                  Function function,
                  const char *caller = __builtin_FUNCTION()) {
  if (!session)
    return guard(-1, error, [] { return nullArgument("session"); });
  if (session->caller == std::this_thread::get_id())
    return guard(-1, error, [] {
      return Error(MPRT_NOT_READY,
                   "called from inside of an event callback of the session");
    });
  std::lock_guard<std::mutex> lock(session->mutex);
  session->caller = std::this_thread::get_id();
  auto rank = int32_t(session->session->index());
  session->session->setPlace(caller);
  mprt_status status =
      guard(rank, error, [&] { return function(*session->session); });
  session->caller = std::thread::id();
  return status;
}

/// The same of a call that all ranks make: what is thrown ends the session, so
/// that the others do not wait for this one.
template <typename Function>
mprt_status enterTogether(mpcomm_session *session, mpcomm_error *error,
                          Function function,
                          const char *caller = __builtin_FUNCTION()) {
  auto together = [&](Session &inner) -> Error {
    try {
      return function(inner);
    } catch (const std::exception &exception) {
      (void)inner.abort(exception.what());
      throw;
    }
  };
  return enter(session, error, together, caller);
}

/// What the caller has set of a structure that begins with its size; null is
/// one with defaults.
template <typename T>
Error readOptions(const T *given, const char *name, T &options) {
  options = {};
  if (!given)
    return {};
  if (given->struct_size < sizeof(uint32_t) || given->struct_size > sizeof(T))
    return fail(name, ": a struct_size of ", given->struct_size, ", expected ",
                sizeof(T),
                given->struct_size > sizeof(T)
                    ? " or less: made for a newer library"
                    : "");
  std::memcpy(&options, given, given->struct_size);
  return {};
}

/// Prepares `result` for being filled; see `storeResult`.
template <typename T> Error checkResult(const T *result, const char *name) {
  if (!result)
    return nullArgument(name);
  if (result->struct_size < sizeof(uint32_t) || result->struct_size > sizeof(T))
    return fail(name, ": a struct_size of ", result->struct_size, ", expected ",
                sizeof(T));
  return {};
}

/// Gives the caller as much of `filled` as it knows of.
template <typename T> void storeResult(T filled, T *result) {
  filled.struct_size = result->struct_size;
  std::memcpy(result, &filled, result->struct_size);
}

/// Calls `function` with a structure that it fills, and passes that on.
template <typename T, typename Function>
mprt_status fillFor(mpcomm_session *session, T *result, const char *name,
                    mpcomm_error *error, Function function) {
  return enter(session, error, [&](Session &inner) -> Error {
    if (Error wrong = checkResult(result, name))
      return wrong;
    T filled = {};
    if (Error failed = function(inner, filled))
      return failed;
    storeResult(filled, result);
    return {};
  });
}

/// Fails where the argument `name`, of which `countName` says how many values
/// it has, is null and has some.
Error checkRange(const void *values, const char *name, uint64_t count,
                 const char *countName) {
  if (values || !count)
    return {};
  return fail(name, " is null, but ", countName, " is ", count);
}

} // namespace

uint32_t mpcomm_session_abi(void) { return MPCOMM_SESSION_ABI; }

const char *mpcomm_session_version(void) { return MPCOMM_VERSION; }

const char *mpcomm_status_name(int32_t code) {
  return nameOf(mprt_status(code));
}

//===----------------------------------------------------------------------===//
// Worlds
//===----------------------------------------------------------------------===//

mprt_status mpcomm_ranks_create(uint32_t size, mpcomm_ranks **ranks,
                                mpcomm_error *error) {
  return mpcomm_ranks_create_over("shm", size, 0, ranks, error);
}

mprt_status mpcomm_ranks_create_over(const char *comm, uint32_t size,
                                     double timeout, mpcomm_ranks **ranks,
                                     mpcomm_error *error) {
  return guard(-1, error, [&]() -> Error {
    if (!ranks || !comm)
      return nullArgument(comm ? "ranks" : "comm");
    *ranks = nullptr;
    const Backend *backend = findBackend(comm);
    if (!backend || !backend->prepare)
      return fail("comm '", printable(comm), "', expected shm or gloo");
    auto most =
        uint32_t(std::min<uint64_t>(backend->mostLocalRanks, kMaxRanks));
    if (size == 0 || size > most)
      return fail("expected 1 to ", most, " ranks, found ", size);
    if (!(timeout >= 0) || timeout > 1e9)
      return fail("a timeout of ", timeout,
                  " seconds, expected 0 or more and at most 1e9");
    auto made = backend->prepare(size, timeout);
    if (!made)
      return made.error();
    *ranks = new mpcomm_ranks{made.take(), size, comm};
    return {};
  });
}

mprt_status mpcomm_ranks_started(mpcomm_ranks *ranks, mpcomm_error *error) {
  return guard(-1, error, [&]() -> Error {
    if (!ranks)
      return nullArgument("ranks");
    ranks->ranks->started();
    return {};
  });
}

mprt_status mpcomm_launched_by(mpcomm_launcher *launcher, mpcomm_error *error) {
  return guard(-1, error, [&]() -> Error {
    if (Error wrong = checkResult(launcher, "launcher"))
      return wrong;
    Expected<std::optional<LaunchedBy>> found = launcherFromEnvironment();
    if (!found)
      return found.error();
    if (!*found)
      return Error(MPRT_NOT_FOUND, "nobody has started this process as one of "
                                   "several");
    const LaunchedBy &by = **found;
    storeResult({0, uint32_t(by.rank), uint32_t(by.size), by.launcher},
                launcher);
    return {};
  });
}

mprt_status mpcomm_ranks_mark_dead(mpcomm_ranks *ranks, uint32_t rank,
                                   const char *reason, mpcomm_error *error) {
  return guard(-1, error, [&]() -> Error {
    if (!ranks || !reason)
      return nullArgument(ranks ? "reason" : "ranks");
    if (rank >= ranks->size)
      return fail("rank ", rank, " of ", ranks->size);
    ranks->ranks->markDead(rank, reason);
    return {};
  });
}

void mpcomm_ranks_destroy(mpcomm_ranks *ranks) { delete ranks; }

mprt_status mpcomm_session_open(const mpcomm_session_options *given,
                                mpcomm_session **session, mpcomm_error *error) {
  return guard(-1, error, [&]() -> Error {
    if (!session)
      return nullArgument("session");
    *session = nullptr;
    mpcomm_session_options options;
    if (Error wrong = readOptions(given, "options", options))
      return wrong;
    if (options.reserved)
      return reservedField();
    auto made = std::make_unique<mpcomm_session>();
    Expected<std::unique_ptr<Session>> opened = Session::open(options);
    if (!opened)
      return opened.error();
    made->session = opened.take();
    *session = made.release();
    return {};
  });
}

mprt_status mpcomm_session_close(mpcomm_session *session, mpcomm_error *error) {
  if (!session)
    return MPRT_OK;
  mprt_status status =
      enter(session, error, [](Session &inner) { return inner.close(); });
  if (session->caller != std::this_thread::get_id())
    delete session;
  return status;
}

mprt_status mpcomm_session_describe(mpcomm_session *session,
                                    mpcomm_session_info *info,
                                    mpcomm_error *error) {
  return fillFor(session, info, "info", error,
                 [](Session &inner, mpcomm_session_info &filled) {
                   return inner.describe(filled);
                 });
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

mprt_status mpcomm_program_open(const char *path, mpcomm_program **program,
                                mpcomm_error *error) {
  return guard(-1, error, [&]() -> Error {
    if (!program || !path)
      return nullArgument(path ? "program" : "path");
    *program = nullptr;
    Expected<OpenProgram> opened = OpenProgram::open(path);
    if (opened)
      *program = new mpcomm_program{opened.take()};
    return opened.error();
  });
}

void mpcomm_program_close(mpcomm_program *program) { delete program; }

mprt_status mpcomm_program_describe(const mpcomm_program *program,
                                    mpcomm_program_info *info,
                                    mpcomm_error *error) {
  return guard(-1, error, [&]() -> Error {
    if (!program)
      return nullArgument("program");
    if (Error wrong = checkResult(info, "info"))
      return wrong;
    const Program &opened = *program->opened.program;
    storeResult({0, 0, opened.digest(), opened.path().c_str(),
                 opened.manifestText().c_str()},
                info);
    return {};
  });
}

mprt_status mpcomm_program_select(mpcomm_program *program,
                                  const char *const *functions, uint32_t count,
                                  mpcomm_error *error) {
  return guard(-1, error, [&]() -> Error {
    if (!program)
      return nullArgument("program");
    if (Error wrong = checkRange(functions, "functions", count, "count"))
      return wrong;
    return program->opened.select({functions, count});
  });
}

mprt_status mpcomm_program_check_state(const mpcomm_program *program,
                                       const char *path, int32_t weightsOnly,
                                       mpcomm_error *error) {
  return guard(-1, error, [&]() -> Error {
    if (!program)
      return nullArgument("program");
    return program->opened.checkState(path ? path : "", !weightsOnly);
  });
}

/// Loads what `open` gives.
template <typename Open>
static mprt_status loadOpened(mpcomm_session *session, uint32_t *number,
                              mpcomm_error *error, Open open) {
  return enterTogether(session, error, [&](Session &inner) -> Error {
    uint32_t traceCapacity = 0, loaded = 0;
    Expected<OpenProgram> opened = open(traceCapacity);
    Error failed = inner.load(opened, traceCapacity, loaded);
    if (number && failed.ok())
      *number = loaded;
    return failed;
  });
}

mprt_status mpcomm_session_load(mpcomm_session *session, const char *path,
                                uint32_t *program, mpcomm_error *error) {
  return loadOpened(session, program, error,
                    [&](uint32_t &) -> Expected<OpenProgram> {
                      return path ? OpenProgram::open(path)
                                  : Expected<OpenProgram>(nullArgument("path"));
                    });
}

mprt_status mpcomm_session_load_program(mpcomm_session *session,
                                        const mpcomm_program *program,
                                        const mpcomm_load_options *given,
                                        uint32_t *number, mpcomm_error *error) {
  return loadOpened(session, number, error,
                    [&](uint32_t &traced) -> Expected<OpenProgram> {
                      mpcomm_load_options options;
                      if (Error wrong = readOptions(given, "options", options))
                        return wrong;
                      if (!program)
                        return nullArgument("program");
                      traced = options.trace_capacity;
                      return program->opened;
                    });
}

mprt_status mpcomm_session_switch(mpcomm_session *session, uint32_t program,
                                  mpcomm_error *error) {
  return enterTogether(session, error,
                       [&](Session &inner) { return inner.switchTo(program); });
}

mprt_status mpcomm_session_manifest(mpcomm_session *session, uint32_t program,
                                    const char **json, mpcomm_error *error) {
  return enter(session, error, [&](Session &inner) -> Error {
    if (!json)
      return nullArgument("json");
    return inner.manifest(program, *json);
  });
}

mprt_status mpcomm_session_variant(mpcomm_session *session, uint32_t program,
                                   const char **name, mpcomm_error *error) {
  return enter(session, error, [&](Session &inner) -> Error {
    if (!name)
      return nullArgument("name");
    return inner.variant(program, *name);
  });
}

mprt_status mpcomm_session_adapt(mpcomm_session *session,
                                 const mpcomm_adapt_options *given,
                                 mpcomm_error *error) {
  return enterTogether(session, error, [&](Session &inner) -> Error {
    using Options = Expected<std::optional<AdaptOptions>>;
    mpcomm_adapt_options chosen;
    if (Error wrong = readOptions(given, "options", chosen))
      return inner.adapt(Options(wrong));
    if (!given)
      return inner.adapt(Options(std::nullopt));
    if (chosen.reserved[0] || chosen.reserved[1] || chosen.reserved[2])
      return inner.adapt(Options(reservedField()));
    Expected<AdaptOptions> options = AdaptOptions::from(chosen);
    return inner.adapt(options ? Options(*options) : Options(options.error()));
  });
}

mprt_status mpcomm_session_network(mpcomm_session *session, const char **json,
                                   mpcomm_error *error) {
  return enter(session, error, [&](Session &inner) -> Error {
    if (!json)
      return nullArgument("json");
    return inner.network(*json);
  });
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

mprt_status mpcomm_session_state_count(mpcomm_session *session, uint32_t *count,
                                       mpcomm_error *error) {
  return enter(session, error, [&](Session &inner) -> Error {
    if (!count)
      return nullArgument("count");
    *count = inner.stateCount();
    return {};
  });
}

mprt_status mpcomm_session_state_at(mpcomm_session *session, uint32_t index,
                                    mpcomm_tensor *tensor,
                                    mpcomm_error *error) {
  return fillFor(session, tensor, "tensor", error,
                 [&](Session &inner, mpcomm_tensor &filled) {
                   return inner.stateAt(index, filled);
                 });
}

mprt_status mpcomm_session_tensor(mpcomm_session *session, const char *name,
                                  mpcomm_tensor *tensor, mpcomm_error *error) {
  return fillFor(session, tensor, "tensor", error,
                 [&](Session &inner, mpcomm_tensor &filled) {
                   return name ? inner.tensor(name, filled)
                               : nullArgument("name");
                 });
}

mprt_status mpcomm_session_argument(mpcomm_session *session,
                                    const char *function, uint32_t index,
                                    mpcomm_tensor *tensor,
                                    mpcomm_error *error) {
  return fillFor(session, tensor, "tensor", error,
                 [&](Session &inner, mpcomm_tensor &filled) {
                   return function ? inner.argument(function, index, filled)
                                   : nullArgument("function");
                 });
}

mprt_status mpcomm_session_write(mpcomm_session *session,
                                 const mpcomm_array *array,
                                 mpcomm_error *error) {
  return enter(session, error, [&](Session &inner) {
    return array ? inner.write(*array) : nullArgument("array");
  });
}

mprt_status mpcomm_session_read(mpcomm_session *session, const char *name,
                                void *data, uint64_t bytes,
                                mpcomm_error *error) {
  return enter(session, error, [&](Session &inner) {
    return name ? inner.read(name, data, bytes) : nullArgument("name");
  });
}

mprt_status mpcomm_session_read_global(mpcomm_session *session,
                                       const char *name, void *data,
                                       uint64_t bytes, mpcomm_error *error) {
  return enterTogether(session, error, [&](Session &inner) {
    return name ? inner.readGlobal(name, data, bytes) : nullArgument("name");
  });
}

//===----------------------------------------------------------------------===//
// Stepping
//===----------------------------------------------------------------------===//

mprt_status mpcomm_session_set(mpcomm_session *session, const char *name,
                               double value, mpcomm_error *error) {
  return enter(session, error, [&](Session &inner) {
    return name ? inner.set(name, value) : nullArgument("name");
  });
}

mprt_status mpcomm_session_get(mpcomm_session *session, const char *name,
                               double *value, mpcomm_error *error) {
  return enter(session, error, [&](Session &inner) {
    return name && value ? inner.get(name, *value)
                         : nullArgument(name ? "value" : "name");
  });
}

mprt_status mpcomm_session_set_schedule(mpcomm_session *session,
                                        const mpcomm_schedule *given,
                                        mpcomm_error *error) {
  return enter(session, error, [&](Session &inner) -> Error {
    if (!given)
      return nullArgument("schedule");
    mpcomm_schedule schedule;
    if (Error wrong = readOptions(given, "schedule", schedule))
      return wrong;
    LearningRate rate;
    switch (schedule.decay) {
    case MPCOMM_CONSTANT:
      rate.kind = DecayKind::Constant;
      break;
    case MPCOMM_COSINE:
      rate.kind = DecayKind::Cosine;
      break;
    case MPCOMM_LINEAR:
      rate.kind = DecayKind::Linear;
      break;
    default:
      return fail("schedule: ", schedule.decay, " is no mpcomm_decay");
    }
    rate.base = schedule.base;
    rate.warmup = schedule.warmup;
    rate.total = schedule.total;
    return inner.setSchedule(rate);
  });
}

mprt_status mpcomm_session_set_seed(mpcomm_session *session, uint64_t seed,
                                    mpcomm_error *error) {
  return enter(session, error,
               [&](Session &inner) { return inner.setSeed(seed); });
}

mprt_status mpcomm_session_set_step(mpcomm_session *session, uint64_t step,
                                    mpcomm_error *error) {
  return enter(session, error,
               [&](Session &inner) { return inner.setStep(step); });
}

mprt_status mpcomm_session_step(mpcomm_session *session,
                                const mpcomm_array *batch, uint32_t count,
                                const mpcomm_step_options *given,
                                mpcomm_result *result, mpcomm_error *error) {
  return enterTogether(session, error, [&](Session &inner) -> Error {
    mpcomm_step_options options;
    if (Error wrong = readOptions(given, "options", options))
      return wrong;
    if (result)
      if (Error wrong = checkResult(result, "result"))
        return wrong;
    if (Error wrong = checkRange(batch, "batch", count, "count"))
      return wrong;
    if (Error wrong = checkRange(options.next, "options.next",
                                 options.next_count, "options.next_count"))
      return wrong;
    mpcomm_result filled = {};
    if (Error failed = inner.step({batch, count}, /*isFed=*/!batch,
                                  {options.next, options.next_count}, filled))
      return failed;
    if (result)
      storeResult(filled, result);
    return {};
  });
}

mprt_status mpcomm_session_evaluate(mpcomm_session *session,
                                    const char *function,
                                    const mpcomm_array *batch, uint32_t count,
                                    mpcomm_result *result,
                                    mpcomm_error *error) {
  return enterTogether(session, error, [&](Session &inner) -> Error {
    if (result)
      if (Error wrong = checkResult(result, "result"))
        return wrong;
    if (Error wrong = checkRange(batch, "batch", count, "count"))
      return wrong;
    mpcomm_result filled = {};
    if (Error failed = inner.evaluate(function ? function : "evaluate",
                                      {batch, count}, filled))
      return failed;
    if (result)
      storeResult(filled, result);
    return {};
  });
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

mprt_status mpcomm_session_save(mpcomm_session *session, const char *path,
                                const mpcomm_save_options *given,
                                mpcomm_error *error) {
  return enterTogether(session, error, [&](Session &inner) -> Error {
    if (!path)
      return nullArgument("path");
    mpcomm_save_options options;
    if (Error wrong = readOptions(given, "options", options))
      return wrong;
    for (uint8_t field : options.reserved)
      if (field)
        return reservedField();
    return inner.save(path, options);
  });
}

mprt_status mpcomm_session_plan_saves(mpcomm_session *session, const char *path,
                                      const mpcomm_save_plan *given,
                                      mpcomm_error *error) {
  return enterTogether(session, error, [&](Session &inner) -> Error {
    if (!path || !given)
      return nullArgument(path ? "plan" : "path");
    mpcomm_save_plan plan;
    if (Error wrong = readOptions(given, "plan", plan))
      return wrong;
    return inner.planSaves(path, plan);
  });
}

mprt_status mpcomm_session_compare(mpcomm_session *session,
                                   mpcomm_error *error) {
  return enterTogether(session, error,
                       [](Session &inner) { return inner.compareReplicas(); });
}

mprt_status mpcomm_session_wait(mpcomm_session *session, mpcomm_error *error) {
  return enter(session, error, [](Session &inner) { return inner.wait(); });
}

mprt_status mpcomm_session_read_state(mpcomm_session *session, const char *path,
                                      mpcomm_error *error) {
  return enterTogether(session, error, [&](Session &inner) {
    return path ? inner.readState(path) : nullArgument("path");
  });
}

mprt_status mpcomm_session_resume(mpcomm_session *session, const char *path,
                                  const mpcomm_resume_options *given,
                                  mpcomm_error *error) {
  return enterTogether(session, error, [&](Session &inner) -> Error {
    if (!path)
      return nullArgument("path");
    mpcomm_resume_options options;
    if (Error wrong = readOptions(given, "options", options))
      return wrong;
    for (uint8_t field : options.reserved)
      if (field)
        return reservedField();
    return inner.resume(path, options.anyway);
  });
}

mprt_status mpcomm_session_metadata(mpcomm_session *session, const char *key,
                                    const char **value, mpcomm_error *error) {
  return enter(session, error, [&](Session &inner) {
    return key && value ? inner.metadata(key, *value)
                        : nullArgument(key ? "value" : "key");
  });
}

//===----------------------------------------------------------------------===//
// Ranks and events
//===----------------------------------------------------------------------===//

mprt_status mpcomm_session_gather(mpcomm_session *session, const void *mine,
                                  void *all, uint64_t bytes,
                                  mpcomm_error *error) {
  return enterTogether(session, error, [&](Session &inner) -> Error {
    if (bytes && (!mine || !all))
      return nullArgument(mine ? "all" : "mine");
    return inner.gather(mine, all, bytes);
  });
}

mprt_status mpcomm_session_abort(mpcomm_session *session, const char *message,
                                 mpcomm_error *error) {
  return enter(session, error, [&](Session &inner) {
    return message ? inner.abort(message) : nullArgument("message");
  });
}

mprt_status mpcomm_session_on_event(mpcomm_session *session,
                                    mpcomm_event_callback callback, void *user,
                                    mpcomm_error *error) {
  return enter(session, error, [&](Session &inner) -> Error {
    inner.onEvent(callback, user);
    return {};
  });
}

mprt_status mpcomm_session_events(mpcomm_session *session, mpcomm_event *events,
                                  uint32_t capacity, uint32_t *taken,
                                  uint64_t *dropped, mpcomm_error *error) {
  return enter(session, error, [&](Session &inner) -> Error {
    if (!taken)
      return nullArgument("taken");
    if (Error wrong = checkRange(events, "events", capacity, "capacity"))
      return wrong;
    uint64_t lost = 0;
    *taken = inner.takeEvents({events, capacity}, lost);
    if (dropped)
      *dropped = lost;
    return {};
  });
}

//===----------------------------------------------------------------------===//
// Records
//===----------------------------------------------------------------------===//

mprt_status mpcomm_session_totals(mpcomm_session *session,
                                  mpcomm_totals *totals, mpcomm_error *error) {
  return fillFor(session, totals, "totals", error,
                 [](Session &inner, mpcomm_totals &filled) {
                   return inner.totals(filled);
                 });
}

mprt_status mpcomm_session_trace(mpcomm_session *session,
                                 mpcomm_trace_event *events, uint32_t capacity,
                                 uint32_t *count, uint64_t *dropped,
                                 mpcomm_error *error) {
  return enter(session, error, [&](Session &inner) -> Error {
    if (!count)
      return nullArgument("count");
    if (Error wrong = checkRange(events, "events", capacity, "capacity"))
      return wrong;
    uint64_t lost = 0;
    Error failed = inner.trace({events, capacity}, *count, lost);
    if (dropped && failed.ok())
      *dropped = lost;
    return failed;
  });
}

mprt_status mpcomm_session_flight(mpcomm_session *session,
                                  mpcomm_flight_entry *entries,
                                  uint32_t capacity, uint32_t *count,
                                  mpcomm_error *error) {
  // Without the lock, which a call that hangs has.
  return guard(-1, error, [&]() -> Error {
    if (!session)
      return nullArgument("session");
    if (!count)
      return nullArgument("count");
    if (Error wrong = checkRange(entries, "entries", capacity, "capacity"))
      return wrong;
    return session->session->flight({entries, capacity}, *count);
  });
}

Rank &mprt::rankOf(mpcomm_session *session) {
  return session->session->place();
}
