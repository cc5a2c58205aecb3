//===- ToolOptions.cpp - command lines that say what they expect ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// LLVM prints its errors where it finds them, and has no place to change them.
// So words are checked before LLVM parses them.
//
//===----------------------------------------------------------------------===//

#include "ToolOptions.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mpcomm;
using llvm::StringRef;
namespace cl = llvm::cl;

static std::string spelled(StringRef name) {
  return (name.size() == 1 ? "-" : "--") + name.str();
}

/// The option that a word without its dashes is for, such as O2; or null.
static cl::Option *findOption(StringRef word) {
  auto &options = cl::getRegisteredOptions();
  StringRef name = word.take_until([](char c) { return c == '='; });
  if (auto known = options.find(name); known != options.end())
    return known->second;
  for (const auto &[prefix, option] : options)
    if (option->getFormattingFlag() == cl::Prefix && word.starts_with(prefix))
      return option;
  return nullptr;
}

static std::string describeUnknown(StringRef word,
                                   const CheckedOptions *settings) {
  StringRef name = word.take_until([](char c) { return c == '='; });
  std::string text = "unknown option " + name.str();
  StringRef key = name.ltrim('-');
  if (settings && settings->has(key))
    return text + ", expected as --options=\"" + key.str() + "=...\"";
  // What --help does not show, nobody is likely to mean.
  std::vector<std::string> names;
  for (const auto &[known, option] : cl::getRegisteredOptions())
    if (option->getOptionHiddenFlag() == cl::NotHidden)
      names.push_back(spelled(known));
  llvm::sort(names);
  return text + didYouMean(name, llvm::SmallVector<StringRef>(names.begin(),
                                                              names.end()));
}

/// What is wrong with a command line; empty if nothing is.
static std::string findMisuse(llvm::ArrayRef<char *> words,
                              llvm::ArrayRef<NamedCheck> checks,
                              const CheckedOptions *settings) {
  llvm::SmallPtrSet<const cl::Option *, 8> given;
  for (size_t i = 0; i < words.size(); ++i) {
    StringRef word = words[i];
    if (word == "--")
      break;
    if (!word.starts_with("-") || word == "-")
      continue;
    StringRef text = word.drop_front(word.starts_with("--") ? 2 : 1);
    const cl::Option *option = findOption(text);
    if (!option)
      return describeUnknown(word, settings);
    std::string name = spelled(option->ArgStr);
    auto occurrences = option->getNumOccurrencesFlag();
    if (!given.insert(option).second &&
        (occurrences == cl::Optional || occurrences == cl::Required))
      return "expected " + name + " once";
    StringRef value = text.drop_front(option->ArgStr.size());
    bool hasValue = !value.empty();
    value.consume_front("=");
    if (option->getValueExpectedFlag() == cl::ValueDisallowed && hasValue)
      return "expected no value for " + name;
    if (option->getValueExpectedFlag() == cl::ValueRequired && !hasValue) {
      if (++i == words.size())
        return "expected a value for " + name;
      value = words[i];
      hasValue = true;
    }
    for (const auto &[checked, check] : checks)
      if (checked == option->ArgStr && check && hasValue)
        if (std::optional<Refusal> refusal = check(value))
          return "expected " + refusal->expected + " for " + name + ", got '" +
                 value.str() + "'" + refusal->hint;
  }
  return "";
}

void mpcomm::parseCommandLine(int argc, char **argv, StringRef tool,
                              StringRef overview,
                              llvm::ArrayRef<NamedCheck> checks,
                              const CheckedOptions *settings) {
  std::string misuse =
      findMisuse(llvm::ArrayRef(argv, argc).drop_front(), checks, settings);
  if (!misuse.empty()) {
    llvm::errs() << tool << ": error: " << misuse << "\n";
    exit(1);
  }
  cl::ParseCommandLineOptions(argc, argv, overview);
}
