//===- MPRT.td - the runtime dialect -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Form 5: what a step does on buffers, in terms of the runtime's C ABI
// (include/mpcomm/Runtime/mprt.h).
//
//===----------------------------------------------------------------------===//

#ifndef MPRT_IR_MPRT
#define MPRT_IR_MPRT

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/DestinationStyleOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def MPRT_Dialect : Dialect {
  let name = "mprt";
  let summary = "Calls of the mpcomm runtime";
  let description = [{
    What a compiled program does: kernel launches, matrix products and copies
    on the compute stream, and collectives, each between a start on its
    communicator's stream and an await on the compute stream.

    Attributes that the dialect gives a meaning on other ops:
    - `mprt.communicators`, on a module: for each communicator, the list of mesh
      axes that it spans;
    - `mprt.channels`, on a module: the channel of each of these communicators,
      which tells those of the same axes apart (all 0 where it is missing);
    - `mprt.mesh`, on a module: the mesh of those axes;
    - `mprt.graph`, a dictionary, on a module: by what the training graph is
      known again, for the manifest (docs/Design/Manifest.md has its entries);
    - `mprt.results`, on a function on buffers: a dictionary for each result of
      the step, with its `type`, its `argument` (-1: a further argument that
      nothing donates), and the attributes of results of the mpcomm dialect;
    - `mprt.update`, on an argument: the function writes it;
    - `mprt.overwrite`, on a contraction: what it adds to does not count;
    - `mprt.arena_bytes` and `mprt.bucket_bytes`, on a function: the size of its
      last argument, the arena, and how much of it are buckets;
    - `mprt.arena_bytes_by_kind`, on a function: bytes of the arena by what they hold,
      when most of them are in use;
    - `mprt.epilogue`, a dictionary, on a launch after an mprt.gemm: the kernel
      does with the product what a library may do with it (`kind`: bias,
      bias_gelu or bias_gelu_aux), given operands `bias` and `result`;
    - `mprt.grid`, a `#mprt.grid`, on a kernel without a body: it is code for a
      GPU, which the `gpu.module` named `mpcomm_kernels` has under its name;
    - `mprt.moved_bytes`, on a kernel: what a launch reads and writes, each
      element once; where it is missing, as much as the operands have.
  }];
  let cppNamespace = "::mpcomm::mprt";
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let useDefaultAttributePrinterParser = 1;
}

def MPRT_GridAttr : AttrDef<MPRT_Dialect, "Grid"> {
  let mnemonic = "grid";
  let summary = "How a kernel of a GPU is launched";
  let description = [{
    Blocks of `threads` threads (a multiple of 32, at most 1024). With
    `grid_stride` each block goes on with the next piece of work, a grid
    further, so that any grid does and `blocks` is the most that have work;
    without it there are exactly `blocks`. `scratch` is the number of bytes that one more pointer,
    the last, leads to; what a launch leaves there is there for the next.

    Example: `#mprt.grid<threads = 256, blocks = 96, grid_stride = true, scratch = 0>`
  }];
  let parameters = (ins "int64_t":$threads, "int64_t":$blocks, "bool":$grid_stride,
                        "int64_t":$scratch);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

class MPRT_Op<string mnemonic, list<Trait> traits = []>
    : Op<MPRT_Dialect, mnemonic, traits>;

def MPRT_TensorOrBuffer
    : AnyTypeOf<[StaticShapeTensorOf<[AnyType]>, StaticShapeMemRefOf<[AnyType]>]>;
def MPRT_Buffer : StaticShapeMemRefOf<[AnyType]>;

def MPRT_LaunchOp : MPRT_Op<"launch", [
    AttrSizedOperandSegments, DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "runs a kernel on the compute stream";
  let description = [{
    The kernel, a `func.func` with the attribute `mpcomm.kernel`, takes the
    inputs, then the outputs. On tensors the op is in destination style: result
    i is what the kernel leaves in output i. On buffers it has no results.

    Example:
    ```mlir
    %r = mprt.launch @gelu ins(%x : tensor<8x64xf32>) outs(%init : tensor<8x64xf32>) -> (tensor<8x64xf32>)
    mprt.launch @gelu ins(%a : memref<8x64xf32>) outs(%b : memref<8x64xf32>)
    ```

    Constraints:
    - C1: operands are all tensors or all buffers.
    - C2: on tensors, results have the outputs' types; on buffers there are none.
    - C3: the symbol is a function with the attribute `mpcomm.kernel` and as
      many arguments as the op has operands, of the same shapes.

    Made by `mpcomm-form-kernels`; gone by `convert-mprt-to-llvm`.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel,
                       Variadic<MPRT_TensorOrBuffer>:$inputs,
                       Variadic<MPRT_TensorOrBuffer>:$outputs);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $kernel (`ins` `(` $inputs^ `:` type($inputs) `)`)?
    `outs` `(` $outputs `:` type($outputs) `)` attr-dict
    (`->` `(` type($results)^ `)`)?
  }];
  let extraClassDeclaration = [{
    // Without the segments, which are for ranges that grow: making those takes
    // an attribute each time, and analyses ask for every operand.
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      auto [start, size] = getODSOperandIndexAndLength(1);
      return ::mlir::MutableOperandRange(getOperation(), start, size);
    }
  }];
  let hasVerifier = 1;
}

