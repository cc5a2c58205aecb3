//===- DataParallel.cpp - a rank for each part of the batch ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Averages gradients, buffers and the loss over a mesh axis, where they are
// defined, and takes the greatest of magnitudes that scales of 8-bit tensors
// come from, of all that are there together.
// What differs between ranks is AxisShardings's to say, with the gradients
// taken as reduced; a result that should be replicated but is not is an error.
// Gradients of 16 bits, or sent in 16, are summed in f32.
//
//===----------------------------------------------------------------------===//

#include "Verify/ShardingChecks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Analysis/Dataflow/AxisShardings.h"
#include "mpcomm/Analysis/SignatureEditor.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Dialect/MPComm/Utils/Sharding.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSwitch.h"

namespace mpcomm {
#define GEN_PASS_DEF_DATAPARALLELPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-data-parallel"

using namespace mlir;
using namespace mpcomm;

namespace {

/// Uses of one value that are to see its mean over the ranks.
using Uses = SmallVector<OpOperand *>;

class DataParallel : public mpcomm::impl::DataParallelPassBase<DataParallel> {
public:
  using DataParallelPassBase::DataParallelPassBase;
  void runOnOperation() override;

private:
  FailureOr<MeshOp> getOrCreateMesh();
  FailureOr<MeshOp> extendMesh(MeshOp meshOp);
  SmallVector<BlockArgument> findHandedOn(func::FuncOp step,
                                          AxisShardings &shardings,
                                          std::optional<Role> only);
  void keepLocalState(func::FuncOp step, AxisShardings &shardings);
  LogicalResult collectGradients(func::FuncOp step,
                                 const AxisShardings &shardings);
  LogicalResult collectResults(func::FuncOp step,
                               const AxisShardings &shardings);
  LogicalResult collectMagnitudes(func::FuncOp step,
                                  const AxisShardings &shardings);
  LogicalResult collect(OpOperand &use, func::FuncOp step, StringRef what);
  LogicalResult chooseWire();
  Operation *average(OpBuilder &builder, Value value);
  void average(Value value, const Uses &uses);
  void reduceMagnitudes();

  llvm::MapVector<Value, Uses> toAverage;
  /// Those of them that are gradients.
  llvm::DenseSet<Value> gradientValues;
  /// Uses that are to see the greatest over the ranks, in program order.
  Uses magnitudes;
  /// The type in which gradients travel; null: their own.
  Type wireType;
  int64_t ranks = 0;
  /// By op or block: the op after which the next all_reduce of a value that it
  /// defines goes.
  llvm::DenseMap<void *, Operation *> lastInserted;
  int64_t gradients = 0, gradientBytes = 0, replicated = 0, buffers = 0;
};

} // namespace

/// Adds the axis to a mesh, or checks that it is there with the right size.
FailureOr<MeshOp> DataParallel::extendMesh(MeshOp meshOp) {
  if (std::optional<int64_t> present = meshOp.getAxisSize(axis)) {
    if (size != 0 && *present != size) {
      meshOp.emitError() << "mesh @" << mesh << " has " << *present
                         << " ranks along '" << axis << "', expected "
                         << int64_t(size);
      return failure();
    }
    return meshOp;
  }
  if (size == 0) {
    meshOp.emitError() << "mesh @" << mesh << " has no axis '" << axis
                       << "', expected it, or a size to add it with";
    return failure();
  }
  if (meshOp.getNumRanks() > INT32_MAX / size) {
    meshOp.emitError() << "mesh @" << mesh << " would have more ranks than 32 "
                       << "bits count with " << int64_t(size) << " along '"
                       << axis << "'";
    return failure();
  }
  Builder builder(&getContext());
  SmallVector<Attribute> names(meshOp.getAxisNames().getValue());
  SmallVector<int64_t> sizes(meshOp.getAxisSizes());
  names.push_back(builder.getStringAttr(axis));
  sizes.push_back(size);
  meshOp.setAxisNamesAttr(builder.getArrayAttr(names));
  meshOp.setAxisSizes(sizes);
  return meshOp;
}

FailureOr<MeshOp> DataParallel::getOrCreateMesh() {
  ModuleOp module = getOperation();
  if (axis.empty() || mesh.empty()) {
    module.emitError("expected names of the axis and of the mesh that are not "
                     "empty");
    return failure();
  }
  if (size < 0 || size > INT32_MAX) {
    module.emitError() << "expected a size in [0, " << INT32_MAX << "], got "
                       << int64_t(size);
    return failure();
  }
  if (Operation *symbol = SymbolTable::lookupSymbolIn(module, mesh)) {
    if (auto meshOp = dyn_cast<MeshOp>(symbol))
      return extendMesh(meshOp);
    symbol->emitError() << "@" << mesh << " is not a mesh, expected "
                        << "'mpcomm.mesh' or no such symbol";
    return failure();
  }
  if (size == 0) {
    module.emitError() << "there is no mesh @" << mesh << " to take the size "
                       << "of axis '" << axis << "' from, expected it, or a "
                       << "size";
    return failure();
  }
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  return MeshOp::create(builder, module.getLoc(), builder.getStringAttr(mesh),
                        builder.getStrArrayAttr({StringRef(axis)}),
                        builder.getDenseI64ArrayAttr({int64_t(size)}));
}

/// Notes that `use` is to see the mean.
LogicalResult DataParallel::collect(OpOperand &use, func::FuncOp step,
                                    StringRef what) {
  Value value = use.get();
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !type.hasStaticShape() || !isa<FloatType>(type.getElementType()))
    return use.getOwner()->emitOpError()
           << "has a " << what << " of type " << value.getType()
           << ", expected a ranked tensor of floats with a static shape";
  if (value.getParentRegion() != &step.getFunctionBody()) {
    InFlightDiagnostic diag =
        use.getOwner()->emitOpError()
        << "has a " << what << " that is computed in a nested region, where "
        << "ranks may not meet; expected it in the body of @" << kTrainStep;
    diag.attachNote(value.getLoc()) << "it is computed here";
    return diag;
  }
  toAverage[value].push_back(&use);
  return success();
}

