// RUN: mpcomm-opt %mpcomm_src_root/docs/examples/linear.mlir --mpcomm-compile="mesh=dp:2 target=cpu" | FileCheck %s --check-prefix=PROGRAM
// RUN: mpcomm-opt %mpcomm_src_root/docs/examples/linear.mlir --mpcomm-graph="mesh=dp:2" | FileCheck %s --check-prefix=GRAPH
// RUN: mpcomm-opt %mpcomm_src_root/docs/examples/linear.mlir --mpcomm-graph="mesh=dp:1" | FileCheck %s --check-prefix=ONE
// RUN: mpcomm-opt %mpcomm_src_root/docs/examples/linear.mlir --mpcomm-graph="mesh=dp:2" --mpcomm-lower | FileCheck %s --check-prefix=LOWER
// RUN: mpcomm-opt %mpcomm_src_root/docs/examples/linear.mlir --mpcomm-graph="mesh=dp:2" --mpcomm-lower --mpcomm-program | FileCheck %s --check-prefix=PROGRAM

// The phases run alone, one after the other, and give what the whole gives.

// Both gradients travel in one bucket, asynchronously.
// GRAPH: mpcomm.mesh @mesh <["dp" = 2]>
// GRAPH: mpcomm.async
// GRAPH: mpcomm.all_reduce(%{{.*}}, %{{.*}}) on @mesh axes ["dp"] mean
// GRAPH: mpcomm.await
// GRAPH: mpcomm.sgd_update

// One rank communicates nothing.
// ONE: mpcomm.mesh @mesh <["dp" = 1]>
// ONE-NOT: mpcomm.all_reduce

// Runtime calls on planned buffers; parameters are updated in place.
// LOWER: func.func @train_step(%[[W:.*]]: memref<4x2xf32> {{.*}} %[[B:[^:]*]]: memref<2xf32>
// LOWER-SAME: mprt.arena_bytes
// LOWER: mprt.gemm
// LOWER: mprt.start "all_reduce" "mean"
// LOWER: mprt.await
// LOWER-DAG: mprt.launch {{.*}} outs(%[[W]] : memref<4x2xf32>)
// LOWER-DAG: mprt.launch {{.*}} outs(%[[B]] : memref<2xf32>)
// LOWER-NOT: memref.alloc

// Nothing but the LLVM dialect is left.
// PROGRAM-NOT: {{ (mprt|linalg|memref|func|vector|scf|arith|math)\.[a-z_]+ }}
// PROGRAM: llvm.mlir.global external constant @mpcomm_manifest
// PROGRAM-NOT: {{ (mprt|linalg|memref|func|vector|scf|arith|math)\.[a-z_]+ }}
// PROGRAM: llvm.func @mpcomm_train_step
