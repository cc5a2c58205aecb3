//===- Attention.cpp - attention by cuDNN or by kernels -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/cuda/Attention.h"

#include "device/Descriptors.h"
#include "device/cuda/AttentionPlan.h"
#include "device/cuda/Scratch.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>

using namespace mprt;
using namespace mprt::cuda;

/// The most scratch that the library may take: gradients of 2^29 scores.
static constexpr uint64_t mostWorkspaceBytes = uint64_t(1) << 30;
/// Plans of the library that are timed: each is compiled first.
static constexpr size_t mostPlans = 2;
/// The largest mask that is read.
static constexpr int64_t mostMaskBytes = int64_t(1) << 28;
/// NVIDIA's frontend refuses 9.10.0 and 9.10.1, and has older releases exclude
/// scores by a large number instead of -infinity.
static constexpr size_t leastVersion = 91002;

namespace {

enum class AttentionMode { Auto, Kernels, Library };

/// Values of MPRT_ATTENTION; the first one is the default.
constexpr std::pair<std::string_view, AttentionMode> modes[] = {
    {"auto", AttentionMode::Auto},
    {"cudnn", AttentionMode::Library},
    {"kernels", AttentionMode::Kernels}};

/// Attention of one description: what many calls of a program share.
struct Shape {
  uint64_t key = 0;
  mprt_attention_desc desc = {};
  CUstream stream = nullptr;           ///< of its first call
  std::unique_ptr<AttentionPlan> plan; ///< null where the library has none
  size_t best = 0;                     ///< its fastest plan
  bool wants = false;                  ///< the library, on this rank
  bool isSettled = false, takesLibrary = false;
  std::string why; ///< what speaks for the choice
};

/// A call of a program.
struct Site {
  mprt_attention_desc desc = {};
  const void *mask = nullptr; ///< that was read
  Shape *shape = nullptr;     ///< null: kernels only
};

} // namespace

static Expected<AttentionMode> readMode() {
  const char *text = std::getenv("MPRT_ATTENTION");
  if (!text || !*text)
    return modes[0].second;
  for (const auto &[name, mode] : modes)
    if (name == text)
      return mode;
  return makeError(MPRT_INVALID_ARGUMENT, "MPRT_ATTENTION is '",
                   printable(text), "', expected auto, cudnn or kernels");
}

struct Attention::State {
  const Driver &driver;
  const Expected<AttentionMode> mode = readMode();
  const Cudnn *library = nullptr;
  DnnHandle handle = nullptr;
  Workspaces workspaces;
  std::map<std::vector<int64_t>, std::unique_ptr<Shape>> shapes;
  std::vector<Shape *> inOrder; ///< in which they came
  std::unordered_map<const mprt_attention_desc *, Site> sites;
  std::string whyNot; ///< why some call is not offered

  explicit State(const Driver &driver) : driver(driver), workspaces(driver) {}
  ~State() {
    shapes.clear();
    if (handle)
      library->cudnnDestroy(handle);
  }

  Error start();
  Expected<bool> isCausal(const mprt_attention_desc &desc, CUstream stream,
                          const void *mask) const;
  Error enter(Site &site, const mprt_attention_desc &desc, CUstream stream,
              void *const *args, const std::function<Error()> &kernels);
  Error choose(Shape &shape, bool isCausal, CUstream stream, void *const *args,
               const std::function<Error()> &kernels);
  Error runPlan(Shape &shape, size_t plan, CUstream stream, void *workspace,
                void *const *args);
};

Attention::Attention(const Driver &driver)
    : state(std::make_unique<State>(driver)) {}

Attention::~Attention() = default;

uint64_t Attention::deviceBytes() const { return state->workspaces.bytes(); }

Error Attention::checkMode() const { return state->mode.error(); }

std::string Attention::sharedSettings() const {
  if (!state->mode)
    return {};
  for (const auto &[name, mode] : modes)
    if (mode == *state->mode)
      return "MPRT_ATTENTION=" + std::string(name);
  return {};
}

//===----------------------------------------------------------------------===//
// What is offered
//===----------------------------------------------------------------------===//

