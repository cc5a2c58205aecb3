//===- CalibrateCuda.cpp - rates of a GPU ---------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// As on the host: all ranks at the same time, the slowest counts. Calls only
// enqueue, so that many are timed together, until the device is done. Operands
// are random numbers: a GPU multiplies zeros faster, for want of heat. Sizes
// grow until the device is full, or the time is up.
//
//===----------------------------------------------------------------------===//

#include "calibrate/Calibrate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>

using namespace mpcomm::run;

using Clock = std::chrono::steady_clock;

/// What is timed at a time takes so long, that starting and waiting do not
/// count.
static constexpr double batchSeconds = 5e-3;
static constexpr uint64_t mostInBatch = 1024;
static constexpr int64_t firstSize = 64, mostSize = 4096;
/// Blocks of the polynomial: enough for several rounds on any chip.
static constexpr uint64_t firstBlocks = 8, mostBlocks = 16384;
static constexpr uint32_t launchesInStep = 256;

static double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The time of `count` calls until the device is done with them.
static Error timeOnce(Bench &bench, const std::function<void()> &enqueue,
                      uint64_t count, double &time) {
  Clock::time_point begin = Clock::now();
  for (uint64_t i = 0; i < count; ++i)
    enqueue();
  Error status = bench.finish();
  time = secondsSince(begin);
  return status;
}

/// The time of one of many calls of `enqueue`: the median over `seconds`.
static Error timeCalls(Bench &bench, double seconds,
                       const std::function<void()> &enqueue, double &time) {
  uint64_t count = 1;
  double batch = 0;
  // The first call prepares things.
  if (Error error = timeOnce(bench, enqueue, 1, batch))
    return error;
  while (true) {
    if (Error error = timeOnce(bench, enqueue, count, batch))
      return error;
    if (batch >= batchSeconds || count >= mostInBatch)
      break;
    count *= 2;
  }
  Error status;
  batch = medianTime(seconds, [&] {
    double each = 0;
    if (status.ok())
      status = timeOnce(bench, enqueue, count, each);
  });
  time = batch / static_cast<double>(count);
  return status;
}

/// Fills both buffers with numbers from -1 to 1.
static Error fill(Bench &bench, mprt_dtype type) {
  size_t element = mprt::sizeOf(type);
  uint64_t total = 2 * bench.mostBytes;
  uint64_t bytes = std::min<uint64_t>(total, 4 << 20);
  std::vector<char> pattern(bytes);
  std::minstd_rand random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (size_t at = 0; at < bytes; at += element) {
    float value = uniform(random);
    if (type == MPRT_F8E4M3) { // exponents from 2^-3 to 1 and any sign
      auto bits = static_cast<uint32_t>(random());
      pattern[at] = static_cast<char>((bits & 0x9f) + 0x20);
      continue;
    }
    double wide = static_cast<double>(value);
    uint16_t half =
        type == MPRT_F16 ? mprt::floatToF16(value) : mprt::floatToBf16(value);
    const void *from = type == MPRT_F64   ? static_cast<const void *>(&wide)
                       : type == MPRT_F32 ? static_cast<const void *>(&value)
                                          : &half;
    std::memcpy(&pattern[at], from, element);
  }
  for (uint64_t at = 0; at < total; at += bytes) {
    uint64_t count = std::min(bytes, total - at);
    if (mprt::Error error = bench.rank.device().upload(bench.source + at,
                                                       pattern.data(), count))
      return fail("the device: ", error.message());
  }
  return {};
}

namespace {
/// Three matrices in the two buffers.
struct Operands {
  Operands(const Bench &bench, int64_t size, mprt_dtype type)
      : a(bench.source), b(a + bytesOf(size, type)),
        c(b + bytesOf(size, type)) {}
  static bool fit(const Bench &bench, int64_t size, mprt_dtype type) {
    uint64_t result = bytesOf(size, type == MPRT_F64 ? MPRT_F64 : MPRT_F32);
    return 2 * bytesOf(size, type) + result <= 2 * bench.mostBytes;
  }
  char *a, *b, *c;

private:
  static uint64_t bytesOf(int64_t size, mprt_dtype type) {
    return static_cast<uint64_t>(size * size) * mprt::sizeOf(type);
  }
};
} // namespace

/// Enqueues a product; its descriptor lives as long as the context.
static std::function<void()> multiplication(Bench &bench, int64_t size,
                                            int layout, mprt_dtype type) {
  bench.products.push_back(describeProduct(size, layout, type));
  return [&bench, desc = &bench.products.back(),
          at = Operands(bench, size, type)] {
    mprt_gemm(bench.rank.handle(), MPRT_COMPUTE_STREAM, desc, at.a, at.b, at.c);
  };
}

