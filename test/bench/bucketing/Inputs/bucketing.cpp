//===- bucketing.cpp - the time and the worth of exact buckets ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// bucketing <gradients> <instances>: times the solver on that many gradients,
// and prints what baselines' buckets come to, as ratios to ours, on so many
// random problems and on the gradients of known models over model clusters.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/Bucketing/Bucketing.h"
#include "mpcomm/Scheduling/Bucketing/Gathering.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

using namespace mpcomm;

using Objective = BucketingObjective;

/// 5e8 elements of f32 to reduce; 5e7 of bf16 to gather.
static int64_t deepSpeedBytes = 2000000000;

static const struct {
  const char *name;
  BucketingPlan (*make)(const BucketingProblem &);
} baselines[] = {
    {"DDP 25 MiB", [](auto &p) { return bucketLikeDDP(p); }},
    {"XLA 30 MiB", [](auto &p) { return bucketLikeXLA(p); }},
    {"Horovod 128 MiB", [](auto &p) { return bucketLikeHorovod(p); }},
    {"Megatron 40 M", [](auto &p) { return bucketLikeMegatron(p); }},
    {"FSDP2 layers", [](auto &p) { return bucketLikeFSDP(p); }},
    {"DeepSpeed", [](auto &p) { return bucketLikeXLA(p, deepSpeedBytes); }},
    {"MG-WFBP", [](auto &p) { return bucketLikeMGWFBP(p); }},
    {"one a tensor", [](auto &p) { return bucketOnePerTensor(p); }},
    {"all in one", [](auto &p) { return bucketAllInOne(p); }},
};
static constexpr size_t numBaselines = std::size(baselines);

/// A plan of ours, which has to be one, or the end of this program.
static BucketingPlan solve(const BucketingProblem &problem,
                           Objective objective) {
  BucketingOptions options;
  options.objective = objective;
  BucketingPlan plan = solveBuckets(problem, options);
  if (std::string error = plan.verify(problem); !error.empty()) {
    std::fprintf(stderr, "error: %s\n", error.c_str());
    std::exit(1);
  }
  return plan;
}