def MPRT_CallOp : MPRT_Op<"call", [
    AttrSizedOperandSegments, DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "runs a part of the step";
  let description = [{
    A part is a private function of the module, which is compiled once however
    often it is called: the forward or the backward pass of a stage for each of
    its micro-batches. It takes the inputs as its arguments that donate no
    buffer, in their order, and makes output i its result i, in place where an
    argument donates its buffer to that result: the output is then that
    argument.

    On buffers, `scratch` is where the part keeps what lives no longer than the
    call: as many bytes as its `mprt.arena_bytes` say.

    Example: with `func.func private @part(%x, %sum {mpcomm.donated = 0}) -> (sum, y)`,
    and `@planned`, the same on buffers
    ```mlir
    %r:2 = mprt.call @part ins(%x : tensor<4xf32>) outs(%sum, %init : tensor<4xf32>, tensor<f32>)
        -> (tensor<4xf32>, tensor<f32>)
    mprt.call @planned ins(%a : memref<4xf32>) outs(%b, %c : memref<4xf32>, memref<f32>)
        scratch(%s : memref<1024xi8>)
    ```

    Constraints:
    - C1: operands are all tensors or all buffers; with `scratch`, buffers.
    - C2: on tensors, results have the outputs' types; on buffers there are none.
    - C3: the symbol is a private function that is no kernel; its arguments and
      results are those that the inputs and outputs stand for, of the same
      shapes and elements.

    Made by `convert-mpcomm-to-mprt` of `func.call`; gone by
    `convert-mprt-to-llvm`.
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee,
                       Variadic<MPRT_TensorOrBuffer>:$inputs,
                       Variadic<MPRT_TensorOrBuffer>:$outputs,
                       Optional<MPRT_Buffer>:$scratch);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $callee (`ins` `(` $inputs^ `:` type($inputs) `)`)?
    (`outs` `(` $outputs^ `:` type($outputs) `)`)?
    (`scratch` `(` $scratch^ `:` type($scratch) `)`)? attr-dict
    (`->` `(` type($results)^ `)`)?
  }];
  let builders = [OpBuilder<(ins "::mlir::FlatSymbolRefAttr":$callee,
                                 "::mlir::ValueRange":$inputs,
                                 "::mlir::ValueRange":$outputs)>];
  let extraClassDeclaration = [{
    // As in mprt.launch.
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      auto [start, size] = getODSOperandIndexAndLength(1);
      return ::mlir::MutableOperandRange(getOperation(), start, size);
    }
    /// Its operands in the order of the arguments of `part`, the function that
    /// it calls; null for scratch that it lacks.
    ::llvm::SmallVector<::mlir::Value> getArguments(const CalleeSignature &part);
  }];
  let hasVerifier = 1;
}

