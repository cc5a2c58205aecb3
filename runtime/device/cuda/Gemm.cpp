//===- Gemm.cpp - matrix products on a CUDA device ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/cuda/Gemm.h"

#include "device/Descriptors.h"
#include "device/cuda/Choices.h"
#include "device/cuda/CublasLt.h"
#include "device/cuda/GemmEpilogue.h"
#include "device/cuda/GemmProblem.h"
#include "device/cuda/Scratch.h"
#include "device/host/GemmBatch.h"
#include "support/DType.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <unordered_map>

using namespace mprt;
using namespace mprt::cuda;

/// What the library asks for on Hopper; older chips need less.
static constexpr uint64_t workspaceBytes = 32 << 20;
/// Algorithms that are asked for, and those of them that are timed.
static constexpr int candidatesAsked = 8;

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

namespace {
struct Choice {
  LtAlgorithm algorithm;
  uint64_t workspaceBytes;
};

/// The library's descriptions of one product, and the algorithm for it. What
/// it was made for is compared byte by byte, which is all but free.
struct CudaGemmPlan {
  const CublasLt &library;
  GemmProblem problem;
  /// Of a, b, c, and of what an epilogue has, for which it was made.
  std::array<uint32_t, 5> alignments;
  int epilogue = 0;       // its kind; 0: none
  int biasType = 0;       // mprt_dtype
  int scales = 0;         // how many
  bool isRefused = false; // the library has no algorithm with the epilogue
  bool hasWorkspace;
  bool settled; // false: the first guess, taken during a capture
  mprt_gemm_desc desc;
  LtMatmulDesc operation = nullptr;
  LtLayout left = nullptr, right = nullptr, result = nullptr;
  Choice choice = {};

  explicit CudaGemmPlan(const CublasLt &library) : library(library) {}
  CudaGemmPlan(const CudaGemmPlan &) = delete;
  CudaGemmPlan &operator=(const CudaGemmPlan &) = delete;
  ~CudaGemmPlan() {
    if (operation)
      library.cublasLtMatmulDescDestroy(operation);
    for (LtLayout layout : {left, right, result})
      if (layout)
        library.cublasLtMatrixLayoutDestroy(layout);
  }
};
} // namespace

static Choices<Choice> &choices() {
  static Choices<Choice> made;
  return made;
}

struct Gemm::State {
  const Driver &driver;
  const CublasLt *library = nullptr;
  LtHandle handle = nullptr;
  Workspaces workspaces;
  /// Without an epilogue and with one: what is refused with one is done
  /// without.
  std::unordered_map<const mprt_gemm_desc *, std::unique_ptr<CudaGemmPlan>>
      plans[2];

  explicit State(const Driver &driver) : driver(driver), workspaces(driver) {}
  ~State() {
    for (auto &each : plans)
      each.clear();
    if (handle)
      library->cublasLtDestroy(handle);
  }

  Error start();
  /// Enqueues a product; with an epilogue false where the library cannot.
  Expected<bool> run(const mprt_gemm_desc &desc, CUstream stream, const void *a,
                     const void *b, void *c, const GemmEpilogue *epilogue);
  Expected<CudaGemmPlan *> planFor(const mprt_gemm_desc &desc, CUstream stream,
                                   const void *a, const void *b, void *c,
                                   const GemmEpilogue *epilogue, bool captured);
  Error describe(CudaGemmPlan &plan, const mprt_gemm_desc &desc);
  Error choose(CudaGemmPlan &plan, const mprt_gemm_desc &desc, CUstream stream,
               const void *a, const void *b, void *c,
               const GemmEpilogue *epilogue, const Workspaces::Piece &workspace,
               bool captured);
  Error multiply(const CudaGemmPlan &plan, const mprt_gemm_desc &desc,
                 CUstream stream, const void *a, const void *b, const void *c,
                 void *d, const Choice &choice,
                 const Workspaces::Piece &workspace);
  Error clear(const mprt_gemm_desc &desc, CUstream stream, void *c);
};

Gemm::Gemm(const Driver &driver) : state(std::make_unique<State>(driver)) {}

Gemm::~Gemm() = default;

uint64_t Gemm::deviceBytes() const { return state->workspaces.bytes(); }

Error Gemm::State::start() {
  if (handle)
    return {};
  Expected<const CublasLt *> loaded = CublasLt::load();
  if (!loaded)
    return loaded.error();
  library = *loaded;
  return library->check(library->cublasLtCreate(&handle), "cublasLtCreate");
}