/// What a baseline's plan comes to for one of ours. Less than ours is an error.
static double ratio(const BucketingProblem &problem, size_t baseline,
                    Objective objective, const BucketingPlan &ours) {
  double theirs = baselines[baseline].make(problem).value(objective);
  double ratio = theirs / ours.value(objective);
  if (ratio < 1 - 1e-9) {
    std::fprintf(stderr, "error: %s is better: %.17g of ours\n",
                 baselines[baseline].name, ratio);
    std::exit(1);
  }
  return ratio;
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

static double timeSolver(const BucketingProblem &problem, Objective objective,
                         size_t &buckets) {
  std::vector<double> seconds;
  for (int round = 0; round < 3; ++round) {
    auto begin = std::chrono::steady_clock::now();
    BucketingOptions options;
    options.objective = objective;
    buckets = solveBuckets(problem, options).buckets.size();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
            .count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[1];
}

/// Gradients that come as fast as the link takes them, with two algorithms.
static void measureTime(int64_t gradients) {
  std::mt19937 random(1);
  BucketingProblem problem;
  problem.costs = {{{{5e-6, 1e-9}, {20e-6, 0.5e-9}}}};
  double time = 0;
  for (int64_t i = 0; i < gradients; ++i) {
    BucketingProblem::Tensor &tensor = problem.tensors.emplace_back();
    tensor.bytes = random() % 2000;
    tensor.ready = time += 1e-9 * (random() % 2000);
    tensor.consumer = 1e-10 * double(tensor.bytes);
  }
  problem.computeEnd = time;
  size_t buckets = 0;
  double seconds = timeSolver(problem, Objective::CommunicationEnd, buckets);
  std::printf("%lld gradients, end of communication: %.3f s, %zu buckets\n",
              static_cast<long long>(gradients), seconds, buckets);
  seconds = timeSolver(problem, Objective::StepEnd, buckets);
  std::printf("%lld gradients, end of the step: %.3f s, %zu buckets\n",
              static_cast<long long>(gradients), seconds, buckets);
}

//===----------------------------------------------------------------------===//
// Random problems
//===----------------------------------------------------------------------===//

/// A backward pass of 1 ms to 1 s, communication of 0.3 to 3 times that, sizes
/// over four orders of magnitude.
static BucketingProblem makeRandom(unsigned seed) {
  std::mt19937 random(seed);
  auto between = [&](double low, double high) { // uniform in the logarithm
    return low *
           std::pow(high / low, std::uniform_real_distribution<>()(random));
  };
  BucketingProblem problem;
  int tensors = static_cast<int>(between(20, 400));
  double step = between(1e-3, 1), all = 0, time = 0;
  std::vector<double> gap;
  for (int i = 0; i < tensors; ++i) {
    gap.push_back(between(0.01, 1));
    time += gap.back();
    BucketingProblem::Tensor &tensor = problem.tensors.emplace_back();
    tensor.bytes = static_cast<int64_t>(between(4e3, 4e7));
    tensor.elementBytes = 4;
    tensor.module = i / 8;
    all += double(tensor.bytes);
  }
  double bandwidth = all / step / between(0.3, 3), now = 0;
  for (int i = 0; i < tensors; ++i) {
    problem.tensors[i].ready = now += gap[i] / time * step;
    // An update moves 7 words for one of the gradient, at 50 times the link.
    problem.tensors[i].consumer =
        7 * double(problem.tensors[i].bytes) / (50 * bandwidth);
  }
  problem.computeEnd = now;
  problem.costs = {{{{between(1e-5, 1e-2) * step, 1 / bandwidth}}}};
  return problem;
}

static void compareRandom(unsigned instances, Objective objective) {
  std::vector<std::vector<double>> ratios(numBaselines);
  for (unsigned seed = 0; seed < instances; ++seed) {
    BucketingProblem problem = makeRandom(seed);
    BucketingPlan ours = solve(problem, objective);
    for (size_t baseline = 0; baseline < numBaselines; ++baseline)
      ratios[baseline].push_back(ratio(problem, baseline, objective, ours));
  }
  std::printf("%u random problems, seeds from 0, %s: theirs / ours\n"
              "%-16s %8s %8s %10s\n",
              instances,
              objective == Objective::StepEnd ? "end of the step"
                                              : "end of communication",
              "", "median", "worst", "as good");
  for (size_t baseline = 0; baseline < numBaselines; ++baseline) {
    std::vector<double> &r = ratios[baseline];
    std::sort(r.begin(), r.end());
    auto equal = std::count_if(r.begin(), r.end(),
                               [](double x) { return x < 1 + 1e-9; });
    std::printf("%-16s %8.3f %8.3f %8.1f %%\n", baselines[baseline].name,
                r[r.size() / 2], r.back(), 100.0 * double(equal) / r.size());
  }
}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

namespace {

struct Layer {
  int64_t weights;  // of its matrix
  int64_t vectors;  // of its biases or norms
  double flops = 2; // a weight and a row of the input
  int module = 0;
};

struct Link {
  const char *name;
  int ranks;
  double latency, bandwidth; // of a message; bytes a second and rank
  double flops, memory;      // reached by the rank, a second
};

} // namespace

/// The layers of a GPT-2, the last first: tied embeddings, then blocks.
static std::vector<Layer> makeGPT2(int blocks, int64_t width) {
  std::vector<Layer> layers;
  layers.push_back({0, 2 * width});
  auto finish = [&](int module) {
    for (Layer &layer : layers)
      if (layer.module == 0)
        layer.module = module;
  };
  finish(1);
  for (int block = 0; block < blocks; ++block) {
    layers.push_back({4 * width * width, width});     // MLP, second
    layers.push_back({4 * width * width, 4 * width}); // MLP, first
    layers.push_back({0, 2 * width});                 // norm
    layers.push_back({width * width, width});         // projection
    layers.push_back({3 * width * width, 3 * width, 2.5});
    layers.push_back({0, 2 * width}); // norm
    finish(2 + block);
  }
  layers.push_back({1024 * width, 0, 0});
  layers.push_back({50257 * width, 0});
  finish(2 + blocks);
  return layers;
}

/// A Llama's (Touvron et al., 2023), the last first: head, blocks, embedding.
static std::vector<Layer> makeLlama(int blocks, int64_t width, int64_t inner) {
  std::vector<Layer> layers = {{32000 * width, 0, 2, 1}, {0, width, 0, 1}};
  for (int block = 0; block < blocks; ++block) {
    int module = 2 + block;
    for (int matrix = 0; matrix < 3; ++matrix) // down, up, gate
      layers.push_back({width * inner, 0, 2, module});
    layers.push_back({0, width, 0, module});
    for (int matrix = 0; matrix < 4;
         ++matrix) // projection, values, keys, queries
      layers.push_back({width * width, 0, 2.5, module});
    layers.push_back({0, width, 0, module});
  }
  layers.push_back({32000 * width, 0, 0, 2 + blocks});
  return layers;
}

/// ResNet-50's convolutions, the last first; every layer costs about the same,
/// for its image shrinks as its weights grow.
static std::vector<Layer> makeResNet50() {
  std::vector<Layer> layers = {{2048 * 1000, 1000}};
  const int64_t counts[] = {3, 6, 4, 3}, widths[] = {512, 256, 128, 64};
  for (int stage = 0, module = 1; stage < 4; ++stage)
    for (int64_t k = 0, w = widths[stage]; k < counts[stage]; ++k, ++module) {
      double flops = 2 * (7 << stage) * (7 << stage);
      layers.push_back({4 * w * w, 8 * w, flops, module});
      layers.push_back({9 * w * w, 2 * w, flops, module});
      layers.push_back({4 * w * w, 2 * w, flops, module});
    }
  return layers;
}

/// All-reduces of f32 gradients, by ring and by tree; the update (Adam) moves
/// seven words for each.
static BucketingProblem makeModel(const std::vector<Layer> &layers, double rows,
                                  const Link &link) {
  BucketingProblem problem;
  double n = link.ranks, time = 0;
  double levels = std::ceil(std::log2(n));
  problem.costs = {
      {{{2 * (n - 1) * link.latency, 2 * (n - 1) / n / link.bandwidth},
        {2 * levels * link.latency, 2 * levels / link.bandwidth}}}};
  int module = 0;
  auto add = [&](int64_t elements) {
    if (elements == 0)
      return;
    BucketingProblem::Tensor &tensor = problem.tensors.emplace_back();
    tensor.bytes = 4 * elements;
    tensor.elementBytes = 4;
    tensor.ready = time;
    tensor.consumer = 28 * double(elements) / link.memory;
    tensor.module = module;
  };
  for (const Layer &layer : layers) {
    // The gradients of the weight and of the input.
    time += 5e-6 + 2 * layer.flops * rows * double(layer.weights) / link.flops;
    module = layer.module;
    add(layer.vectors);
    add(layer.weights);
  }
  problem.computeEnd = time;
  return problem;
}

/// All-gathers of bf16 parameters, by ring, before the forward pass uses them.
static GatheringProblem makeGathers(const std::vector<Layer> &layers,
                                    double rows, const Link &link) {
  GatheringProblem problem;
  double n = link.ranks, time = 0;
  problem.costs = {{{{(n - 1) * link.latency, (n - 1) / n / link.bandwidth}}}};
  for (const Layer &layer :
       std::vector<Layer>(layers.rbegin(), layers.rend())) {
    for (int64_t elements : {layer.vectors, layer.weights})
      if (elements)
        problem.tensors.push_back({2 * elements, 0, time, 0, layer.module});
    time += 5e-6 + layer.flops * rows * double(layer.weights) / link.flops;
  }
  problem.computeEnd = time;
  return problem;
}

static void compareModels() {
  const Link links[] = {
      {"8 x NVLink", 8, 2e-6, 300e9, 400e12, 2500e9},
      {"64 x InfiniBand", 64, 4e-6, 40e9, 400e12, 2500e9},
      {"8 x 100 GbE", 8, 15e-6, 11e9, 100e12, 1200e9},
      {"8 x 10 GbE", 8, 30e-6, 1.1e9, 30e12, 600e9},
      {"4 x 1 GbE", 4, 60e-6, 0.11e9, 1e12, 100e9},
  };
  const struct {
    const char *name;
    std::vector<Layer> layers;
    double rows; // of a matrix's input: tokens, images
  } models[] = {{"GPT-2 small", makeGPT2(12, 768), 8 * 1024},
                {"GPT-2 medium", makeGPT2(24, 1024), 4 * 1024},
                {"Llama 1.1 B", makeLlama(22, 2048, 5632), 4 * 1024},
                {"ResNet-50", makeResNet50(), 64}};
  for (bool gathers : {false, true}) {
    deepSpeedBytes = gathers ? 100000000 : 2000000000;
    std::printf("%s: theirs / ours\n%-13s %-16s",
                gathers ? "end of the forward pass, parameters gathered"
                        : "end of the step",
                "", "");
    for (const auto &baseline : baselines)
      std::printf(" %15s", baseline.name);
    std::printf(" %8s %8s\n", "buckets", "/ bound");
    for (const auto &model : models)
      for (const Link &link : links) {
        BucketingProblem problem =
            gathers ? makeGathers(model.layers, model.rows, link).mirror()
                    : makeModel(model.layers, model.rows, link);
        BucketingPlan ours = solve(problem, Objective::StepEnd);
        std::printf("%-13s %-16s", model.name, link.name);
        for (size_t baseline = 0; baseline < numBaselines; ++baseline)
          std::printf(" %15.3f",
                      ratio(problem, baseline, Objective::StepEnd, ours));
        std::printf(" %8zu %8.4f\n", ours.buckets.size(),
                    ours.stepEnd / problem.lowerBound(Objective::StepEnd));
      }
  }
}

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: bucketing <gradients> <instances>\n");
    return 1;
  }
  measureTime(std::atoll(argv[1]));
  unsigned instances = static_cast<unsigned>(std::atoi(argv[2]));
  compareRandom(instances, Objective::CommunicationEnd);
  compareRandom(instances, Objective::StepEnd);
  compareModels();
}
