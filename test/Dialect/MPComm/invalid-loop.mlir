// What the verifier of loops refuses. Each case names the constraint that it breaks.

// RUN: mpcomm-opt %s --split-input-file --verify-diagnostics

func.func private @cell(%h: tensor<f32>) -> tensor<f32>
func.func @scan_c1(%h: tensor<f32>) {
  // expected-error @below {{has 0 trips, expected 1 to 2^31 - 1}}
  %0 = mpcomm.scan @cell trips = 0 carries(%h : tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @scan_c1_large(%h: tensor<f32>) {
  // expected-error @below {{has 2147483648 trips, expected 1 to 2^31 - 1}}
  %0 = mpcomm.scan @cell trips = 2147483648 carries(%h : tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @scan_c2_missing(%h: tensor<f32>) {
  // expected-error @below {{has 0 results, expected 1 of the carries at least}}
  mpcomm.scan @cell trips = 2 carries(%h : tensor<f32>)
  return
}

// -----

func.func @scan_c2_carry(%h: tensor<f32>) {
  // expected-error @below {{has result #0 of type 'tensor<2xf32>', expected 'tensor<f32>' as the carry}}
  %0 = mpcomm.scan @cell trips = 2 carries(%h : tensor<f32>) -> tensor<2xf32>
  return
}

// -----

func.func @scan_c2_slice(%x: tensor<3xf32>) {
  // expected-error @below {{takes slices of 'tensor<3xf32>', expected a first dimension of 2}}
  %0 = mpcomm.scan @cell trips = 2 slices(%x : tensor<3xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @scan_c2_scalar(%x: tensor<2xf32>) {
  // expected-error @below {{stacks a result of type 'tensor<f32>', expected a first dimension of 2}}
  %0 = mpcomm.scan @cell trips = 2 slices(%x : tensor<2xf32>) -> tensor<f32>
  return
}

// -----

func.func @scan_c3_missing(%h: tensor<f32>) {
  // expected-error @below {{expects @cell to be a private function of one block}}
  %0 = mpcomm.scan @cell trips = 2 carries(%h : tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func private @cell(%h: tensor<f32>) -> tensor<f32>
func.func @scan_c3_external(%h: tensor<f32>) {
  // expected-error @below {{expects @cell to be a private function of one block}}
  %0 = mpcomm.scan @cell trips = 2 carries(%h : tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @cell(%h: tensor<f32>) -> tensor<f32> {
  return %h : tensor<f32>
}
func.func @scan_c3_public(%h: tensor<f32>) {
  // expected-error @below {{expects @cell to be a private function of one block}}
  %0 = mpcomm.scan @cell trips = 2 carries(%h : tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func private @cell(%h: tensor<f32>) -> tensor<f32> {
  return %h : tensor<f32>
}
func.func @scan_c4_number(%h: tensor<f32>, %x: tensor<2xf32>) {
  // expected-error @below {{expects @cell to have 2 arguments, got 1}}
  %0 = mpcomm.scan @cell trips = 2 carries(%h : tensor<f32>) slices(%x : tensor<2xf32>) -> tensor<f32>
  return
}

// -----

func.func private @cell(%h: tensor<f32>, %x: tensor<2x4xf32>) -> tensor<f32> {
  return %h : tensor<f32>
}
func.func @scan_c4_type(%h: tensor<f32>, %x: tensor<2x4xf32>) {
  // expected-error @below {{expects argument #1 of @cell to have type 'tensor<4xf32>', got 'tensor<2x4xf32>'}}
  %0 = mpcomm.scan @cell trips = 2 carries(%h : tensor<f32>) slices(%x : tensor<2x4xf32>) -> tensor<f32>
  return
}

// -----

func.func private @cell(%h: tensor<f32>) -> tensor<f32> {
  return %h : tensor<f32>
}
func.func @scan_c5_number(%h: tensor<f32>) {
  // expected-error @below {{expects @cell to have 2 results, got 1}}
  %0:2 = mpcomm.scan @cell trips = 2 carries(%h : tensor<f32>) -> tensor<f32>, tensor<2xf32>
  return
}

// -----

func.func private @cell(%h: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  return %h, %h : tensor<f32>, tensor<f32>
}
func.func @scan_c5_type(%h: tensor<f32>) {
  // expected-error @below {{expects result #1 of @cell to have type 'tensor<4xf32>', got 'tensor<f32>'}}
  %0:2 = mpcomm.scan @cell trips = 2 carries(%h : tensor<f32>) -> tensor<f32>, tensor<2x4xf32>
  return
}

// -----

func.func private @other(%h: tensor<f32>) -> tensor<f32> {
  return %h : tensor<f32>
}
func.func private @cell(%h: tensor<f32>) -> tensor<f32> {
  // expected-note @below {{got 'func.call'}}
  %0 = func.call @other(%h) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @scan_c6_call(%h: tensor<f32>) {
  // expected-error @below {{expects pure ops in @cell, and none that communicates, calls, loops or updates state}}
  %0 = mpcomm.scan @cell trips = 2 carries(%h : tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func private @cell(%h: tensor<f32>) -> tensor<f32> {
  // expected-note @below {{got 'mpcomm.scan'}}
  // expected-error @below {{expects pure ops in @cell, and none that communicates, calls, loops or updates state}}
  %0 = mpcomm.scan @cell trips = 2 carries(%h : tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func private @cell(%h: tensor<f32>) -> tensor<f32> {
  // expected-note @below {{got 'mpcomm.all_reduce'}}
  %0 = mpcomm.all_reduce(%h) on @mesh axes ["dp"] sum : tensor<f32>
  return %0 : tensor<f32>
}
func.func @scan_c6_collective(%h: tensor<f32>) {
  // expected-error @below {{expects pure ops in @cell, and none that communicates, calls, loops or updates state}}
  %0 = mpcomm.scan @cell trips = 2 carries(%h : tensor<f32>) -> tensor<f32>
  return
}
