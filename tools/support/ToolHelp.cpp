//===- ToolHelp.cpp - what a tool says about itself -----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ToolHelp.h"
#include "mlir/Pass/PassRegistry.h"
#include "mpcomm/Pipelines/CheckedOptions.h"
#include "mpcomm/Runtime/mprt.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using llvm::StringRef;

void mpcomm::setVersion(StringRef tool) {
  llvm::cl::SetVersionPrinter([tool](llvm::raw_ostream &stream) {
    stream << tool << " " MPCOMM_VERSION ", ABI " << MPRT_ABI_VERSION
           << ", MLIR " LLVM_VERSION_STRING "\n";
  });
}

namespace {
/// What is registered, by name.
struct Registered {
  std::vector<const PassRegistryEntry *> passes, pipelines;
  llvm::SmallVector<StringRef> names;
};
} // namespace

/// A registry cannot be listed, but a command line that is made of it can.
static Registered findRegistered() {
  static PassPipelineCLParser parser("", "");
  Registered found;
  for (const auto &entry : llvm::cl::getRegisteredOptions())
    found.names.push_back(entry.first);
  llvm::sort(found.names);
  llvm::erase_if(found.names, [&](StringRef name) {
    if (const PassInfo *pass = PassInfo::lookup(name))
      found.passes.push_back(pass);
    else if (const PassPipelineInfo *pipeline = PassPipelineInfo::lookup(name))
      found.pipelines.push_back(pipeline);
    else
      return true;
    return false;
  });
  return found;
}

static void printList(StringRef title,
                      llvm::ArrayRef<const PassRegistryEntry *> entries) {
  llvm::outs() << "\n" << title << ":\n";
  for (const PassRegistryEntry *entry : entries)
    llvm::outs() << "  --" << llvm::left_justify(entry->getPassArgument(), 38)
                 << " " << entry->getPassDescription() << "\n";
}

/// The options of what is registered as `name`.
static int printEntry(const mpcomm::ToolHelp &help, StringRef name) {
  Registered found = findRegistered();
  auto lookup = [&]() -> const PassRegistryEntry * {
    if (const PassInfo *pass = PassInfo::lookup(name))
      return pass;
    return PassPipelineInfo::lookup(name);
  };
  const PassRegistryEntry *entry = lookup();
  if (!entry && help.registerOthers) {
    help.registerOthers();
    entry = lookup();
  }
  if (!entry) {
    llvm::errs() << help.tool << ": error: no pass or pipeline '" << name << "'"
                 << mpcomm::didYouMean(name, found.names) << "\n";
    return 1;
  }
  // The width of options alone: 0 where there are none.
  size_t indent = 2, own = indent + entry->getPassArgument().size() + 5;
  entry->printHelpStr(indent, std::max(entry->getOptionWidth(), own));
  return 0;
}

std::optional<int> mpcomm::answerHelp(int argc, char **argv,
                                      const ToolHelp &help) {
  for (StringRef argument : llvm::ArrayRef(argv, argc).drop_front()) {
    if (argument == "--")
      return std::nullopt;
    if (help.listsPasses && argument.consume_front("--help="))
      return printEntry(help, argument);
    if (argument != "--help" && argument != "-help" && argument != "-h")
      continue;
    llvm::outs() << help.text;
    if (help.listsPasses) {
      Registered found = findRegistered();
      printList("Pipelines", found.pipelines);
      printList("Passes", found.passes);
      llvm::outs() << "\n--help=NAME lists the options of a pass or pipeline, "
                      "given as --NAME=\"key=value ...\".\n";
    }
    llvm::outs() << "--help-hidden lists everything that MLIR and LLVM take "
                    "besides.\n";
    return 0;
  }
  return std::nullopt;
}