/// A collective, or its end, in destination style on tensors or buffers.
class MPRT_CommunicationOp<string mnemonic>
    : MPRT_Op<mnemonic, [
          AttrSizedOperandSegments, DestinationStyleOpInterface,
          DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let extraClassDeclaration = [{
    // Without the segments, which are for ranges that grow: making those takes
    // an attribute each time, and analyses ask for every operand.
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      auto [start, size] = getODSOperandIndexAndLength(1);
      return ::mlir::MutableOperandRange(getOperation(), start, size);
    }
  }];
  let hasVerifier = 1;
}

def MPRT_StartOp : MPRT_CommunicationOp<"start"> {
  let summary = "starts a collective on its communicator's stream";
  let description = [{
    `kind`, `reduction`, `id`, `communicator` and `peer` as in
    `mprt_collective`, `targets` of a permute too. all_reduce and broadcast work
    in place on their outputs, of which there may be several: one bucket. The
    other kinds read one input and write one output. The end of the collective is marked by `event`;
    nothing may touch the outputs before the `mprt.await` of that event.

    It runs after what was started before it on its communicator, and after what
    touches its buffers: what was computed before it, and the collectives that
    were awaited before it.

    Example:
    ```mlir
    %r = mprt.start "all_reduce" "mean" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32
        ins() outs(%g : tensor<64xf32>) -> (tensor<64xf32>)
    ```

    Constraints:
    - C1: `kind` is all_reduce, reduce_scatter, all_gather, all_to_all,
      broadcast, send, recv, barrier, permute, reduce, gather or scatter;
      `reduction` is sum, prod, min, max, mean or empty, and empty exactly where
      the kind does not reduce.
    - C2: operands are all tensors or all buffers; on tensors, results have the
      outputs' types, on buffers there are none.
    - C3: outputs have one element type; all_reduce has at least one output and
      no input, broadcast and recv one output and no input, send one input and
      no output, barrier neither, the others one of each.
    - C4: the numbers are not negative (`peer`: at least -1), and fit the fields
      of mprt.h: 32 bits, with two events for each collective.
    - C5: a permute, and no other kind, has `targets`: for each rank of its
      group another number of it, or -1.

    Made by `convert-mpcomm-to-mprt`; gone by `convert-mprt-to-llvm`.
  }];
  let arguments = (ins StrAttr:$kind, StrAttr:$reduction, I64Attr:$id,
                       I64Attr:$communicator, I64Attr:$event, I64Attr:$peer,
                       TypeAttr:$accumulate,
                       OptionalAttr<DenseI64ArrayAttr>:$targets,
                       Variadic<MPRT_TensorOrBuffer>:$inputs,
                       Variadic<MPRT_TensorOrBuffer>:$outputs);
  let assemblyFormat = [{
    $kind $reduction `id` `=` $id `communicator` `=` $communicator `event` `=`
    $event `peer` `=` $peer `accumulate` $accumulate (`targets` $targets^)?
    `ins` `(` ($inputs^ `:` type($inputs))? `)`
    `outs` `(` ($outputs^ `:` type($outputs))? `)` attr-dict
    (`->` `(` type($results)^ `)`)?
  }];
}

def MPRT_AwaitOp : MPRT_CommunicationOp<"await"> {
  let summary = "makes the compute stream wait for a collective";
  let description = [{
    The outputs are those of the collective whose end `event` marks; the
    results are their values after it. What is computed after the op comes
    after the collective.

    Example:
    ```mlir
    %v = mprt.await event = 0 ins() outs(%r : tensor<64xf32>) -> (tensor<64xf32>)
    ```

    Constraints:
    - C1: operands are all tensors or all buffers; on tensors, results have the
      outputs' types, on buffers there are none.
    - C2: there is at most one input: the collective's, which it keeps alive.
    - C3: `event` is one that a start can have.

    Made by `convert-mpcomm-to-mprt`; gone by `convert-mprt-to-llvm`.
  }];
  let arguments = (ins I64Attr:$event,
                       Variadic<MPRT_TensorOrBuffer>:$inputs,
                       Variadic<MPRT_TensorOrBuffer>:$outputs);
  let assemblyFormat = [{
    `event` `=` $event `ins` `(` ($inputs^ `:` type($inputs))? `)`
    `outs` `(` ($outputs^ `:` type($outputs))? `)` attr-dict
    (`->` `(` type($results)^ `)`)?
  }];
}

