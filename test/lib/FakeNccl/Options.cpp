//===- Options.cpp - what the environment asks of the fake NCCL -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fake.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <unistd.h>

using namespace fake_nccl;

int fake_nccl::numberOf(const char *variable, int otherwise) {
  const char *text = getenv(variable);
  return text && *text ? atoi(text) : otherwise;
}

bool fake_nccl::isFaulty(int rank) {
  int wanted = numberOf("MPFAKE_NCCL_RANK", -1);
  return wanted < 0 || wanted == rank;
}

int fake_nccl::countCall(const char *name, int rank) {
  static std::mutex mutex;
  static std::map<std::string, int> counts;
  std::lock_guard<std::mutex> guard(mutex);
  int count = ++counts[name];
  if (const char *log = getenv("MPFAKE_NCCL_LOG")) {
    std::string line = std::to_string(rank) + " " + name + "\n";
    int file = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0 || write(file, line.data(), line.size()) < 0)
      fprintf(stderr, "fake NCCL: cannot write %s\n", log);
    if (file >= 0)
      close(file);
  }
  const char *failure = getenv("MPFAKE_NCCL_FAIL");
  size_t length = strlen(name);
  int number = 0, code = 0;
  if (failure && isFaulty(rank) && !strncmp(failure, name, length) &&
      sscanf(failure + length, ":%d:%d", &number, &code) == 2 &&
      number == count)
    return code;
  return 0;
}

bool fake_nccl::hangs(uint64_t number, int rank) {
  int from = numberOf("MPFAKE_NCCL_HANG", 0);
  return from > 0 && isFaulty(rank) && number >= uint64_t(from);
}

int fake_nccl::asyncFailure(uint64_t number, int rank) {
  const char *text = getenv("MPFAKE_NCCL_ASYNC");
  unsigned long wanted = 0;
  int code = 0;
  bool hit = text && isFaulty(rank) &&
             sscanf(text, "%lu:%d", &wanted, &code) == 2 && wanted == number;
  return hit ? code : 0;
}
