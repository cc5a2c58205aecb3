// The manifest says how often a step runs what is in a part: as often as it is
// called. A step that has products of its own does the last micro-batch itself. The body
// of a loop runs in each trip, in the part that has the loop and in the step.

// RUN: split-file %s %t
// RUN: mpcomm-opt %t/pipeline.mlir --convert-mprt-to-llvm | FileCheck %t/pipeline.mlir
// RUN: mpcomm-opt %t/accumulation.mlir --convert-mprt-to-llvm | FileCheck %t/accumulation.mlir
// RUN: mpcomm-opt %t/loop.mlir --convert-mprt-to-llvm | FileCheck %t/loop.mlir

//--- pipeline.mlir
// CHECK: @mpcomm_manifest("{{.*}}\22locations\22: [\0A    {\0A      \22places\22: [\0A        \22a\22\0A      ],\0A      \22runs\22: 3,\0A      \22text\22: \22a\22\0A    }\0A  ]
func.func @step(%x: memref<4x4xf32>, %y: memref<4x4xf32>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
  mprt.call @part ins(%x : memref<4x4xf32>) outs(%y : memref<4x4xf32>)
  mprt.call @part ins(%x : memref<4x4xf32>) outs(%y : memref<4x4xf32>)
  mprt.call @part ins(%x : memref<4x4xf32>) outs(%y : memref<4x4xf32>)
  mprt.launch @k ins(%x : memref<4x4xf32>) outs(%y : memref<4x4xf32>) loc("update")
  return
}
func.func private @part(%x: memref<4x4xf32>, %y: memref<4x4xf32>)
    attributes {mprt.results = [{type = tensor<4x4xf32>, argument = -1 : i64}]} {
  mprt.launch @k ins(%x : memref<4x4xf32>) outs(%y : memref<4x4xf32>) loc("a")
  return
}
func.func private @k(memref<4x4xf32>, memref<4x4xf32>) attributes {mpcomm.kernel}

//--- accumulation.mlir
// CHECK: \22runs\22: 2,\0A      \22text\22: \22a\22
// CHECK-NOT: \22text\22
func.func @step(%x: memref<4x4xf32>, %y: memref<4x4xf32>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
  mprt.call @part ins(%x : memref<4x4xf32>) outs(%y : memref<4x4xf32>)
  mprt.launch @k ins(%x : memref<4x4xf32>) outs(%y : memref<4x4xf32>) loc("a")
  mprt.gemm %x, %x, %y m = 4 n = 4 k = 4 strides [4, 1] x [4, 1] -> [4, 1] batch [] strides [] x [] -> [] : memref<4x4xf32>, memref<4x4xf32>, memref<4x4xf32> loc("b")
  return
}
func.func private @part(%x: memref<4x4xf32>, %y: memref<4x4xf32>)
    attributes {mprt.results = [{type = tensor<4x4xf32>, argument = -1 : i64}]} {
  mprt.launch @k ins(%x : memref<4x4xf32>) outs(%y : memref<4x4xf32>) loc("a")
  return
}
func.func private @k(memref<4x4xf32>, memref<4x4xf32>) attributes {mpcomm.kernel}

//--- loop.mlir
// CHECK: \22runs\22: 2,\0A      \22text\22: \22a\22
// CHECK: \22runs\22: 14,\0A      \22text\22: \22b\22
func.func @step(%x: memref<4x4xf32>, %y: memref<4x4xf32>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
  mprt.call @part ins(%x : memref<4x4xf32>) outs(%y : memref<4x4xf32>)
  mprt.launch @k ins(%x : memref<4x4xf32>) outs(%y : memref<4x4xf32>) loc("a")
  mprt.call @body trips = 7 ins(%x : memref<4x4xf32>) outs(%y : memref<4x4xf32>)
  mprt.gemm %x, %x, %y m = 4 n = 4 k = 4 strides [4, 1] x [4, 1] -> [4, 1] batch [] strides [] x [] -> [] : memref<4x4xf32>, memref<4x4xf32>, memref<4x4xf32> loc("c")
  return
}
func.func private @body(%x: memref<4x4xf32>, %y: memref<4x4xf32>)
    attributes {mprt.results = [{type = tensor<4x4xf32>, argument = -1 : i64}]} {
  mprt.launch @k ins(%x : memref<4x4xf32>) outs(%y : memref<4x4xf32>) loc("b")
  return
}
func.func private @part(%x: memref<4x4xf32>, %y: memref<4x4xf32>)
    attributes {mprt.results = [{type = tensor<4x4xf32>, argument = -1 : i64}]} {
  mprt.launch @k ins(%x : memref<4x4xf32>) outs(%y : memref<4x4xf32>) loc("a")
  mprt.call @body trips = 7 ins(%x : memref<4x4xf32>) outs(%y : memref<4x4xf32>)
  return
}
func.func private @k(memref<4x4xf32>, memref<4x4xf32>) attributes {mpcomm.kernel}
