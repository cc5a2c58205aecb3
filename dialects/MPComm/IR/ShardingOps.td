//===- ShardingOps.td - resharding -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_IR_SHARDINGOPS
#define MPCOMM_IR_SHARDINGOPS

include "CollectiveOps.td"
include "ShardingAttrs.td"

def MPComm_ReshardOp : MPComm_Op<"reshard", [
    Pure, AllTypesMatch<["input", "result"]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the same value, held in another way";
  let description = [{
    Types are those of the whole value. What the ranks hold of the operand is
    derived from where it comes; of the result they hold what `sharding` says.
    So the op is an all_reduce, a reduce_scatter, an all_gather, an all_to_all,
    a slice, or nothing.

    Example:
    ```mlir
    %r = mpcomm.reshard %g to <@mesh, [{}, {} ], flat = ["dp"]> : tensor<64x10xf32>
    ```

    Constraints:
    - C1: the sharding has a list for each dimension.
    - C2: the mesh exists and has the axes; sub-axes divide theirs.
    - C3: the ranks of a dimension's axes divide it.

    Created by `mpcomm-insert-reshards`; lowered by `mpcomm-localize`.
  }];
  let arguments = (ins MPComm_Tensor:$input, MPComm_ShardingAttr:$sharding);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = "$input `to` $sharding attr-dict `:` type($input)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

#endif // MPCOMM_IR_SHARDINGOPS
