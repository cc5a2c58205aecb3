// A sum over what is split flat is a partial sum of the whole only where no
// rank has elements that fill its block up; element by element both are alike.

// RUN: mpcomm-opt %s -verify-diagnostics \
// RUN:   -pass-pipeline="builtin.module(func.func(test-mpcomm-print-shardings))" -o /dev/null

mpcomm.mesh @mesh <["dp" = 2]>

func.func @sums(
    %a: tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "a", mpcomm.global_type = tensor<2x4xf32>,
                       mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {}], flat = ["dp"]>},
    %b: tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "b", mpcomm.global_type = tensor<7xf32>,
                       mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], flat = ["dp"]>}) {
  // expected-remark@+1 {{is partial sum, from argument #0 'a'}}
  %0 = mpcomm.reduce sum %a, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  // expected-remark@+1 {{is split along dimension 0, from argument #1 'b'}}
  %1 = arith.mulf %b, %b : tensor<4xf32>
  // expected-remark@+1 {{is local, from argument #1 'b'}}
  %2 = mpcomm.reduce sum %1, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  // expected-remark@+1 {{is split along dimension 0, from argument #0 'a'}}
  %3 = arith.addf %a, %b : tensor<4xf32>
  // expected-remark@+1 {{is local, from argument #0 'a'}}
  %4 = mpcomm.reduce max %3, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  // expected-remark@+1 {{is partial sum, from argument #0 'a'}}
  %5 = mpcomm.squared_norm(%a) : (tensor<4xf32>) -> tensor<f32>
  // Zeros add nothing to it.
  // expected-remark@+1 {{is partial sum, from argument #1 'b'}}
  %6 = mpcomm.squared_norm(%b) : (tensor<4xf32>) -> tensor<f32>
  return
}
