//===- InsertCasts.cpp - mixed precision by policy ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Puts together what the user says, what the cluster's rates say, the graph of
// the step and the placement of casts in it. docs/Design/Precision.md has the
// rules and why they are so.
//
//===----------------------------------------------------------------------===//

#include "Precision/CastRewriter.h"
#include "Precision/Fp8Rewriter.h"
#include "Precision/LoopCasts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Analysis/Cluster/ClusterAttr.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Dialect/MPComm/Utils/F8Products.h"
#include "mpcomm/Transforms/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_INSERTCASTSPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-insert-casts"

using namespace mlir;
using namespace mpcomm;

namespace {

class InsertCasts : public mpcomm::impl::InsertCastsPassBase<InsertCasts> {
public:
  using InsertCastsPassBase::InsertCastsPassBase;
  void runOnOperation() override;

private:
  FailureOr<PrecisionPolicy> findPolicy();
  LogicalResult checkPatterns(func::FuncOp step, const PrecisionPolicy &policy);
  FailureOr<bool> decideCompute(func::FuncOp step,
                                const StepPrecision &precision,
                                const PrecisionGraph &graph);
  LogicalResult quantize(func::FuncOp step, const StepPrecision &precision,
                         const PrecisionGraph &graph);
  void remarkCasts(func::FuncOp step, const PrecisionGraph &graph,
                   const CastPlan &plan, const CastRewriter &rewriter);
};

} // namespace

/// The options, over the file, over the module's attribute.
FailureOr<PrecisionPolicy> InsertCasts::findPolicy() {
  ModuleOp module = getOperation();
  PrecisionPolicy result;
  if (!policyFile.empty()) {
    llvm::Expected<PrecisionPolicy> loaded =
        loadPrecisionPolicy(policyFile, &getContext());
    if (!loaded) {
      module.emitError() << llvm::toString(loaded.takeError());
      return failure();
    }
    result = std::move(*loaded);
  }
  auto set = [&](StringRef key, std::string &value, StringRef option,
                 StringRef otherwise) -> LogicalResult {
    if (!option.empty())
      value = option.str();
    if (value.empty())
      value = otherwise.str();
    std::string expected;
    if (isPolicyValue(key, value, expected))
      return success();
    return module.emitError()
           << "has no " << key << " '" << value << "': expected " << expected;
  };
  auto attribute = module->getAttrOfType<StringAttr>(kPrecisionAttr);
  if (failed(set("policy", result.type, policy,
                 attribute ? attribute.getValue() : "none")) ||
      failed(set("compute", result.compute, compute, "auto")) ||
      failed(set("activations", result.activations, activations,
                 "lower_precision")) ||
      failed(
          set("gradients", result.gradients, gradients, "lower_precision")) ||
      failed(set("scaling", result.fp8.scaling, fp8Scaling, "delayed")))
    return failure();
  auto setNumber = [&](StringRef key, std::optional<int64_t> &value,
                       StringRef option) -> LogicalResult {
    std::string expected;
    if (option.empty())
      return success();
    if ((value = parsePolicyNumber(key, option, expected)))
      return success();
    return module.emitError()
           << "has no " << key << " '" << option << "': expected " << expected;
  };
  if (failed(setNumber("history", result.fp8.history, fp8History)) ||
      failed(setNumber("margin", result.fp8.margin, fp8Margin)))
    return failure();
  return result;
}

