//===- timing.h - timing one collective on all ranks ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The same loop for every library: for each size batches of all-reduces back to
// back, each batch after a barrier. Rank 0 prints `bytes best median`, times of
// one all-reduce in microseconds.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_BENCH_ALLREDUCE_TIMING_H
#define MPCOMM_BENCH_ALLREDUCE_TIMING_H

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

/// `barrier()` and `reduce(floats)` act on all ranks; `data` holds the largest
/// size and is summed in place. `arguments`: seconds a size, then sizes in
/// bytes, the same on all ranks.
template <typename Barrier, typename Reduce>
void measure(int rank, int ranks, char **arguments, float *data,
             Barrier barrier, Reduce reduce) {
  using Clock = std::chrono::steady_clock;
  double seconds = std::atof(*arguments++);
  for (; *arguments; ++arguments) {
    size_t bytes = std::strtoull(*arguments, nullptr, 10);
    size_t count = bytes / sizeof(float);
    // The result is right: every element is the sum of 1, 2, … ranks.
    std::fill(data, data + count, float(rank + 1));
    barrier();
    reduce(count);
    for (size_t i = 0; i < count; ++i)
      if (data[i] != float(ranks * (ranks + 1) / 2)) {
        std::fprintf(stderr, "rank %d, %zu bytes, element %zu: wrong sum %g\n",
                     rank, bytes, i, data[i]);
        std::exit(1);
      }
    // How many calls fit into the time: the ranks take the mean of what each
    // has measured, and so agree.
    auto microseconds = [&](int calls) {
      barrier();
      Clock::time_point start = Clock::now();
      for (int i = 0; i < calls; ++i)
        reduce(count);
      return std::chrono::duration<double, std::micro>(Clock::now() - start)
                 .count() /
             calls;
    };
    std::fill(data, data + count, 0.0f);
    data[0] = float(microseconds(5) / ranks);
    reduce(count);
    double calls = seconds * 1e6 / std::max(double(data[0]), 0.1);
    constexpr int batches = 15;
    int batch = int(std::clamp(calls / batches, 1.0, 10000.0));
    // Sums of zeros stay zeros.
    std::fill(data, data + count, 0.0f);
    std::vector<double> times;
    for (int b = 0; b < batches; ++b)
      times.push_back(microseconds(batch));
    std::sort(times.begin(), times.end());
    if (rank == 0)
      std::printf("%zu %.3f %.3f\n", bytes, times[0], times[times.size() / 2]);
  }
  std::fflush(stdout);
}

#endif // MPCOMM_BENCH_ALLREDUCE_TIMING_H
