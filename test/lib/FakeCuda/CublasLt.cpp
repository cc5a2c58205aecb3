//===- CublasLt.cpp - a test double of cuBLASLt ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products in loops, in the order of the stream, by what the layouts say. An
// algorithm is good for the problem that it was found for and for no other,
// needs the alignment that was promised and scribbles over its workspace. The
// first guess is a slow one, and the last fails. One that adds partial sums in
// the type of the result is offered first wherever that was allowed.
//
//===----------------------------------------------------------------------===//

#include "CublasLtApi.h"

#include "Library.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

using namespace fake;

struct cublasLtContext {};

struct cublasLtMatmulDescOpaque_t {
  int computeType, scaleType;
  int32_t transA = CUBLAS_OP_N, transB = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr;
  int32_t biasType = -1;
  void *aux = nullptr;
  int64_t auxLeading = 0;
  const float *scales[2] = {}; // of A and B

  bool has(uint32_t kind) const { return epilogue == kind; }
  bool hasEpilogue() const { return !has(CUBLASLT_EPILOGUE_DEFAULT); }
  bool hasAux() const {
    return has(CUBLASLT_EPILOGUE_GELU_AUX_BIAS) || has(CUBLASLT_EPILOGUE_DGELU);
  }
  /// Sums up an operand.
  bool hasSum() const {
    return has(CUBLASLT_EPILOGUE_BGRADA) || has(CUBLASLT_EPILOGUE_BGRADB);
  }
  bool addsBias() const {
    return has(CUBLASLT_EPILOGUE_BIAS) || has(CUBLASLT_EPILOGUE_GELU_BIAS) ||
           has(CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
  }
};

struct cublasLtMatrixLayoutOpaque_t {
  int type;
  uint64_t rows, columns;
  int64_t leading;
  int32_t order = CUBLASLT_ORDER_COL, batch = 1;
  int64_t batchStride = 0;

  int64_t at(int64_t row, int64_t column) const {
    return order == CUBLASLT_ORDER_COL ? row + column * leading
                                       : row * leading + column;
  }
  int64_t last() const {
    return at(int64_t(rows) - 1, int64_t(columns) - 1) +
           (batch - 1) * batchStride;
  }
};

struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t workspace = 0;
  uint32_t reductions = ~0u;
  uint32_t alignments[4] = {256, 256, 256, 256};
};

static constexpr uint64_t magic = 0x6c7466616b65;
enum : uint64_t { slowAlgorithm = 0, brokenAlgorithm = 3, lossyAlgorithm = 4 };

size_t cublasLtGetVersion(void) { return 130000; }

const char *cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    FAKE_CUBLAS_STATUSES(FAKE_NAME_CASE)
  default:
    return "<unknown>";
  }
}

FAKE_DESCRIPTION(cublasStatus_t, cublasLtCreate, cublasLtDestroy,
                 cublasLtContext)

//===----------------------------------------------------------------------===//
// Descriptions
//===----------------------------------------------------------------------===//

