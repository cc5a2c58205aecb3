//===- CpuFeatures.cpp - can this machine run that code? ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The compiler's builtin asks the processor and the operating system both, but
// takes its name as a literal only: hence the table.
//
//===----------------------------------------------------------------------===//

#include "session/program/CpuFeatures.h"

using namespace mprt;

namespace {

struct Feature {
  const char *name;
  bool present;
};

#if defined(__x86_64__) && defined(__GNUC__)
std::vector<Feature> knownFeatures() {
  __builtin_cpu_init();
#define FEATURE(name) Feature{name, __builtin_cpu_supports(name) != 0}
  return {
      FEATURE("sse3"),         FEATURE("ssse3"),
      FEATURE("sse4.1"),       FEATURE("sse4.2"),
      FEATURE("popcnt"),       FEATURE("lzcnt"),
      FEATURE("movbe"),        FEATURE("f16c"),
      FEATURE("fma"),          FEATURE("bmi"),
      FEATURE("bmi2"),         FEATURE("avx"),
      FEATURE("avx2"),         FEATURE("avxvnni"),
      FEATURE("gfni"),         FEATURE("vaes"),
      FEATURE("vpclmulqdq"),   FEATURE("avx512f"),
      FEATURE("avx512bw"),     FEATURE("avx512cd"),
      FEATURE("avx512dq"),     FEATURE("avx512vl"),
      FEATURE("avx512ifma"),   FEATURE("avx512vbmi"),
      FEATURE("avx512vbmi2"),  FEATURE("avx512vnni"),
      FEATURE("avx512bitalg"), FEATURE("avx512vpopcntdq"),
      FEATURE("avx512bf16"),   FEATURE("avx512fp16"),
      FEATURE("amx-tile"),     FEATURE("amx-int8"),
      FEATURE("amx-bf16"),
  };
#undef FEATURE
}
#else
std::vector<Feature> knownFeatures() { return {}; }
#endif

} // namespace

std::vector<std::string>
mprt::missingCpuFeatures(const std::vector<std::string> &features) {
  std::vector<Feature> known = knownFeatures();
  std::vector<std::string> missing;
  for (const std::string &feature : features) {
    if (feature.empty() || feature[0] != '+')
      continue;
    for (const Feature &candidate : known)
      if (feature.compare(1, std::string::npos, candidate.name) == 0 &&
          !candidate.present)
        missing.push_back(candidate.name);
  }
  return missing;
}
