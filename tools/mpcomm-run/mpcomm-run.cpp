//===- mpcomm-run.cpp - the training runner -------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Trains a program file on N ranks: started here, over shared memory or TCP, or
// by another launcher, over MPI or TCP. See `mpcomm-run --help`.
//
//===----------------------------------------------------------------------===//

#include "Environment.h"
#include "Launcher.h"
#include "Run.h"

#include "mpcomm/Runtime/mprt.h"

#include <csignal>
#include <cstdio>
#include <cstring>
#include <unistd.h>

using namespace mpcomm::run;

/// A mapped file that shrinks under the run raises SIGBUS at its next use.
static void reportBusError(int) {
  const char text[] = "mpcomm-run: error: a mapped file was truncated while it "
                      "was in use, or memory ran out\n";
  if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
    _exit(3);
  _exit(1);
}

static void setSignals() {
  // A file beyond the size limit is an error of `write`, not a death.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGBUS, reportBusError);
}

int main(int argc, char **argv) {
  Result<Options> options =
      parseOptions(std::vector<std::string>(argv + 1, argv + argc));
  if (options.failed()) {
    printError(options.message());
    return 2;
  }
  if (options->help) {
    std::fputs(helpText().c_str(), stdout);
    return 0;
  }
  if (options->version) {
    std::printf("mpcomm-run " MPCOMM_VERSION ", ABI %u\n", MPRT_ABI_VERSION);
    return 0;
  }
  Result<std::optional<LaunchedBy>> launched = launcherFromEnvironment();
  Result<Fault> fault = faultFromEnvironment();
  if (launched.failed() || fault.failed()) {
    printError(launched.failed() ? launched.message() : fault.message());
    return 2;
  }
  setSignals();
  bool distributed = options->comm == CommKind::Mpi ||
                     (options->comm != CommKind::Shm && launched->has_value());
  return distributed ? runDistributed(*options, *launched, *fault)
                     : runHere(*options, *fault);
}
