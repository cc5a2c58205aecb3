//===- Passes.td - kernels, memory and launches ------------*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The passes that form, lower and assemble kernels and plan memory, in the order
// in which they run.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_CODEGEN_PASSES
#define MPCOMM_CODEGEN_PASSES

include "mlir/Pass/PassBase.td"

def FormKernelsPass : Pass<"mpcomm-form-kernels", "::mlir::ModuleOp"> {
  let summary = "Groups linalg ops into kernels, each one pass over memory";
  let description = [{
    Assumes: blocks of pure ops on tensors (as `convert-mpcomm-to-linalg` leaves
    them) and ops that this pass does not know, such as collectives, which keep
    their order. Each block is grouped by itself.

    Guarantees: every linalg op but contractions and fills of zero that
    something else reads, and every loop marked `mpcomm.scatter_add`, is in a
    private function with the attribute `mpcomm.kernel`, run by `mprt.launch`.
    Equal groups share a function. An op that no kernel can hold is an error.

    What a kernel is:
    - arguments are the inputs, then one destination per result, all ranked
      tensors of static shape; it returns its results;
    - the body is a list of linalg ops over one row space: the loops of the op
      with the most, the last of which is the column. The others run over a
      leading part of these loops (row scalars, 0-d values) or, where they are
      cheap, over any of them; whose loops they are follows from the maps by
      which their results are read;
    - maps are dimensions and constants; within the kernel a tensor is read by
      the map that it was written by;
    - loops are parallel, or reductions with one combining op onto a
      `linalg.fill`. A reduction over the last loop alone gives row scalars; one
      over other loops is only returned;
    - bodies hold arith and math ops, constants, `linalg.index`, and
      `tensor.extract` from an input;
    - other results start from `tensor.empty` or from their destination. A
      destination that the kernel also reads (by the map that it writes it by)
      is updated in place: a donated argument, or a product that nobody else
      reads;
    - `mpcomm.scatter_add = p`: arguments are rows, indices and the destination,
      whose rows take the sum of the rows of the first at the (clamped) indices;
      rows at index p are left out.

    Groups grow from producers to consumers, then by what they read in common.
    Two groups merge if their loops correspond, if no path leads from one to the
    other through anything else, if nothing expensive has to be computed again,
    and if the kernel has at most `max-operands` operands.

    Numerics: exact.

    Example:
    ```mlir
    %s = linalg.generic {…} ins(%x : tensor<8x64xf32>) outs(%fill : tensor<8xf32>) { … addf … }
    %y = linalg.generic {…} ins(%x, %s : tensor<8x64xf32>, tensor<8xf32>) outs(%e : tensor<8x64xf32>) { … subf … }
    ```
    becomes
    ```mlir
    %y = mprt.launch @kernel_addf_subf_0 ins(%x : tensor<8x64xf32>) outs(%e : tensor<8x64xf32>) -> (tensor<8x64xf32>)
    ```

    Counts, as analysis remarks: per function, ops, launches, and the bytes that
    groups keep out of memory; per module, distinct kernels.
  }];
  let options = [
    Option<"maxOperands", "max-operands", "unsigned", "32",
           "Most tensors that a kernel reads and writes">,
    Option<"reuseOperands", "reuse-operands", "bool", "true",
           "Write results over products that nobody else reads">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect",
    "::mpcomm::mprt::MPRTDialect"
  ];
}

def BufferizeStepPass : Pass<"mpcomm-bufferize-step", "::mlir::ModuleOp"> {
  let summary = "Gives every tensor of a step a buffer, donated ones in place";
  let description = [{
    Assumes: functions on tensors whose compute is linalg, `mprt.launch`,
    `mprt.start` and `mprt.await`; kernels (`mpcomm.kernel`) are left alone.

    Guarantees: the functions take buffers and return nothing. Results whose
    argument donates its buffer are in that buffer at the end, the others in
    buffers that become further arguments, in result order. The attribute
    `mprt.results` of the function lists name, role, type and place of each
    result. Analysis and rewrite are upstream's one-shot bufferization.

    Numerics: exact.

    Example: `%w` donated for result 1 becomes a buffer that the optimizer's
    kernel updates in place:
    ```mlir
    mprt.launch @sgd ins(%g, %lr : memref<8xf32>, memref<f32>) outs(%w : memref<8xf32>)
    ```

    Counts: buffers allocated and copied, as an analysis remark.
  }];
  let dependentDialects = ["::mlir::bufferization::BufferizationDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mpcomm::mprt::MPRTDialect"];
}

