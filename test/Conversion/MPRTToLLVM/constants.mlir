// RUN: mpcomm-opt %s --convert-mprt-to-llvm --split-input-file | FileCheck %s

// Constants become data of the program. What the compiler adds does not depend
// on what stands first in the module, a constant or a function: both are gone
// when the manifest is written.

// CHECK-DAG: llvm.mlir.global internal constant @mpcomm.data.c(dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<4xf32>) {{.*}}alignment = 64
// CHECK-DAG: llvm.mlir.global external constant @mpcomm_manifest
// CHECK-DAG: llvm.func @mpcomm_f
module {
  memref.global "private" constant @c : memref<2x2xf32> = dense<[[1.0, 2.0], [3.0, 4.0]]>
  func.func @f(%x: memref<2x2xf32>, %arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
    %c = memref.get_global @c : memref<2x2xf32>
    mprt.copy %c, %x : memref<2x2xf32>, memref<2x2xf32>
    return
  }
}

// -----

// CHECK-DAG: llvm.mlir.global external constant @mpcomm_manifest
// CHECK-DAG: llvm.func @mpcomm_f
module {
  func.func @f(%x: memref<4xf32>, %arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
    mprt.zero %x : memref<4xf32>
    return
  }
}

// -----

// Elements that the module only refers to stay where they are.
// CHECK-DAG: llvm.mlir.global internal constant @mpcomm.data.c(dense_resource<elements> : tensor<4xf32>)
module {
  memref.global "private" constant @c : memref<2x2xf32> = dense_resource<elements>
  func.func @f(%x: memref<2x2xf32>, %arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
    %c = memref.get_global @c : memref<2x2xf32>
    mprt.copy %c, %x : memref<2x2xf32>, memref<2x2xf32>
    return
  }
}
{-# dialect_resources: { builtin: { elements: "0x040000000000803F000000400000404000008040" } } #-}

// -----

// A bool takes a byte.
// CHECK-DAG: llvm.mlir.global internal constant @mpcomm.data.c(dense<[1, 0]> : tensor<2xi8>)
module {
  memref.global "private" constant @c : memref<2xi1> = dense<[true, false]>
  func.func @f(%x: memref<2xi1>, %arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
    %c = memref.get_global @c : memref<2xi1>
    mprt.copy %c, %x : memref<2xi1>, memref<2xi1>
    return
  }
}

// -----

// One value for all elements stays one.
// CHECK-DAG: llvm.mlir.global internal constant @mpcomm.data.c(dense<1> : tensor<1073741824xi8>)
module {
  memref.global "private" constant @c : memref<1073741824xi1> = dense<true>
  func.func @f(%x: memref<1073741824xi1>, %arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
    %c = memref.get_global @c : memref<1073741824xi1>
    mprt.copy %c, %x : memref<1073741824xi1>, memref<1073741824xi1>
    return
  }
}
