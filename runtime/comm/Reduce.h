//===- Reduce.h - elementwise reductions over the ranks' buffers ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// out[i] = in[0][i] . in[1][i] . ... . in[n-1][i], always from left to right,
// so that a result depends neither on which rank computes it nor on the
// instruction set. Partial results are kept in the accumulation type and
// rounded once.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_REDUCE_H
#define MPCOMM_RUNTIME_COMM_REDUCE_H

#include "mpcomm/Runtime/mprt.h"

#include <stddef.h>

namespace mprt {

struct ReduceArguments {
  /// One buffer a rank, in the order of the ranks.
  const void *const *inputs;
  unsigned numInputs;
  /// Where the result goes; all of them receive the same. An output may be one
  /// of the inputs, but not overlap one otherwise.
  void *const *outputs;
  unsigned numOutputs;
  /// Elements.
  size_t count;
  /// For MPRT_MEAN: what the sum is divided by.
  unsigned divisor;
};

using ReduceFunction = void (*)(const ReduceArguments &);

/// The function for elements of `type`, or null where the combination is not
/// supported: f32, f64, f16, bf16 with any reduction; integers with any but the
/// mean (they wrap around); bool, whose sum and maximum are "or", product and
/// minimum "and", without a mean. `accumulate` f64 keeps f32, f16 and bf16 in
/// double; else all three are kept in float and f64 in double. The minimum and
/// maximum of floating point numbers are NaN where one of them is.
ReduceFunction findReduce(mprt_dtype type, mprt_dtype accumulate,
                          mprt_reduction reduction);

} // namespace mprt

#endif // MPCOMM_RUNTIME_COMM_REDUCE_H
