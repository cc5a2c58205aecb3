//===- EntryPoint.h - a function as an entry point ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every buffer is an argument, a global or the arena, plus a constant offset,
// so an operand is one pointer computed once; no memref descriptor is ever
// built. A part of the step, a private function, has the same form and is
// called with a list of pointers of its own; its arena is scratch of the
// caller.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CONVERSION_MPRTTOLLVM_ENTRYPOINT_H
#define MPCOMM_LIB_CONVERSION_MPRTTOLLVM_ENTRYPOINT_H

#include "Descriptors.h"
#include "Events.h"
#include "Manifest.h"
#include "StreamCalls.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/Support/JSON.h"

namespace mpcomm {

/// What the parts of steps communicate.
struct PartCommunication {
  /// By function: those of its own and of the parts that it calls.
  llvm::StringMap<llvm::json::Array> collectives;
  /// Of all parts, which are in use while a caller's own are, too: they have
  /// the lower numbers.
  int64_t events = 0;
};

/// Lowers one function; those that it calls before it.
class EntryPoint {
public:
  EntryPoint(mlir::func::FuncOp function, mlir::ModuleOp module,
             mlir::SymbolTable &symbols, Descriptors &descriptors,
             PartCommunication &parts, llvm::StringRef device)
      : function(function), module(module), symbols(symbols),
        descriptors(descriptors), parts(parts), device(device),
        builder(function.getContext()),
        pointer(mlir::LLVM::LLVMPointerType::get(function.getContext())),
        i32(builder.getI32Type()), i64(builder.getI64Type()) {}

  llvm::LogicalResult run(Manifest &manifest, StreamCallCounter &counter);

private:
  mlir::FailureOr<mlir::Value> pointerTo(mlir::Value buffer,
                                         mlir::Operation *user);
  llvm::LogicalResult lower(mlir::Operation *op);
  llvm::LogicalResult fillSlots(mlir::Operation *op,
                                llvm::ArrayRef<mlir::Value> buffers);
  llvm::LogicalResult lowerLaunch(mprt::LaunchOp op);
  llvm::LogicalResult lowerEpilogue(mprt::GemmOp product,
                                    llvm::ArrayRef<mprt::LaunchOp> launches);
  llvm::LogicalResult lowerAttention(llvm::ArrayRef<mprt::LaunchOp> launches);
  llvm::LogicalResult lowerCall(mprt::CallOp op);
  llvm::LogicalResult lowerLoop(mprt::CallOp op,
                                llvm::ArrayRef<mlir::Value> buffers,
                                mlir::TypeRange types, mlir::Value scratch);
  llvm::LogicalResult lowerStart(mprt::StartOp op);
  mlir::Value blockOf(mprt::AllSliceOp op, mlir::Value blocks);
  void callEvents(llvm::ArrayRef<EventCall> calls);
  mlir::FailureOr<int64_t> bucketCount(mprt::StartOp op);
  mlir::Value constant(mlir::Type type, int64_t value);
  mlir::Value slot(unsigned i);
  mlir::Value addressOf(mlir::LLVM::GlobalOp global);
  void call(llvm::StringRef callee, mlir::ValueRange operands);
  /// A function of the runtime, which gives a status if nothing is said.
  mlir::LLVM::LLVMFuncOp declare(llvm::StringRef callee,
                                 llvm::ArrayRef<mlir::Type> types,
                                 mlir::Type result = {});
  mlir::FailureOr<mlir::Value> globalBase(mlir::memref::GetGlobalOp op);

  mlir::func::FuncOp function;
  mlir::ModuleOp module;
  mlir::SymbolTable &symbols;
  Descriptors &descriptors;
  PartCommunication &parts;
  llvm::StringRef device;
  mlir::OpBuilder builder;
  mlir::Type pointer, i32, i64;
  mlir::Value context, slots;
  llvm::SmallVector<mlir::Value> arguments;
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, mlir::Value> pointers;
  llvm::DenseMap<std::pair<mlir::Type, int64_t>, mlir::Value> constants;
  llvm::json::Array collectives;
  int64_t maxOperands = 0;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_CONVERSION_MPRTTOLLVM_ENTRYPOINT_H
