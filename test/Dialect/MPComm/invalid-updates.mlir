// What the verifier of updates with a region refuses. Each case names the constraint that it breaks.

// RUN: mpcomm-opt %s --split-input-file --verify-diagnostics

func.func @update_c1(%p: tensor<8xf32>, %g: tensor<4xf32>) {
  // expected-error @below {{expects the parameter's type 'tensor<8xf32>' for 'grad', got 'tensor<4xf32>'}}
  %0 = mpcomm.update %p, %g : (tensor<8xf32>, tensor<4xf32>) -> tensor<8xf32> {
  ^bb0(%q: tensor<8xf32>, %d: tensor<4xf32>):
    mpcomm.yield %q : tensor<8xf32>
  }
  return
}

// -----

func.func @update_c2_type(%p: tensor<8xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expects arguments of the region of types 'tensor<8xf32>', 'tensor<8xf32>', 'tensor<f32>', got 'tensor<8xf32>', 'tensor<8xf32>', 'tensor<f64>'}}
  %0 = mpcomm.update %p, %p, %lr : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32> {
  ^bb0(%q: tensor<8xf32>, %d: tensor<8xf32>, %r: tensor<f64>):
    mpcomm.yield %q : tensor<8xf32>
  }
  return
}

// -----

func.func @update_c2_count(%p: tensor<8xf32>) {
  // expected-error @below {{expects arguments of the region of types}}
  %0 = mpcomm.update %p, %p : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%q: tensor<8xf32>):
    mpcomm.yield %q : tensor<8xf32>
  }
  return
}

// -----

func.func @update_c3_yield(%p: tensor<8xf32>, %m: tensor<f32>) {
  // expected-error @below {{expects to return and to yield the types of the parameter and of the states, 'tensor<8xf32>', 'tensor<f32>', got 'tensor<8xf32>', 'tensor<f32>' and 'tensor<8xf32>'}}
  %0:2 = mpcomm.update %p, %p, %m : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<f32>) {
  ^bb0(%q: tensor<8xf32>, %d: tensor<8xf32>, %n: tensor<f32>):
    mpcomm.yield %q : tensor<8xf32>
  }
  return
}

// -----

func.func @update_c3_states(%p: tensor<8xf32>) {
  // expected-error @below {{expects to return and to yield the types of the parameter and of the states, 'tensor<8xf32>', got 'tensor<8xf32>', 'tensor<8xf32>' and 'tensor<8xf32>', 'tensor<8xf32>'}}
  %0:2 = mpcomm.update %p, %p : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%q: tensor<8xf32>, %d: tensor<8xf32>):
    mpcomm.yield %q, %q : tensor<8xf32>, tensor<8xf32>
  }
  return
}

// -----

func.func @update_c3_end(%p: tensor<8xf32>) {
  // expected-error @below {{expects to return and to yield}}
  %0 = mpcomm.update %p, %p : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%q: tensor<8xf32>, %d: tensor<8xf32>):
    llvm.unreachable
  }
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func @update_c4_collective(%p: tensor<8xf32>) {
  // expected-error @below {{expects pure ops without regions that neither communicate nor depend on the rank nor update, got 'mpcomm.all_reduce'}}
  %0 = mpcomm.update %p, %p : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%q: tensor<8xf32>, %d: tensor<8xf32>):
    // expected-note @below {{the op is here}}
    %r = mpcomm.all_reduce(%d) on @mesh axes ["dp"] sum : tensor<8xf32>
    mpcomm.yield %r : tensor<8xf32>
  }
  return
}

// -----

func.func @update_c4_update(%p: tensor<8xf32>, %lr: tensor<f32>) {
  // expected-error @below {{nor update, got 'mpcomm.sgd_update'}}
  %0 = mpcomm.update %p, %p, %lr : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32> {
  ^bb0(%q: tensor<8xf32>, %d: tensor<8xf32>, %r: tensor<f32>):
    // expected-note @below {{the op is here}}
    %n = mpcomm.sgd_update %q, %d, %r, weight_decay = 0.0 : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    mpcomm.yield %n : tensor<8xf32>
  }
  return
}

// -----

func.func @update_c4_region(%p: tensor<8xf32>, %lr: tensor<f32>) {
  // expected-error @below {{got 'linalg.generic'}}
  %0 = mpcomm.update %p, %p : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%q: tensor<8xf32>, %d: tensor<8xf32>):
    // expected-note @below {{the op is here}}
    %n = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
        ins(%q : tensor<8xf32>) outs(%d : tensor<8xf32>) {
    ^bb0(%x: f32, %y: f32):
      linalg.yield %x : f32
    } -> tensor<8xf32>
    mpcomm.yield %n : tensor<8xf32>
  }
  return
}

// -----

func.func @isolated(%p: tensor<8xf32>, %other: tensor<8xf32>) {
  // expected-note @below {{required by region isolation constraints}}
  %0 = mpcomm.update %p, %p : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%q: tensor<8xf32>, %d: tensor<8xf32>):
    // expected-error @below {{using value defined outside the region}}
    mpcomm.yield %other : tensor<8xf32>
  }
  return
}
