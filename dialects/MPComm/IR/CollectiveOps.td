//===- CollectiveOps.td - meshes, collectives, async and await -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A collective runs over a group of ranks: those whose mesh coordinates differ
// only along the named axes. Group rank is the row-major index of a rank's
// coordinates along these axes, in the order in which the mesh declares them.
//
// Collectives write a communicator resource: generic passes never drop, merge
// or reorder them.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_IR_COLLECTIVEOPS
#define MPCOMM_IR_COLLECTIVEOPS

include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "MPCommAttrs.td"
include "MPCommInterfaces.td"
include "MPCommTypes.td"

def MPComm_CommunicatorResource : Resource<"::mpcomm::CommunicatorResource">;

def MPComm_MeshOp : MPComm_Op<"mesh", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "named axes along which ranks are laid out";
  let description = [{
    Ranks are numbered row-major over the axes: the last one varies fastest.

    Example:
    ```mlir
    mpcomm.mesh @mesh <["pp" = 2, "dp" = 4]>   // 8 ranks; rank 5 is pp 1, dp 1
    ```

    Constraints:
    - C1: there is at least one axis, names are not empty and differ.
    - C2: sizes are positive and their product fits 32 bits.

    Made by hand or by `mpcomm-data-parallel`; stays to the end.
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

def MPComm_ProgramOp : MPComm_Op<"program", [
    Symbol, HasParent<"::mlir::ModuleOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "which function each rank runs";
  let description = [{
    Ranks with coordinate i on the axes, counted row-major over them in the
    order given, run function i. Ranks that differ in other axes only run the
    same one. The program's name is what users ask for: `train_step`,
    `evaluate`.

    Example: two stages of a pipeline
    ```mlir
    module {
      mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
      mpcomm.program @train_step on @mesh axes ["pp"] runs [@train_step.stage0, @train_step.stage1]
      func.func @train_step.stage0() { return }
      func.func @train_step.stage1() { return }
    }
    ```

    Constraints:
    - C1: the axes are not empty, differ, and belong to the mesh.
    - C2: there are as many functions as ranks along the axes.
    - C3: each symbol is a public function of the module, and no function is
      run by two programs.

    Made by hand or by `mpcomm-schedule-pipeline`; stays to the end.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$mesh,
                       StrArrayAttr:$axes,
                       TypedArrayAttrBase<FlatSymbolRefAttr,
                                          "functions">:$functions);
  let assemblyFormat = [{
    $sym_name `on` $mesh `axes` $axes `runs` $functions attr-dict
  }];
  let extraClassDeclaration = [{
    /// The function of a program.
    ::llvm::StringRef getFunctionName(unsigned index) {
      return ::llvm::cast<::mlir::FlatSymbolRefAttr>(getFunctions()[index])
          .getValue();
    }
  }];
  let hasVerifier = 1;
}

class MPComm_CollectiveOp<string mnemonic, string kind, list<Trait> traits = []>
    : MPComm_Op<mnemonic, !listconcat(traits, [
          MemoryEffects<[MemWrite<MPComm_CommunicatorResource>]>,
          DeclareOpInterfaceMethods<SymbolUserOpInterface>,
          MPComm_CollectiveOpInterface])> {
  code collectiveDeclarations = [{
    ::mpcomm::CollectiveKind getCollectiveKind() {
      return ::mpcomm::CollectiveKind::}] # kind # [{;
    }
  }];
  code rootDeclarations = [{
    ::std::optional<int64_t> getPeer() { return getRoot(); }
  }];
  code wireDeclarations = [{
    ::mlir::Type getWireType() { return getWire().value_or(::mlir::Type()); }
    ::mlir::Type getAccumulateType() {
      return getAccumulate().value_or(::mlir::Type());
    }
    ::std::optional<::mpcomm::Reduction> getCollectiveReduction() {
      return getReduction();
    }
  }];
  let extraClassDeclaration = collectiveDeclarations;
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verifySymbolUses(
        ::mlir::SymbolTableCollection &symbols) {
      return ::mpcomm::detail::verifyMeshUse(*this, symbols);
    }
  }];
}

