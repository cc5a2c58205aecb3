// Kernels and launches that no code is generated for, each with an error at the
// op that does not fit.
//
// RUN: %mpcomm-opt %s --mpcomm-generate-kernels --split-input-file --verify-diagnostics

#full = affine_map<(i, j) -> (i, j)>
#flip = affine_map<(i, j) -> (j, i)>
func.func private @k(%x: tensor<4x4xf32>, %d: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {mpcomm.kernel} {
  %e = tensor.empty() : tensor<4x4xf32>
  %0 = linalg.generic {indexing_maps = [#full, #full], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<4x4xf32>
  // expected-error @below {{in kernel 'k': reads an intermediate at other places than those where it was written}}
  %1 = linalg.generic {indexing_maps = [#full, #flip, #full], iterator_types = ["parallel", "parallel"]}
      ins(%0, %0 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%d : tensor<4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
func.func @step(%a: memref<4x4xf32>) {
  mprt.launch @k ins(%a : memref<4x4xf32>) outs(%a : memref<4x4xf32>)
  return
}

// -----

#full = affine_map<(i, j) -> (i, j)>
func.func private @k(%x: tensor<4x8xf32>, %y: tensor<9x8xf32>, %d: tensor<4x8xf32>, %e: tensor<9x8xf32>) -> (tensor<4x8xf32>, tensor<9x8xf32>) attributes {mpcomm.kernel} {
  // expected-error @below {{in kernel 'k': loop 0 of length 4 is none of the row space (9, 8)}}
  %0 = linalg.copy ins(%x : tensor<4x8xf32>) outs(%d : tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = linalg.copy ins(%y : tensor<9x8xf32>) outs(%e : tensor<9x8xf32>) -> tensor<9x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<9x8xf32>
}
func.func @step(%a: memref<4x8xf32>, %b: memref<9x8xf32>) {
  mprt.launch @k ins(%a, %b : memref<4x8xf32>, memref<9x8xf32>) outs(%a, %b : memref<4x8xf32>, memref<9x8xf32>)
  return
}

// -----

#full = affine_map<(i, j) -> (i, j)>
func.func private @k(%x: tensor<4x8xf32>, %d: tensor<4xf32>) -> tensor<4xf32> attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%d : tensor<4xf32>) -> tensor<4xf32>
  // expected-error @below {{in kernel 'k': result #0 is reduced by a body that does not combine it once}}
  %0 = linalg.generic {indexing_maps = [#full, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.subf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @step(%a: memref<4x8xf32>, %b: memref<4xf32>) {
  mprt.launch @k ins(%a : memref<4x8xf32>) outs(%b : memref<4xf32>)
  return
}

// -----

#full = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
func.func private @k(%x: tensor<4x8xf32>, %d: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%d : tensor<8xf32>) -> tensor<8xf32>
  // expected-error @below {{in kernel 'k': result #0 is summed over rows, expected it to be returned, once, and not read}}
  %0 = linalg.generic {indexing_maps = [#full, #column], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<4x8xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %0, %0 : tensor<8xf32>, tensor<8xf32>
}
func.func @step(%a: memref<4x8xf32>, %b: memref<8xf32>) {
  mprt.launch @k ins(%a : memref<4x8xf32>) outs(%b, %b : memref<8xf32>, memref<8xf32>)
  return
}

// -----

func.func private @k(%x: tensor<8xf32>, %d: tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel} {
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%d : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %c = arith.constant 1.0 : f32
    // expected-error @below {{in kernel 'k': has no code in a kernel}}
    %s = func.call @f(%a) : (f32) -> f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @f(f32) -> f32
func.func @step(%a: memref<8xf32>) {
  mprt.launch @k ins(%a : memref<8xf32>) outs(%a : memref<8xf32>)
  return
}

// -----

func.func private @k(%x: tensor<8xf32>, %d: tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel} {
  // expected-error @below {{in kernel 'k': expected a linalg op on tensors}}
  %0 = tensor.extract_slice %x[0] [8] [1] : tensor<8xf32> to tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @step(%a: memref<8xf32>) {
  mprt.launch @k ins(%a : memref<8xf32>) outs(%a : memref<8xf32>)
  return
}

// -----

func.func private @k(%x: tensor<8xf32>, %d: tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel} {
  // expected-error @below {{in kernel 'k': expected a constant of one value}}
  %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%c : tensor<8xf32>) outs(%d : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @step(%a: memref<8xf32>) {
  mprt.launch @k ins(%a : memref<8xf32>) outs(%a : memref<8xf32>)
  return
}

// -----

func.func private @k(%d: tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel} {
  %e = tensor.empty() : tensor<8xf32>
  // expected-error @below {{in kernel 'k': reads elements that nothing wrote}}
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%e : tensor<8xf32>) outs(%d : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @step(%a: memref<8xf32>) {
  mprt.launch @k outs(%a : memref<8xf32>)
  return
}

// -----

func.func private @k(%x: tensor<8xf32>, %d: tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel} {
  // expected-error @below {{in kernel 'k': returns argument #0 uncopied}}
  return %x : tensor<8xf32>
}
func.func @step(%a: memref<8xf32>) {
  mprt.launch @k ins(%a : memref<8xf32>) outs(%a : memref<8xf32>)
  return
}

// -----

// expected-error @below {{in kernel 'k': argument #0 has type 'tensor<8xf8E3M4>', expected a tensor of static shape of numbers}}
func.func private @k(%x: tensor<8xf8E3M4>, %d: tensor<8xf8E3M4>) -> tensor<8xf8E3M4> attributes {mpcomm.kernel} {
  %0 = linalg.copy ins(%x : tensor<8xf8E3M4>) outs(%d : tensor<8xf8E3M4>) -> tensor<8xf8E3M4>
  return %0 : tensor<8xf8E3M4>
}
func.func @step(%a: memref<8xf8E3M4>) {
  mprt.launch @k ins(%a : memref<8xf8E3M4>) outs(%a : memref<8xf8E3M4>)
  return
}

// -----

#full = affine_map<(i, j) -> (i, j)>
func.func private @k(%x: tensor<4x4xf32>, %d: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {mpcomm.kernel} {
  // expected-error @below {{in kernel 'k': reads a destination at other places than those where it is written}}
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, #full], iterator_types = ["parallel", "parallel"]}
      ins(%d : tensor<4x4xf32>) outs(%d : tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
func.func @step(%a: memref<4x4xf32>) {
  mprt.launch @k ins(%a : memref<4x4xf32>) outs(%a : memref<4x4xf32>)
  return
}

// -----

// Each of the four rows would replace p once more.
#full = affine_map<(i, j, k) -> (i, j, k)>
func.func private @k(%x: tensor<4x8x16xf32>, %p: tensor<8xf32>, %d: tensor<4x8x16xf32>) -> (tensor<8xf32>, tensor<4x8x16xf32>) attributes {mpcomm.kernel} {
  // expected-error @below {{in kernel 'k': reads a destination that several rows replace, expected only the op that writes it to do so, and its results to be only returned}}
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%p : tensor<8xf32>) outs(%p : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#full, affine_map<(i, j, k) -> (j)>, #full], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %0 : tensor<4x8x16xf32>, tensor<8xf32>) outs(%d : tensor<4x8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x8x16xf32>
  return %0, %1 : tensor<8xf32>, tensor<4x8x16xf32>
}
func.func @step(%a: memref<4x8x16xf32>, %b: memref<8xf32>) {
  mprt.launch @k ins(%a : memref<4x8x16xf32>) outs(%b, %a : memref<8xf32>, memref<4x8x16xf32>)
  return
}

// -----

// The same, where the row needs another result of the op that replaces p.
#full = affine_map<(i, j, k) -> (i, j, k)>
#one = affine_map<(i) -> (i)>
func.func private @k(%x: tensor<4x8x16xf32>, %p: tensor<8xf32>, %d: tensor<4x8x16xf32>) -> (tensor<8xf32>, tensor<4x8x16xf32>) attributes {mpcomm.kernel} {
  %e = tensor.empty() : tensor<8xf32>
  // expected-error @below {{in kernel 'k': reads a destination that several rows replace, expected only the op that writes it to do so, and its results to be only returned}}
  %0:2 = linalg.generic {indexing_maps = [#one, #one, #one], iterator_types = ["parallel"]}
      ins(%p : tensor<8xf32>) outs(%p, %e : tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32, %u: f32):
    %s = arith.addf %a, %a : f32
    %m = arith.mulf %a, %a : f32
    linalg.yield %s, %m : f32, f32
  } -> (tensor<8xf32>, tensor<8xf32>)
  %1 = linalg.generic {indexing_maps = [#full, affine_map<(i, j, k) -> (j)>, #full], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %0#1 : tensor<4x8x16xf32>, tensor<8xf32>) outs(%d : tensor<4x8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x8x16xf32>
  return %0#0, %1 : tensor<8xf32>, tensor<4x8x16xf32>
}
func.func @step(%a: memref<4x8x16xf32>, %b: memref<8xf32>) {
  mprt.launch @k ins(%a : memref<4x8x16xf32>) outs(%b, %a : memref<8xf32>, memref<4x8x16xf32>)
  return
}

// -----

func.func private @k(%x: tensor<8xf32>, %d: tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel} {
  %0 = linalg.copy ins(%x : tensor<8xf32>) outs(%d : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @step(%a: memref<8xf32, strided<[?]>>, %b: memref<8xf32>) {
  // expected-error @below {{'mprt.launch' op has operand #0 of type 'memref<8xf32, strided<[?]>>', expected strides known and positive}}
  mprt.launch @k ins(%a : memref<8xf32, strided<[?]>>) outs(%b : memref<8xf32>)
  return
}

// -----

func.func private @k(%x: tensor<8xf32>, %d: tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel} {
  %0 = linalg.copy ins(%x : tensor<8xf32>) outs(%d : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @step(%a: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{'mprt.launch' op has operand #0 of type 'tensor<8xf32>', expected a buffer}}
  %0 = mprt.launch @k ins(%a : tensor<8xf32>) outs(%a : tensor<8xf32>) -> (tensor<8xf32>)
  return %0 : tensor<8xf32>
}

// -----

func.func private @k(%x: tensor<8xf32>, %d: tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel} {
  %0 = linalg.copy ins(%x : tensor<8xf32>) outs(%d : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @step(%a: memref<8xi32>, %b: memref<8xf32>) {
  // expected-error @below {{'mprt.launch' op has operand #0 of 'i32', but the kernel takes 'f32'}}
  mprt.launch @k ins(%a : memref<8xi32>) outs(%b : memref<8xf32>)
  return
}

// -----

// A sum over rows in bf16 needs a contiguous destination.
#full = affine_map<(i, j, k) -> (i, j, k)>
func.func private @k(%x: tensor<4x3x8xbf16>, %d: tensor<3x8xbf16>) -> tensor<3x8xbf16> attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : bf16
  %f = linalg.fill ins(%zero : bf16) outs(%d : tensor<3x8xbf16>) -> tensor<3x8xbf16>
  // expected-error @below {{in kernel 'k': a sum over rows in 'bf16' needs a fill and a contiguous destination of at most 65536 elements}}
  %0 = linalg.generic {indexing_maps = [#full, affine_map<(i, j, k) -> (j, k)>], iterator_types = ["reduction", "parallel", "parallel"]}
      ins(%x : tensor<4x3x8xbf16>) outs(%f : tensor<3x8xbf16>) {
  ^bb0(%a: bf16, %o: bf16):
    %s = arith.addf %a, %o : bf16
    linalg.yield %s : bf16
  } -> tensor<3x8xbf16>
  return %0 : tensor<3x8xbf16>
}
func.func @step(%a: memref<4x3x8xbf16>, %b: memref<3x8xbf16, strided<[20, 1]>>) {
  mprt.launch @k ins(%a : memref<4x3x8xbf16>) outs(%b : memref<3x8xbf16, strided<[20, 1]>>)
  return
}

// -----

func.func @k(%x: tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel} {
  return %x : tensor<8xf32>
}
func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{names kernel @k, expected only mprt.launch to do so}}
  %0 = func.call @k(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// expected-error @below {{in kernel 'indices': argument #0 has type 'tensor<4xindex>', expected a tensor of static shape of numbers}}
func.func private @indices(%x: tensor<4xindex>, %d: tensor<4xf32>) -> tensor<4xf32> attributes {mpcomm.kernel} {
  return %d : tensor<4xf32>
}
func.func @f(%x: memref<4xindex>, %d: memref<4xf32>) {
  mprt.launch @indices ins(%x : memref<4xindex>) outs(%d : memref<4xf32>)
  return
}

// -----

func.func private @index_between(%d: tensor<4xf32>) -> tensor<4xf32> attributes {mpcomm.kernel} {
  %i = tensor.empty() : tensor<4xindex>
  // expected-error @below {{in kernel 'index_between': makes 'tensor<4xindex>', expected numbers}}
  %n = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%i : tensor<4xindex>) {
  ^bb0(%o: index):
    %a = linalg.index 0 : index
    linalg.yield %a : index
  } -> tensor<4xindex>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%n : tensor<4xindex>) outs(%d : tensor<4xf32>) {
  ^bb0(%a: index, %o: f32):
    %b = arith.index_cast %a : index to i32
    %c = arith.sitofp %b : i32 to f32
    linalg.yield %c : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func @f(%d: memref<4xf32>) {
  mprt.launch @index_between outs(%d : memref<4xf32>)
  return
}

// -----

// Another place may have been written by then.
func.func private @extract_of_destination(%x: tensor<4xi32>, %d: tensor<4xf32>) -> tensor<4xf32> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xi32>) outs(%d : tensor<4xf32>) {
  ^bb0(%a: i32, %o: f32):
    %b = arith.index_cast %a : i32 to index
    // expected-error @below {{in kernel 'extract_of_destination': reads a destination, expected an input}}
    %c = tensor.extract %d[%b] : tensor<4xf32>
    linalg.yield %c : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func @f(%x: memref<4xi32>, %d: memref<4xf32>) {
  mprt.launch @extract_of_destination ins(%x : memref<4xi32>) outs(%d : memref<4xf32>)
  return
}

// -----

// A scatter is alone in its kernel.
// expected-error @below {{in kernel 'with_more': expected a scatter alone, or onto a fill}}
func.func private @with_more(%u: tensor<4x8xf32>, %i: tensor<4xi64>, %d: tensor<16x8xf32>) -> tensor<16x8xf32> attributes {mpcomm.kernel} {
  %e = tensor.empty() : tensor<16x8xf32>
  %c = linalg.copy ins(%d : tensor<16x8xf32>) outs(%e : tensor<16x8xf32>) -> tensor<16x8xf32>
  %r = mprt.scatter "sum" dim = 0 batch_dims = 0 ins(%u, %i : tensor<4x8xf32>, tensor<4xi64>) outs(%c : tensor<16x8xf32>)
  return %r : tensor<16x8xf32>
}
func.func @f(%u: memref<4x8xf32>, %i: memref<4xi64>, %d: memref<16x8xf32>) {
  mprt.launch @with_more ins(%u, %i : memref<4x8xf32>, memref<4xi64>) outs(%d : memref<16x8xf32>)
  return
}

// -----

// expected-error @below {{in kernel 'to_input': expected to scatter to the destination}}
func.func private @to_input(%u: tensor<4x8xf32>, %i: tensor<4xi64>, %x: tensor<16x8xf32>, %d: tensor<16x8xf32>) -> tensor<16x8xf32> attributes {mpcomm.kernel} {
  %r = mprt.scatter "sum" dim = 0 batch_dims = 0 ins(%u, %i : tensor<4x8xf32>, tensor<4xi64>) outs(%x : tensor<16x8xf32>)
  return %r : tensor<16x8xf32>
}
func.func @f(%u: memref<4x8xf32>, %i: memref<4xi64>, %x: memref<16x8xf32>, %d: memref<16x8xf32>) {
  mprt.launch @to_input ins(%u, %i, %x : memref<4x8xf32>, memref<4xi64>, memref<16x8xf32>) outs(%d : memref<16x8xf32>)
  return
}

// -----

// expected-error @below {{in kernel 'several': expected arguments and constants of one value}}
func.func private @several(%u: tensor<2xf32>, %d: tensor<16xf32>) -> tensor<16xf32> attributes {mpcomm.kernel} {
  %i = arith.constant dense<[1, 2]> : tensor<2xi64>
  %r = mprt.scatter "sum" dim = 0 batch_dims = 0 ins(%u, %i : tensor<2xf32>, tensor<2xi64>) outs(%d : tensor<16xf32>)
  return %r : tensor<16xf32>
}
func.func @f(%u: memref<2xf32>, %d: memref<16xf32>) {
  mprt.launch @several ins(%u : memref<2xf32>) outs(%d : memref<16xf32>)
  return
}

// -----

// expected-error @below {{in kernel 'odd': expected elements that kernels have in memory}}
func.func private @odd(%u: tensor<2xi7>, %i: tensor<2xi64>, %d: tensor<16xi7>) -> tensor<16xi7> attributes {mpcomm.kernel} {
  %r = mprt.scatter "sum" dim = 0 batch_dims = 0 ins(%u, %i : tensor<2xi7>, tensor<2xi64>) outs(%d : tensor<16xi7>)
  return %r : tensor<16xi7>
}
func.func @f(%u: memref<2xi7>, %i: memref<2xi64>, %d: memref<16xi7>) {
  mprt.launch @odd ins(%u, %i : memref<2xi7>, memref<2xi64>) outs(%d : memref<16xi7>)
  return
}
