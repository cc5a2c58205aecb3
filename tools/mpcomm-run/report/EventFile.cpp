//===- EventFile.cpp - event files for TensorBoard ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of the messages, the fields that are written are
//   Event       double wall_time = 1, int64 step = 2, string file_version = 3,
//               Summary summary = 5, SessionLog session_log = 7
//   Summary     repeated Value value = 1
//   Value       string tag = 1, float simple_value = 2
//   SessionLog  enum status = 1, where START is 1
//
//===----------------------------------------------------------------------===//

#include "report/EventFile.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>
#include <utility>

using namespace mpcomm::run;

namespace {

constexpr std::array<uint32_t, 256> makeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
    table[i] = crc;
  }
  return table;
}

/// `value` in little endian.
template <typename T> std::string bytesOf(T value) {
  return std::string(reinterpret_cast<const char *>(&value), sizeof(value));
}

std::string maskedChecksum(std::string_view data) {
  uint32_t crc = crc32c(data);
  return bytesOf(((crc >> 15) | (crc << 17)) + 0xa282ead8u);
}

//===- protocol buffers ---------------------------------------------------===//

std::string varint(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7)
    text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}

// A field begins with its number and how it is encoded.
std::string number(int field, uint64_t value) {
  return varint(static_cast<uint64_t>(field) << 3) + varint(value);
}
std::string number(int field, double value) {
  return varint(static_cast<uint64_t>(field) << 3 | 1) + bytesOf(value);
}
std::string number(int field, float value) {
  return varint(static_cast<uint64_t>(field) << 3 | 5) + bytesOf(value);
}
std::string message(int field, const std::string &bytes) {
  return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(bytes.size()) +
         bytes;
}

double secondsNow() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// The begin of every event.
std::string eventAt(uint64_t step) {
  return number(1, secondsNow()) + number(2, step);
}

} // namespace

uint32_t mpcomm::run::crc32c(std::string_view data) {
  static constexpr std::array<uint32_t, 256> table = makeTable();
  uint32_t crc = ~0u;
  for (char c : data)
    crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

Error mpcomm::run::makeEventFolder(const std::string &folder) {
  std::error_code error;
  if (folder.empty())
    return {};
  std::filesystem::create_directories(folder, error);
  if (!error && access(folder.c_str(), W_OK) != 0)
    error.assign(errno, std::generic_category());
  return error ? fail("--tensorboard ", printable(folder),
                      ": cannot create files there: ", error.message())
               : Error();
}

Expected<EventFile> EventFile::create(const std::string &folder,
                                      uint64_t step) {
  if (Error error = makeEventFolder(folder))
    return error;
  char host[256] = "";
  (void)gethostname(host, sizeof(host) - 1);
  // TensorBoard reads files in the order of their names, and the tests of a
  // second may make several.
  char name[400];
  std::snprintf(name, sizeof(name), "/events.out.tfevents.%017.6f.%s.%d",
                secondsNow(), host, getpid());
  EventFile file;
  file.path = folder + name;
  file.descriptor =
      open(file.path.c_str(),
           O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (file.descriptor < 0)
    return fail("--tensorboard ", printable(file.path),
                ": cannot create: ", std::strerror(errno));
  Error status =
      file.write(number(1, secondsNow()) + message(3, "brain.Event:2"));
  if (status.ok() && step > 0)
    status = file.write(eventAt(step + 1) + message(7, number(1, uint64_t(1))));
  return status.failed() ? Expected<EventFile>(status)
                         : Expected<EventFile>(std::move(file));
}

EventFile::EventFile(EventFile &&other) noexcept
    : path(std::move(other.path)),
      descriptor(std::exchange(other.descriptor, -1)) {}

EventFile &EventFile::operator=(EventFile &&other) noexcept {
  std::swap(path, other.path);
  std::swap(descriptor, other.descriptor);
  return *this;
}

EventFile::~EventFile() {
  if (descriptor >= 0)
    close(descriptor);
}

Error EventFile::write(std::string_view event) {
  std::string length = bytesOf(static_cast<uint64_t>(event.size()));
  std::string record = length + maskedChecksum(length);
  record += event;
  record += maskedChecksum(event);
  for (size_t done = 0; done < record.size();) {
    ssize_t put =
        ::write(descriptor, record.data() + done, record.size() - done);
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return fail(path, ": cannot write: ", std::strerror(errno));
    done += static_cast<size_t>(put);
  }
  return {};
}

Error EventFile::add(uint64_t step, const Scalars &scalars) {
  std::string summary;
  for (const auto &[name, value] : scalars)
    summary +=
        message(1, message(1, name) + number(2, static_cast<float>(value)));
  return write(eventAt(step) + message(5, summary));
}
