// RUN: mpcomm-opt %s --convert-linalg-to-mprt --split-input-file --verify-diagnostics

// What no matrix product describes is an error at the op.

func.func @no_unit_stride(%a: memref<8x4xf32, strided<[16, 2]>>, %b: memref<4x16xf32>, %c: memref<8x16xf32>) {
  // expected-error @below {{cannot be a matrix product: its first operand has no unit stride}}
  linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%a, %b : memref<8x4xf32, strided<[16, 2]>>, memref<4x16xf32>) outs(%c : memref<8x16xf32>)
  return
}

// -----

// Two products that add up in 16 bits would round in between.
func.func @rounds_between(%a: memref<2x8x4xbf16>, %b: memref<2x4x16xbf16>, %c: memref<8x16xbf16>) {
  // expected-error @below {{would round its sum to 'bf16' in each of 2 matrix products: expects operands, or copies of them, that one product can read}}
  linalg.contract indexing_maps = [affine_map<(m, n, j, k) -> (j, m, k)>, affine_map<(m, n, j, k) -> (j, k, n)>, affine_map<(m, n, j, k) -> (m, n)>] {mprt.overwrite}
      ins(%a, %b : memref<2x8x4xbf16>, memref<2x4x16xbf16>) outs(%c : memref<8x16xbf16>)
  return
}

// -----

func.func @dynamic(%a: memref<?x4xf32>, %b: memref<4x16xf32>, %c: memref<?x16xf32>) {
  // expected-error @below {{expects sizes that are static}}
  linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%a, %b : memref<?x4xf32>, memref<4x16xf32>) outs(%c : memref<?x16xf32>)
  return
}

// -----

// The indices of a matrix product alone.
func.func @max_plus(%a: memref<8x4xf32>, %b: memref<4x16xf32>, %c: memref<8x16xf32>) {
  // expected-error @below {{is no contraction: it should be in a kernel}}
  linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
                  iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<8x4xf32>, memref<4x16xf32>) outs(%c : memref<8x16xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %s = arith.addf %x, %y : f32
    %m = arith.maximumf %s, %z : f32
    linalg.yield %m : f32
  }
  return
}

// -----

// Complex numbers have no matrix product.
func.func @complex(%a: memref<2x8x4xcomplex<f32>>, %b: memref<2x4x16xcomplex<f32>>, %c: memref<8x16xcomplex<f32>>) {
  // expected-error @below {{has elements of type 'complex<f32>', expected floats or integers}}
  linalg.contract indexing_maps = [affine_map<(m, n, j, k) -> (j, m, k)>, affine_map<(m, n, j, k) -> (j, k, n)>, affine_map<(m, n, j, k) -> (m, n)>] {mprt.overwrite}
      ins(%a, %b : memref<2x8x4xcomplex<f32>>, memref<2x4x16xcomplex<f32>>) outs(%c : memref<8x16xcomplex<f32>>)
  return
}
