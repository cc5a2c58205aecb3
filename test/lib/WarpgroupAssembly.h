//===- WarpgroupAssembly.h - inline assembly of wgmma, read back -*- C++
//-*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What inline assembly of products of warpgroups (lib/Codegen,
// GPUWarpgroup.cpp) does, by its text alone, which is also what a GPU gets.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_LIB_WARPGROUPASSEMBLY_H
#define MPCOMM_TEST_LIB_WARPGROUPASSEMBLY_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace mpcomm::test {

struct WarpgroupAssembly {
  /// Of a wait: how many later groups may be in flight. Else it is a product.
  std::optional<int64_t> others;
  int64_t columns = 0, slices = 0;
  bool inRegisters = false, isAcross = false, isBF16 = false;
  /// Whether sums are added to; they are the first operands then.
  bool accumulates = false;
  /// Numbers of the operands of `op` that the slices multiply, in their order.
  llvm::SmallVector<unsigned> left, right;

  /// Reads it; nothing where it is anything else than one product, or one wait,
  /// of the form that is known.
  static std::optional<WarpgroupAssembly> read(mlir::LLVM::InlineAsmOp op);
};

} // namespace mpcomm::test

#endif // MPCOMM_TEST_LIB_WARPGROUPASSEMBLY_H
