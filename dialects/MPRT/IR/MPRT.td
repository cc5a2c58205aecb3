//===- MPRT.td - the runtime dialect -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Form 5: a step on buffers, as calls of the runtime's C ABI
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
    The operations of a compiled program: kernel launches, matrix products and
    copies on the compute stream, and collectives. A collective has a start on
    the stream of its communicator and an await on the compute stream.

    Attributes of other ops:
    - `mprt.communicators`, on a module: for each communicator, the list of mesh
      axes that it spans;
    - `mprt.channels`, on a module: the channel of each communicator, which
      distinguishes communicators with the same axes (default: all 0);
    - `mprt.mesh`, on a module: the mesh of those axes;
    - `mprt.graph`, a dictionary, on a module: identifies the training graph,
      for the manifest (docs/Design/Manifest.md lists its entries);
    - `mprt.results`, on a function on buffers: a dictionary for each result of
      the step, with its `type`, its `argument` (-1: a further argument that is
      not donated), and the mpcomm attributes of the result;
    - `mprt.update`, on an argument: the function writes it;
    - `mprt.overwrite`, on a contraction: the previous contents of the
      destination are ignored;
    - `mprt.arena_bytes` and `mprt.bucket_bytes`, on a function: the size of its
      last argument, the arena, and of the buckets in it;
    - `mprt.arena_bytes_by_kind`, on a function: bytes of the arena by content,
      at the moment when most of them are in use;
    - `mprt.epilogue`, a dictionary, on a launch after an mprt.gemm: a library
      may fuse the kernel into the product. `kind` is the mprt_epilogue_kind;
      `bias`, `matrix` and `scales` are operand numbers of the launch;
    - `mprt.attention`, on launches of the kernels of an attention, which are
      one call of the runtime: a dictionary of its `kind` and `scale` on the
      first, a unit on those that belong to it;
    - `mprt.fixed_mask`, a unit, on mprt.attention: its mask is computed from
      constants alone;
    - `mprt.grid`, a `#mprt.grid`, on a kernel without a body: the code of the
      kernel, for a GPU, is the function of that name in the `gpu.module`
      `mpcomm_kernels`;
    - `mprt.moved_bytes`, on a kernel: the bytes that a launch reads and writes,
      each element once (default: the bytes of the operands);
    - `mprt.shared_bytes`, on a kernel for a GPU: shared memory that a launch
      asks for, for each block (default: 0).
  }];
  let cppNamespace = "::mpcomm::mprt";
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let useDefaultAttributePrinterParser = 1;
}

