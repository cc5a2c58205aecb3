//===- Recompute.cpp - activations recomputed instead of kept -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a stage's backward pass reads of its own forward pass it recomputes
// from what it keeps: memory for time. Ops are copied; which pass a copy
// belongs to follows from what depends on it.
//
//===----------------------------------------------------------------------===//

#include "Communicate/Model.h"
#include "Parallelize/StageGraph.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"

namespace mpcomm {
#define GEN_PASS_DEF_RECOMPUTEPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-recompute"

using namespace mlir;
using namespace mpcomm;

namespace {

/// One stage's forward pass, as its backward pass sees it.
class StageRecomputer {
public:
  StageRecomputer(const StageGraph &graph, int stage,
                  llvm::function_ref<bool(Operation *)> isKept)
      : graph(graph), stage(stage), isKept(isKept) {}
  /// Copies what is to be recomputed before the first op that needs it.
  void run();

  int64_t ops = 0, freedBytes = 0;
  SmallVector<Operation *> copied;

private:
  bool isOurs(Operation *op) const {
    auto attr = op->getAttrOfType<IntegerAttr>(kStageAttr);
    return attr && attr.getInt() == stage;
  }
  bool isAgain(Operation *op) const {
    return op && graph.getPass(op) == StepPass::Forward && isOurs(op) &&
           !isKept(op) && isMemoryEffectFree(op);
  }
  void collect(Value value, llvm::SetVector<Operation *> &again);

  const StageGraph &graph;
  int stage;
  llvm::function_ref<bool(Operation *)> isKept;
};

struct Recompute : public mpcomm::impl::RecomputePassBase<Recompute> {
  using RecomputePassBase::RecomputePassBase;

  void runOnOperation() override {
    func::FuncOp step = getTrainStep(getOperation());
    if (!step)
      return signalPassFailure();
    if (policy == Recomputation::None)
      return markAllAnalysesPreserved();
    if (failed(recompute(step)))
      signalPassFailure();
  }

private:
  LogicalResult recompute(func::FuncOp step);
};

} // namespace

/// The ops that make `value` of what is kept, its repeated ops with them.
void StageRecomputer::collect(Value value,
                              llvm::SetVector<Operation *> &again) {
  SetVector<Value> roots;
  graph.getRoots(value, roots);
  for (unsigned i = 0; i < roots.size(); ++i) {
    Operation *def = roots[i].getDefiningOp();
    if (isAgain(def) && again.insert(def))
      roots.insert_range(graph.getOperandRoots(def));
  }
}

void StageRecomputer::run() {
  llvm::SetVector<Operation *> again;
  Operation *first = nullptr;
  llvm::DenseSet<Value> read;
  SmallVector<Operation *> readers;
  for (Operation *op : graph.getBackward()) {
    if (!isOurs(op))
      continue;
    readers.push_back(op);
    for (Value root : graph.getOperandRoots(op))
      if (isAgain(root.getDefiningOp())) {
        read.insert(root);
        collect(root, again);
        if (!first)
          first = op;
      }
  }
  if (!first)
    return;
  for (Value value : read)
    freedBytes += mpcomm::detail::countBytes(value.getType());
  // Copies of the forward ops, and of repeated ops between them and between
  // them and their readers, after all that they may read.
  SmallVector<Operation *> ordered;
  for (Operation &op : *first->getBlock())
    if (again.contains(&op))
      ordered.push_back(&op);
  if (first->isBeforeInBlock(ordered.back()))
    first = ordered.back()->getNextNode();
  IRMapping mapping;
  OpBuilder builder(first);
  auto dependsOnCopies = [&](Value value) {
    SetVector<Value> roots;
    graph.getRoots(value, roots);
    return llvm::any_of(roots, [&](Value root) {
      return root.getDefiningOp() && again.contains(root.getDefiningOp());
    });
  };
  std::function<Value(Value)> copyOf;
  auto mapOperands = [&](Operation *op) {
    forEachOperand(
        op, [&](OpOperand &use) { mapping.map(use.get(), copyOf(use.get())); });
  };
  copyOf = [&](Value value) -> Value {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    Operation *def = value.getDefiningOp();
    if (!def || again.contains(def) || !dependsOnCopies(value))
      return value;
    mapOperands(def);
    builder.clone(*def, mapping);
    return mapping.lookup(value);
  };
  for (Operation *op : ordered) {
    mapOperands(op);
    builder.clone(*op, mapping);
    ++ops;
    copied.push_back(op);
  }
  for (Operation *op : readers) {
    if (op->isBeforeInBlock(first))
      continue;
    builder.setInsertionPoint(op);
    forEachOperand(op, [&](OpOperand &use) {
      if (dependsOnCopies(use.get()))
        use.set(copyOf(use.get()));
    });
  }
}

LogicalResult Recompute::recompute(func::FuncOp step) {
  FailureOr<MicroBatch> micro = MicroBatch::get(step, 1, /*hasStages=*/true);
  if (failed(micro))
    return failure();
  FailureOr<StageGraph> graph = StageGraph::get(*micro);
  if (failed(graph))
    return failure();
  int64_t stages = 0;
  for (Operation *op : graph->getForward()) {
    auto stage = op->getAttrOfType<IntegerAttr>(kStageAttr);
    if (!stage)
      return op->emitOpError()
             << "has no '" << kStageAttr
             << "', expected one of each op of the forward and backward pass: "
                "run mpcomm-partition-pipeline";
    stages = std::max(stages, stage.getInt() + 1);
  }
  FailureOr<CostModel> model =
      getCostModel(getOperation(), cluster, profileFile);
  if (failed(model))
    return failure();
  FailureOr<StepModel> costs = StepModel::get(step, *model);
  if (failed(costs))
    return failure();
  // Products cost most and keep least: they are made once, and so are loops,
  // which have some.
  auto isKept = [&](Operation *op) {
    auto precision = dyn_cast<PrecisionOpInterface>(op);
    return policy == Recomputation::Selective && precision &&
           (precision.getPrecisionClass() == PrecisionClass::LowerPrecision ||
            isa<ScanOp>(op));
  };
  for (int64_t stage = 0; stage < stages; ++stage) {
    StageRecomputer recomputer(*graph, static_cast<int>(stage), isKept);
    recomputer.run();
    double seconds = 0;
    for (Operation *op : recomputer.copied)
      seconds += costs->getSeconds(op);
    remark::analysis(step.getLoc(), remark::RemarkOpts::name("Recomputed")
                                        .category(DEBUG_TYPE)
                                        .function(step.getName()))
        << remark::metric("stage", stage)
        << remark::metric("ops", recomputer.ops)
        << remark::metric("bytes", recomputer.freedBytes)
        << remark::metric("us", llvm::formatv("{0:F1}", seconds * 1e6).str());
  }
  return success();
}
