//===- Evaluate.cpp - loss and accuracy on held-out samples ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each data rank evaluates its slice of each global batch, in the order of the
// file; sums and counts of all ranks meet at the end: of those that share their
// samples, all that have a loss have the same one, and one counts labels.
// Samples that do not fill a global batch are left out, and that is said.
//
//===----------------------------------------------------------------------===//

#include "train/Trainer.h"

#include <algorithm>
#include <cmath>

using namespace mpcomm::run;

namespace {

/// What one rank has counted.
struct Tally {
  double lossSum = 0;
  uint64_t batches = 0, labels = 0, correct = 0;
};

/// Counts rows of `output` whose largest entry is at the row's label. Labels
/// that are no class (padding, by custom negative) do not count.
void countCorrect(const ManifestTensor &output, const char *rows,
                  const ManifestTensor &labels, const char *labelData,
                  Tally &tally) {
  uint64_t classes = static_cast<uint64_t>(output.shape.back());
  for (uint64_t row = 0; row < labels.elements; ++row) {
    int64_t label = loadInteger(labels.type, labelData, row);
    if (label < 0 || static_cast<uint64_t>(label) >= classes)
      continue;
    uint64_t best = 0;
    double largest = loadFloat(output.type, rows, row * classes);
    for (uint64_t i = 1; i < classes; ++i) {
      double value = loadFloat(output.type, rows, row * classes + i);
      if (value > largest) {
        largest = value;
        best = i;
      }
    }
    ++tally.labels;
    tally.correct += best == static_cast<uint64_t>(label);
  }
}

} // namespace

Status Trainer::evaluate(Report &report) {
  const ManifestFunction &function = *job.evaluate;
  Binding &binding = job.state->bindingOf(function);
  Sampler order(job.evalData->samples(), batchSizeOf(job.evaluators),
                job.dataRanks,
                /*seed=*/0, /*shuffle=*/false);
  const ManifestResult *loss = function.resultOf(Role::Loss);
  Tally mine;
  std::vector<size_t> metrics = function.metrics();
  std::vector<double> metricSums(metrics.size());
  for (uint64_t step = 0; step < order.stepsPerEpoch(); ++step) {
    if (Status status = feed(binding, &*job.evalData, &order, step);
        status.failed())
      return status;
    if (Status status = call(binding); status.failed())
      return status;
    if (Status status = device->fetch(binding.results); status.failed())
      return status;
    mine.batches += loss != nullptr;
    for (size_t i = 0; i < metrics.size(); ++i)
      metricSums[i] += loadFloat(
          function.results[metrics[i]].type,
          job.state->slot(binding.results[metrics[i]]).data, 0);
    for (size_t i = 0; i < function.results.size(); ++i) {
      const ManifestResult &result = function.results[i];
      const char *data = job.state->slot(binding.results[i]).data;
      if (&result == loss)
        mine.lossSum += loadFloat(result.type, data, 0);
      if (!result.targets)
        continue;
      const ManifestArgument *labels = function.argumentOf(*result.targets);
      size_t index = labels - function.arguments.data();
      countCorrect(result, data, *labels,
                   job.state->slot(binding.arguments[index]).data, mine);
    }
  }

  if (Status status = checkData(job.evalData); status.failed())
    return status;
  std::vector<Tally> all(job.ranks);
  if (Status status = rank.gather(&mine, all.data(), sizeof(mine));
      status.failed())
    return status;
  Tally sum;
  for (const Tally &tally : all) {
    sum.lossSum += tally.lossSum;
    sum.batches += tally.batches;
    sum.labels += tally.labels;
    sum.correct += tally.correct;
  }
  size_t bytes = metrics.size() * sizeof(double);
  std::vector<double> allSums(metrics.size() * job.ranks);
  if (bytes)
    if (Status status = rank.gather(metricSums.data(), allSums.data(), bytes);
        status.failed())
      return status;
  EvaluationSummary summary;
  for (size_t i = 0; i < metrics.size() && sum.batches > 0; ++i) {
    double total = 0;
    for (size_t other = i; other < allSums.size(); other += metrics.size())
      total += allSums[other];
    summary.metrics.emplace_back(function.results[metrics[i]].name,
                                 total / static_cast<double>(sum.batches));
  }
  summary.dropped = order.remainder();
  summary.samples = job.evalData->samples() - summary.dropped;
  summary.hasLoss = sum.batches > 0;
  summary.loss = sum.lossSum / static_cast<double>(sum.batches);
  summary.labels = sum.labels;
  summary.correct = sum.correct;
  report.evaluation(summary);
  if (!summary.hasLoss || std::isfinite(summary.loss) ||
      job.options.allowNonFinite)
    return {};
  if (rank.index() != 0)
    return fail("");
  return fail("evaluation, rank 0: the loss is ", summary.loss,
              "; --allow-nonfinite accepts it");
}
