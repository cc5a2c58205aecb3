//===- BucketingStreams.cpp - a bucketing problem, stream by stream -------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From the problem to the lines of each stream, from their runs to the plan,
// and what runs come to.
//
//===----------------------------------------------------------------------===//

#include "Bucketing/BucketingDetail.h"
#include <algorithm>
#include <map>

using namespace mpcomm;
using namespace mpcomm::bucketing;

using Tensor = BucketingProblem::Tensor;

Arrivals::Arrivals(std::vector<std::pair<double, double>> buckets) {
  std::sort(buckets.begin(), buckets.end());
  double work = 0;
  after.resize(buckets.size());
  for (size_t k = buckets.size(); k-- > 0;)
    after[k] = work += buckets[k].second;
  double most = 0;
  for (size_t k = 0; k < buckets.size(); ++k) {
    time.push_back(buckets[k].first);
    most = std::max(most, time[k] + after[k]);
    reach.push_back(most);
  }
}

double Arrivals::delayed(double finish) const {
  size_t k = std::lower_bound(time.begin(), time.end(), finish) - time.begin();
  // Those of time[k] and later arrive at `finish` or later; t + work is largest
  // at an arrival or at `finish` itself.
  double here = finish + (k < time.size() ? after[k] : 0);
  return k > 0 ? std::max(here, reach[k - 1]) : here;
}

double Arrivals::latestFinish(double bound) const {
  size_t k =
      std::upper_bound(reach.begin(), reach.end(), bound) - reach.begin();
  return k < time.size() ? bound - after[k] : bound;
}

std::vector<double>
StreamProblem::finishes(const std::vector<BucketRun> &runs) const {
  std::vector<double> result;
  result.reserve(runs.size());
  double time = free;
  for (const BucketRun &run : runs) {
    const Line &line = lines[run.line];
    time = std::max(time, line.ready[run.to - 1]) +
           line.cost->at(line.bytesBefore[run.to] - line.bytesBefore[run.from]);
    result.push_back(time);
  }
  return result;
}

double StreamProblem::value(const std::vector<BucketRun> &runs) const {
  double work = 0, result = floor;
  for (const Line &line : lines)
    work += line.work[0];
  std::vector<double> finish = finishes(runs);
  for (size_t b = 0; b < runs.size(); ++b) {
    const Line &line = lines[runs[b].line];
    // With one line exactly what is left; no sum of differences.
    double left = lines.size() == 1 ? line.work[runs[b].from] : work;
    result = std::max(result, endOf(finish[b], left));
    work -= line.work[runs[b].from] - line.work[runs[b].to];
  }
  return result;
}

int64_t StreamProblem::peakBytes(const std::vector<BucketRun> &runs) const {
  std::vector<double> finish = finishes(runs);
  std::vector<std::pair<double, int64_t>> opens;
  auto bytes = [&](const BucketRun &run) {
    const Line &line = lines[run.line];
    return line.bytesBefore[run.to] - line.bytesBefore[run.from];
  };
  for (const BucketRun &run : runs)
    opens.push_back({lines[run.line].open[run.from], bytes(run)});
  std::sort(opens.begin(), opens.end());
  int64_t alive = 0, peak = 0;
  size_t finished = 0;
  for (size_t k = 0; k < opens.size(); ++k) {
    alive += opens[k].second;
    if (k + 1 < opens.size() && opens[k + 1].first == opens[k].first)
      continue;
    for (; finished < runs.size() && finish[finished] <= opens[k].first;
         ++finished)
      alive -= bytes(runs[finished]);
    peak = std::max(peak, alive);
  }
  return peak;
}