def MPRT_GemmOp : MPRT_Op<"gemm", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "matrix product on the compute stream";
  let description = [{
    C[batch, i, j] = sum_k A[batch, i, k] * B[batch, k, j], plus C where
    `accumulate` is set. Sizes and strides are those of `mprt_gemm_desc`, in
    elements: `a_strides` steps (i, k), `b_strides` (k, j), `c_strides` (i, j);
    each batch dimension has a size and a stride per operand.

    Example:
    ```mlir
    mprt.gemm %a, %b, %c m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1]
        batch [] strides [] x [] -> []
        : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
    ```

    Constraints:
    - C1: sizes are positive; each list of strides has two entries, each batch
      list one entry per batch dimension, of which there are at most 4.
    - C2: one of the two strides of A and of B is 1; the second of C is 1.
    - C3: no stride is negative, and what the sizes and strides reach lies in
      the buffers.

    Made by `convert-linalg-to-mprt`; gone by `convert-mprt-to-llvm`.
  }];
  let arguments = (ins MPRT_Buffer:$a, MPRT_Buffer:$b, MPRT_Buffer:$c,
                       I64Attr:$m, I64Attr:$n, I64Attr:$k,
                       DenseI64ArrayAttr:$a_strides,
                       DenseI64ArrayAttr:$b_strides,
                       DenseI64ArrayAttr:$c_strides,
                       DenseI64ArrayAttr:$batch,
                       DenseI64ArrayAttr:$a_batch_strides,
                       DenseI64ArrayAttr:$b_batch_strides,
                       DenseI64ArrayAttr:$c_batch_strides,
                       UnitAttr:$accumulate);
  let assemblyFormat = [{
    $a `,` $b `,` $c `m` `=` $m `n` `=` $n `k` `=` $k
    `strides` $a_strides `x` $b_strides `->` $c_strides
    `batch` $batch `strides` $a_batch_strides `x` $b_batch_strides `->`
    $c_batch_strides (`accumulate` $accumulate^)? attr-dict `:` type($a) `,`
    type($b) `,` type($c)
  }];
  let hasVerifier = 1;
}

/// An op whose windows slide over an activation: destination style, one output.
class MPRT_SlidingWindowOp<string mnemonic> : MPRT_Op<mnemonic, [
    AttrSizedOperandSegments, DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let hasVerifier = 1;
  code slidingWindowDeclaration = [{
    // Without the segments, which are for ranges that grow.
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      auto [start, size] = getODSOperandIndexAndLength(1);
      return ::mlir::MutableOperandRange(getOperation(), start, size);
    }
    /// The number of `kind` in `mprt_window_kind`; none where it is unknown.
    ::std::optional<unsigned> getKindNumber();
    /// The geometry of a verified op.
    ::mpcomm::SlidingWindow getGeometry();
  }];
}