/// The same on all ranks for the same attention.
static std::vector<int64_t> keyOf(const mprt_attention_desc &d, bool isCausal) {
  int64_t scale;
  static_assert(sizeof scale == sizeof d.scale);
  std::memcpy(&scale, &d.scale, sizeof scale);
  std::vector<int64_t> key = {d.kind, d.type,    isCausal, d.batch, d.heads,
                              d.rows, d.columns, d.size,   scale};
  for (uint32_t i = 0; i < countOperands(d); ++i)
    if (!(d.has_mask && i == maskOf(d)))
      key.insert(key.end(), d.strides[i], d.strides[i] + 4);
  return key;
}

/// FNV-1a.
static uint64_t hashOf(const std::vector<int64_t> &key) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (int64_t number : key)
    for (int byte = 0; byte < 8; ++byte)
      hash = (hash ^ (uint64_t(number) >> (8 * byte) & 0xff)) * 0x100000001b3u;
  return hash;
}

/// Whether `bytes` of a mask of `columns`, from `first` on, keep the columns up
/// to each row and no other.
static bool isCausalPart(const char *mask, int64_t first, int64_t bytes,
                         int64_t columns) {
  for (int64_t i = 0; i < bytes; ++i) {
    int64_t row = (first + i) / columns, column = (first + i) % columns;
    if ((mask[i] != 0) != (column <= row))
      return false;
  }
  return true;
}

/// As many rows as columns, one after the other: no row keeps nothing, and the
/// diagonal is where any library sees it.
static bool canBeCausal(const mprt_attention_desc &d) {
  const int64_t *strides = d.strides[maskOf(d)];
  return d.rows == d.columns && strides[0] == d.columns && strides[1] == 1 &&
         d.rows <= mostMaskBytes / d.columns;
}

Expected<bool> Attention::State::isCausal(const mprt_attention_desc &d,
                                          CUstream stream,
                                          const void *mask) const {
  std::vector<char> bytes(size_t(d.rows * d.columns));
  if (Error error = driver.check(driver.cuStreamSynchronize(stream),
                                 "cuStreamSynchronize"))
    return error;
  if (Error error = driver.check(
          driver.cuMemcpyDtoH(bytes.data(), addressOf(mask), bytes.size()),
          "cuMemcpyDtoH"))
    return error;
  return isCausalPart(bytes.data(), 0, int64_t(bytes.size()), d.columns);
}

Error Attention::checkUpload(const void *target, const void *source,
                             uint64_t bytes) {
  uint64_t begin = addressOf(target), end = begin + bytes;
  for (auto &[call, site] : state->sites) {
    uint64_t mask = addressOf(site.mask);
    auto size = uint64_t(site.desc.rows * site.desc.columns);
    if (!site.mask || !site.shape || end <= mask || mask + size <= begin)
      continue;
    uint64_t from = std::max(begin, mask), to = std::min(end, mask + size);
    if (isCausalPart(static_cast<const char *>(source) + (from - begin),
                     int64_t(from - mask), int64_t(to - from),
                     site.desc.columns))
      continue;
    if (!site.shape->takesLibrary)
      site = {};
    else
      return makeError(
          MPRT_UNSUPPORTED, "the mask of attention at ",
          site.desc.location ? site.desc.location : "an unknown place",
          " was causal when a library was chosen for it, and is replaced by "
          "another; set MPRT_ATTENTION=kernels in the environment");
  }
  return {};
}

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

Error Attention::State::start() {
  if (handle)
    return {};
  Expected<const Cudnn *> loaded = Cudnn::load();
  if (!loaded)
    return loaded.error();
  library = *loaded;
  size_t version = library->cudnnGetVersion();
  if (version < leastVersion)
    return makeError(MPRT_UNSUPPORTED, "cuDNN ", version,
                     " is not used for attention, expected at least ",
                     leastVersion);
  return library->check(library->cudnnCreate(&handle), "cudnnCreate");
}

