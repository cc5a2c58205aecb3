//===- PackKernels.cpp - wrappers by which the runtime calls kernels ------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Codegen/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_PACKKERNELSPASS
#include "mpcomm/Codegen/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-pack-kernels"

using namespace mlir;
using namespace mpcomm;

static LogicalResult definePacked(const SymbolTable &symbols,
                                  LLVM::LLVMFuncOp wrapper) {
  StringRef name = wrapper.getSymName().drop_back(StringRef(".packed").size());
  auto kernel = symbols.lookup<LLVM::LLVMFuncOp>(name);
  if (!kernel || kernel.isExternal())
    return wrapper.emitOpError() << "expects a kernel '" << name
                                 << "' that is lowered to an llvm.func";
  auto pointer = LLVM::LLVMPointerType::get(wrapper.getContext());
  for (Type type : kernel.getArgumentTypes())
    if (type != pointer)
      return kernel.emitOpError("expects one pointer for each operand");
  OpBuilder builder(wrapper.getContext());
  Location loc = wrapper.getLoc();
  Block *body = wrapper.addEntryBlock(builder);
  wrapper.setLinkage(LLVM::Linkage::Internal);
  kernel.setLinkage(LLVM::Linkage::Internal);
  builder.setInsertionPointToStart(body);
  SmallVector<Value> operands;
  for (unsigned i = 0; i < kernel.getNumArguments(); ++i) {
    Value slot =
        LLVM::GEPOp::create(builder, loc, pointer, pointer,
                            body->getArgument(0), ArrayRef<LLVM::GEPArg>{i});
    operands.push_back(LLVM::LoadOp::create(builder, loc, pointer, slot));
  }
  LLVM::CallOp::create(builder, loc, kernel, operands);
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  return success();
}

namespace {

struct PackKernels : public mpcomm::impl::PackKernelsPassBase<PackKernels> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    for (auto function : getOperation().getOps<LLVM::LLVMFuncOp>())
      if (function.isExternal() && function.getSymName().ends_with(".packed"))
        if (failed(definePacked(symbols, function)))
          return signalPassFailure();
  }
};

} // namespace
