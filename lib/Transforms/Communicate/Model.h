//===- Model.h - the cost model that a pass asks ----------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where passes that weigh communication take their figures from: options
// first, then the module's attribute, then the preset `local`.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_COMMUNICATE_MODEL_H
#define MPCOMM_LIB_TRANSFORMS_COMMUNICATE_MODEL_H

#include "Communicate/WireFormat.h"
#include "mpcomm/Analysis/StepModel/ProgramModel.h"

namespace mpcomm {

/// The step of a function; nothing, with the reason in `why` and without a
/// diagnostic, where it cannot be read.
std::optional<StepModel> getStepModel(mlir::FunctionOpInterface function,
                                      const CostModel &model, std::string &why);

/// The same of an mpcomm.program, or of a function that all ranks run.
std::optional<ProgramModel> getProgramModel(mlir::Operation *symbol,
                                            const CostModel &model,
                                            std::string &why);

/// What an all_reduce over groups of `shape` takes as a reduce_scatter inside
/// the blocks of level `level`, an all_reduce across them and an all_gather
/// inside, by bytes of payload; nothing where that cuts nothing, or blocks of
/// the group differ in size.
std::optional<CostCurve> getTwoLevelCost(const CostModel &model,
                                         const GroupShape &shape,
                                         unsigned level);

/// Whether an all_reduce may be exchanged, summed in f32, and gathered, or a
/// reduce_scatter of rows exchanged and summed: a sum or mean of floats of up
/// to 32 bits that says `accumulate f32`.
bool isCompressible(CollectiveOpInterface op);

/// What `op` takes compressed over groups of `shape`, by bytes of its payload
/// on the wire, as `CostModel::getCollective` counts them: an all_to_all of
/// what is encoded, and of scales where there are any, and of an all_reduce an
/// all_gather; passes over memory that lay operands in a row, encode, sum,
/// decode and hand out; and a launch for each of the kernels between. Launches
/// for each operand are left out.
CostCurve getCompressedCost(const CostModel &model, const GroupShape &shape,
                            const WireFormat &format,
                            CollectiveOpInterface op);

/// Seconds that it takes to lay `tensors` tensors of `bytes` in all in one row
/// and back: every byte is read and written twice, in an op a tensor and one
/// for the row. Nothing for one tensor.
double getPackingSeconds(const CostModel &model, size_t tensors, double bytes);

/// Seconds as microseconds with one digit, for remarks.
std::string toMicros(double seconds);

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_COMMUNICATE_MODEL_H
