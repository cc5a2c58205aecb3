//===- PrecisionPolicy.cpp - what runs in which type ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads policies. All that is not known is an error: a rule that matches
// nothing is a rule with a spelling mistake.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/Precision/PrecisionPolicy.h"
#include "Support/StrictJSON.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpcomm;
namespace json = llvm::json;

static constexpr llvm::StringLiteral kSchema = "mpcomm-precision-1";

static SmallVector<StringRef> getValues(StringRef key) {
  if (key == "policy")
    return {"none", "bf16", "f16", "fp8"};
  if (key == "compute")
    return {"auto", "lower_precision", "fp32"};
  if (key == "scaling")
    return {"delayed", "current"};
  return {"lower_precision", "fp32"};
}

bool mpcomm::isPolicyValue(StringRef key, StringRef value,
                           std::string &expected) {
  SmallVector<StringRef> values = getValues(key);
  if (llvm::is_contained(values, value))
    return true;
  expected = llvm::join(ArrayRef(values).drop_back(), ", ") + " or " +
             values.back().str();
  if (key == "policy" && value.starts_with("f8"))
    expected += ", which gives 8 bits the scales that they need";
  return false;
}

bool mpcomm::isPolicyNumber(StringRef key, int64_t value,
                            std::string &expected) {
  // A history of TransformerEngine has up to 1024 entries; the margin's bounds
  // are those of mpcomm.update_fp8_scale.
  auto [least, most] = key == "history" ? std::pair<int64_t, int64_t>(1, 65536)
                                        : std::pair<int64_t, int64_t>(-64, 64);
  if (least <= value && value <= most)
    return true;
  expected = "an integer in [" + std::to_string(least) + ", " +
             std::to_string(most) + "]";
  return false;
}

std::optional<int64_t> mpcomm::parsePolicyNumber(StringRef key, StringRef text,
                                                 std::string &expected) {
  int64_t value;
  if (text.getAsInteger(10, value))
    value = INT64_MAX;
  if (!isPolicyNumber(key, value, expected))
    return std::nullopt;
  return value;
}

const PrecisionPolicy::ParameterRule *
PrecisionPolicy::lookup(StringRef parameter) const {
  const ParameterRule *found = nullptr;
  for (const ParameterRule &rule : parameters)
    if ((!found || rule.isFP32) && !(found && found->isFP32) &&
        rule.glob.match(parameter))
      found = &rule;
  return found;
}

/// Reads one of the words that isPolicyValue knows.
static void readWord(ObjectReader &reader, StringRef key, std::string &result,
                     std::string &error) {
  reader.readValue(key, /*isOptional=*/true,
                   [&](const json::Value &value, std::string path) {
                     std::optional<StringRef> text = value.getAsString();
                     std::string expected;
                     if (isPolicyValue(key, text.value_or(""), expected))
                       result = text->str();
                     else
                       ObjectReader::fail(error, path, expected, value);
                   });
}

static void readFp8(const json::Value &value, std::string path,
                    PrecisionPolicy::Fp8Rule &rule, std::string &error) {
  ObjectReader reader(value, std::move(path), error);
  readWord(reader, "scaling", rule.scaling, error);
  auto readNumber = [&](StringRef key, std::optional<int64_t> &result) {
    reader.readValue(key, /*isOptional=*/true,
                     [&](const json::Value &number, std::string where) {
                       std::string expected;
                       int64_t found =
                           number.getAsInteger().value_or(INT64_MAX);
                       if (isPolicyNumber(key, found, expected))
                         result = found;
                       else
                         ObjectReader::fail(error, where, expected, number);
                     });
  };
  readNumber("history", rule.history);
  readNumber("margin", rule.margin);
  reader.finish();
}

static void readOp(StringRef name, const json::Value &value, StringRef path,
                   PrecisionPolicy &policy, std::string &error,
                   MLIRContext *context) {
  auto known = RegisteredOperationName::lookup(name, context);
  if (!known || !known->hasInterface<PrecisionOpInterface>()) {
    if (error.empty())
      error = (path + ": expected the name of an op with a precision, as " +
               "'mpcomm.softmax'")
                  .str();
    return;
  }
  std::optional<StringRef> text = value.getAsString();
  std::optional<PrecisionClass> precision =
      symbolizePrecisionClass(text.value_or(""));
  if (!precision)
    return ObjectReader::fail(error, path,
                              "lower_precision, fp32, promote or any", value);
  bool isUpdate = known->hasInterface<OptimizerOpInterface>() ||
                  name == UpdateLossScaleOp::getOperationName() ||
                  name == UpdateFp8ScaleOp::getOperationName();
  if (isUpdate && *precision != PrecisionClass::FP32)
    return ObjectReader::fail(
        error, path, "fp32, as for all that updates parameters or scales",
        value);
  policy.ops[name.str()] = *precision;
}

static void readParameter(StringRef pattern, const json::Value &value,
                          StringRef path, MLIRContext *context,
                          PrecisionPolicy &policy, std::string &error) {
  std::optional<StringRef> text = value.getAsString();
  if (text != "lower_precision" && text != "fp32")
    return ObjectReader::fail(error, path, "lower_precision or fp32", value);
  // A compiled pattern refers to its text.
  pattern = StringAttr::get(context, pattern).getValue();
  llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(pattern);
  if (!glob) {
    std::string why = llvm::toString(glob.takeError());
    if (error.empty())
      error = (path + ": expected a pattern of names: " + why).str();
    return;
  }
  policy.parameters.push_back(
      {pattern.str(), std::move(*glob), *text == "fp32"});
}

llvm::Expected<PrecisionPolicy>
mpcomm::parsePrecisionPolicy(StringRef text, StringRef file,
                             MLIRContext *context) {
  PrecisionPolicy policy;
  llvm::Error failure = readDocument(
      text, file, kSchema, [&](ObjectReader &reader, std::string &error) {
        readWord(reader, "policy", policy.type, error);
        readWord(reader, "compute", policy.compute, error);
        readWord(reader, "activations", policy.activations, error);
        readWord(reader, "gradients", policy.gradients, error);
        reader.readValue("fp8", /*isOptional=*/true,
                         [&](const json::Value &value, std::string path) {
                           readFp8(value, std::move(path), policy.fp8, error);
                         });
        // Objects have no order: the first error is that of the first name.
        auto forEachSorted = [&](StringRef key, auto visit) {
          reader.readValue(
              key, /*isOptional=*/true,
              [&](const json::Value &value, std::string path) {
                ObjectReader inner(value, path, error);
                std::map<std::string,
                         std::pair<const json::Value *, std::string>>
                    sorted;
                inner.forEach([&](StringRef name, const json::Value &entry,
                                  std::string where) {
                  sorted[name.str()] = {&entry, where};
                });
                for (auto &[name, entry] : sorted)
                  visit(name, *entry.first, entry.second);
              });
        };
        forEachSorted("ops", [&](StringRef name, const json::Value &value,
                                 StringRef path) {
          readOp(name, value, path, policy, error, context);
        });
        forEachSorted(
            "parameters",
            [&](StringRef name, const json::Value &value, StringRef path) {
              readParameter(name, value, path, context, policy, error);
            });
      });
  if (failure)
    return std::move(failure);
  return policy;
}

llvm::Expected<PrecisionPolicy>
mpcomm::loadPrecisionPolicy(StringRef path, MLIRContext *context) {
  llvm::Expected<std::string> text = readFile(path);
  if (!text)
    return text.takeError();
  return parsePrecisionPolicy(*text, path, context);
}