static int computeTypeOf(const mprt_gemm_desc &desc) {
  if (desc.type_c == MPRT_F64)
    return CUBLAS_COMPUTE_64F;
  bool full = desc.type_a == MPRT_F32;
  return full && allowsTf32() ? CUBLAS_COMPUTE_32F_FAST_TF32
                              : CUBLAS_COMPUTE_32F;
}

/// The greatest power of two up to 256 at which pointers into the operand lie:
/// its first one, and those that the loop over batches steps to.
static uint32_t alignmentOf(const void *pointer, const int64_t *steps,
                            uint32_t count, uint8_t type) {
  uint64_t bits = reinterpret_cast<uint64_t>(pointer) | 256;
  for (uint32_t i = 0; i < count; ++i)
    bits |= uint64_t(steps[i]) * sizeOf(mprt_dtype(type));
  return uint32_t(1) << std::countr_zero(bits);
}

static std::array<uint32_t, 5> alignmentsOf(const mprt_gemm_desc &desc,
                                            const mprt_gemm_desc &loop,
                                            const void *a, const void *b,
                                            const void *c,
                                            const GemmEpilogue *epilogue) {
  auto plain = [&](const void *pointer) {
    return alignmentOf(pointer, nullptr, 0, desc.type_c);
  };
  return {alignmentOf(a, loop.batch_a, loop.batch_rank, desc.type_a),
          alignmentOf(b, loop.batch_b, loop.batch_rank, desc.type_b),
          alignmentOf(c, loop.batch_c, loop.batch_rank, desc.type_c),
          plain(epilogue ? epilogue->bias : nullptr),
          plain(epilogue ? epilogue->matrix : nullptr)};
}

Error Gemm::State::describe(CudaGemmPlan &plan, const mprt_gemm_desc &desc) {
  const CublasLt &lt = *library;
  if (Error error =
          lt.check(lt.cublasLtMatmulDescCreate(
                       &plan.operation, computeTypeOf(desc),
                       desc.type_c == MPRT_F64 ? CUDA_R_64F : CUDA_R_32F),
                   "cublasLtMatmulDescCreate"))
    return error;
  const GemmProblem &p = plan.problem;
  struct {
    int attribute;
    bool transposed;
  } operations[] = {{CUBLASLT_MATMUL_DESC_TRANSA, p.left.transposed},
                    {CUBLASLT_MATMUL_DESC_TRANSB, p.right.transposed}};
  for (const auto &operation : operations) {
    int32_t value = operation.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    if (Error error = lt.check(
            lt.cublasLtMatmulDescSetAttribute(
                plan.operation, operation.attribute, &value, sizeof value),
            "cublasLtMatmulDescSetAttribute"))
      return error;
  }
  struct {
    LtLayout *layout;
    const GemmProblem::Operand &operand;
    uint8_t type;
  } layouts[] = {{&plan.left, p.left, desc.type_b},
                 {&plan.right, p.right, desc.type_a},
                 {&plan.result, p.result, desc.type_c}};
  for (const auto &[layout, operand, type] : layouts) {
    if (Error error =
            lt.check(lt.cublasLtMatrixLayoutCreate(
                         layout, libraryType(type), uint64_t(operand.rows),
                         uint64_t(operand.columns), operand.leading),
                     "cublasLtMatrixLayoutCreate"))
      return error;
    auto batch = int32_t(p.batch);
    if (batch == 1)
      continue;
    if (Error error = lt.check(lt.cublasLtMatrixLayoutSetAttribute(
                                   *layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                   &batch, sizeof batch),
                               "cublasLtMatrixLayoutSetAttribute"))
      return error;
    if (Error error =
            lt.check(lt.cublasLtMatrixLayoutSetAttribute(
                         *layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                         &operand.batchStride, sizeof operand.batchStride),
                     "cublasLtMatrixLayoutSetAttribute"))
      return error;
  }
  return {};
}

//===----------------------------------------------------------------------===//
// The choice of an algorithm
//===----------------------------------------------------------------------===//

static ChoiceKey keyOf(const CudaGemmPlan &plan, const mprt_gemm_desc &desc,
                       CUcontext context) {
  const GemmProblem &p = plan.problem;
  ChoiceKey key = {int64_t(reinterpret_cast<uintptr_t>(context)),
                   computeTypeOf(desc),
                   desc.type_a,
                   desc.type_b,
                   desc.type_c,
                   desc.accumulate,
                   p.m,
                   p.n,
                   p.k,
                   p.batch,
                   plan.hasWorkspace,
                   plan.epilogue,
                   plan.biasType,
                   plan.scales};
  for (const GemmProblem::Operand *operand : {&p.left, &p.right, &p.result})
    key.insert(key.end(), {operand->transposed, operand->leading,
                           p.batch > 1 ? operand->batchStride : 0});
  key.insert(key.end(), plan.alignments.begin(), plan.alignments.end());
  return key;
}