def MPRT_GridAttr : AttrDef<MPRT_Dialect, "Grid"> {
  let mnemonic = "grid";
  let summary = "launch grid of a GPU kernel";
  let description = [{
    A block has `threads` threads (a multiple of 32, at most 1024). With
    `grid_stride`, each block continues with the piece of work one grid further:
    any grid is correct, and at most `blocks` blocks have work. Without it, the
    grid has exactly `blocks` blocks. If `scratch` is not 0, the kernel takes
    one more pointer, the last, to that many bytes, whose contents persist from
    one launch to the next.

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
    The kernel is a `func.func` with the attribute `mpcomm.kernel`. Its
    arguments are the inputs, then the outputs. On tensors the op is in
    destination style: result i is the value that the kernel writes to output i.
    On buffers it has no results.

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

    Created by `mpcomm-form-kernels`; lowered by `convert-mprt-to-llvm`.
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
    // Without the segments, which only ranges that grow need: creating them
    // takes an attribute each time, and analyses query every operand.
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
  let summary = "calls a micro-batch body, a stage function or the body of a loop";
  let description = [{
    The callee is a private function of the module, which is compiled once and
    called for each micro-batch. The inputs are its arguments that donate no
    buffer, in order. Output i becomes result i of the callee. If an argument
    donates its buffer to result i, output i is also that argument, and is
    updated in place.

    With `trips`, the callee is called that many times, one call after the other
    on the same buffers, except that call i of a buffer with one more dimension
    than the callee takes is given row i of it; with `reverse`, the last row
    first. So what an argument donates its buffer to is carried from one call to
    the next, and other outputs are stacked.

    On buffers, `scratch` holds the values of the callee that live no longer
    than the call. Its size is the `mprt.arena_bytes` of the callee.

    Example: with `func.func private @body(%x, %sum {mpcomm.donated = 0}) -> (sum, y)`,
    and `@planned`, the same function on buffers
    ```mlir
    %r:2 = mprt.call @body ins(%x : tensor<4xf32>) outs(%sum, %init : tensor<4xf32>, tensor<f32>)
        -> (tensor<4xf32>, tensor<f32>)
    mprt.call @planned ins(%a : memref<4xf32>) outs(%b, %c : memref<4xf32>, memref<f32>)
        scratch(%s : memref<1024xi8>)
    mprt.call @planned trips = 8 ins(%as : memref<8x4xf32>) outs(%b, %cs : memref<4xf32>, memref<8xf32>)
        scratch(%s : memref<1024xi8>)
    ```

    Constraints:
    - C1: operands are all tensors or all buffers; with `scratch`, buffers.
    - C2: on tensors, results have the outputs' types; on buffers there are none.
    - C3: the symbol is a private function that is not a kernel; its arguments
      and results match the inputs and outputs in number, shape and element
      type, except for the first dimension, of `trips`, of those with one more.
    - C4: `trips` is at least 1 and fits 31 bits; `reverse` is given with it
      alone.

    Created by `convert-mpcomm-to-mprt` of `func.call` and `mpcomm.scan`;
    lowered by `convert-mprt-to-llvm`.
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, OptionalAttr<I64Attr>:$trips,
                       UnitAttr:$reverse,
                       Variadic<MPRT_TensorOrBuffer>:$inputs,
                       Variadic<MPRT_TensorOrBuffer>:$outputs,
                       Optional<MPRT_Buffer>:$scratch);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $callee (`trips` `=` $trips^)? (`reverse` $reverse^)?
    (`ins` `(` $inputs^ `:` type($inputs) `)`)?
    (`outs` `(` $outputs^ `:` type($outputs) `)`)?
    (`scratch` `(` $scratch^ `:` type($scratch) `)`)? attr-dict
    (`->` `(` type($results)^ `)`)?
  }];
  let builders = [OpBuilder<(ins "::mlir::FlatSymbolRefAttr":$callee,
                                 "::mlir::ValueRange":$inputs,
                                 "::mlir::ValueRange":$outputs)>];
  let extraClassDeclaration = [{
    /// How often it calls.
    int64_t countCalls() { return getTrips().value_or(1); }
    /// Whether each call is given a row of the buffer for that argument.
    bool isStacked(::mlir::Value buffer, ::mlir::Type argument);
    // As in mprt.launch.
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      auto [start, size] = getODSOperandIndexAndLength(1);
      return ::mlir::MutableOperandRange(getOperation(), start, size);
    }
    /// The operands in the order of the arguments of the callee that has this
    /// signature; null for missing scratch.
    ::llvm::SmallVector<::mlir::Value> getArguments(const CalleeSignature &signature);
  }];
  let hasVerifier = 1;
}

