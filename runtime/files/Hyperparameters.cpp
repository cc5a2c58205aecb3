//===- Hyperparameters.cpp - what a program takes as numbers --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "files/Hyperparameters.h"

#include "support/DType.h"

#include <set>

using namespace mprt;

Error mprt::checkHyperparameter(
    const std::vector<const ManifestArgument *> &known, const std::string &name,
    double value) {
  bool isKnown = false;
  std::set<std::string> names;
  for (const ManifestArgument *argument : known) {
    names.insert(printable(argument->name));
    if (argument->name != name)
      continue;
    isKnown = true;
    if (Error error = checkStorable("hyperparameter '" + printable(name) + "'",
                                    argument->type, value))
      return error;
  }
  if (isKnown)
    return {};
  std::string list;
  for (const std::string &other : names)
    list += (list.empty() ? "" : ", ") + other;
  return makeError(MPRT_NOT_FOUND, "no hyperparameter '", printable(name),
                   "'; there are: ", list.empty() ? "none" : list);
}