/// The use of a gradient that is to see the mean: where it is only widened for
/// its update, that of the narrow one, which then travels.
static OpOperand *getNarrowUse(OpOperand *use) {
  auto widen = use->get().getDefiningOp<arith::ExtFOp>();
  while (widen && widen->hasOneUse()) {
    use = &widen.getInMutable();
    widen = use->get().getDefiningOp<arith::ExtFOp>();
  }
  return use;
}

/// Marks state, `only` of one role where that is given, as the rank's own where
/// what takes its place varies.
SmallVector<BlockArgument>
DataParallel::findHandedOn(func::FuncOp step, AxisShardings &shardings,
                           std::optional<Role> only) {
  SmallVector<BlockArgument> found;
  if (!step.getFunctionBody().hasOneBlock())
    return found;
  Operation *exit = step.getFunctionBody().front().getTerminator();
  for (bool changed = true; changed;) {
    changed = false;
    for (BlockArgument argument : step.getArguments()) {
      std::optional<int64_t> index = getDonation(step, argument.getArgNumber());
      if (!index || *index < 0 || *index >= exit->getNumOperands() ||
          shardings.varies(argument) ||
          !shardings.varies(exit->getOperand(*index)) ||
          (only && getResultRole(step, *index) != only))
        continue;
      shardings.vary(argument);
      found.push_back(argument);
      changed = true;
    }
  }
  return found;
}

/// State of optimizers that ranks run alone between two meetings stays with
/// them.
void DataParallel::keepLocalState(func::FuncOp step, AxisShardings &shardings) {
  SignatureEditor editor(step);
  Builder builder(&getContext());
  for (BlockArgument state :
       findHandedOn(step, shardings, Role::OptimizerState)) {
    auto type = dyn_cast<RankedTensorType>(state.getType());
    if (!type) // an error of verifyResults
      continue;
    ShardingAttr sharding = getLocalSharding(
        FlatSymbolRefAttr::get(&getContext(), mesh),
        builder.getStrArrayAttr({StringRef(axis)}), type.getRank());
    editor.setArgument(state.getArgNumber(), kShardingAttr, sharding);
    editor.setResult(*getDonation(step, state.getArgNumber()), kShardingAttr,
                     sharding);
  }
  editor.apply();
}

