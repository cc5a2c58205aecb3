//===- Report.cpp - the progress line, the log and the final table --------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Report.h. Times are kept as floats, four bytes a step.
//
//===----------------------------------------------------------------------===//

#include "report/Report.h"

#include "calibrate/RobustLine.h"
#include "files/Json.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <unistd.h>

using namespace mpcomm::run;

namespace {

constexpr auto refreshInterval = std::chrono::milliseconds(100);

double medianOfFloats(const std::vector<float> &values) {
  return mpcomm::run::medianOf(
      std::vector<double>(values.begin(), values.end()));
}

double percent(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

std::string sizeText(uint64_t bytes) {
  char text[32];
  if (bytes < 1'000'000)
    std::snprintf(text, sizeof(text), "%.1f kB",
                  static_cast<double>(bytes) / 1e3);
  else
    std::snprintf(text, sizeof(text), "%.1f MB",
                  static_cast<double>(bytes) / 1e6);
  return text;
}

/// `12.3k`: three digits or so.
std::string countText(double count) {
  char text[32];
  if (count < 1e4)
    std::snprintf(text, sizeof(text), "%.0f", count);
  else if (count < 1e6)
    std::snprintf(text, sizeof(text), "%.1fk", count / 1e3);
  else
    std::snprintf(text, sizeof(text), "%.1fM", count / 1e6);
  return text;
}

/// `1:02:03`, or `02:03` below an hour.
std::string timeText(double seconds) {
  auto whole = static_cast<unsigned long long>(std::min(seconds, 1e15));
  char text[40];
  if (whole >= 3600)
    std::snprintf(text, sizeof(text), "%llu:%02llu:%02llu", whole / 3600,
                  whole / 60 % 60, whole % 60);
  else
    std::snprintf(text, sizeof(text), "%02llu:%02llu", whole / 60, whole % 60);
  return text;
}

/// JSON has no NaN and no infinity. 9 digits identify a number of f32, 17 one
/// of f64.
std::string jsonNumber(double value, int digits = 9) {
  if (!std::isfinite(value))
    return "null";
  char text[40];
  std::snprintf(text, sizeof(text), "%.*g", digits, value);
  return text;
}

/// A loss, which may be of f64.
std::string jsonLoss(double value) {
  bool isOfF32 = static_cast<double>(static_cast<float>(value)) == value;
  return jsonNumber(value, isOfF32 ? 9 : 17);
}

/// What the log says of loss scaling; empty where the program does none.
std::string lossScaleFields(const StepRecord &record) {
  std::string text;
  if (record.lossScale)
    text += ", \"loss_scale\": " + jsonNumber(*record.lossScale) +
            ", \"skipped\": " + (record.isSkipped ? "true" : "false");
  if (record.nonFinite.empty())
    return text;
  text += ", \"nonfinite\": [";
  for (size_t i = 0; i < record.nonFinite.size(); ++i)
    text += (i ? ", " : "") + quoted(record.nonFinite[i]);
  return text + "]";
}

/// "the gradient of 'w' is not finite"
std::string describeNonFinite(const std::vector<std::string> &parameters) {
  constexpr size_t shown = 8;
  std::string text =
      parameters.size() == 1 ? "the gradient of " : "the gradients of ";
  for (size_t i = 0; i < std::min(parameters.size(), shown); ++i)
    text += (i ? ", '" : "'") + printable(parameters[i]) + "'";
  if (parameters.size() > shown)
    text += " and " + std::to_string(parameters.size() - shown) + " more";
  return text + (parameters.size() == 1 ? " is not finite" : " are not finite");
}

/// Metrics as a field of the log; empty where there are none.
std::string metricFields(const Metrics &metrics) {
  std::string text;
  for (const auto &[name, value] : metrics)
    text += (text.empty() ? ", \"metrics\": {" : ", ") + quoted(name) + ": " +
            jsonLoss(value);
  return text.empty() ? text : text + "}";
}

/// The same for people, after a loss.
std::string metricText(const Metrics &metrics) {
  std::string text;
  char number[40];
  for (const auto &[name, value] : metrics) {
    std::snprintf(number, sizeof(number), " %.6g", value);
    text += "  " + name + number;
  }
  return text;
}

/// A row of a table for each metric, after a row for the loss.
void printMetrics(const Metrics &metrics, const char *what) {
  for (const auto &[name, value] : metrics)
    std::printf("%-22s %.6g\n", (what + name).c_str(), value);
}

/// Loss scaling for people.
std::string lossScaleText(const StepRecord &record) {
  if (!record.lossScale)
    return {};
  char text[48];
  std::snprintf(text, sizeof(text), "  scale %.6g%s", *record.lossScale,
                record.isSkipped ? " (skipped)" : "");
  return text;
}

std::string keptText(const MemoryUse &use) {
  std::string text = "arena " + sizeText(use.arena) + ", parameters " +
                     sizeText(use.parameters) + ", optimizer state " +
                     sizeText(use.optimizerState);
  if (use.device)
    text += ", on the device in all " + sizeText(use.device);
  return text;
}

/// Cuts the log behind what steps up to `last` have left in it.
Error cutLog(const std::string &path, uint64_t last) {
  std::error_code error;
  // What is no file keeps nothing.
  if (!std::filesystem::is_regular_file(path, error))
    return {};
  std::ifstream log(path, std::ios::binary);
  uint64_t kept = 0;
  for (std::string line; std::getline(log, line) && !log.eof();) {
    unsigned long long step = 0;
    if (std::sscanf(line.c_str(), "{\"step\": %llu,", &step) == 1 &&
        step > last)
      break;
    kept += line.size() + 1;
  }
  if (!log.is_open() || log.bad() ||
      truncate(path.c_str(), static_cast<off_t>(kept)) != 0)
    return fail(path, ": cannot cut what follows step ", last, ": ",
                std::strerror(errno));
  return {};
}

/// `8.5 us`, or `not timed` where it is 0.
std::string hostTimeText(double microseconds) {
  if (microseconds == 0)
    return "not timed";
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f us", microseconds);
  return text;
}

void printHostCost(const mpcomm_totals &cost) {
  if (cost.graph_nodes > 0) {
    std::printf("host time per step     %s as a graph, %s call by call\n",
                hostTimeText(cost.graph_microseconds).c_str(),
                hostTimeText(cost.eager_microseconds).c_str());
    if (cost.replay_launch_microseconds > 0)
      std::printf(
          "  of a replay          launch %.1f us (first %.1f us), "
          "inputs %.1f us, wait %.1f us, rest %.1f us; device idle "
          "%.1f us\n",
          cost.replay_launch_microseconds, cost.first_launch_microseconds,
          cost.replay_inputs_microseconds, cost.replay_wait_microseconds,
          cost.replay_rest_microseconds, cost.replay_idle_microseconds);
    else
      std::printf("  of a replay          launch (first %.1f us); there was "
                  "no later one to time\n",
                  cost.first_launch_microseconds);
    std::printf("launches per step      1 graph of %.0f nodes, %.0f calls "
                "before\n"
                "  of its nodes         %.0f kernels, %.0f copies, %.0f "
                "fills\n",
                cost.graph_nodes, cost.eager_calls, cost.graph_kernels,
                cost.graph_copies, cost.graph_fills);
  } else if (cost.eager_microseconds > 0) {
    std::printf("host time per step     %.1f us call by call\n",
                cost.eager_microseconds);
  }
  if (cost.graph_nodes == 0 && cost.eager_calls > 0)
    std::printf("launches per step      %.0f calls\n", cost.eager_calls);
  if (*cost.device_note)
    std::printf("chosen                 %s\n", cost.device_note);
}

/// The most that any rank takes, and each rank's peak; also what it keeps,
/// where that is not the same on all.
void printMemory(const std::vector<MemoryUse> &memory) {
  MemoryUse most;
  bool equal = true;
  for (const MemoryUse &use : memory) {
    most.peakResident = std::max(most.peakResident, use.peakResident);
    most.arena = std::max(most.arena, use.arena);
    most.parameters = std::max(most.parameters, use.parameters);
    most.optimizerState = std::max(most.optimizerState, use.optimizerState);
    most.device = std::max(most.device, use.device);
    equal &= use.keepsAsMuchAs(memory[0]);
  }
  std::printf("%s peak %s, %s\n",
              equal ? "memory a rank         " : "memory a rank, at most",
              sizeText(most.peakResident).c_str(), keptText(most).c_str());
  for (size_t rank = 0; memory.size() > 1 && rank < memory.size(); ++rank)
    std::printf("  peak of rank %-3zu     %s%s\n", rank,
                sizeText(memory[rank].peakResident).c_str(),
                equal ? "" : (", " + keptText(memory[rank])).c_str());
}

} // namespace

Expected<Report> Report::create(const RunOptions &options, bool active,
                                const ReportedSteps &steps) {
  Report report;
  if (!active)
    return report;
  report.prints = !options.quiet;
  report.inPlace = report.prints && isatty(STDOUT_FILENO);
  report.every = options.logEvery;
  // What only evaluates leaves no mark of a training.
  report.logsEvaluations = options.evaluateEvery && steps.first < steps.last;
  report.steps = steps;
  if (!options.tensorboard.empty()) {
    Expected<EventFile> file =
        EventFile::create(options.tensorboard, steps.first);
    if (file.failed())
      return file.error();
    report.events.emplace(file.take());
  }
  if (options.log.empty())
    return report;
  report.logPath = options.log;
  bool goesOn = !options.resume.empty();
  report.log.reset(std::fopen(options.log.c_str(), goesOn ? "ae" : "we"));
  if (!report.log)
    return fail(options.log, ": cannot open: ", std::strerror(errno));
  if (goesOn && steps.first < steps.last)
    if (Error error = cutLog(options.log, steps.first))
      return error;
  return report;
}

Report::~Report() { interrupt(); }

void Report::begin(const std::string &headline) { note(headline); }

void Report::note(const std::string &line) {
  if (!prints)
    return;
  interrupt();
  std::printf("%s\n", line.c_str());
  flush();
}

void Report::interrupt() {
  if (!lineOpen)
    return;
  lineOpen = false;
  std::printf("\n");
  flush();
}

Error Report::writeLog(const std::string &line) {
  if (log && (std::fputs((line + "\n").c_str(), log.get()) < 0 ||
              std::fflush(log.get()) != 0))
    return fail(logPath, ": cannot write: ", std::strerror(errno));
  return {};
}

Error Report::writeEvents(const StepRecord &record) {
  double seconds = record.milliseconds / 1e3;
  Scalars scalars = {{"loss", record.loss}};
  for (const auto &[name, value] : record.metrics)
    scalars.emplace_back("metrics/" + name, value);
  if (record.hasLr)
    scalars.emplace_back("lr", record.lr);
  if (record.lossScale)
    scalars.emplace_back("loss_scale", *record.lossScale);
  scalars.emplace_back("speed/step_ms", record.milliseconds);
  auto addRate = [&](const char *name, uint64_t count) {
    if (count && seconds > 0)
      scalars.emplace_back(name, static_cast<double>(count) / seconds);
  };
  addRate("speed/samples_per_second", steps.samples);
  addRate("speed/tokens_per_second", steps.tokens);
  if (record.exposedMilliseconds)
    scalars.emplace_back("speed/exposed_ms", *record.exposedMilliseconds);
  if (record.dataMilliseconds)
    scalars.emplace_back("speed/data_ms", *record.dataMilliseconds);
  return events->add(record.step, scalars);
}

void Report::printProgress(const StepRecord &record) {
  std::string rate, share, left;
  // Short names: the whole is to fit a line of a terminal.
  auto rateText = [&](uint64_t count, const char *what) {
    if (count && record.milliseconds > 0)
      rate = "  " +
             countText(static_cast<double>(count) * 1e3 / record.milliseconds) +
             what;
  };
  rateText(steps.samples, " samples/s");
  rateText(steps.tokens, " tokens/s");
  char text[48];
  if (record.exposedMilliseconds) {
    std::snprintf(text, sizeof(text), "  exposed %.1f %%",
                  percent(*record.exposedMilliseconds, record.milliseconds));
    share = text;
  }
  // By the clock, so that checkpoints and evaluations count.
  std::chrono::duration<double> passed =
      std::chrono::steady_clock::now() - firstEnd;
  if (times.size() > 1 && record.step < steps.last)
    left = "  left " +
           timeText(passed.count() / static_cast<double>(times.size() - 1) *
                    static_cast<double>(steps.last - record.step));
  std::printf("%sstep %llu/%llu  loss %.6g%s%s  %.3f ms/step%s%s%s%s",
              inPlace ? "\r\033[K" : "",
              static_cast<unsigned long long>(record.step),
              static_cast<unsigned long long>(steps.last), record.loss,
              metricText(record.metrics).c_str(), rate.c_str(),
              record.milliseconds, share.c_str(), lossScaleText(record).c_str(),
              left.c_str(), inPlace ? "" : "\n");
  lineOpen = inPlace;
  flush();
}

Error Report::step(const StepRecord &record) {
  if (times.empty()) {
    firstLoss = record.loss;
    firstEnd = std::chrono::steady_clock::now();
  }
  lastLoss = record.loss;
  lastMetrics = record.metrics;
  times.push_back(static_cast<float>(record.milliseconds));
  if (record.exposedMilliseconds)
    exposed.push_back(static_cast<float>(*record.exposedMilliseconds));
  if (record.dataMilliseconds)
    waits.push_back(static_cast<float>(*record.dataMilliseconds));

  if (log) {
    std::string line =
        "{\"step\": " + std::to_string(record.step) +
        ", \"epoch\": " + std::to_string(record.epoch) +
        ", \"loss\": " + jsonLoss(record.loss) + metricFields(record.metrics) +
        ", \"ms\": " + jsonNumber(record.milliseconds) + ", \"exposed_ms\": " +
        (record.exposedMilliseconds ? jsonNumber(*record.exposedMilliseconds)
                                    : "null") +
        (record.dataMilliseconds
             ? ", \"data_ms\": " + jsonNumber(*record.dataMilliseconds)
             : "") +
        (record.hasLr ? ", \"lr\": " + jsonNumber(record.lr) : "") +
        lossScaleFields(record) + "}";
    if (Error error = writeLog(line))
      return error;
  }
  if (events)
    if (Error error = writeEvents(record))
      return error;

  if (prints && !record.nonFinite.empty())
    note("step " + std::to_string(record.step) + ": " +
         describeNonFinite(record.nonFinite));

  bool last = record.step == steps.last;
  bool due = record.step % every == 0 || last || times.size() == 1;
  if (inPlace) {
    // A terminal is slower than a short step, and eyes are slower than both.
    auto now = std::chrono::steady_clock::now();
    due = last || now - lastPrint > refreshInterval;
    if (due)
      lastPrint = now;
  }
  if (prints && due)
    printProgress(record);
  return {};
}

void Report::finish(const std::vector<MemoryUse> &memory,
                    std::optional<uint64_t> skipped,
                    const std::optional<mpcomm_totals> &device) {
  if (!prints || times.empty())
    return;
  interrupt();
  double step = medianOfFloats(times);
  double wait = medianOfFloats(exposed);
  std::printf("\nsteps                  %zu\n", times.size());
  if (skipped)
    std::printf("steps skipped          %llu\n",
                static_cast<unsigned long long>(*skipped));
  std::printf("loss first             %.6g\n", firstLoss);
  std::printf("loss last              %.6g\n", lastLoss);
  printMetrics(lastMetrics, "last ");
  std::printf("ms per step (median)   %.3f\n", step);
  if (!exposed.empty())
    std::printf("exposed communication  %.3f ms (%.1f %%)\n", wait,
                percent(wait, step));
  if (!waits.empty())
    std::printf("waiting for data       %.3f ms (%.1f %%)\n",
                medianOfFloats(waits), percent(medianOfFloats(waits), step));
  if (device)
    printHostCost(*device);
  printMemory(memory);
  flush();
}

Error Report::evaluation(const EvaluationSummary &summary, uint64_t step,
                         bool isLast) {
  double accuracy = summary.labels ? static_cast<double>(summary.correct) /
                                         static_cast<double>(summary.labels)
                                   : 0;
  if (log && logsEvaluations) {
    std::string line =
        "{\"step\": " + std::to_string(step) +
        ", \"evaluation\": {\"samples\": " + std::to_string(summary.samples);
    if (summary.hasLoss)
      line += ", \"loss\": " + jsonLoss(summary.loss);
    if (summary.labels)
      line += ", \"accuracy\": " + jsonNumber(accuracy);
    line += metricFields(summary.metrics) + "}}";
    if (Error error = writeLog(line))
      return error;
  }
  if (events) {
    Scalars scalars;
    if (summary.hasLoss)
      scalars.emplace_back("evaluation/loss", summary.loss);
    if (summary.labels)
      scalars.emplace_back("evaluation/accuracy", accuracy);
    for (const auto &[name, value] : summary.metrics)
      scalars.emplace_back("evaluation/" + name, value);
    if (Error error = events->add(step, scalars))
      return error;
  }
  if (!prints)
    return {};
  interrupt();
  if (!isLast) {
    std::string text = "step " + std::to_string(step) + ": evaluation of " +
                       std::to_string(summary.samples) + " samples";
    char number[48];
    if (summary.hasLoss) {
      std::snprintf(number, sizeof(number), "  loss %.6g", summary.loss);
      text += number;
    }
    text += metricText(summary.metrics);
    if (summary.labels) {
      std::snprintf(number, sizeof(number), "  top-1 %.2f %%", 100 * accuracy);
      text += number;
    }
    note(text);
    return {};
  }
  std::printf("\nevaluation             %llu samples\n",
              static_cast<unsigned long long>(summary.samples));
  if (summary.hasLoss)
    std::printf("evaluation loss        %.6g\n", summary.loss);
  printMetrics(summary.metrics, "evaluation ");
  if (summary.labels)
    std::printf("top-1 accuracy         %.2f %% (%llu of %llu)\n",
                100 * accuracy,
                static_cast<unsigned long long>(summary.correct),
                static_cast<unsigned long long>(summary.labels));
  flush();
  return {};
}

void Report::flush() {
  if (std::fflush(stdout) != 0 && printError == 0)
    printError = errno;
}

Error Report::close() {
  interrupt();
  if (printError)
    return fail("standard output: cannot write: ", std::strerror(printError));
  return {};
}

uint64_t mpcomm::run::peakResidentBytes() {
  // VmHWM rather than getrusage: ru_maxrss survives exec, so that it would
  // report the peak of whatever program started this one.
  std::FILE *file = std::fopen("/proc/self/status", "re");
  if (!file)
    return 0;
  char line[256];
  unsigned long long kilobytes = 0;
  while (std::fgets(line, sizeof(line), file))
    if (std::sscanf(line, "VmHWM: %llu kB", &kilobytes) == 1)
      break;
  std::fclose(file);
  return kilobytes * 1024;
}
