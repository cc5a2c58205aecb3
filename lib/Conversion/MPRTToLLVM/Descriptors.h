//===- Descriptors.h - static data of a program -----------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Globals of a program in the layout of mprt.h: strings, kernel, product and
// collective descriptors.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CONVERSION_MPRTTOLLVM_DESCRIPTORS_H
#define MPCOMM_LIB_CONVERSION_MPRTTOLLVM_DESCRIPTORS_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"
#include <map>
#include <set>
#include <string>
#include <vector>

namespace mpcomm {

/// The number of `type` in `mprt_dtype`; failure where the runtime has none.
llvm::FailureOr<uint8_t> runtimeType(mlir::Type type);
/// The name of `type` in manifests ("f32", "bool", …); empty where none.
llvm::StringRef manifestType(mlir::Type type);
/// What a person reads of a location: the names in it, else file and line.
std::string describe(mlir::Location loc);

/// What a collective is called in traces and errors: its tag, which its peers
/// have too, else its kind.
llvm::StringRef nameOf(mprt::StartOp op);

/// Texts, each once, in the order in which they came.
using PlaceSet = llvm::SetVector<std::string, std::vector<std::string>,
                                 std::set<std::string>>;

/// Makes the descriptors of one module, equal ones once.
class Descriptors {
public:
  /// `symbols` is the module's; globals and declarations enter it.
  explicit Descriptors(mlir::SymbolTable &symbols);

  /// `mprt_kernel` of the kernel that `launch` names.
  mlir::LLVM::GlobalOp kernel(mprt::LaunchOp launch);
  /// `mprt_epilogue` of `launches`, which are one; failure, with an error,
  /// where a type is unknown.
  llvm::FailureOr<mlir::LLVM::GlobalOp>
  epilogue(llvm::ArrayRef<mprt::LaunchOp> launches);
  /// `mprt_attention_desc` of `launches`, which are one call.
  mlir::LLVM::GlobalOp attention(llvm::ArrayRef<mprt::LaunchOp> launches);
  /// `mprt_gemm_desc`; failure, with an error, where a type is unknown.
  llvm::FailureOr<mlir::LLVM::GlobalOp> gemm(mprt::GemmOp op);
  /// `mprt_window_desc`; failure, with an error, where a type is unknown.
  llvm::FailureOr<mlir::LLVM::GlobalOp> convolution(mprt::ConvolutionOp op);
  llvm::FailureOr<mlir::LLVM::GlobalOp> pool(mprt::PoolOp op);
  /// `mprt_collective` of `count` elements of `type`.
  llvm::FailureOr<mlir::LLVM::GlobalOp>
  collective(mprt::StartOp op, mlir::Type type, int64_t count);
  /// A constant string, with its terminating zero.
  mlir::LLVM::GlobalOp string(llvm::StringRef value, llvm::StringRef name = {});
  /// How often a step runs what descriptors are made for from now on.
  void setRuns(int64_t runs) { this->runs = runs; }
  /// Of the kernels of a GPU, the most scratch that one takes.
  int64_t getScratchBytes() const { return scratchBytes; }
  /// All places of each location of a descriptor that has several or runs more
  /// than once a step, for the manifest: what a descriptor says about it is for
  /// messages, and short.
  llvm::json::Array takeLocations();

private:
  /// A field of a descriptor: a number or the address of a global or function.
  struct Field {
    mlir::Type type;
    mlir::Attribute value;              // an integer, or
    mlir::FlatSymbolRefAttr symbol;     // a symbol, or
    llvm::SmallVector<int64_t, 4> list; // an array of i64, or a null pointer
  };
  /// What describe() says of a location, whose places are kept.
  std::string note(mlir::Location loc);
  Field number(unsigned bits, int64_t value);
  Field array(llvm::ArrayRef<int64_t> values, size_t size);
  Field address(llvm::StringRef symbol);
  Field null();
  template <typename Op>
  llvm::FailureOr<mlir::LLVM::GlobalOp> slidingWindow(Op op, int64_t groups,
                                                      bool countPadding);
  mlir::LLVM::GlobalOp make(llvm::StringRef base, mlir::Location loc,
                            llvm::ArrayRef<Field> fields);

  /// Moves the builder after the last global, or to the start of the module:
  /// whatever else is there may have been erased.
  void moveToEnd();
  /// Enters what the builder has just made.
  template <typename Op> Op enter(Op op) {
    symbols.insert(op);
    last = op;
    return op;
  }

  mlir::SymbolTable &symbols;
  mlir::OpBuilder builder;
  mlir::Operation *last = nullptr; // global or declaration that was made here
  llvm::StringMap<mlir::LLVM::GlobalOp> strings, kernels;
  struct Noted {
    PlaceSet places;
    int64_t runs = 1;
  };
  /// By what describe() says about them.
  std::map<std::string, Noted> locations;
  int64_t runs = 1;
  int64_t scratchBytes = 0;
  int64_t nextGlobal = 0, nextKernel = 0, nextGemm = 0, nextWindow = 0,
          nextAttention = 0;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_CONVERSION_MPRTTOLLVM_DESCRIPTORS_H