def PlanMemoryPass : Pass<"mpcomm-plan-memory", "::mlir::ModuleOp"> {
  let summary = "Places every allocation of a function in one arena";
  let description = [{
    Assumes: bufferized functions in one block, allocations of static size.

    Guarantees: no `memref.alloc` is left; each became a view of a further last
    argument, the arena, at a fixed offset. Buffers whose lives overlap do not
    overlap in the arena. The buffers of one all_reduce lie next to each other,
    each at a multiple of 64 bytes: gradients are written straight into their
    bucket. Where a bucket's buffer is no allocation of its own (an argument, a
    view, a member of another bucket), it is copied in and out.
    The function carries `mprt.arena_bytes`.

    The placement is that of mpcomm/Scheduling/ArenaPlanning.h.

    Numerics: exact.

    Example:
    ```mlir
    %0 = memref.alloc() : memref<16xf32>
    // becomes
    %0 = memref.view %arena[%c128][] : memref<4096xi8> to memref<16xf32>
    ```

    Counts: bytes of the arena, of its lower bound (the most that lives at one
    time) and of buckets, as an analysis remark.
  }];
  let dependentDialects = ["::mlir::memref::MemRefDialect",
                           "::mlir::arith::ArithDialect",
                           "::mpcomm::mprt::MPRTDialect"];
}

def FormEpiloguesPass : Pass<"mpcomm-form-epilogues", "::mlir::ModuleOp"> {
  let summary = "Marks kernels that a library can do with the product before";
  let description = [{
    For GPUs. *Assumes* what `convert-linalg-to-mprt` makes.

    *Guarantees*: a launch whose kernel does what a library can do with an
    `mprt.gemm` without batch dimensions is the next thing that the stream does
    after it, where the order of what is in between does not matter, and has the
    attribute `mprt.epilogue`. Of its entries `bias` and `matrix` are numbers of
    operands; `kind` is
    - `bias`: a bias along the rows is added to the whole result, in place;
    - `bias_gelu`: and gelu, in its tanh form, is taken of the sum;
    - `bias_gelu_aux`: the sum is kept, and gelu of it goes to `matrix`;
    - `gelu_grad`: the result is multiplied by the derivative of that gelu at
      `matrix`, in place; what the kernel goes on with is split off, and reads
      the result where it was written;
    - `bias_grad_a`, `bias_grad_b`: A or B is summed up over what the product
      contracts, which is the gradient of a bias beside that of a weight.

    `convert-mprt-to-llvm` makes one call of the product and its launches, and
    the runtime launches the kernels where the library has no such product.

    *Numerics*: reassociating. A sum of 16 bits is rounded once, not before and
    after the bias is added, or gelu's derivative multiplied; gradients of biases
    are summed up in f32, in the library's order.

    Example: the launch in
    ```mlir
    mprt.gemm %a, %b, %c m = 8 n = 16 k = 4 ...
    mprt.launch @add_bias ins(%bias : memref<16xf32>) outs(%c : memref<8x16xf32>)
    ```
    becomes
    ```mlir
    mprt.launch @add_bias ins(%bias : memref<16xf32>) outs(%c : memref<8x16xf32>) {mprt.epilogue = {bias = 0, kind = "bias"}}
    ```

    Remarks: `Epilogues`, per function: products, and those with an epilogue.
  }];
  let dependentDialects = ["::mpcomm::mprt::MPRTDialect"];
}

