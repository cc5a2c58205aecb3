//===- CalibrateDevice.cpp - rates of compute and memory ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All ranks measure at the same time, as they train: what they share (memory,
// a core) is shared. The slowest counts.
//
//===----------------------------------------------------------------------===//

#include "calibrate/Calibrate.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>

using namespace mpcomm::run;

using Clock = std::chrono::steady_clock;

namespace {

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

#if defined(__x86_64__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define MPCOMM_CLONES                                                          \
  __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef MPCOMM_CLONES
#define MPCOMM_CLONES
#endif

constexpr int64_t polynomialElements = 4096, polynomialTerms = 16;

/// A polynomial of each element: arithmetic without memory.
MPCOMM_CLONES void polynomial(float *data) {
  for (int64_t i = 0; i < polynomialElements; ++i) {
    float x = data[i], y = 0.5f;
    for (int64_t t = 0; t < polynomialTerms; ++t)
      y = y * x + 0.25f;
    data[i] = y * 1e-3f;
  }
}

MPCOMM_CLONES void triad(float *a, const float *b, const float *c,
                         int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    a[i] = b[i] + 3.0f * c[i];
}

void nothing(void *const *) {}

} // namespace

double mpcomm::run::medianTime(double seconds,
                               const std::function<void()> &work) {
  work(); // the first call prepares things
  std::vector<double> times;
  for (Clock::time_point start = Clock::now();
       times.size() < 5 || secondsSince(start) < seconds;) {
    Clock::time_point begin = Clock::now();
    work();
    times.push_back(secondsSince(begin));
  }
  return medianOf(times);
}

mprt_gemm_desc mpcomm::run::describeProduct(int64_t size, int layout,
                                            mprt_dtype type) {
  bool transposeA = layout == 2, transposeB = layout == 0;
  mprt_gemm_desc desc{};
  desc.type_a = desc.type_b = static_cast<uint8_t>(type);
  desc.type_c = static_cast<uint8_t>(type == MPRT_F64 ? MPRT_F64 : MPRT_F32);
  desc.m = desc.n = desc.k = size;
  desc.strides_a[transposeA ? 1 : 0] = size;
  desc.strides_a[transposeA ? 0 : 1] = 1;
  desc.strides_b[transposeB ? 1 : 0] = size;
  desc.strides_b[transposeB ? 0 : 1] = 1;
  desc.strides_c[0] = size;
  desc.strides_c[1] = 1;
  desc.name = "calibration";
  desc.location = "mpcomm-run";
  return desc;
}

Error mpcomm::run::measureDevice(Bench &bench, double seconds,
                                 DeviceRates &rates) {
  rates.name = bench.rank.device().describe();
  rates.memoryBytes =
      bench.rank.device().memoryBytes() / bench.rank.localRanks();
  mprt_context *context = bench.rank.handle();
  double part = seconds / 8;

  // Three operands of 1024 x 1024 doubles fit the source buffer.
  constexpr int64_t size = 1024;
  char *a = bench.source, *b = a + (8 << 20), *c = b + (8 << 20);
  std::memset(bench.source, 0, bench.mostBytes);
  for (auto [name, type] : productTypes) {
    std::vector<double> perShape;
    for (int layout = 0; layout < productLayouts; ++layout) {
      if (Error error = bench.meet())
        return error;
      mprt_gemm_desc desc = describeProduct(size, layout, type);
      double time = medianTime(part / productLayouts, [&] {
        mprt_gemm(context, MPRT_COMPUTE_STREAM, &desc, a, b, c);
      });
      perShape.push_back(2.0 * size * size * size / time);
    }
    if (Error error = bench.healthy("matrix products"))
      return error;
    double rate = medianOf(perShape);
    if (Error error = bench.smallest(rate))
      return error;
    rates.flops[name] = rate;
  }

  std::vector<float> small(polynomialElements, 0.5f);
  if (Error error = bench.meet())
    return error;
  double vector = 2.0 * polynomialElements * polynomialTerms /
                  medianTime(part, [&] { polynomial(small.data()); });
  if (Error error = bench.smallest(vector))
    return error;
  rates.flops["vector"] = vector;

  // Three arrays, each larger than most caches' share of a core.
  int64_t count = static_cast<int64_t>(bench.mostBytes / sizeof(float));
  std::vector<float> third(static_cast<size_t>(count), 1.0f);
  if (Error error = bench.meet())
    return error;
  rates.memoryBandwidth =
      3.0 * static_cast<double>(bench.mostBytes) / medianTime(part, [&] {
        triad(reinterpret_cast<float *>(bench.target),
              reinterpret_cast<float *>(bench.source), third.data(), count);
      });
  if (Error error = bench.smallest(rates.memoryBandwidth))
    return error;

  mprt_kernel kernel{};
  kernel.fn = nothing;
  kernel.name = "nothing";
  constexpr int launches = 1000;
  rates.launch = medianTime(part,
                            [&] {
                              for (int i = 0; i < launches; ++i)
                                mprt_launch(context, MPRT_COMPUTE_STREAM,
                                            &kernel, nullptr);
                            }) /
                 launches;
  return bench.largest(rates.launch);
}

