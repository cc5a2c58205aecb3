//===- ShardingAttrs.td - what a rank holds of a value -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_IR_SHARDINGATTRS
#define MPCOMM_IR_SHARDINGATTRS

include "MPCommAttrs.td"

def MPComm_AxisRefAttr : AttrDef<MPComm_Dialect, "AxisRef"> {
  let summary = "an axis of a mesh, or a part of one";
  let description = [{
    `"dp"` is the whole axis. `"dp":(2)4` is a sub-axis, as in Shardy: the axis
    is seen as `[2, 4, rest]`, row-major, and the sub-axis is the 4. So a mesh
    keeps its names where a reduction runs at two levels.

    Constraints:
    - C1: the name is not empty.
    - C2: of a sub-axis, the ranks before it are at least 1, and its size is at
      least 2; both are 0 for a whole axis.
  }];
  let mnemonic = "axis";
  let parameters = (ins "::mlir::StringAttr":$name,
                        DefaultValuedParameter<"int64_t", "0">:$pre_size,
                        DefaultValuedParameter<"int64_t", "0">:$size);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isSubAxis() const { return getSize() != 0; }
    /// Whether some coordinate counts in both: one axis, and parts of it that
    /// overlap.
    bool overlaps(AxisRefAttr other) const;
  }];
}

def MPComm_PartialAxisAttr : AttrDef<MPComm_Dialect, "PartialAxis"> {
  let summary = "an axis over which a value has yet to be reduced";
  let mnemonic = "partial";
  let parameters = (ins "AxisRefAttr":$axis, "Reduction":$reduction);
  let hasCustomAssemblyFormat = 1;
}

def MPComm_ShardingAttr : AttrDef<MPComm_Dialect, "Sharding"> {
  let summary = "what a rank holds of a value";
  let description = [{
    Of a tensor, for each axis of the mesh. An axis stands

    - in the list of a dimension: the dimension is split into equal blocks over
      the axes of its list, the first of which varies slowest;
    - in `flat`: all elements, in row-major order and padded with zeros to a
      multiple of the ranks, are split into equal blocks;
    - in `partial`: the value is the reduction, over the axis, of what the ranks
      hold;
    - in `local`: ranks have values of their own, without a meaning together;
    - nowhere: all ranks along the axis hold the same.

    ```
    #mpcomm.sharding<@mesh, [{"tp"}, {} ]>                       rows over tp
    #mpcomm.sharding<@mesh, [{}, {} ], flat = ["dp"]>            state of ZeRO
    #mpcomm.sharding<@mesh, [{}, {} ], partial = [mean "dp"]>   a gradient
    #mpcomm.sharding<@mesh, [{"tp":(1)2} ]>                      half of an axis
    ```

    As `mpcomm.sharding` it stands on arguments and results of functions; without
    it they are replicated, or samples of a data rank where they are a batch. A
    function whose types are those of a rank has the whole type beside it, as
    `mpcomm.global_type`.

    Constraints:
    - C1: no axis, and no part of one, counts twice.
    - C2: with `flat` no dimension is split.
    - C3: the reduction of a partial value is sum, mean or max.
  }];
  let mnemonic = "sharding";
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$mesh,
                        "::mlir::ArrayAttr":$dims, "::mlir::ArrayAttr":$flat,
                        "::mlir::ArrayAttr":$partial,
                        "::mlir::ArrayAttr":$local);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let builders = [
    AttrBuilder<(ins "::mlir::FlatSymbolRefAttr":$mesh, "int64_t":$rank), [{
      ::llvm::SmallVector<::mlir::Attribute> dims(
          rank, ::mlir::ArrayAttr::get($_ctxt, {}));
      auto none = ::mlir::ArrayAttr::get($_ctxt, {});
      return $_get($_ctxt, mesh, ::mlir::ArrayAttr::get($_ctxt, dims), none,
                   none, none);
    }]>
  ];
  let extraClassDeclaration = [{
    /// The number of dimensions of the tensor.
    int64_t getRank() const { return getDims().size(); }
    ::mlir::ArrayAttr getDim(int64_t dim) const {
      return ::llvm::cast<::mlir::ArrayAttr>(getDims()[dim]);
    }
    bool isFlat() const { return !getFlat().empty(); }
    /// Whether all ranks hold the whole, and the same.
    bool isReplicated() const;
    /// Whether blocks of it are on several ranks: some dimension is split, or
    /// all elements are.
    bool isSharded() const;
    /// The same over the other axes, and split flat over `axes`.
    ShardingAttr withFlat(::mlir::ArrayAttr axes) const;
  }];
}

#endif // MPCOMM_IR_SHARDINGATTRS
