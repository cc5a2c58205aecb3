//===- SignatureEditor.h - changes of a function's signature ----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A change of one argument's attributes copies those of all arguments. An
// editor makes all changes of a function together.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_SIGNATUREEDITOR_H
#define MPCOMM_ANALYSIS_SIGNATUREEDITOR_H

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mpcomm {

/// Gathers changes of attributes, and of arguments and results at the end.
/// Until `apply` the function itself has the type and the attributes that it
/// had; values are there at once. A change takes constant time, `apply` time
/// linear in the arguments, results and attributes.
class SignatureEditor {
public:
  explicit SignatureEditor(mlir::FunctionOpInterface function);

  /// A null attribute removes the one of that name.
  void setArgument(unsigned index, llvm::StringRef name, mlir::Attribute value);
  void setResult(unsigned index, llvm::StringRef name, mlir::Attribute value);

  /// All attributes of one argument, of one result; null for none.
  void setArgumentAttrs(unsigned index, mlir::DictionaryAttr attrs);
  void setResultAttrs(unsigned index, mlir::DictionaryAttr attrs);

  unsigned getNumResults() const { return results.size(); }

  /// The function must have a body.
  mlir::BlockArgument addArgument(mlir::Type type, mlir::NamedAttrList attrs,
                                  mlir::Location loc);
  /// The terminator of the function's only block returns `value`, as the result
  /// of the number that is returned here.
  unsigned addResult(mlir::Value value, mlir::NamedAttrList attrs);

  /// Gives the function its attributes, and the types of its block's arguments
  /// and of what its terminator returns where some were added.
  void apply();

private:
  mlir::FunctionOpInterface function;
  llvm::SmallVector<mlir::NamedAttrList, 0> arguments, results;
  bool hasGrown = false;
};

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_SIGNATUREEDITOR_H
