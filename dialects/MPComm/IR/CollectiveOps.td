//===- CollectiveOps.td - collectives, async and await -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A collective runs over a group of ranks: those whose mesh coordinates differ
// only along the named axes. The group rank of a member is the row-major index
// of its coordinates along these axes, in the order of the mesh's axes.
//
// Collectives write a communicator resource, so generic passes never remove,
// merge or reorder them.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_IR_COLLECTIVEOPS
#define MPCOMM_IR_COLLECTIVEOPS

include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "MeshOps.td"

def MPComm_CommunicatorResource : Resource<"::mpcomm::CommunicatorResource">;

def MPComm_ProgramOp : MPComm_Op<"program", [
    Symbol, HasParent<"::mlir::ModuleOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "assigns a function to each rank";
  let description = [{
    The ranks with index i run function i. The index of a rank is the row-major
    index of its coordinates along the axes, in the order given. Ranks that
    differ only in other axes run the same function. Users run a program by its
    name: `train_step`, `evaluate`.

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

    Written by hand or created by `mpcomm-schedule-pipeline`; present in all
    later forms.
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
  let extraClassDefinition = meshUserDefinition;
}

def MPComm_AllReduceOp : MPComm_CollectiveOp<"all_reduce", "AllReduce",
    [InferTypeOpAdaptor,
     DeclareOpInterfaceMethods<MPComm_BucketableOpInterface, ["isGather"]>]> {
  let summary = "element-wise reduction over a group; all ranks get the result";
  let description = [{
    Result i on every rank is the reduction of operand i over the ranks of the
    group. An op with several operands is a bucket:

    ```
        before           after (sum over "dp")
      dp 0   dp 1        dp 0     dp 1
      [a]    [b]         [a+b]    [a+b]
      [c]    [d]         [c+d]    [c+d]
    ```

    `wire` is the element type that travels; by default it is that of the
    operands. `accumulate` is the type of partial results; by default it is f32
    for 16-bit floats, else the wire type. Collectives on different channels of
    a group do not wait for one another.

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
    - C5: the channel is not negative and fits 16 bits.

    Created by `mpcomm-data-parallel`; merged by `mpcomm-combine-collectives`;
    lowered by `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins Variadic<MPComm_Tensor>:$inputs,
                       FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes,
                       MPComm_ReductionAttr:$reduction,
                       OptionalAttr<TypeAttr>:$wire,
                       OptionalAttr<TypeAttr>:$accumulate,
                       DefaultValuedAttr<I64Attr, "0">:$channel);
  let results = (outs Variadic<MPComm_Tensor>:$outputs);
  let assemblyFormat = [{
    `(` $inputs `)` `on` $mesh `axes` $axes `` $reduction (`wire` $wire^)?
    (`accumulate` $accumulate^)? (`channel` `=` $channel^)? attr-dict `:`
    type($inputs)
  }];
  let extraClassDeclaration = collectiveDeclarations # wireDeclarations # [{
    /// Parts of an operand may travel in different buckets.
    bool isSplittable() { return true; }
  }];
}

/// The attributes of a bucket that have an entry for each operand.
class MPComm_OperandLists<string names> {
  code declaration = [{
    ::llvm::SmallVector<::llvm::StringRef> getOperandLists() { return {}] # names # [{}; }
  }];
}

def MPComm_ReduceScatterOp : MPComm_CollectiveOp<"reduce_scatter",
    "ReduceScatter", [MPComm_BucketableOpInterface]> {
  let summary = "reduction over a group; each rank gets one block of it";
  let description = [{
    Reduces operand i like all_reduce and splits the result into equal blocks
    along dimension i of `dims`; group rank r gets block r as result i. An op
    with several operands is a bucket:

    ```
         before            after (sum over "dp", dims = [0, 0])
      dp 0    dp 1         dp 0      dp 1
      [a]     [b]          [a+b]     [c+d]
      [c]     [d]
      [e f]   [i j]        [e+i f+j] [g+k h+l]
      [g h]   [k l]
    ```

    `wire`, `accumulate` and `channel` as for all_reduce.

    Example:
    ```mlir
    %r:2 = mpcomm.reduce_scatter(%x, %y) on @mesh axes ["dp"] sum wire bf16 dims = [0, 1]
        : (tensor<8x4xf32>, tensor<3x6xf32>) -> (tensor<4x4xf32>, tensor<3x3xf32>)
    ```

    Constraints:
    - C1: `dims` has a dimension, in range, for each operand.
    - C2: the axes are not empty, differ, and belong to the mesh.
    - C3: `wire` and `accumulate` as all_reduce C3.
    - C4: `mean` has float operands.
    - C5: result i has the shape of operand i, divided along its dimension by
      the size of the group, and its element type.
    - C6: there is at least one operand, and a result for each.
    - C7: the channel is not negative and fits 16 bits.

    Merged by `mpcomm-combine-collectives`; lowered by `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins Variadic<MPComm_Tensor>:$inputs,
                       FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes,
                       MPComm_ReductionAttr:$reduction,
                       DenseI64ArrayAttr:$dims, OptionalAttr<TypeAttr>:$wire,
                       OptionalAttr<TypeAttr>:$accumulate,
                       DefaultValuedAttr<I64Attr, "0">:$channel);
  let results = (outs Variadic<MPComm_Tensor>:$outputs);
  let assemblyFormat = [{
    `(` $inputs `)` `on` $mesh `axes` $axes `` $reduction (`wire` $wire^)?
    (`accumulate` $accumulate^)? `dims` `=` $dims (`channel` `=` $channel^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = collectiveDeclarations # wireDeclarations #
                              MPComm_OperandLists<"\"dims\"">.declaration;
}

def MPComm_AllGatherOp : MPComm_CollectiveOp<"all_gather", "AllGather",
    [MPComm_BucketableOpInterface]> {
  let summary = "concatenation of the blocks of a group, on all of its ranks";
  let description = [{
    Result i is the concatenation of the ranks' operands i along dimension i of
    `dims`, in the order of group ranks. An op with several operands is a
    bucket:

    ```
         before            after (over "dp", dims = [0, 0])
      dp 0    dp 1         dp 0      dp 1
      [a]     [b]          [a]       [a]
                           [b]       [b]
      [c d]   [e f]        [c d]     [c d]
                           [e f]     [e f]
    ```

    `channel` as for all_reduce.

    Example:
    ```mlir
    %r:2 = mpcomm.all_gather(%x, %y) on @mesh axes ["dp"] dims = [0, 1] channel = 1
        : (tensor<4x4xf32>, tensor<3x3xf32>) -> (tensor<8x4xf32>, tensor<3x6xf32>)
    ```

    Constraints:
    - C1: `dims` has a dimension, in range, for each operand.
    - C2: the axes are not empty, differ, and belong to the mesh.
    - C3: result i has the shape of operand i, times the size of the group along
      its dimension, and its element type.
    - C4: there is at least one operand, and a result for each.
    - C5: the channel is not negative and fits 16 bits.

    Merged by `mpcomm-combine-collectives`; lowered by `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins Variadic<MPComm_Tensor>:$inputs,
                       FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes,
                       DenseI64ArrayAttr:$dims,
                       DefaultValuedAttr<I64Attr, "0">:$channel);
  let results = (outs Variadic<MPComm_Tensor>:$outputs);
  let assemblyFormat = [{
    `(` $inputs `)` `on` $mesh `axes` $axes `dims` `=` $dims
    (`channel` `=` $channel^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let extraClassDeclaration = collectiveDeclarations #
                              MPComm_OperandLists<"\"dims\"">.declaration;
}

def MPComm_AllToAllOp : MPComm_CollectiveOp<"all_to_all", "AllToAll",
    [MPComm_BucketableOpInterface]> {
  let summary = "each rank sends one block to every rank of its group";
  let description = [{
    Splits operand i into equal blocks along dimension i of `split_dims`, sends
    block r to group rank r, and concatenates the received blocks along
    dimension i of `concat_dims`, in the order of group ranks, to result i. An
    op with several operands is a bucket:

    ```
         before            after (over "dp", all dimensions 0)
      dp 0    dp 1         dp 0      dp 1
      [a]     [c]          [a]       [b]
      [b]     [d]          [c]       [d]
      [e f]   [i j]        [e f]     [g h]
      [g h]   [k l]        [i j]     [k l]
    ```

    `channel` as for all_reduce.

    Example:
    ```mlir
    %r = mpcomm.all_to_all(%x) on @mesh axes ["dp"] split_dims = [0] concat_dims = [1]
        : (tensor<8x4xf32>) -> tensor<4x8xf32>
    ```

    Constraints:
    - C1: `split_dims` and `concat_dims` have a dimension, in range, for each
      operand.
    - C2: the axes are not empty, differ, and belong to the mesh.
    - C3: result i has the shape of operand i, divided along its split dimension
      and multiplied along its concat dimension by the size of the group, and
      its element type.
    - C4: there is at least one operand, and a result for each.
    - C5: the channel is not negative and fits 16 bits.

    Merged by `mpcomm-combine-collectives`; lowered by `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins Variadic<MPComm_Tensor>:$inputs,
                       FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes,
                       DenseI64ArrayAttr:$split_dims,
                       DenseI64ArrayAttr:$concat_dims,
                       DefaultValuedAttr<I64Attr, "0">:$channel);
  let results = (outs Variadic<MPComm_Tensor>:$outputs);
  let assemblyFormat = [{
    `(` $inputs `)` `on` $mesh `axes` $axes `split_dims` `=` $split_dims
    `concat_dims` `=` $concat_dims (`channel` `=` $channel^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let extraClassDeclaration = collectiveDeclarations #
      MPComm_OperandLists<"\"split_dims\", \"concat_dims\"">.declaration;
}

def MPComm_CollectiveBroadcastOp : MPComm_CollectiveOp<"collective_broadcast",
    "Broadcast", [AllTypesMatch<["input", "result"]>]> {
  let summary = "copies the value of the root to all ranks of its group";
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

    Lowered by `convert-mpcomm-to-mprt`.
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
  let summary = "sends values between pairs of ranks of a group";
  let description = [{
    Each pair consists of a source and a target, both group ranks. The target
    gets the value of the source. A rank that is not a target gets zeros.

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
    - C3: no rank is the source of two pairs or the target of two pairs.
    - C4: the list has two numbers for each pair.

    Written by hand; composed by `mpcomm-simplify-collectives`; lowered by
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
    /// For each of the `ranks` group ranks, the target of its value, or -1.
    ::llvm::SmallVector<int64_t> getTargets(int64_t ranks);
  }];
}

def MPComm_CollectiveReduceOp : MPComm_CollectiveOp<"collective_reduce",
    "Reduce", [AllTypesMatch<["input", "result"]>]> {
  let summary = "element-wise reduction over a group; the root gets the result";
  let description = [{
    Ranks other than the root get zeros:

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

    Written by hand; lowered by `convert-mpcomm-to-mprt`.
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
  let summary = "concatenation of the blocks of a group, on its root";
  let description = [{
    Concatenates the operands along `dim`, in the order of group ranks. Ranks
    other than the root get zeros:

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

    Written by hand; lowered by `convert-mpcomm-to-mprt`.
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
  let summary = "each rank of a group gets one block of the root's value";
  let description = [{
    Splits the operand of the root into equal blocks along `dim` and sends block
    r to group rank r. The operands of other ranks are not read.

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

    Written by hand; lowered by `convert-mpcomm-to-mprt`.
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
  let summary = "sends a value to one rank of the group";
  let description = [{
    Pairs with the `mpcomm.recv` of that rank: the n-th send to a rank on a
    channel meets that rank's n-th receive from this one. Ops on different
    channels of a group do not wait for one another.

    Example:
    ```mlir
    mpcomm.send(%x) on @mesh axes ["pp"] to = 1 : tensor<4xf32>
    mpcomm.send(%x) on @mesh axes ["pp"] to = 1 channel = 2 : tensor<4xf32>
    ```

    Constraints:
    - C1: `to` is a rank of the group.
    - C2: the axes are not empty, differ, and belong to the mesh.
    - C3: the channel is not negative and fits 16 bits.

    Lowered by `convert-mpcomm-to-mprt`.
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
  let summary = "receives a value from one rank of the group";
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

    Lowered by `convert-mpcomm-to-mprt`.
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
  let summary = "blocks until all ranks of the group have reached it";
  let description = [{
    Example:
    ```mlir
    mpcomm.barrier on @mesh axes ["dp"]
    ```

    Constraints:
    - C2: the axes are not empty, differ, and belong to the mesh.

    Lowered by `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let assemblyFormat = "`on` $mesh `axes` $axes attr-dict";
}

def MPComm_AsyncOp : MPComm_Op<"async", [
    RecursiveMemoryEffects, SingleBlock, NoRegionArguments]> {
  let summary = "starts a collective without waiting for it";
  let description = [{
    Runs the collective in its region on the communication stream of its group.
    The future holds the values that the region yields. One region op serves
    every collective; there are no start and done variants.

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

    Created by `mpcomm-make-async`; lowered by `convert-mpcomm-to-mprt`.
  }];
  let results = (outs MPComm_FutureType:$future);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$body attr-dict `:` qualified(type($future))";
  let extraClassDeclaration = [{
    /// The collective inside; null if the op is malformed.
    ::mlir::Operation *getCollective();
  }];
  let hasVerifier = 1;
}

def MPComm_YieldOp : MPComm_Op<"yield", [
    Pure, Terminator, ReturnLike, ParentOneOf<["AsyncOp", "UpdateOp"]>]> {
  let summary = "ends the region of mpcomm.async or mpcomm.update";
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
  let summary = "waits for a future and returns its values";
  let description = [{
    Example:
    ```mlir
    %v = mpcomm.await %f : !mpcomm.future<tensor<4xf32>>
    ```

    Constraints:
    - C1: a future is awaited at most once.

    Created by `mpcomm-make-async`; lowered by `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins MPComm_FutureType:$future);
  let results = (outs Variadic<MPComm_Tensor>:$results);
  let assemblyFormat = "$future attr-dict `:` qualified(type($future))";
  let hasVerifier = 1;
}

#endif // MPCOMM_IR_COLLECTIVEOPS