/// The size of products that can be measured within `seconds`.
static Error findSize(Bench &bench, double seconds, mprt_dtype type,
                      int64_t &size) {
  for (size = firstSize;
       2 * size <= mostSize && Operands::fit(bench, 2 * size, type);
       size *= 2) {
    double time = 0;
    std::function<void()> enqueue = multiplication(bench, size, 0, type);
    for (int i = 0; i < 2; ++i) // the second counts
      if (Error error = timeOnce(bench, enqueue, 1, time))
        return error;
    // Each layout some ten times, of which choosing an algorithm takes most.
    constexpr double runs = 30 * productLayouts, growth = 8;
    if (growth * time * runs > seconds)
      break;
  }
  return {};
}

/// The rate of products of a type, the median of the first `layouts`; `size` of
/// those that it is of.
static Error measureType(Bench &bench, double seconds, mprt_dtype type,
                         int layouts, double &rate, int64_t &size) {
  if (Error error = fill(bench, type))
    return error;
  if (Error error = findSize(bench, seconds, type, size))
    return error;
  std::vector<double> perLayout;
  for (int layout = 0; layout < layouts; ++layout) {
    if (Error error = bench.meet())
      return error;
    double time = 0;
    if (Error error =
            timeCalls(bench, seconds / layouts,
                      multiplication(bench, size, layout, type), time))
      return error;
    perLayout.push_back(2 * std::pow(static_cast<double>(size), 3) / time);
  }
  rate = medianOf(perLayout);
  return bench.smallest(rate);
}

/// `bf16Size`: of the product that the rate of bf16 is of.
static Error measureProducts(Bench &bench, double seconds, DeviceRates &rates,
                             int64_t &bf16Size) {
  int64_t size = 0;
  for (auto [name, type] : productTypes) {
    if (Error error = measureType(bench, seconds, type, productLayouts,
                                  rates.flops[name], size))
      return error;
    if (type == MPRT_BF16)
      bf16Size = size;
  }
  double hasF8 = bench.rank.device().multipliesF8();
  if (Error error = bench.smallest(hasF8))
    return error;
  // Only with both operands along what is summed, as in a layer forward.
  if (hasF8 > 0)
    return measureType(bench, seconds, MPRT_F8E4M3, /*layouts=*/1,
                       rates.flops["f8"], size);
  return {};
}

static Error measureVector(Bench &bench, double seconds, double &rate) {
  if (Error error = fill(bench, MPRT_F32))
    return error;
  void *operand = bench.source;
  auto enqueue = [&] {
    mprt_launch(bench.rank.handle(), MPRT_COMPUTE_STREAM, &bench.kernels.back(),
                &operand);
  };
  for (uint64_t blocks = firstBlocks; blocks <= mostBlocks; blocks *= 2) {
    mprt_kernel kernel = calibrationPolynomial;
    kernel.blocks = blocks;
    bench.kernels.push_back(kernel);
    uint64_t bytes = 2 * blocks * kernel.threads * sizeof(float);
    double time = 0;
    for (int i = 0; i < 2; ++i)
      if (Error error = timeOnce(bench, enqueue, 1, time))
        return error;
    if (time * 40 > seconds || bytes > 2 * bench.mostBytes)
      break;
  }
  if (Error error = bench.meet())
    return error;
  double time = 0;
  if (Error error = timeCalls(bench, seconds, enqueue, time))
    return error;
  const mprt_kernel &kernel = bench.kernels.back();
  rate = calibrationPolynomialFlops *
         static_cast<double>(kernel.blocks * kernel.threads) / time;
  return bench.smallest(rate);
}

static int32_t launchMany(mprt_context *context, void *const *, void *) {
  for (uint32_t i = 0; i < launchesInStep; ++i)
    mprt_launch(context, MPRT_COMPUTE_STREAM, &calibrationNothing, nullptr);
  return mprt_status_of(context);
}

Error mpcomm::run::measureCuda(Bench &bench, double seconds,
                               DeviceRates &rates) {
  rates.name = bench.rank.device().describe();
  rates.memoryBytes = bench.rank.device().memoryBytes();
  rates.fusedAttention = true; // the calibration's own kernels need sm_80
  double part = seconds / 8;
  int64_t size = 0;
  if (Error error = measureProducts(bench, part, rates, size))
    return error;
  // Their shapes have to be the same on all ranks.
  auto smallest = static_cast<double>(size);
  if (Error error = bench.smallest(smallest))
    return error;
  if (Error error =
          measureShapes(bench, part, static_cast<int64_t>(smallest), rates))
    return error;
  if (Error error = measureVector(bench, part, rates.flops["vector"]))
    return error;

  if (Error error = bench.meet())
    return error;
  double copy = 0;
  if (Error status = timeCalls(
          bench, part,
          [&] {
            mprt_copy(bench.rank.handle(), MPRT_COMPUTE_STREAM, bench.target,
                      bench.source, bench.mostBytes);
          },
          copy);
      status.failed())
    return status;
  rates.memoryBandwidth = 2 * static_cast<double>(bench.mostBytes) / copy;
  if (Error error = bench.smallest(rates.memoryBandwidth))
    return error;

  // As steps are run: as a graph, where the communicator allows it.
  if (Error error = bench.meet())
    return error;
  auto step = [&] {
    bench.rank.context().call(launchMany, nullptr, 0, nullptr);
  };
  double time = 0;
  for (int i = 0; i < 4; ++i)
    if (Error error = timeOnce(bench, step, 1, time))
      return error;
  if (Error error = timeCalls(bench, part, step, time))
    return error;
  rates.launch = time / launchesInStep;
  return bench.largest(rates.launch);
}