def MPComm_AllReduceOp : MPComm_CollectiveOp<"all_reduce", "AllReduce",
                                             [InferTypeOpAdaptor]> {
  let summary = "element-wise reduction over a group, given to all of it";
  let description = [{
    Variadic: one op is one bucket. Result i on every rank is the reduction of
    operand i over the ranks of the group:

    ```
        before           after (sum over "dp")
      dp 0   dp 1        dp 0     dp 1
      [a]    [b]         [a+b]    [a+b]
      [c]    [d]         [c+d]    [c+d]
    ```

    `wire` is the element type that travels (default: the operands' own);
    `accumulate` the type in which partial results are kept (default: the wire
    type for one link, f32 for 16-bit floats in the runtimes here).

    Example:
    ```mlir
    %r:2 = mpcomm.all_reduce(%g0, %g1) on @mesh axes ["dp"] mean wire bf16 accumulate f32
        : tensor<64x10xf32>, tensor<10xf32>
    ```

    Constraints:
    - C1: there is at least one operand.
    - C2: the axes are not empty, differ, and belong to the mesh.
    - C3: `wire` and `accumulate` are float types with float operands, and
      `accumulate` is at least as wide as what travels.
    - C4: `mean` has float operands.

    Made by `mpcomm-data-parallel`, merged by `mpcomm-combine-collectives`; gone
    by `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins Variadic<MPComm_Tensor>:$inputs,
                       FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes,
                       MPComm_ReductionAttr:$reduction,
                       OptionalAttr<TypeAttr>:$wire,
                       OptionalAttr<TypeAttr>:$accumulate);
  let results = (outs Variadic<MPComm_Tensor>:$outputs);
  let assemblyFormat = [{
    `(` $inputs `)` `on` $mesh `axes` $axes `` $reduction (`wire` $wire^)?
    (`accumulate` $accumulate^)? attr-dict `:` type($inputs)
  }];
  let extraClassDeclaration = collectiveDeclarations # wireDeclarations;
}

def MPComm_ReduceScatterOp : MPComm_CollectiveOp<"reduce_scatter",
                                             "ReduceScatter"> {
  let summary = "reduction over a group, each rank keeping one block";
  let description = [{
    Reduces as all_reduce does and leaves group rank r the r-th of equal blocks
    along `dim`:

    ```
        before           after (sum over "dp", dim = 0)
      dp 0   dp 1        dp 0     dp 1
      [a]    [b]         [a+b]    [c+d]
      [c]    [d]
    ```

    `wire` and `accumulate` as for all_reduce.

    Example:
    ```mlir
    %r = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] sum dim = 0
        : (tensor<8x4xf32>) -> tensor<4x4xf32>
    ```

    Constraints:
    - C1: `dim` is in range.
    - C2: the axes are not empty, differ, and belong to the mesh.
    - C3: `wire` and `accumulate` as all_reduce C3.
    - C4: `mean` has float operands.
    - C5: the result has the operand's shape, divided along `dim` by the size
      of the group, and its element type.

    Gone by `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins MPComm_Tensor:$input, FlatSymbolRefAttr:$mesh,
                       StrArrayAttr:$axes, MPComm_ReductionAttr:$reduction,
                       I64Attr:$dim, OptionalAttr<TypeAttr>:$wire,
                       OptionalAttr<TypeAttr>:$accumulate);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    `(` $input `)` `on` $mesh `axes` $axes `` $reduction (`wire` $wire^)?
    (`accumulate` $accumulate^)? `dim` `=` $dim attr-dict `:`
    functional-type(operands, results)
  }];
  let extraClassDeclaration = collectiveDeclarations # wireDeclarations;
}

