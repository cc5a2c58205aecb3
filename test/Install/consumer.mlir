// An out-of-tree project finds the installed package, includes the dialect and
// links it. Nothing of the build tree is used: the consumer sees the prefix.

// REQUIRES: compiler
// The consumer is built plainly, and cannot link libraries that need the
// runtime of a sanitizer.
// UNSUPPORTED: sanitizer

// RUN: rm -rf %t && mkdir %t
// RUN: %cmake --install %mpcomm_obj_root --prefix %t/prefix > %t/install.log
// RUN: %cmake -G Ninja -S %S/Inputs/consumer -B %t/build \
// RUN:   -DCMAKE_PREFIX_PATH=%t/prefix -DCMAKE_C_COMPILER=%cc \
// RUN:   -DCMAKE_CXX_COMPILER=%cxx > %t/configure.log
// RUN: %cmake --build %t/build
// RUN: %t/build/consumer %s | FileCheck %s
// RUN: not grep -r --include=*.cmake %mpcomm_obj_root %t/prefix

// The installed tools run from where they are, and so does the plugin.
// RUN: %t/prefix/bin/mpcomm-opt %s -o /dev/null
// RUN: mlir-opt %s --load-dialect-plugin=%t/prefix/lib/MPCommPlugin.so -o /dev/null

// CHECK: 2 collectives, 48 bytes
mpcomm.mesh @mesh <["dp" = 2]>
func.func @step(%x: tensor<8xf32>, %y: tensor<4xf32>) -> (tensor<8xf32>, tensor<4xf32>) {
  %0 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<8xf32>
  %1 = mpcomm.all_reduce(%y) on @mesh axes ["dp"] mean : tensor<4xf32>
  return %0, %1 : tensor<8xf32>, tensor<4xf32>
}
