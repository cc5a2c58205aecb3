//===- Session.h - the session that a rank of the run is ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mpcomm/Runtime/Session.h with owners for what it opens and with Error for its
// status and message. Of errors that all ranks get, one is marked as reported
// elsewhere on all ranks but one, which prints it.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_LAUNCH_SESSION_H
#define MPCOMM_RUN_LAUNCH_SESSION_H

#include "data/Runtime.h"
#include "files/Manifest.h"
#include "support/Agreement.h"

#include "mpcomm/Runtime/Session.h"

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace mpcomm::run {

/// `call(arguments..., &error)`, whose status becomes an Error.
template <typename Call, typename... Arguments>
Error check(Call *call, Arguments... arguments) {
  mpcomm_error error;
  if (call(arguments..., &error) == MPRT_OK)
    return {};
  Error made = Error(static_cast<mprt_status>(error.code), error.message)
                   .at(error.location);
  return error.is_elsewhere ? made.reportedElsewhere() : made;
}

/// A structure of the session's whose fields have their defaults.
template <typename T> T sized() {
  T made = {};
  made.struct_size = sizeof(T);
  return made;
}

template <auto release> struct Release {
  template <typename T> void operator()(T *object) const { release(object); }
};
inline void closeSession(mpcomm_session *session) {
  (void)mpcomm_session_close(session, nullptr);
}

/// A program file that is open.
class RunProgram {
public:
  static Expected<std::unique_ptr<RunProgram>> open(const std::string &path);

  const std::string &path() const { return file; }
  const Manifest &manifest() const { return description; }
  uint64_t checksum() const { return hash; }
  mpcomm_program *handle() const { return program.get(); }

private:
  std::unique_ptr<mpcomm_program, Release<mpcomm_program_close>> program;
  std::string file;
  Manifest description;
  uint64_t hash = 0;
};

/// Ranks that are forked here.
using RunRanks = std::unique_ptr<mpcomm_ranks, Release<mpcomm_ranks_destroy>>;

class RunSession {
public:
  static Expected<RunSession> open(const mpcomm_session_options &options);

  uint64_t index() const { return about.rank; }
  uint64_t size() const { return about.size; }
  bool hasOneMachine() const { return about.local_ranks == about.size; }
  /// What carries what programs send.
  const char *backend() const;
  mpcomm_session *handle() const { return session.get(); }

  /// `mpcomm_session_...(session, arguments..., &error)`.
  template <typename Call, typename... Arguments>
  Error operator()(Call *call, Arguments... arguments) const {
    return check(call, session.get(), arguments...);
  }

  /// Every rank's `bytes` at `mine`, in order of rank, to every rank's `all`.
  Error gather(const void *mine, void *all, uint64_t bytes) const {
    return (*this)(mpcomm_session_gather, mine, all, bytes);
  }
  /// As ranks of the library do.
  Error agree(const Error &mine) const {
    return mprt::agree(index(), size(), mine,
                       [this](const void *own, void *all, uint64_t bytes) {
                         return gather(own, all, bytes);
                       });
  }
  /// Rounds in which each rank gives a block of bytes, until all blocks of one
  /// are empty. `next` fills a block and returns how much of it; `take` is
  /// given what a rank gave.
  Error exchange(
      const std::function<uint64_t(std::span<char>)> &next,
      const std::function<void(uint64_t rank, std::string_view)> &take) const;
  /// Every rank's text, on rank 0; elsewhere empty texts.
  Expected<std::vector<std::string>> gatherText(const std::string &mine) const;

  mpcomm_totals totals() const;

private:
  std::unique_ptr<mpcomm_session, Release<closeSession>> session;
  mpcomm_session_info about = {};
};

} // namespace mpcomm::run

#endif // MPCOMM_RUN_LAUNCH_SESSION_H
