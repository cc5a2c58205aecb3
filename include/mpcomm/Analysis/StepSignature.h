//===- StepSignature.h - roles and names of a step --------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the attributes `mpcomm.role`, `mpcomm.name` and `mpcomm.donated` of the
// arguments and results of any function.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_STEPSIGNATURE_H
#define MPCOMM_ANALYSIS_STEPSIGNATURE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include <optional>
#include <string>

namespace mpcomm {

/// The functions that Form 1 knows by name.
inline constexpr llvm::StringLiteral kTrainStep = "train_step";
inline constexpr llvm::StringLiteral kEvaluate = "evaluate";
/// Does what a step has left for the next one to begin with.
inline constexpr llvm::StringLiteral kApplyPending = "apply_pending";

/// The module's `@train_step`; null, with an error, if it is missing or has no
/// body.
mlir::func::FuncOp getTrainStep(mlir::ModuleOp module);

/// Calls `callback` on each function of the module and of nested modules,
/// without walking their bodies.
void forEachFunction(
    mlir::ModuleOp module,
    llvm::function_ref<void(mlir::FunctionOpInterface)> callback);

/// The role, or nothing if the attribute is missing.
std::optional<Role> getArgumentRole(mlir::FunctionOpInterface function,
                                    unsigned index);
std::optional<Role> getResultRole(mlir::FunctionOpInterface function,
                                  unsigned index);

/// Whether each argument has a role: the function is the step, or one like it.
bool hasAllRoles(mlir::FunctionOpInterface function);

/// The name, or empty if the attribute is missing.
llvm::StringRef getArgumentName(mlir::FunctionOpInterface function,
                                unsigned index);
llvm::StringRef getResultName(mlir::FunctionOpInterface function,
                              unsigned index);

/// The result that may reuse the argument's buffer, or nothing.
std::optional<int64_t> getDonation(mlir::FunctionOpInterface function,
                                   unsigned index);

/// The argument of the function's body whose buffer result number `result`
/// reuses: the state that it takes the place of. Null if there is none.
mlir::BlockArgument getDonor(mlir::FunctionOpInterface function,
                             unsigned result);

/// Whether the role is state that passes from one step to the next: parameter,
/// optimizer_state, buffer, loss_scale, rng.
bool isStateRole(Role role);

/// Whether the role is state that is replicated over all ranks that run the
/// same functions, along any axis: isStateRole except rng.
bool isReplicatedRole(Role role);

/// For messages: `argument #3 'wte.weight'`, without the name if there is none.
std::string describeArgument(mlir::FunctionOpInterface function,
                             unsigned index);
std::string describeResult(mlir::FunctionOpInterface function, unsigned index);

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_STEPSIGNATURE_H
