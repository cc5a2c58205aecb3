// RUN: mpcomm-opt %s --convert-mprt-to-llvm | FileCheck %s
// RUN: mpcomm-opt %s --convert-mprt-to-llvm | grep mpcomm_manifest | sed 's/\\22/"/g; s/\\0A//g; s/  *//g' | FileCheck %s --check-prefix=MANIFEST

// Functions that a program runs are in the manifest under its name, with the
// coordinates of the ranks that run them; communicators with their channels;
// collectives with their tags for names.

// MANIFEST: {"axes":["pp"],"channel":2},{"axes":["dp"]}
// MANIFEST-SAME: "id":7,"kind":"send","location":"{{[^"]*}}","name":"F0.e1"
// MANIFEST-SAME: "coordinates":[{"pp":0,"tp":0},{"pp":1,"tp":1}],"entry":"mpcomm_stage_a"
// MANIFEST-SAME: "name":"train_step"
// MANIFEST-SAME: "coordinates":[{"pp":0,"tp":1},{"pp":1,"tp":0}],"entry":"mpcomm_stage_b"
// MANIFEST-SAME: "name":"train_step"
// MANIFEST-SAME: "entry":"mpcomm_other"
// MANIFEST-SAME: "name":"other"

// CHECK-NOT: mpcomm.program
// CHECK-NOT: mprt.channels
// CHECK: llvm.mlir.global internal constant @{{.*}}("F0.e1\00")
module attributes {mprt.communicators = [["pp"], ["dp"]], mprt.channels = array<i64: 2, 0>, mprt.mesh = @mesh} {
  mpcomm.mesh @mesh <["pp" = 2, "dp" = 3, "tp" = 2]>
  mpcomm.program @train_step on @mesh axes ["pp", "tp"] runs [@stage_a, @stage_b, @stage_b, @stage_a]
  func.func @stage_a(%x: memref<4xf32>, %arena: memref<0xi8>)
      attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
    mprt.start "send" "" id = 7 communicator = 0 event = 0 peer = 1 accumulate f32 ins(%x : memref<4xf32>) outs() {mpcomm.tag = "F0.e1"}
    mprt.await event = 0 ins(%x : memref<4xf32>) outs()
    return
  }
  func.func @stage_b(%arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
    return
  }
  func.func @other(%arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
    return
  }
}
