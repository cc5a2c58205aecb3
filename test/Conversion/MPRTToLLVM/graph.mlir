// RUN: mpcomm-opt %s --convert-mprt-to-llvm | grep mpcomm_manifest | sed 's/\\22/"/g; s/\\0A//g; s/  *//g' | FileCheck %s

// By what the training graph is known again goes into the manifest as it is.

// CHECK: "graph":{"batch":8,"digest":"0123456789abcdef","optimizer":["sgd_updatemomentum=0.9"],"options":{"clip-norm":"1","wire":""},"structure":"fedcba9876543210"}
module attributes {mprt.graph = {batch = 8 : i64, digest = "0123456789abcdef", optimizer = ["sgd_update momentum = 0.9"], options = {"clip-norm" = "1", wire = ""}, structure = "fedcba9876543210"}} {
  func.func @train_step(%arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
    return
  }
}
