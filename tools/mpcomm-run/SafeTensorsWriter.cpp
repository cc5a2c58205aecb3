//===- SafeTensorsWriter.cpp - replacing a file all at once ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Temporary file in the same folder, write, fsync, rename, fsync of the
// folder: after a crash at any point the name holds the old contents or the
// new, never a mixture. Tensors are laid out by falling element size behind a
// header padded to eight bytes, so that each lies aligned.
//
//===----------------------------------------------------------------------===//

#include "SafeTensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace mpcomm::run;

namespace {

/// An open temporary that is unlinked unless it was renamed.
class TemporaryFile {
public:
  explicit TemporaryFile(std::string name) : name(std::move(name)) {
    descriptor =
        ::open(this->name.c_str(),
               O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  }
  ~TemporaryFile() {
    int saved = errno;
    if (descriptor >= 0)
      close(descriptor);
    if (descriptor >= 0 || closed)
      unlink(name.c_str());
    errno = saved;
  }

  bool isOpen() const { return descriptor >= 0; }

  bool write(const void *data, uint64_t bytes) {
    const char *at = static_cast<const char *>(data);
    while (bytes > 0) {
      ssize_t put = ::write(descriptor, at, std::min<uint64_t>(bytes, 1 << 26));
      if (put < 0 && errno == EINTR)
        continue;
      if (put < 0)
        return false;
      if (put == 0) {
        errno = ENOSPC;
        return false;
      }
      at += put;
      bytes -= static_cast<uint64_t>(put);
    }
    return true;
  }

  /// Syncs, closes and moves the file to `target`.
  bool commit(const std::string &target) {
    if (fsync(descriptor) != 0)
      return false;
    int result = close(descriptor);
    descriptor = -1;
    closed = true;
    if (result != 0 || rename(name.c_str(), target.c_str()) != 0)
      return false;
    closed = false;
    return true;
  }

private:
  std::string name;
  int descriptor = -1;
  bool closed = false;
};

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string quoted(const std::string &text) {
  return nlohmann::json(text).dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

std::string makeHeader(const std::vector<const TensorToWrite *> &order,
                       const std::map<std::string, std::string> &metadata) {
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    bool first = true;
    for (const auto &[key, value] : metadata) {
      header += (first ? "" : ",") + quoted(key) + ":" + quoted(value);
      first = false;
    }
    header += "}";
  }
  uint64_t at = 0;
  for (const TensorToWrite *tensor : order) {
    if (header.size() > 1)
      header += ",";
    uint64_t bytes = *bytesOf(tensor->type, tensor->shape);
    header += quoted(tensor->name) + ":{\"dtype\":\"";
    header += safetensorsNameOf(tensor->type);
    header += "\",\"shape\":[";
    for (size_t i = 0; i < tensor->shape.size(); ++i)
      header += (i ? "," : "") + std::to_string(tensor->shape[i]);
    header += "],\"data_offsets\":[" + std::to_string(at) + "," +
              std::to_string(at + bytes) + "]}";
    at += bytes;
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  return header;
}

} // namespace

std::string mpcomm::run::temporaryNameOf(const std::string &path, pid_t pid) {
  return path + ".tmp-" + std::to_string(pid);
}

Status mpcomm::run::writeSafetensors(
    const std::string &path, const std::vector<TensorToWrite> &tensors,
    const std::map<std::string, std::string> &metadata) {
  std::vector<const TensorToWrite *> order;
  for (const TensorToWrite &tensor : tensors)
    order.push_back(&tensor);
  std::sort(order.begin(), order.end(),
            [](const TensorToWrite *a, const TensorToWrite *b) {
              size_t x = sizeOf(a->type), y = sizeOf(b->type);
              return x != y ? x > y : a < b;
            });
  std::string header = makeHeader(order, metadata);
  if (header.size() > maxSafetensorsHeader)
    return fail(path, ": header of ", header.size(), " bytes, the limit is ",
                maxSafetensorsHeader);

  // A rename would replace a device or a pipe by a plain file.
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return fail(path, ": cannot write: not a regular file");

  TemporaryFile file(temporaryNameOf(path, getpid()));
  auto broken = [&](const char *what) {
    return fail(path, ": cannot ", what, ": ", std::strerror(errno),
                "; the file of that name is as it was before");
  };
  if (!file.isOpen())
    return broken("create a temporary file beside it");
  char length[8];
  for (int i = 0; i < 8; ++i)
    length[i] = static_cast<char>(uint64_t(header.size()) >> (8 * i));
  if (!file.write(length, sizeof(length)) ||
      !file.write(header.data(), header.size()))
    return broken("write");
  for (const TensorToWrite *tensor : order)
    if (!file.write(tensor->data, *bytesOf(tensor->type, tensor->shape)))
      return broken("write");
  if (!file.commit(path))
    return broken("write");

  std::string folder = folderOf(path);
  int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool synced = descriptor >= 0 && fsync(descriptor) == 0;
  int error = errno;
  if (descriptor >= 0)
    close(descriptor);
  // Some file systems cannot sync a folder; the data itself is safe by then.
  if (!synced && error != EINVAL && error != ENOTSUP && error != EACCES)
    return fail(path, ": written, but its folder cannot be synced: ",
                std::strerror(error));
  return {};
}
