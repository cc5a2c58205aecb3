// Options that cannot be simulated with are errors that say why.
//
// RUN: split-file %s %t
// RUN: not mpcomm-sim %S/Inputs/overlap.mlir --pipeline=none 2>&1 | FileCheck %s --check-prefix=PIPELINE
// RUN: not mpcomm-sim %S/Inputs/overlap.mlir --cluster=none 2>&1 | FileCheck %s --check-prefix=CLUSTER
// RUN: not mpcomm-sim %S/Inputs/overlap.mlir --function=f 2>&1 | FileCheck %s --check-prefix=FUNCTION
// RUN: not mpcomm-sim %t/gather.mlir --cluster=%S/Inputs/round.json --ranks=4 2>&1 | FileCheck %s --check-prefix=GATHER
// RUN: not mpcomm-sim %S/Inputs/overlap.mlir --ranks=-1 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not mpcomm-sim %S/Inputs/overlap.mlir --json %t/none/x.json 2>&1 | FileCheck %s --check-prefix=WRITE
// RUN: not mpcomm-sim %t/none.mlir 2>&1 | FileCheck %s --check-prefix=READ

// PIPELINE: cannot make rank programs
// CLUSTER: error: cannot read 'none'
// FUNCTION: expects a function or an mpcomm.program 'f'
// GATHER: has types that depend on the number of ranks, which --ranks cannot change
// RANKS: mpcomm-sim: error: expected --ranks of at least 1
// WRITE: mpcomm-sim: error: cannot write '{{.*}}x.json'
// READ: mpcomm-sim: error: cannot read '{{.*}}none.mlir'

//--- gather.mlir
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(%a: tensor<2xf32>) -> tensor<4xf32> {
  %g = mpcomm.all_gather(%a) on @mesh axes ["dp"] dims = [0] : (tensor<2xf32>) -> tensor<4xf32>
  return %g : tensor<4xf32>
}