def MPComm_AllGatherOp : MPComm_CollectiveOp<"all_gather", "AllGather"> {
  let summary = "the blocks of a group, one after the other, on all of it";
  let description = [{
    ```
        before           after (over "dp", dim = 0)
      dp 0   dp 1        dp 0   dp 1
      [a]    [b]         [a]    [a]
                         [b]    [b]
    ```

    Example:
    ```mlir
    %r = mpcomm.all_gather(%x) on @mesh axes ["dp"] dim = 0 : (tensor<4x4xf32>) -> tensor<8x4xf32>
    ```

    Constraints:
    - C1: `dim` is in range.
    - C2: the axes are not empty, differ, and belong to the mesh.
    - C3: the result has the operand's shape, times the size of the group along
      `dim`, and its element type.

    Gone by `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins MPComm_Tensor:$input, FlatSymbolRefAttr:$mesh,
                       StrArrayAttr:$axes, I64Attr:$dim);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    `(` $input `)` `on` $mesh `axes` $axes `dim` `=` $dim attr-dict `:`
    functional-type(operands, results)
  }];
}

def MPComm_AllSliceOp : MPComm_Op<"all_slice", [
    Pure, MPComm_RankDependentOpInterface,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the rank's own block of a value that all of its group have";
  let description = [{
    The reverse of all_gather; nothing travels.

    ```
        before           after (over "dp", dim = 0)
      dp 0   dp 1        dp 0   dp 1
      [a]    [a]         [a]    [b]
      [b]    [b]
    ```

    The operand must be the same on all ranks of the group; where it is not, the
    block may be any rank's.

    Example:
    ```mlir
    %r = mpcomm.all_slice %x on @mesh axes ["dp"] dim = 0 : (tensor<8x4xf32>) -> tensor<4x4xf32>
    ```

    Constraints:
    - C1: `dim` is in range.
    - C2: the axes are not empty, differ, and belong to the mesh.
    - C3: the result has the operand's shape, divided along `dim` by the size
      of the group, and its element type.

    Made by hand; merged into collectives by `mpcomm-simplify-collectives`; gone
    by `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins MPComm_Tensor:$input, FlatSymbolRefAttr:$mesh,
                       StrArrayAttr:$axes, I64Attr:$dim);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    $input `on` $mesh `axes` $axes `dim` `=` $dim attr-dict `:`
    functional-type(operands, results)
  }];
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verifySymbolUses(
        ::mlir::SymbolTableCollection &symbols) {
      return ::mpcomm::detail::verifyMeshUse(*this, symbols);
    }
  }];
}

def MPComm_AllToAllOp : MPComm_CollectiveOp<"all_to_all", "AllToAll"> {
  let summary = "each rank gives each other one a block";
  let description = [{
    Cuts the operand into equal blocks along `split_dim`, gives block r to group
    rank r, and joins what arrives, in rank order, along `concat_dim`:

    ```
        before           after (over "dp", both dims 0)
      dp 0   dp 1        dp 0   dp 1
      [a]    [c]         [a]    [b]
      [b]    [d]         [c]    [d]
    ```

    Example:
    ```mlir
    %r = mpcomm.all_to_all(%x) on @mesh axes ["dp"] split_dim = 0 concat_dim = 1
        : (tensor<8x4xf32>) -> tensor<4x8xf32>
    ```

    Constraints:
    - C1: `split_dim` and `concat_dim` are in range.
    - C2: the axes are not empty, differ, and belong to the mesh.
    - C3: the result has the operand's shape, divided along `split_dim` and
      multiplied along `concat_dim` by the size of the group, and its element
      type.

    Gone by `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins MPComm_Tensor:$input, FlatSymbolRefAttr:$mesh,
                       StrArrayAttr:$axes, I64Attr:$split_dim,
                       I64Attr:$concat_dim);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    `(` $input `)` `on` $mesh `axes` $axes `split_dim` `=` $split_dim
    `concat_dim` `=` $concat_dim attr-dict `:`
    functional-type(operands, results)
  }];
}

def MPComm_CollectiveBroadcastOp : MPComm_CollectiveOp<"collective_broadcast",
    "Broadcast", [AllTypesMatch<["input", "result"]>]> {
  let summary = "the root's value on all of its group";
  let description = [{
    ```
        before           after (over "dp", root 0)
      dp 0   dp 1        dp 0   dp 1
      [a]    [b]         [a]    [a]
    ```

    Example:
    ```mlir
    %r = mpcomm.collective_broadcast(%x) on @mesh axes ["dp"] root = 0 : tensor<4xf32>
    ```

    Constraints:
    - C1: `root` is a rank of the group.
    - C2: the axes are not empty, differ, and belong to the mesh.

    Gone by `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins MPComm_Tensor:$input, FlatSymbolRefAttr:$mesh,
                       StrArrayAttr:$axes, I64Attr:$root);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    `(` $input `)` `on` $mesh `axes` $axes `root` `=` $root attr-dict `:`
    type($input)
  }];
  let extraClassDeclaration = collectiveDeclarations # rootDeclarations;
}