Error Attention::State::runPlan(Shape &shape, size_t plan, CUstream stream,
                                void *workspace, void *const *args) {
  if (Error error = library->check(library->cudnnSetStream(handle, stream),
                                   "cudnnSetStream"))
    return error;
  return shape.plan->run(plan, handle, workspace, args);
}

static std::string milliseconds(const char *name, float threeRuns) {
  char text[64];
  std::snprintf(text, sizeof text, "%s %.3f ms", name, double(threeRuns) / 3);
  return text;
}

/// Errors of the library speak for kernels; those of the driver and of kernels
/// are returned. A rank that has to run kernels votes for them.
Error Attention::State::choose(Shape &shape, bool isCausal, CUstream stream,
                               void *const *args,
                               const std::function<Error()> &kernels) {
  auto refuse = [&](const Error &why) {
    shape.plan.reset();
    shape.wants = false;
    shape.isSettled = *mode == AttentionMode::Library;
    shape.why = why.message();
    return Error();
  };
  if (Error error = start())
    return refuse(error);
  if (!AttentionPlan::isAligned(shape.desc, args))
    return refuse(Error(MPRT_UNSUPPORTED, "operands are not aligned to 16"));
  shape.plan = std::make_unique<AttentionPlan>(*library);
  if (Error error = shape.plan->prepare(shape.desc, isCausal, handle, mostPlans,
                                        mostWorkspaceBytes))
    return refuse(error);
  // Plans are tried with scratch of their own, of which only what the best one
  // needs is kept.
  uint64_t most = 0;
  for (size_t i = 0; i < shape.plan->count(); ++i)
    most = std::max(most, shape.plan->workspaceBytes(i));
  std::optional<ScratchBuffer> scratch;
  if (most) {
    scratch.emplace(driver, most);
    if (!scratch->data())
      return refuse(makeError(MPRT_OUT_OF_MEMORY, "no memory for ", most >> 20,
                              " MiB of scratch"));
  }
  void *workspace = scratch ? scratch->data() : nullptr;
  float least = 0, ofKernels = 0;
  std::optional<size_t> best;
  Error failed;
  for (size_t i = 0; i < shape.plan->count(); ++i) {
    Expected<float> taken = timeRuns(driver, stream, [&] {
      return failed = runPlan(shape, i, stream, workspace, args);
    });
    if (!taken && !failed)
      return taken.error();
    if (taken && (!best || *taken < least))
      best = i, least = *taken;
    if (taken && !tunes())
      break; // the library's first that works
  }
  if (!best)
    return refuse(failed);
  shape.best = *best;
  shape.why = milliseconds("cuDNN", least);
  if (*mode == AttentionMode::Auto) {
    Expected<float> taken = timeRuns(driver, stream, kernels);
    if (!taken)
      return taken.error();
    ofKernels = *taken;
    shape.why += ", " + milliseconds("kernels", ofKernels);
  }
  if (Error error = driver.check(driver.cuStreamSynchronize(stream),
                                 "cuStreamSynchronize"))
    return error;
  scratch.reset();
  shape.wants = *mode == AttentionMode::Library || least < ofKernels;
  uint64_t need = shape.plan->workspaceBytes(shape.best);
  if (*mode == AttentionMode::Library &&
      workspaces.get(stream, need, false).bytes < need)
    return refuse(makeError(MPRT_OUT_OF_MEMORY, "no memory for ", need >> 20,
                            " MiB of scratch"));
  shape.isSettled = shape.takesLibrary = *mode == AttentionMode::Library;
  return {};
}

Error Attention::State::enter(Site &site, const mprt_attention_desc &desc,
                              CUstream stream, void *const *args,
                              const std::function<Error()> &kernels) {
  site = {};
  site.desc = desc;
  bool causal = false;
  if (desc.has_mask) {
    site.mask = args[maskOf(desc)];
    if (canBeCausal(desc)) {
      Expected<bool> found = isCausal(desc, stream, site.mask);
      if (!found)
        return found.error();
      causal = *found;
    }
    if (!causal) {
      whyNot = "masks that are not causal";
      return {};
    }
  }
  std::unique_ptr<Shape> &shape = shapes[keyOf(desc, causal)];
  if (!shape) {
    shape = std::make_unique<Shape>();
    shape->key = hashOf(keyOf(desc, causal));
    shape->desc = desc;
    shape->stream = stream;
    inOrder.push_back(shape.get());
    if (*mode == AttentionMode::Auto && !tunes()) {
      shape->why = "MPRT_CUDA_TUNE=0";
    } else if (Error error = choose(*shape, causal, stream, args, kernels)) {
      return error;
    }
  }
  site.shape = shape.get();
  return {};
}

