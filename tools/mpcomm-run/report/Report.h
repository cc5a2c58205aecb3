//===- Report.h - the progress line, the log and the final table ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What rank 0 tells the user. On a terminal one line is rewritten in place;
// elsewhere each line stands, every --log-every steps. The log file gets one
// JSON object a step, with all digits of the loss, and with --evaluate-every
// one an evaluation. TensorBoard gets the same numbers.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_REPORT_REPORT_H
#define MPCOMM_RUN_REPORT_REPORT_H

#include "data/Runtime.h"
#include "launch/RunOptions.h"
#include "report/EventFile.h"

#include "mpcomm/Runtime/Session.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mpcomm::run {

/// Numbers that a program returns beside its loss, by name.
using Metrics = std::vector<std::pair<std::string, double>>;

struct StepRecord {
  /// Steps done, this one included.
  uint64_t step = 0;
  uint64_t epoch = 0;
  double loss = 0;
  Metrics metrics;
  double lr = 0;
  bool hasLr = false;
  double milliseconds = 0;
  /// Time that compute waited for communication, where it is known: the host
  /// does not see what a device waits for.
  std::optional<double> exposedMilliseconds;
  /// Time that the step waited for its samples, where it has some.
  std::optional<double> dataMilliseconds;
  /// The scale of the next step, where the program has one, and whether
  /// parameters kept their values.
  std::optional<double> lossScale;
  bool isSkipped = false;
  /// Parameters whose gradient was not finite, where the program tells.
  std::vector<std::string> nonFinite;
};

/// Memory of one rank, in bytes.
struct MemoryUse {
  uint64_t peakResident = 0;
  uint64_t arena = 0, parameters = 0, optimizerState = 0;
  /// Of a device, all that was taken of it; the above but `peakResident` lie
  /// there.
  uint64_t device = 0;

  /// Whether another rank keeps as much, whatever its peak was.
  bool keepsAsMuchAs(const MemoryUse &other) const {
    return arena == other.arena && parameters == other.parameters &&
           optimizerState == other.optimizerState && device == other.device;
  }
};

struct EvaluationSummary {
  uint64_t samples = 0;
  bool hasLoss = false;
  double loss = 0;
  Metrics metrics;
  /// Labelled rows, and those whose largest entry is at the label.
  uint64_t labels = 0, correct = 0;
};

/// The steps that will be reported, from `first` on to `last`, and what each of
/// them takes.
struct ReportedSteps {
  uint64_t first = 0, last = 0;
  /// Zero where there are none.
  uint64_t samples = 0, tokens = 0;
};

class Report {
public:
  /// Reports nothing at all unless `active`; prints to standard output unless
  /// `options.quiet`.
  /// A log that a resumed run goes on with loses its lines of the steps that
  /// will be reported, and a last line that is not whole.
  static Expected<Report> create(const RunOptions &options, bool active,
                                 const ReportedSteps &steps);

  Report(Report &&) = default;
  Report &operator=(Report &&) = default;
  ~Report();

  /// One line at the start.
  void begin(const std::string &headline);
  /// Fails where the log cannot be written.
  Error step(const StepRecord &record);
  /// A line of its own, above the progress line.
  void note(const std::string &line);
  /// Table of the whole run. `memory` holds one entry a rank; `skipped` is the
  /// number of steps that left the parameters alone, where that is counted.
  /// `device` has what steps cost the host, where a device computes.
  void finish(const std::vector<MemoryUse> &memory,
              std::optional<uint64_t> skipped,
              const std::optional<mpcomm_totals> &device);
  /// After `step` steps; a table at the end, before that a line. Fails where
  /// the log cannot be written.
  Error evaluation(const EvaluationSummary &summary, uint64_t step,
                   bool isLast);
  /// Ends a progress line that stands open, before an error is printed.
  void interrupt();
  /// Fails where something of all this could not be printed. A run whose
  /// terminal is gone still trains and keeps its checkpoints.
  Error close();

private:
  void flush();
  /// Adds a line to the log.
  Error writeLog(const std::string &line);
  Error writeEvents(const StepRecord &record);
  void printProgress(const StepRecord &record);

  Report() = default;

  struct Closer {
    void operator()(std::FILE *file) const { std::fclose(file); }
  };

  std::chrono::steady_clock::time_point lastPrint;
  bool prints = false, inPlace = false, lineOpen = false;
  bool logsEvaluations = false;
  uint64_t every = 1;
  ReportedSteps steps;
  /// When the first step had ended. It is longer than the others.
  std::chrono::steady_clock::time_point firstEnd;
  std::unique_ptr<std::FILE, Closer> log;
  std::string logPath;
  std::optional<EventFile> events;
  /// Of the first line that could not be printed.
  int printError = 0;
  double firstLoss = 0, lastLoss = 0;
  Metrics lastMetrics;
  std::vector<float> times, exposed, waits;
};

/// Peak resident memory of this process, in bytes, from its own start on.
uint64_t peakResidentBytes();

} // namespace mpcomm::run

#endif // MPCOMM_RUN_REPORT_REPORT_H
