// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels --mpcomm-batch-launches | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels --mpcomm-batch-launches --remarks-filter=mpcomm-batch-launches -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels --mpcomm-batch-launches=parameter-bytes=48 | FileCheck %s --check-prefix=SMALL

#id = affine_map<(i) -> (i)>

func.func private @update(%g: tensor<1024xf32>, %p: tensor<1024xf32>) -> tensor<1024xf32> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%g : tensor<1024xf32>) outs(%p : tensor<1024xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.subf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<1024xf32>
  return %r : tensor<1024xf32>
}
func.func private @small(%g: tensor<8xf32>, %p: tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%g : tensor<8xf32>) outs(%p : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.subf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// Launches of two kernels that have nothing to do with each other are one.
// CHECK-LABEL: func.func @independent(
// CHECK-NEXT: mprt.launch @update_batch ins(%arg0, %arg4 : {{.*}}) outs(%arg1, %arg2, %arg3, %arg5 :
// CHECK-NEXT: return
// REMARK-DAG: Function=independent{{.*}}batches=1, launches_after=1, launches_before=4
// Six pointers, one of them for scratch, do not take the two of @small.
// SMALL-LABEL: func.func @independent(
// SMALL-NEXT: mprt.launch @update_batch ins(%arg0 : {{.*}}) outs(%arg1, %arg2, %arg3 :
// SMALL-NEXT: mprt.launch @small ins(%arg4 : {{.*}}) outs(%arg5 :
func.func @independent(%a: memref<1024xf32>, %b: memref<1024xf32>, %c: memref<1024xf32>, %d: memref<1024xf32>,
                       %e: memref<8xf32>, %f: memref<8xf32>) {
  mprt.launch @update ins(%a : memref<1024xf32>) outs(%b : memref<1024xf32>)
  mprt.launch @update ins(%a : memref<1024xf32>) outs(%c : memref<1024xf32>)
  mprt.launch @update ins(%a : memref<1024xf32>) outs(%d : memref<1024xf32>)
  mprt.launch @small ins(%e : memref<8xf32>) outs(%f : memref<8xf32>)
  return
}

// What reads what another writes comes after it, and what writes some bytes that
// another reads; what does neither goes with the first.
// CHECK-LABEL: func.func @dependent(
// CHECK: mprt.launch @update_batch_{{[0-9]+}} ins(%arg1, %view_1 : {{.*}}) outs(%view, %arg2 :
// CHECK-NEXT: mprt.launch @update ins(%view : {{.*}}) outs(%arg3 :
// CHECK-NEXT: mprt.launch @update ins(%arg1 : {{.*}}) outs(%view_0 :
// CHECK-NEXT: return
func.func @dependent(%arena: memref<65536xi8>, %a: memref<1024xf32>, %b: memref<1024xf32>, %c: memref<1024xf32>) {
  %c0 = arith.constant 0 : index
  %c4080 = arith.constant 4080 : index
  %c8192 = arith.constant 8192 : index
  %x = memref.view %arena[%c0][] : memref<65536xi8> to memref<1024xf32>
  %y = memref.view %arena[%c4080][] : memref<65536xi8> to memref<1024xf32>
  %z = memref.view %arena[%c8192][] : memref<65536xi8> to memref<1024xf32>
  mprt.launch @update ins(%a : memref<1024xf32>) outs(%x : memref<1024xf32>)
  mprt.launch @update ins(%x : memref<1024xf32>) outs(%c : memref<1024xf32>)
  mprt.launch @update ins(%a : memref<1024xf32>) outs(%y : memref<1024xf32>)
  mprt.launch @update ins(%z : memref<1024xf32>) outs(%b : memref<1024xf32>)
  return
}

// Nothing moves past what is no launch, and nothing that a collective waits for is
// joined with what it does not wait for.
// CHECK-LABEL: func.func @between(
// CHECK-NEXT: mprt.launch @update_batch_{{[0-9]+}} ins(%arg0 : {{.*}}) outs(%arg1, %arg2 :
// CHECK-NEXT: mprt.launch @update ins(%arg0 : {{.*}}) outs(%arg3 :
// CHECK-NEXT: mprt.start
// CHECK-NEXT: mprt.launch @update ins(%arg0 : {{.*}}) outs(%arg4 :
// CHECK-NEXT: mprt.await
// CHECK-NEXT: mprt.launch @update ins(%arg0 : {{.*}}) outs(%arg4 :
// CHECK-NEXT: return
func.func @between(%a: memref<1024xf32>, %b: memref<1024xf32>, %c: memref<1024xf32>, %d: memref<1024xf32>, %e: memref<1024xf32>) {
  mprt.launch @update ins(%a : memref<1024xf32>) outs(%b : memref<1024xf32>)
  mprt.launch @update ins(%a : memref<1024xf32>) outs(%c : memref<1024xf32>)
  mprt.launch @update ins(%a : memref<1024xf32>) outs(%d : memref<1024xf32>)
  mprt.start "all_reduce" "mean" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32
      ins() outs(%b, %c : memref<1024xf32>, memref<1024xf32>)
  mprt.launch @update ins(%a : memref<1024xf32>) outs(%e : memref<1024xf32>)
  mprt.await event = 0 ins() outs(%b, %c : memref<1024xf32>, memref<1024xf32>)
  mprt.launch @update ins(%a : memref<1024xf32>) outs(%e : memref<1024xf32>)
  return
}

// A body is there once, a switch to the launch before it; a block's number
// counts from its launch's first block.
// CHECK: gpu.func @update_batch(%{{.*}}: memref<1024xf32>, %{{.*}}: memref<8xf32>, %[[B:.*]]: memref<1024xf32>, %[[C:.*]]: memref<1024xf32>, %[[D:.*]]: memref<1024xf32>, %{{.*}}: memref<8xf32>) kernel
// CHECK: %[[BLOCK:.*]] = gpu.block_id x
// CHECK: arith.cmpi ult, %[[BLOCK]], %{{.*}} : index
// CHECK: scf.if
// CHECK: %[[LAUNCH:.*]] = arith.divui
// CHECK: arith.remui
// CHECK: %[[P:.*]] = scf.index_switch %[[LAUNCH]] -> memref<1024xf32>
// CHECK: case 0
// CHECK: scf.yield %[[B]]
// CHECK: case 1
// CHECK: scf.yield %[[C]]
// CHECK: default
// CHECK: scf.yield %[[D]]
// CHECK: vector.load %[[P]]
// CHECK-NOT: vector.load %[[C]]
// CHECK-NOT: gpu.grid_dim
// CHECK: gpu.return
