// A processor without instructions for bf16 moves vectors of it as integers: code for vectors
// of the type itself moves one element at a time, and takes minutes to make.
//
// RUN: %mpcomm-compile %s -o %t.ll --emit=llvm --cpu=x86-64-v3 --np 2 --options="precision=bf16 wire=bf16"
// RUN: FileCheck %s < %t.ll
// RUN: %mpcomm-compile %s -o %t.new.ll --emit=llvm --cpu=cooperlake --np 2 --options="precision=bf16 wire=bf16"
// RUN: FileCheck %s --check-prefix=BF16 < %t.new.ll

// CHECK-NOT: {{load|store}} <{{[0-9]+}} x bfloat>
// CHECK: {{load|store}} <{{[0-9]+}} x i16>
// CHECK-NOT: {{load|store}} <{{[0-9]+}} x bfloat>
// BF16: {{load|store}} <{{[0-9]+}} x bfloat>
func.func @train_step(
    %w: tensor<512x256xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<64x512xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<512x256xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %y = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x512xf32>, tensor<512x256xf32>) -> tensor<64x256xf32>
  %q = arith.mulf %y, %y : tensor<64x256xf32>
  %loss = mpcomm.reduce sum %q, dims = [0, 1] : (tensor<64x256xf32>) -> tensor<f32>
  %dy = arith.addf %y, %y : tensor<64x256xf32>
  %dw = mpcomm.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<64x512xf32>, tensor<64x256xf32>) -> tensor<512x256xf32>
  %n = mpcomm.sgd_update %w, %dw, %lr, weight_decay = 0.0 : (tensor<512x256xf32>, tensor<512x256xf32>, tensor<f32>) -> tensor<512x256xf32>
  return %loss, %n : tensor<f32>, tensor<512x256xf32>
}
