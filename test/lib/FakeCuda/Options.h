//===- Options.h - what the environment asks of the fake driver -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_LIB_FAKECUDA_OPTIONS_H
#define MPCOMM_TEST_LIB_FAKECUDA_OPTIONS_H

#include "CudaApi.h"

#include <map>
#include <string>

namespace fake {

struct Options {
  uint64_t seed = 1;
  int devices = 1, multiprocessors = 4, chip = 90;
  size_t memory = size_t(1) << 30;
  bool guard = true;
  bool computes = true; // else kernels and libraries do nothing
  std::string log;
  std::string ptx; // an image that stands for every PTX

  /// Reads the MPFAKE_ variables; ends the process where one is wrong.
  void read();
  void addFailures(const char *text);
  /// Counts a call; the error that it is to end with.
  CUresult count(const std::string &name);
  uint64_t countOf(const std::string &name) const;
  /// Appends the counts to the log and forgets them.
  void writeLog();

private:
  struct Failure {
    uint64_t left;
    CUresult code;
  };
  std::map<std::string, uint64_t> counts;
  std::multimap<std::string, Failure> failures;
};

} // namespace fake

#endif // MPCOMM_TEST_LIB_FAKECUDA_OPTIONS_H
