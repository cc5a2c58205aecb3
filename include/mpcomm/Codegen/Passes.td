//===- Passes.td - kernels, memory and launches ------------*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The passes that form, lower and assemble kernels and plan memory. The first
// three run for every target; those for CPUs and for GPUs follow, each group in
// the order in which it runs.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_CODEGEN_PASSES
#define MPCOMM_CODEGEN_PASSES

include "mlir/Pass/PassBase.td"

def FormKernelsPass : Pass<"mpcomm-form-kernels", "::mlir::ModuleOp"> {
  let summary = "Groups linalg ops into kernels, each one pass over memory";
  let description = [{
    Assumes: blocks of pure ops on tensors (as created by
    `convert-mpcomm-to-linalg`) and unknown ops, such as collectives, which keep
    their order. Each block is grouped by itself.

    Guarantees: every linalg op, except contractions and fills of zero that
    another op reads, and every `mprt.scatter`, is in a
    private function with the attribute `mpcomm.kernel`, run by `mprt.launch`.
    Equal groups share a function. An op that no kernel can hold is an error.

    Definition of a kernel:
    - The arguments are the inputs, then one destination per result, all ranked
      tensors of static shape; the kernel returns its results.
    - The body is a list of linalg ops over one row space: the loops of the op
      with the most loops, of which the last is the column. The other ops run
      over a leading subset of these loops (row scalars, 0-d values) or, if they
      are cheap, over any subset. The maps by which their results are read
      determine the subset.
    - Maps are dimensions and constants; within the kernel a tensor is read by
      the map by which it is written.
    - Loops are parallel, or reductions with one combining op onto a
      `linalg.fill`. A reduction over the last loop alone gives row scalars; a
      reduction over other loops can only be returned.
    - Bodies contain arith and math ops, constants, `linalg.index`, and
      `tensor.extract` from an input.
    - Other results start from `tensor.empty` or from their destination. A
      destination that the kernel also reads (by the map by which it writes it)
      is updated in place: a donated argument, or a product that no other op
      reads.
    - A scatter is alone in its kernel. It starts from its destination, or from
      a fill of it.

    Groups grow from producers to consumers, then by common inputs. Two groups
    merge if their loops correspond, if no path leads from one to the other
    through any other op, if nothing expensive has to be recomputed, and if the
    kernel has at most `max-operands` operands.

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

    Counts, as analysis remarks: per function (`Formed`) ops, launches, the bytes
    that kernels read and write, and those that groups keep out of memory; per
    module (`Kernels`) distinct kernels.
  }];
  let options = [
    Option<"maxOperands", "max-operands", "unsigned",
           "::mpcomm::kMaxKernelOperands",
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
  let summary = "Assigns a buffer to every tensor of a step, with donation";
  let description = [{
    Assumes: functions on tensors whose compute ops are linalg, `mprt.launch`,
    `mprt.start` and `mprt.await`; kernels (`mpcomm.kernel`) are unchanged.

    Guarantees: the functions take buffers and return nothing. A result whose
    argument donates its buffer is in that buffer at the end. Other results are
    in buffers that become further arguments, in result order. The attribute
    `mprt.results` of the function lists name, role, type and place of each
    result. Analysis and rewrite are upstream's one-shot bufferization.

    Numerics: exact.

    Example: `%w`, donated for result 1, becomes a buffer that the optimizer's
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
    Assumes: bufferized functions of one block, allocations of static size.

    Guarantees: no `memref.alloc` is left; each becomes a view, at a fixed
    offset, of the arena, which is a further last argument. Buffers whose
    lifetimes overlap do not overlap in the arena. The buffers of one all_reduce
    are contiguous, each at a multiple of 64 bytes: gradients are written
    directly into their bucket. A buffer of a bucket that is not an allocation
    of its own (an argument, a view, a member of another bucket) is copied in
    and out. The function has the attribute `mprt.arena_bytes`.

    The algorithm is in mpcomm/Scheduling/Arena/ArenaPlanning.h.

    Numerics: exact.

    Example:
    ```mlir
    %0 = memref.alloc() : memref<16xf32>
    // becomes
    %0 = memref.view %arena[%c128][] : memref<4096xi8> to memref<16xf32>
    ```

    Counts: bytes of the arena, of its lower bound (the maximum of live bytes)
    and of buckets, as an analysis remark.
  }];
  let dependentDialects = ["::mlir::memref::MemRefDialect",
                           "::mlir::arith::ArithDialect",
                           "::mpcomm::mprt::MPRTDialect"];
}

//===----------------------------------------------------------------------===//
// CPU
//===----------------------------------------------------------------------===//

def GenerateKernelsPass : Pass<"mpcomm-generate-kernels", "::mlir::ModuleOp"> {
  let summary = "Turns kernels of linalg ops into loops over vectors";
  let description = [{
    Replaces the tensor form of each kernel by code on buffers: loops over rows,
    and one or more passes per row over chunks of columns.

    Assumes: `mprt.launch` ops on buffers with static shapes and strides, and
    kernels as created by `mpcomm-form-kernels`:
    - The row space is the loops of the op with the most loops; ops with fewer
      loops run over some of them (row scalars, or none).
    - Bodies are arith and math ops, `linalg.index` and `tensor.extract` from an
      argument; tensor constants are splats.
    - Intermediates are read by the index expressions by which they are written;
      inputs are read through any map of dimensions and constants.
    - A reduction combines `out` once (add, mul, min, max, and, or, xor). If it
      runs over the column only, later ops may read it; if it runs over rows, it
      is accumulated in the destination and no op in the kernel reads it.
    - A kernel with an `mprt.scatter` has nothing else but constants, and a fill
      that the scatter starts from.
    - A destination may be read as an input, by the index expressions by which
      the result is written: the old contents of what the result replaces.

    Guarantees: one function per kernel and layout of operands. Its arguments
    are buffers of offset 0 with the strides of the launch (for empty buffers:
    row-major ones), and its body is scf, vector, memref, arith and math. A
    kernel without a launch is erased; a kernel that is referenced by anything
    other than a launch is an error. A destination that is also read as an input
    is read before it is written, element by element. Buffers of i1 become bytes
    (i8, 0 or 1).

    Numerics: reassociating. A sum over a row has one partial sum per vector
    lane, folded pairwise at the end; a sum over rows is computed in groups of
    up to four rows, in order. Half precision is computed in f32 and rounded
    where it is stored or cast. Multiply-add may be contracted.

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

    Counts: nothing.
  }];
  let options = [
    Option<"vectorBits", "vector-bits", "unsigned", "512",
           "bits of the target's vector registers: a power of two, at least 32">,
    Option<"unrollColumns", "unroll-columns", "unsigned", "256",
           "rows of up to this many columns are kept in registers between "
           "passes">,
    Option<"cacheBytes", "cache-bytes", "int64_t", "262144",
           "sums of columns of up to this many bytes stay in a core's cache "
           "from one row to the next; for larger ones few terms are taken "
           "together">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def ExpandMathPass : Pass<"mpcomm-expand-math"> {
  let summary = "Expands math functions into arithmetic";
  let description = [{
    Assumes: math ops on scalars and vectors.

    Guarantees: no function of f32 is left that has no instruction. What is left
    of another type becomes a call of libm. No cast to or from 8-bit floats is left, and none to bf16 unless
    `has-bf16`.

    Numerics: lossy, within 2 units in the last place for `exp` (3 with
    `has-exp2`, where it also has a relative error of |x| 2^-24 if x is a difference) and `log`, 6 for `tanh` and `erf`, 2 for `powf`, 3 for `expm1` and `log1p`, and 1 for `sin`,
    `cos`, `tan`, `sinh`, `cosh`, their inverses, `log2`, `log10` and `erfc`,
    which are computed in f64. `sin`, `cos` and `tan` of x beyond 2^20 have an
    error of about 2^-52 |x| beside. `exp` below 2^-125 gives zero. NaN and
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

    Counts: nothing.
  }];
  let options = [
    Option<"hasBFloat", "has-bf16", "bool", "false",
           "The target has an instruction that rounds to bf16">,
    Option<"hasExp2", "has-exp2", "bool", "false",
           "The target has NVIDIA's instruction ex2.approx">,
    Option<"hasF8", "has-f8", "bool", "false",
           "The target has NVIDIA's cvt of two f32 to 8-bit floats, for those "
           "that have been clamped">
  ];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def FuseMultiplyAddsPass : Pass<"mpcomm-fuse-multiply-adds"> {
  let summary = "Fuses products and sums into multiply-adds";
  let description = [{
    A sum or difference that may be contracted (`fastmath<contract>`) takes a
    product that may and that nothing but such sums reads, its second operand
    before its first: the term before the sum so far. Nothing may be contracted
    afterwards, so that a value is rounded in one way wherever it is computed: in
    lanes and at the ends of a tensor, of the whole and of a shard.

    Assumes: arithmetic on scalars and vectors; a processor with the
    instruction.

    Guarantees: linear in the number of ops.

    Numerics: reassociating: a product and a sum are rounded once instead of
    twice. A difference of a product and itself stays zero.

    Example:
    ```mlir
    %p = arith.mulf %x, %y fastmath<contract> : vector<16xf32>
    %r = arith.subf %z, %p fastmath<contract> : vector<16xf32>
    ```
    becomes
    ```mlir
    %n = arith.negf %x : vector<16xf32>
    %r = math.fma %n, %y, %z : vector<16xf32>
    ```

    Counts: nothing.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def PackKernelsPass : Pass<"mpcomm-pack-kernels", "::mlir::ModuleOp"> {
  let summary = "Defines the wrappers by which the runtime calls kernels";
  let description = [{
    Assumes: kernels lowered to `llvm.func` with one pointer per argument.

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

//===----------------------------------------------------------------------===//
// GPU
//===----------------------------------------------------------------------===//

def FormEpiloguesPass : Pass<"mpcomm-form-epilogues", "::mlir::ModuleOp"> {
  let summary = "Marks kernels that a library can fuse into the preceding "
                "product";
  let description = [{
    For GPUs.

    Assumes: the output of `convert-linalg-to-mprt`.

    Guarantees: a launch whose kernel computes what a library can fuse into an
    `mprt.gemm` without batch dimensions is moved directly after the product, if
    the order of the ops between them does not matter, and gets the attribute
    `mprt.epilogue`. Its entries `bias`, `matrix` and `scales` are operand
    numbers; `kind` is
    - `scale`: the result of a product of 8 bits is multiplied by `scales`, one
      or two numbers; with them, the other kinds that have the result in place
      do so first;
    - `bias`: a bias along the rows is added to the whole result, in place;
    - `bias_gelu`: then gelu, in its tanh form, is applied to the sum;
    - `bias_gelu_aux`: the sum is kept, and its gelu is written to `matrix`;
    - `gelu_grad`: the result is multiplied by the derivative of that gelu at
      `matrix`, in place; the rest of the kernel is split off, and reads the
      result where it was written;
    - `bias_grad_a`, `bias_grad_b`: A or B is summed over the contracted
      dimension of the product, which is the gradient of a bias next to that of
      a weight.

    `convert-mprt-to-llvm` makes one call of the product and its launches. The
    runtime launches the kernels if the library has no such product.

    Numerics: reassociating. A 16-bit sum is rounded once, not before and after
    the bias is added, or before and after the multiplication by scales or by
    gelu's derivative. Two scales may be multiplied with each other first, which
    underflows if their product is below 2^-126. Gradients of biases are summed in f32, in the library's order.

    Example: the launch in
    ```mlir
    mprt.gemm %a, %b, %c m = 8 n = 16 k = 4 ...
    mprt.launch @add_bias ins(%bias : memref<16xf32>) outs(%c : memref<8x16xf32>)
    ```
    becomes
    ```mlir
    mprt.launch @add_bias ins(%bias : memref<16xf32>) outs(%c : memref<8x16xf32>) {mprt.epilogue = {bias = 0, kind = "bias"}}
    ```

    Counts (analysis remark `Epilogues`, one per function): products, and those
    with an epilogue.
  }];
  let dependentDialects = ["::mpcomm::mprt::MPRTDialect"];
}

def GenerateGPUKernelsPass
    : Pass<"mpcomm-generate-gpu-kernels", "::mlir::ModuleOp"> {
  let summary = "Turns kernels of linalg ops into code for the threads of a "
                "GPU";
  let description = [{
    The counterpart of `mpcomm-generate-kernels` for GPUs. Replaces the tensor
    form of each kernel by functions of a `gpu.module` named `mpcomm_kernels`,
    one or more per kernel and layout of operands, and by declarations with
    `mprt.grid`, which launches reference.

    Assumes: what `mpcomm-generate-kernels` assumes.

    Guarantees: each launch is replaced by one or more launches, in order, of
    kernels with `mprt.grid` and the same operands. The bodies of the functions
    are gpu, scf, vector, memref, arith, math, and nvvm's warp votes and
    synchronisation.
    - Elementwise kernels: each thread takes chunks of columns, of 16 bytes of
      the narrowest operand if columns and addresses allow, several in flight;
      any grid is correct.
    - Kernels with reductions along rows: a group of up to 32 threads, or a
      whole block, has a row. Its columns stay in registers from one pass to the
      next, or in shared memory if `launch-shared` has room for them (other rows
      are read again), so memory is read once. Reductions are
      shuffles within warps and one barrier across them.
    - Sums over rows stay in registers while a block iterates over its rows; a
      second kernel, `_sums`, adds the sums of the blocks in a fixed order.
    - Scalars that a kernel reads and replaces are replaced by a separate
      kernel, `_scalars`.
    - A scatter onto a fill becomes the fill and a second kernel, `_slices`, that
      combines. Each element of the destination belongs to one thread, which
      takes its updates in the order of the indices.
    - `mprt.attention` becomes launches of kernels on tensor cores (sm_80 and
      later; with `warpgroups` those of sm_90a), with `_mask` first if it has a
      mask; its gradient becomes `_deltas`, `_columns` and `_rows`. These also
      use the llvm dialect, for addresses and inline assembly.

    Numerics: reassociating; the same bits for the same program, on any device.
    Otherwise as `mpcomm-generate-kernels`.

    Example: with `processors=132`
    ```mlir
    mprt.launch @scale ins(%x : memref<64xf32>) outs(%y : memref<64xf32>)
    ```
    is unchanged, and references
    ```mlir
    func.func private @scale(memref<64xf32>, memref<64xf32>) attributes {mpcomm.kernel, mprt.grid = #mprt.grid<threads = 256, blocks = 1, grid_stride = true, scratch = 0>}
    ```

    Counts: nothing.
  }];
  let options = [
    Option<"processors", "processors", "int64_t", "132",
           "multiprocessors of the GPU, for which grids of sums are sized">,
    Option<"warpgroups", "warpgroups", "bool", "false",
           "use what sm_90a alone has: products of warpgroups, for attention "
           "with heads of 64 and 128">,
    Option<"launchShared", "launch-shared", "int64_t", "0",
           "bytes of shared memory that each of two blocks of a multiprocessor "
           "may ask for at the launch, to keep long rows in">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def BatchLaunchesPass : Pass<"mpcomm-batch-launches", "::mlir::ModuleOp"> {
  let summary = "Combines independent launches into one";
  let description = [{
    Assumes: planned buffers and the output of `mpcomm-generate-gpu-kernels`.

    Guarantees: launches between two ops that are neither launches nor free of
    effects (such as awaits and starts of collectives) are put into batches.
    Each launch goes into the first batch that can take it after those on which
    it depends, by the bytes of its buffers. A batch is one launch of a kernel
    `_batch`: its blocks are assigned to the launches in ranges, and the code of
    each kernel is in it once, however often it is launched. The launches of a
    batch
    - have blocks of the same number of threads;
    - are waited for by the same collective, if any, so that no collective
      starts later;
    - are of one kernel, or of kernels that are all elementwise, or of kernels
      that each have no more threads than the device runs at a time (the batch
      needs the registers of its most demanding kernel);
    - take no more than `parameter-bytes` of pointers in total, and at most 16
      bodies and 48 KiB of shared memory.

    Launches that pass scratch memory on (a kernel and its `_sums`) get separate
    scratch memory, up to 1 MiB each, so that several run at once.

    Numerics: exact.

    Example:
    ```mlir
    mprt.launch @update ins(%g : memref<8xf32>) outs(%p : memref<8xf32>)
    mprt.launch @update ins(%h : memref<8xf32>) outs(%q : memref<8xf32>)
    ```
    becomes
    ```mlir
    mprt.launch @update_batch ins(%g, %h : memref<8xf32>, memref<8xf32>) outs(%p, %q : memref<8xf32>, memref<8xf32>)
    ```

    Counts (analysis remark `Batches`, one per function): launches before and
    after, batches.
  }];
  let options = [
    Option<"processors", "processors", "int64_t", "132",
           "multiprocessors of the GPU, which decide what fills it">,
    Option<"parameterBytes", "parameter-bytes", "int64_t", "4096",
           "largest size of a kernel's parameters: 4096 on all chips">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"
  ];
}

def AssembleKernelsPass : Pass<"mpcomm-assemble-kernels", "::mlir::ModuleOp"> {
  let summary = "Assembles the kernels of a GPU into images";
  let description = [{
    Assumes: a `gpu.module` named `mpcomm_kernels` in the LLVM dialect; a module
    without it is unchanged.

    Guarantees: the `gpu.module` is translated to PTX for each of `chip`,
    assembled with `ptxas`, and replaced by the global `mpcomm_images` of
    mprt.h: machine code for each chip and, for newer ones, the PTX of the last
    (not of sm_90a, whose code runs on that chip alone).
    Without `ptxas` the images are PTX alone, which drivers compile, and a
    warning says so. `ptxas` is searched in this order: the option,
    `$CUDA_HOME/bin`, `/usr/local/cuda/bin`, `PATH`.

    Numerics: exact.

    Counts (analysis remark, one per kernel and chip): registers, bytes spilled
    and bytes of shared memory, as reported by `ptxas`.
  }];
  let options = [
    ListOption<"chips", "chip", "std::string",
               "chips to assemble for: sm_80, sm_90, sm_90a, sm_100 or others "
               "from sm_75 on; none given: sm_80, sm_90, sm_100">,
    Option<"ptxas", "ptxas", "std::string", "",
           "the assembler; empty: as found, 'none': PTX alone">,
    Option<"ptxDirectory", "ptx-directory", "std::string", "",
           "a folder to leave the PTX of each chip in">
  ];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // MPCOMM_CODEGEN_PASSES
