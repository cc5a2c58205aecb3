//===- SignatureEditor.cpp - changes of a function's signature ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lists of attributes, written back at the end.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/SignatureEditor.h"

using namespace mlir;
using namespace mpcomm;

SignatureEditor::SignatureEditor(FunctionOpInterface function)
    : function(function) {
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i)
    arguments.emplace_back(function.getArgAttrDict(i));
  for (unsigned i = 0, e = function.getNumResults(); i < e; ++i)
    results.emplace_back(function.getResultAttrDict(i));
}

static void set(NamedAttrList &attrs, StringRef name, Attribute value) {
  if (value)
    attrs.set(name, value);
  else
    attrs.erase(name);
}

void SignatureEditor::setArgument(unsigned index, StringRef name,
                                  Attribute value) {
  set(arguments[index], name, value);
}

void SignatureEditor::setResult(unsigned index, StringRef name,
                                Attribute value) {
  set(results[index], name, value);
}

void SignatureEditor::setArgumentAttrs(unsigned index, DictionaryAttr attrs) {
  arguments[index] = NamedAttrList(attrs);
}

void SignatureEditor::setResultAttrs(unsigned index, DictionaryAttr attrs) {
  results[index] = NamedAttrList(attrs);
}

BlockArgument SignatureEditor::addArgument(Type type, NamedAttrList attrs,
                                           Location loc) {
  hasGrown = true;
  arguments.push_back(std::move(attrs));
  return function.getFunctionBody().front().addArgument(type, loc);
}

unsigned SignatureEditor::addResult(Value value, NamedAttrList attrs) {
  hasGrown = true;
  results.push_back(std::move(attrs));
  Operation *exit = function.getFunctionBody().front().getTerminator();
  exit->insertOperands(exit->getNumOperands(), value);
  return results.size() - 1;
}

void SignatureEditor::apply() {
  MLIRContext *context = function.getContext();
  auto write = [&](MutableArrayRef<NamedAttrList> lists) {
    return llvm::map_to_vector(lists, [&](NamedAttrList &attrs) -> Attribute {
      return attrs.getDictionary(context);
    });
  };
  if (hasGrown) {
    Block &body = function.getFunctionBody().front();
    // There may be no list of the new length before the type has it.
    function.removeArgAttrsAttr();
    function.removeResAttrsAttr();
    function.setType(
        FunctionType::get(context, body.getArgumentTypes(),
                          body.getTerminator()->getOperandTypes()));
  }
  function.setAllArgAttrs(write(arguments));
  function.setAllResultAttrs(write(results));
}
