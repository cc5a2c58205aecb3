// RUN: mpcomm-opt %s --mpcomm-to-cuda="chip=sm_89 ptxas=none" --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=OLD
// RUN: mpcomm-opt %s --mpcomm-to-cuda="chip=sm_80,sm_90 ptxas=none" --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=OLD
// RUN: mpcomm-opt %s --mpcomm-to-cuda="ptxas=none" --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=OLD
// RUN: mpcomm-opt %s --mpcomm-to-cuda="chip=sm_90 ptxas=none" --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=NEW
// RUN: mpcomm-opt %s --mpcomm-to-cuda="chip=sm_100,sm_90 ptxas=none" --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=NEW
// RUN: mpcomm-opt %s --mpcomm-to-cuda="chip=sm_90a ptxas=none" --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=ONE

// Kernels use what all chips have.

// OLD: mpcomm-generate-gpu-kernels{launch-shared=0 {{.*}}warpgroups=false}
// OLD: mpcomm-expand-math{{.*}}has-f8=false
// NEW: mpcomm-generate-gpu-kernels{launch-shared=101376 {{.*}}warpgroups=false}
// NEW: mpcomm-expand-math{{.*}}has-f8=true
// ONE: mpcomm-generate-gpu-kernels{launch-shared=101376 {{.*}}warpgroups=true}
// ONE: mpcomm-expand-math{{.*}}has-f8=true
module {}
