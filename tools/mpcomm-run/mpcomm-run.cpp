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

#include "data/Files.h"
#include "launch/Launcher.h"
#include "launch/Run.h"
#include "launch/Session.h"
#include "report/FlightLog.h"

#include "mpcomm/Runtime/mprt.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
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

/// Where a standard stream is closed, the next file that is opened takes its
/// number, and gets what was meant for the terminal.
static void holdStandardStreams() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor)
    if (fcntl(descriptor, F_GETFD) < 0)
      // Not for writing, so that what is written there is still an error.
      (void)!open("/dev/null", O_RDONLY);
}

/// The exit status of having printed to standard output.
static int endOutput() {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout))
    return 0;
  printError(std::string("standard output: cannot write: ") +
             std::strerror(errno));
  return 1;
}

static void setSignals(const RunOptions &options) {
  // A file beyond the size limit is an error of `write`, not a death.
  std::signal(SIGXFSZ, SIG_IGN);
  // So is standard output whose reader has gone: training goes on.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGBUS, reportBusError);
  // Schedulers send it some time before the end of a job.
  if (options.flightRecord.empty())
    std::signal(flightSignal, SIG_IGN);
  else
    holdFlightSignal();
}

int main(int argc, char **argv) {
  holdStandardStreams();
  Expected<RunOptions> options =
      parseOptions(std::vector<std::string>(argv + 1, argv + argc));
  if (options.failed()) {
    printError(options.message());
    return 2;
  }
  if (options->help) {
    std::fputs(helpText().c_str(), stdout);
    return endOutput();
  }
  if (options->version) {
    std::printf("mpcomm-run " MPCOMM_VERSION ", ABI %u\n", MPRT_ABI_VERSION);
    return endOutput();
  }
  for (const Error &status :
       {expandPatterns(*options), checkFilesDiffer(*options)})
    if (status.failed()) {
      printError(status.message());
      return 2;
    }
  std::optional<mpcomm_launcher> launched = sized<mpcomm_launcher>();
  Error unclear = check(mpcomm_launched_by, &*launched);
  if (unclear.status() == MPRT_NOT_FOUND)
    launched.reset();
  Expected<Fault> fault = faultFromEnvironment();
  if ((unclear && launched) || fault.failed()) {
    printError(launched && unclear ? unclear.message() : fault.message());
    return 2;
  }
  setSignals(*options);
  return startsRanks(*options, launched)
             ? runHere(*options, *fault)
             : runDistributed(*options, launched, *fault);
}
