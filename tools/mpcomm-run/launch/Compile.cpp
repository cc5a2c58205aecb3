//===- Compile.cpp - calling mpcomm-compile -------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The compiler is another program, found beside this one: the runner itself
// carries none of it. It and what it starts are a process group of their own,
// so that a run that is stopped stops them all.
//
//===----------------------------------------------------------------------===//

#include "launch/Compile.h"

#include "launch/StopSignals.h"

#include <cctype>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

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

/// Becomes `words` in a forked child, with temporary files in `folder`; tells
/// `errors` why it cannot.
[[noreturn]] static void become(char *const *words, const char *folder,
                                pid_t parent, const sigset_t &mask,
                                int errors) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent)
    _exit(1);
  setpgid(0, 0);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  setenv("TMPDIR", folder, /*overwrite=*/1);
  execvp(words[0], words);
  int error = errno;
  // Where nobody reads it, the exit status must do.
  (void)!write(errors, &error, sizeof(error));
  _exit(127);
}

/// Starts `words`; 0, or the error number.
static int start(const std::vector<char *> &words, const std::string &folder,
                 const StopSignals &signals, pid_t &child) {
  int errors[2];
  if (pipe2(errors, O_CLOEXEC) != 0)
    return errno;
  pid_t parent = getpid();
  child = fork();
  if (child == 0)
    become(words.data(), folder.c_str(), parent, signals.maskBefore(),
           errors[1]);
  int error = child < 0 ? errno : 0;
  close(errors[1]);
  // Ends empty when the program takes over.
  if (child > 0 && read(errors[0], &error, sizeof(error)) > 0)
    waitpid(child, nullptr, 0);
  close(errors[0]);
  return error;
}

/// Adds the words of `text`; what is in quotes is part of one.
static Error addWords(const std::string &text,
                      std::vector<std::string> &words) {
  bool isWord = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (std::isspace(static_cast<unsigned char>(text[i]))) {
      isWord = false;
      continue;
    }
    if (!isWord)
      words.emplace_back();
    isWord = true;
    if (text[i] != '\'' && text[i] != '"') {
      words.back() += text[i];
      continue;
    }
    size_t end = text.find(text[i], i + 1);
    if (end == std::string::npos)
      return fail("--compile-options: no second ", text[i], " after \"",
                  printable(text.substr(i)), "\"");
    words.back() += text.substr(i + 1, end - i - 1);
    i = end;
  }
  return {};
}

Error mpcomm::run::compileProgram(const std::string &source,
                                  const std::string &output,
                                  std::optional<uint64_t> ranks,
                                  const std::string &furtherArguments,
                                  const StopSignals &signals, int &stopped) {
  std::vector<std::string> words = {compilerPath(), source, "-o", output};
  if (ranks)
    words.insert(words.end(), {"--np", std::to_string(*ranks)});
  if (Error error = addWords(furtherArguments, words))
    return error;
  std::vector<char *> pointers;
  for (std::string &word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);

  pid_t child = -1;
  // What it leaves when it is stopped goes with the folder.
  std::string folder = output.substr(0, output.rfind('/'));
  if (int error = start(pointers, folder, signals, child))
    return fail(source, ": cannot start ", words[0], ": ", std::strerror(error),
                "; it is looked for beside mpcomm-run and in PATH");
  using Clock = std::chrono::steady_clock;
  Clock::time_point killTime = Clock::time_point::max();
  int result = 0;
  while (true) {
    pid_t ended = waitpid(child, &result, WNOHANG);
    if (ended == child)
      break;
    if (ended < 0 && errno != EINTR)
      return fail(source, ": lost mpcomm-compile: ", std::strerror(errno));
    int signal = signals.wait(std::chrono::milliseconds(100));
    if (signal && !stopped) {
      stopped = signal;
      kill(-child, SIGTERM);
      killTime = Clock::now() + std::chrono::seconds(1);
    }
    if (Clock::now() >= killTime)
      kill(-child, SIGKILL);
  }
  if (stopped) {
    // What it has started may have outlived it.
    kill(-child, SIGKILL);
    return fail(source, ": ", describeStop(stopped), " while it was compiled");
  }
  if (WIFSIGNALED(result))
    return fail(source, ": mpcomm-compile was killed by signal ",
                WTERMSIG(result));
  if (WEXITSTATUS(result) != 0)
    return fail(source, ": mpcomm-compile failed with exit status ",
                WEXITSTATUS(result));
  return {};
}