//===----------------------------------------------------------------------===//
// Compute and communication at a time
//===----------------------------------------------------------------------===//

namespace {
/// Marks on streams of the device, and their times.
class Marks {
public:
  explicit Marks(mprt::Device &device) : device(device) {}

  void clear() { keep(device.clearMarks()); }
  uint64_t put(uint32_t stream) {
    mprt::Expected<uint64_t> made = device.mark(stream);
    if (made)
      return *made;
    keep(made.error());
    return 0;
  }
  double timeOf(uint64_t mark) {
    if (failure)
      return 0;
    mprt::Expected<uint64_t> time = device.timeOf(mark);
    if (time)
      return static_cast<double>(*time) * 1e-9;
    keep(time.error());
    return 0;
  }
  Error status() const {
    return failure ? fail("the device: ", failure.message()) : Error();
  }

private:
  void keep(const mprt::Error &error) {
    if (error && !failure)
      failure = error;
  }
  mprt::Device &device;
  mprt::Error failure;
};
} // namespace

/// Products run without a pause while an all_reduce is under way, and for as
/// long again as it takes alone; marks say what of them fell into its time.
/// Collectives that go through the host have no marks that would hold, and
/// leave the device alone: nothing is measured for them.
Error mpcomm::run::measureCudaContention(Bench &bench, double seconds,
                                         Contention &result) {
  result = Contention();
  if (std::strcmp(bench.rank.backend(), "nccl") != 0)
    return {};
  if (Error error = fill(bench, MPRT_BF16))
    return error;
  int64_t size = 0;
  if (Error error = findSize(bench, seconds / 10, MPRT_BF16, size))
    return error;
  size = std::max(firstSize, size / 2);
  std::function<void()> multiply = multiplication(bench, size, 1, MPRT_BF16);
  mprt_collective call{};
  call.kind = MPRT_ALL_REDUCE;
  call.type = call.accumulate = MPRT_BF16;
  call.peer = -1;
  call.name = "calibration";
  call.location = "mpcomm-run";
  call.count = bench.mostBytes / 2 / 2;
  char *payload = bench.target + bench.mostBytes / 2;
  uint32_t commStream = MPRT_COMM_STREAM(call.communicator);
  Marks marks(bench.rank.device());
  auto reduce = [&](uint64_t &from, uint64_t &to) {
    from = marks.put(commStream);
    Error status = bench.start(call, payload, payload);
    to = marks.put(commStream);
    return status;
  };
  constexpr unsigned rounds = 5;
  constexpr double mostProducts = 2000;
  std::vector<double> computeRates, commRates;
  for (unsigned round = 0; round <= rounds; ++round) {
    uint64_t from = 0, to = 0;
    marks.clear();
    if (Error error = bench.meet())
      return error;
    if (Error error = reduce(from, to))
      return error;
    if (Error error = bench.finish())
      return error;
    double commAlone = marks.timeOf(to) - marks.timeOf(from);
    double multiplyAlone = 0;
    if (Error error =
            timeCalls(bench, seconds / (4 * rounds), multiply, multiplyAlone))
      return error;

    auto count = static_cast<unsigned>(
        std::clamp(2.5 * commAlone / multiplyAlone, 4.0, mostProducts));
    marks.clear();
    if (Error error = bench.meet())
      return error;
    if (Error error = reduce(from, to))
      return error;
    std::vector<uint64_t> between = {marks.put(MPRT_COMPUTE_STREAM)};
    for (unsigned i = 0; i < count; ++i) {
      multiply();
      between.push_back(marks.put(MPRT_COMPUTE_STREAM));
    }
    if (Error error = bench.finish())
      return error;
    double begin = marks.timeOf(from), end = marks.timeOf(to), covered = 0;
    for (unsigned i = 0; i < count; ++i) {
      double begins = marks.timeOf(between[i]);
      double ends = marks.timeOf(between[i + 1]);
      double inside = std::min(ends, end) - std::max(begins, begin);
      if (inside > 0 && ends > begins)
        covered += inside / (ends - begins);
    }
    if (Error error = marks.status())
      return error;
    // The first round warms up.
    if (round == 0 || end <= begin)
      continue;
    computeRates.push_back(covered * multiplyAlone / (end - begin));
    commRates.push_back(commAlone / (end - begin));
  }
  if (computeRates.empty())
    computeRates = commRates = {1};
  result.computeRateUnderComm = std::clamp(medianOf(computeRates), 0.01, 1.0);
  result.commRateUnderCompute = std::clamp(medianOf(commRates), 0.01, 1.0);
  for (double *rate :
       {&result.computeRateUnderComm, &result.commRateUnderCompute})
    if (Error error = bench.smallest(*rate))
      return error;
  return {};
}