/// Adds a tensor, or all the parts that it may be cut into.
static void addTensor(const Tensor &tensor, int64_t i, int64_t splitBytes,
                      Line &line) {
  int64_t most = splitBytes && tensor.splittable ? splitBytes : tensor.bytes;
  int64_t offset = 0;
  do {
    int64_t bytes = std::min(most, tensor.bytes - offset);
    line.open.push_back(tensor.ready);
    line.ready.push_back(tensor.ready);
    line.bytesBefore.push_back(line.bytesBefore.back() + bytes);
    // Not yet sums; finishLine() adds up.
    line.work.push_back(bytes == tensor.bytes
                            ? tensor.consumer
                            : tensor.consumer * double(bytes) /
                                  double(tensor.bytes));
    line.deadline.push_back(tensor.deadline);
    line.parts.push_back({i, offset, bytes});
    offset += bytes;
  } while (offset < tensor.bytes);
}

static void finishLine(Line &line) {
  line.work.push_back(0);
  line.deadline.push_back(BucketingProblem::never);
  for (int32_t j = line.size(); j-- > 0;) {
    line.work[j] += line.work[j + 1];
    line.deadline[j] = std::min(line.deadline[j], line.deadline[j + 1]);
  }
}

std::vector<StreamProblem>
bucketing::buildStreams(const BucketingProblem &problem,
                        BucketingObjective objective, bool split) {
  std::vector<StreamProblem> streams(problem.streams.size());
  std::map<std::pair<int, int>, size_t> lineOf; // by stream and key
  std::vector<size_t> numLines(streams.size(), 0);
  std::map<std::pair<int, int>, int64_t> sizes;
  int lastStream = -1, lastKey = -1;
  int64_t *size = nullptr;
  for (const Tensor &tensor : problem.tensors) {
    if (tensor.stream != lastStream || tensor.key != lastKey)
      size = &sizes[{lastStream = tensor.stream, lastKey = tensor.key}];
    ++*size;
  }
  for (const auto &[place, count] : sizes) {
    lineOf[place] = streams[place.first].lines.size();
    Line &line = streams[place.first].lines.emplace_back();
    line.stream = place.first;
    line.key = place.second;
    line.cost = &problem.costs[place.second];
    line.bytesBefore.push_back(0);
    for (auto *times : {&line.open, &line.ready, &line.work, &line.deadline})
      times->reserve(count + 1);
    line.bytesBefore.reserve(count + 1);
    line.parts.reserve(count);
  }
  double floor = problem.computeEnd;
  Line *line = nullptr;
  for (size_t i = 0; i < problem.tensors.size(); ++i) {
    const Tensor &tensor = problem.tensors[i];
    if (!line || line->stream != tensor.stream || line->key != tensor.key)
      line =
          &streams[tensor.stream].lines[lineOf.at({tensor.stream, tensor.key})];
    addTensor(tensor, static_cast<int64_t>(i), split ? problem.splitBytes : 0,
              *line);
    floor += tensor.consumer;
  }
  for (size_t s = 0; s < streams.size(); ++s) {
    StreamProblem &stream = streams[s];
    for (Line &line : stream.lines)
      finishLine(line);
    stream.free = problem.streams[s].free;
    stream.capBytes = problem.capBytes;
    stream.memoryBytes = problem.streams[s].memoryBytes;
    stream.stepEnd = objective == BucketingObjective::StepEnd;
    stream.floor = stream.stepEnd ? floor : 0;
  }
  return streams;
}

BucketingPlan
bucketing::buildPlan(const BucketingProblem &problem,
                     const std::vector<StreamProblem> &streams,
                     const std::vector<std::vector<BucketRun>> &runs) {
  struct Start {
    double time;
    size_t stream, run;
  };
  std::vector<Start> starts;
  size_t numParts = 0;
  for (size_t s = 0; s < streams.size(); ++s) {
    std::vector<double> finish = streams[s].finishes(runs[s]);
    for (size_t b = 0; b < runs[s].size(); ++b) {
      const Line &line = streams[s].lines[runs[s][b].line];
      double free = b > 0 ? finish[b - 1] : streams[s].free;
      starts.push_back({std::max(free, line.ready[runs[s][b].to - 1]), s, b});
      numParts += runs[s][b].to - runs[s][b].from;
    }
  }
  // Several streams: in the order in which their buckets start.
  if (streams.size() > 1)
    std::sort(starts.begin(), starts.end(), [](const Start &x, const Start &y) {
      return std::tie(x.time, x.stream, x.run) <
             std::tie(y.time, y.stream, y.run);
    });
  BucketingPlan plan;
  plan.slices.reserve(numParts);
  plan.buckets.reserve(starts.size());
  for (const Start &start : starts) {
    const BucketRun &run = runs[start.stream][start.run];
    const Line &line = streams[start.stream].lines[run.line];
    BucketingPlan::Bucket bucket;
    bucket.begin = static_cast<int64_t>(plan.slices.size());
    for (int32_t k = run.from; k < run.to; ++k) {
      const BucketingPlan::Slice &part = line.parts[k];
      if (k > run.from && plan.slices.back().tensor == part.tensor)
        plan.slices.back().bytes += part.bytes;
      else
        plan.slices.push_back(part);
    }
    bucket.end = static_cast<int64_t>(plan.slices.size());
    plan.buckets.push_back(bucket);
  }
  plan.evaluate(problem);
  return plan;
}

