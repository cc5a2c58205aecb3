//===- Compile.cpp - calling mpcomm-compile -------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The compiler is another program, found beside this one: the runner itself
// carries none of it.
//
//===----------------------------------------------------------------------===//

#include "Program.h"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <spawn.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

using namespace mpcomm::run;

static std::string compilerPath() {
  char self[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", self, sizeof(self));
  if (length > 0 && length < static_cast<ssize_t>(sizeof(self))) {
    std::string beside(self, static_cast<size_t>(length));
    beside = beside.substr(0, beside.rfind('/') + 1) + "mpcomm-compile";
    if (access(beside.c_str(), X_OK) == 0)
      return beside;
  }
  return "mpcomm-compile";
}

Status mpcomm::run::compileProgram(const std::string &source,
                                   const std::string &output, uint64_t ranks,
                                   const std::string &furtherArguments) {
  std::vector<std::string> words = {
      compilerPath(), source, "-o", output, "--np", std::to_string(ranks)};
  std::istringstream further(furtherArguments);
  for (std::string word; further >> word;)
    words.push_back(word);
  std::vector<char *> pointers;
  for (std::string &word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);

  pid_t child;
  int error = posix_spawnp(&child, pointers[0], nullptr, nullptr,
                           pointers.data(), environ);
  if (error)
    return fail(source, ": cannot start ", words[0], ": ", std::strerror(error),
                "; it is looked for beside mpcomm-run and in PATH");
  int result = 0;
  while (waitpid(child, &result, 0) < 0)
    if (errno != EINTR)
      return fail(source, ": lost mpcomm-compile: ", std::strerror(errno));
  if (WIFSIGNALED(result))
    return fail(source, ": mpcomm-compile was killed by signal ",
                WTERMSIG(result));
  if (WEXITSTATUS(result) != 0)
    return fail(source, ": mpcomm-compile failed with exit status ",
                WEXITSTATUS(result));
  return {};
}
