// Attention of a step that is compiled for GPUs in 16 bits is one op, and one
// call of a kernel; elsewhere, in f32 and where the same bits are asked for it is
// what the step says, unless fused attention is.

// RUN: mpcomm-opt %s --mpcomm-graph="target=cuda precision=bf16" | FileCheck %s --check-prefix=FUSED
// RUN: mpcomm-opt %s --mpcomm-graph="target=cuda precision=f16" | FileCheck %s --check-prefix=FUSED
// RUN: mpcomm-opt %s --mpcomm-graph="cluster=dgx-h100 precision=bf16 attention=fused" | FileCheck %s --check-prefix=FUSED
// FUSED: mpcomm.attention %
// FUSED: mpcomm.attention_grad %

// RUN: mpcomm-opt %s --mpcomm-graph="target=cuda precision=bf16 attention=separate" | FileCheck %s --check-prefix=SEPARATE
// RUN: mpcomm-opt %s --mpcomm-graph="target=cuda precision=bf16 numerics=exact" | FileCheck %s --check-prefix=SEPARATE
// RUN: mpcomm-opt %s --mpcomm-graph="target=cuda" | FileCheck %s --check-prefix=SEPARATE
// RUN: mpcomm-opt %s --mpcomm-graph="cluster=dgx-h100 precision=bf16" | FileCheck %s --check-prefix=SEPARATE
// One GPU of those that are compiled for is too old for the kernels.
// RUN: mpcomm-opt %s --mpcomm-graph="target=cuda chip=sm_75,sm_90 precision=f16" | FileCheck %s --check-prefix=SEPARATE
// SEPARATE-NOT: mpcomm.attention
// SEPARATE: mpcomm.softmax
// SEPARATE: mpcomm.softmax_grad

// RUN: mpcomm-opt %s --mpcomm-graph="target=cuda precision=bf16" --mpcomm-lower=target=cuda | FileCheck %s --check-prefix=CUDA
// Nothing is copied: parts of one product go in, parts of one gradient come out.
// CUDA-NOT: {{mprt.copy|launch @copy}}
// CUDA: mprt.attention "attention" {{.*}} ins(%{{.*}} : memref<8x256x8x64xbf16, strided<[393216, 1536, 64, 1]>>, memref<8x256x8x64xbf16, strided<[393216, 1536, 64, 1], offset: 512>>, memref<8x256x8x64xbf16, strided<[393216, 1536, 64, 1], offset: 1024>>)
// CUDA-NOT: {{mprt.copy|launch @copy}}
// CUDA: mprt.attention "attention_grad" {{.*}} outs(%{{.*}} : memref<8x256x8x64xbf16, strided<[393216, 1536, 64, 1]>>, memref<8x256x8x64xbf16, strided<[393216, 1536, 64, 1], offset: 512>>, memref<8x256x8x64xbf16, strided<[393216, 1536, 64, 1], offset: 1024>>)
// CUDA-NOT: {{mprt.copy|launch @copy}}
// CUDA: return

// RUN: mpcomm-opt %s --mpcomm-compile="target=cuda chip=sm_90 precision=bf16" | FileCheck %s --check-prefix=PROGRAM
// PROGRAM: kernel_attention
// Nor are products copied to where they have been made, if attention is written out.
// RUN: mpcomm-opt %s --mpcomm-graph="target=cuda precision=bf16 attention=separate" --mpcomm-lower=target=cuda | FileCheck %s --check-prefix=PARTS
// PARTS-NOT: {{mprt.copy|launch @copy}}
// PARTS: mprt.launch @kernel_softmax_grad
// PARTS-NOT: {{mprt.copy|launch @copy}}
// PARTS: return
// RUN: mpcomm-opt %s --mpcomm-graph="target=cuda chip=sm_75 precision=f16 attention=fused" --mpcomm-lower="target=cuda chip=sm_75" | FileCheck %s --check-prefix=OLD
// OLD-NOT: mprt.attention
// OLD: mprt.launch @kernel_softmax
// The op of a graph for GPUs compiles for a processor too.
// RUN: mpcomm-opt %s --mpcomm-graph="target=cuda precision=bf16" --mpcomm-lower --mpcomm-program -o /dev/null
// RUN: mpcomm-opt %s --mpcomm-compile="cluster=dgx-h100 precision=bf16 attention=fused micro-batches=2" -o /dev/null
// RUN: mpcomm-opt %s --mpcomm-graph="target=cuda precision=bf16 micro-batches=2 mesh=dp:2" | FileCheck %s --check-prefix=FUSED

// RUN: not mpcomm-opt %s --mpcomm-graph="attention=some" 2>&1 | FileCheck %s --check-prefix=SOME
// SOME: expected auto, fused or separate for 'attention', got 'some'

