//===- Passes.h - kernels, memory and launches ------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Constructors, options and registration of the passes that Passes.td
// describes.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_CODEGEN_PASSES_H
#define MPCOMM_CODEGEN_PASSES_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mpcomm/Analysis/KernelGroups/KernelGroups.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

namespace mpcomm {

#define GEN_PASS_DECL
#include "mpcomm/Codegen/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "mpcomm/Codegen/Passes.h.inc"

} // namespace mpcomm

#endif // MPCOMM_CODEGEN_PASSES_H