def MPRT_ConvolutionOp : MPRT_SlidingWindowOp<"convolution"> {
  let summary = "convolution or a gradient of one, on the compute stream";
  let description = [{
    Writes to the output what the mpcomm op called `kind` computes of the
    inputs, which are in that op's order. The attributes are those of that op.

    Example:
    ```mlir
    %r = mprt.convolution "convolution" strides = [1, 1] low = [1, 1] high = [1, 1] dilation = [1, 1] groups = 1
        ins(%x, %w : tensor<8x16x32x32xf32>, tensor<32x16x3x3xf32>) outs(%init : tensor<8x32x32x32xf32>)
        -> (tensor<8x32x32x32xf32>)
    ```

    Constraints:
    - C1: `kind` is convolution, convolution_input_grad or
      convolution_filter_grad, and there are two inputs and one output.
    - C2: operands are all tensors or all buffers; on tensors, results have the
      outputs' types, on buffers there are none.
    - C3: shapes and attributes fit those of the op of that kind.
    - C4: the strides of buffers are static and not negative, and what they
      reach is counted in 64 bits.

    Created by `convert-mpcomm-to-linalg`; lowered by `convert-mprt-to-llvm`.
  }];
  let arguments = (ins StrAttr:$kind, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high,
                       DenseI64ArrayAttr:$dilation, I64Attr:$groups,
                       UnitAttr:$channels_last,
                       Variadic<MPRT_TensorOrBuffer>:$inputs,
                       Variadic<MPRT_TensorOrBuffer>:$outputs);
  let assemblyFormat = [{
    $kind `strides` `=` $strides `low` `=` $low `high` `=` $high
    `dilation` `=` $dilation `groups` `=` $groups
    (`channels_last` $channels_last^)?
    `ins` `(` $inputs `:` type($inputs) `)`
    `outs` `(` $outputs `:` type($outputs) `)` attr-dict
    (`->` `(` type($results)^ `)`)?
  }];
  let extraClassDeclaration = slidingWindowDeclaration # [{
    /// The operand that is the filter, or its gradient.
    ::mlir::Value getFilter();
  }];
}

def MPRT_PoolOp : MPRT_SlidingWindowOp<"pool"> {
  let summary = "pooling or a gradient of one, on the compute stream";
  let description = [{
    Writes to the output what the mpcomm op called `kind` computes of the
    inputs, which are in that op's order. The attributes are those of that op.

    Example:
    ```mlir
    %r = mprt.pool "max_pool" window = [2, 2] strides = [2, 2] low = [0, 0] high = [0, 0]
        ins(%x : tensor<8x16x32x32xf32>) outs(%init : tensor<8x16x16x16xf32>) -> (tensor<8x16x16x16xf32>)
    ```

    Constraints:
    - C1: `kind` is max_pool, max_pool_grad, avg_pool or avg_pool_grad, and
      there is one output and as many inputs as it has.
    - C2: operands are all tensors or all buffers; on tensors, results have the
      outputs' types, on buffers there are none.
    - C3: shapes and attributes fit those of the op of that kind.
    - C4: the strides of buffers are static and not negative, and what they
      reach is counted in 64 bits.

    Created by `convert-mpcomm-to-linalg`; lowered by `convert-mprt-to-llvm` to
    a call, or by `mpcomm-generate-gpu-kernels` to a kernel.
  }];
  let arguments = (ins StrAttr:$kind, DenseI64ArrayAttr:$window,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$low,
                       DenseI64ArrayAttr:$high, UnitAttr:$channels_last,
                       UnitAttr:$count_padding,
                       Variadic<MPRT_TensorOrBuffer>:$inputs,
                       Variadic<MPRT_TensorOrBuffer>:$outputs);
  let assemblyFormat = [{
    $kind `window` `=` $window `strides` `=` $strides `low` `=` $low
    `high` `=` $high (`channels_last` $channels_last^)?
    (`count_padding` $count_padding^)?
    `ins` `(` $inputs `:` type($inputs) `)`
    `outs` `(` $outputs `:` type($outputs) `)` attr-dict
    (`->` `(` type($results)^ `)`)?
  }];
  let extraClassDeclaration = slidingWindowDeclaration;
}

