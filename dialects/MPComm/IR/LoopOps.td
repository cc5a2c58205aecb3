//===- LoopOps.td - counted loops -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loops of a known number of trips. Their body is a function of its own, so
// that the size of a program does not depend on the number of trips.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_IR_LOOPOPS
#define MPCOMM_IR_LOOPOPS

include "mlir/IR/SymbolInterfaces.td"
include "ComputeOps.td"

def MPComm_ScanOp : MPComm_ComputeOp<"scan", "FP32", [{
    return ::mpcomm::detail::countScanFlops(*this);}], [
    AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a counted loop that carries values from trip to trip";
  let description = [{
    Runs the function `body` for each trip t from 0 to `trips` - 1; with
    `reverse` from the last to the first. As JAX's `lax.scan`:

        c = carries
        for t: c, y = body(c, x[t] for each x of slices, captured)
               y becomes stacked[t]
        results = c, stacked

    The operands are the first values of the carries, the tensors that the loop
    takes a slice of in each trip, along their first dimension, and tensors that
    all trips read. The results are the last values of the carries, then the
    stacked results, each with a first dimension of `trips`.

    The body is compiled once. A recurrent layer is one `scan` for the forward
    pass and one with `reverse` for the backward pass. Products that do not
    depend on a carry are outside of the loop, over all trips at once.

    The carries, and all that the body computes with f32 tensors, have their
    type; `mpcomm-insert-casts` gives products in the body 16-bit operands.

    Example:
    ```mlir
    func.func private @cell(%h: tensor<8x64xf32>, %x: tensor<8x64xf32>)
        -> (tensor<8x64xf32>, tensor<8x64xf32>) {
      %sum = arith.addf %h, %x : tensor<8x64xf32>
      %y = math.tanh %sum : tensor<8x64xf32>
      return %y, %y : tensor<8x64xf32>, tensor<8x64xf32>
    }
    func.func @layer(%h0: tensor<8x64xf32>, %xs: tensor<512x8x64xf32>)
        -> tensor<512x8x64xf32> {
      %h, %ys = mpcomm.scan @cell trips = 512 carries(%h0 : tensor<8x64xf32>)
          slices(%xs : tensor<512x8x64xf32>)
          -> tensor<8x64xf32>, tensor<512x8x64xf32>
      return %ys : tensor<512x8x64xf32>
    }
    ```

    Constraints:
    - C1: `trips` is at least 1 and fits 31 bits.
    - C2: the first results have the types of the carries; slices and the other
      results have a first dimension of `trips`.
    - C3: the body is a private function of one block.
    - C4: the arguments of the body have the types of the carries, of a slice of
      each operand that is sliced, and of the captured operands, in this order.
    - C5: the results of the body have the types of the carries, and of a slice
      of each stacked result.
    - C6: the ops of the body are pure; none communicates, calls a function, is
      a loop, or updates state.

    Created by front ends; lowered by `convert-mpcomm-to-mprt`.
  }];
  let arguments = (ins FlatSymbolRefAttr:$body, I64Attr:$trips,
                       UnitAttr:$reverse,
                       Variadic<MPComm_Tensor>:$carries,
                       Variadic<MPComm_Tensor>:$slices,
                       Variadic<MPComm_Tensor>:$captured);
  let results = (outs Variadic<MPComm_Tensor>:$results);
  let assemblyFormat = [{
    $body `trips` `=` $trips (`reverse` $reverse^)?
    (`carries` `(` $carries^ `:` type($carries) `)`)?
    (`slices` `(` $slices^ `:` type($slices) `)`)?
    (`captured` `(` $captured^ `:` type($captured) `)`)? attr-dict
    (`->` type($results)^)?
  }];
  let extraClassDeclaration = computeDeclarations # [{
    int64_t getBytesRead();
    int64_t getBytesWritten();
    /// The function that a trip runs; null if there is none.
    ::mlir::FunctionOpInterface getBodyFunction();
    /// The results that have a slice for each trip.
    ::mlir::ResultRange getStacked() {
      return getResults().drop_front(getCarries().size());
    }
  }];
  let hasVerifier = 1;
}

#endif // MPCOMM_IR_LOOPOPS
