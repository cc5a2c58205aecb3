//===- CheckedOptions.cpp - options that say what they expect -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Pipelines/CheckedOptions.h"
#include "llvm/ADT/StringExtras.h"

using namespace mpcomm;
using llvm::StringRef;

std::string mpcomm::didYouMean(StringRef name,
                               llvm::ArrayRef<StringRef> names) {
  // A third of the letters may be wrong.
  unsigned most = std::max<unsigned>(1, name.size() / 3);
  StringRef best;
  for (StringRef candidate : names) {
    unsigned distance = name.edit_distance(candidate, true, most);
    // What somebody has cut short is meant, too.
    if (name.size() >= 3 && candidate.starts_with(name))
      distance = std::min(distance, most);
    if (distance > most || (!best.empty() && distance == most))
      continue;
    best = candidate;
    most = distance;
  }
  return best.empty() ? "" : (", did you mean '" + best + "'?").str();
}

OptionCheck mpcomm::isInteger() {
  return [](StringRef text) -> std::optional<Refusal> {
    if (int64_t value; llvm::to_integer(text, value, 0))
      return std::nullopt;
    return Refusal{"an integer"};
  };
}

OptionCheck mpcomm::isNumber() {
  return [](StringRef text) -> std::optional<Refusal> {
    if (double value; llvm::to_float(text, value))
      return std::nullopt;
    return Refusal{"a number"};
  };
}

OptionCheck mpcomm::isBool() {
  return [](StringRef text) -> std::optional<Refusal> {
    if (llvm::is_contained({"true", "TRUE", "True", "1"}, text) ||
        llvm::is_contained({"false", "FALSE", "False", "0"}, text))
      return std::nullopt;
    return Refusal{"true or false"};
  };
}

OptionCheck mpcomm::isOneOf(llvm::SmallVector<StringRef> values) {
  return [values](StringRef text) -> std::optional<Refusal> {
    if (llvm::is_contained(values, text))
      return std::nullopt;
    llvm::ArrayRef<StringRef> names(values);
    return Refusal{llvm::join(names.drop_back(), ", ") + " or " +
                       names.back().str(),
                   didYouMean(text, names)};
  };
}

/// Takes the next `name` or `name=value` from the front of `text`, as
/// PassOptions::parseFromString divides it.
static std::pair<StringRef, std::optional<StringRef>>
takeOption(StringRef &text) {
  text = text.ltrim();
  StringRef name = text.take_until([](char c) { return c == '=' || c == ' '; });
  text = text.drop_front(name.size());
  if (!text.consume_front("="))
    return {name, std::nullopt};
  char close = text.empty()      ? ' '
               : text[0] == '\'' ? '\''
               : text[0] == '"'  ? '"'
                                 : ' ';
  size_t end = 0, depth = 0;
  for (; end < text.size(); ++end) {
    depth += text[end] == '{';
    depth -= text[end] == '}' && depth > 0;
    if (text[end] == close && end > 0 && depth == 0)
      break;
  }
  if (close != ' ')
    end = std::min(text.size(), end + 1);
  StringRef value = text.take_front(end);
  text = text.drop_front(end);
  if (value.size() >= 2 && (close != ' ' || value[0] == '{'))
    value = value.drop_front().drop_back();
  return {name, value};
}

llvm::LogicalResult CheckedOptions::parse(StringRef text, std::string &reason) {
  llvm::SmallVector<StringRef> names;
  for (const auto &[name, check] : checks)
    names.push_back(name);
  for (StringRef rest = text.trim(); !rest.empty(); rest = rest.ltrim()) {
    auto [name, value] = takeOption(rest);
    auto found = checks.find(name);
    if (found == checks.end()) {
      reason = ("no option '" + name + "'").str() + didYouMean(name, names);
      return llvm::failure();
    }
    const OptionCheck &check = found->second;
    // "true" may be left out, and texts and lists may be empty.
    if (value ? value->empty() && !check : check && !check("true"))
      continue;
    if (!value || value->empty()) {
      reason = ("expected a value for '" + name + "'").str();
      return llvm::failure();
    }
    std::optional<Refusal> refusal = check ? check(*value) : std::nullopt;
    if (refusal) {
      reason = ("expected " + refusal->expected + " for '" + name + "', got '" +
                *value + "'" + refusal->hint)
                   .str();
      return llvm::failure();
    }
  }
  std::string errors;
  llvm::raw_string_ostream stream(errors);
  if (llvm::succeeded(parseFromString(text, stream)))
    return llvm::success();
  reason = StringRef(errors).trim().str();
  return llvm::failure();
}
