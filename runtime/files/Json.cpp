//===- Json.cpp - text as JSON has it -------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Json.h.
//
//===----------------------------------------------------------------------===//

#include "files/Json.h"

#include <nlohmann/json.hpp>

std::string mprt::quoted(const std::string &text) {
  return nlohmann::json(text).dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}
