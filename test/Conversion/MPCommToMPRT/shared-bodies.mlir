// Loops that carry another number of values get a body of their own.

// RUN: mpcomm-opt %s --convert-mpcomm-to-mprt | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-compile="target=cpu" -o /dev/null

// CHECK: func.func private @f(%{{.*}}: tensor<2xf32> {mpcomm.donated = 0 : i64}, %{{.*}}: tensor<2xf32>)
// CHECK: mprt.call @f trips = 4 ins(%{{.*}} : tensor<2xf32>) outs(
// CHECK: mprt.call @[[F:.*]] trips = 4 ins(%{{.*}}, %{{.*}} : tensor<2xf32>, tensor<2xf32>) outs(
// CHECK: func.func private @[[F]](%{{.*}}: tensor<2xf32>, %{{.*}}: tensor<2xf32>)
func.func private @f(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf32> {
  %0 = arith.addf %a, %b : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @train_step(
    %x: tensor<2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %y: tensor<2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "y"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %c = mpcomm.scan @f trips = 4 carries(%x : tensor<2xf32>) captured(%y : tensor<2xf32>) -> tensor<2xf32>
  %s = mpcomm.scan @f trips = 4 captured(%x, %y : tensor<2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %r = mpcomm.reduce sum %s, dims = [0] : (tensor<4x2xf32>) -> tensor<2xf32>
  %t = arith.addf %c, %r : tensor<2xf32>
  %l = mpcomm.reduce sum %t, dims = [0] : (tensor<2xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
