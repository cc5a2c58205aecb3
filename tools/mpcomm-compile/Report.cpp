//===- Report.cpp - what a compilation decided ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Report.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

#include <map>

using namespace mlir;
using llvm::format;
using llvm::json::Object;

/// The bytes of an entry of `arguments` or `results`.
static int64_t bytesOf(const Object &tensor) {
  int64_t bytes = llvm::StringSwitch<int64_t>(*tensor.getString("dtype"))
                      .Cases({"f64", "i64"}, 8)
                      .Cases({"f32", "i32"}, 4)
                      .Cases({"f16", "bf16", "i16"}, 2)
                      .Default(1);
  for (const llvm::json::Value &size : *tensor.getArray("shape"))
    bytes *= *size.getAsInteger();
  return bytes;
}

namespace {

/// Lines of bytes, some of them parts of the one above.
class MemoryTable {
public:
  explicit MemoryTable(llvm::raw_ostream &stream) : stream(stream) {}
  void print(StringRef name, int64_t bytes, unsigned depth = 1) {
    stream << llvm::left_justify(std::string(2 * depth + 2, ' ') + name.str(),
                                 36)
           << format("%16lld B %12.2f MiB", static_cast<long long>(bytes),
                     static_cast<double>(bytes) / (1 << 20))
           << "\n";
  }

private:
  llvm::raw_ostream &stream;
};

} // namespace

/// What a rank holds for a function: state, what it is fed and returns, and the
/// arena with what is in it when most of it is in use.
static void printMemory(const Object &function, llvm::raw_ostream &stream) {
  llvm::StringSet<> masters; // parameters of which there is a copy
  for (const llvm::json::Value &item : *function.getArray("arguments"))
    if (auto source = item.getAsObject()->getString("copy_of"))
      masters.insert(*source);
  std::map<StringRef, int64_t> state;
  int64_t results = 0;
  for (const llvm::json::Value &item : *function.getArray("arguments")) {
    const Object &argument = *item.getAsObject();
    StringRef role = *argument.getString("role");
    if (role == "parameter" && masters.contains(*argument.getString("name")))
      role = "master";
    else if (argument.getString("copy_of"))
      role = "copy";
    state[role] += bytesOf(argument);
  }
  for (const llvm::json::Value &item : *function.getArray("results"))
    if (!item.getAsObject()->getInteger("argument"))
      results += bytesOf(*item.getAsObject());

  const Object &memory = *function.getObject("memory");
  auto part = [&](StringRef key) { return memory.getInteger(key).value_or(0); };
  int64_t arena = part("arena"), used = 0, whole = arena + results;
  for (auto [role, bytes] : state)
    whole += bytes;
  stream << "  memory per rank:\n";
  MemoryTable table(stream);
  table.print("parameters", state["parameter"]);
  table.print("master weights", state["master"]);
  table.print("lower-precision copies", state["copy"]);
  table.print("optimizer state", state["optimizer_state"]);
  table.print("loss scaling", state["loss_scale"]);
  table.print("buffers", state["buffer"]);
  table.print("batch, hyperparameters, seed",
              state["batch"] + state["hyperparameter"] + state["rng"]);
  table.print("results", results);
  table.print("arena", arena);
  for (StringRef key :
       {"activations", "gradients", "communication", "temporaries"}) {
    used += part(key);
    table.print(key, part(key), 2);
  }
  table.print("gaps", arena - used, 2);
  table.print("all", whole);
}

/// Of coordinates, as in " (pp:1)"; of a stage with data parallelism there are
/// several, and the first is as good as any.
static std::string describePlace(const Object &coordinates) {
  std::map<std::string, int64_t> axes;
  for (const auto &[axis, at] : coordinates)
    axes[axis.str()] = *at.getAsInteger();
  std::string text;
  for (const auto &[axis, at] : axes)
    text += (text.empty() ? " (" : " x ") + axis + ":" + std::to_string(at);
  return text + ")";
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
    const Object &calls = *function.getObject("calls");
    stream << "@" << *function.getString("name");
    if (const llvm::json::Array *ranks = function.getArray("coordinates"))
      stream << describePlace(*(*ranks)[0].getAsObject());
    stream << ": " << *calls.getInteger("kernels") << " kernel launches, "
           << *calls.getInteger("products") << " matrix products, ";
    if (int64_t windows = *calls.getInteger("windows"))
      stream << windows << " convolutions and pools, ";
    stream << *calls.getInteger("copies") << " copies, "
           << function.getArray("collectives")->size() << " collectives\n";
    printMemory(function, stream);
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
