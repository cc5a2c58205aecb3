//===- Passes.td - conversions between dialects ------------*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conversions, in the order in which they run.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_CONVERSION_PASSES
#define MPCOMM_CONVERSION_PASSES

include "mlir/Pass/PassBase.td"

def ConvertMPCommToMPRTPass
    : Pass<"convert-mpcomm-to-mprt", "::mlir::ModuleOp"> {
  let summary = "Lowers collectives to starts and awaits of the runtime";
  let description = [{
    Assumes: Form 3 or 4 (rank programs); one mesh in use.

    Guarantees: no collective, `mpcomm.async` or `mpcomm.await` is left. Each
    collective becomes an `mprt.start` at its place and an `mprt.await` where it
    is awaited (at once, for a synchronous one). Collectives are numbered in
    program order. A collective that ranks with different functions of an
    `mpcomm.program` share has one number in all of these functions, determined
    by its `mpcomm.tag`, which stays on the start, or by its position among the
    untagged ones on its communicator. The module has the attribute
    `mprt.communicators`, one list of axes per communicator, and, if there are
    channels other than 0, `mprt.channels`: each combination of a list and a
    channel is a communicator. A bucket of several element types becomes one
    start per type. Several operands of an all_reduce may lie anywhere in one
    range of memory; those of a reduce_scatter, an all_gather or an all_to_all
    are laid out in rows, one for each rank, of a block of each operand. If the wire type differs from the type of the operands,
    casts are inserted before and after. Gathers and scatters along inner
    dimensions are transposed so that the data that travel are contiguous.

    Numerics: exact, except for the wire types that the input requests.

    Example:
    ```mlir
    %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<4xf32>
    // becomes
    %0 = mprt.start "all_reduce" "mean" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32
        ins() outs(%g : tensor<4xf32>) -> (tensor<4xf32>)
    %r = mprt.await event = 0 ins() outs(%0 : tensor<4xf32>) -> (tensor<4xf32>)
    ```

    Counts: nothing.
  }];
  let dependentDialects = ["::mpcomm::mprt::MPRTDialect",
                           "::mpcomm::MPCommDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ConvertMPCommToLinalgPass : Pass<"convert-mpcomm-to-linalg"> {
  let summary = "Lowers compute ops to linalg on tensors";
  let description = [{
    Assumes: tensors of static shape.

    Guarantees: no compute op of `mpcomm` and no elementwise op of `arith` or
    `math` on tensors is left; collectives, `async` and `await` are unchanged.
    - `dot_general` becomes a `linalg.contract` onto a fill of zero. Transposes
      of its operands and of its result are folded into its maps, as long as a
      matrix product with two strides and at most four batch dimensions can
      express it; an operand that no such product can read is transposed first.
      Sums of 16-bit operands are in f32.
    - Elementwise ops, reductions and composites (softmax, layer_norm, losses,
      optimizer updates, …) become `linalg.generic` ops over one row space per
      op: elementwise ops, reductions of the last dimension to row scalars, and
      reductions of the other dimensions. Fusing ops with one row space gives
      one pass over memory. Statistics and sums of 16-bit values are in f32. The
      original op is kept as the location: `fused<"layer_norm">[…]`.
    - Broadcasts become maps of the generics that read them.
    - Reshape, slice, concatenate and pad become `tensor` ops.
    - `gather` becomes a generic with `tensor.extract`; `gather_grad` and
      `scatter` become `mprt.scatter`. Sums and products of 16-bit values are in
      f32.
    - In a module with `mpcomm.multiply_f8`, a contraction whose operands are both widened from
      8-bit floats reads the 8 bits, if sizes and strides are multiples of 16
      and not both are f8E5M2. An operand that does not lie along what is summed
      is transposed first. Sums then have the precision of tensor cores.
    - Convolutions, pooling and their gradients become
      `mprt.convolution` and `mprt.pool`; batch
      norms become generics over [outer, features, inner], or [outer, features]
      if the features come last.
    - `attention` and `attention_grad` become `mprt.attention` if `device=cuda`
      has kernels for the shapes; otherwise they are expanded into products, a
      softmax, and row sums.

    Numerics: reassociating (softmax multiplies by the reciprocal of the sum).

    Example:
    ```mlir
    %r = mpcomm.dot_general %a, %b, contracting_dims = [1] x [0]
        : (tensor<8x4xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
    ```
    becomes
    ```mlir
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<8x16xf32>
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x16xf32>) -> tensor<8x16xf32>
    %r = linalg.contract
        indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
                         affine_map<(m, n, k) -> (m, n)>]
        ins(%a, %b : tensor<8x4xf32>, tensor<4x16xf32>) outs(%init : tensor<8x16xf32>) -> tensor<8x16xf32>
    ```

    Counts: nothing.
  }];
  let options = [
    Option<"device", "device", "std::string", "\"host\"",
           "Device whose kernels implement ops outside of linalg: host or cuda">,
    Option<"rowsAtATime", "rows-at-a-time", "int64_t", "1",
           "Rows that kernels sum in parallel, at least; sums over more than "
           "4096 rows in sequence are in f64">,
    Option<"multiplyF8", "multiply-f8", "bool", "true",
           "Follow mpcomm.multiply_f8; else it is removed, and products of 8 "
           "bits are widened">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect",
    "::mpcomm::MPCommDialect", "::mpcomm::mprt::MPRTDialect"
  ];
}

def ConvertLinalgToMPRTPass
    : Pass<"convert-linalg-to-mprt", "::mlir::ModuleOp"> {
  let summary = "Lowers contractions and copies on buffers to runtime calls";
  let description = [{
    Assumes: bufferized functions with static strides.

    Guarantees: no linalg op and no `memref.copy` is left outside of kernels. A
    contraction becomes `mprt.gemm`, one per block of batch dimensions that four
    strided ones cannot describe. A copy or fill of contiguous buffers becomes
    `mprt.copy` or `mprt.zero`; any other copy becomes a kernel and its launch.
    With `copy-kernel-bytes`, so does one of few bytes, which is then launched
    together with others. A contraction whose operands have no unit stride is an
    error at the op.

    Numerics: reassociating (the library orders the sums of a contraction).

    Example:
    ```mlir
    linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
                                     affine_map<(m, n, k) -> (m, n)>]
        {mprt.overwrite} ins(%a, %b : memref<8x4xf32>, memref<4x16xf32>) outs(%c : memref<8x16xf32>)
    // becomes
    mprt.gemm %a, %b, %c m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1]
        batch [] strides [] x [] -> [] : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
    ```

    Counts: nothing.
  }];
  let options = [
    Option<"copyKernelBytes", "copy-kernel-bytes", "int64_t", "0",
           "Copies of at most so many bytes become kernels">
  ];
  let dependentDialects = ["::mpcomm::mprt::MPRTDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ConvertMPRTToLLVMPass : Pass<"convert-mprt-to-llvm", "::mlir::ModuleOp"> {
  let summary = "Creates the entry points, descriptors and manifest of a "
                "program";
  let description = [{
    Assumes: Form 5: functions on buffers with a planned arena, whose ops are
    those of the runtime dialect and views.

    Guarantees: each such function becomes an `llvm.func` of type `mprt_entry`,
    a flat list of runtime calls on static descriptors. Kernels are unchanged;
    each gets the declaration of a wrapper `<kernel>.packed`, which
    `mpcomm-pack-kernels` defines. The globals `mpcomm_abi_version` and
    `mpcomm_manifest` are created.

    The number of events is minimal. A start is ordered after what touches its
    buffers, and computation after an await is ordered after the collective. If
    neither the order of a stream nor another wait implies this, one stream
    records an event and the other waits for it. Omitted waits never delay
    anything (`Scheduling/EventPlacement/EventPlacement.h`). Overlapping buffers
    count as one buffer. Work before the call of the function counts as touching
    everything.

    Kernels with `mprt.grid` are code for a GPU: their descriptors contain the
    grid, and their declarations are removed.

    Numerics: exact.

    Example:
    ```mlir
    mprt.zero %a : memref<64xf32>
    // becomes
    llvm.call @mprt_zero(%ctx, %stream, %a, %bytes) : (!llvm.ptr, i32, !llvm.ptr, i64) -> i32
    ```

    Counts: collectives, records, waits and events of each function.
  }];
  let options = [
    Option<"device", "device", "std::string", "\"host\"",
           "Device that the manifest names: host or cuda">,
    Option<"cpu", "cpu", "std::string", "\"\"",
           "Processor that the manifest names">,
    Option<"features", "features", "std::string", "\"\"",
           "Processor features that the manifest names, comma-separated">
  ];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // MPCOMM_CONVERSION_PASSES
