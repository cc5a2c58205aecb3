// A part is planned before who calls it, wherever it stands; its arena is scratch
// of the call, in memory that other buffers of the caller use at other times. What
// a part takes has no gaps; what it only writes is not copied before.

// RUN: mpcomm-opt %s --mpcomm-plan-memory -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[ARENA:[a-z0-9]+]]: memref<128xi8>) attributes {mprt.arena_bytes = 128
// CHECK: %[[SCRATCH:.*]] = memref.view %[[ARENA]]{{.*}} to memref<64xi8>
// CHECK: mprt.call @part ins(%{{.*}} : memref<16xf32>) outs(%{{.*}} : memref<16xf32>) scratch(%[[SCRATCH]] : memref<64xi8>)
func.func @step(%x: memref<16xf32>, %y: memref<16xf32>) {
  %a = memref.alloc() : memref<16xf32>
  %b = memref.alloc() : memref<16xf32>
  mprt.call @part ins(%x : memref<16xf32>) outs(%a : memref<16xf32>)
  mprt.copy %a, %b : memref<16xf32>, memref<16xf32>
  mprt.copy %b, %y : memref<16xf32>, memref<16xf32>
  return
}
// CHECK-LABEL: func.func private @part
// CHECK-SAME: memref<64xi8>) attributes {mprt.arena_bytes = 64
func.func private @part(%x: memref<16xf32>, %y: memref<16xf32>) attributes {mprt.results = [{type = tensor<16xf32>, argument = -1 : i64}]} {
  %a = memref.alloc() : memref<16xf32>
  mprt.copy %x, %a : memref<16xf32>, memref<16xf32>
  mprt.copy %a, %y : memref<16xf32>, memref<16xf32>
  return
}

// -----

// CHECK-LABEL: func.func @strided
// CHECK: %[[IN:.*]] = memref.view %{{.*}} to memref<4x2xf32>
// CHECK: memref.copy %[[FROM:.*]], %[[IN]]
// CHECK: %[[OUT:.*]] = memref.view %{{.*}} to memref<4x2xf32>
// CHECK-NOT: memref.copy
// CHECK: mprt.call @part ins(%[[IN]] : memref<4x2xf32>) outs(%[[OUT]] : memref<4x2xf32>)
// CHECK: memref.copy %[[OUT]], %{{.*}} : memref<4x2xf32> to memref<4x2xf32, strided
func.func @strided(%x: memref<4x4xf32>, %y: memref<4x4xf32>) {
  %a = memref.subview %x[0, 0] [4, 2] [1, 1] : memref<4x4xf32> to memref<4x2xf32, strided<[4, 1]>>
  %b = memref.subview %y[0, 2] [4, 2] [1, 1] : memref<4x4xf32> to memref<4x2xf32, strided<[4, 1], offset: 2>>
  mprt.call @part ins(%a : memref<4x2xf32, strided<[4, 1]>>) outs(%b : memref<4x2xf32, strided<[4, 1], offset: 2>>)
  return
}
func.func private @part(%x: memref<4x2xf32>, %y: memref<4x2xf32>) attributes {mprt.results = [{type = tensor<4x2xf32>, argument = -1 : i64}]} {
  mprt.copy %x, %y : memref<4x2xf32>, memref<4x2xf32>
  return
}

// -----

// What an argument donates is read.
// CHECK-LABEL: func.func @updated
// CHECK: memref.copy %[[VIEW:.*]], %[[OWN:.*]] : memref<4x2xf32, strided
// CHECK: mprt.call @part outs(%[[OWN]] : memref<4x2xf32>)
// CHECK: memref.copy %[[OWN]], %[[VIEW]]
func.func @updated(%y: memref<4x4xf32>) {
  %b = memref.subview %y[0, 2] [4, 2] [1, 1] : memref<4x4xf32> to memref<4x2xf32, strided<[4, 1], offset: 2>>
  mprt.call @part outs(%b : memref<4x2xf32, strided<[4, 1], offset: 2>>)
  return
}
func.func private @part(%x: memref<4x2xf32> {mprt.update}) attributes {mprt.results = [{type = tensor<4x2xf32>, argument = 0 : i64}]} {
  return
}

// -----

func.func private @part() attributes {mprt.results = []} {
  // expected-error @+1 {{calls a function that calls it}}
  mprt.call @part
  return
}