std::vector<LibraryVote> Attention::unsettled() const {
  std::vector<LibraryVote> votes;
  for (const Shape *shape : state->inOrder)
    if (!shape->isSettled)
      votes.push_back({shape->key, shape->wants});
  return votes;
}

void Attention::settle(std::span<const LibraryVote> votes) {
  for (Shape *shape : state->inOrder) {
    if (shape->isSettled)
      continue;
    bool isKnown = false, wanted = true;
    for (const LibraryVote &vote : votes)
      if (vote.key == shape->key)
        isKnown = true, wanted &= vote.wants != 0;
    shape->isSettled = isKnown;
    shape->takesLibrary = isKnown && wanted && shape->wants;
    if (isKnown && shape->wants && !wanted)
      shape->why += ", not on all ranks";
    // Before it is captured. Where there is no room, its call says so.
    if (shape->takesLibrary)
      state->workspaces.get(shape->stream,
                            shape->plan->workspaceBytes(shape->best), false);
  }
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

Expected<bool> Attention::run(const mprt_attention_desc &desc, CUstream stream,
                              void *const *args,
                              const std::function<Error()> &kernels) {
  if (Error error = checkMode())
    return error;
  if (*state->mode == AttentionMode::Kernels)
    return false;
  Expected<bool> captured = isCaptured(state->driver, stream);
  if (!captured)
    return captured.error();
  const void *mask = desc.has_mask ? args[maskOf(desc)] : nullptr;
  auto known = state->sites.find(&desc);
  if (known == state->sites.end() || known->second.mask != mask ||
      std::memcmp(&known->second.desc, &desc, sizeof desc) != 0) {
    if (*captured)
      return false;
    known = state->sites.try_emplace(&desc).first;
    if (Error error = state->enter(known->second, desc, stream, args, kernels))
      return error;
  }
  Shape *shape = known->second.shape;
  if (!shape || !shape->takesLibrary || !AttentionPlan::isAligned(desc, args))
    return false;
  uint64_t need = shape->plan->workspaceBytes(shape->best);
  Workspaces::Piece workspace = state->workspaces.get(stream, need, *captured);
  if (workspace.bytes < need)
    return makeError(MPRT_OUT_OF_MEMORY, "no memory of the device for ",
                     need >> 20, " MiB of scratch of cuDNN's attention");
  if (Error error =
          state->runPlan(*shape, shape->best, stream, workspace.data, args))
    return error.withContext(desc.kind == MPRT_ATTENTION
                                 ? "attention by cuDNN: "
                                 : "the gradient of attention by cuDNN: ");
  return true;
}

std::string Attention::describeChoices() const {
  std::string text;
  for (const Shape *shape : state->inOrder) {
    const mprt_attention_desc &d = shape->desc;
    char name[128];
    std::snprintf(name, sizeof name, "%s%s of [%lld, %lld, %lld, %lld] by %s",
                  text.empty() ? "" : "; ",
                  d.kind == MPRT_ATTENTION ? "attention" : "its gradient",
                  (long long)d.batch, (long long)d.rows, (long long)d.heads,
                  (long long)d.size, shape->takesLibrary ? "cuDNN" : "kernels");
    std::string why = shape->why;
    if (!shape->isSettled && shape->wants)
      why += ", the ranks have not voted";
    text += name + (why.empty() ? "" : " (" + why + ")");
  }
  if (!state->whyNot.empty())
    text += (text.empty() ? "attention" : "; others") +
            (" by kernels (" + state->whyNot + ")");
  return text;
}
