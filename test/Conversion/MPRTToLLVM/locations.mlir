// RUN: mpcomm-opt %s --convert-mprt-to-llvm | FileCheck %s

// What a descriptor says of its location is short, for messages. The manifest has
// all places of those that have several, for profiles: names, and lines where
// there is no name.

// CHECK-DAG: llvm.mlir.global internal constant @{{.*}}("a, b, c and 2 more\00")
// CHECK-DAG: llvm.mlir.global internal constant @{{.*}}("m.py:3\00")
// CHECK-DAG: llvm.mlir.global internal constant @{{.*}}("alone\00")
// CHECK-DAG: @mpcomm_manifest("{{.*}}\22locations\22: [\0A    {\0A      \22places\22: [\0A        \22a\22,\0A        \22b\22,\0A        \22c\22,\0A        \22d\22,\0A        \22e\22\0A      ],\0A      \22text\22: \22a, b, c and 2 more\22\0A    },\0A    {\0A      \22places\22: [\0A        \22m.py:3\22,\0A        \22m.py:4\22\0A      ],\0A      \22text\22: \22m.py:3\22\0A    }\0A  ]
func.func @step(%x: memref<4xf32>, %y: memref<4xf32>, %arena: memref<64xi8>)
    attributes {mprt.arena_bytes = 64 : i64, mprt.results = []} {
  mprt.launch @k ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) loc(fused["a", "b", "c", "a", "d", "e"])
  mprt.launch @k ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) loc(fused["m.py":3:1, "m.py":4:7, "m.py":3:9])
  mprt.launch @k ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) loc("alone")
  return
}
func.func private @k(memref<4xf32>, memref<4xf32>) attributes {mpcomm.kernel}