/// The start or the await of a collective, in destination style on tensors or
/// buffers.
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
    `kind`, `reduction`, `id`, `communicator`, `peer` and, for a permute,
    `targets` are those of `mprt_collective`. all_reduce and broadcast work in
    place on their outputs; several outputs of an all_reduce are one bucket. The
    other kinds read one input and write one output. `event` marks the end of
    the collective; nothing may access the outputs before the `mprt.await` of
    that event.

    The collective runs after the collectives that were started before it on its
    communicator. It also runs after all earlier work that accesses its buffers:
    computation, and collectives that were awaited.

    Example:
    ```mlir
    %r = mprt.start "all_reduce" "mean" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32
        ins() outs(%g : tensor<64xf32>) -> (tensor<64xf32>)
    ```

    Constraints:
    - C1: `kind` is all_reduce, reduce_scatter, all_gather, all_to_all,
      broadcast, send, recv, barrier, permute, reduce, gather or scatter;
      `reduction` is sum, prod, min, max or mean if the kind reduces, else
      empty.
    - C2: operands are all tensors or all buffers; on tensors, results have the
      outputs' types, on buffers there are none.
    - C3: outputs have one element type; all_reduce has at least one output and
      no input, broadcast and recv one output and no input, send one input and
      no output, barrier neither, the others one of each.
    - C4: the numbers are not negative (`peer`: at least -1), and fit the fields
      of mprt.h: 32 bits, with two events for each collective.
    - C5: a permute, and no other kind, has `targets`: for each rank of its
      group a different group rank, or -1.

    Created by `convert-mpcomm-to-mprt`; lowered by `convert-mprt-to-llvm`.
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
    The outputs are those of the collective whose end `event` marks. The results
    are their values after the collective. Computation after this op runs after
    the collective.

    Example:
    ```mlir
    %v = mprt.await event = 0 ins() outs(%r : tensor<64xf32>) -> (tensor<64xf32>)
    ```

    Constraints:
    - C1: operands are all tensors or all buffers; on tensors, results have the
      outputs' types, on buffers there are none.
    - C2: there is at most one input: that of the collective, which the await
      keeps alive.
    - C3: `event` is in the range that C4 of `mprt.start` allows.

    Created by `convert-mpcomm-to-mprt`; lowered by `convert-mprt-to-llvm`.
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
    C[batch, i, j] = sum_k A[batch, i, k] * B[batch, k, j], plus C if
    `accumulate` is set. Sizes and strides are those of `mprt_gemm_desc`, in
    elements: `a_strides` are the strides of (i, k), `b_strides` of (k, j),
    `c_strides` of (i, j). Each batch dimension has a size, and a stride per
    operand.

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
    - C3: no stride is negative, and all elements that the sizes and strides
      reach are in the buffers.

    Created by `convert-linalg-to-mprt`; lowered by `convert-mprt-to-llvm`.
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

/// A convolution, pooling, or a gradient of one, in destination style with one
/// output.
class MPRT_SlidingWindowOp<string mnemonic> : MPRT_Op<mnemonic, [
    AttrSizedOperandSegments, DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let hasVerifier = 1;
  code slidingWindowDeclaration = [{
    // Without the segments, which only ranges that grow need.
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      auto [start, size] = getODSOperandIndexAndLength(1);
      return ::mlir::MutableOperandRange(getOperation(), start, size);
    }
    /// The number of `kind` in `mprt_window_kind`; nothing if it is unknown.
    ::std::optional<unsigned> getKindNumber();
    /// The geometry of a verified op.
    ::mpcomm::SlidingWindow getGeometry();
  }];
}