/// Takes a value of exactly the attribute's type.
template <typename T>
static cublasStatus_t take(T &to, const void *value, size_t bytes) {
  if (!value || bytes != sizeof(T))
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc,
                                        cublasComputeType_t computeType,
                                        cudaDataType_t scaleType) {
  FAKE_CALL(cublasStatus_t, cublasLtMatmulDescCreate);
  *desc = new cublasLtMatmulDescOpaque_t{computeType, scaleType};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                               cublasLtMatmulDescAttributes_t attribute,
                               const void *value, size_t bytes) {
  FAKE_CALL(cublasStatus_t, cublasLtMatmulDescSetAttribute);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA)
    return take(desc->transA, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSB)
    return take(desc->transB, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE)
    return take(desc->epilogue, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER)
    return take(desc->bias, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER)
    return take(desc->aux, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD)
    return take(desc->auxLeading, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER)
    return take(desc->scales[0], value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER)
    return take(desc->scales[1], value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE)
    return take(desc->biasType, value, bytes);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  FAKE_CALL(cublasStatus_t, cublasLtMatrixLayoutCreate);
  *layout = new cublasLtMatrixLayoutOpaque_t{type, rows, columns, leading};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                 cublasLtMatrixLayoutAttribute_t attribute,
                                 const void *value, size_t bytes) {
  FAKE_CALL(cublasStatus_t, cublasLtMatrixLayoutSetAttribute);
  switch (attribute) {
  case CUBLASLT_MATRIX_LAYOUT_ORDER:
    return take(layout->order, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
    return take(layout->batch, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
    return take(layout->batchStride, value, bytes);
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

FAKE_DESCRIPTION(cublasStatus_t, cublasLtMatmulPreferenceCreate,
                 cublasLtMatmulPreferenceDestroy,
                 cublasLtMatmulPreferenceOpaque_t)

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference,
    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
    size_t bytes) {
  FAKE_CALL(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute);
  switch (attribute) {
  case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
    return take(preference->workspace, value, bytes);
  case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
    return take(preference->reductions, value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
    return take(
        preference->alignments[attribute -
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
        value, bytes);
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

namespace {

struct Product {
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t a, b, c, d;
  double alpha = 1, beta = 0;
  const void *pointers[4] = {};
  uint64_t algorithm = 0;
  void *workspace = nullptr;
  size_t workspaceBytes = 0;

  int64_t m() const { return int64_t(d.rows); }
  int64_t n() const { return int64_t(d.columns); }
  int64_t k() const {
    return int64_t(desc.transA == CUBLAS_OP_T ? a.rows : a.columns);
  }
  cublasStatus_t check() const;
  bool fitsF8() const;
  cublasStatus_t checkEpilogue() const;
  int biasType() const { return desc.biasType == -1 ? d.type : desc.biasType; }
  uint64_t hash() const;
  /// What the library reads off the pointers of an epilogue.
  uint64_t alignments() const;
  template <typename Sum> void multiply() const;
  template <typename Sum> void sumUp() const;
  int run() const;
};

} // namespace

static mprt_dtype elementOf(int type) {
  return type == CUDA_R_64F       ? MPRT_F64
         : type == CUDA_R_16F     ? MPRT_F16
         : type == CUDA_R_16BF    ? MPRT_BF16
         : type == CUDA_R_8F_E4M3 ? MPRT_F8E4M3
         : type == CUDA_R_8F_E5M2 ? MPRT_F8E5M2
                                  : MPRT_F32;
}

static bool isF8(int type) {
  return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

/// As the documentation has it of Hopper: products of 8 bits read both operands
/// along what is summed, in multiples of 16 bytes; of epilogues they have a
/// bias of 16 bits here.
bool Product::fitsF8() const {
  bool types =
      isF8(b.type) && (a.type == CUDA_R_8F_E4M3 || b.type == CUDA_R_8F_E4M3) &&
      (d.type == CUDA_R_32F || d.type == CUDA_R_16F || d.type == CUDA_R_16BF);
  int64_t bytes = d.type == CUDA_R_32F ? 4 : 2;
  bool sizes = m() % 16 == 0 && n() % 16 == 0 && k() % 16 == 0 &&
               a.leading % 16 == 0 && b.leading % 16 == 0 &&
               d.leading * bytes % 16 == 0;
  return types && sizes && desc.transA == CUBLAS_OP_T &&
         desc.transB == CUBLAS_OP_N &&
         (!desc.hasEpilogue() ||
          (desc.has(CUBLASLT_EPILOGUE_BIAS) && d.type != CUDA_R_32F));
}

cublasStatus_t Product::check() const {
  auto is = [](const cublasLtMatrixLayoutOpaque_t &layout, int32_t trans,
               uint64_t rows, uint64_t columns) {
    if (trans == CUBLAS_OP_T)
      std::swap(rows, columns);
    return layout.rows == rows && layout.columns == columns;
  };
  uint64_t rows = d.rows, columns = d.columns, inner = uint64_t(k());
  bool shapes = rows && columns && inner && is(a, desc.transA, rows, inner) &&
                is(b, desc.transB, inner, columns) &&
                is(c, CUBLAS_OP_N, rows, columns);
  for (const auto *layout : {&a, &b, &c, &d}) {
    uint64_t stored =
        layout->order == CUBLASLT_ORDER_COL ? layout->rows : layout->columns;
    shapes &= layout->leading >= int64_t(stored) && layout->batch == d.batch &&
              layout->batch >= 1;
  }
  if (!shapes)
    return CUBLAS_STATUS_INVALID_VALUE;
  bool half = a.type == CUDA_R_16F || a.type == CUDA_R_16BF;
  bool wide = a.type == CUDA_R_64F;
  bool full = a.type == CUDA_R_32F;
  bool types = c.type == d.type &&
               (isF8(a.type) ? fitsF8()
                             : a.type == b.type &&
                                   (d.type == a.type ||
                                    (half && d.type == CUDA_R_32F)) &&
                                   (half || wide || full));
  bool computes =
      wide ? desc.computeType == CUBLAS_COMPUTE_64F &&
                 desc.scaleType == CUDA_R_64F
           : (desc.computeType == CUBLAS_COMPUTE_32F ||
              (full && desc.computeType == CUBLAS_COMPUTE_32F_FAST_TF32)) &&
                 desc.scaleType == CUDA_R_32F;
  // "If set for an unsupported matrix data type [...]": only of 8 bits.
  if ((desc.scales[0] && !isF8(a.type)) || (desc.scales[1] && !isF8(b.type)))
    return CUBLAS_STATUS_INVALID_VALUE;
  return types && computes ? checkEpilogue() : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t Product::checkEpilogue() const {
  if (!desc.hasEpilogue())
    return CUBLAS_STATUS_SUCCESS;
  bool hasBias = desc.addsBias() || desc.hasSum();
  if ((hasBias && !desc.bias) || (desc.hasAux() && !desc.aux))
    return CUBLAS_STATUS_INVALID_VALUE;
  bool known = hasBias || desc.hasAux();
  // The documentation knows a bias of the result's type alone.
  bool fits = d.type != CUDA_R_64F && d.batch == 1 &&
              (biasType() == d.type ||
               (biasType() == CUDA_R_32F && getenv("MPFAKE_WIDE_BIAS"))) &&
              (!desc.hasAux() || (desc.auxLeading % 8 == 0 &&
                                  desc.auxLeading >= int64_t(d.rows)));
  return known && fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

uint64_t Product::alignments() const {
  auto of = [](const void *pointer) {
    return uint64_t(1) << std::countr_zero(
               reinterpret_cast<uintptr_t>(pointer) | 256);
  };
  if (!desc.hasEpilogue())
    return 0;
  return of(desc.bias) | (desc.hasAux() ? of(desc.aux) : 0) << 16;
}

uint64_t Product::hash() const {
  uint64_t hash = 0xcbf29ce484222325;
  auto add = [&](uint64_t value) { hash = (hash ^ value) * 0x100000001b3; };
  for (int value : {desc.computeType, desc.scaleType, desc.transA, desc.transB,
                    int(desc.epilogue), int(desc.auxLeading), desc.biasType})
    add(uint64_t(value));
  for (const auto *layout : {&a, &b, &c, &d})
    for (uint64_t value :
         {uint64_t(layout->type), layout->rows, layout->columns,
          uint64_t(layout->leading), uint64_t(layout->order),
          uint64_t(layout->batch), uint64_t(layout->batchStride)})
      add(value);
  return hash;
}

static double geluOf(double x) {
  constexpr double root = 0.79788456080286536; // of 2 / pi
  return 0.5 * x * (1 + std::tanh(root * (x + 0.044715 * x * x * x)));
}

static double geluSlopeOf(double x) {
  constexpr double root = 0.79788456080286536;
  double t = std::tanh(root * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) +
         0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
}

/// A over its columns, or B over its rows, as they are multiplied.
template <typename Sum> void Product::sumUp() const {
  bool ofA = desc.has(CUBLASLT_EPILOGUE_BGRADA);
  const cublasLtMatrixLayoutOpaque_t &layout = ofA ? a : b;
  Elements from(elementOf(layout.type), pointers[ofA ? 0 : 1]),
      to(elementOf(biasType()), desc.bias);
  bool inRows = (ofA ? desc.transA : desc.transB) == CUBLAS_OP_T;
  for (int64_t i = 0; i < (ofA ? m() : n()); ++i) {
    Sum sum = 0;
    for (int64_t l = 0; l < k(); ++l)
      sum += from.get<Sum>(ofA != inRows ? layout.at(i, l) : layout.at(l, i));
    to.set<Sum>(i, sum);
  }
}

template <typename Sum> void Product::multiply() const {
  if (desc.hasSum())
    sumUp<Sum>();
  Elements bias(elementOf(biasType()), desc.bias),
      aux(elementOf(d.type), desc.aux);
  const cublasLtMatrixLayoutOpaque_t *layouts[] = {&a, &b, &c, &d};
  std::vector<Elements> operands;
  for (int i = 0; i < 4; ++i)
    operands.emplace_back(elementOf(layouts[i]->type), pointers[i]);
  bool tf32 = desc.computeType == CUBLAS_COMPUTE_32F_FAST_TF32;
  bool transA = desc.transA == CUBLAS_OP_T, transB = desc.transB == CUBLAS_OP_T;
  for (int64_t batch = 0; batch < d.batch; ++batch)
    for (int64_t j = 0; j < n(); ++j)
      for (int64_t i = 0; i < m(); ++i) {
        Sum sum = 0;
        for (int64_t l = 0; l < k(); ++l) {
          Sum x = operands[0].get<Sum>(batch * a.batchStride +
                                       (transA ? a.at(l, i) : a.at(i, l)));
          Sum y = operands[1].get<Sum>(batch * b.batchStride +
                                       (transB ? b.at(j, l) : b.at(l, j)));
          if (tf32)
            x = Sum(roundToTf32(x)), y = Sum(roundToTf32(y));
          sum += x * y;
          if (algorithm == lossyAlgorithm && d.type != CUDA_R_32F)
            sum = Sum(mprt::bf16ToFloat(mprt::floatToBf16(float(sum))));
        }
        sum *= Sum(alpha);
        for (const float *scale : desc.scales)
          if (scale)
            sum *= Elements(MPRT_F32, scale).get<Sum>(0);
        if (beta != 0)
          sum += Sum(beta) *
                 operands[2].get<Sum>(batch * c.batchStride + c.at(i, j));
        if (desc.addsBias())
          sum += bias.get<Sum>(i);
        if (desc.has(CUBLASLT_EPILOGUE_GELU_AUX_BIAS))
          aux.set<Sum>(i + j * desc.auxLeading, sum);
        if (desc.has(CUBLASLT_EPILOGUE_DGELU))
          sum = Sum(double(sum) *
                    geluSlopeOf(double(aux.get<Sum>(i + j * desc.auxLeading))));
        if (desc.epilogue & 32)
          sum = Sum(geluOf(double(sum)));
        operands[3].set<Sum>(batch * d.batchStride + d.at(i, j), sum);
      }
}

int Product::run() const {
  std::vector<Operand> operands;
  const cublasLtMatrixLayoutOpaque_t *layouts[] = {&a, &b, &c, &d};
  for (int i = 0; i < 4; ++i)
    if (i != 2 || beta != 0)
      operands.push_back(
          {elementOf(layouts[i]->type), pointers[i], layouts[i]->last()});
  if (desc.addsBias() || desc.hasSum())
    operands.push_back({elementOf(biasType()), desc.bias,
                        (desc.has(CUBLASLT_EPILOGUE_BGRADB) ? n() : m()) - 1});
  for (const float *scale : desc.scales)
    if (scale)
      operands.push_back({MPRT_F32, scale, 0});
  if (desc.hasAux())
    operands.push_back(
        {elementOf(d.type), desc.aux, (n() - 1) * desc.auxLeading + m() - 1});
  return computeOn(operands, workspace, workspaceBytes,
                   algorithm == slowAlgorithm, d.type == CUDA_R_64F,
                   [this](auto zero) { multiply<decltype(zero)>(); });
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int wanted,
    cublasLtMatmulHeuristicResult_t results[], int *found) {
  FAKE_CALL(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic);
  *found = 0;
  if (!handle || wanted < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  Product product = {*desc, *a, *b, *c, *d};
  if (cublasStatus_t status = product.check())
    return status;
  std::vector<uint64_t> algorithms = {slowAlgorithm, 1, 2, brokenAlgorithm};
  if (preference->reductions &
      ~uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE))
    algorithms.insert(algorithms.begin(), lossyAlgorithm);
  for (uint64_t algorithm : algorithms) {
    const uint64_t workspace = algorithm == 2 ? 1 << 20 : 0;
    if (workspace > preference->workspace || *found == wanted)
      continue;
    cublasLtMatmulHeuristicResult_t &result = results[(*found)++];
    result = {};
    result.workspaceSize = workspace;
    uint64_t alignments = 0;
    for (int i = 0; i < 4; ++i)
      alignments |= uint64_t(preference->alignments[i]) << (16 * i);
    uint64_t data[] = {magic,     algorithm,  product.hash(),
                       workspace, alignments, product.alignments()};
    std::copy(std::begin(data), std::end(data), result.algo.data);
    result.state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
               const void *alpha, const void *a, cublasLtMatrixLayout_t layoutA,
               const void *b, cublasLtMatrixLayout_t layoutB, const void *beta,
               const void *c, cublasLtMatrixLayout_t layoutC, void *d,
               cublasLtMatrixLayout_t layoutD, const cublasLtMatmulAlgo_t *algo,
               void *workspace, size_t workspaceBytes, cudaStream_t stream) {
  FAKE_CALL(cublasStatus_t, cublasLtMatmul);
  if (!handle || !algo || algo->data[0] != magic)
    return CUBLAS_STATUS_INVALID_VALUE;
  Product product = {*desc, *layoutA, *layoutB, *layoutC, *layoutD};
  if (cublasStatus_t status = product.check())
    return status;
  const void *pointers[] = {a, b, c, d};
  std::copy(std::begin(pointers), std::end(pointers), product.pointers);
  product.algorithm = algo->data[1];
  if (algo->data[2] != product.hash() || workspaceBytes < algo->data[3] ||
      product.algorithm == brokenAlgorithm)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  for (int i = 0; i < 4; ++i) {
    uint64_t alignment = (algo->data[4] >> (16 * i)) & 0xffff;
    if (reinterpret_cast<uintptr_t>(pointers[i]) % alignment)
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  for (int i = 0; i < 2; ++i)
    if (((product.alignments() >> (16 * i)) & 0xffff) <
        ((algo->data[5] >> (16 * i)) & 0xffff))
      return CUBLAS_STATUS_NOT_SUPPORTED;
  product.workspace = workspace;
  product.workspaceBytes = size_t(algo->data[3]);
  bool isWide = desc->scaleType == CUDA_R_64F;
  product.alpha = scalarAt(alpha, isWide);
  product.beta = scalarAt(beta, isWide);
  mpfake_note(("cublasLtMatmul/" + std::to_string(product.algorithm)).c_str());
  if (isF8(layoutA->type))
    mpfake_note("cublasLtMatmul/f8");
  if (desc->scales[0])
    mpfake_note("cublasLtMatmul/scaled");
  mpfake_note(
      ("cublasLtMatmul/epilogue/" + std::to_string(desc->epilogue)).c_str());
  return enqueue(stream, "cublasLtMatmul", product)
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}
