//===- PassOptions.td - options that passes share -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An option has the same meaning in all passes that have it.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TRANSFORMS_PASSOPTIONS_TD
#define MPCOMM_TRANSFORMS_PASSOPTIONS_TD

include "mlir/Pass/PassBase.td"

def MPComm_AxisOption : Option<"axis", "axis", "std::string", "\"dp\"",
    "Mesh axis along which the ranks have different samples">;

def MPComm_ClusterOption : Option<"cluster", "cluster", "std::string", "\"\"",
    "Preset or JSON file of the cluster; empty: that of the module, else local">;
def MPComm_ResidualOption
    : Option<"residual", "residual", "std::string", "\"residual\"",
             "What is kept of a parameter is state of its name, a dot, and this">;

def MPComm_ProfileOption : Option<"profileFile", "profile-file", "std::string",
    "\"\"", "Measured times of ops, which replace the model's">;

def MPComm_NumericsOption : Option<"numerics", "numerics",
    "::mpcomm::Numerics", "::mpcomm::Numerics::Reassociating",
    "What rewrites may do to values", [{::llvm::cl::values(
      clEnumValN(::mpcomm::Numerics::Exact, "exact",
                 "keep all bits"),
      clEnumValN(::mpcomm::Numerics::Reassociating, "reassociating",
                 "reorder sums"),
      clEnumValN(::mpcomm::Numerics::Lossy, "lossy",
                 "also round to fewer bits, as on the wire")
    )}]>;

#endif // MPCOMM_TRANSFORMS_PASSOPTIONS_TD