def MPComm_CollectivePermuteOp : MPComm_CollectiveOp<"collective_permute",
    "Permute", [AllTypesMatch<["input", "result"]>]> {
  let summary = "ranks give their value to one other rank each";
  let description = [{
    Each pair is a source and a target, ranks of the group: the target gets the
    source's value. A rank that is no target gets zeros.

    ```
           before               after (over "dp", 0 to 1 and 1 to 2)
      dp 0  dp 1  dp 2          dp 0  dp 1  dp 2
      [a]   [b]   [c]           [0]   [a]   [b]
    ```

    Example:
    ```mlir
    %r = mpcomm.collective_permute(%x) on @mesh axes ["dp"]
        source_target_pairs = [[0, 1], [1, 0]] : tensor<4xf32>
    ```

    Constraints:
    - C1: sources and targets are ranks of the group.
    - C2: the axes are not empty, differ, and belong to the mesh.
    - C3: no rank is the source of two pairs, none the target of two.
    - C4: the list of numbers has two for each pair.

    Made by hand; composed by `mpcomm-simplify-collectives`; gone by
    `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins MPComm_Tensor:$input, FlatSymbolRefAttr:$mesh,
                       StrArrayAttr:$axes,
                       DenseI64ArrayAttr:$source_target_pairs);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    `(` $input `)` `on` $mesh `axes` $axes `source_target_pairs` `=`
    custom<RankPairs>($source_target_pairs) attr-dict `:` type($input)
  }];
  let extraClassDeclaration = collectiveDeclarations # [{
    /// Of each of the `ranks` of a group, the one that it gives its value to,
    /// or -1.
    ::llvm::SmallVector<int64_t> getTargets(int64_t ranks);
  }];
}

def MPComm_CollectiveReduceOp : MPComm_CollectiveOp<"collective_reduce",
    "Reduce", [AllTypesMatch<["input", "result"]>]> {
  let summary = "element-wise reduction over a group, given to its root";
  let description = [{
    The other ranks get zeros:

    ```
        before           after (sum over "dp", root 0)
      dp 0   dp 1        dp 0     dp 1
      [a]    [b]         [a+b]    [0]
    ```

    `wire` and `accumulate` as for all_reduce.

    Example:
    ```mlir
    %r = mpcomm.collective_reduce(%x) on @mesh axes ["dp"] sum root = 0 : tensor<4xf32>
    ```

    Constraints:
    - C1: `root` is a rank of the group.
    - C2: the axes are not empty, differ, and belong to the mesh.
    - C3: `wire` and `accumulate` as all_reduce C3.
    - C4: `mean` has float operands.

    Made by hand; gone by `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins MPComm_Tensor:$input, FlatSymbolRefAttr:$mesh,
                       StrArrayAttr:$axes, MPComm_ReductionAttr:$reduction,
                       I64Attr:$root, OptionalAttr<TypeAttr>:$wire,
                       OptionalAttr<TypeAttr>:$accumulate);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    `(` $input `)` `on` $mesh `axes` $axes `` $reduction (`wire` $wire^)?
    (`accumulate` $accumulate^)? `root` `=` $root attr-dict `:` type($input)
  }];
  let extraClassDeclaration = collectiveDeclarations # rootDeclarations # wireDeclarations;
}

