//===- GemmEpilogue.cpp - epilogues as cuBLASLt wants them ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/cuda/GemmEpilogue.h"

using namespace mprt;
using namespace mprt::cuda;

Error mprt::cuda::pointEpilogue(const CublasLt &lt, LtMatmulDesc operation,
                                const GemmEpilogue &epilogue, void *kept) {
  auto set = [&](int attribute, const void *value) {
    return lt.check(lt.cublasLtMatmulDescSetAttribute(operation, attribute,
                                                      &value, sizeof value),
                    "cublasLtMatmulDescSetAttribute");
  };
  if (epilogue.bias)
    if (Error error = set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue.bias))
      return error;
  // The library multiplies by both: which one is of which operand is all the
  // same.
  constexpr int attributes[] = {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                                CUBLASLT_MATMUL_DESC_B_SCALE_POINTER};
  for (size_t i = 0; i < epilogue.scales.size() && epilogue.scales[i]; ++i)
    if (Error error = set(attributes[i], epilogue.scales[i]))
      return error;
  if (!epilogue.matrix)
    return {};
  return set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
             epilogue.kind == MPRT_GELU_GRAD ? epilogue.matrix : kept);
}

/// The library's operands are ours in the other order.
static uint32_t libraryEpilogue(mprt_epilogue_kind kind) {
  switch (kind) {
  case MPRT_BIAS:
    return CUBLASLT_EPILOGUE_BIAS;
  case MPRT_BIAS_GELU:
    return CUBLASLT_EPILOGUE_GELU_BIAS;
  case MPRT_BIAS_GELU_AUX:
    return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  case MPRT_GELU_GRAD:
    return CUBLASLT_EPILOGUE_DGELU;
  case MPRT_BIAS_GRAD_A:
    return CUBLASLT_EPILOGUE_BGRADB;
  case MPRT_BIAS_GRAD_B:
    return CUBLASLT_EPILOGUE_BGRADA;
  case MPRT_SCALE:
    return CUBLASLT_EPILOGUE_DEFAULT;
  }
  return 0;
}

Error mprt::cuda::describeEpilogue(const CublasLt &lt, LtMatmulDesc operation,
                                   const GemmEpilogue &epilogue, uint8_t type,
                                   int64_t leading, void *c) {
  auto set = [&](int attribute, const auto &value) {
    return lt.check(lt.cublasLtMatmulDescSetAttribute(operation, attribute,
                                                      &value, sizeof value),
                    "cublasLtMatmulDescSetAttribute");
  };
  if (Error error =
          set(CUBLASLT_MATMUL_DESC_EPILOGUE, libraryEpilogue(epilogue.kind)))
    return error;
  if (epilogue.matrix)
    if (Error error = set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, leading))
      return error;
  // Old versions do not know the attribute; the result's type is the default.
  if (epilogue.bias && epilogue.biasType != type)
    if (Error error = set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
                          int32_t(libraryType(uint8_t(epilogue.biasType)))))
      return error;
  return pointEpilogue(lt, operation, epilogue, c);
}

bool mprt::cuda::hasEpilogueLayout(const GemmEpilogue &epilogue,
                                   int64_t leading) {
  // cublasLt.h, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD.
  return !epilogue.matrix || leading % 8 == 0;
}

bool mprt::cuda::isRefusal(const Error &error) {
  return error.status() == MPRT_UNSUPPORTED ||
         error.status() == MPRT_INVALID_ARGUMENT;
}