/// Algorithms that the library thinks fit, best first.
static Expected<std::vector<Choice>> listCandidates(const CublasLt &lt,
                                                    LtHandle handle,
                                                    const CudaGemmPlan &plan,
                                                    uint64_t workspace) {
  struct Preference {
    const CublasLt &lt;
    LtPreference preference = nullptr;
    ~Preference() {
      if (preference)
        lt.cublasLtMatmulPreferenceDestroy(preference);
    }
  } owner{lt};
  if (Error error =
          lt.check(lt.cublasLtMatmulPreferenceCreate(&owner.preference),
                   "cublasLtMatmulPreferenceCreate"))
    return error;
  auto set = [&](int attribute, const auto &value) {
    return lt.check(lt.cublasLtMatmulPreferenceSetAttribute(
                        owner.preference, attribute, &value, sizeof value),
                    "cublasLtMatmulPreferenceSetAttribute");
  };
  if (Error error = set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace))
    return error;
  // Sums are taken in f32 throughout, also those of a split k.
  const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  if (Error error = set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reduction))
    return error;
  // The library's a is our b; it keeps c where an epilogue has a result.
  uint32_t resultAlignment =
      plan.alignments[plan.epilogue == MPRT_BIAS_GELU_AUX ? 4 : 2];
  const struct {
    int attribute;
    uint32_t bytes;
  } alignments[] = {
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, plan.alignments[1]},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, plan.alignments[0]},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, resultAlignment},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, resultAlignment}};
  for (const auto &[attribute, bytes] : alignments)
    if (Error error = set(attribute, bytes))
      return error;
  LtHeuristic found[candidatesAsked] = {};
  int count = 0;
  if (Error error = lt.check(lt.cublasLtMatmulAlgoGetHeuristic(
                                 handle, plan.operation, plan.left, plan.right,
                                 plan.result, plan.result, owner.preference,
                                 candidatesAsked, found, &count),
                             "cublasLtMatmulAlgoGetHeuristic"))
    return error;
  std::vector<Choice> candidates;
  for (int i = 0; i < count; ++i)
    if (found[i].status == CUBLAS_STATUS_SUCCESS &&
        found[i].workspaceBytes <= workspace)
      candidates.push_back({found[i].algorithm, found[i].workspaceBytes});
  if (candidates.empty())
    return Error(MPRT_UNSUPPORTED,
                 "cuBLASLt has no algorithm for it on this GPU");
  return candidates;
}

/// Bytes from the first element of the result of one call to its last.
static uint64_t spanOf(const GemmProblem &p, uint8_t type) {
  int64_t last = (p.n - 1) * p.result.leading + (p.m - 1) +
                 (p.batch - 1) * std::max<int64_t>(p.result.batchStride, 0);
  return uint64_t(last + 1) * sizeOf(mprt_dtype(type));
}

Error Gemm::State::choose(CudaGemmPlan &plan, const mprt_gemm_desc &desc,
                          CUstream stream, const void *a, const void *b,
                          void *c, const GemmEpilogue *epilogue,
                          const Workspaces::Piece &workspace, bool captured) {
  CUcontext context = nullptr;
  if (Error error =
          driver.check(driver.cuCtxGetCurrent(&context), "cuCtxGetCurrent"))
    return error;
  ChoiceKey key = keyOf(plan, desc, context);
  if (std::optional<Choice> known = choices().find(key)) {
    plan.choice = *known;
    plan.settled = true;
    return {};
  }
  Expected<std::vector<Choice>> candidates =
      listCandidates(*library, handle, plan, workspace.bytes);
  if (!candidates)
    return candidates.error();
  plan.choice = candidates->front();
  plan.settled = !captured;
  if (captured)
    return {};
  if (tunes() && candidates->size() > 1) {
    // Into a buffer that is not needed: the result may also be an operand.
    bool keepsTwo = plan.epilogue == MPRT_BIAS_GELU_AUX;
    uint64_t bytes = (spanOf(plan.problem, desc.type_c) + 255) / 256 * 256;
    ScratchBuffer trial(driver, keepsTwo ? 2 * bytes : bytes);
    if (trial.data()) {
      if (keepsTwo)
        if (Error error =
                pointEpilogue(*library, plan.operation, *epilogue,
                              static_cast<char *>(trial.data()) + bytes))
          return error;
      Expected<size_t> fastest = findFastest(
          driver, stream, candidates->size(), [&](size_t candidate) {
            return multiply(plan, desc, stream, a, b, c, trial.data(),
                            (*candidates)[candidate], workspace);
          });
      if (!fastest)
        return fastest.error();
      plan.choice = (*candidates)[*fastest];
      if (Error error = driver.check(driver.cuStreamSynchronize(stream),
                                     "cuStreamSynchronize"))
        return error;
    }
  }
  choices().add(std::move(key), plan.choice);
  return {};
}