/// By run: `limit`, when it must have finished for its own consumers and
/// deadlines; and the latest finish with which those after it can still meet
/// theirs.
static std::vector<double> findLatest(const StreamProblem &stream, double end,
                                      const std::vector<BucketRun> &runs,
                                      std::vector<double> &limit) {
  std::vector<double> latest(runs.size());
  limit.assign(runs.size(), 0);
  std::vector<int32_t> at; // by line
  for (const Line &line : stream.lines)
    at.push_back(line.size());
  double work = 0, next = BucketingProblem::never;
  for (size_t b = runs.size(); b-- > 0;) {
    const Line &line = stream.lines[runs[b].line];
    work = stream.lines.size() == 1
               ? line.work[runs[b].from]
               : work + line.work[runs[b].from] - line.work[runs[b].to];
    at[runs[b].line] = runs[b].from;
    limit[b] = stream.latestFinish(end, work);
    for (size_t l = 0; l < at.size(); ++l)
      limit[b] = std::min(limit[b], stream.lines[l].deadline[at[l]]);
    latest[b] = next;
    next = std::min(next, limit[b]) -
           line.cost->at(line.bytesBefore[runs[b].to] -
                         line.bytesBefore[runs[b].from]);
  }
  return latest;
}

/// One pass from the first run to the last; whether it merged any.
static bool mergeOnce(const StreamProblem &stream, double end,
                      std::vector<BucketRun> &runs) {
  std::vector<double> limit;
  std::vector<double> latest = findLatest(stream, end, runs, limit);
  auto finish = [&](double free, const BucketRun &run) {
    const Line &line = stream.lines[run.line];
    return std::max(free, line.ready[run.to - 1]) +
           line.cost->at(line.bytesBefore[run.to] - line.bytesBefore[run.from]);
  };
  std::vector<BucketRun> result;
  double free = stream.free; // before the last of the result
  double due = 0;            // limit of the last of the result
  for (size_t b = 0; b < runs.size(); ++b) {
    if (b > 0 && result.back().line == runs[b].line) {
      const Line &line = stream.lines[runs[b].line];
      BucketRun both = {runs[b].line, result.back().from, runs[b].to};
      bool fits = line.bytesBefore[both.to] - line.bytesBefore[both.from] <=
                      stream.capBytes &&
                  finish(free, both) <= std::min(due, latest[b]);
      if (fits && stream.memoryBytes != BucketingProblem::unlimited) {
        std::vector<BucketRun> all = result;
        all.back() = both;
        all.insert(all.end(), runs.begin() + b + 1, runs.end());
        fits = stream.peakBytes(all) <= stream.memoryBytes;
      }
      if (fits) {
        result.back() = both;
        continue;
      }
    }
    if (b > 0)
      free = finish(free, result.back());
    result.push_back(runs[b]);
    due = limit[b];
  }
  std::swap(runs, result);
  return runs.size() < result.size();
}

void bucketing::mergeNeighbours(const StreamProblem &stream, double end,
                                std::vector<BucketRun> &runs) {
  while (mergeOnce(stream, end, runs)) {
  }
}