def MPComm_CollectiveGatherOp : MPComm_CollectiveOp<"collective_gather",
                                                 "Gather"> {
  let summary = "the blocks of a group, one after the other, on its root";
  let description = [{
    The other ranks get zeros:

    ```
        before           after (over "dp", root 0, dim = 0)
      dp 0   dp 1        dp 0   dp 1
      [a]    [b]         [a]    [0]
                         [b]    [0]
    ```

    Example:
    ```mlir
    %r = mpcomm.collective_gather(%x) on @mesh axes ["dp"] root = 0 dim = 0
        : (tensor<4x4xf32>) -> tensor<8x4xf32>
    ```

    Constraints:
    - C1: `root` is a rank of the group.
    - C2: the axes are not empty, differ, and belong to the mesh.
    - C3: the result has the operand's shape, times the size of the group along
      `dim`, and its element type.
    - C4: `dim` is in range.

    Made by hand; gone by `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins MPComm_Tensor:$input, FlatSymbolRefAttr:$mesh,
                       StrArrayAttr:$axes, I64Attr:$root, I64Attr:$dim);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    `(` $input `)` `on` $mesh `axes` $axes `root` `=` $root `dim` `=` $dim
    attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = collectiveDeclarations # rootDeclarations;
}

def MPComm_CollectiveScatterOp : MPComm_CollectiveOp<"collective_scatter",
                                                  "Scatter"> {
  let summary = "each rank of a group gets its block of the root's value";
  let description = [{
    Cuts the root's operand into equal blocks along `dim` and gives block r to
    group rank r. The operands of other ranks are not looked at.

    ```
        before           after (over "dp", root 0, dim = 0)
      dp 0   dp 1        dp 0   dp 1
      [a]    [c]         [a]    [b]
      [b]    [d]
    ```

    Example:
    ```mlir
    %r = mpcomm.collective_scatter(%x) on @mesh axes ["dp"] root = 0 dim = 0
        : (tensor<8x4xf32>) -> tensor<4x4xf32>
    ```

    Constraints:
    - C1: `root` is a rank of the group.
    - C2: the axes are not empty, differ, and belong to the mesh.
    - C3: the result has the operand's shape, divided along `dim` by the size
      of the group, and its element type.
    - C4: `dim` is in range.

    Made by hand; gone by `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins MPComm_Tensor:$input, FlatSymbolRefAttr:$mesh,
                       StrArrayAttr:$axes, I64Attr:$root, I64Attr:$dim);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    `(` $input `)` `on` $mesh `axes` $axes `root` `=` $root `dim` `=` $dim
    attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = collectiveDeclarations # rootDeclarations;
}

def MPComm_SendOp : MPComm_CollectiveOp<"send", "Send"> {
  let summary = "gives a value to one rank of the group";
  let description = [{
    Pairs with the `mpcomm.recv` of that rank: the n-th send to a rank on a
    channel meets the n-th receive from it. Ops on different channels of a group
    do not wait for one another.

    Example:
    ```mlir
    mpcomm.send(%x) on @mesh axes ["pp"] to = 1 : tensor<4xf32>
    mpcomm.send(%x) on @mesh axes ["pp"] to = 1 channel = 2 : tensor<4xf32>
    ```

    Constraints:
    - C1: `to` is a rank of the group.
    - C2: the axes are not empty, differ, and belong to the mesh.
    - C3: the channel is not negative and fits 16 bits.

    Gone by `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins MPComm_Tensor:$input, FlatSymbolRefAttr:$mesh,
                       StrArrayAttr:$axes, I64Attr:$to,
                       DefaultValuedAttr<I64Attr, "0">:$channel);
  let assemblyFormat = [{
    `(` $input `)` `on` $mesh `axes` $axes `to` `=` $to
    (`channel` `=` $channel^)? attr-dict `:` type($input)
  }];
  let extraClassDeclaration = collectiveDeclarations # [{
    ::std::optional<int64_t> getPeer() { return getTo(); }
  }];
}

def MPComm_RecvOp : MPComm_CollectiveOp<"recv", "Recv"> {
  let summary = "takes a value from one rank of the group";
  let description = [{
    Pairs with the `mpcomm.send` of that rank on the same channel.

    Example:
    ```mlir
    %r = mpcomm.recv on @mesh axes ["pp"] from = 0 : tensor<4xf32>
    %c = mpcomm.recv on @mesh axes ["pp"] from = 0 channel = 2 : tensor<4xf32>
    ```

    Constraints:
    - C1: `from` is a rank of the group.
    - C2: the axes are not empty, differ, and belong to the mesh.
    - C3: the channel is not negative and fits 16 bits.

    Gone by `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes,
                       I64Attr:$from,
                       DefaultValuedAttr<I64Attr, "0">:$channel);
  let results = (outs MPComm_Tensor:$result);
  let assemblyFormat = [{
    `on` $mesh `axes` $axes `from` `=` $from (`channel` `=` $channel^)?
    attr-dict `:` type($result)
  }];
  let extraClassDeclaration = collectiveDeclarations # [{
    ::std::optional<int64_t> getPeer() { return getFrom(); }
  }];
}

