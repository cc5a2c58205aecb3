// REQUIRES: ptxas
// RUN: mkdir -p %t.ptx
// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels --mpcomm-gpu-kernels-to-nvvm --mpcomm-assemble-kernels="chip=sm_80,sm_90,sm_100 ptx-directory=%t.ptx" \
// RUN:   --remarks-filter=mpcomm-assemble-kernels --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --implicit-check-not='spill_bytes={{[1-9]}}'
// RUN: FileCheck %s --check-prefix=PTX --input-file=%t.ptx/sm_90.ptx

// Copies in another order of dimensions go through tiles of 64 x 64 elements,
// whose rows are four bytes longer than that; without spills.

// CHECK-DAG: chip=sm_80, kernel=turn8, {{.*}}shared_bytes=4352, spill_bytes=0
// CHECK-DAG: chip=sm_90, kernel=turn8, {{.*}}shared_bytes=4352, spill_bytes=0
// CHECK-DAG: chip=sm_100, kernel=turn8, {{.*}}shared_bytes=4352, spill_bytes=0
// CHECK-DAG: chip=sm_90, kernel=turn16, {{.*}}shared_bytes=8448, spill_bytes=0
// CHECK-DAG: chip=sm_90, kernel=odd, {{.*}}shared_bytes=4352, spill_bytes=0

// 16 bytes of a row are one load, those of a column one store.
// PTX-LABEL: .entry turn8(
//       PTX: ld.global.v4.b32
//       PTX: bar.sync
//       PTX: st.global.v4.b32
//   PTX-NOT: {{(ld|st)}}.global
//       PTX: ret
func.func private @turn8(%a: tensor<4x256x384xf8E4M3FN>, %b: tensor<4x384x256xf8E4M3FN>) -> (tensor<4x384x256xf8E4M3FN>) attributes {mpcomm.kernel} {
  %0 = linalg.transpose ins(%a : tensor<4x256x384xf8E4M3FN>) outs(%b : tensor<4x384x256xf8E4M3FN>) permutation = [0, 2, 1]
  return %0 : tensor<4x384x256xf8E4M3FN>
}
func.func private @turn16(%a: tensor<256x384xbf16>, %b: tensor<384x256xbf16>) -> (tensor<384x256xbf16>) attributes {mpcomm.kernel} {
  %0 = linalg.transpose ins(%a : tensor<256x384xbf16>) outs(%b : tensor<384x256xbf16>) permutation = [1, 0]
  return %0 : tensor<384x256xbf16>
}
func.func private @odd(%a: tensor<33x65xi8>, %b: tensor<65x33xi8>) -> (tensor<65x33xi8>) attributes {mpcomm.kernel} {
  %0 = linalg.transpose ins(%a : tensor<33x65xi8>) outs(%b : tensor<65x33xi8>) permutation = [1, 0]
  return %0 : tensor<65x33xi8>
}
func.func @launches(%a: memref<4x256x384xf8E4M3FN>, %b: memref<4x384x256xf8E4M3FN>, %c: memref<256x384xbf16>, %d: memref<384x256xbf16>,
                    %e: memref<33x65xi8>, %f: memref<65x33xi8>) {
  mprt.launch @turn8 ins(%a : memref<4x256x384xf8E4M3FN>) outs(%b : memref<4x384x256xf8E4M3FN>)
  mprt.launch @turn16 ins(%c : memref<256x384xbf16>) outs(%d : memref<384x256xbf16>)
  mprt.launch @odd ins(%e : memref<33x65xi8>) outs(%f : memref<65x33xi8>)
  return
}
