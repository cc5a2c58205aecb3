//===- MPCommAttrs.td - attributes -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_IR_ATTRS
#define MPCOMM_IR_ATTRS

include "mlir/IR/AttrTypeBase.td"
include "MPCommEnums.td"

class MPComm_EnumAttr<EnumAttrInfo info, string name>
    : EnumAttr<MPComm_Dialect, info, name>;

/// Printed `#mpcomm.role<parameter>`.
def MPComm_RoleAttr : MPComm_EnumAttr<MPComm_Role, "role"> {
  let assemblyFormat = "`<` $value `>`";
}
def MPComm_ReductionAttr : MPComm_EnumAttr<MPComm_Reduction, "reduction">;
def MPComm_LossReductionAttr
    : MPComm_EnumAttr<MPComm_LossReduction, "loss_reduction">;
def MPComm_GeluApproximationAttr
    : MPComm_EnumAttr<MPComm_GeluApproximation, "gelu_approximation">;

#endif // MPCOMM_IR_ATTRS
