// RUN: mpcomm-opt %s --convert-linalg-to-mprt=copy-kernel-bytes=64 | FileCheck %s
// RUN: mpcomm-opt %s --convert-linalg-to-mprt | FileCheck %s --check-prefix=PLAIN --implicit-check-not=mprt.launch
//
// Copies of few bytes are kernels, which are launched together, but not those
// of elements that no kernel has.

// CHECK-LABEL: func.func @copies(
//  CHECK-SAME: %[[A:[^:]+]]: memref<16xf32>, %[[B:[^:]+]]: memref<16xf32>, %[[C:[^:]+]]: memref<17xf32>
//       CHECK: mprt.launch @[[COPY:copy[_0-9]*]] ins(%[[A]] : memref<16xf32>) outs(%[[B]] : memref<16xf32>)
//       CHECK: mprt.copy %[[C]]
//       CHECK: mprt.copy {{.*}}complex<f32>
//       CHECK: mprt.launch @{{.+}} : memref<f64>
// CHECK: func.func private @[[COPY]](
// PLAIN-COUNT-4: mprt.copy
func.func @copies(%a: memref<16xf32>, %b: memref<16xf32>, %c: memref<17xf32>, %d: memref<17xf32>,
                  %e: memref<2xcomplex<f32>>, %f: memref<2xcomplex<f32>>, %g: memref<f64>, %h: memref<f64>) {
  memref.copy %a, %b : memref<16xf32> to memref<16xf32>
  memref.copy %c, %d : memref<17xf32> to memref<17xf32>
  memref.copy %e, %f : memref<2xcomplex<f32>> to memref<2xcomplex<f32>>
  memref.copy %g, %h : memref<f64> to memref<f64>
  return
}
