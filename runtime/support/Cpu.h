//===- Cpu.h - instruction sets that kernels were compiled for ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SUPPORT_CPU_H
#define MPCOMM_RUNTIME_SUPPORT_CPU_H

namespace mprt {

/// The variants that files of kernels are compiled in.
enum class Isa { Baseline, Avx2, Avx512 };

/// The best that this processor has.
inline Isa hostIsa() {
#ifdef MPRT_X86_KERNELS
  // f16c has no name of its own in __builtin_cpu_supports of older compilers;
  // each processor with avx2 and fma has it.
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    return Isa::Avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return Isa::Avx2;
#endif
  return Isa::Baseline;
}

} // namespace mprt

/// Declares the variants of `void name(const Argument &)`, and calls the best
/// that this processor has.
#ifdef MPRT_X86_KERNELS
#define MPRT_DECLARE_VARIANTS(name, Argument)                                  \
  extern "C" void name##_baseline(const Argument &);                           \
  extern "C" void name##_avx2(const Argument &);                               \
  extern "C" void name##_avx512(const Argument &);
#define MPRT_CALL_VARIANT(name, argument)                                      \
  (::mprt::hostIsa() == ::mprt::Isa::Avx512 ? name##_avx512(argument)          \
   : ::mprt::hostIsa() == ::mprt::Isa::Avx2 ? name##_avx2(argument)            \
                                            : name##_baseline(argument))
#else
#define MPRT_DECLARE_VARIANTS(name, Argument)                                  \
  extern "C" void name##_baseline(const Argument &);
#define MPRT_CALL_VARIANT(name, argument) name##_baseline(argument)
#endif

#endif // MPCOMM_RUNTIME_SUPPORT_CPU_H
