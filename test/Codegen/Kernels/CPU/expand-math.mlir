// Math functions of f32 become arithmetic, on scalars and on vectors; those of
// other types stay. math-accuracy.py measures how close they are.
//
// RUN: %mpcomm-opt %s --mpcomm-expand-math | FileCheck %s

// Rounding by a sum with 1.5 * 2^23, six multiply-adds, a power of two made in
// the exponent.
// CHECK-LABEL: func.func @exp(
// CHECK-DAG: %[[MAGIC:.*]] = arith.constant dense<0x4B400000> : vector<16xf32>
// CHECK-NOT: math.exp
// CHECK: arith.addf %{{.*}}, %[[MAGIC]] fastmath<contract>
// CHECK: arith.bitcast %{{.*}} : vector<16xf32> to vector<16xi32>
// CHECK: arith.shli
// CHECK: %[[POWER:.*]] = arith.bitcast %{{.*}} : vector<16xi32> to vector<16xf32>
// CHECK: arith.mulf %{{.*}}, %[[POWER]]
func.func @exp(%x: vector<16xf32>) -> vector<16xf32> {
  %r = math.exp %x : vector<16xf32>
  return %r : vector<16xf32>
}

// CHECK-LABEL: func.func @scalars(
// CHECK-NOT: {{math.(exp|log|tanh|erf|powf|rsqrt|log1p|sin)}}
// CHECK: return
func.func @scalars(%x: f32, %y: f32) -> (f32, f32, f32, f32, f32, f32, f32, f32) {
  %0 = math.exp %x : f32
  %1 = math.log %x : f32
  %2 = math.tanh %x : f32
  %3 = math.erf %x : f32
  %4 = math.powf %x, %y : f32
  %5 = math.rsqrt %x : f32
  %6 = math.log1p %x : f32
  %7 = math.sin %x : f32
  return %0, %1, %2, %3, %4, %5, %6, %7 : f32, f32, f32, f32, f32, f32, f32, f32
}

// CHECK-LABEL: func.func @wide(
// CHECK: math.exp %{{.*}} : f64
func.func @wide(%x: f64) -> f64 {
  %r = math.exp %x : f64
  return %r : f64
}

// Integers to 8 bits, as canonicalization writes them, by way of f32.
// CHECK-LABEL: func.func @integer_to_8_bits(
// CHECK: arith.sitofp %{{.*}} : vector<4xi8> to vector<4xf32>
// CHECK: arith.uitofp %{{.*}} : i16 to f32
// CHECK-NOT: tofp {{.*}}f8
func.func @integer_to_8_bits(%x: vector<4xi8>, %y: i16) -> (vector<4xf8E4M3FN>, f8E5M2) {
  %r = arith.sitofp %x : vector<4xi8> to vector<4xf8E4M3FN>
  %s = arith.uitofp %y : i16 to f8E5M2
  return %r, %s : vector<4xf8E4M3FN>, f8E5M2
}
