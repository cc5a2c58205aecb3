// Sums take products that may be contracted with them and that only such sums read, the second operand's before the
// first's; what may not be contracted stays, and nothing may be afterwards.
//
// RUN: mpcomm-opt %s --mpcomm-fuse-multiply-adds | FileCheck %s

// CHECK-LABEL: func.func @sums
// CHECK-SAME: (%[[X:.*]]: vector<8xf32>, %[[Y:.*]]: vector<8xf32>, %[[Z:.*]]: vector<8xf32>)
// CHECK-NEXT: %[[P:.*]] = arith.mulf %[[X]], %[[Y]] : vector<8xf32>
// CHECK-NEXT: %[[A:.*]] = math.fma %[[X]], %[[Y]], %[[Z]] : vector<8xf32>
// CHECK-NEXT: %[[NZ:.*]] = arith.negf %[[Z]]
// CHECK-NEXT: %[[B:.*]] = math.fma %[[X]], %[[Y]], %[[NZ]]
// CHECK-NEXT: %[[NX:.*]] = arith.negf %[[X]]
// CHECK-NEXT: %[[C:.*]] = math.fma %[[NX]], %[[Y]], %[[Z]]
// CHECK-NEXT: %[[D:.*]] = math.fma %[[Z]], %[[Z]], %[[P]]
// CHECK-NEXT: return %[[A]], %[[B]], %[[C]], %[[D]]
func.func @sums(%x: vector<8xf32>, %y: vector<8xf32>, %z: vector<8xf32>)
    -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
  %p = arith.mulf %x, %y fastmath<contract> : vector<8xf32>
  %a = arith.addf %z, %p fastmath<contract> : vector<8xf32>
  %b = arith.subf %p, %z fastmath<contract> : vector<8xf32>
  %c = arith.subf %z, %p fastmath<contract> : vector<8xf32>
  %q = arith.mulf %z, %z fastmath<nnan,contract> : vector<8xf32>
  %d = arith.addf %p, %q fastmath<contract> : vector<8xf32>
  return %a, %b, %c, %d : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
}

// What nothing is left of stays nothing. Of a chain each sum takes one product.
// CHECK-LABEL: func.func @chain
// CHECK-NEXT: %[[P:.*]] = arith.mulf %[[X:.*]], %[[Y:.*]] : f32
// CHECK-NEXT: %[[N:.*]] = arith.subf %[[P]], %[[P]] : f32
// CHECK-NEXT: %[[Q:.*]] = arith.mulf %[[X]], %[[X]] : f32
// CHECK-NEXT: %[[S:.*]] = math.fma %[[Y]], %[[Z:.*]], %[[Q]] : f32
// CHECK-NEXT: %[[T:.*]] = math.fma %[[Z]], %[[X]], %[[S]] : f32
// CHECK-NEXT: %[[U:.*]] = math.fma %[[Z]], %[[Z]], %[[T]] : f32
// CHECK-NEXT: return %[[N]], %[[U]]
func.func @chain(%x: f32, %y: f32, %z: f32) -> (f32, f32) {
  %p = arith.mulf %x, %y fastmath<contract> : f32
  %n = arith.subf %p, %p fastmath<contract> : f32
  %a = arith.mulf %x, %x fastmath<contract> : f32
  %q = arith.mulf %y, %z fastmath<contract> : f32
  %s = arith.addf %a, %q fastmath<contract> : f32
  %b = arith.mulf %z, %x fastmath<contract> : f32
  %t = arith.addf %b, %s fastmath<contract> : f32
  %c = arith.mulf %z, %z fastmath<contract> : f32
  %u = arith.addf %t, %c fastmath<contract> : f32
  return %n, %u : f32, f32
}

// A product that is also stored, or multiplied again, is one number.
// CHECK-LABEL: func.func @rounded
// CHECK-NEXT: %[[P:.*]] = arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[P]], %{{.*}} : f32
// CHECK-NEXT: %[[Q:.*]] = arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK-NEXT: math.fma %[[Q]], %{{.*}}, %{{.*}} : f32
// CHECK-NEXT: arith.addf %[[Q]], %{{.*}} : f32
func.func @rounded(%x: f32, %y: f32, %z: f32) -> (f32, f32, f32, f32) {
  %p = arith.mulf %x, %y fastmath<contract> : f32
  %s = arith.addf %p, %z fastmath<contract> : f32
  %q = arith.mulf %y, %z fastmath<contract> : f32
  %r = arith.mulf %q, %x fastmath<contract> : f32
  %t = arith.addf %r, %z fastmath<contract> : f32
  %u = arith.addf %q, %x fastmath<contract> : f32
  return %p, %s, %t, %u : f32, f32, f32, f32
}

// Of f64; casts have no flags.
// CHECK-LABEL: func.func @scalar
// CHECK-NEXT: %[[X:.*]] = arith.extf
// CHECK-NEXT: %[[R:.*]] = math.fma %[[X]], %{{.*}}, %{{.*}} : f64
// CHECK-NEXT: return %[[R]]
func.func @scalar(%half: f16, %y: f64, %z: f64) -> f64 {
  %x = arith.extf %half : f16 to f64
  %p = arith.mulf %x, %y fastmath<contract> : f64
  %a = arith.addf %p, %z fastmath<contract> : f64
  return %a : f64
}

// CHECK-LABEL: func.func @unfused
// CHECK-NEXT: arith.mulf %{{.*}}, %{{.*}} : f16
// CHECK-NEXT: arith.addf %{{.*}}, %{{.*}} : f16
// CHECK-NEXT: arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK-NEXT: arith.addf %{{.*}}, %{{.*}} : f32
func.func @unfused(%x: f16, %y: f32) -> (f16, f32) {
  %p = arith.mulf %x, %x fastmath<contract> : f16
  %a = arith.addf %p, %x fastmath<contract> : f16
  %q = arith.mulf %y, %y fastmath<contract> : f32
  %b = arith.addf %q, %y : f32
  return %a, %b : f16, f32
}
