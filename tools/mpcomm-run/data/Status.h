//===- Status.h - success, or one line that says what went wrong ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The runner throws nothing: what can fail returns a `Status`, or a
// `Result<T>` that holds a value or the message. Messages are lower-case, one
// line, and name the file, the tensor, and what was expected and found.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_DATA_STATUS_H
#define MPCOMM_RUN_DATA_STATUS_H

#include <cassert>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

namespace mpcomm::run {

/// Success, or the message of a failure.
class [[nodiscard]] Status {
public:
  Status() = default;

  static Status failure(std::string message) {
    Status status;
    status.text = std::move(message);
    return status;
  }

  bool failed() const { return text.has_value(); }
  bool ok() const { return !failed(); }

  /// The message; empty on success.
  std::string message() const { return text.value_or(std::string()); }

private:
  std::optional<std::string> text;
};

/// Concatenates `parts` into a failed Status.
template <typename... Parts> Status fail(const Parts &...parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return Status::failure(stream.str());
}

/// A value, or the message of the failure that kept it from being made.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : value(std::move(value)) {}
  Result(Status status) : error(std::move(status)) {
    assert(error.failed() && "a Result without a value needs a failure");
  }

  bool failed() const { return !value.has_value(); }
  bool ok() const { return value.has_value(); }
  const Status &status() const { return error; }
  std::string message() const { return error.message(); }

  T &operator*() { return *value; }
  const T &operator*() const { return *value; }
  T *operator->() { return &*value; }
  const T *operator->() const { return &*value; }
  T take() { return std::move(*value); }

private:
  std::optional<T> value;
  Status error;
};

/// `text` made safe for one line of a terminal: control characters escaped,
/// cut at `limit` bytes. Names from files go through this before they are
/// printed.
std::string printable(const std::string &text, size_t limit = 120);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_DATA_STATUS_H
