//===- StrictJSON.cpp - reading JSON with nothing left over ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/StrictJSON.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;
using namespace mpcomm;

/// For messages: what a value is, and which where that is short.
static std::string describe(const json::Value &value) {
  std::string text;
  raw_string_ostream os(text);
  switch (value.kind()) {
  case json::Value::Null:
    return "null";
  case json::Value::Array:
    return "an array";
  case json::Value::Object:
    return "an object";
  case json::Value::Boolean:
  case json::Value::Number:
  case json::Value::String:
    os << value;
    return text;
  }
  return text;
}

void ObjectReader::fail(std::string &error, StringRef path,
                        const Twine &expected, const json::Value &got) {
  if (error.empty())
    error = ((path.empty() ? "" : path + ": ") + "expected " + expected +
             ", got " + describe(got))
                .str();
}

ObjectReader::ObjectReader(const json::Value &value, std::string path,
                           std::string &error)
    : object(value.getAsObject()), path(std::move(path)), error(error) {
  if (!object)
    fail(error, this->path, "an object", value);
}

std::string ObjectReader::getPath(StringRef key) const {
  return path.empty() ? key.str() : path + "." + key.str();
}

const json::Value *ObjectReader::get(StringRef key, bool isOptional) {
  known.insert(key);
  const json::Value *value = object ? object->get(key) : nullptr;
  if (!value && !isOptional && error.empty())
    error = (path.empty() ? "" : path + ": ") + "expected a key '" + key.str() +
            "'";
  return value;
}

void ObjectReader::read(StringRef key, double &result, bool isOptional) {
  const json::Value *value = get(key, isOptional);
  if (!value)
    return;
  if (std::optional<double> number = value->getAsNumber())
    result = *number;
  else
    fail(error, getPath(key), "a number", *value);
}

void ObjectReader::read(StringRef key, int64_t &result, bool isOptional) {
  const json::Value *value = get(key, isOptional);
  if (!value)
    return;
  if (std::optional<int64_t> number = value->getAsInteger())
    result = *number;
  else
    fail(error, getPath(key), "an integer", *value);
}

void ObjectReader::read(StringRef key, bool &result, bool isOptional) {
  const json::Value *value = get(key, isOptional);
  if (!value)
    return;
  if (std::optional<bool> flag = value->getAsBoolean())
    result = *flag;
  else
    fail(error, getPath(key), "true or false", *value);
}

void ObjectReader::read(StringRef key, std::string &result, bool isOptional) {
  const json::Value *value = get(key, isOptional);
  if (!value)
    return;
  if (std::optional<StringRef> text = value->getAsString())
    result = text->str();
  else
    fail(error, getPath(key), "a string", *value);
}

void ObjectReader::read(StringRef key, std::vector<std::string> &result,
                        bool isOptional) {
  readArray(key, isOptional,
            [&](const json::Value &value, const std::string &where) {
              if (std::optional<StringRef> text = value.getAsString())
                result.push_back(text->str());
              else
                fail(error, where, "a string", value);
            });
}

void ObjectReader::readArray(
    StringRef key, bool isOptional,
    function_ref<void(const json::Value &, std::string)> visit) {
  const json::Value *value = get(key, isOptional);
  if (!value)
    return;
  const json::Array *array = value->getAsArray();
  if (!array)
    return fail(error, getPath(key), "an array", *value);
  for (auto [i, element] : enumerate(*array))
    visit(element, getPath(key) + "[" + std::to_string(i) + "]");
}

void ObjectReader::readValue(
    StringRef key, bool isOptional,
    function_ref<void(const json::Value &, std::string)> visit) {
  if (const json::Value *value = get(key, isOptional))
    visit(*value, getPath(key));
}

void ObjectReader::forEach(
    function_ref<void(StringRef, const json::Value &, std::string)> visit) {
  if (!object)
    return;
  for (const auto &[key, value] : *object)
    visit(key, value, getPath(key));
}

void ObjectReader::finish() {
  if (!object || !error.empty())
    return;
  // In order of the alphabet, so that the message does not change.
  SmallVector<StringRef> unknown, expected;
  for (const auto &entry : *object)
    if (!known.contains(entry.first))
      unknown.push_back(entry.first);
  if (unknown.empty())
    return;
  for (const auto &entry : known)
    expected.push_back(entry.getKey());
  sort(expected);
  error = getPath(*llvm::min_element(unknown)) + ": unknown key, expected " +
          join(expected, ", ");
}

/// Objects and arrays in each other, more than which no schema here has. The
/// parser recurses into them.
static constexpr int maxDepth = 32;

/// Whether a text nests deeper than `maxDepth`. It need not be JSON.
static bool isTooDeep(StringRef text) {
  int depth = 0;
  bool isString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (isString) {
      i += c == '\\';
      isString = c != '"';
    } else if (c == '"') {
      isString = true;
    } else if (c == '[' || c == '{') {
      if (++depth > maxDepth)
        return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

Error mpcomm::readDocument(
    StringRef text, StringRef file, StringRef schema,
    function_ref<void(ObjectReader &, std::string &)> read) {
  if (isTooDeep(text))
    return createStringError(file + ": expected at most " + Twine(maxDepth) +
                             " objects and arrays in each other");
  Expected<json::Value> value = json::parse(text);
  if (!value)
    return createStringError(file + ": " + toString(value.takeError()));
  std::string error, found;
  ObjectReader reader(*value, "", error);
  reader.read("schema", found);
  if (error.empty() && found != schema)
    error = "schema: expected \"" + schema.str() + "\", got \"" + found + "\"";
  read(reader, error);
  reader.finish();
  if (!error.empty())
    return createStringError(file + ": " + error);
  return Error::success();
}

Expected<std::string> mpcomm::readFile(StringRef path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer =
      MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return createStringError("cannot read '" + path +
                             "': " + buffer.getError().message());
  return (*buffer)->getBuffer().str();
}
