// Programs that cannot be simulated, or not as asked.
//
// RUN: split-file %s %t
// RUN: not mpcomm-sim %S/Inputs/pipeline.mlir --cluster=%S/Inputs/round.json --function=alone --write-schedule=%t/none.csv 2>&1 | FileCheck %s --check-prefix=FLAT-CSV
// RUN: not ls %t/none.csv
// RUN: not mpcomm-sim %S/Inputs/pipeline.mlir --cluster=%S/Inputs/round.json --ranks=5 2>&1 | FileCheck %s --check-prefix=FIVE
// RUN: not mpcomm-sim %S/Inputs/pipeline.mlir --function=none 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not mpcomm-sim %t/stuck.mlir --cluster=%S/Inputs/round.json 2>&1 | FileCheck %s --check-prefix=STUCK

// FLAT-CSV: mpcomm-sim: error: --write-schedule: '{{.*}}pipeline.mlir' has no passes of a pipeline's stages

// FIVE: cannot have 5 ranks: its other axes have 2
// NONE: expects a function or an mpcomm.program 'none'
// Both receive first.
// STUCK: mpcomm-sim: error: {{.*}}deadlock

//--- stuck.mlir
mpcomm.mesh @mesh <["pp" = 2]>
mpcomm.program @train_step on @mesh axes ["pp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mpcomm.recv on @mesh axes ["pp"] from = 1 channel = 2 : tensor<4xf32>
  mpcomm.send(%x) on @mesh axes ["pp"] to = 1 channel = 1 : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @second(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mpcomm.recv on @mesh axes ["pp"] from = 0 channel = 1 : tensor<4xf32>
  mpcomm.send(%x) on @mesh axes ["pp"] to = 0 channel = 2 : tensor<4xf32>
  return %0 : tensor<4xf32>
}
