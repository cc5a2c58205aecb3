//===- Convolution.cpp - convolutions on a CUDA device --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/cuda/Convolution.h"

#include "device/Descriptors.h"
#include "device/cuda/Choices.h"
#include "device/cuda/ConvolutionPlan.h"
#include "device/cuda/Scratch.h"
#include "support/DType.h"

#include <algorithm>
#include <cstring>
#include <optional>

using namespace mprt;
using namespace mprt::cuda;

/// The most scratch that a convolution may take.
static constexpr uint64_t mostWorkspaceBytes = uint64_t(512) << 20;

static Choices<ConvolutionPlan::Choice> &choices() {
  static Choices<ConvolutionPlan::Choice> made;
  return made;
}

struct Convolution::State {
  const Driver &driver;
  Gemm &products;
  const Cudnn *library = nullptr;
  DnnHandle handle = nullptr;
  Workspaces workspaces;
  std::unordered_map<const mprt_window_desc *, std::unique_ptr<ConvolutionPlan>>
      plans;

  State(const Driver &driver, Gemm &products)
      : driver(driver), products(products), workspaces(driver) {}
  ~State() {
    plans.clear();
    if (handle)
      library->cudnnDestroy(handle);
  }

  Error start(CUstream stream);
  Expected<ConvolutionPlan *> planFor(const mprt_window_desc &desc,
                                      CUstream stream, const void *a,
                                      const void *b, void *c, bool captured);
  Error choose(ConvolutionPlan &plan, CUstream stream, const void *a,
               const void *b, void *c, bool captured);
  Error run(ConvolutionPlan &plan, const ConvolutionPlan::Choice &choice,
            CUstream stream, void *workspace, const void *a, const void *b,
            void *c);
  Error clear(const mprt_window_desc &desc, CUstream stream, void *c);
};

Convolution::Convolution(const Driver &driver, Gemm &products)
    : state(std::make_unique<State>(driver, products)) {}

Convolution::~Convolution() = default;

uint64_t Convolution::deviceBytes() const { return state->workspaces.bytes(); }

Error Convolution::State::start(CUstream stream) {
  if (!handle) {
    Expected<const Cudnn *> loaded = Cudnn::load();
    if (!loaded)
      return loaded.error().withContext(
          "convolutions on a CUDA device need cuDNN: ");
    library = *loaded;
    if (Error error =
            library->check(library->cudnnCreate(&handle), "cudnnCreate"))
      return error;
  }
  return library->check(library->cudnnSetStream(handle, stream),
                        "cudnnSetStream");
}

//===----------------------------------------------------------------------===//
// The choice of an algorithm
//===----------------------------------------------------------------------===//

static ChoiceKey keyOf(const mprt_window_desc &d, CUcontext context) {
  ChoiceKey key = {int64_t(reinterpret_cast<uintptr_t>(context)), d.kind,
                   d.type, d.groups, allowsTf32()};
  for (const int64_t *values :
       {d.input, d.output, d.strides_a, d.strides_b, d.strides_c})
    key.insert(key.end(), values, values + 4);
  for (const int64_t *values : {d.window, d.strides, d.low, d.dilation})
    key.insert(key.end(), values, values + 2);
  return key;
}

Error Convolution::State::choose(ConvolutionPlan &plan, CUstream stream,
                                 const void *a, const void *b, void *c,
                                 bool captured) {
  CUcontext context = nullptr;
  if (Error error =
          driver.check(driver.cuCtxGetCurrent(&context), "cuCtxGetCurrent"))
    return error;
  ChoiceKey key = keyOf(plan.desc, context);
  if (std::optional<ConvolutionPlan::Choice> known = choices().find(key)) {
    plan.choice = *known;
    plan.settled = true;
    if (workspaces.get(stream, known->workspaceBytes, captured).bytes >=
        known->workspaceBytes)
      return {};
    plan.settled = false; // this stream's scratch is too small for it
  }
  uint64_t room =
      captured ? workspaces.get(stream, 0, true).bytes : mostWorkspaceBytes;
  Expected<std::vector<ConvolutionPlan::Choice>> candidates =
      plan.list(handle, room);
  if (!candidates)
    return candidates.error();
  plan.choice = candidates->front();
  plan.settled = !captured;
  if (captured)
    return {};
  if (plan.product)
    candidates->push_back({.isProduct = true});
  // Candidates are tried with scratch of their own, of which only what the best
  // one needs is kept. Those for which there is no room are none.
  std::optional<ScratchBuffer> scratch;
  while (true) {
    uint64_t most = 0;
    for (const ConvolutionPlan::Choice &one : *candidates)
      most = std::max(most, one.workspaceBytes);
    if (most == 0)
      break;
    scratch.emplace(driver, most);
    if (scratch->data())
      break;
    std::erase_if(*candidates, [&](const ConvolutionPlan::Choice &one) {
      return one.workspaceBytes == most;
    });
    if (candidates->empty())
      return makeError(MPRT_OUT_OF_MEMORY, "no memory of the device for ", most,
                       " bytes of scratch");
  }
  plan.choice = candidates->front();
  if (tunes() && candidates->size() > 1) {
    // Into the result, which is overwritten in any case.
    void *workspace = scratch ? scratch->data() : nullptr;
    Expected<size_t> fastest =
        findFastest(driver, stream, candidates->size(), [&](size_t candidate) {
          return run(plan, (*candidates)[candidate], stream, workspace, a, b,
                     c);
        });
    if (!fastest)
      return fastest.error();
    plan.choice = (*candidates)[*fastest];
  }
  if (Error error = driver.check(driver.cuStreamSynchronize(stream),
                                 "cuStreamSynchronize"))
    return error;
  scratch.reset();
  uint64_t need = plan.choice.workspaceBytes;
  if (workspaces.get(stream, need, false).bytes < need)
    return makeError(MPRT_OUT_OF_MEMORY, "no memory of the device for ", need,
                     " bytes of scratch");
  choices().add(std::move(key), plan.choice);
  return {};
}

