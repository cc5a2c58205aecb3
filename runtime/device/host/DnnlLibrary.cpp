//===- DnnlLibrary.cpp - what libmprt_dnnl.so exports ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/host/LoadDnnl.h"

using namespace mprt::host;

extern "C" {
__attribute__((visibility("default"))) extern const DnnlLibrary mprt_dnnl;
const DnnlLibrary mprt_dnnl = {DnnlGemm::version, [] { return new DnnlGemm(); },
                               [] { return new DnnlConvolution(); }};
}
