// RUN: mpcomm-opt %s --convert-mpcomm-to-mprt --split-input-file | FileCheck %s

// Ranks that run different functions give what meets one number: by its tag, or
// by its place among the untagged collectives of its communicator. A group's
// channels are communicators of their own.

// CHECK: module attributes {mprt.channels = array<i64: 1, 2, 0, 0>, mprt.communicators = {{\[\[}}"pp"], ["pp"], ["dp"], ["pp"]], mprt.mesh = @mesh}
module {
  mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
  mpcomm.program @step on @mesh axes ["pp"] runs [@stage0, @stage1]

  // CHECK-LABEL: func.func @stage0
  func.func @stage0(%x: tensor<4xf32>, %g: tensor<2xf32>, %l: tensor<f32>) -> (tensor<4xf32>, tensor<2xf32>, tensor<f32>) {
    // CHECK: mprt.start "send" "" id = [[F:[0-9]+]] communicator = 0 {{.*}} ins({{.*}}) outs() {mpcomm.tag = "F0"}
    mpcomm.send(%x) on @mesh axes ["pp"] to = 1 channel = 1 {mpcomm.tag = "F0"} : tensor<4xf32>
    // CHECK: mprt.start "recv" "" id = [[B:[0-9]+]] communicator = 1 {{.*}} {mpcomm.tag = "B0"}
    %b = mpcomm.recv on @mesh axes ["pp"] from = 1 channel = 2 {mpcomm.tag = "B0"} : tensor<4xf32>
    // Between the ranks of one stage: nobody else has it.
    // CHECK: mprt.start "all_reduce" "mean" id = [[G:[0-9]+]] communicator = 2
    %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<2xf32>
    // CHECK: mprt.start "all_reduce" "sum" id = [[L:[0-9]+]] communicator = 3
    %s = mpcomm.all_reduce(%l) on @mesh axes ["pp"] sum : tensor<f32>
    // CHECK: mprt.start "barrier" "" id = [[E:[0-9]+]] communicator = 3
    mpcomm.barrier on @mesh axes ["pp"]
    return %b, %r, %s : tensor<4xf32>, tensor<2xf32>, tensor<f32>
  }

  // CHECK-LABEL: func.func @stage1
  func.func @stage1(%g: tensor<3xf32>, %l: tensor<f32>) -> (tensor<3xf32>, tensor<f32>) {
    // CHECK: mprt.start "recv" "" id = [[F]] communicator = 0 {{.*}} peer = 0
    %f = mpcomm.recv on @mesh axes ["pp"] from = 0 channel = 1 {mpcomm.tag = "F0"} : tensor<4xf32>
    // CHECK: mprt.start "send" "" id = [[B]] communicator = 1
    mpcomm.send(%f) on @mesh axes ["pp"] to = 0 channel = 2 {mpcomm.tag = "B0"} : tensor<4xf32>
    // CHECK: mprt.start "all_reduce" "sum" id = [[L]] communicator = 3
    %s = mpcomm.all_reduce(%l) on @mesh axes ["pp"] sum : tensor<f32>
    // CHECK-NOT: id = [[G]] communicator
    // CHECK: mprt.start "all_reduce" "mean" id = {{[0-9]+}} communicator = 2
    %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<3xf32>
    // CHECK: mprt.start "barrier" "" id = [[E]] communicator = 3
    mpcomm.barrier on @mesh axes ["pp"]
    return %r, %s : tensor<3xf32>, tensor<f32>
  }
}

// -----

// The same tag in two programs, or on two communicators, is another collective;
// each start of one collective has a number of its own.

// CHECK-NOT: mprt.channels
module {
  mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
  mpcomm.program @step on @mesh axes ["pp"] runs [@a0, @a1]
  mpcomm.program @evaluate on @mesh axes ["pp"] runs [@b0, @b1]
  // CHECK-LABEL: func.func @a0
  func.func @a0(%x: tensor<f32>, %y: tensor<bf16>) -> (tensor<f32>, tensor<bf16>) {
    // CHECK: mprt.start {{.*}} id = 0 communicator = 0 {{.*}} {mpcomm.tag = "loss"}
    // CHECK: mprt.start {{.*}} id = 1 communicator = 0 {{.*}} {mpcomm.tag = "loss"}
    %r:2 = mpcomm.all_reduce(%x, %y) on @mesh axes ["pp"] sum {mpcomm.tag = "loss"} : tensor<f32>, tensor<bf16>
    return %r#0, %r#1 : tensor<f32>, tensor<bf16>
  }
  // CHECK-LABEL: func.func @a1
  func.func @a1(%x: tensor<f32>, %y: tensor<bf16>) -> (tensor<f32>, tensor<bf16>) {
    // CHECK: mprt.start {{.*}} id = 0 communicator = 0
    // CHECK: mprt.start {{.*}} id = 1 communicator = 0
    %r:2 = mpcomm.all_reduce(%x, %y) on @mesh axes ["pp"] sum {mpcomm.tag = "loss"} : tensor<f32>, tensor<bf16>
    return %r#0, %r#1 : tensor<f32>, tensor<bf16>
  }
  // CHECK-LABEL: func.func @b0
  func.func @b0(%x: tensor<f32>) -> tensor<f32> {
    // CHECK: mprt.start {{.*}} id = 2 communicator = 0
    %r = mpcomm.all_reduce(%x) on @mesh axes ["pp"] sum {mpcomm.tag = "loss"} : tensor<f32>
    return %r : tensor<f32>
  }
  // CHECK-LABEL: func.func @b1
  func.func @b1(%x: tensor<f32>) -> tensor<f32> {
    // CHECK: mprt.start {{.*}} id = 2 communicator = 0
    %r = mpcomm.all_reduce(%x) on @mesh axes ["pp"] sum {mpcomm.tag = "loss"} : tensor<f32>
    // CHECK: mprt.start {{.*}} id = 3 communicator = 1
    %s = mpcomm.all_reduce(%r) on @mesh axes ["dp"] mean {mpcomm.tag = "loss"} : tensor<f32>
    return %s : tensor<f32>
  }
}
