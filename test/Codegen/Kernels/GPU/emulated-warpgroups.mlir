// RUN: mpcomm-opt %s --test-mpcomm-emulate-gpu --split-input-file --verify-diagnostics | FileCheck %s

// The emulation of products of warpgroups reads what a GPU gets, the text: columns, slices,
// whether the left operand is in registers, the right one across, sums added to, and bf16.

// CHECK-LABEL: func.func @tiles(
// CHECK-DAG: %[[NO:.*]] = arith.constant 0 : i32
// CHECK-DAG: %[[YES:.*]] = arith.constant 1 : i32
// CHECK-DAG: %[[TWO:.*]] = arith.constant 2 : i32
// CHECK-DAG: %[[COLUMNS:.*]] = arith.constant 8 : i32
// CHECK: call @mpemu_warpgroup_multiply(%[[COLUMNS]], %[[TWO]], %[[NO]], %{{.*}}, %{{.*}}, %[[YES]], %{{.*}})
gpu.module @mpcomm_kernels {
  gpu.func @tiles(%m: memref<4xi64>) kernel {
    %a = arith.constant 1 : i64
    %b = arith.constant 2 : i64
    %r = llvm.inline_asm has_side_effects "{ .reg .pred adds, yes;\0A setp.ne.b32 adds, 0, 0;\0A setp.ne.b32 yes, 1, 0;\0A wgmma.fence.sync.aligned;\0A wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {$0, $1, $2, $3}, $4, $6, adds, 1, 1, 0, 0;\0A wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {$0, $1, $2, $3}, $5, $7, yes, 1, 1, 0, 0;\0A wgmma.commit_group.sync.aligned;\0A }", "=f,=f,=f,=f,l,l,l,l" %a, %a, %b, %b : (i64, i64, i64, i64) -> !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}

// -----

// Sums of another place.
gpu.module @mpcomm_kernels {
  gpu.func @sums(%m: memref<4xi64>) kernel {
    %a = arith.constant 1 : i64
    // expected-error @below {{has no emulation}}
    %r = llvm.inline_asm has_side_effects "{ .reg .pred adds, yes;\0A setp.ne.b32 adds, 0, 0;\0A setp.ne.b32 yes, 1, 0;\0A wgmma.fence.sync.aligned;\0A wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {$0, $1, $3, $2}, $4, $5, adds, 1, 1, 0, 0;\0A wgmma.commit_group.sync.aligned;\0A }", "=f,=f,=f,=f,l,l" %a, %a : (i64, i64) -> !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}

// -----

// Sums that are added to, and are not there.
gpu.module @mpcomm_kernels {
  gpu.func @adds(%m: memref<4xi64>) kernel {
    %a = arith.constant 1 : i64
    // expected-error @below {{has no emulation}}
    %r = llvm.inline_asm has_side_effects "{ .reg .pred adds, yes;\0A setp.ne.b32 adds, 1, 0;\0A setp.ne.b32 yes, 1, 0;\0A wgmma.fence.sync.aligned;\0A wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {$0, $1, $2, $3}, $4, $5, adds, 1, 1, 0, 0;\0A wgmma.commit_group.sync.aligned;\0A }", "=f,=f,=f,=f,l,l" %a, %a : (i64, i64) -> !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}

// -----

// No group is committed that a wait could be for.
gpu.module @mpcomm_kernels {
  gpu.func @commit(%m: memref<4xi64>) kernel {
    %a = arith.constant 1 : i64
    // expected-error @below {{has no emulation}}
    %r = llvm.inline_asm has_side_effects "{ .reg .pred adds, yes;\0A setp.ne.b32 adds, 0, 0;\0A setp.ne.b32 yes, 1, 0;\0A wgmma.fence.sync.aligned;\0A wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {$0, $1, $2, $3}, $4, $5, adds, 1, 1, 0, 0;\0A }", "=f,=f,=f,=f,l,l" %a, %a : (i64, i64) -> !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}

// -----

// A left operand in registers from outside of the loop, which ptxas may give away.
gpu.module @mpcomm_kernels {
  gpu.func @outside(%m: memref<4xi64>) kernel {
    %a = arith.constant 1 : i64
    %l = arith.constant 2 : i32
    %from = arith.constant 0 : index
    %to = arith.constant 4 : index
    %one = arith.constant 1 : index
    scf.for %i = %from to %to step %one {
      // expected-error @below {{has no emulation}}
      %r = llvm.inline_asm has_side_effects "{ .reg .pred adds, yes;\0A setp.ne.b32 adds, 0, 0;\0A setp.ne.b32 yes, 1, 0;\0A wgmma.fence.sync.aligned;\0A wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {$0, $1, $2, $3}, {$4, $5, $6, $7}, $8, adds, 1, 1, 0;\0A wgmma.commit_group.sync.aligned;\0A }", "=f,=f,=f,=f,r,r,r,r,l" %l, %l, %l, %l, %a : (i32, i32, i32, i32, i64) -> !llvm.struct<(f32, f32, f32, f32)>
    }
    gpu.return
  }
}
