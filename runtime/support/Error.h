//===- Error.h - a status and one line that explains it -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The runtime throws nothing. What can fail returns an `Error`, which is empty
// on success, or an `Expected<T>`. Messages are one line, lower-case, and name
// the call, the rank, the collective and its source location where there is
// one.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SUPPORT_ERROR_H
#define MPCOMM_RUNTIME_SUPPORT_ERROR_H

#include "mpcomm/Runtime/mprt.h"

#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace mprt {

/// Success (MPRT_OK, no message), or a status with its message. Converts to
/// true where it is a failure.
class [[nodiscard]] Error {
public:
  Error() = default;
  Error(mprt_status status, std::string message)
      : code(status), text(std::move(message)) {}

  explicit operator bool() const { return failed(); }
  bool failed() const { return code != MPRT_OK; }
  bool ok() const { return !failed(); }
  mprt_status status() const { return code; }
  const std::string &message() const { return text; }
  /// Place in the model's source, where that is known apart from the message.
  const std::string &location() const { return place; }
  /// The rank that has failed, where that is another one; else -1.
  int rank() const { return failedRank; }

  /// The same failure, of `rank`.
  Error ofRank(unsigned rank) const {
    Error error = *this;
    error.failedRank = int(rank);
    return error;
  }
  /// The same failure, at `location`.
  Error at(std::string location) const {
    Error error = *this;
    error.place = std::move(location);
    return error;
  }
  /// The same failure, with more of a message.
  Error withContext(const std::string &before,
                    const std::string &after = "") const {
    Error error = *this;
    error.text = before + text + after;
    return error;
  }

  /// That rank `rank` has an error, for the others: it reports it.
  static Error elsewhereOn(unsigned rank) {
    return Error(MPRT_INVALID_ARGUMENT, "rank " + std::to_string(rank) +
                                            " has an error, which it reports")
        .ofRank(rank)
        .reportedElsewhere();
  }
  /// The same error where another rank has one that is reported first.
  Error reportedElsewhere() const {
    Error error = *this;
    error.elsewhere = true;
    return error;
  }
  bool isElsewhere() const { return elsewhere; }

private:
  mprt_status code = MPRT_OK;
  bool elsewhere = false;
  int failedRank = -1;
  std::string text, place;
};

/// What `parts` are as one text.
template <typename... Parts> std::string concat(const Parts &...parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return stream.str();
}

/// Concatenates `parts` into the message of an Error.
template <typename... Parts>
Error makeError(mprt_status status, const Parts &...parts) {
  return Error(status, concat(parts...));
}

/// The same of what the caller, a file or an option has wrong.
template <typename... Parts> Error fail(const Parts &...parts) {
  return makeError(MPRT_INVALID_ARGUMENT, parts...);
}

/// A value, or the error that kept it from being made. Converts to true where
/// there is a value.
template <typename T> class [[nodiscard]] Expected {
public:
  Expected(T value) : value(std::move(value)) {}
  Expected(Error error) : failure(std::move(error)) {
    if (!failure)
      failure = Error(MPRT_INTERNAL, "an Expected was made of a success");
  }

  explicit operator bool() const { return ok(); }
  bool ok() const { return value.has_value(); }
  bool failed() const { return !ok(); }
  const Error &error() const { return failure; }
  const std::string &message() const { return failure.message(); }
  T &operator*() { return *value; }
  const T &operator*() const { return *value; }
  T *operator->() { return &*value; }
  const T *operator->() const { return &*value; }
  T take() { return std::move(*value); }

private:
  std::optional<T> value;
  Error failure;
};

/// Copies what of `text` fits `capacity` bytes with a zero at the end, and no
/// half of a character.
void copyText(char *target, size_t capacity, std::string_view text);

/// Whether `text` is valid UTF-8 (RFC 3629).
bool isUtf8(std::string_view text);

/// `text` made safe for one line of a terminal: control characters escaped,
/// cut at `limit` bytes. Names from files go through this before they are
/// printed.
std::string printable(const std::string &text, size_t limit = 120);

/// The name of `status`, as in "MPRT_TIMEOUT".
const char *nameOf(mprt_status status);

} // namespace mprt

#endif // MPCOMM_RUNTIME_SUPPORT_ERROR_H
