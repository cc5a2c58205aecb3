//===- OutputFile.cpp - a file that is written whole or not at all --------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See OutputFile.h.
//
//===----------------------------------------------------------------------===//

#include "files/OutputFile.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <string_view>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

using namespace mprt;

namespace fs = std::filesystem;

/// Between the name of the target and `temporaryDigits` random digits.
static constexpr std::string_view temporaryMark = ".mpcomm-tmp-";
static constexpr std::string_view digits = "0123456789abcdef";
static constexpr size_t temporaryDigits = 16;
/// In the processor's cache between the copy and the disk's reading it.
static constexpr uint64_t blockBytes = 1 << 20;
/// So that who waits for the file sees it grow.
static constexpr uint64_t mostAtOnce = 1 << 23;

static std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// Replaces `path` by what it leads to, which need not exist; an error number.
static int followLinks(std::string &path) {
  constexpr int mostLinks = 40; // as many as the kernel follows
  for (int i = 0; i < mostLinks; ++i) {
    char text[PATH_MAX];
    ssize_t length = readlink(path.c_str(), text, sizeof(text));
    if (length < 0) // no link; whatever else is wrong shows when it is opened
      return 0;
    if (length == sizeof(text))
      return ENAMETOOLONG;
    std::string next(text, static_cast<size_t>(length));
    path = next.starts_with('/') ? next : folderOf(path) + "/" + next;
  }
  return ELOOP;
}

static std::string temporaryNameOf(const std::string &path) {
  uint8_t random[temporaryDigits / 2] = {};
  // Cannot fail for so few bytes; and if it did, O_EXCL would.
  (void)!getrandom(random, sizeof(random), 0);
  std::string name = path + std::string(temporaryMark);
  for (uint8_t byte : random)
    (name += digits[byte >> 4]) += digits[byte & 15];
  return name;
}

/// Whether `name` is of a temporary of `base`, or of a shard of it, or of one
/// that a run keeps beside it.
static bool isTemporaryNameOf(std::string_view name, std::string_view base) {
  size_t more = temporaryMark.size() + temporaryDigits;
  auto isAllOf = [](std::string_view text, std::string_view letters) {
    return text.find_first_not_of(letters) == std::string_view::npos;
  };
  if (name.size() < base.size() + more || !name.starts_with(base))
    return false;
  std::string_view step = name.substr(base.size());
  step.remove_suffix(more);
  std::string_view end = name.substr(name.size() - more);
  bool isKept = step.starts_with(keptMark) && step.size() > keptMark.size() &&
                isAllOf(step.substr(keptMark.size()), digits.substr(0, 10));
  bool isShard = step.starts_with(shardMark) &&
                 isAllOf(step.substr(shardMark.size()), "0123456789abcdef-");
  return (step.empty() || isKept || isShard) &&
         end.starts_with(temporaryMark) &&
         isAllOf(end.substr(temporaryMark.size()), digits);
}

