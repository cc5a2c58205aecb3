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

// A pass in a plugin of its own, as docs/Guides/PassPlugin.md has it.
// RUN: %cmake -G Ninja -S %mpcomm_src_root/docs/examples/pass_plugin -B %t/plugin \
// RUN:   -DCMAKE_PREFIX_PATH=%t/prefix -DCMAKE_C_COMPILER=%cc \
// RUN:   -DCMAKE_CXX_COMPILER=%cxx > %t/configure-plugin.log
// RUN: %cmake --build %t/plugin
// RUN: not %t/prefix/bin/mpcomm-opt %s \
// RUN:   --load-pass-plugin=%t/plugin/CollectiveBytes.so \
// RUN:   --pass-pipeline='builtin.module(func.func(collective-bytes{limit=40}))' \
// RUN:   2>&1 | FileCheck %s --check-prefix=PLUGIN
// RUN: mlir-opt %s --load-dialect-plugin=%t/prefix/lib/MPCommPlugin.so \
// RUN:   --load-pass-plugin=%t/plugin/CollectiveBytes.so -o /dev/null \
// RUN:   --pass-pipeline='builtin.module(func.func(collective-bytes))' \
// RUN:   2>&1 | FileCheck %s --check-prefix=BYTES
// PLUGIN: error: 'func.func' op carries 48 bytes, expected at most 40
// BYTES: remark: carries 32 bytes
// BYTES: remark: carries 16 bytes

// What is not installed is not found: the build folder has no package.
// RUN: not %cmake -S %S/Inputs/consumer -B %t/none \
// RUN:   -DCMAKE_PREFIX_PATH=%mpcomm_obj_root -DCMAKE_C_COMPILER=%cc \
// RUN:   -DCMAKE_CXX_COMPILER=%cxx 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: MPCommConfig.cmake

// CHECK: 2 collectives, 48 bytes
mpcomm.mesh @mesh <["dp" = 2]>
func.func @step(%x: tensor<8xf32>, %y: tensor<4xf32>) -> (tensor<8xf32>, tensor<4xf32>) {
  %0 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<8xf32>
  %1 = mpcomm.all_reduce(%y) on @mesh axes ["dp"] mean : tensor<4xf32>
  return %0, %1 : tensor<8xf32>, tensor<4xf32>
}
