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
def MPComm_RngDistributionAttr
    : MPComm_EnumAttr<MPComm_RngDistribution, "rng_distribution">;
def MPComm_GeluApproximationAttr
    : MPComm_EnumAttr<MPComm_GeluApproximation, "gelu_approximation">;

//===----------------------------------------------------------------------===//
// Clusters
//===----------------------------------------------------------------------===//

/// An f64, printed as a plain literal.
class MPComm_F64Parameter<string desc> : APFloatParameter<desc> {
  let parser = [{[&]() -> ::mlir::FailureOr<::llvm::APFloat> {
    ::llvm::APFloat value(0.0);
    if ($_parser.parseFloat(::llvm::APFloat::IEEEdouble(), value))
      return ::mlir::failure();
    return value;
  }()}];
  let printer = "$_printer.printFloat($_self)";
}

class MPComm_ClusterPart<string name, string attrMnemonic>
    : AttrDef<MPComm_Dialect, name> {
  let mnemonic = attrMnemonic;
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def MPComm_DeviceAttr : MPComm_ClusterPart<"Device", "device"> {
  let summary = "rates of the device of a rank";
  let description = [{
    `flops` maps element types to the flop/s that large matrix products sustain;
    `vector` is the rate of all other ops. `efficiency` maps kinds of products
    to the share of that rate that they sustain; the default is 1.
    `memory_bandwidth` is in bytes/s, `memory_bytes` in bytes. `launch` is the
    seconds that each op takes in addition to its work. `fused_attention` says
    that one kernel of the device computes `mpcomm.attention`; otherwise it is
    computed as products and softmax.

    Constraints:
    - C1: `memory_bandwidth` and `memory_bytes` are positive, `launch` is not
      negative; all are finite.
    - C2: `flops` has positive f64 values for some of f64, f32, f16, bf16, f8,
      i8 and vector, and for f32.
    - C3: `efficiency` has positive f64 values of at most 4 for some of product,
      convolution, attention and masked_attention.
  }];
  let parameters = (ins StringRefParameter<"">:$name,
                        "::mlir::DictionaryAttr":$flops,
                        MPComm_F64Parameter<"bytes/s">:$memory_bandwidth,
                        "int64_t":$memory_bytes,
                        MPComm_F64Parameter<"seconds">:$launch,
                        OptionalParameter<"::mlir::DictionaryAttr">:$efficiency,
                        DefaultValuedParameter<"bool", "false">:$fused_attention);
  let extraClassDeclaration = [{
    /// The greatest value in `efficiency`.
    static constexpr double kMaxEfficiency = 4;
    /// The keys that `flops` may have.
    static ::llvm::ArrayRef<::llvm::StringLiteral> getFlopKeys();
  }];
}

def MPComm_LinkAttr : MPComm_ClusterPart<"Link", "link"> {
  let summary = "links that join blocks of consecutive ranks";
  let description = [{
    `latency` is in seconds per message, `bandwidth` in bytes/s per rank and
    direction. `ranks` is the size of a block; 0 means all ranks. `rails` is the
    number of ranks through which a flat ring or tree leaves an inner block at
    once; 0 means all.

    Constraints:
    - C1: `latency` is not negative, `bandwidth` is positive; both are finite.
    - C2: `ranks` and `rails` are not negative; `name` is not empty.
  }];
  let parameters = (ins StringRefParameter<"">:$name, "int64_t":$ranks,
                        MPComm_F64Parameter<"seconds">:$latency,
                        MPComm_F64Parameter<"bytes/s">:$bandwidth,
                        "bool":$contends, "int64_t":$rails);
}

def MPComm_MeasuredAttr : MPComm_ClusterPart<"Measured", "measured"> {
  let summary = "measured cost of a collective";
  let description = [{
    The collective takes alpha + beta * bytes of payload seconds on groups of
    `ranks`. This replaces the formulas of the cost model for this backend
    (empty: any), if the outermost links of the group are `link` (empty: any).

    Constraints:
    - C1: `kind` is a collective (`all_reduce`, …).
    - C2: `ranks` is positive; `alpha` and `beta` are finite and not negative.
  }];
  let parameters = (ins StringRefParameter<"">:$kind, "int64_t":$ranks,
                        StringRefParameter<"">:$backend,
                        MPComm_F64Parameter<"seconds">:$alpha,
                        MPComm_F64Parameter<"seconds a byte">:$beta,
                        StringRefParameter<"">:$link);
}

def MPComm_ClusterAttr : MPComm_ClusterPart<"Cluster", "cluster"> {
  let summary = "the cluster for which a program is compiled";
  let description = [{
    The attribute `mpcomm.cluster` of a module. It has the content of a cluster
    file (docs/Design/ClusterFile.md).

    Example:
    ```mlir
    module attributes {mpcomm.cluster = #mpcomm.cluster<
        name = "two", source = "measured",
        device = <name = "cpu", flops = {f32 = 1.0e11}, memory_bandwidth = 1.0e10,
                  memory_bytes = 8000000000, launch = 1.0e-6>,
        links = [#mpcomm.link<name = "shm", ranks = 0, latency = 1.0e-6, bandwidth = 5.0e9,
                              contends = true, rails = 1>],
        compute_rate_under_comm = 1.0, comm_rate_under_compute = 1.0, collective_launch = 0.0>} {
    }
    ```

    Constraints:
    - C1: `links` holds at least one #mpcomm.link; their names differ.
    - C2: the last level has `ranks` 0; each other has a multiple of the ranks
      of the level before, and more.
    - C3: `measured` holds #mpcomm.measured; each `link` exists or is empty.
    - C4: the rates are in (0, 1]; `collective_launch` is finite and not
      negative.
    - C5: `algorithms` holds names of algorithms other than `measured`.
  }];
  let parameters = (ins StringRefParameter<"">:$name,
                        StringRefParameter<"">:$source, "DeviceAttr":$device,
                        "::mlir::ArrayAttr":$links,
                        OptionalParameter<"::mlir::ArrayAttr">:$measured,
                        MPComm_F64Parameter<"">:$compute_rate_under_comm,
                        MPComm_F64Parameter<"">:$comm_rate_under_compute,
                        MPComm_F64Parameter<"seconds">:$collective_launch,
                        OptionalParameter<"::mlir::ArrayAttr">:$algorithms);
}

#endif // MPCOMM_IR_ATTRS