static bool exists(const std::string &path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

OutputFile::~OutputFile() {
  // In this order: without its lock the file is anybody's to remove.
  if (!temporary.empty())
    unlink(temporary.c_str());
  if (descriptor >= 0)
    close(descriptor);
}

Error OutputFile::broken(const char *what, int error) const {
  return makeError(MPRT_IO_ERROR, path, ": cannot ", what, ": ",
                   std::strerror(error),
                   exists(path) ? "; the file of that name is as it was before"
                                : "; there is no file of that name");
}

Error OutputFile::open() {
  struct stat info;
  bool replaces = stat(path.c_str(), &info) == 0;
  if (replaces && !S_ISREG(info.st_mode))
    return fail(path, ": cannot write: not a regular file");
  // What replaces a file is read and written by those who might before.
  if (replaces)
    mode = info.st_mode & 0777;
  target = path;
  if (int error = followLinks(target))
    return broken("write", error);
  int error = EEXIST;
  for (int attempt = 0; attempt < 16 && error == EEXIST; ++attempt) {
    std::string name = temporaryNameOf(target);
    int created = ::open(name.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                         mode ? *mode | 0600 : 0666);
    error = created < 0 ? errno : 0;
    if (error)
      continue;
    // Somebody who looks for abandoned files may have been faster. Where the
    // file system has no locks, nobody is.
    bool taken = flock(created, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!taken && fstat(created, &info) == 0 && info.st_nlink > 0) {
      descriptor = created;
      temporary = name;
      return {};
    }
    close(created);
    error = EEXIST;
  }
  return broken("create a temporary file beside it", error);
}

bool OutputFile::setDirect(bool on) {
  int flags = fcntl(descriptor, F_GETFL);
  int wanted = on ? flags | O_DIRECT : flags & ~O_DIRECT;
  return flags >= 0 && fcntl(descriptor, F_SETFL, wanted) == 0;
}

Error OutputFile::append(const char *data, uint64_t bytes, bool direct) {
  if (direct != isDirect)
    isDirect = setDirect(direct) && direct;
  while (bytes > 0) {
    ssize_t put = ::write(descriptor, data, std::min(bytes, mostAtOnce));
    if (put < 0 && errno == EINTR)
      continue;
    // Of a file system that takes the flag and not the write.
    if (put < 0 && errno == EINVAL && isDirect && setDirect(false)) {
      isDirect = false;
      continue;
    }
    if (put == 0)
      errno = ENOSPC;
    if (put <= 0)
      return broken("write", errno);
    data += put;
    bytes -= static_cast<uint64_t>(put);
  }
  return {};
}

Error OutputFile::write(const void *data, uint64_t bytes) {
  if (!block)
    block.reset(
        static_cast<char *>(std::aligned_alloc(directBytes, blockBytes)));
  if (!block)
    return broken("write", ENOMEM);
  const char *at = static_cast<const char *>(data);
  while (bytes > 0) {
    bool isAligned = reinterpret_cast<uintptr_t>(at) % directBytes == 0;
    uint64_t taken = bytes - bytes % directBytes;
    Error error;
    if (held == 0 && taken && isAligned) {
      error = append(at, taken, /*direct=*/true);
    } else {
      taken = std::min(bytes, blockBytes - held);
      std::memcpy(block.get() + held, at, taken);
      held += taken;
      if (held == blockBytes)
        error = append(block.get(), std::exchange(held, 0), /*direct=*/true);
    }
    if (error)
      return error;
    at += taken;
    bytes -= taken;
  }
  return {};
}

Error OutputFile::commit() {
  // Of any length, which only the page cache takes.
  if (Error error = append(block.get(), held, /*direct=*/false))
    return error;
  // Some file systems have no modes.
  if (mode)
    (void)fchmod(descriptor, *mode);
  // Its lock is kept until it has its name.
  if (fsync(descriptor) != 0 || rename(temporary.c_str(), target.c_str()) != 0)
    return broken("write", errno);
  temporary.clear();
  int closed = close(descriptor), error = errno;
  descriptor = -1;
  if (closed != 0)
    return makeError(MPRT_IO_ERROR, path,
                     ": written, but cannot be closed: ", std::strerror(error));

  std::string folder = folderOf(target);
  int opened = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool synced = opened >= 0 && fsync(opened) == 0;
  error = errno;
  if (opened >= 0)
    close(opened);
  // Some file systems cannot sync a folder; the data itself is safe by then.
  if (!synced && error != EINVAL && error != ENOTSUP && error != EACCES)
    return makeError(
        MPRT_IO_ERROR, path,
        ": written, but its folder cannot be synced: ", std::strerror(error));
  return {};
}

Error mprt::probeOutput(const std::string &path) {
  removeAbandoned(path);
  return OutputFile(path).open();
}

Expected<OutputLock> OutputLock::take(const std::string &path) {
  OutputLock lock;
  std::string target = path;
  if (path.empty())
    return lock;
  if (int error = followLinks(target))
    return makeError(MPRT_IO_ERROR, path,
                     ": cannot lock: ", std::strerror(error));
  lock.file = target + ".mpcomm-lock";
  struct stat info, named;
  // A run that was killed takes a moment to end.
  constexpr int attempts = 20;
  int attempt = 0;
  // Open for reading, so that the file system may still become read-only; NFS
  // locks only what is open for writing, too.
  int access = O_RDONLY;
  while (true) {
    lock.descriptor = ::open(lock.file.c_str(),
                             access | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (lock.descriptor < 0)
      return makeError(MPRT_IO_ERROR, path, ": cannot lock it by ", lock.file,
                       ": ", std::strerror(errno));
    bool failed = flock(lock.descriptor, LOCK_EX | LOCK_NB) != 0;
    if (failed && errno == EWOULDBLOCK && ++attempt < attempts) {
      close(lock.descriptor);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    if (failed && errno == EWOULDBLOCK) {
      char holder[256] = {};
      (void)!pread(lock.descriptor, holder, sizeof(holder) - 1, 0);
      return fail(path, ": another run writes to it (", printable(holder),
                  "); wait for its end, or choose another name");
    }
    if (failed && errno == EBADF && access == O_RDONLY) {
      access = O_RDWR;
      close(lock.descriptor);
      continue;
    }
    // Who had it may have removed it meanwhile.
    if (failed || (fstat(lock.descriptor, &info) == 0 &&
                   stat(lock.file.c_str(), &named) == 0 &&
                   info.st_ino == named.st_ino && info.st_dev == named.st_dev))
      break;
    close(lock.descriptor);
  }
  lock.owner = getpid();
  char host[64] = "?";
  (void)gethostname(host, sizeof(host) - 1);
  std::string holder = "process " + std::to_string(lock.owner) + " on " + host;
  // On a full disk the lock has no name, and is one.
  int text =
      ::open(lock.file.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW);
  (void)!::write(text, holder.data(), holder.size());
  if (text >= 0)
    close(text);
  return lock;
}

OutputLock::OutputLock(OutputLock &&other) noexcept
    : file(std::move(other.file)),
      descriptor(std::exchange(other.descriptor, -1)),
      owner(std::exchange(other.owner, -1)) {}

OutputLock::~OutputLock() {
  // In this order: without the lock it is anybody's.
  if (owner == getpid())
    unlink(file.c_str());
  if (descriptor >= 0)
    close(descriptor);
}

std::string mprt::describeUnchanged(const std::string &path) {
  return path + (exists(path) ? " is as it was before" : " does not exist");
}

void mprt::removeAbandoned(const std::string &path) {
  std::string target = path;
  DIR *folder =
      followLinks(target) ? nullptr : opendir(folderOf(target).c_str());
  if (!folder)
    return;
  std::string base = target.substr(target.rfind('/') + 1);
  while (const dirent *entry = readdir(folder)) {
    if (!isTemporaryNameOf(entry->d_name, base))
      continue;
    int file = openat(dirfd(folder), entry->d_name,
                      O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat info;
    if (file >= 0 && fstat(file, &info) == 0 && S_ISREG(info.st_mode) &&
        info.st_uid == geteuid() && info.st_nlink == 1 &&
        flock(file, LOCK_EX | LOCK_NB) == 0)
      unlinkat(dirfd(folder), entry->d_name, 0);
    if (file >= 0)
      close(file);
  }
  closedir(folder);
}

fs::path mprt::resolve(const fs::path &name) {
  std::error_code error;
  std::string target = name;
  (void)followLinks(target); // also where one leads to nothing yet
  fs::path path = fs::weakly_canonical(fs::absolute(target, error), error);
  return error ? name : path;
}

bool mprt::areSameFile(const std::string &a, const std::string &b) {
  std::error_code error;
  if (a.empty() || b.empty())
    return false;
  fs::path first = resolve(a), second = resolve(b);
  bool known = fs::exists(first, error);
  if (known && !fs::is_regular_file(first, error))
    return false;
  return first == second || (known && fs::equivalent(first, second, error));
}
