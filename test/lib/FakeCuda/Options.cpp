//===- Options.cpp - what the environment asks of the fake driver ---------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

using namespace fake;

[[noreturn]] static void refuse(const char *name, const char *text) {
  std::fprintf(stderr, "fake CUDA: %s: '%s' is not understood\n", name, text);
  std::_Exit(2);
}

/// A number, with the suffix K, M or G if `bytes`.
static uint64_t number(const char *name, uint64_t otherwise, bool bytes) {
  const char *text = std::getenv(name);
  if (!text)
    return otherwise;
  char *end = nullptr;
  uint64_t value = std::strtoull(text, &end, 10);
  if (end == text)
    refuse(name, text);
  if (bytes && *end)
    for (const char *suffix = "KMG"; *suffix; ++suffix)
      if (*suffix == *end) {
        value <<= 10 * (suffix - "KMG" + 1);
        ++end;
        break;
      }
  if (*end)
    refuse(name, text);
  return value;
}

void Options::read() {
  seed = number("MPFAKE_SEED", seed, false);
  devices = int(number("MPFAKE_DEVICES", uint64_t(devices), false));
  multiprocessors = int(number("MPFAKE_SMS", uint64_t(multiprocessors), false));
  chip = int(number("MPFAKE_CHIP", uint64_t(chip), false));
  memory = number("MPFAKE_MEMORY", memory, true);
  guard = number("MPFAKE_GUARD", guard, false) != 0;
  computes = number("MPFAKE_EMPTY", 0, false) == 0;
  if (const char *text = std::getenv("MPFAKE_LOG"))
    log = text;
  if (const char *text = std::getenv("MPFAKE_PTX"))
    ptx = text;
  if (const char *text = std::getenv("MPFAKE_FAIL"))
    addFailures(text);
}

/// A name without the number of its version: both are understood.
static std::string withoutVersion(std::string name) {
  size_t at = name.rfind("_v");
  if (at != std::string::npos && at + 3 == name.size())
    name.resize(at);
  return name;
}

void Options::addFailures(const char *text) {
  if (!*text)
    failures.clear();
  for (const char *at = text; *at;) {
    std::string one(at, std::strcspn(at, ","));
    at += one.size() + (at[one.size()] == ',');
    size_t colon = one.find(':');
    Failure failure = {1, CUresult(0)};
    std::string name = withoutVersion(one.substr(0, colon));
    bool memory = name.find("Alloc") != std::string::npos;
    int code = memory ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
    if (colon != std::string::npos &&
        std::sscanf(one.c_str() + colon, ":%lu:%d", &failure.left, &code) < 1)
      refuse("MPFAKE_FAIL", text);
    if (name.empty() || failure.left == 0)
      refuse("MPFAKE_FAIL", text);
    failure.code = CUresult(code);
    failures.emplace(name, failure);
  }
}

CUresult Options::count(const std::string &name) {
  ++counts[name];
  CUresult result = CUDA_SUCCESS;
  auto [first, last] = failures.equal_range(withoutVersion(name));
  while (first != last) {
    auto here = first++;
    if (--here->second.left)
      continue;
    result = here->second.code;
    failures.erase(here);
  }
  return result;
}

uint64_t Options::countOf(const std::string &name) const {
  uint64_t sum = 0;
  for (const auto &[key, count] : counts)
    if (key == name || withoutVersion(key) == name)
      sum += count;
  return sum;
}

void Options::writeLog() {
  if (log.empty() || counts.empty())
    return;
  std::string text;
  for (const auto &[name, count] : counts)
    text += name + " " + std::to_string(count) + "\n";
  counts.clear();
  int file = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0 || write(file, text.data(), text.size()) != ssize_t(text.size()))
    std::fprintf(stderr, "fake CUDA: cannot write %s\n", log.c_str());
  if (file >= 0)
    close(file);
}