LogicalResult InsertCasts::checkPatterns(func::FuncOp step,
                                         const PrecisionPolicy &policy) {
  for (const PrecisionPolicy::ParameterRule &rule : policy.parameters) {
    bool matches = false;
    for (unsigned i = 0; i < step.getNumArguments() && !matches; ++i)
      matches = getArgumentRole(step, i) == Role::Parameter &&
                rule.glob.match(mpcomm::getArgumentName(step, i));
    if (!matches)
      return step.emitOpError()
             << "has no parameter that matches '" << rule.pattern
             << "' of the precision policy, expected at least one";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Products: narrow or not
//===----------------------------------------------------------------------===//

namespace {

/// Seconds of a step, as far as the type of products decides on them.
class ComputeTime {
public:
  ComputeTime(const PrecisionGraph &graph, func::FuncOp step,
              const DeviceModel &device, double narrowRate)
      : graph(graph), device(device), narrowRate(narrowRate),
        isProduct(graph.getProblem().ops.size()),
        isParameter(graph.getProblem().values.size()) {
    for (Operation *op : graph.getProducts())
      isProduct[graph.getNode(op)] = true;
    for (BlockArgument argument : step.getArguments())
      if (getArgumentRole(step, argument.getArgNumber()) == Role::Parameter &&
          graph.contains(argument))
        isParameter[graph.getValue(argument)] = true;
  }

  /// Products by the roofline; casts, and what kernels write for products and
  /// read of them. Time: linear in the problem.
  double predict(const CastProblem &problem) const {
    CastPlan plan = placeCasts(problem);
    double seconds = 0;
    for (Operation *op : graph.getProducts())
      seconds += getSeconds(op, plan.isNarrow[graph.getNode(op)]);
    for (auto [number, value] : llvm::enumerate(problem.values))
      seconds += getSeconds(value, isParameter[number], plan);
    return seconds;
  }

private:
  double getSeconds(Operation *product, bool isNarrow) const {
    auto cost = dyn_cast<CostOpInterface>(product);
    if (!cost)
      return 0;
    double bytes = double(cost.getBytesRead()) + double(cost.getBytesWritten());
    return std::max(double(cost.getFlops()) /
                        (isNarrow ? narrowRate : device.flops.at("f32")),
                    move(bytes, isNarrow));
  }

  double getSeconds(const CastProblem::Value &value, bool isParameter,
                    const CastPlan &plan) const {
    bool comesIn = value.producer < 0;
    bool isNarrow = comesIn ? value.isNarrow : plan.isNarrow[value.producer];
    bool isOfProduct = !comesIn && isProduct[value.producer];
    bool isCast = false, isCastByKernel = isParameter, isReadByKernel = false;
    bool forms[2] = {}; // in f32, narrow: what products read
    for (int op : value.consumers) {
      bool differs = plan.isNarrow[op] != isNarrow;
      isCast |= differs;
      isReadByKernel |= !isProduct[op];
      isCastByKernel |= differs && !isProduct[op];
      if (isProduct[op])
        forms[plan.isNarrow[op]] = true;
    }
    double bytes = double(value.bytes), seconds = 0;
    if (isCast) {
      auto vector = device.flops.find("vector");
      seconds += bytes / sizeof(float) /
                 (vector == device.flops.end() ? device.flops.at("f32")
                                               : vector->second);
      if (isParameter) // the update writes both
        seconds += move(bytes, true);
      else if ((comesIn || isOfProduct) && !isCastByKernel)
        seconds += move(bytes, false) + move(bytes, true) + device.launch;
    }
    if (isOfProduct && isReadByKernel)
      seconds += move(bytes, isNarrow);
    if (!isOfProduct && !comesIn)
      for (bool form : {false, true})
        seconds += forms[form] ? move(bytes, form) : 0;
    return seconds;
  }

  /// To or from memory, what has `bytes` in f32.
  double move(double bytes, bool isNarrow) const {
    return bytes / (isNarrow ? 2 : 1) / device.memoryBandwidth;
  }

  const PrecisionGraph &graph;
  const DeviceModel &device;
  double narrowRate;
  std::vector<bool> isProduct, isParameter;
};

} // namespace

/// Whether products run in the narrow type: where the cluster knows it, is not
/// slower at it, and the step with its casts is not predicted to be.
FailureOr<bool> InsertCasts::decideCompute(func::FuncOp step,
                                           const StepPrecision &precision,
                                           const PrecisionGraph &graph) {
  const std::string &compute = precision.policy.compute;
  if (compute != "auto")
    return compute != "fp32";
  FailureOr<Cluster> found = findCluster(getOperation(), cluster);
  if (failed(found))
    return failure();
  std::string type;
  llvm::raw_string_ostream(type) << precision.narrow;
  const auto &flops = found->device.flops;
  auto rate = flops.find(type);
  double f32 = flops.at("f32"), narrow = rate == flops.end() ? 0 : rate->second;
  bool isNarrow = narrow >= f32;
  double narrowSeconds = 0, wideSeconds = 0;
  if (isNarrow) {
    ComputeTime time(graph, step, found->device, narrow);
    narrowSeconds = time.predict(graph.getProblem());
    wideSeconds = time.predict(graph.getWideProblem());
    isNarrow = narrowSeconds <= wideSeconds;
  }
  auto nanoseconds = [](double seconds) {
    return int64_t(std::min(seconds, 1e9) * 1e9);
  };
  remark::analysis(step.getLoc(), remark::RemarkOpts::name("Compute")
                                      .category(DEBUG_TYPE)
                                      .function(step.getName()))
      << remark::metric("type", isNarrow ? StringRef(type) : "f32")
      << remark::metric("gigaflops", int64_t(narrow / 1e9))
      << remark::metric("gigaflopsF32", int64_t(f32 / 1e9))
      << remark::metric("nanoseconds", nanoseconds(narrowSeconds))
      << remark::metric("nanosecondsF32", nanoseconds(wideSeconds));
  return isNarrow;
}

//===----------------------------------------------------------------------===//
// Remarks
//===----------------------------------------------------------------------===//

/// Casts that each use by itself would have, and that each value would have if
/// ops that may run in either type ran in f32.
static std::pair<int64_t, int64_t> countNaive(const CastProblem &problem) {
  auto isNarrow = [&](int op) {
    return op >= 0 && problem.ops[op] == CastClass::Narrow;
  };
  int64_t uses = 0, values = 0;
  for (const CastProblem::Value &value : problem.values) {
    int64_t cast = llvm::count_if(value.consumers, [&](int op) {
      return isNarrow(op) != (isNarrow(value.producer) || value.isNarrow);
    });
    uses += cast;
    values += cast > 0;
  }
  return {uses, values};
}

void InsertCasts::remarkCasts(func::FuncOp step, const PrecisionGraph &graph,
                              const CastPlan &plan,
                              const CastRewriter &rewriter) {
  auto [uses, values] = countNaive(graph.getProblem());
  remark::analysis(step.getLoc(), remark::RemarkOpts::name("InsertCasts")
                                      .category(DEBUG_TYPE)
                                      .function(step.getName()))
      << remark::metric("inserted", rewriter.casts)
      << remark::metric("bytes", rewriter.bytes)
      << remark::metric("merged", uses - values)
      << remark::metric("removed", values - rewriter.casts)
      << remark::metric("alone", rewriter.alone)
      << remark::metric("aloneBytes", rewriter.aloneBytes)
      << remark::metric("stored", graph.getNumStored())
      << remark::metric("copies", rewriter.copies);
}

/// Products read 8 bits.
LogicalResult InsertCasts::quantize(func::FuncOp step,
                                    const StepPrecision &precision,
                                    const PrecisionGraph &graph) {
  if (!precision.fp8)
    return success();
  Fp8Rewriter rewriter(step, *precision.fp8, graph);
  if (failed(rewriter.run()))
    return failure();
  remark::analysis(step.getLoc(), remark::RemarkOpts::name("Fp8")
                                      .category(DEBUG_TYPE)
                                      .function(step.getName()))
      << remark::metric("products", rewriter.products)
      << remark::metric("tensors", rewriter.tensors)
      << remark::metric("bytes", rewriter.bytes);
  getOperation()->removeAttr(kMultiplyF8Attr);
  if (multiplyF8 && rewriter.products > 0)
    getOperation()->setAttr(kMultiplyF8Attr, UnitAttr::get(&getContext()));
  return success();
}

void InsertCasts::runOnOperation() {
  FailureOr<PrecisionPolicy> found = findPolicy();
  if (failed(found))
    return signalPassFailure();
  auto step = getOperation().lookupSymbol<func::FuncOp>(kTrainStep);
  if (step && failed(verifyScaled(step)))
    return signalPassFailure();
  if (found->type == "none")
    return markAllAnalysesPreserved();
  if (!step || step.isExternal() || !step.getBody().hasOneBlock()) {
    getOperation().emitError()
        << "expected a function @" << kTrainStep << " with a body of one block";
    return signalPassFailure();
  }
  StepPrecision precision;
  precision.policy = std::move(*found);
  precision.narrow = precision.policy.type == "f16"
                         ? FloatType(Float16Type::get(&getContext()))
                         : FloatType(BFloat16Type::get(&getContext()));
  precision.storeActivations =
      precision.policy.activations == "lower_precision";
  precision.storeGradients = precision.policy.gradients == "lower_precision";
  if (precision.policy.type == "fp8")
    precision.fp8 = {precision.policy.fp8.scaling == "delayed",
                     precision.policy.fp8.history.value_or(16),
                     precision.policy.fp8.margin.value_or(0)};
  if (failed(checkPatterns(step, precision.policy)))
    return signalPassFailure();

  PrecisionGraph graph(step, precision);
  if (failed(graph.build()))
    return signalPassFailure();
  FailureOr<bool> computesNarrow = decideCompute(step, precision, graph);
  if (failed(computesNarrow))
    return signalPassFailure();
  if (!*computesNarrow)
    graph.keepProductsWide();
  CastPlan plan = placeCasts(graph.getProblem());
  CastRewriter rewriter(step, precision, graph, plan);
  if (failed(rewriter.run()))
    return signalPassFailure();
  remarkCasts(step, graph, plan, rewriter);
  if (failed(quantize(step, precision, graph)))
    return signalPassFailure();
  auto isNarrow = [&](Operation *op) {
    return *computesNarrow && graph.isNarrowProduct(op);
  };
  if (int64_t loops = moveCastsIntoLoops(step, precision.narrow, isNarrow))
    remark::analysis(step.getLoc(), remark::RemarkOpts::name("LoopCasts")
                                        .category(DEBUG_TYPE)
                                        .function(step.getName()))
        << remark::metric("loops", loops);
}
