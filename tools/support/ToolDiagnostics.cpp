//===- ToolDiagnostics.cpp - errors about graphs --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ToolDiagnostics.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mpcomm;

/// Its names, each once, if it is in no file.
static std::string namesOf(Location location) {
  llvm::SmallSetVector<StringRef, 4> names;
  bool isInFile = false;
  location->walk([&](Location inner) {
    isInFile |= isa<FileLineColRange>(inner);
    if (auto name = dyn_cast<NameLoc>(inner))
      names.insert(name.getName().getValue());
    return WalkResult::advance();
  });
  return isInFile ? "" : llvm::join(names, ", ");
}

ToolDiagnostics::ToolDiagnostics(llvm::SourceMgr &sources, MLIRContext *context)
    : SourceMgrDiagnosticHandler(sources, context) {
  setHandler([this](Diagnostic &diagnostic) { print(diagnostic); });
}

void ToolDiagnostics::print(Diagnostic &diagnostic) {
  std::string names = namesOf(diagnostic.getLocation());
  if (names.empty())
    return emitDiagnostic(diagnostic);
  auto kindOf = [](DiagnosticSeverity severity) {
    switch (severity) {
    case DiagnosticSeverity::Note:
      return "note";
    case DiagnosticSeverity::Warning:
      return "warning";
    case DiagnosticSeverity::Error:
      return "error";
    case DiagnosticSeverity::Remark:
      return "remark";
    }
    return "error";
  };
  os << names << ": " << kindOf(diagnostic.getSeverity()) << ": " << diagnostic
     << "\n";
  for (Diagnostic &note : diagnostic.getNotes())
    print(note);
}