/// Matrix products run without a pause while an all_reduce is under way, and
/// for as long again as it takes alone. What of them fell into its time, by the
/// trace, against their time alone, is the rate of compute; its time alone
/// against its time then is the rate of communication.
Error mpcomm::run::measureContention(Bench &bench, double seconds,
                                     Contention &result) {
  result = Contention();
  if (bench.rank.size() == 1)
    return {};
  mprt_context *context = bench.rank.handle();
  mprt_gemm_desc desc = describeProduct(256, /*layout=*/1, MPRT_F32);
  char *a = bench.source, *b = a + (1 << 20);
  std::vector<float> c(256 * 256);
  auto multiply = [&] {
    mprt_gemm(context, MPRT_COMPUTE_STREAM, &desc, a, b, c.data());
  };
  mprt_collective call{};
  call.kind = MPRT_ALL_REDUCE;
  call.type = call.accumulate = MPRT_F32;
  call.peer = -1;
  call.name = "calibration";
  call.location = "mpcomm-run";
  // As much as takes a tenth of the time, up to the buffer.
  call.count = 1 << 18;
  constexpr unsigned rounds = 5;
  double alone = 0;
  while (true) {
    if (Error error = bench.meet())
      return error;
    Clock::time_point begin = Clock::now();
    if (Error error = bench.run(call, bench.target, bench.target))
      return error;
    alone = secondsSince(begin);
    if (Error error = bench.largest(alone))
      return error;
    if (alone * 2 > seconds / (4 * rounds) ||
        2 * call.count * sizeof(float) > bench.mostBytes)
      break;
    call.count *= 2;
  }

  std::vector<double> computeRates, commRates;
  for (unsigned round = 0; round < rounds; ++round) {
    if (Error error = bench.meet())
      return error;
    Clock::time_point begin = Clock::now();
    if (Error error = bench.run(call, bench.target, bench.target))
      return error;
    double commAlone = secondsSince(begin);
    if (Error error = bench.meet())
      return error;
    double multiplyAlone = medianTime(std::min(alone, 0.2), multiply);

    if (Error error = bench.meet())
      return error;
    bench.rank.context().clearTrace();
    if (Error error = bench.start(call, bench.target, bench.target))
      return error;
    for (begin = Clock::now(); secondsSince(begin) < 2.5 * commAlone;)
      multiply();
    if (Error error = bench.wait(call))
      return error;

    std::vector<mprt::TraceEvent> events =
        bench.rank.context().trace().events();
    double from = 0, to = 0, covered = 0;
    for (const mprt::TraceEvent &event : events)
      if (event.collective && event.stream != MPRT_COMPUTE_STREAM) {
        from = static_cast<double>(event.begin);
        to = static_cast<double>(event.end);
      }
    for (const mprt::TraceEvent &event : events) {
      if (event.kind != mprt::TraceEvent::Gemm)
        continue;
      double begins = static_cast<double>(event.begin);
      double ends = static_cast<double>(event.end);
      double inside = std::min(ends, to) - std::max(begins, from);
      if (inside > 0)
        covered += inside / (ends - begins);
    }
    double window = (to - from) * 1e-9;
    if (window <= 0)
      continue;
    computeRates.push_back(covered * multiplyAlone / window);
    commRates.push_back(commAlone / window);
  }
  result.computeRateUnderComm = std::clamp(medianOf(computeRates), 0.01, 1.0);
  result.commRateUnderCompute = std::clamp(medianOf(commRates), 0.01, 1.0);
  for (double *rate :
       {&result.computeRateUnderComm, &result.commRateUnderCompute})
    if (Error error = bench.smallest(*rate))
      return error;
  return {};
}
