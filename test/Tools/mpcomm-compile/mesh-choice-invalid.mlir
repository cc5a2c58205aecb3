// Layouts that cannot be chosen among are errors that say what was expected.
//
// RUN: split-file %s %t
// RUN: sed s/BATCH/4/g %S/Inputs/mesh-choice-step.mlir > %t/four.mlir
// RUN: sed s/BATCH/8/g %S/Inputs/mesh-choice-step.mlir > %t/eight.mlir
// RUN: sed s/RATE/25e6/ %S/Inputs/mesh-choice-cluster.json > %t/slow.json

// RUN: not %mpcomm-compile %t/four.mlir -o %t/two.so --report --options "mesh=auto:2 global-batch=4 cluster=%t/slow.json" 2>&1 | FileCheck %s --check-prefix=SMALL

// SMALL: 0 dp:2 0 - 1 0 cannot be taken: its micro-batches have 8 samples together, of which the step's 4 are no multiple
// SMALL: 0 pp:2,dp:1 0 - 1 1 cannot be taken: has 1 micro-batches for 2 ranks of a pipeline
// SMALL: error: no mesh of 2 ranks can be taken

// RUN: not %mpcomm-compile %t/four.mlir -o %t/x.so --options "mesh=auto:0" 2>&1 | FileCheck %s --check-prefix=ZERO
// ZERO: mpcomm-compile: error: mesh 'auto:0': expected 1 to 32767 ranks
// RUN: not %mpcomm-compile %t/four.mlir %t/eight.mlir -o %t/x.so --options "mesh=dp:2" 2>&1 | FileCheck %s --check-prefix=SEVERAL
// SEVERAL: mpcomm-compile: error: expected one graph, or mesh=auto:N or --variant to choose among 2
// RUN: not %mpcomm-compile %t/four.mlir -o %t/x.so --options "mesh=dp:2 global-batch=8" 2>&1 | FileCheck %s --check-prefix=GLOBAL
// GLOBAL: mpcomm-compile: error: expected mesh=auto:N with global-batch
// RUN: not %mpcomm-compile %t/none.mlir -o %t/x.so --options "mesh=auto:2" 2>&1 | FileCheck %s --check-prefix=BATCH
// BATCH: mpcomm-compile: error: expected a graph with a batch whose first dimension is its samples
// RUN: sed s/a.weight/c.weight/ %t/eight.mlir > %t/other.mlir
// RUN: not %mpcomm-compile %t/four.mlir %t/other.mlir -o %t/x.so --options "mesh=auto:2 global-batch=32" 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: mpcomm-compile: error: graph 1 is another step than graph 0: it has argument #0 'c.weight' of type tensor<256x256xf32>, expected 'a.weight' of type tensor<256x256xf32>
// RUN: not %mpcomm-compile %t/four.mlir -o %t/x.so --options "mesh=auto:2 schedule=none" 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// SCHEDULE: mpcomm-compile: error: cannot schedule 'none', expected auto, gpipe
// RUN: not %mpcomm-compile %t/four.mlir -o %t/x.so --options "mesh=auto:2 schedule-file=%t/none.txt" 2>&1 | FileCheck %s --check-prefix=FILE
// FILE: mpcomm-compile: error: {{.*}}none.txt: No such file or directory
// RUN: not %mpcomm-compile %t/four.mlir -o %t/x.so --options "mesh=auto:2 chunks=-1" 2>&1 | FileCheck %s --check-prefix=CHUNKS
// CHUNKS: mpcomm-compile: error: expected 0 to 32767 chunks
// RUN: not %mpcomm-compile %t/four.mlir -o %t/x.so --options "mesh=auto:2 micro-batches=9223372036854775807" 2>&1 | FileCheck %s --check-prefix=HUGE
// HUGE: mpcomm-compile: error: expected steps of at most 2^63 - 1 samples
// RUN: not %mpcomm-compile %t/four.mlir -o %t/x.so --np=2 --options "mesh=auto:2" 2>&1 | FileCheck %s --check-prefix=NP
// NP: mpcomm-compile: error: expected no --np with mesh=auto:N
// RUN: not mpcomm-opt %t/four.mlir --mpcomm-graph="mesh=auto:2" 2>&1 | FileCheck %s --check-prefix=OPT
// OPT: cannot compile for mesh 'auto:2': expected dp:N or pp:P,dp:N {{.*}} mpcomm-compile chooses for auto:N

// RUN: not %mpcomm-compile %t/four.mlir -o %t/x.so --options "mesh=dp:2 zero=auto memory-bytes=1000" 2>&1 | FileCheck %s --check-prefix=LEVEL
// LEVEL: cannot be taken: needs {{[0-9]+}} bytes on a rank, which has 1000
// LEVEL: mpcomm-compile: error: no level of zero can be taken
// RUN: not %mpcomm-compile %t/four.mlir -o %t/x.so --options "mesh=dp:2 zero=4" 2>&1 | FileCheck %s --check-prefix=FOUR
// FOUR: mpcomm-compile: error: cannot split state as zero=4: expected 0 to 3
// RUN: not mpcomm-opt %t/four.mlir --mpcomm-graph="mesh=dp:2 zero=auto" 2>&1 | FileCheck %s --check-prefix=OPTZERO
// OPTZERO: cannot split state as zero=auto: expected 0 to 3; mpcomm-compile chooses for auto

//--- none.mlir
func.func @train_step(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