LogicalResult DataParallel::collectGradients(func::FuncOp step,
                                             const AxisShardings &shardings) {
  for (OptimizerOpInterface op : shardings.getOptimizers())
    for (OpOperand *operand : op.getGradientOperands()) {
      OpOperand *use = getNarrowUse(operand);
      Value gradient = use->get();
      if (!shardings.varies(gradient)) {
        ++replicated;
        continue;
      }
      bool first = !toAverage.contains(gradient);
      if (failed(collect(*use, step, "gradient")))
        return failure();
      gradientValues.insert(gradient);
      gradients += first;
      gradientBytes += first * mpcomm::detail::countBytes(gradient.getType());
    }
  return success();
}

/// The loss, and buffers of floats, such as the running statistics of a batch
/// norm: their mean is what a rank with all of the samples would see of means,
/// and close to it of variances.
LogicalResult DataParallel::collectResults(func::FuncOp step,
                                           const AxisShardings &shardings) {
  for (Block &block : step.getFunctionBody()) {
    auto exit = dyn_cast_if_present<func::ReturnOp>(block.getTerminator());
    if (!exit)
      continue;
    for (OpOperand &use : exit->getOpOperands()) {
      std::optional<Role> role = getResultRole(step, use.getOperandNumber());
      bool isBuffer = role == Role::Buffer &&
                      isa<FloatType>(getElementTypeOrSelf(use.get().getType()));
      if ((role != Role::Loss && !isBuffer) || !shardings.varies(use.get()))
        continue;
      if (failed(collect(use, step, isBuffer ? "buffer" : "loss")))
        return failure();
      buffers += isBuffer;
    }
  }
  return success();
}

