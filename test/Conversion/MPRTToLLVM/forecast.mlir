// RUN: mpcomm-opt %s --convert-mprt-to-llvm | grep mpcomm_manifest | sed 's/\\22/"/g; s/\\0A//g; s/  *//g' | FileCheck %s

// What a step was simulated to take goes into the manifest as it is.

// CHECK: "forecast":{"bandwidth":[200,100],"cluster":"{}","communication":[0.25,0.5],"compute":1.5,"link":"net","step":[1.5,2]}
module attributes {mprt.forecast = {cluster = "{}", bandwidth = array<f64: 200.0, 100.0>, communication = array<f64: 0.25, 0.5>, compute = 1.5 : f64, link = "net", step = array<f64: 1.5, 2.0>}} {
  func.func @train_step(%arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
    return
  }
}
