// Programs are fused for processors that have the instruction, the last that is said of it, and for no others.
//
// RUN: mpcomm-opt %s --mpcomm-compile="mesh=dp:1 features=+avx2,+fma" | FileCheck %s --check-prefix=FMA
// RUN: mpcomm-opt %s --mpcomm-compile="mesh=dp:1 features=+fma,-fma" | FileCheck %s --implicit-check-not=intr.fma
// RUN: mpcomm-opt %s --mpcomm-compile="mesh=dp:1 features=+fma4" | FileCheck %s --implicit-check-not=intr.fma
// RUN: mpcomm-opt %s --mpcomm-compile="mesh=dp:1" | FileCheck %s --implicit-check-not=intr.fma
// FMA: llvm.intr.fma
// CHECK: llvm.fmul

func.func @train_step(%w: tensor<64xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<64xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<64xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %y = arith.mulf %x, %w : tensor<64xf32>
  %loss = mpcomm.reduce sum %y, dims = [0] : (tensor<64xf32>) -> tensor<f32>
  %w1 = mpcomm.sgd_update %w, %x, %lr, weight_decay = 0.5 : (tensor<64xf32>, tensor<64xf32>, tensor<f32>) -> tensor<64xf32>
  return %loss, %w1 : tensor<f32>, tensor<64xf32>
}
