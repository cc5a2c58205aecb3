// RUN: mpcomm-opt %s -allow-unregistered-dialect --convert-mpcomm-to-linalg | FileCheck %s
// RUN: mpcomm-opt %s -allow-unregistered-dialect --convert-mpcomm-to-linalg --mpcomm-form-kernels | FileCheck %s --check-prefix=FORM
// RUN: not mpcomm-opt %s -allow-unregistered-dialect --convert-mpcomm-to-linalg --mpcomm-form-kernels \
// RUN:   --mpcomm-bufferize-step --mpcomm-plan-memory --mpcomm-generate-kernels 2>&1 | FileCheck %s --check-prefix=GENERATE

// Ops of dialects that nobody knows are left where they are, by themselves and
// in bodies; code is generated for none.

// CHECK: "other.op"
// CHECK: linalg.generic
// CHECK: "other.scalar"
// FORM: "other.op"
// FORM: func.func private @kernel
// FORM: "other.scalar"
// GENERATE: error: in kernel 'kernel_{{.*}}': has no code in a kernel
#id = affine_map<(d0) -> (d0)>
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  "other.op"() : () -> ()
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = "other.scalar"(%a) : (f32) -> f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%0, %x : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