def MPRT_AttentionOp : MPRT_Op<"attention", [
    AttrSizedOperandSegments, DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "attention, or its gradient, on the compute stream";
  let description = [{
    With q of [batch, rows, heads, size], k and v of [batch, columns, heads,
    size], and all in each batch and head:
    ```
    s[i, j] = scale * sum_d q[i, d] k[j, d], -infinity where mask[i, j] is 0
    lse[i]  = log sum_j exp s[i, j]
    out[i]  = sum_j exp(s[i, j] - lse[i]) v[j]
    ```
    `kind` attention has the inputs q, k, v and maybe a mask of [rows, columns],
    the same for all batches and heads, and the outputs out, like q, and lse of
    [batch, heads, rows]; attention_grad has the inputs dout, q, k, v, out, lse
    and maybe the mask, and the outputs dq, dk and dv. A row of which nothing is
    kept is NaN in out and -infinity in lse, and takes no part in gradients.

    Sums are in f32; what a product takes is rounded to the operands' type, p
    relative to the largest of its row so far.

    Example:
    ```mlir
    %r:2 = mprt.attention "attention" scale = 1.250000e-01
        ins(%q, %k, %v : tensor<2x64x4x64xbf16>, tensor<2x80x4x64xbf16>, tensor<2x80x4x64xbf16>)
        outs(%o, %l : tensor<2x64x4x64xbf16>, tensor<2x4x64xf32>)
        -> (tensor<2x64x4x64xbf16>, tensor<2x4x64xf32>)
    ```

    Constraints:
    - C1: `kind` is attention or attention_grad, and there are as many inputs
      and outputs as it has.
    - C2: operands are all tensors or all buffers; on tensors, results have the
      outputs' types, on buffers there are none.
    - C3: shapes are as above; lse is f32, the mask i1, and all others have one
      element type.
    - C4: the kernels of a GPU take it: `isAttentionSupported`; `scale` is
      finite.
    - C5: the strides of buffers are static and not negative, and what they
      reach is counted in 64 bits.

    Made by `convert-mpcomm-to-linalg` for GPUs; gone by
    `mpcomm-generate-gpu-kernels`.
  }];
  let arguments = (ins StrAttr:$kind, F64Attr:$scale,
                       Variadic<MPRT_TensorOrBuffer>:$inputs,
                       Variadic<MPRT_TensorOrBuffer>:$outputs);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $kind `scale` `=` $scale `ins` `(` $inputs `:` type($inputs) `)`
    `outs` `(` $outputs `:` type($outputs) `)` attr-dict
    (`->` `(` type($results)^ `)`)?
  }];
  let extraClassDeclaration = [{
    // Without the segments, which are for ranges that grow.
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      auto [start, size] = getODSOperandIndexAndLength(1);
      return ::mlir::MutableOperandRange(getOperation(), start, size);
    }
    bool isGradient() { return getKind() == "attention_grad"; }
    /// Null where there is none.
    ::mlir::Value getMask() {
      unsigned others = isGradient() ? 6 : 3;
      return getInputs().size() > others ? getInputs()[others]
                                         : ::mlir::Value();
    }
  }];
  let hasVerifier = 1;
}

def MPRT_CopyOp : MPRT_Op<"copy", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "copies a contiguous buffer on the compute stream";
  let description = [{
    Example:
    ```mlir
    mprt.copy %a, %b : memref<64xf32>, memref<64xf32>
    ```

    Constraints:
    - C1: both buffers are contiguous and of one shape and element type.

    Made by `convert-linalg-to-mprt`; gone by `convert-mprt-to-llvm`.
  }];
  let arguments = (ins MPRT_Buffer:$source, MPRT_Buffer:$target);
  let assemblyFormat = [{
    $source `,` $target attr-dict `:` type($source) `,` type($target)
  }];
  let hasVerifier = 1;
}

def MPRT_ZeroOp : MPRT_Op<"zero", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "fills a contiguous buffer with zero bytes";
  let description = [{
    Example:
    ```mlir
    mprt.zero %a : memref<64xf32>
    ```

    Constraints:
    - C1: the buffer is contiguous.

    Made by `convert-linalg-to-mprt`; gone by `convert-mprt-to-llvm`.
  }];
  let arguments = (ins MPRT_Buffer:$target);
  let assemblyFormat = "$target attr-dict `:` type($target)";
  let hasVerifier = 1;
}

#endif // MPRT_IR_MPRT
