// Ops of loss scaling, clipping and dropout, there and back.

// RUN: mpcomm-opt %s | mpcomm-opt | FileCheck %s
// RUN: mpcomm-opt %s --mlir-print-op-generic | mpcomm-opt | FileCheck %s

// CHECK-LABEL: func.func @gradient
func.func @gradient(%g: tensor<8x4xbf16>) -> tensor<8x4xbf16> {
  // CHECK: mpcomm.gradient %{{.*}} : tensor<8x4xbf16>
  %h = mpcomm.gradient %g : tensor<8x4xbf16>
  return %h : tensor<8x4xbf16>
}

// A gradient of 16 bits leaves as f32, one of f64 stays.
// CHECK-LABEL: func.func @unscale
func.func @unscale(%a: tensor<8x4xf16>, %b: tensor<4xf64>, %s: tensor<f32>) -> (tensor<8x4xf32>, tensor<4xf64>, tensor<f32>, tensor<2xf32>) {
  // CHECK: mpcomm.unscale(%{{.*}}, %{{.*}}) by %{{.*}} : (tensor<8x4xf16>, tensor<4xf64>, tensor<f32>) -> (tensor<8x4xf32>, tensor<4xf64>, tensor<f32>)
  %u:3 = mpcomm.unscale(%a, %b) by %s : (tensor<8x4xf16>, tensor<4xf64>, tensor<f32>) -> (tensor<8x4xf32>, tensor<4xf64>, tensor<f32>)
  // CHECK: mpcomm.unscale(%{{.*}}, %{{.*}}) by %{{.*}} each : (tensor<8x4xf16>, tensor<4xf64>, tensor<f32>) -> (tensor<8x4xf32>, tensor<4xf64>, tensor<2xf32>)
  %v:3 = mpcomm.unscale(%a, %b) by %s each : (tensor<8x4xf16>, tensor<4xf64>, tensor<f32>) -> (tensor<8x4xf32>, tensor<4xf64>, tensor<2xf32>)
  return %u#0, %u#1, %u#2, %v#2 : tensor<8x4xf32>, tensor<4xf64>, tensor<f32>, tensor<2xf32>
}

// CHECK-LABEL: func.func @clip
func.func @clip(%a: tensor<8x4xf32>, %b: tensor<4xbf16>) -> (tensor<8x4xf32>, tensor<4xbf16>, tensor<f32>) {
  // CHECK: mpcomm.clip_by_global_norm(%{{.*}}, %{{.*}}) max_norm = 1.{{0+e\+00}} : (tensor<8x4xf32>, tensor<4xbf16>) -> (tensor<8x4xf32>, tensor<4xbf16>, tensor<f32>)
  %c:3 = mpcomm.clip_by_global_norm(%a, %b) max_norm = 1.0 : (tensor<8x4xf32>, tensor<4xbf16>) -> (tensor<8x4xf32>, tensor<4xbf16>, tensor<f32>)
  return %c#0, %c#1, %c#2 : tensor<8x4xf32>, tensor<4xbf16>, tensor<f32>
}

// CHECK-LABEL: func.func @clip_to_norm
func.func @clip_to_norm(%a: tensor<8x4xf32>, %b: tensor<4xbf16>) -> (tensor<8x4xf32>, tensor<f32>) {
  // CHECK: %[[S:.*]] = mpcomm.squared_norm(%{{.*}}, %{{.*}}) : (tensor<8x4xf32>, tensor<4xbf16>) -> tensor<f32>
  %s = mpcomm.squared_norm(%a, %b) : (tensor<8x4xf32>, tensor<4xbf16>) -> tensor<f32>
  // CHECK: mpcomm.clip_by_global_norm(%{{.*}}) norm = %[[S]], max_norm = 1.{{0+e\+00}} : (tensor<8x4xf32>, tensor<f32>) -> (tensor<8x4xf32>, tensor<f32>)
  %c:2 = mpcomm.clip_by_global_norm(%a) norm = %s, max_norm = 1.0 : (tensor<8x4xf32>, tensor<f32>) -> (tensor<8x4xf32>, tensor<f32>)
  return %c#0, %c#1 : tensor<8x4xf32>, tensor<f32>
}

// CHECK-LABEL: func.func @scales
func.func @scales(%s: tensor<f32>, %n: tensor<i32>, %h: tensor<16xf32>) -> (tensor<f32>, tensor<i32>, tensor<i32>, tensor<16xf32>, tensor<f32>) {
  // CHECK: mpcomm.update_loss_scale %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, growth = {{.*}}, backoff = {{.*}}, interval = 2000, min = {{.*}}, max = {{.*}}, hysteresis = 2 : (tensor<f32>, tensor<i32>, tensor<i32>, tensor<f32>) -> (tensor<f32>, tensor<i32>, tensor<i32>)
  %0:3 = mpcomm.update_loss_scale %s, %n, %n, %s, growth = 2.0, backoff = 0.5, interval = 2000, min = 1.0, max = 16777216.0, hysteresis = 2
    : (tensor<f32>, tensor<i32>, tensor<i32>, tensor<f32>) -> (tensor<f32>, tensor<i32>, tensor<i32>)
  // CHECK: mpcomm.update_fp8_scale %{{.*}}, %{{.*}}, %{{.*}}, format = f8E4M3FN, margin = -1 : (tensor<16xf32>, tensor<f32>, tensor<f32>) -> (tensor<16xf32>, tensor<f32>)
  %1:2 = mpcomm.update_fp8_scale %h, %s, %s, format = f8E4M3FN, margin = -1
    : (tensor<16xf32>, tensor<f32>, tensor<f32>) -> (tensor<16xf32>, tensor<f32>)
  return %0#0, %0#1, %0#2, %1#0, %1#1 : tensor<f32>, tensor<i32>, tensor<i32>, tensor<16xf32>, tensor<f32>
}

// CHECK-LABEL: func.func @dropout
// CHECK-SAME: mpcomm.role = #mpcomm.role<rng>
func.func @dropout(%x: tensor<8x4xf16>, %seed: tensor<2xi32> {mpcomm.role = #mpcomm.role<rng>, mpcomm.name = "seed"}) -> (tensor<8x4xf16>, tensor<8x4xf16>) {
  // CHECK: mpcomm.dropout %{{.*}}, %{{.*}}, p = 1.{{0+}}e-01, id = 4294967295 : (tensor<8x4xf16>, tensor<2xi32>) -> tensor<8x4xf16>
  %0 = mpcomm.dropout %x, %seed, p = 0.1, id = 4294967295 : (tensor<8x4xf16>, tensor<2xi32>) -> tensor<8x4xf16>
  // CHECK: mpcomm.dropout_grad %{{.*}}, %{{.*}}, p = 1.{{0+e\+00}}, id = 0 : (tensor<8x4xf16>, tensor<2xi32>) -> tensor<8x4xf16>
  %1 = mpcomm.dropout_grad %x, %seed, p = 1.0, id = 0 : (tensor<8x4xf16>, tensor<2xi32>) -> tensor<8x4xf16>
  return %0, %1 : tensor<8x4xf16>, tensor<8x4xf16>
}

// State starts as a number or as a parameter.
// CHECK-LABEL: func.func private @state
// CHECK-SAME: tensor<4xi32> {mpcomm.default = 3 : i32}, tensor<4xbf16> {mpcomm.copy_of = "w"}
func.func private @state(tensor<4xi32> {mpcomm.default = 3 : i32}, tensor<4xbf16> {mpcomm.copy_of = "w"})