Expected<ConvolutionPlan *>
Convolution::State::planFor(const mprt_window_desc &desc, CUstream stream,
                            const void *a, const void *b, void *c,
                            bool captured) {
  std::unique_ptr<ConvolutionPlan> &kept = plans[&desc];
  if (kept && (kept->settled || captured) &&
      std::memcmp(&kept->desc, &desc, sizeof desc) == 0 &&
      workspaces.get(stream, kept->choice.workspaceBytes, captured).bytes >=
          kept->choice.workspaceBytes)
    return kept.get();
  auto plan = std::make_unique<ConvolutionPlan>(*library);
  if (Error error = plan->describe(desc))
    return error;
  if (Error error = choose(*plan, stream, a, b, c, captured))
    return error;
  kept = std::move(plan);
  return kept.get();
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

Error Convolution::State::run(ConvolutionPlan &plan,
                              const ConvolutionPlan::Choice &choice,
                              CUstream stream, void *workspace, const void *a,
                              const void *b, void *c) {
  if (choice.isProduct)
    return products.run(*plan.product, stream, a, b, c);
  return plan.run(handle, choice, workspace, a, b, c);
}

static const char *nameOfKind(uint8_t kind) {
  return kind == MPRT_CONVOLUTION              ? "a convolution of ["
         : kind == MPRT_CONVOLUTION_INPUT_GRAD ? "the input gradient of ["
                                               : "the filter gradient of [";
}

static Error nameConvolution(const Error &error, const mprt_window_desc &d) {
  return makeError(error.status(), nameOfKind(d.kind), d.input[0], ", ",
                   d.input[1], ", ", d.input[2], ", ", d.input[3],
                   "]: ", error.message());
}

/// What the library is not asked for.
static Error refusePools(const mprt_window_desc &desc) {
  if (isConvolution(desc))
    return {};
  return Error(MPRT_UNSUPPORTED,
               "pools on a CUDA device are kernels of the program; cuDNN has "
               "other rules for NaNs and for equal elements");
}

/// The result for an empty batch: a filter's gradient is zero.
Error Convolution::State::clear(const mprt_window_desc &desc, CUstream stream,
                                void *c) {
  int64_t sizes[4];
  sizesOfOperand(desc, 2, sizes);
  uint64_t bytes = sizeOf(mprt_dtype(desc.type));
  for (int64_t size : sizes)
    bytes *= uint64_t(size);
  if (bytes == 0)
    return {};
  return driver.check(driver.cuMemsetD8Async(addressOf(c), 0, bytes, stream),
                      "cuMemsetD8Async");
}

Error Convolution::run(const mprt_window_desc &desc, CUstream stream,
                       const void *a, const void *b, void *c) {
  if (Error error = check(desc))
    return error;
  if (Error error = refusePools(desc))
    return error;
  if (desc.input[0] == 0)
    return state->clear(desc, stream, c);
  if (Error error = state->start(stream))
    return error;
  Expected<bool> captured = isCaptured(state->driver, stream);
  if (!captured)
    return captured.error();
  Expected<ConvolutionPlan *> planned =
      state->planFor(desc, stream, a, b, c, *captured);
  if (!planned)
    return nameConvolution(planned.error(), desc);
  ConvolutionPlan &plan = **planned;
  void *workspace = state->workspaces.get(stream, 0, *captured).data;
  if (Error error = state->run(plan, plan.choice, stream, workspace, a, b, c))
    return nameConvolution(error, desc);
  return {};
}

Expected<std::string> Convolution::describePlan(const mprt_window_desc &desc) {
  if (Error error = check(desc))
    return error;
  if (Error error = refusePools(desc))
    return error;
  if (desc.input[0] == 0)
    return std::string("nothing to do");
  return std::string("cuDNN, or cuBLASLt with windows of 1 x 1");
}
