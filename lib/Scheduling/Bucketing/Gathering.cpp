//===- Gathering.cpp - which gathers travel together ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Time that runs backwards from the end of the step E: a bucket starts at E
// minus its finish. What is needed at n is ready there at computeEnd - n, as
// all that follows its first use is before it. What is ready at r must not be
// finished there later than E - r: the rest of the step is a consumer of
// length r. docs/Design/Bucketing.md, "Gathers".
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/Bucketing/Gathering.h"
#include <algorithm>
#include <cmath>

using namespace mpcomm;

std::string GatheringProblem::check() const {
  double lastReady = 0, firstNeeded = BucketingProblem::never;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor &tensor = tensors[i];
    std::string name = "tensor " + std::to_string(i) + " ";
    if (!std::isfinite(tensor.ready) || tensor.ready < 0 ||
        !std::isfinite(tensor.needed) || tensor.needed > computeEnd)
      return name + "expects times in the step that computation takes";
    if (i > 0 && tensor.needed < tensors[i - 1].needed)
      return name + "is needed before the tensor ahead of it";
    lastReady = std::max(lastReady, tensor.ready);
    firstNeeded = std::min(firstNeeded, tensor.needed);
  }
  if (lastReady > firstNeeded)
    return "a tensor is ready only after the first use of another";
  return mirror().check();
}

BucketingProblem GatheringProblem::mirror() const {
  BucketingProblem mirrored;
  mirrored.costs = costs;
  mirrored.capBytes = capBytes;
  mirrored.streams.front().memoryBytes = memoryBytes;
  // A bucket waits for the tensors of those before it, too.
  std::vector<double> ready = {0};
  for (const Tensor &tensor : tensors)
    ready.push_back(std::max(ready.back(), tensor.ready));
  for (size_t i = tensors.size(); i-- > 0;) {
    BucketingProblem::Tensor &tensor = mirrored.tensors.emplace_back();
    tensor.bytes = tensors[i].bytes;
    tensor.key = tensors[i].key;
    tensor.ready = computeEnd - tensors[i].needed;
    tensor.consumer = ready[i + 1] - ready[i];
    tensor.splittable = false;
    tensor.module = tensors[i].module;
  }
  mirrored.computeEnd = computeEnd - ready.back();
  return mirrored;
}

BucketingPlan GatheringProblem::mirror(const BucketingPlan &plan) const {
  BucketingPlan result = plan;
  result.slices.clear();
  result.buckets.clear();
  result.communicationEnd = 0;
  for (auto bucket = plan.buckets.rbegin(); bucket != plan.buckets.rend();
       ++bucket) {
    BucketingPlan::Bucket &turned = result.buckets.emplace_back(*bucket);
    turned.begin = static_cast<int64_t>(result.slices.size());
    turned.ready = 0;
    for (int64_t k = bucket->end; k-- > bucket->begin;) {
      BucketingPlan::Slice slice = plan.slices[k];
      slice.tensor = static_cast<int64_t>(tensors.size()) - 1 - slice.tensor;
      turned.ready = std::max(turned.ready, tensors[slice.tensor].ready);
      result.slices.push_back(slice);
    }
    turned.end = static_cast<int64_t>(result.slices.size());
    turned.start = plan.stepEnd - bucket->finish;
    turned.finish = plan.stepEnd - bucket->start;
    turned.open = turned.start;
    turned.consumer = 0;
    result.communicationEnd = std::max(result.communicationEnd, turned.finish);
  }
  return result;
}

BucketingPlan mpcomm::solveGathers(const GatheringProblem &problem,
                                   const BucketingOptions &options) {
  BucketingPlan plan;
  plan.error = problem.check();
  return plan.error.empty()
             ? problem.mirror(solveBuckets(problem.mirror(), options))
             : plan;
}
