//===- DescribeGraph.cpp - by what a graph is known again ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The digest is of the graph's text, without locations and the module's name. A
// model that is imported with batches of another size has another text, and is
// the same model: its structure, the ops and arguments without their shapes and
// constants, is the same.
//
//===----------------------------------------------------------------------===//

#include "DescribeGraph.h"
#include "mlir/IR/Builders.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPRT/IR/GraphAttr.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include "mpcomm/Runtime/Exactly.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/xxhash.h"
#include <limits>
#include <set>

using namespace mlir;
using namespace mpcomm;

static std::string digestOf(StringRef text) {
  return llvm::utohexstr(llvm::xxHash64(text), /*LowerCase=*/true, 16);
}

/// All of it, as text.
static std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  constexpr int64_t all = std::numeric_limits<int64_t>::max();
  OpPrintingFlags flags;
  flags.enableDebugInfo(false);
  flags.elideLargeElementsAttrs(all);
  flags.useLocalScope(); // without aliases, which are not defined here
  for (NamedAttribute attr : module->getDiscardableAttrs())
    stream << attr.getName() << " = " << attr.getValue() << "\n";
  for (Operation &op : *module.getBody()) {
    op.print(stream, flags);
    stream << "\n";
  }
  return text;
}

/// Names of ops, and names, roles and element types of arguments.
static std::string structureOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    stream << op->getName() << "\n";
    auto function = dyn_cast<FunctionOpInterface>(op);
    for (unsigned i = 0; function && i < function.getNumArguments(); ++i) {
      stream << function.getName() << " " << getArgumentName(function, i);
      if (auto role = function.getArgAttrOfType<RoleAttr>(i, kRoleAttr))
        stream << " " << stringifyRole(role.getValue());
      stream << " " << getElementTypeOrSelf(function.getArgumentTypes()[i])
             << "\n";
    }
  });
  return text;
}

/// Leading dimension of the first batch argument; 0 without one.
static int64_t batchOf(ModuleOp module) {
  int64_t batch = 0;
  module.walk([&](FunctionOpInterface function) {
    for (unsigned i = 0; i < function.getNumArguments() && batch == 0; ++i) {
      auto role = function.getArgAttrOfType<RoleAttr>(i, kRoleAttr);
      auto type = dyn_cast<RankedTensorType>(function.getArgumentTypes()[i]);
      if (role && role.getValue() == Role::Batch && type && type.getRank() > 0)
        batch = type.getDimSize(0);
    }
  });
  return batch;
}

/// "sgd_update momentum = 0.9, nesterov": each choice of constants once.
static SmallVector<Attribute> optimizersOf(ModuleOp module) {
  std::set<std::string> texts;
  module.walk([&](OptimizerOpInterface op) {
    std::string text = op->getName().stripDialect().str();
    StringRef separator = " ";
    for (NamedAttribute attr : op->getAttrDictionary()) {
      std::string value;
      if (auto number = dyn_cast<FloatAttr>(attr.getValue()))
        value = number.getType().isF32()
                    ? exactly(number.getValue().convertToFloat())
                    : exactly(number.getValueAsDouble());
      else if (auto number = dyn_cast<IntegerAttr>(attr.getValue()))
        value = llvm::toString(number.getValue(), 10, /*Signed=*/true);
      else if (auto name = dyn_cast<StringAttr>(attr.getValue()))
        value = name.getValue();
      else if (!isa<UnitAttr>(attr.getValue()))
        continue;
      text += separator.str() + attr.getName().str();
      if (!value.empty())
        text += " = " + value;
      separator = ", ";
    }
    texts.insert(text);
  });
  SmallVector<Attribute> list;
  for (const std::string &text : texts)
    list.push_back(StringAttr::get(module.getContext(), text));
  return list;
}

LogicalResult mpcomm::describeGraph(ModuleOp module,
                                    const CompileOptions &options,
                                    std::string &reason) {
  Builder builder(module.getContext());
  SmallVector<NamedAttribute> chosen;
  auto add = [&](StringRef name, const llvm::Twine &value) {
    chosen.push_back(builder.getNamedAttr(name, builder.getStringAttr(value)));
  };
  auto addNumber = [&](StringRef name, double value) {
    add(name, exactly(value));
  };
  add("precision", options.precision.getValue());
  std::string file;
  if (!options.precisionFile.empty()) {
    auto contents = llvm::MemoryBuffer::getFile(options.precisionFile);
    if (!contents) {
      reason = "cannot read '" + options.precisionFile.getValue() +
               "': " + contents.getError().message();
      return failure();
    }
    file = digestOf((*contents)->getBuffer());
  }
  add("precision-file", file);
  add("fp8-scaling", options.fp8Scaling.getValue());
  add("fp8-history", options.fp8History.getValue());
  add("fp8-margin", options.fp8Margin.getValue());
  add("loss-scale", options.lossScale.getValue());
  add("loss-scale-interval", llvm::Twine(options.lossScaleInterval.getValue()));
  addNumber("loss-scale-growth", options.lossScaleGrowth);
  addNumber("loss-scale-backoff", options.lossScaleBackoff);
  addNumber("loss-scale-min", options.lossScaleMin);
  addNumber("loss-scale-max", options.lossScaleMax);
  add("loss-scale-hysteresis",
      llvm::Twine(options.lossScaleHysteresis.getValue()));
  addNumber("clip-norm", options.clipNorm);
  add("batch-norm",
      options.batchNorm == BatchNormStatistics::Sync ? "sync" : "local");
  add("wire", options.wire.getValue());
  add("error-feedback", options.keepsLost() ? "true" : "false");
  add("low-rank", llvm::Twine(options.lowRank.getValue()));
  add("average-momentum", options.averageMomentum ? "true" : "false");
  add("local-steps", llvm::Twine(options.localSteps.getValue()));
  addNumber("outer-lr", options.outerLR);
  addNumber("outer-momentum", options.outerMomentum);

  module.getContext()->loadDialect<mprt::MPRTDialect>();
  module->setAttr(
      mprt::kGraphAttr,
      builder.getDictionaryAttr({
          builder.getNamedAttr(mprt::kGraphDigest,
                               builder.getStringAttr(digestOf(textOf(module)))),
          builder.getNamedAttr(
              mprt::kGraphStructure,
              builder.getStringAttr(digestOf(structureOf(module)))),
          builder.getNamedAttr(mprt::kGraphBatch,
                               builder.getI64IntegerAttr(batchOf(module))),
          builder.getNamedAttr(mprt::kGraphOptimizer,
                               builder.getArrayAttr(optimizersOf(module))),
          builder.getNamedAttr(mprt::kGraphOptions,
                               builder.getDictionaryAttr(chosen)),
      }));
  return success();
}
