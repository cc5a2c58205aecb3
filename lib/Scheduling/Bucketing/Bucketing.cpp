//===- Bucketing.cpp - the bucketing problem and its plans ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a well-formed problem is, what a plan comes to, and whether it is one.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/Bucketing/Bucketing.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

using namespace mpcomm;

using Bucket = BucketingPlan::Bucket;
using Slice = BucketingPlan::Slice;
using Tensor = BucketingProblem::Tensor;

/// A time or duration.
static bool isSeconds(double seconds) {
  return std::isfinite(seconds) && seconds >= 0;
}

static std::string checkTensor(const BucketingProblem &problem, size_t i) {
  const Tensor &tensor = problem.tensors[i];
  if (tensor.bytes < 0)
    return "has a negative size";
  if (!isSeconds(tensor.ready) || !isSeconds(tensor.consumer))
    return "expects times that are finite and not negative";
  if (std::isnan(tensor.deadline))
    return "has a deadline that is not a number";
  if (i > 0 && tensor.ready < problem.tensors[i - 1].ready)
    return "is ready before the tensor ahead of it";
  if (tensor.stream < 0 || size_t(tensor.stream) >= problem.streams.size())
    return "is on stream " + std::to_string(tensor.stream) + " of " +
           std::to_string(problem.streams.size());
  if (tensor.key < 0 || size_t(tensor.key) >= problem.costs.size())
    return "has key " + std::to_string(tensor.key) + " of " +
           std::to_string(problem.costs.size());
  if (tensor.elementBytes < 1)
    return "expects elements of at least a byte, got " +
           std::to_string(tensor.elementBytes);
  if (problem.splitBytes > 0 && tensor.splittable &&
      problem.splitBytes % tensor.elementBytes)
    return "has elements of " + std::to_string(tensor.elementBytes) +
           " bytes, which parts of " + std::to_string(problem.splitBytes) +
           " would cut";
  return "";
}

std::string BucketingProblem::check() const {
  if (!isSeconds(computeEnd))
    return "expects an end of compute that is finite and not negative";
  if (capBytes < 1)
    return "expects a cap of at least a byte, got " + std::to_string(capBytes);
  if (splitBytes < 0 || splitBytes > capBytes)
    return "expects parts of 0 to " + std::to_string(capBytes) +
           " bytes (the cap), got " + std::to_string(splitBytes);
  for (size_t s = 0; s < streams.size(); ++s)
    if (!isSeconds(streams[s].free) || streams[s].memoryBytes < 0)
      return "stream " + std::to_string(s) +
             " expects a finite time and a memory bound, neither negative";
  for (size_t k = 0; k < costs.size(); ++k) {
    if (costs[k].pieces.empty())
      return "key " + std::to_string(k) + " has no cost";
    for (const CostLine &piece : costs[k].pieces)
      if (!isSeconds(piece.latency) || !isSeconds(piece.secondsPerByte))
        return "key " + std::to_string(k) +
               " expects costs that are finite and not negative";
  }
  int64_t bytes = 0, parts = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (std::string error = checkTensor(*this, i); !error.empty())
      return "tensor " + std::to_string(i) + " " + error;
    if (__builtin_add_overflow(bytes, tensors[i].bytes, &bytes))
      return "expects less than 2^63 bytes in all";
    parts +=
        1 + (splitBytes && tensors[i].splittable ? tensors[i].bytes / splitBytes
                                                 : 0);
    if (parts >= std::numeric_limits<int32_t>::max())
      return "expects less than 2^31 tensors and parts of them";
  }
  return "";
}

/// Most bytes alive at one time, by stream. Alive bytes grow only when a bucket
/// opens, so those are the times to look at.
static std::vector<int64_t> findPeaks(const std::vector<Bucket> &buckets,
                                      size_t numStreams) {
  std::vector<std::vector<std::pair<double, int64_t>>> opens(numStreams),
      finishes(numStreams); // the latter come sorted
  for (const Bucket &bucket : buckets) {
    opens[bucket.stream].push_back({bucket.open, bucket.bytes});
    finishes[bucket.stream].push_back({bucket.finish, bucket.bytes});
  }
  std::vector<int64_t> peaks(numStreams, 0);
  for (size_t s = 0; s < numStreams; ++s) {
    if (!std::is_sorted(opens[s].begin(), opens[s].end()))
      std::sort(opens[s].begin(), opens[s].end());
    int64_t alive = 0;
    size_t finished = 0;
    for (size_t k = 0; k < opens[s].size(); ++k) {
      alive += opens[s][k].second;
      if (k + 1 < opens[s].size() && opens[s][k + 1].first == opens[s][k].first)
        continue;
      while (finished < finishes[s].size() &&
             finishes[s][finished].first <= opens[s][k].first)
        alive -= finishes[s][finished++].second;
      peaks[s] = std::max(peaks[s], alive);
    }
  }
  return peaks;
}

