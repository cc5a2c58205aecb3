//===- Calibrate.h - measuring a cluster ----------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `mpcomm-run --calibrate`: what the ranks of this run, on these machines and
// over this communicator, can do, as the cluster file that the compiler's cost
// model reads (docs/Design/ClusterFile.md). docs/Guides/Calibrate.md says what
// is measured and how. All ranks take part; rank 0 writes.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_CALIBRATE_CALIBRATE_H
#define MPCOMM_RUN_CALIBRATE_CALIBRATE_H

#include "calibrate/RobustLine.h"
#include "launch/RunOptions.h"
#include "session/Rank.h"

#include "mpcomm/Runtime/Session.h"

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace mpcomm::run {

struct MeasuredKind {
  mprt_collective_kind kind;
  uint64_t ranks = 0;
  /// The level of links; empty where there is one.
  std::string link;
  RobustLine line;
  std::vector<TimedSize> points;
};

struct DeviceRates {
  std::string name;
  /// Flop/s by type, as the cluster file names them.
  std::map<std::string, double> flops;
  /// What share of it kinds of products sustain, likewise.
  std::map<std::string, double> efficiency;
  double memoryBandwidth = 0;  ///< bytes/s, reads and writes
  uint64_t memoryBytes = 0;    ///< of one rank
  double launch = 0;           ///< seconds
  bool fusedAttention = false; ///< one kernel computes attention
};

struct Contention {
  double computeRateUnderComm = 1, commRateUnderCompute = 1;
};

/// A communicator that is measured, as one rank sees it.
struct MeasuredGroup {
  uint32_t communicator = 0;
  uint64_t ranks = 0, index = 0;
  std::string link;
  /// Whether messages between two are measured here.
  bool sends = true;
};

/// What measurements share: buffers, groups, agreement, time.
class Bench {
public:
  explicit Bench(Rank &rank) : rank(rank) {}

  /// Bytes of the largest payload, and of each of the two buffers.
  uint64_t mostBytes = uint64_t(32) << 20;

  /// Takes the device, and makes the context and the buffers. Group 0 is all
  /// ranks. With --calibrate-block, the others are blocks of that many
  /// consecutive ranks, and one rank of each block; without, pairs, where there
  /// are 4 or more ranks and their number is even.
  Error prepare(const RunOptions &options);
  const std::vector<MeasuredGroup> &groups() const { return measured; }

  /// All ranks go on from here at about the same time.
  Error meet();
  /// The largest, and the smallest, of what the ranks have.
  Error largest(double &value);
  Error smallest(double &value);
  /// Runs one collective and, on the host, waits for it; an asynchronous device
  /// is waited for by `finish`.
  Error run(const mprt_collective &call, const void *send, void *recv);
  /// Enqueues it; `wait` waits for it.
  Error start(const mprt_collective &call, const void *send, void *recv);
  Error wait(const mprt_collective &call);
  /// Waits for all that a device has been given.
  Error finish();
  /// Fails where the context has.
  Error healthy(const char *what) const;

  Rank &rank;
  char *source = nullptr, *target = nullptr;
  /// Descriptors of products and kernels, which must outlive the context, and
  /// are what they are: a device keeps what it has made of them.
  std::deque<mprt_gemm_desc> products;
  std::deque<mprt_window_desc> convolutions;
  std::deque<mprt_kernel> kernels;

private:
  Error gatherDoubles(double value, std::vector<double> &all);
  std::vector<MeasuredGroup> measured;
};

/// Lines for each kind on `group`, in about `seconds`.
Error measureCollectives(Bench &bench, const MeasuredGroup &group,
                         double seconds, std::vector<MeasuredKind> &lines);

/// Rates of the device while all ranks compute, in about `seconds`.
Error measureDevice(Bench &bench, double seconds, DeviceRates &rates);
/// The same on a GPU.
Error measureCuda(Bench &bench, double seconds, DeviceRates &rates);

/// What share of the rate of bf16 products and convolutions sustain that are
/// shaped as those of steps; `size` is that of the product by which the rate
/// was measured.
Error measureShapes(Bench &bench, double seconds, int64_t size,
                    DeviceRates &rates);

/// How much compute and an all_reduce slow each other down.
Error measureContention(Bench &bench, double seconds, Contention &result);
/// The same on a GPU, where the collectives are its own.
Error measureCudaContention(Bench &bench, double seconds, Contention &result);

/// Kernels for the device that is measured, as those of a program.
extern const mprt_image calibrationImages[];
extern const mprt_kernel calibrationNothing, calibrationPolynomial;
/// What a thread of the polynomial computes.
constexpr double calibrationPolynomialFlops = 2 * 4 * 4 * 64;

/// A layer forward (0), the gradient of its input (1) and of its weights (2):
/// products of three matrices of `size` by `size`.
constexpr int productLayouts = 3;
mprt_gemm_desc describeProduct(int64_t size, int layout, mprt_dtype type);

/// The types that products are measured in, as the cluster file names them.
constexpr std::pair<const char *, mprt_dtype> productTypes[] = {
    {"f32", MPRT_F32},
    {"bf16", MPRT_BF16},
    {"f16", MPRT_F16},
    {"f64", MPRT_F64}};

/// The median time of `work`, repeated for `seconds`, at least 5 times.
double medianTime(double seconds, const std::function<void()> &work);

/// All of it; writes and prints.
Error calibrate(Rank &rank, const RunOptions &options);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_CALIBRATE_CALIBRATE_H
