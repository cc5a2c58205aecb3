//===- MPRT.td - the runtime dialect -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Form 5: buffers, streams, events and calls of the runtime's C ABI
// (include/mpcomm/Runtime/mprt.h), one op a call.
//
//===----------------------------------------------------------------------===//

#ifndef MPRT_IR_MPRT
#define MPRT_IR_MPRT

include "mlir/IR/OpBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/DestinationStyleOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def MPRT_Dialect : Dialect {
  let name = "mprt";
  let summary = "Calls of the mpcomm runtime";
  let description = [{
    What a compiled program does, call by call: kernel launches, matrix
    products, copies and collectives on streams, and the events that order
    streams. Ops name streams by number as mprt.h does: 0 computes, 1 + c
    belongs to communicator c.
  }];
  let cppNamespace = "::mpcomm::mprt";
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
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      return getOutputsMutable();
    }
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
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      return getOutputsMutable();
    }
  }];
  let hasVerifier = 1;
}

def MPRT_StartOp : MPRT_CommunicationOp<"start"> {
  let summary = "starts a collective on its communicator's stream";
  let description = [{
    `kind`, `reduction`, `id`, `communicator` and `peer` as in
    `mprt_collective`. all_reduce and broadcast work in place on their outputs,
    of which there may be several: one bucket. The other kinds read one input
    and write one output. The end of the collective is marked by `event`;
    nothing may touch the outputs before the `mprt.await` of that event.

    Example:
    ```mlir
    %r = mprt.start "all_reduce" "mean" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32
        ins() outs(%g : tensor<64xf32>) -> (tensor<64xf32>)
    ```

    Constraints:
    - C1: `kind` is all_reduce, reduce_scatter, all_gather, all_to_all,
      broadcast, send, recv or barrier; `reduction` is sum, prod, min, max,
      mean or empty, and empty exactly where the kind does not reduce.
    - C2: operands are all tensors or all buffers; on tensors, results have the
      outputs' types, on buffers there are none.
    - C3: outputs have one element type; all_reduce has at least one output and
      no input, broadcast and recv one output and no input, send one input and
      no output, barrier neither, the others one of each.

    Made by `convert-mpcomm-to-mprt`; gone by `convert-mprt-to-llvm`.
  }];
  let arguments = (ins StrAttr:$kind, StrAttr:$reduction, I64Attr:$id,
                       I64Attr:$communicator, I64Attr:$event, I64Attr:$peer,
                       TypeAttr:$accumulate,
                       Variadic<MPRT_TensorOrBuffer>:$inputs,
                       Variadic<MPRT_TensorOrBuffer>:$outputs);
  let assemblyFormat = [{
    $kind $reduction `id` `=` $id `communicator` `=` $communicator `event` `=`
    $event `peer` `=` $peer `accumulate` $accumulate
    `ins` `(` ($inputs^ `:` type($inputs))? `)`
    `outs` `(` ($outputs^ `:` type($outputs))? `)` attr-dict
    (`->` `(` type($results)^ `)`)?
  }];
}

def MPRT_AwaitOp : MPRT_CommunicationOp<"await"> {
  let summary = "makes the compute stream wait for a collective";
  let description = [{
    The outputs are those of the collective whose end `event` marks; the
    results are their values after it.

    Example:
    ```mlir
    %v = mprt.await event = 0 ins() outs(%r : tensor<64xf32>) -> (tensor<64xf32>)
    ```

    Constraints:
    - C1: operands are all tensors or all buffers; on tensors, results have the
      outputs' types, on buffers there are none.
    - C2: there is at most one input: the collective's, which it keeps alive.

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

    Made by `convert-mpcomm-to-mprt`; gone by `convert-mprt-to-llvm`.
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

def MPRT_CollectiveOp : MPRT_Op<"collective", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "enqueues a collective on a communicator's stream";
  let description = [{
    As `mprt_collective_run`. `kind` is the name of a collective, `reduction`
    that of a reduction or empty, `peer` a group rank or -1.

    Example:
    ```mlir
    mprt.collective "all_reduce" "mean" id = 0 communicator = 0 stream = 1 peer = -1 count = 1024
        accumulate f32 (%b) -> (%b) : memref<1024xf32>, memref<1024xf32>
    ```

    Constraints:
    - C1: `kind` is all_reduce, reduce_scatter, all_gather, all_to_all,
      broadcast, send, recv or barrier; `reduction` is sum, prod, min, max,
      mean or empty, and empty exactly where the kind does not reduce.
    - C2: the stream is the compute stream or that of the communicator.
    - C3: buffers are contiguous and hold at least what the kind moves.

    Made by `convert-mpcomm-to-mprt`; gone by `convert-mprt-to-llvm`.
  }];
  let arguments = (ins StrAttr:$kind, StrAttr:$reduction, I64Attr:$id,
                       I64Attr:$communicator, I64Attr:$stream, I64Attr:$peer,
                       I64Attr:$count, TypeAttr:$accumulate,
                       MPRT_Buffer:$send, MPRT_Buffer:$recv);
  let assemblyFormat = [{
    $kind $reduction `id` `=` $id `communicator` `=` $communicator `stream` `=`
    $stream `peer` `=` $peer `count` `=` $count `accumulate` $accumulate
    `(` $send `)` `->` `(` $recv `)` attr-dict `:` type($send) `,` type($recv)
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

    Made by `convert-mpcomm-to-mprt`; gone by `convert-mprt-to-llvm`.
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

    Made by `convert-mpcomm-to-mprt`; gone by `convert-mprt-to-llvm`.
  }];
  let arguments = (ins MPRT_Buffer:$target);
  let assemblyFormat = "$target attr-dict `:` type($target)";
  let hasVerifier = 1;
}

/// Orders streams; nothing may cross it.
class MPRT_EventOp<string mnemonic>
    : MPRT_Op<mnemonic, [MemoryEffects<[MemRead, MemWrite]>]> {
  let arguments = (ins I64Attr:$stream, I64Attr:$event);
  let assemblyFormat = "`stream` `=` $stream `event` `=` $event attr-dict";
  let hasVerifier = 1;
}

def MPRT_RecordOp : MPRT_EventOp<"record"> {
  let summary = "marks the present end of a stream";
  let description = [{
    Example:
    ```mlir
    mprt.record stream = 0 event = 3
    ```

    Constraints:
    - C1: neither number is negative.

    Made by `convert-mpcomm-to-mprt`; gone by `convert-mprt-to-llvm`.
  }];
}

def MPRT_WaitOp : MPRT_EventOp<"wait"> {
  let summary = "makes a stream wait for an event";
  let description = [{
    Example:
    ```mlir
    mprt.wait stream = 1 event = 3
    ```

    Constraints:
    - C1: neither number is negative.

    Made by `convert-mpcomm-to-mprt`; gone by `convert-mprt-to-llvm`.
  }];
}

#endif // MPRT_IR_MPRT