def MPComm_BarrierOp : MPComm_CollectiveOp<"barrier", "Barrier"> {
  let summary = "no rank of the group goes on before all have come";
  let description = [{
    Example:
    ```mlir
    mpcomm.barrier on @mesh axes ["dp"]
    ```

    Constraints:
    - C2: the axes are not empty, differ, and belong to the mesh.

    Gone by `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let assemblyFormat = "`on` $mesh `axes` $axes attr-dict";
}

def MPComm_AsyncOp : MPComm_Op<"async", [
    RecursiveMemoryEffects, SingleBlock, NoRegionArguments]> {
  let summary = "starts a collective and goes on";
  let description = [{
    Runs the collective of its region on the communication stream of its
    group; the future gives the values that the region yields. One region op
    serves every collective, instead of a start and a done twin of each.

    Example:
    ```mlir
    %f = mpcomm.async {
      %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<4xf32>
      mpcomm.yield %r : tensor<4xf32>
    } : !mpcomm.future<tensor<4xf32>>
    %v = mpcomm.await %f : !mpcomm.future<tensor<4xf32>>
    ```

    Constraints:
    - C1: the region holds exactly one op before its yield, a collective.
    - C2: the region yields the collective's results, in order.
    - C3: the future's types are those of the yielded values.

    Made by `mpcomm-make-async`; gone by `convert-mpcomm-to-mprt`.
  }];
  let results = (outs MPComm_FutureType:$future);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$body attr-dict `:` qualified(type($future))";
  let extraClassDeclaration = [{
    /// The collective inside; null where the op is malformed.
    ::mlir::Operation *getCollective();
  }];
  let hasVerifier = 1;
}

def MPComm_YieldOp : MPComm_Op<"yield", [
    Pure, Terminator, ReturnLike, HasParent<"AsyncOp">]> {
  let summary = "ends the region of mpcomm.async";
  let description = [{
    Example:
    ```mlir
    mpcomm.yield %r : tensor<4xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), [{ (void)$_builder; (void)$_state; }]>];
}

def MPComm_AwaitOp : MPComm_Op<"await", [
    MemoryEffects<[MemWrite<MPComm_CommunicatorResource>]>,
    InferTypeOpAdaptor]> {
  let summary = "the values of a future, once they are there";
  let description = [{
    Example:
    ```mlir
    %v = mpcomm.await %f : !mpcomm.future<tensor<4xf32>>
    ```

    Constraints:
    - C1: a future is awaited at most once.

    Made by `mpcomm-make-async`; gone by `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins MPComm_FutureType:$future);
  let results = (outs Variadic<MPComm_Tensor>:$results);
  let assemblyFormat = "$future attr-dict `:` qualified(type($future))";
  let hasVerifier = 1;
}

#endif // MPCOMM_IR_COLLECTIVEOPS
