//===- MpiReduceOps.cpp - types and reductions for MPI --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A function that MPI calls for a reduction learns nothing but the buffers and
// the type. So there is one for each combination, made by a template, and each
// finds its kernel when it is first asked for.
//
//===----------------------------------------------------------------------===//

#include "MpiReduceOps.h"

#include "../Reduce.h"

#include <array>
#include <utility>

using namespace mprt;

MPI_Datatype mprt::mpiTypeOf(mprt_dtype type) {
  switch (type) {
  case MPRT_F32:
    return MPI_FLOAT;
  case MPRT_F64:
    return MPI_DOUBLE;
  case MPRT_F16:
  case MPRT_BF16:
    return MPI_UINT16_T;
  case MPRT_I8:
    return MPI_INT8_T;
  case MPRT_I16:
    return MPI_INT16_T;
  case MPRT_I32:
    return MPI_INT32_T;
  case MPRT_I64:
    return MPI_INT64_T;
  default:
    return MPI_UINT8_T;
  }
}

namespace {

constexpr unsigned typeCount = 10, accumulateCount = 2, reductionCount = 4;
constexpr unsigned slots = typeCount * accumulateCount * reductionCount;

/// What a slot reduces. Partial results are kept in f64, or not.
struct Combination {
  mprt_dtype type, accumulate;
  mprt_reduction reduction;
};

constexpr Combination combinationOf(unsigned slot) {
  auto type = mprt_dtype(slot / (accumulateCount * reductionCount));
  bool wide = slot / reductionCount % accumulateCount != 0;
  return {type, wide ? MPRT_F64 : type, mprt_reduction(slot % reductionCount)};
}

/// inout = in . inout, in the order of the ranks.
template <unsigned Slot>
void combine(void *in, void *inout, int *count, MPI_Datatype *) {
  constexpr Combination which = combinationOf(Slot);
  static const ReduceFunction reduce =
      findReduce(which.type, which.accumulate, which.reduction);
  const void *inputs[] = {in, inout};
  void *outputs[] = {inout};
  ReduceArguments arguments = {};
  arguments.inputs = inputs;
  arguments.numInputs = 2;
  arguments.outputs = outputs;
  arguments.numOutputs = 1;
  arguments.count = size_t(*count);
  arguments.divisor = 1;
  reduce(arguments);
}

template <size_t... Slot>
constexpr std::array<MPI_User_function *, slots>
functions(std::index_sequence<Slot...>) {
  return {combine<Slot>...};
}

constexpr std::array<MPI_User_function *, slots> userFunctions =
    functions(std::make_index_sequence<slots>());

} // namespace

MPI_Op mprt::mpiOpOf(mprt_dtype type, mprt_dtype accumulate,
                     mprt_reduction reduction) {
  if (reduction == MPRT_MEAN)
    reduction = MPRT_SUM;
  bool wide = accumulate == MPRT_F64 && type != MPRT_F64;
  bool additive = reduction == MPRT_SUM || reduction == MPRT_PROD;
  bool integer = type >= MPRT_I8 && type <= MPRT_I64;
  if (integer ||
      ((type == MPRT_F32 || type == MPRT_F64) && additive && !wide)) {
    switch (reduction) {
    case MPRT_SUM:
      return MPI_SUM;
    case MPRT_PROD:
      return MPI_PROD;
    case MPRT_MIN:
      return MPI_MIN;
    default:
      return MPI_MAX;
    }
  }
  if (type >= typeCount || reduction >= reductionCount ||
      !findReduce(type, accumulate, reduction))
    return MPI_OP_NULL;
  static MPI_Op made[slots];
  static bool exists[slots];
  unsigned slot =
      (type * accumulateCount + wide) * reductionCount + unsigned(reduction);
  if (!exists[slot]) {
    if (MPI_Op_create(userFunctions[slot], /*commute=*/1, &made[slot]))
      return MPI_OP_NULL;
    exists[slot] = true;
  }
  return made[slot];
}
