// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels --mpcomm-batch-launches | FileCheck %s

// Kernels of attention are one call of the runtime if no mask, or one that is
// the same in each step, goes with them: a library may then compute it instead.
// Such launches stay together.

!x = memref<1x32x1x16xbf16>
!l = memref<1x1x32xf32>
!m = memref<32x32xi1>

memref.global "private" constant @mask : memref<32x32xi1> = dense<true>

// CHECK-LABEL: func.func @no_mask
// CHECK-NEXT: mprt.launch @{{.*}} {mprt.attention = {kind = "attention", scale = 2.500000e-01 : f64}}
// CHECK-NEXT: mprt.launch @{{.*}}_deltas {{.*}} {mprt.attention = {kind = "attention_grad", scale = 2.500000e-01 : f64}}
// CHECK-NEXT: mprt.launch @{{.*}}_columns {{.*}} {mprt.attention}
// CHECK-NEXT: mprt.launch @{{.*}}_rows {{.*}} {mprt.attention}
// CHECK-NEXT: return
func.func @no_mask(%q: !x, %o: !x, %l: !l, %dk: !x, %dv: !x) {
  mprt.attention "attention" scale = 0.25 ins(%q, %q, %q : !x, !x, !x) outs(%o, %l : !x, !l)
  mprt.attention "attention_grad" scale = 0.25 ins(%q, %q, %q, %q, %o, %l : !x, !x, !x, !x, !x, !l) outs(%q, %dk, %dv : !x, !x, !x)
  return
}

// A mask that is a constant, that is made of constants, and that is a buffer
// that no step writes.
// CHECK-LABEL: func.func @fixed
// CHECK: mprt.launch @{{.*}}_mask{{.*}} {mprt.attention = {kind = "attention", scale = 2.500000e-01 : f64}}
// CHECK-NEXT: mprt.launch @{{.*}} {mprt.attention}
// CHECK-NEXT: mprt.launch @{{.*}}_mask{{.*}} {mprt.attention = {kind = "attention", scale = 5.000000e-01 : f64}}
// CHECK-NEXT: mprt.launch @{{.*}} {mprt.attention}
// CHECK-NEXT: mprt.launch @{{.*}}_mask{{.*}} {mprt.attention = {kind = "attention", scale = 1.000000e+00 : f64}}
// CHECK-NEXT: mprt.launch @{{.*}} {mprt.attention}
// CHECK-NEXT: return
func.func @fixed(%q: !x, %o: !x, %l: !l, %m: !m {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "m"}, %made: !m) {
  %c = memref.get_global @mask : !m
  mprt.attention "attention" scale = 0.25 ins(%q, %q, %q, %c : !x, !x, !x, !m) outs(%o, %l : !x, !l)
  mprt.attention "attention" scale = 0.5 ins(%q, %q, %q, %made : !x, !x, !x, !m) outs(%o, %l : !x, !l) {mprt.fixed_mask}
  mprt.attention "attention" scale = 1.0 ins(%q, %q, %q, %m : !x, !x, !x, !m) outs(%o, %l : !x, !l)
  return
}

// A mask of the batch, a buffer that the step replaces, and what another function
// reads of it.
// CHECK-LABEL: func.func @others
// CHECK-NOT: mprt.attention
// CHECK: return
func.func @others(%q: !x, %o: !x, %l: !l, %m: !m {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "m"}, %n: !m {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "n", mprt.update}) {
  mprt.attention "attention" scale = 0.25 ins(%q, %q, %q, %m : !x, !x, !x, !m) outs(%o, %l : !x, !l)
  mprt.attention "attention" scale = 0.25 ins(%q, %q, %q, %n : !x, !x, !x, !m) outs(%o, %l : !x, !l)
  return
}

// CHECK-LABEL: func.func @evaluate
// CHECK-NOT: mprt.attention
// CHECK: return
func.func @evaluate(%q: !x, %o: !x, %l: !l, %n: !m {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "n"}) {
  mprt.attention "attention" scale = 0.25 ins(%q, %q, %q, %n : !x, !x, !x, !m) outs(%o, %l : !x, !l)
  return
}