def GenerateKernelsPass : Pass<"mpcomm-generate-kernels", "::mlir::ModuleOp"> {
  let summary = "Turns kernels of linalg ops into loops over vectors";
  let description = [{
    Replaces the tensor form of each kernel by code on buffers: loops over
    rows, and per row one or more passes over chunks of columns.

    *Assumes* `mprt.launch` ops on buffers with static shapes and strides, and
    kernels as `mpcomm-form-kernels` makes them:
    - the row space is the loops of the op with most loops; ops with fewer loops
      run over some of them (row scalars, or none);
    - bodies are arith and math ops, `linalg.index` and `tensor.extract` from
      an argument; tensor constants are splats;
    - intermediates are read by the index expressions they are written by;
      inputs are read through any map of dimensions and constants;
    - a reduction combines `out` once (add, mul, min, max, and, or, xor). If
      it runs over the column only, later ops may read it; if over rows, it is
      summed up in the destination and nothing in the kernel reads it.
    - Attribute `mpcomm.scatter_add = p` on the kernel: arguments are `dy`,
      `ids` and the destination, whose rows `ids` take the sum of the rows of
      `dy`; the row of an id equal to `p` is left out, and other ids are
      clamped to rows that exist.
    - A destination may be read as an input, by the same index expressions as
      the result is written: the old contents of what the result replaces.

    *Guarantees*: one function per kernel and layout of operands, whose
    arguments are buffers of offset 0 with the strides of the launch (for empty
    buffers: row-major ones), and whose body is scf, vector, memref, arith and
    math. A kernel with no launch is erased; one that anything but a launch
    names is an error. A destination that is also read as an input is read
    before it is written, element by element. Buffers of i1 become bytes (i8, 0
    or 1).

    *Numerics*: reassociating. A sum over a row is taken in one partial sum per
    vector lane, folded pairwise at the end; a sum over rows in groups of up to
    four rows, in order. Half precision is computed in f32 and rounded where it
    is stored or cast. Multiply-add may be contracted.

    Example:
    ```mlir
    func.func private @scale(%x: tensor<64xf32>, %d: tensor<64xf32>) -> tensor<64xf32> attributes {mpcomm.kernel} {
      %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
          ins(%x : tensor<64xf32>) outs(%d : tensor<64xf32>) {
      ^bb0(%a: f32, %b: f32):
        %s = arith.addf %a, %a : f32
        linalg.yield %s : f32
      } -> tensor<64xf32>
      return %r : tensor<64xf32>
    }
    ```
    becomes
    ```mlir
    func.func private @scale(%x: memref<64xf32>, %d: memref<64xf32>) attributes {mpcomm.kernel, passthrough = ["noinline"]} {
      %c0 = arith.constant 0 : index
      %v = vector.load %x[%c0] : memref<64xf32>, vector<64xf32>
      %s = arith.addf %v, %v fastmath<contract> : vector<64xf32>
      vector.store %s, %d[%c0] : memref<64xf32>, vector<64xf32>
      return
    }
    ```
  }];
  let options = [
    Option<"vectorBits", "vector-bits", "unsigned", "512",
           "bits of the target's vector registers: a power of two, at least 32">,
    Option<"unrollColumns", "unroll-columns", "unsigned", "256",
           "rows of up to this many columns are kept in registers between "
           "passes">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def GenerateGPUKernelsPass
    : Pass<"mpcomm-generate-gpu-kernels", "::mlir::ModuleOp"> {
  let summary = "Turns kernels of linalg ops into code for the threads of a GPU";
  let description = [{
    What `mpcomm-generate-kernels` does for a processor, for a GPU: replaces the
    tensor form of each kernel by functions of a `gpu.module` named
    `mpcomm_kernels`, one or more a kernel and layout of operands, and by
    declarations with `mprt.grid`, which launches name.

    *Assumes* what `mpcomm-generate-kernels` does.

    *Guarantees*: each launch is replaced by one or more, in order, of kernels
    with `mprt.grid` and the same operands. The functions' bodies are gpu, scf,
    vector, memref, arith, math, and nvvm's votes and synchronisation of warps.
    - Elementwise kernels: each thread takes chunks of columns, of 16 bytes of
      the narrowest operand where columns and addresses allow, several in
      flight; any grid will do.
    - Kernels with reductions along rows: a group of threads has a row, 32 or
      fewer, or a whole block; its columns stay in registers from one pass to
      the next (longer rows are read again), so that memory is read once.
      Reductions are shuffles within warps and one barrier across them.
    - Sums over rows stay in registers while a block goes through its rows; what
      blocks have is added up by a second kernel, `_sums`, in a fixed order.
    - Scalars that a kernel reads and replaces are replaced by a kernel of their
      own, `_scalars`.
    - Kernels with `mpcomm.scatter_add` zero the destination; a second kernel,
      `_rows`, adds, each block to rows of its own in the order of the ids.
    - `mprt.attention` becomes launches of kernels on tensor cores (sm_80 and
      later), `_mask` first where it has a mask; its gradient `_deltas`,
      `_columns` and `_rows`. Those use the llvm dialect too, for addresses.

    *Numerics*: reassociating; the same bits for the same program, whatever the
    device. Otherwise as `mpcomm-generate-kernels`.

    Example: with `processors=132`
    ```mlir
    mprt.launch @scale ins(%x : memref<64xf32>) outs(%y : memref<64xf32>)
    ```
    stays, and names
    ```mlir
    func.func private @scale(memref<64xf32>, memref<64xf32>) attributes {mpcomm.kernel, mprt.grid = #mprt.grid<threads = 256, blocks = 1, grid_stride = true, scratch = 0>}
    ```
  }];
  let options = [
    Option<"processors", "processors", "int64_t", "132",
           "multiprocessors of the GPU, for which grids of sums are sized">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def ExpandMathPass : Pass<"mpcomm-expand-math"> {
  let summary = "Expands math functions into arithmetic";
  let description = [{
    *Assumes* math ops on scalars and vectors. *Guarantees*: no `exp`, `exp2`,
    `log`, `tanh`, `erf`, `powf` or `rsqrt` of f32 is left, and no other
    function of f32 that has an approximation upstream; what is left has an
    instruction, or is of another type and becomes a call of libm. No cast to or
    from 8-bit floats is left, and none to bf16 unless `has-bf16`.

    *Numerics*: lossy, within 2 units in the last place for `exp` and `log`, 6
    for `tanh` and `erf`, 2 for `powf`. `exp` below 2^-125 gives zero. NaN and
    infinities are those of libm.

    Example:
    ```mlir
    %r = math.rsqrt %x : vector<16xf32>
    ```
    becomes
    ```mlir
    %one = arith.constant dense<1.0> : vector<16xf32>
    %s = math.sqrt %x : vector<16xf32>
    %r = arith.divf %one, %s : vector<16xf32>
    ```
  }];
  let options = [
    Option<"hasBFloat", "has-bf16", "bool", "false",
           "The target has an instruction that rounds to bf16">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def BatchLaunchesPass : Pass<"mpcomm-batch-launches", "::mlir::ModuleOp"> {
  let summary = "Makes one launch of launches that do not depend on each other";
  let description = [{
    *Assumes* planned buffers and what `mpcomm-generate-gpu-kernels` makes.

    *Guarantees*: between two ops that are neither launches nor free of effects
    (awaits and starts of collectives among them) launches are put into batches:
    each into the first batch after those that it depends on, by the bytes that
    buffers have, which can take it. A batch is one launch of a kernel `_batch`:
    its blocks are dealt to the launches in ranges, and the code of a kernel is
    in it once, however often it is launched. What is joined
    - has blocks of the same number of threads;
    - is waited for by the same collective, if any, so that none starts later;
    - is of one kernel, or of kernels of which each is elementwise, or each has
      no more threads than the device runs at a time: registers are those of the
      kernel that takes most;
    - takes no more than `parameter-bytes` of pointers, has at most 16 bodies
      and 48 KiB of shared memory.
    Launches that hand on scratch (a kernel and its `_sums`) get scratch apart
    from the others', up to 1 MiB each, so that several are under way.

    *Numerics*: the same bits.

    Example:
    ```mlir
    mprt.launch @update ins(%g : memref<8xf32>) outs(%p : memref<8xf32>)
    mprt.launch @update ins(%h : memref<8xf32>) outs(%q : memref<8xf32>)
    ```
    becomes
    ```mlir
    mprt.launch @update_batch ins(%g, %h : memref<8xf32>, memref<8xf32>) outs(%p, %q : memref<8xf32>, memref<8xf32>)
    ```

    Remarks: `Batches`, per function: launches before and after, batches.
  }];
  let options = [
    Option<"processors", "processors", "int64_t", "132",
           "multiprocessors of the GPU, for which it is decided what fills it">,
    Option<"parameterBytes", "parameter-bytes", "int64_t", "4096",
           "bytes of a kernel's parameters at most: 4096 on all chips">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"
  ];
}

def AssembleKernelsPass : Pass<"mpcomm-assemble-kernels", "::mlir::ModuleOp"> {
  let summary = "Assembles the kernels of a GPU into images";
  let description = [{
    Translates the `gpu.module` named `mpcomm_kernels`, which is in the LLVM
    dialect by then, to PTX for each of `chip`, assembles it with `ptxas`, and
    replaces it by the global `mpcomm_images` of mprt.h: machine code for each
    chip and, for newer ones, the PTX of the last. Without `ptxas` there is PTX
    alone, which drivers compile, and a warning says so. Where `ptxas` is: the
    option, else `$CUDA_HOME/bin`, `/usr/local/cuda/bin`, `PATH`.

    An analysis remark a kernel and chip tells registers, bytes spilled and
    bytes of shared memory, as `ptxas` reports them.

    A module without such kernels stays as it is.
  }];
  let options = [
    ListOption<"chips", "chip", "std::string",
               "chips to assemble for: sm_80, sm_90, sm_100 or others from "
               "sm_75 on; none given: those three">,
    Option<"ptxas", "ptxas", "std::string", "",
           "the assembler; empty: as found, 'none': PTX alone">,
    Option<"ptxDirectory", "ptx-directory", "std::string", "",
           "a folder to leave the PTX of each chip in">
  ];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def PackKernelsPass : Pass<"mpcomm-pack-kernels", "::mlir::ModuleOp"> {
  let summary = "Defines the wrappers by which the runtime calls kernels";
  let description = [{
    Assumes: kernels lowered to `llvm.func` with one pointer an argument.

    Guarantees: `<kernel>.packed(args)` loads the pointers and calls the kernel.

    Numerics: exact.

    Example:
    ```mlir
    llvm.func @k.packed(%args: !llvm.ptr) {
      %0 = llvm.load %args : !llvm.ptr -> !llvm.ptr
      llvm.call @k(%0) : (!llvm.ptr) -> ()
      llvm.return
    }
    ```

    Counts: nothing.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // MPCOMM_CODEGEN_PASSES
