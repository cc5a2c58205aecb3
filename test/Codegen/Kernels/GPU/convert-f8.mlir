// RUN: mpcomm-opt %s --mpcomm-expand-math=has-f8 --split-input-file | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-expand-math --split-input-file | FileCheck %s --check-prefix=WITHOUT

// NVIDIA's instruction rounds two f32 at a time to 8 bits, the first of them in the
// lower half, where they have been brought into the format's range.

// WITHOUT-NOT: nvvm

// CHECK-LABEL: func.func @pairs(
// CHECK-SAME: %[[X:.*]]: vector<4xf32>
// CHECK: %[[CLAMPED:.*]] = arith.maximumf
// CHECK: %[[X1:.*]] = vector.extract %[[CLAMPED]][1]
// CHECK: %[[X0:.*]] = vector.extract %[[CLAMPED]][0]
// CHECK: %[[P0:.*]] = nvvm.convert.f32x2.to.f8x2 %[[X1]], %[[X0]] {rnd = #nvvm.fp_rnd_mode<rn>, sat = #nvvm.sat_mode<satfinite>} : i16(f8E4M3FN)
// CHECK: %[[X3:.*]] = vector.extract %[[CLAMPED]][3]
// CHECK: %[[X2:.*]] = vector.extract %[[CLAMPED]][2]
// CHECK: %[[P1:.*]] = nvvm.convert.f32x2.to.f8x2 %[[X3]], %[[X2]]
// CHECK: %[[ALL:.*]] = vector.from_elements %[[P0]], %[[P1]] : vector<2xi16>
// CHECK: %[[CODES:.*]] = vector.bitcast %[[ALL]] : vector<2xi16> to vector<4xi8>
// CHECK: arith.bitcast %[[CODES]] : vector<4xi8> to vector<4xf8E4M3FN>
func.func @pairs(%x: vector<4xf32>) -> vector<4xf8E4M3FN> {
  %most = arith.constant dense<4.480000e+02> : vector<4xf32>
  %least = arith.constant dense<-4.480000e+02> : vector<4xf32>
  %a = arith.minimumf %x, %most : vector<4xf32>
  %b = arith.maximumf %a, %least : vector<4xf32>
  %c = arith.truncf %b : vector<4xf32> to vector<4xf8E4M3FN>
  return %c : vector<4xf8E4M3FN>
}

// -----

// CHECK-LABEL: func.func @one(
// CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[BOTH:.*]] = nvvm.convert.f32x2.to.f8x2 %[[ZERO]], %{{.*}} : i16(f8E5M2)
// CHECK: arith.trunci %[[BOTH]] : i16 to i8
func.func @one(%x: f32) -> f8E5M2 {
  %most = arith.constant 5.734400e+04 : f32
  %least = arith.constant -5.734400e+04 : f32
  %a = arith.maximumf %x, %least : f32
  %b = arith.minimumf %a, %most : f32
  %c = arith.truncf %b : f32 to f8E5M2
  return %c : f8E5M2
}

// -----

// Beyond the range come NaN or infinity, which the instruction does not make.
// CHECK-LABEL: func.func @not_clamped(
// CHECK-NOT: nvvm
// CHECK: return
func.func @not_clamped(%x: vector<4xf32>, %y: vector<4xf32>) -> (vector<4xf8E4M3FN>, vector<4xf8E5M2>, vector<4xf8E4M3FN>) {
  %most = arith.constant dense<4.490000e+02> : vector<4xf32>
  %least = arith.constant dense<-4.480000e+02> : vector<4xf32>
  %a = arith.minimumf %x, %most : vector<4xf32>
  %b = arith.maximumf %a, %least : vector<4xf32>
  %beyond = arith.truncf %b : vector<4xf32> to vector<4xf8E4M3FN>
  %above = arith.maximumf %x, %least : vector<4xf32>
  %half = arith.truncf %above : vector<4xf32> to vector<4xf8E5M2>
  %last = arith.addf %b, %y : vector<4xf32>
  %later = arith.truncf %last : vector<4xf32> to vector<4xf8E4M3FN>
  return %beyond, %half, %later : vector<4xf8E4M3FN>, vector<4xf8E5M2>, vector<4xf8E4M3FN>
}
