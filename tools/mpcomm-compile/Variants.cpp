//===- Variants.cpp - several plans of one step in a file -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What can be wrong with a variant is found here, not when a job switches.
//
//===----------------------------------------------------------------------===//

#include "Variants.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/Constants.h"
#include "llvm/Support/JSON.h"
#include <map>

using namespace mlir;
using namespace mpcomm;
namespace json = llvm::json;

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(message);
}

llvm::Expected<VariantRequest> mpcomm::parseVariant(StringRef text) {
  auto [name, settings] = text.split(':');
  name = name.trim();
  bool isName = !name.empty() && llvm::all_of(name, [](char c) {
    return llvm::isAlnum(c) || c == '-' || c == '_';
  });
  if (!isName || settings.trim().empty())
    return makeError("variant '" + text +
                     "': expected a name of letters, digits, '-' and '_', a "
                     "colon, and options, as in 'narrow: wire=bf16'");
  return VariantRequest{name.str(), settings.trim().str()};
}

std::string mpcomm::suffixOf(StringRef variant) {
  return variant.empty() ? "" : ("." + variant).str();
}

void mpcomm::addSuffix(llvm::Module &module, StringRef variant) {
  for (llvm::GlobalValue &value : module.global_values())
    if (!value.hasLocalLinkage() && !value.isDeclaration() &&
        value.getName().starts_with("mpcomm_"))
      value.setName(value.getName() + suffixOf(variant));
}

void mpcomm::listVariants(llvm::Module &module, ArrayRef<std::string> names) {
  std::string text = llvm::join(names, "\n");
  auto *data = llvm::ConstantDataArray::getString(module.getContext(), text);
  new llvm::GlobalVariable(module, data->getType(), /*isConstant=*/true,
                           llvm::GlobalValue::ExternalLinkage, data,
                           "mpcomm_variants");
}

//===----------------------------------------------------------------------===//
// Whether a session can go on
//===----------------------------------------------------------------------===//

namespace {

/// What a session keeps from one program to the next.
struct Kept {
  std::string mesh;
  /// By name of state: role, type, shape and part, and the programs of a
  /// pipeline's ranks that have it.
  std::map<std::string, std::string> state;
};

} // namespace

static std::string textOf(const json::Value *value) {
  std::string text;
  if (value)
    llvm::raw_string_ostream(text) << *value;
  return text;
}

static Kept readKept(ModuleOp module) {
  auto global = module.lookupSymbol<LLVM::GlobalOp>("mpcomm_manifest");
  StringRef text = cast<StringAttr>(*global.getValue()).getValue().drop_back();
  json::Value manifest = llvm::cantFail(llvm::json::parse(text));
  const json::Object &root = *manifest.getAsObject();
  Kept kept;
  kept.mesh = textOf(root.get("mesh"));
  for (const json::Value &function : *root.getArray("functions"))
    for (const json::Value &entry :
         *function.getAsObject()->getArray("arguments")) {
      const json::Object &argument = *entry.getAsObject();
      StringRef role = argument.getString("role").value_or("");
      if (role == "batch" || role == "hyperparameter" || role == "rng")
        continue;
      // What a plan keeps for itself waits until it runs again.
      if (argument.getBoolean("added").value_or(false))
        continue;
      std::string &known = kept.state[argument.getString("name")->str()];
      std::string what = role.str();
      what += (" " + argument.getString("dtype").value_or("")).str();
      for (StringRef key : {"shape", "global_shape", "sharding"})
        if (const json::Value *value = argument.get(key))
          what += " " + key.str() + " " + textOf(value);
      // Which ranks hold it: each function says for which it is.
      std::string place = textOf(function.getAsObject()->get("coordinates"));
      if (known.empty())
        known = what;
      if (!place.empty() && known.find(place) == std::string::npos)
        known += " on ranks " + place;
    }
  return kept;
}

llvm::Error mpcomm::checkVariant(ModuleOp program, ModuleOp variant,
                                 StringRef name) {
  Kept own = readKept(program), other = readKept(variant);
  if (own.mesh != other.mesh)
    return makeError("variant '" + name + "' has another mesh, " + other.mesh +
                     ", than the program, " + own.mesh);
  for (auto &[state, what] : own.state) {
    auto found = other.state.find(state);
    if (found == other.state.end())
      return makeError("variant '" + name + "' lacks state '" + state +
                       "' of the program: " + what);
    if (found->second != what)
      return makeError("variant '" + name + "' has state '" + state + "' as " +
                       found->second + ", expected " + what +
                       " as in the program");
  }
  for (auto &[state, what] : other.state)
    if (!own.state.count(state))
      return makeError("variant '" + name + "' has state '" + state +
                       "' that the program lacks: " + what);
  return llvm::Error::success();
}
