// What cannot be modelled is an error that says why.

// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics \
// RUN:   -pass-pipeline="builtin.module(func.func(test-mpcomm-print-step-model))"
// RUN: not mpcomm-opt %s -pass-pipeline="builtin.module(func.func(test-mpcomm-print-step-model{cluster=nowhere}))" 2>&1 \
// RUN:   | FileCheck %s

// CHECK: error: cannot read 'nowhere': {{.*}}; neither is it a preset: expected dgx-a100,

// expected-error@+1 {{expected a body of one block, to model the step of 'declaration'}}
func.func private @declaration()

// -----

// expected-error@+1 {{expected a body of one block, to model the step of 'blocks'}}
func.func @blocks() {
  cf.br ^exit
^exit:
  return
}

// -----

func.func @dynamic(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected values of static shape and at most 2^48 elements, to model the step, got 'tensor<?xf32>'}}
  %0 = tensor.cast %x : tensor<4xf32> to tensor<?xf32>
  return
}

// -----

// expected-error@+1 {{expected values of static shape and at most 2^48 elements, to model the step, got 'tensor<*xf32>'}}
func.func @unranked(%x: tensor<*xf32>) {
  return
}

// -----

// expected-error@+1 {{at most 2^48 elements, to model the step, got 'tensor<9999999999999x9999999999999xf32>'}}
func.func @large(%x: tensor<9999999999999x9999999999999xf32>) {
  return
}

// -----

// 17 times 2^58 bytes.
// expected-error@+1 {{expected values of at most 2^62 bytes in all, to model the step of 'total'}}
func.func @total(%x0: tensor<281474976710656xi8192>, %x1: tensor<281474976710656xi8192>, %x2: tensor<281474976710656xi8192>,
           %x3: tensor<281474976710656xi8192>, %x4: tensor<281474976710656xi8192>, %x5: tensor<281474976710656xi8192>,
           %x6: tensor<281474976710656xi8192>, %x7: tensor<281474976710656xi8192>, %x8: tensor<281474976710656xi8192>,
           %x9: tensor<281474976710656xi8192>, %x10: tensor<281474976710656xi8192>, %x11: tensor<281474976710656xi8192>,
           %x12: tensor<281474976710656xi8192>, %x13: tensor<281474976710656xi8192>, %x14: tensor<281474976710656xi8192>,
           %x15: tensor<281474976710656xi8192>, %x16: tensor<281474976710656xi8192>) {
  return
}
