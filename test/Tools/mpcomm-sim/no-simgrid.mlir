// A build without SimGrid says so.
//
// UNSUPPORTED: simgrid
// RUN: not mpcomm-sim %s --backend=simgrid 2>&1 | FileCheck %s
// CHECK: mpcomm-sim: error: this build has no SimGrid (Debian: libsimgrid-dev)