func.func @train_step(
    %w: tensor<512x1536xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<8x256x512xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<512x1536xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %eight = arith.constant dense<8.0> : tensor<8x8x256x256xf32>
  %h = mpcomm.dot_general %x, %w, contracting_dims = [2] x [0] : (tensor<8x256x512xf32>, tensor<512x1536xf32>) -> tensor<8x256x1536xf32>
  %qs = mpcomm.slice %h, starts = [0, 0, 0], limits = [8, 256, 512], strides = [1, 1, 1] : (tensor<8x256x1536xf32>) -> tensor<8x256x512xf32>
  %q = mpcomm.reshape %qs : (tensor<8x256x512xf32>) -> tensor<8x256x8x64xf32>
  %ks = mpcomm.slice %h, starts = [0, 0, 512], limits = [8, 256, 1024], strides = [1, 1, 1] : (tensor<8x256x1536xf32>) -> tensor<8x256x512xf32>
  %k = mpcomm.reshape %ks : (tensor<8x256x512xf32>) -> tensor<8x256x8x64xf32>
  %vs = mpcomm.slice %h, starts = [0, 0, 1024], limits = [8, 256, 1536], strides = [1, 1, 1] : (tensor<8x256x1536xf32>) -> tensor<8x256x512xf32>
  %v = mpcomm.reshape %vs : (tensor<8x256x512xf32>) -> tensor<8x256x8x64xf32>
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<8x256x8x64xf32>, tensor<8x256x8x64xf32>) -> tensor<8x8x256x256xf32>
  %d = arith.divf %s, %eight : tensor<8x8x256x256xf32>
  %p = mpcomm.softmax %d, dim = 3 : tensor<8x8x256x256xf32>
  %o = mpcomm.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<8x8x256x256xf32>, tensor<8x256x8x64xf32>) -> tensor<8x8x256x64xf32>
  %ot = mpcomm.transpose %o, dims = [0, 2, 1, 3] : (tensor<8x8x256x64xf32>) -> tensor<8x256x8x64xf32>
  %or = mpcomm.reshape %ot : (tensor<8x256x8x64xf32>) -> tensor<1048576xf32>
  %square = arith.mulf %or, %or : tensor<1048576xf32>
  %loss = mpcomm.reduce sum %square, dims = [0] : (tensor<1048576xf32>) -> tensor<f32>
  %twice = arith.addf %or, %or : tensor<1048576xf32>
  %g = mpcomm.reshape %twice : (tensor<1048576xf32>) -> tensor<8x256x8x64xf32>
  %dv = mpcomm.dot_general %p, %g, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<8x8x256x256xf32>, tensor<8x256x8x64xf32>) -> tensor<8x8x256x64xf32>
  %dp = mpcomm.dot_general %g, %v, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<8x256x8x64xf32>, tensor<8x256x8x64xf32>) -> tensor<8x8x256x256xf32>
  %dd = mpcomm.softmax_grad %dp, %p, dim = 3 : tensor<8x8x256x256xf32>
  %ds = arith.divf %dd, %eight : tensor<8x8x256x256xf32>
  %dq = mpcomm.dot_general %ds, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<8x8x256x256xf32>, tensor<8x256x8x64xf32>) -> tensor<8x8x256x64xf32>
  %dk = mpcomm.dot_general %ds, %q, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<8x8x256x256xf32>, tensor<8x256x8x64xf32>) -> tensor<8x8x256x64xf32>
  %dqt = mpcomm.transpose %dq, dims = [0, 2, 1, 3] : (tensor<8x8x256x64xf32>) -> tensor<8x256x8x64xf32>
  %dqr = mpcomm.reshape %dqt : (tensor<8x256x8x64xf32>) -> tensor<8x256x512xf32>
  %dkt = mpcomm.transpose %dk, dims = [0, 2, 1, 3] : (tensor<8x8x256x64xf32>) -> tensor<8x256x8x64xf32>
  %dkr = mpcomm.reshape %dkt : (tensor<8x256x8x64xf32>) -> tensor<8x256x512xf32>
  %dvt = mpcomm.transpose %dv, dims = [0, 2, 1, 3] : (tensor<8x8x256x64xf32>) -> tensor<8x256x8x64xf32>
  %dvr = mpcomm.reshape %dvt : (tensor<8x256x8x64xf32>) -> tensor<8x256x512xf32>
  %dh = mpcomm.concatenate %dqr, %dkr, %dvr, dim = 2 : (tensor<8x256x512xf32>, tensor<8x256x512xf32>, tensor<8x256x512xf32>) -> tensor<8x256x1536xf32>
  %dw = mpcomm.dot_general %x, %dh, contracting_dims = [0, 1] x [0, 1] : (tensor<8x256x512xf32>, tensor<8x256x1536xf32>) -> tensor<512x1536xf32>
  %w1 = mpcomm.sgd_update %w, %dw, %lr, weight_decay = 0.0 : (tensor<512x1536xf32>, tensor<512x1536xf32>, tensor<f32>) -> tensor<512x1536xf32>
  return %loss, %w1 : tensor<f32>, tensor<512x1536xf32>
}