/// Greatest magnitudes of this step, of which all ranks keep one history.
LogicalResult DataParallel::collectMagnitudes(func::FuncOp step,
                                              const AxisShardings &shardings) {
  WalkResult result = step.walk([&](UpdateFp8ScaleOp op) {
    OpOperand &use = op.getAmaxMutable();
    if (!shardings.varies(use.get()) || op->hasAttr(kLocalUpdateAttr))
      return WalkResult::advance();
    if (op->getParentRegion() != &step.getFunctionBody() ||
        use.get().getParentRegion() != op->getParentRegion()) {
      op.emitOpError("is in a nested region, or its greatest magnitude is, "
                     "where ranks may not meet; expected both in the body of @")
          << kTrainStep;
      return WalkResult::interrupt();
    }
    magnitudes.push_back(&use);
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult DataParallel::chooseWire() {
  Builder builder(&getContext());
  wireType = llvm::StringSwitch<Type>(wire)
                 .Case("f32", builder.getF32Type())
                 .Case("f16", builder.getF16Type())
                 .Case("bf16", builder.getBF16Type())
                 .Default(Type());
  if (wireType || wire.empty())
    return success();
  return getOperation().emitError()
         << "cannot send gradients as '" << wire.getValue()
         << "', expected f32, f16 or bf16";
}

/// The mean of `value`, by an op whose first result it is.
Operation *DataParallel::average(OpBuilder &builder, Value value) {
  Location loc = value.getLoc();
  auto type = cast<RankedTensorType>(value.getType());
  bool isGradient = gradientValues.contains(value);
  auto reduction = Reduction::Mean;
  if (isGradient && averaging == Averaging::Before) {
    value = PredivideOp::create(builder, loc, value,
                                FlatSymbolRefAttr::get(&getContext(), mesh),
                                builder.getStrArrayAttr({StringRef(axis)}));
    reduction = Reduction::Sum;
  }
  Type element = type.getElementType(), travels = element;
  if (isGradient && wireType &&
      wireType.getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth())
    travels = wireType;
  TypeAttr wireAttr, accumulate;
  if (travels != element)
    wireAttr = TypeAttr::get(travels);
  if (travels.getIntOrFloatBitWidth() < 32 || (isGradient && wireType))
    accumulate = TypeAttr::get(builder.getF32Type());
  return AllReduceOp::create(
      builder, loc, value, FlatSymbolRefAttr::get(&getContext(), mesh),
      builder.getStrArrayAttr({StringRef(axis)}),
      ReductionAttr::get(&getContext(), reduction), wireAttr, accumulate);
}

/// After the definition of `value`, and after what was put there before.
void DataParallel::average(Value value, const Uses &uses) {
  OpBuilder builder(&getContext());
  Operation *def = value.getDefiningOp();
  void *place = def ? static_cast<void *>(def) : value.getParentBlock();
  Operation *&last = lastInserted.try_emplace(place, def).first->second;
  if (last)
    builder.setInsertionPointAfter(last);
  else
    builder.setInsertionPointToStart(value.getParentBlock());
  Operation *mean = average(builder, value);
  last = mean;
  for (OpOperand *use : uses)
    use->set(mean->getResult(0));
}

/// One all_reduce before the first update, of all that is defined by then.
void DataParallel::reduceMagnitudes() {
  for (MutableArrayRef<OpOperand *> rest = magnitudes; !rest.empty();) {
    Operation *first = rest.front()->getOwner();
    auto isReady = [&](OpOperand *use) {
      Operation *def = use->get().getDefiningOp();
      return use->getOwner()->getBlock() == first->getBlock() &&
             (!def || def->getBlock() != first->getBlock() ||
              def->isBeforeInBlock(first));
    };
    auto end = std::find_if_not(rest.begin(), rest.end(), isReady);
    MutableArrayRef<OpOperand *> ready =
        rest.take_front(std::distance(rest.begin(), end));
    rest = rest.drop_front(ready.size());
    llvm::SmallSetVector<Value, 8> values;
    for (OpOperand *use : ready)
      values.insert(use->get());
    OpBuilder builder(first);
    auto greatest =
        AllReduceOp::create(builder, first->getLoc(), values.getArrayRef(),
                            FlatSymbolRefAttr::get(&getContext(), mesh),
                            builder.getStrArrayAttr({StringRef(axis)}),
                            ReductionAttr::get(&getContext(), Reduction::Max),
                            TypeAttr(), TypeAttr());
    for (OpOperand *use : ready)
      use->set(greatest->getResult(
          std::distance(values.begin(), llvm::find(values, use->get()))));
  }
}

void DataParallel::runOnOperation() {
  toAverage.clear();
  magnitudes.clear();
  gradientValues.clear();
  lastInserted.clear();
  gradients = gradientBytes = replicated = buffers = 0;

  func::FuncOp step = getTrainStep(getOperation());
  if (!step)
    return signalPassFailure();
  FailureOr<MeshOp> meshOp = getOrCreateMesh();
  if (failed(meshOp))
    return signalPassFailure();
  ranks = *meshOp->getAxisSize(axis);
  if (failed(chooseWire()))
    return signalPassFailure();

  if (ranks > 1) {
    AxisShardings shardings(step, axis, AxisShardings::Gradients::Reduced);
    WalkResult local = getOperation().walk([](Operation *op) {
      return op->hasAttr(kLocalUpdateAttr) ? WalkResult::interrupt()
                                           : WalkResult::advance();
    });
    if (local.wasInterrupted())
      keepLocalState(step, shardings);
    if (microBatches > 1) // any state may be handed on between them
      findHandedOn(step, shardings, /*only=*/std::nullopt);
    if (failed(collectGradients(step, shardings)) ||
        failed(collectResults(step, shardings)) ||
        failed(collectMagnitudes(step, shardings)))
      return signalPassFailure();
    for (auto &[value, uses] : toAverage)
      average(value, uses);
    reduceMagnitudes();
    if (!verifyResults(step, shardings, /*isStep=*/true))
      return signalPassFailure();
  }
  remark::analysis(step.getLoc(), remark::RemarkOpts::name("DataParallel")
                                      .category(DEBUG_TYPE)
                                      .function(step.getName()))
      << remark::metric("ranks", ranks)
      << remark::metric("gradients", gradients)
      << remark::metric("bytes", gradientBytes)
      << remark::metric("replicated", replicated)
      << remark::metric("buffers", buffers)
      << remark::metric("magnitudes", static_cast<int64_t>(magnitudes.size()));
}