void BucketingPlan::evaluate(const BucketingProblem &problem) {
  std::vector<double> free;
  for (const BucketingProblem::Stream &stream : problem.streams)
    free.push_back(stream.free);
  communicationEnd = 0;
  for (Bucket &bucket : buckets) {
    const Tensor &first = problem.tensors[slices[bucket.begin].tensor];
    const Tensor &last = problem.tensors[slices[bucket.end - 1].tensor];
    bucket.stream = first.stream;
    bucket.key = first.key;
    bucket.open = first.ready;
    bucket.ready = last.ready;
    bucket.bytes = 0;
    bucket.consumer = 0;
    for (int64_t k = bucket.begin; k < bucket.end; ++k) {
      const Tensor &tensor = problem.tensors[slices[k].tensor];
      bucket.bytes += slices[k].bytes;
      bucket.consumer += slices[k].bytes == tensor.bytes
                             ? tensor.consumer
                             : tensor.consumer * double(slices[k].bytes) /
                                   double(tensor.bytes);
    }
    const CostCurve &cost = problem.costs[bucket.key];
    bucket.piece = cost.bestIndex(bucket.bytes);
    bucket.start = std::max(free[bucket.stream], bucket.ready);
    bucket.finish = bucket.start + cost.pieces[bucket.piece].at(bucket.bytes);
    free[bucket.stream] = bucket.finish;
    communicationEnd = std::max(communicationEnd, bucket.finish);
  }
  std::vector<int64_t> arrival(buckets.size());
  std::iota(arrival.begin(), arrival.end(), 0);
  auto earlier = [&](int64_t x, int64_t y) {
    if (buckets[x].finish != buckets[y].finish)
      return buckets[x].finish < buckets[y].finish;
    return x < y;
  };
  if (!std::is_sorted(arrival.begin(), arrival.end(), earlier))
    std::sort(arrival.begin(), arrival.end(), earlier);
  stepEnd = problem.computeEnd;
  for (int64_t b : arrival)
    stepEnd = std::max(stepEnd, buckets[b].finish) + buckets[b].consumer;
  peakBytes = findPeaks(buckets, problem.streams.size());
}

namespace {

/// Follows the buckets through the tensors of each stream and key.
class Partition {
public:
  explicit Partition(const BucketingProblem &problem) : problem(problem) {
    for (size_t i = 0; i < problem.tensors.size(); ++i)
      places[place(problem.tensors[i])].tensors.push_back(i);
  }

  /// The next slice, in the order of the stream's buckets.
  std::string take(const Slice &slice) {
    std::string name = "slice of tensor " + std::to_string(slice.tensor);
    Place &at = places[place(problem.tensors[slice.tensor])];
    if (at.next == at.tensors.size() || at.tensors[at.next] != slice.tensor)
      return name + " is out of order or there twice";
    const Tensor &tensor = problem.tensors[slice.tensor];
    if (slice.offset != at.offset || slice.bytes < 0 ||
        slice.bytes > tensor.bytes - slice.offset ||
        (slice.bytes == 0 && tensor.bytes > 0))
      return name + " does not begin where the one before ends, or is too long";
    at.offset += slice.bytes;
    if (at.offset == tensor.bytes) {
      ++at.next;
      at.offset = 0;
    } else if (!problem.splitBytes || !tensor.splittable ||
               at.offset % problem.splitBytes) {
      return name + " is cut at byte " + std::to_string(at.offset) +
             ", where it must not be";
    }
    return "";
  }

  std::string finish() const {
    for (const auto &[_, at] : places)
      if (at.next != at.tensors.size())
        return "tensor " + std::to_string(at.tensors[at.next]) +
               " is not in a bucket, or not all of it";
    return "";
  }

private:
  struct Place {
    std::vector<int64_t> tensors;
    size_t next = 0;
    int64_t offset = 0;
  };
  static std::pair<int, int> place(const Tensor &tensor) {
    return {tensor.stream, tensor.key};
  }