def MPRT_ConvolutionOp : MPRT_SlidingWindowOp<"convolution"> {
  let summary = "convolution or a gradient of one, on the compute stream";
  let description = [{
    Computes the mpcomm op named by `kind`. The inputs are the operands of that
    op, in its order; the attributes are also its own.

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
    Computes the mpcomm op named by `kind`. The inputs are the operands of that
    op, in its order; the attributes are also its own.

    Example:
    ```mlir
    %r = mprt.pool "max_pool" window = [2, 2] strides = [2, 2] low = [0, 0] high = [0, 0]
        ins(%x : tensor<8x16x32x32xf32>) outs(%init : tensor<8x16x16x16xf32>) -> (tensor<8x16x16x16xf32>)
    ```

    Constraints:
    - C1: `kind` is max_pool, max_pool_grad, avg_pool or avg_pool_grad; there is
      one output, and as many inputs as the op of that kind has.
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
    q is [batch, rows, heads, size]; k and v are [batch, columns, heads, size].
    For each batch and head:
    ```
    s[i, j] = scale * sum_d q[i, d] k[j, d] + bias[i, j],
              -infinity where mask[i, j] is 0
    lse[i]  = log sum_j exp s[i, j]
    out[i]  = sum_j exp(s[i, j] - lse[i]) v[j]
    ```
    With `kind` attention, the inputs are q, k, v, optionally a mask of
    [rows, columns] for all batches and heads, and optionally a bias of f32,
    bf16 or f16, of [batch, heads, rows, columns], each of which may be 1; the
    outputs are out, like q, and lse of [batch, heads, rows], or, with a bias,
    [batch, heads, rows, 2], of the largest score m and log sum_j exp(s - m).
    With `kind` attention_grad, the inputs are dout, q, k, v, out, lse,
    optionally the mask and optionally the bias; the outputs are dq, dk and dv,
    and, if there is a bias that has an element for each row and column, perhaps
    db, its gradient in f32: the sum of the gradients of s over the batches and
    heads for which the bias is the same.
    If nothing of a row is kept, or all that is kept is -infinity, the row is
    NaN (with `safe` 0) in out and -infinity in lse, and does not contribute to
    gradients.

    Sums are in f32. The operands of products are rounded to the operands' type;
    probabilities are rounded relative to the largest of their row so far.

    Example:
    ```mlir
    %r:2 = mprt.attention "attention" scale = 1.250000e-01
        ins(%q, %k, %v : tensor<2x64x4x64xbf16>, tensor<2x80x4x64xbf16>, tensor<2x80x4x64xbf16>)
        outs(%o, %l : tensor<2x64x4x64xbf16>, tensor<2x4x64xf32>)
        -> (tensor<2x64x4x64xbf16>, tensor<2x4x64xf32>)
    ```

    Constraints:
    - C1: `kind` is attention or attention_grad, and the numbers of inputs and
      outputs are those above.
    - C2: operands are all tensors or all buffers; on tensors, results have the
      outputs' types, on buffers there are none.
    - C3: shapes are as above; lse is f32, the mask i1, the bias as above, and
      all others have one element type.
    - C4: GPU kernels support the shapes (`isAttentionSupported`, for db
      `isBiasGradSupported`); `scale` is finite.
    - C5: the strides of buffers are static and not negative, and what they
      reach is counted in 64 bits.

    Created by `convert-mpcomm-to-linalg` for GPUs; lowered by
    `mpcomm-generate-gpu-kernels`. If there is no mask, or one that is the same
    in each step, its launches are one call of the runtime (`mprt.attention`).
  }];
  let arguments = (ins StrAttr:$kind, F64Attr:$scale, UnitAttr:$safe,
                       Variadic<MPRT_TensorOrBuffer>:$inputs,
                       Variadic<MPRT_TensorOrBuffer>:$outputs);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $kind `scale` `=` $scale (`safe` $safe^)? `ins` `(` $inputs `:` type($inputs) `)`
    `outs` `(` $outputs `:` type($outputs) `)` attr-dict
    (`->` `(` type($results)^ `)`)?
  }];
  let extraClassDeclaration = [{
    // Without the segments, which only ranges that grow need.
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      auto [start, size] = getODSOperandIndexAndLength(1);
      return ::mlir::MutableOperandRange(getOperation(), start, size);
    }
    bool isGradient() { return getKind() == "attention_grad"; }
    /// The inputs that there always are.
    unsigned getNumOthers() { return isGradient() ? 6 : 3; }
    /// Null if there is none.
    ::mlir::Value getMask();
    ::mlir::Value getBias();
    ::mlir::Value getBiasGrad();
  }];
  let hasVerifier = 1;
}

def MPRT_ScatterTensor
    : StaticShapeTensorOf<[AnyFloat, AnySignlessInteger]>;

