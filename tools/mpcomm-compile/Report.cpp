//===- Report.cpp - what a compilation decided ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Report.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using llvm::format;
using llvm::json::Object;

static std::string mebibytes(const Object &object, StringRef key) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << format("%.2f MiB",
                   object.getInteger(key).value_or(0) / double(1 << 20));
  return text;
}

/// Runtime calls of an entry point, by callee.
static llvm::StringMap<unsigned> countCalls(ModuleOp module, StringRef entry) {
  llvm::StringMap<unsigned> calls;
  if (auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(entry))
    function.walk([&](LLVM::CallOp call) {
      if (auto callee = call.getCallee())
        ++calls[*callee];
    });
  return calls;
}

void mpcomm::printReport(ModuleOp module, llvm::raw_ostream &stream) {
  auto global = module.lookupSymbol<LLVM::GlobalOp>("mpcomm_manifest");
  if (!global)
    return;
  StringRef text = cast<StringAttr>(*global.getValue()).getValue().drop_back();
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(text);
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return;
  }
  const Object &manifest = *parsed->getAsObject();
  unsigned kernels = 0;
  for (auto function : module.getOps<LLVM::LLVMFuncOp>())
    kernels += function.getSymName().ends_with(".packed");
  stream << "kernels: " << kernels << "\n";
  for (const llvm::json::Value &entry : *manifest.getArray("functions")) {
    const Object &function = *entry.getAsObject();
    const Object &memory = *function.getObject("memory");
    auto calls = countCalls(module, *function.getString("entry"));
    stream << "@" << *function.getString("name") << ": " << calls["mprt_launch"]
           << " kernel launches, " << calls["mprt_gemm"] << " matrix products, "
           << calls["mprt_copy"] << " copies, " << calls["mprt_collective_run"]
           << " collectives\n";
    stream << "  memory per rank: parameters "
           << mebibytes(memory, "parameters") << ", optimizer state "
           << mebibytes(memory, "optimizer_state") << ", arena "
           << mebibytes(memory, "arena") << " (of it buckets "
           << mebibytes(memory, "buckets") << ")\n";
    for (const llvm::json::Value &item : *function.getArray("collectives")) {
      const Object &collective = *item.getAsObject();
      stream << "  collective " << *collective.getInteger("id") << ": "
             << *collective.getString("kind") << " "
             << *collective.getString("reduction") << ", "
             << *collective.getInteger("tensors") << " tensors, "
             << *collective.getInteger("bytes") << " bytes, "
             << *collective.getString("location") << "\n";
    }
  }
}
