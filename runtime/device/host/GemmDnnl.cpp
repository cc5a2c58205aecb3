//===- GemmDnnl.cpp - matrix products by oneDNN ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// oneDNN offers two routines: sgemm, as of BLAS, and the matmul primitive,
// which knows batches and 16-bit types and is prepared once for a shape. The
// rule by which `run` chooses is in `prefersPrimitive`, with the figures
// after it. The copy of weights into the library's own layout does not pay: it
// costs more than it gains at every shape that was measured.
//
//===----------------------------------------------------------------------===//

#include "device/host/GemmDnnl.h"

#include "device/host/DnnlObjects.h"
#include "device/host/GemmBatch.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <unordered_map>

using namespace mprt;
using namespace mprt::host;

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

namespace {

/// A matrix as BLAS takes it: rows are contiguous, or ('T') columns are.
struct BlasMatrix {
  char transposed;
  int64_t leading;
};

} // namespace

/// False where the strides are not those of a matrix that BLAS takes.
static bool blasMatrix(int64_t rows, int64_t columns, const int64_t strides[2],
                       BlasMatrix &matrix) {
  bool oneRow = rows == 1, oneColumn = columns == 1;
  if ((oneColumn || strides[1] == 1) && (oneRow || strides[0] >= columns)) {
    matrix = {'N', oneRow ? columns : strides[0]};
    return true;
  }
  if ((oneRow || strides[0] == 1) && (oneColumn || strides[1] >= rows)) {
    matrix = {'T', oneColumn ? rows : strides[1]};
    return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Prepared primitives
//===----------------------------------------------------------------------===//

namespace {

/// The numbers of a descriptor that a primitive depends on.
using Key = std::array<int64_t, 28>;

/// A matmul primitive with its memory objects; `primitive` is null where the
/// library has no fast one.
struct Prepared {
  dnnl_primitive_t primitive = nullptr;
  dnnl_memory_t a = nullptr, b = nullptr, c = nullptr;

  Prepared() = default;
  Prepared(const Prepared &) = delete;
  Prepared &operator=(const Prepared &) = delete;
  ~Prepared() {
    if (primitive)
      dnnl_primitive_destroy(primitive);
    for (dnnl_memory_t memory : {a, b, c})
      if (memory)
        dnnl_memory_destroy(memory);
  }
};

} // namespace

struct DnnlGemm::Implementation {
  DnnlEngine cpu; // outlives what is prepared for it
  std::unordered_map<Key, std::unique_ptr<Prepared>, DnnlKeyHash> prepared;

  Error prepare(const mprt_gemm_desc &desc, Prepared &result);
  Error find(const mprt_gemm_desc &desc, Prepared *&result);
  Error execute(Prepared &matmul, const void *a, const void *b, void *c);
};

DnnlGemm::DnnlGemm() : implementation(std::make_unique<Implementation>()) {}

DnnlGemm::~DnnlGemm() = default;

const char *DnnlGemm::version() {
  static const std::string text = [] {
    const dnnl_version_t *version = dnnl_version();
    return "oneDNN " + std::to_string(version->major) + "." +
           std::to_string(version->minor) + "." +
           std::to_string(version->patch);
  }();
  return text.c_str();
}

static dnnl_data_type_t dnnlType(uint8_t type) {
  return type == MPRT_BF16 ? dnnl_bf16 : dnnl_f32;
}

/// Describes one operand: batch dimensions, then two of the matrix. A stride of
/// 0 is a dimension of size 1, which the library broadcasts.
static dnnl_status_t describe(const mprt_gemm_desc &d, uint8_t type,
                              const int64_t *batch, int64_t rows,
                              int64_t columns, const int64_t strides[2],
                              dnnl_memory_desc_t &result) {
  dnnl_dims_t sizes = {}, steps = {};
  int rank = 0;
  for (uint32_t i = 0; i < d.batch_rank; ++i, ++rank) {
    sizes[rank] = batch[i] ? d.batch[i] : 1;
    steps[rank] = batch[i] ? batch[i] : 1;
  }
  sizes[rank] = rows, steps[rank++] = strides[0];
  sizes[rank] = columns, steps[rank++] = strides[1];
  return dnnl_memory_desc_init_by_strides(&result, rank, sizes, dnnlType(type),
                                          steps);
}

Error DnnlGemm::Implementation::prepare(const mprt_gemm_desc &d,
                                        Prepared &result) {
  dnnl_memory_desc_t a, b, c;
  if (describe(d, d.type_a, d.batch_a, d.m, d.k, d.strides_a, a) ||
      describe(d, d.type_b, d.batch_b, d.k, d.n, d.strides_b, b) ||
      describe(d, d.type_c, d.batch_c, d.m, d.n, d.strides_c, c))
    return {};
  dnnl_matmul_desc_t matmul;
  if (dnnl_matmul_desc_init(&matmul, &a, &b, nullptr, &c))
    return {};
  dnnl_primitive_attr_t attributes = nullptr;
  dnnl_post_ops_t after = nullptr;
  if (d.accumulate) {
    if (dnnl_post_ops_create(&after) || dnnl_post_ops_append_sum(after, 1.0f) ||
        dnnl_primitive_attr_create(&attributes) ||
        dnnl_primitive_attr_set_post_ops(attributes, after)) {
      if (attributes)
        dnnl_primitive_attr_destroy(attributes);
      if (after)
        dnnl_post_ops_destroy(after);
      return makeError(MPRT_OUT_OF_MEMORY, "oneDNN has no attributes left");
    }
  }
  dnnl_primitive_desc_t primitive = nullptr;
  dnnl_status_t status = dnnl_primitive_desc_create(
      &primitive, &matmul, attributes, cpu.engine.value, nullptr);
  if (attributes)
    dnnl_primitive_attr_destroy(attributes);
  if (after)
    dnnl_post_ops_destroy(after);
  if (status)
    return {};
  // The library's reference code is slower than the built-in kernel.
  const char *name = "";
  dnnl_primitive_desc_query(primitive, dnnl_query_impl_info_str, 0, &name);
  if (!std::strncmp(name, "ref", 3)) {
    dnnl_primitive_desc_destroy(primitive);
    return {};
  }
  status = dnnl_primitive_create(&result.primitive, primitive);
  dnnl_primitive_desc_destroy(primitive);
  if (status)
    return dnnlFailure("matmul", status);
  for (auto [memory, desc] :
       {std::pair(&result.a, &a), {&result.b, &b}, {&result.c, &c}})
    if (dnnl_status_t failed = dnnl_memory_create(
            memory, desc, cpu.engine.value, DNNL_MEMORY_NONE))
      return dnnlFailure("memory", failed);
  return {};
}

Error DnnlGemm::Implementation::find(const mprt_gemm_desc &d,
                                     Prepared *&result) {
  Key key = {d.type_a | d.type_c << 8 | (d.accumulate ? 1 << 16 : 0) |
                 int64_t(d.batch_rank) << 32,
             d.m,
             d.n,
             d.k,
             d.strides_a[0],
             d.strides_a[1],
             d.strides_b[0],
             d.strides_b[1],
             d.strides_c[0]};
  for (uint32_t i = 0; i < d.batch_rank; ++i) {
    key[9 + 4 * i] = d.batch[i];
    key[10 + 4 * i] = d.batch_a[i];
    key[11 + 4 * i] = d.batch_b[i];
    key[12 + 4 * i] = d.batch_c[i];
  }
  std::unique_ptr<Prepared> &entry = prepared[key];
  if (!entry) {
    if (Error error = cpu.open())
      return error;
    auto made = std::make_unique<Prepared>();
    if (Error error = prepare(d, *made))
      return error;
    entry = std::move(made);
  }
  result = entry.get();
  return {};
}

Error DnnlGemm::Implementation::execute(Prepared &matmul, const void *a,
                                        const void *b, void *c) {
  dnnl_memory_set_data_handle(matmul.a, const_cast<void *>(a));
  dnnl_memory_set_data_handle(matmul.b, const_cast<void *>(b));
  dnnl_memory_set_data_handle(matmul.c, c);
  dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, matmul.a},
                                 {DNNL_ARG_WEIGHTS, matmul.b},
                                 {DNNL_ARG_DST, matmul.c}};
  if (dnnl_status_t status = dnnl_primitive_execute(
          matmul.primitive, cpu.stream.value, 3, arguments))
    return dnnlFailure("execute", status);
  if (dnnl_status_t status = dnnl_stream_wait(cpu.stream.value))
    return dnnlFailure("wait", status);
  return {};
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

/// Whether the primitive is the faster of the two for f32. Measured on one core
/// of a Zen 4 at m = 1024 and n, k from 128 to 3072 (GFLOP/s): with A's rows
/// contiguous and B small enough for the second cache the primitive reaches
/// 114 to 117 where sgemm has 106 to 116; from there on, and always with A
/// transposed, sgemm has 105 to 117 where the primitive has 80 to 112.
static bool prefersPrimitive(const mprt_gemm_desc &d, const BlasMatrix &a,
                             const BlasMatrix &b) {
  int64_t limit = b.transposed == 'T' ? 256 * 1024 : 64 * 1024;
  return a.transposed == 'N' && d.k <= limit / d.n;
}

/// Fills in the layouts and returns true where sgemm or a primitive may apply.
static bool layoutsOf(const mprt_gemm_desc &desc, BlasMatrix &a, BlasMatrix &b,
                      BlasMatrix &c) {
  return (desc.type_a == MPRT_F32 || desc.type_a == MPRT_BF16) &&
         blasMatrix(desc.m, desc.k, desc.strides_a, a) &&
         blasMatrix(desc.k, desc.n, desc.strides_b, b) &&
         blasMatrix(desc.m, desc.n, desc.strides_c, c) && c.transposed == 'N';
}

Error DnnlGemm::plan(const mprt_gemm_desc &desc, const char *&way) {
  return run(desc, nullptr, nullptr, nullptr, way);
}

Error DnnlGemm::run(const mprt_gemm_desc &desc, const void *a, const void *b,
                    void *c, const char *&way) {
  way = nullptr;
  bool dry = !c;
  BlasMatrix layoutA, layoutB, layoutC;
  if (!layoutsOf(desc, layoutA, layoutB, layoutC))
    return {};
  bool single = desc.type_a == MPRT_F32;
  if (!single || prefersPrimitive(desc, layoutA, layoutB)) {
    Prepared *matmul = nullptr;
    if (Error error = implementation->find(desc, matmul))
      return error;
    if (matmul->primitive) {
      way = "matmul";
      return dry ? Error() : implementation->execute(*matmul, a, b, c);
    }
    if (!single)
      return {};
  }
  way = "sgemm";
  if (dry)
    return {};
  BatchWalk walk(desc);
  do {
    dnnl_status_t status =
        dnnl_sgemm(layoutA.transposed, layoutB.transposed, desc.m, desc.n,
                   desc.k, 1.0f, static_cast<const float *>(a) + walk.a,
                   layoutA.leading, static_cast<const float *>(b) + walk.b,
                   layoutB.leading, desc.accumulate ? 1.0f : 0.0f,
                   static_cast<float *>(c) + walk.c, layoutC.leading);
    if (status != dnnl_success)
      return dnnlFailure("sgemm", status);
  } while (walk.next());
  return {};
}
