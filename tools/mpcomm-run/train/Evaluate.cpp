//===- Evaluate.cpp - loss and accuracy on held-out samples ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each data rank evaluates its slice of each global batch, in the order of the
// file; sums of all ranks meet at the end: of those that share their samples,
// all that have a loss have the same one, and one counts labels.
//
// Every sample counts once. Of N = w G + n samples, n < G, the last n fill a
// global batch together with P = G - n copies of the last sample. A program
// returns the mean of its batch, so that the sum of that batch has P times the
// loss of that sample too much; a batch of nothing but copies tells what that
// is. This is exact where a loss or a metric is a mean over samples.
//
//===----------------------------------------------------------------------===//

#include "train/Trainer.h"

#include <algorithm>
#include <cmath>

using namespace mpcomm::run;

namespace {

/// Which samples a call takes, and what counts of it.
class EvaluationOrder {
public:
  EvaluationOrder(uint64_t samples, uint64_t batch, uint64_t ranks,
                  uint64_t rank)
      : samples(samples), batch(batch), ranks(ranks), rank(rank),
        whole(samples / (batch * ranks)), taken(batch) {}

  uint64_t calls() const { return whole + (copies() ? 2 : 0); }

  std::span<const uint64_t> indices(uint64_t call) {
    for (uint64_t i = 0; i < batch; ++i)
      taken[i] =
          call > whole ? samples - 1 : std::min(firstOf(call) + i, samples - 1);
    return taken;
  }

  /// By which the loss of a call is multiplied.
  double weight(uint64_t call) const {
    return call > whole
               ? -static_cast<double>(copies()) / static_cast<double>(ranks)
               : static_cast<double>(batch);
  }
  /// Samples of a call that are no copies; they come first.
  uint64_t counted(uint64_t call) const {
    uint64_t first = std::min(firstOf(call), samples);
    return call > whole ? 0 : std::min(samples - first, batch);
  }

private:
  uint64_t copies() const {
    uint64_t global = batch * ranks, left = samples % global;
    return left ? global - left : 0;
  }
  uint64_t firstOf(uint64_t call) const {
    return (call * ranks + rank) * batch;
  }

  uint64_t samples, batch, ranks, rank, whole;
  std::vector<uint64_t> taken;
};

/// Counts those of the first `count` rows of `output` whose largest entry is at
/// the row's label. Labels that are no class (padding, by custom negative) do
/// not count.
void countCorrect(const ManifestTensor &output, const char *rows,
                  const ManifestTensor &labels, const char *labelData,
                  uint64_t count, EvaluationSums &sums) {
  uint64_t classes = static_cast<uint64_t>(output.shape.back());
  for (uint64_t row = 0; row < count; ++row) {
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
    ++sums.labels;
    sums.correct += best == static_cast<uint64_t>(label);
  }
}

} // namespace

Expected<EvaluationSums> Trainer::evaluateSums() {
  const ManifestFunction &function = *job.evaluate;
  uint64_t batch = batchSizeOf(job.evaluators);
  EvaluationOrder order(job.evalData->samples(), batch, job.dataRanks,
                        job.dataRank);
  BatchReader batches(
      *job.evalData, [&](uint64_t call) { return order.indices(call); },
      /*isShuffled=*/false, function, 0, order.calls());
  EvaluationSums sums;
  sums.metrics.resize(function.metrics().size());
  for (uint64_t call = 0; call < order.calls(); ++call) {
    Expected<std::span<const mpcomm_array>> taken = batches.take(call);
    if (taken.failed())
      return taken.error();
    auto result = sized<mpcomm_result>();
    if (Error error = session(mpcomm_session_evaluate, function.name.c_str(),
                              taken->data(), uint32_t(taken->size()), &result))
      return error;
    sums.hasLoss = result.has_loss;
    sums.loss += order.weight(call) * result.loss;
    for (size_t i = 0; i < sums.metrics.size(); ++i)
      sums.metrics[i] += order.weight(call) * result.metrics[i].value;
    for (const ManifestResult &output : function.results) {
      if (!output.targets)
        continue;
      auto rows = sized<mpcomm_tensor>();
      if (Error error =
              session(mpcomm_session_tensor, output.name.c_str(), &rows))
        return error;
      const ManifestArgument *labels = function.argumentOf(*output.targets);
      auto found = std::find_if(taken->begin(), taken->end(),
                                [&](const mpcomm_array &array) {
                                  return labels->name == array.name;
                                });
      countCorrect(output, static_cast<const char *>(rows.data), *labels,
                   static_cast<const char *>(found->data),
                   labels->elements / batch * order.counted(call), sums);
    }
  }
  return sums;
}

Error Trainer::evaluate(uint64_t step, bool isLast) {
  // The session forgets a batch that it was given for the next step.
  fed.reset();
  Expected<EvaluationSums> own = evaluateSums();
  if (own.failed())
    return own.error();
  if (Error error = checkData(job.evalData))
    return error;
  std::vector<double> mine = {own->loss, static_cast<double>(own->hasLoss),
                              static_cast<double>(own->labels),
                              static_cast<double>(own->correct)};
  mine.insert(mine.end(), own->metrics.begin(), own->metrics.end());
  std::vector<double> all(mine.size() * job.ranks);
  if (Error error =
          session.gather(mine.data(), all.data(), mine.size() * sizeof(double)))
    return error;
  std::vector<double> sum(mine.size());
  for (size_t i = 0; i < all.size(); ++i)
    sum[i % sum.size()] += all[i];

  EvaluationSummary summary;
  summary.samples = job.evalData->samples();
  summary.hasLoss = sum[1] > 0;
  // Of stages several ranks have the sums of one data rank.
  double counted = static_cast<double>(summary.samples) * sum[1] /
                   static_cast<double>(job.dataRanks);
  summary.loss = sum[0] / counted;
  summary.labels = static_cast<uint64_t>(sum[2]);
  summary.correct = static_cast<uint64_t>(sum[3]);
  std::vector<size_t> metrics = job.evaluate->metrics();
  for (size_t i = 0; i < metrics.size() && summary.hasLoss; ++i)
    summary.metrics.emplace_back(job.evaluate->results[metrics[i]].name,
                                 sum[4 + i] / counted);
  if (Error error = report->evaluation(summary, step, isLast))
    return error;
  if (!summary.hasLoss || std::isfinite(summary.loss) ||
      job.options.allowNonFinite)
    return {};
  if (session.index() != 0)
    return Error::elsewhereOn(0);
  return fail("evaluation, rank 0: the loss is ", summary.loss,
              "; --allow-nonfinite accepts it");
}
