// RUN: mpcomm-opt %s --mpcomm-forecast-step="cluster=%S/Inputs/one-level.json" -split-input-file | FileCheck %s

// The cluster has 10 us a message and 1e9 B/s: a ring of two ranks takes 20 us and bytes / 1e9 s,
// here 16.384 us. The first row is of a link 64 times as fast, the last of one of 1/1024.

// CHECK: bandwidth = array<f64: 6.400000e+10, 45254833995.939041, {{.*}}, 1381067.9320049756, 976562.5>,
// CHECK-SAME: cluster = {{.*}}one level{{.*}}, communication = array<f64: 2.025600e-05, {{.*}}, 3.638400e-05, {{.*}}, 0.011883283203031446, 0.016797216>,
// CHECK-SAME: compute = 0.000000e+00 : f64, link = "network",
// CHECK-SAME: step = array<f64: 2.025600e-05, {{.*}}, 3.638400e-05, {{.*}}, 0.011883283203031446, 0.016797216>
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %f = mpcomm.async {
    %0 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<64x64xf32>
    mpcomm.yield %0 : tensor<64x64xf32>
  } : !mpcomm.future<tensor<64x64xf32>>
  %r = mpcomm.await %f : !mpcomm.future<tensor<64x64xf32>>
  return %r : tensor<64x64xf32>
}

// -----

// Nothing is communicated: there is nothing to compare.
// CHECK-NOT: mprt.forecast
func.func @train_step(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  return %x : tensor<64x64xf32>
}

// -----

// Of a message a rank cannot tell how long it has waited for the other.
// CHECK-NOT: mprt.forecast
mpcomm.mesh @mesh <["pp" = 2]>
func.func @train_step(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  mpcomm.send(%x) on @mesh axes ["pp"] to = 1 : tensor<64x64xf32>
  return %x : tensor<64x64xf32>
}