Expected<CudaGemmPlan *> Gemm::State::planFor(const mprt_gemm_desc &desc,
                                              CUstream stream, const void *a,
                                              const void *b, void *c,
                                              const GemmEpilogue *epilogue,
                                              bool captured) {
  Workspaces::Piece workspace =
      workspaces.get(stream, workspaceBytes, captured);
  bool hasWorkspace = workspace.bytes >= workspaceBytes;
  std::unique_ptr<CudaGemmPlan> &kept = plans[epilogue != nullptr][&desc];
  if (kept && (kept->settled || captured) &&
      kept->hasWorkspace == hasWorkspace &&
      std::memcmp(&kept->desc, &desc, sizeof desc) == 0 &&
      kept->epilogue == (epilogue ? int(epilogue->kind) : 0) &&
      kept->biasType == (epilogue ? int(epilogue->biasType) : 0) &&
      kept->scales == (epilogue ? epilogue->countScales() : 0) &&
      kept->alignments ==
          alignmentsOf(desc, kept->problem.loop, a, b, c, epilogue))
    return kept.get();
  Expected<GemmProblem> problem = makeGemmProblem(desc);
  if (!problem)
    return problem.error();
  auto plan = std::make_unique<CudaGemmPlan>(*library);
  plan->problem = *problem;
  plan->epilogue = epilogue ? int(epilogue->kind) : 0;
  plan->biasType = epilogue ? int(epilogue->biasType) : 0;
  plan->scales = epilogue ? epilogue->countScales() : 0;
  plan->alignments = alignmentsOf(desc, problem->loop, a, b, c, epilogue);
  plan->hasWorkspace = hasWorkspace;
  std::memcpy(&plan->desc, &desc, sizeof desc);
  if (Error error = describe(*plan, desc))
    return error;
  Error error;
  bool isPossible =
      !epilogue || (problem->batch == 1 && problem->loop.batch_rank == 0 &&
                    hasEpilogueLayout(*epilogue, problem->result.leading));
  if (isPossible && epilogue)
    error = describeEpilogue(*library, plan->operation, *epilogue, desc.type_c,
                             plan->problem.result.leading, c);
  if (isPossible && !error)
    error = choose(*plan, desc, stream, a, b, c, epilogue, workspace, captured);
  if (error && !(epilogue && isRefusal(error)))
    return error;
  if (!isPossible || error)
    plan->isRefused = plan->settled = true;
  kept = std::move(plan);
  return kept.get();
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

Error Gemm::State::multiply(const CudaGemmPlan &plan,
                            const mprt_gemm_desc &desc, CUstream stream,
                            const void *a, const void *b, const void *c,
                            void *d, const Choice &choice,
                            const Workspaces::Piece &workspace) {
  const float one = 1, none = 0;
  const double one64 = 1, none64 = 0;
  bool wide = desc.type_c == MPRT_F64;
  const void *alpha = wide ? static_cast<const void *>(&one64) : &one;
  const void *zero = wide ? static_cast<const void *>(&none64) : &none;
  // The library's left operand is b, see GemmProblem.
  return library->check(
      library->cublasLtMatmul(handle, plan.operation, alpha, b, plan.left, a,
                              plan.right, desc.accumulate ? alpha : zero,
                              desc.accumulate ? c : d, plan.result, d,
                              plan.result, &choice.algorithm, workspace.data,
                              choice.workspaceBytes, stream),
      "cublasLtMatmul");
}

/// A product over an empty dimension: C is zero, or stays.
Error Gemm::State::clear(const mprt_gemm_desc &desc, CUstream stream, void *c) {
  if (desc.accumulate)
    return {};
  auto element = int64_t(sizeOf(mprt_dtype(desc.type_c)));
  bool dense = desc.m == 1 || desc.strides_c[0] == desc.n;
  int64_t calls = dense ? 1 : desc.m;
  uint64_t bytes = uint64_t((dense ? desc.m : 1) * desc.n * element);
  host::BatchWalk walk(desc);
  do
    for (int64_t i = 0; i < calls; ++i) {
      CUdeviceptr row = addressOf(c) +
                        CUdeviceptr((walk.c + i * desc.strides_c[0]) * element);
      if (Error error = driver.check(
              driver.cuMemsetD8Async(row, 0, bytes, stream), "cuMemsetD8Async"))
        return error;
    }
  while (walk.next());
  return {};
}

static Error nameProduct(const Error &error, const mprt_gemm_desc &desc) {
  bool isOf8Bits = sizeOf(mprt_dtype(desc.type_a)) == 1;
  return makeError(error.status(), "a product [", desc.m, ", ", desc.k, "] x [",
                   desc.k, ", ", desc.n, "]", isOf8Bits ? " of 8 bits" : "",
                   ": ", error.message(),
                   isOf8Bits && error.status() == MPRT_UNSUPPORTED
                       ? " (compiled with chip=sm_80 or numerics=exact, it "
                         "is one of 16 bits)"
                       : "");
}

Expected<bool> Gemm::State::run(const mprt_gemm_desc &desc, CUstream stream,
                                const void *a, const void *b, void *c,
                                const GemmEpilogue *epilogue) {
  if (Error error = start())
    return error;
  Expected<bool> captured = isCaptured(driver, stream);
  if (!captured)
    return captured.error();
  Expected<CudaGemmPlan *> planned =
      planFor(desc, stream, a, b, c, epilogue, *captured);
  if (!planned)
    return nameProduct(planned.error(), desc);
  CudaGemmPlan &plan = **planned;
  if (plan.isRefused)
    return false;
  void *to = c;
  if (epilogue) {
    if (Error error = pointEpilogue(*library, plan.operation, *epilogue, c))
      return nameProduct(error, desc);
    if (epilogue->kind == MPRT_BIAS_GELU_AUX)
      to = epilogue->matrix;
  }
  Workspaces::Piece workspace = workspaces.get(stream, 0, *captured);
  auto sizeA = int64_t(sizeOf(mprt_dtype(desc.type_a)));
  auto sizeC = int64_t(sizeOf(mprt_dtype(desc.type_c)));
  host::BatchWalk walk(plan.problem.loop);
  do {
    const char *atA = static_cast<const char *>(a) + walk.a * sizeA;
    const char *atB = static_cast<const char *>(b) + walk.b * sizeA;
    char *atC = static_cast<char *>(to) + walk.c * sizeC;
    if (Error error = multiply(plan, desc, stream, atA, atB, atC, atC,
                               plan.choice, workspace)) {
      if (!epilogue || !isRefusal(error))
        return nameProduct(error, desc);
      plan.isRefused = true;
      return false;
    }
  } while (walk.next());
  return true;
}

Error Gemm::run(const mprt_gemm_desc &desc, CUstream stream, const void *a,
                const void *b, void *c) {
  if (Error error = check(desc))
    return error;
  if (isEmpty(desc))
    return {};
  if (desc.k == 0)
    return state->clear(desc, stream, c);
  Expected<bool> done = state->run(desc, stream, a, b, c, nullptr);
  return done ? Error() : done.error();
}

Expected<bool> Gemm::runWithEpilogue(const mprt_gemm_desc &desc,
                                     CUstream stream, const void *a,
                                     const void *b, void *c,
                                     const GemmEpilogue &epilogue) {
  if (Error error = check(desc))
    return error;
  if (isEmpty(desc) || desc.k == 0 || desc.accumulate)
    return false;
  return state->run(desc, stream, a, b, c, &epilogue);
}

Expected<std::string> Gemm::describePlan(const mprt_gemm_desc &desc) {
  if (Error error = check(desc))
    return error;
  if (isEmpty(desc) || desc.k == 0)
    return std::string("nothing to do");
  Expected<GemmProblem> problem = makeGemmProblem(desc);
  if (!problem)
    return nameProduct(problem.error(), desc);
  int64_t calls = 1;
  for (uint32_t i = 0; i < problem->loop.batch_rank; ++i)
    calls *= problem->loop.batch[i];
  std::string text = "cuBLASLt";
  if (problem->batch > 1)
    text += ", a batch of " + std::to_string(problem->batch);
  if (calls > 1)
    text += ", " + std::to_string(calls) + " calls";
  return text;
}