  const BucketingProblem &problem;
  std::map<std::pair<int, int>, Place> places;
};

} // namespace

static bool agree(double x, double y) {
  return std::abs(x - y) <= 1e-9 * std::max(std::abs(x), std::abs(y));
}

static bool agree(const Bucket &x, const Bucket &y) {
  return x.stream == y.stream && x.key == y.key && x.bytes == y.bytes &&
         x.piece == y.piece && agree(x.open, y.open) &&
         agree(x.ready, y.ready) && agree(x.start, y.start) &&
         agree(x.finish, y.finish) && agree(x.consumer, y.consumer);
}

/// What is wrong with bucket `b` by itself: its key, its size, its deadlines.
static std::string verifyBucket(const BucketingProblem &problem,
                                const BucketingPlan &plan, size_t b) {
  const Bucket &bucket = plan.buckets[b];
  const Tensor &first = problem.tensors[plan.slices[bucket.begin].tensor];
  for (int64_t k = bucket.begin; k < bucket.end; ++k) {
    const Tensor &tensor = problem.tensors[plan.slices[k].tensor];
    if (tensor.stream != first.stream || tensor.key != first.key)
      return "holds tensors of several streams or keys";
    if (bucket.finish > tensor.deadline &&
        !agree(bucket.finish, tensor.deadline))
      return "finishes after the deadline of tensor " +
             std::to_string(plan.slices[k].tensor);
  }
  bool whole = bucket.end - bucket.begin == 1 && bucket.bytes == first.bytes;
  bool canSplit = problem.splitBytes > 0 && first.splittable;
  if (bucket.bytes > problem.capBytes && (!whole || canSplit))
    return "holds " + std::to_string(bucket.bytes) + " bytes, more than " +
           std::to_string(problem.capBytes);
  return "";
}

std::string BucketingPlan::verify(const BucketingProblem &problem) const {
  if (std::string wrong = problem.check(); !wrong.empty())
    return wrong;
  if (!error.empty())
    return error;
  int64_t end = 0;
  Partition partition(problem);
  for (size_t b = 0; b < buckets.size(); ++b) {
    std::string name = "bucket " + std::to_string(b) + " ";
    if (buckets[b].begin != end || buckets[b].end <= end ||
        buckets[b].end > static_cast<int64_t>(slices.size()))
      return name + "does not begin where the one before ends, or is empty";
    for (end = buckets[b].begin; end < buckets[b].end; ++end) {
      if (slices[end].tensor < 0 ||
          slices[end].tensor >= static_cast<int64_t>(problem.tensors.size()))
        return name + "holds a tensor that does not exist";
      if (std::string wrong = partition.take(slices[end]); !wrong.empty())
        return name + ": " + wrong;
    }
  }
  if (end != static_cast<int64_t>(slices.size()))
    return "expects every slice in a bucket";
  if (std::string wrong = partition.finish(); !wrong.empty())
    return wrong;
  BucketingPlan again = *this;
  again.evaluate(problem);
  for (size_t b = 0; b < buckets.size(); ++b) {
    std::string name = "bucket " + std::to_string(b) + " ";
    if (std::string wrong = verifyBucket(problem, again, b); !wrong.empty())
      return name + wrong;
    if (!agree(buckets[b], again.buckets[b]))
      return name + "has figures that do not follow from its tensors";
  }
  if (!agree(communicationEnd, again.communicationEnd) ||
      !agree(stepEnd, again.stepEnd) || peakBytes != again.peakBytes)
    return "has ends or a peak that do not follow from its buckets";
  for (size_t s = 0; s < problem.streams.size(); ++s)
    if (peakBytes[s] > problem.streams[s].memoryBytes)
      return "stream " + std::to_string(s) + " has " +
             std::to_string(peakBytes[s]) + " bytes alive, more than " +
             std::to_string(problem.streams[s].memoryBytes);
  return "";
}

std::vector<int64_t>
BucketingPlan::bucketOfTensor(const BucketingProblem &problem) const {
  std::vector<int64_t> result(problem.tensors.size(), -1);
  for (size_t b = 0; b < buckets.size(); ++b)
    for (int64_t k = buckets[b].begin; k < buckets[b].end; ++k)
      if (slices[k].offset == 0)
        result[slices[k].tensor] = static_cast<int64_t>(b);
  return result;
}
