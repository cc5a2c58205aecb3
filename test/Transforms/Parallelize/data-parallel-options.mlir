// Options of mpcomm-data-parallel that cannot be honoured are errors.

// RUN: not mpcomm-opt %s --mpcomm-data-parallel="size=-1" 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not mpcomm-opt %s --mpcomm-data-parallel="size=4294967296" 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not mpcomm-opt %s --mpcomm-data-parallel="axis= size=2" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not mpcomm-opt %s --mpcomm-data-parallel="mesh=other" 2>&1 | FileCheck %s --check-prefix=NOMESH
// RUN: not mpcomm-opt %s --mpcomm-data-parallel="axis=tp" 2>&1 | FileCheck %s --check-prefix=NOAXIS
// RUN: mpcomm-opt %s --mpcomm-data-parallel="axis=tp size=3" | FileCheck %s

// SIZE: error: expected a size in [0, 2147483647], got
// NAME: error: expected names of the axis and of the mesh that are not empty
// NOMESH: error: there is no mesh @other to take the size of axis 'dp' from, expected it, or a size
// NOAXIS: error: mesh @mesh has no axis 'tp', expected it, or a size to add it with
// CHECK: mpcomm.mesh @mesh <["dp" = 2, "tp" = 3]>
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step() { return }