def MPRT_ScatterOp : MPRT_Op<"scatter", [
    Pure, DestinationStyleOpInterface, AllTypesMatch<["operand", "result"]>]> {
  let summary = "slices combined with those of a tensor, by index";
  let description = [{
    In the order of the indices, updates[b…, p…, i…, s…] is combined with
    element [b…, p…, indices[b…, i…], s…] of the operand, or replaces it; the
    dimensions are those of `mpcomm.scatter`. An index out of range is clamped
    with `clamp`, else its updates are dropped; those for element `skipped`
    are, too. The op is on tensors; a kernel has it alone, maybe onto a fill.

    Sums and products are in the element type; those of i1 are a disjunction and
    a conjunction.

    Example:
    ```mlir
    %r = mprt.scatter "sum" dim = 0 batch_dims = 0 clamp
        ins(%u, %i : tensor<32x64xf32>, tensor<32xi64>) outs(%x : tensor<10x64xf32>)
    ```

    Constraints:
    - C1: `kind` is replace, sum, prod, min or max.
    - C2: `dim`, `batch_dims` and shapes are as of `mpcomm.scatter`; with
      `clamp`, dimension `dim` is not empty.
    - C3: updates and operand have one element type.
    - C4: `skipped` is at least 0.

    Created by `convert-mpcomm-to-linalg`; in a kernel, lowered by
    `mpcomm-generate-kernels` and `mpcomm-generate-gpu-kernels`.
  }];
  let arguments = (ins StrAttr:$kind, I64Attr:$dim, I64Attr:$batch_dims,
                       UnitAttr:$clamp,
                       OptionalAttr<I64Attr>:$skipped,
                       MPRT_ScatterTensor:$updates,
                       StaticShapeTensorOf<[I32, I64]>:$indices,
                       MPRT_ScatterTensor:$operand);
  let results = (outs MPRT_ScatterTensor:$result);
  let assemblyFormat = [{
    $kind `dim` `=` $dim `batch_dims` `=` $batch_dims
    (`clamp` $clamp^)? (`skipped` `=` $skipped^)?
    `ins` `(` $updates `,` $indices `:` type($updates) `,` type($indices) `)`
    `outs` `(` $operand `:` type($operand) `)` attr-dict
  }];
  let extraClassDeclaration = [{
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      return ::mlir::MutableOperandRange(getOperation(), 2, 1);
    }
  }];
  let hasVerifier = 1;
}

def MPRT_AllSliceOp : MPRT_Op<"all_slice", [
    AttrSizedOperandSegments, DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "copies a rank's own block on the compute stream";
  let description = [{
    The input is a row of contiguous blocks of the output's size. Rank r copies
    the block whose number is the row-major index of its coordinates: of axis i
    it is `r / strides[i] % sizes[i]`.

    Example: the second of three axes, of 4 ranks, where the third has 2
    ```mlir
    %r = mprt.all_slice sizes = [4] strides = [2]
        ins(%x : tensor<8x3xf32>) outs(%init : tensor<2x3xf32>) -> (tensor<2x3xf32>)
    ```

    Constraints:
    - C1: there are one input and one output, all tensors or all buffers; on
      tensors, the result has the output's type, on buffers there is none.
    - C2: there are as many sizes as strides, all positive; strides and the
      product of the sizes fit 32 bits.
    - C3: the input has that product times the output's elements, and its
      element type.

    Created by `convert-mpcomm-to-mprt`; lowered by `convert-mprt-to-llvm`.
  }];
  let arguments = (ins DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$strides,
                       Variadic<MPRT_TensorOrBuffer>:$inputs,
                       Variadic<MPRT_TensorOrBuffer>:$outputs);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    `sizes` `=` $sizes `strides` `=` $strides
    `ins` `(` $inputs `:` type($inputs) `)`
    `outs` `(` $outputs `:` type($outputs) `)` attr-dict
    (`->` `(` type($results)^ `)`)?
  }];
  let extraClassDeclaration = [{
    // Without the segments, which only ranges that grow need.
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      auto [start, size] = getODSOperandIndexAndLength(1);
      return ::mlir::MutableOperandRange(getOperation(), start, size);
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

    Created by `convert-linalg-to-mprt`; lowered by `convert-mprt-to-llvm`.
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

    Created by `convert-linalg-to-mprt`; lowered by `convert-mprt-to-llvm`.
  }];
  let arguments = (ins MPRT_Buffer:$target);
  let assemblyFormat = "$target attr-dict `:` type($target)";
  let hasVerifier = 1;
}

#endif // MPRT_IR_MPRT
