//===- MeshOps.td - meshes, and a rank's place in them -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The mesh, and what a rank computes of its coordinates and of the number of
// ranks. None of it communicates.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_IR_MESHOPS
#define MPCOMM_IR_MESHOPS

include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "MPCommAttrs.td"
include "MPCommInterfaces.td"
include "MPCommTypes.td"

/// An op that names a mesh and axes of it.
defvar meshUserDefinition = [{
  ::llvm::LogicalResult $cppClass::verifySymbolUses(
      ::mlir::SymbolTableCollection &symbols) {
    return ::mpcomm::detail::verifyMeshUse(*this, getMeshAttr(),
                                           getAxesAttr(), symbols);
  }
}];

def MPComm_MeshOp : MPComm_Op<"mesh", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "named axes that arrange the ranks";
  let description = [{
    Ranks are numbered row-major over the axes: the last one varies fastest.

    Example:
    ```mlir
    mpcomm.mesh @mesh <["pp" = 2, "dp" = 4]>   // 8 ranks; rank 5 is pp 1, dp 1
    ```

    Constraints:
    - C1: there is at least one axis, names are not empty and differ.
    - C2: sizes are positive and their product fits 32 bits.

    Written by hand or created by `mpcomm-data-parallel`; present in all later
    forms.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$axis_names,
                       DenseI64ArrayAttr:$axis_sizes);
  let assemblyFormat = [{
    $sym_name custom<MeshAxes>($axis_names, $axis_sizes) attr-dict
  }];
  let extraClassDeclaration = [{
    /// Ranks of the whole mesh.
    int64_t getNumRanks();
    /// Size of the named axis, or nothing.
    ::std::optional<int64_t> getAxisSize(::llvm::StringRef name);
  }];
  let hasVerifier = 1;
}

def MPComm_AllSliceOp : MPComm_Op<"all_slice", [
    Pure, MPComm_RankDependentOpInterface, MPComm_CostOpInterface,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a rank's own block of a replicated value";
  let description = [{
    The inverse of all_gather. It does not communicate: each rank copies the
    block at its own coordinate.

    ```
        before           after (over "dp", dim = 0)
      dp 0   dp 1        dp 0   dp 1
      [a]    [a]         [a]    [b]
      [b]    [b]
    ```

    The operand must be replicated on the group. If it is not, the block may be
    that of any rank.

    Example:
    ```mlir
    %r = mpcomm.all_slice %x on @mesh axes ["dp"] dim = 0 : (tensor<8x4xf32>) -> tensor<4x4xf32>
    ```

    Constraints:
    - C1: `dim` is in range.
    - C2: the axes are not empty, differ, and belong to the mesh.
    - C3: the result has the operand's shape, divided along `dim` by the size
      of the group, and its element type.

    Created by `mpcomm-localize`; merged into collectives by
    `mpcomm-simplify-collectives`; lowered to `mprt.all_slice` by
    `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins MPComm_Tensor:$input, FlatSymbolRefAttr:$mesh,
                       StrArrayAttr:$axes, I64Attr:$dim);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    $input `on` $mesh `axes` $axes `dim` `=` $dim attr-dict `:`
    functional-type(operands, results)
  }];
  // A copy of the block.
  let extraClassDeclaration = [{
    int64_t getFlops() { return 0; }
    int64_t getBytesRead() {
      return ::mpcomm::detail::countBytes((*this)->getResultTypes());
    }
  }];
  let extraClassDefinition = meshUserDefinition;
}

def MPComm_AxisIndexOp : MPComm_Op<"axis_index", [
    Pure, MPComm_RankDependentOpInterface,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a rank's coordinate";
  let description = [{
    The group rank of the rank that runs the op: the row-major index of its
    coordinates along the axes, in the order of the mesh's axes. As JAX's
    function.

    ```
        after (over "dp")
      dp 0   dp 1
      0      1
    ```

    Example:
    ```mlir
    %i = mpcomm.axis_index on @mesh axes ["dp"] : tensor<i32>
    ```

    Constraints:
    - C1: the result is a 0-d tensor of i32.
    - C2: the axes are not empty, differ, and belong to the mesh.

    Written by hand; lowered by `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs 0DTensorOf<[I32]>:$result);
  let assemblyFormat = "`on` $mesh `axes` $axes attr-dict `:` type($result)";
  let extraClassDefinition = meshUserDefinition;
}

def MPComm_PredivideOp : MPComm_Op<"predivide", [
    Pure, SameOperandsAndResultType, MPComm_LinearJointly,
    MPComm_CostOpInterface, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<MPComm_ShardingOpInterface>
    ] # ElementwiseMappable.traits> {
  let summary = "a rank's term of a mean";
  let description = [{
    Divides by the number of ranks along the axes, so that the sum of the
    results over the group is the mean of the operands:

    ```
        before           after (over "dp")
      dp 0   dp 1        dp 0     dp 1
      [a]    [b]         [a/2]    [b/2]
    ```

    It is an op of its own so that the factor of a mean is known to be one, and
    not part of what the model computes: `mpcomm-verify-shardings` counts it.

    Example:
    ```mlir
    %t = mpcomm.predivide %g on @mesh axes ["dp"] : tensor<4xf32>
    %m = mpcomm.all_reduce(%t) on @mesh axes ["dp"] sum : tensor<4xf32>
    ```

    Constraints:
    - C1: the axes are not empty, differ, and belong to the mesh.

    Created by `mpcomm-data-parallel`; lowered to arith by
    `convert-mpcomm-to-mprt`: a product where the number of ranks is a power of
    two, else a quotient, in f32 for 16-bit elements.
  }];
  let arguments = (ins MPComm_FloatTensor:$input, FlatSymbolRefAttr:$mesh,
                       StrArrayAttr:$axes);
  let results = (outs MPComm_FloatTensor:$result);
  let assemblyFormat = "$input `on` $mesh `axes` $axes attr-dict `:` type($input)";
  let extraClassDefinition = meshUserDefinition;
  let hasVerifier = 1;
}

#endif // MPCOMM_IR_MESHOPS
