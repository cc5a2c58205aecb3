// The axis along which batches differ is an option.

// RUN: not mpcomm-opt %s --mpcomm-verify-shardings="axis=data" 2>&1 | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-verify-shardings="axis=other" -o /dev/null

// CHECK: error: 'func.return' op returns result #0 'w' of role 'parameter', which may differ between ranks along 'data'
mpcomm.mesh @mesh <["data" = 2]>
func.func @train_step(%x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  return %x : tensor<4xf32>
}
