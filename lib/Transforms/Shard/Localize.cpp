//===- Localize.cpp - types and collectives of what ranks hold ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each op that works on parts (Parts.h) gets a twin that does; values are cut,
// and put together, where a twin and another op meet, and where a reshard says
// so. Then the ops that have twins go.
//
//===----------------------------------------------------------------------===//

#include "Shard/Parts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Analysis/SignatureEditor.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "mpcomm/Dialect/MPComm/Utils/Sharding.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/Support/MathExtras.h"

namespace mpcomm {
#define GEN_PASS_DEF_LOCALIZEPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-localize"

using namespace mlir;
using namespace mpcomm;

namespace {

class Localizer {
public:
  Localizer(func::FuncOp function, const FlatSharding &flat)
      : function(function), body(function.getFunctionBody().front()),
        mesh(flat.sharding.getMesh()), axes(flat.axes), ranks(flat.ranks),
        builder(function.getContext()), marked(function, flat) {}
  void run();

private:
  RankedTensorType typeOfPart(Value whole) const;
  bool isPart(Value whole) const { return marked.contains(whole); }

  Value flatten(Value whole);
  Value getPart(Value whole);
  Value getWhole(Value whole);
  Value gather(Value part, Value whole, DictionaryAttr attrs = {});
  Value reduceOverRanks(Value value, Reduction reduction);
  void addArguments();
  Operation *createTwin(Operation *op, ValueRange operands);
  void emitReshard(Operation *op);
  void emitCall(CallOpInterface op);
  void emitAlone(Operation *op);
  void emitPerGradient(Operation *op);
  void emitExtremum(Operation *op);
  void emitNorm(ClipByGlobalNormOp op, ArrayRef<Value> gradients);
  Value sumOfSquares(Location loc, ArrayRef<Value> gradients,
                     ArrayRef<bool> areParts);
  void finish();

  func::FuncOp function;
  Block &body;
  FlatSymbolRefAttr mesh;
  ArrayAttr axes; // names
  int64_t ranks;
  OpBuilder builder;
  Parts marked;
  /// By value of whole type: the part, and the whole that was put together.
  llvm::DenseMap<Value, Value> parts, wholes;
  Operation *reader = nullptr; // of what is cut, in program order
  int64_t splits = 0, scatters = 0, slices = 0, gathers = 0;
};

} // namespace

//===----------------------------------------------------------------------===//
// Parts and wholes
//===----------------------------------------------------------------------===//

RankedTensorType Localizer::typeOfPart(Value whole) const {
  auto type = cast<RankedTensorType>(whole.getType());
  return RankedTensorType::get(
      {static_cast<int64_t>(llvm::divideCeil(type.getNumElements(), ranks))},
      type.getElementType());
}

/// In row-major order, with zeros behind, to a multiple of the ranks.
Value Localizer::flatten(Value whole) {
  return flattenTo(builder, whole.getLoc(), whole,
                   typeOfPart(whole).getNumElements() * ranks);
}

Value Localizer::getPart(Value whole) {
  if (Value part = parts.lookup(whole))
    return part;
  OpBuilder::InsertionGuard guard(builder);
  Location loc = whole.getLoc();
  RankedTensorType type = typeOfPart(whole);
  if (isUniform(whole)) {
    Operation *def = whole.getDefiningOp();
    builder.setInsertionPointAfter(def);
    if (auto broadcast = dyn_cast<BroadcastInDimOp>(def))
      return parts[whole] = BroadcastInDimOp::create(
                 builder, loc, type, broadcast.getInput(), ArrayRef<int64_t>());
    DenseElementsAttr constant;
    matchPattern(whole, m_Constant(&constant));
    return parts[whole] = arith::ConstantOp::create(
               builder, loc,
               cast<TypedAttr>(Attribute(constant.resizeSplat(type))));
  }
  builder.setInsertionPointAfterValue(whole);
  auto reduce = whole.getDefiningOp<AllReduceOp>();
  if (reduce && reduce.getMeshAttr() == mesh && reduce.getAxes() == axes &&
      reduce.getInputs().size() == 1 && marked.areAllReadBy(whole)) {
    ++scatters;
    return parts[whole] =
               ReduceScatterOp::create(
                   builder, loc, type, flatten(reduce.getInputs().front()),
                   mesh, axes, reduce.getReductionAttr(),
                   builder.getDenseI64ArrayAttr(0), reduce.getWireAttr(),
                   reduce.getAccumulateAttr(), reduce.getChannelAttr())
                   ->getResult(0);
  }
  // Where it is first read: until then the whole is there anyway.
  builder.setInsertionPoint(reader);
  ++slices;
  return parts[whole] =
             AllSliceOp::create(builder, loc, type, flatten(whole), mesh, axes,
                                builder.getI64IntegerAttr(0));
}

/// Puts `part` together, to a value of the type of `whole`.
Value Localizer::gather(Value part, Value whole, DictionaryAttr attrs) {
  Location loc = whole.getLoc();
  auto type = cast<RankedTensorType>(whole.getType());
  int64_t padded = typeOfPart(whole).getNumElements() * ranks;
  auto flat = RankedTensorType::get({padded}, type.getElementType());
  auto op = AllGatherOp::create(builder, loc, flat, part, mesh, axes,
                                builder.getDenseI64ArrayAttr(0),
                                builder.getI64IntegerAttr(0));
  if (attrs)
    op->setDiscardableAttrs(attrs);
  ++gathers;
  return unflattenTo(builder, loc, op->getResult(0), type.getShape());
}

/// Of a value that is there in parts.
Value Localizer::getWhole(Value whole) {
  if (Value value = wholes.lookup(whole))
    return value;
  OpBuilder::InsertionGuard guard(builder);
  Value part = parts.lookup(whole);
  builder.setInsertionPointAfterValue(part);
  return wholes[whole] = gather(part, whole);
}

Value Localizer::reduceOverRanks(Value value, Reduction reduction) {
  return AllReduceOp::create(
             builder, value.getLoc(), ValueRange(value), mesh, axes,
             ReductionAttr::get(builder.getContext(), reduction), TypeAttr(),
             TypeAttr(), builder.getI64IntegerAttr(0))
      ->getResult(0);
}

/// New arguments, of all that there are, stand behind the old ones, which go at
/// the end.
void Localizer::addArguments() {
  SmallVector<BlockArgument> old(body.getArguments());
  for (BlockArgument whole : old) {
    BlockArgument made = body.addArgument(
        isPart(whole) ? typeOfPart(whole) : whole.getType(), whole.getLoc());
    if (isPart(whole))
      parts[whole] = made;
  }
}

//===----------------------------------------------------------------------===//
// Ops on parts
//===----------------------------------------------------------------------===//

namespace {

/// The types that the values of an op, and of its region, have on parts: flat
/// ones of the shape that it works on, or those with the rows of a part.
class TwinTypes {
public:
  TwinTypes(Operation *op, int64_t elements, int64_t ranks)
      : op(op), elements(elements), ranks(ranks),
        work(cast<RankedTensorType>(op->getResult(0).getType()).getShape()) {
    if (getFlatKind(op, ranks) != FlatKind::Rows)
      return;
    Block &body = op->getRegion(0).front();
    joined.emplace(body);
    joined->finish();
    rows = *joined->find(body.getArgument(0), 0);
  }

  bool areRows() const { return joined.has_value(); }

  /// Of a result of `op`.
  Type ofResult(OpResult result) const {
    return areRows() ? of(op->getRegion(0).front().getTerminator()->getOperand(
                           result.getResultNumber()))
                     : of(result);
  }
  /// Of a value of the region, or of `op` itself if it works on flat parts.
  Type of(Value value) const {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type)
      return value.getType();
    if (!areRows())
      return type.getShape() == work
                 ? RankedTensorType::get({elements}, type.getElementType())
                 : type;
    SmallVector<int64_t> shape(type.getShape());
    if (int64_t dim = joined->getDim(value, rows); dim >= 0)
      shape[dim] /= ranks;
    return RankedTensorType::get(shape, type.getElementType());
  }

private:
  Operation *op;
  int64_t elements, ranks;
  ArrayRef<int64_t> work;
  std::optional<JoinedFactors> joined;
  unsigned rows = 0;
};

} // namespace

/// What takes a dimension whole takes what a rank has of it.
static void fitLimits(SliceOp slice, ArrayRef<int64_t> whole) {
  SmallVector<int64_t> limits(slice.getLimits());
  ArrayRef<int64_t> own =
      cast<RankedTensorType>(slice.getInput().getType()).getShape();
  for (auto [limit, before, after] : llvm::zip(limits, whole, own))
    if (before != after)
      limit = after;
  slice.setLimits(limits);
}

/// `op` on `operands`, of which those that it works on are parts.
Operation *Localizer::createTwin(Operation *op, ValueRange operands) {
  TwinTypes types(op, typeOfPart(op->getResult(0)).getNumElements(), ranks);
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addAttributes(op->getAttrs());
  for (OpResult result : op->getResults())
    state.addTypes(types.ofResult(result));
  for (Region &region : op->getRegions()) {
    Block &from = region.front();
    auto *to = new Block();
    state.addRegion()->push_back(to);
    IRMapping mapping;
    for (BlockArgument argument : from.getArguments())
      mapping.map(argument,
                  to->addArgument(types.of(argument), argument.getLoc()));
    OpBuilder inner(builder.getContext()); // the region has no op yet
    inner.setInsertionPointToEnd(to);
    for (Operation &nested : from) {
      Operation *made = inner.clone(nested, mapping);
      for (auto [old, result] :
           llvm::zip(nested.getResults(), made->getResults()))
        result.setType(types.of(old));
      if (auto constant = dyn_cast<arith::ConstantOp>(made)) {
        auto value = dyn_cast<DenseElementsAttr>(constant.getValue());
        auto type = dyn_cast<ShapedType>(constant.getType());
        if (value && type != value.getType())
          constant.setValueAttr(
              cast<TypedAttr>(Attribute(value.resizeSplat(type))));
      } else if (auto slice = dyn_cast<SliceOp>(made)) {
        fitLimits(
            slice,
            cast<RankedTensorType>(nested.getOperand(0).getType()).getShape());
      }
    }
  }
  return builder.create(state);
}

/// What is gathered twice on purpose stays apart by the attributes.
void Localizer::emitReshard(Operation *op) {
  Value input = op->getOperand(0), result = op->getResult(0);
  builder.setInsertionPoint(op);
  if (isPart(result))
    parts[result] = getPart(input);
  else if (isPart(input))
    wholes[result] =
        gather(getPart(input), input, op->getDiscardableAttrDictionary());
  else
    wholes[result] = wholes.lookup(input) ? wholes[input] : input;
}

/// The callee says which arguments and results it has in parts.
void Localizer::emitCall(CallOpInterface op) {
  SmallVector<Value> operands;
  for (OpOperand &use : op->getOpOperands()) {
    Value value = use.get(), whole = wholes.lookup(value);
    operands.push_back(marked.isReadBy(use) ? getPart(value)
                       : whole              ? whole
                       : isPart(value)      ? getWhole(value)
                                            : value);
  }
  SmallVector<Type> types;
  for (Value result : op->getResults())
    types.push_back(isPart(result) ? typeOfPart(result) : result.getType());
  builder.setInsertionPoint(op);
  auto made = func::CallOp::create(builder, op.getLoc(),
                                   getCallee(op).getName(), types, operands);
  made->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  for (auto [result, value] : llvm::zip(op->getResults(), made->getResults()))
    (isPart(result) ? parts : wholes)[result] = value;
}

/// An op that works element by element, or row by row.
void Localizer::emitAlone(Operation *op) {
  bool areRows = getFlatKind(op, ranks) == FlatKind::Rows;
  builder.setInsertionPoint(op);
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    if (!isSplitIn(op, operand, ranks)) {
      operands.push_back(isPart(operand) ? getWhole(operand) : operand);
      continue;
    }
    Value part = getPart(operand);
    if (areRows) {
      SmallVector<int64_t> shape(
          cast<RankedTensorType>(operand.getType()).getShape());
      shape[0] /= ranks;
      part = reshapeTo(builder, op->getLoc(), part, shape);
    }
    operands.push_back(part);
  }
  Operation *twin = createTwin(op, operands);
  for (auto [result, made] : llvm::zip(op->getResults(), twin->getResults())) {
    if (!isSplitIn(op, result, ranks))
      wholes[result] = made;
    else
      parts[result] =
          reshapeTo(builder, op->getLoc(), made, typeOfPart(result).getShape());
  }
}

/// Whole gradients count once, parts on the ranks that have them.
Value Localizer::sumOfSquares(Location loc, ArrayRef<Value> gradients,
                              ArrayRef<bool> areParts) {
  SmallVector<Value> split, whole;
  for (auto [gradient, isPart] : llvm::zip(gradients, areParts))
    (isPart ? split : whole).push_back(gradient);
  Value sum;
  if (!split.empty())
    sum = reduceOverRanks(SquaredNormOp::create(builder, loc, split),
                          Reduction::Sum);
  if (whole.empty())
    return sum;
  Value other = SquaredNormOp::create(builder, loc, whole);
  return sum ? Value(arith::AddFOp::create(builder, loc, sum, other)) : other;
}

void Localizer::emitPerGradient(Operation *op) {
  SmallVector<Value> gradients;
  SmallVector<bool> areParts;
  for (OpOperand *use : getGradients(op)) {
    Value value = use->get();
    areParts.push_back(marked.isReadBy(*use));
    gradients.push_back(areParts.back() ? getPart(value)
                        : isPart(value) ? getWhole(value)
                                        : value);
  }
  builder.setInsertionPoint(op);
  Location loc = op->getLoc();
  auto handOn = [&](ResultRange made) {
    for (auto [use, isPart, value] :
         llvm::zip(getGradients(op), areParts, made))
      (isPart ? parts : wholes)[findHandedOn(*use)] = value;
  };
  if (auto unscale = dyn_cast<UnscaleOp>(op)) {
    auto made = UnscaleOp::create(builder, loc, gradients, unscale.getScale(),
                                  unscale.getEach());
    handOn(made.getUnscaled());
    wholes[unscale.getFound()] =
        reduceOverRanks(made.getFound(), Reduction::Max);
    return;
  }
  if (auto norm = dyn_cast<SquaredNormOp>(op)) {
    wholes[norm.getSquares()] = sumOfSquares(loc, gradients, areParts);
    return;
  }
  auto clip = cast<ClipByGlobalNormOp>(op);
  Value norm = clip.getGivenNorm();
  if (!norm)
    norm = math::SqrtOp::create(builder, loc,
                                sumOfSquares(loc, gradients, areParts));
  else if (Value made = wholes.lookup(norm))
    norm = made;
  auto made = ClipByGlobalNormOp::create(builder, loc, gradients, norm,
                                         clip.getMaxNormAttr());
  handOn(made.getClipped());
  wholes[clip.getNorm()] = made.getNorm();
}

/// Of the elements of a part, and then of the ranks. The op takes the part in a
/// shape of as many dimensions.
void Localizer::emitExtremum(Operation *op) {
  Value whole = op->getOperand(0), part = getPart(whole);
  builder.setInsertionPoint(op);
  SmallVector<int64_t> shape(cast<RankedTensorType>(whole.getType()).getRank(),
                             1);
  shape[0] = typeOfPart(whole).getNumElements();
  IRMapping mapping;
  mapping.map(whole, reshapeTo(builder, op->getLoc(), part, shape));
  Value own = builder.clone(*op, mapping)->getResult(0);
  wholes[op->getResult(0)] = reduceOverRanks(own, *findExtremum(op, ranks));
}

/// Everything else reads wholes; the function has the types of parts.
void Localizer::finish() {
  Operation *exit = body.getTerminator();
  reader = exit;
  for (Operation &op : llvm::make_early_inc_range(body)) {
    if (marked.contains(&op))
      continue;
    // What was made reads what it is to read.
    op.walk([&](Operation *nested) {
      for (OpOperand &use : nested->getOpOperands()) {
        Value value = use.get();
        if (nested == exit && marked.isReadBy(use))
          use.set(getPart(value));
        else if (Value whole = wholes.lookup(value))
          use.set(whole);
        else if (isPart(value))
          use.set(getWhole(value));
      }
    });
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (marked.contains(&op)) {
      op.dropAllUses();
      op.erase();
    }
  SignatureEditor editor(function);
  unsigned count = function.getNumArguments();
  for (unsigned i = 0; i < count; ++i) {
    BlockArgument old = body.getArgument(i);
    if (isPart(old)) {
      editor.setArgument(i, kGlobalTypeAttr, TypeAttr::get(old.getType()));
      ++splits;
    } else {
      old.replaceAllUsesWith(body.getArgument(count + i));
    }
  }
  body.eraseArguments(0, count);
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (getResultSharding(function, i))
      editor.setResult(i, kGlobalTypeAttr,
                       TypeAttr::get(function.getResultTypes()[i]));
  editor.apply();
  function.setFunctionType(
      builder.getFunctionType(llvm::to_vector(body.getArgumentTypes()),
                              llvm::to_vector(exit->getOperandTypes())));
}

void Localizer::run() {
  addArguments();
  SmallVector<Operation *> order;
  for (Operation &op : body)
    if (marked.contains(&op))
      order.push_back(&op);
  for (Operation *op : order) {
    reader = op;
    if (getReshardTarget(op))
      emitReshard(op);
    else if (auto call = dyn_cast<CallOpInterface>(op))
      emitCall(call);
    else if (getFlatKind(op, ranks) == FlatKind::PerGradient)
      emitPerGradient(op);
    else if (getFlatKind(op, ranks) == FlatKind::Extremum)
      emitExtremum(op);
    else
      emitAlone(op);
  }
  finish();
  // Reductions of which only parts are read.
  for (auto reduce : llvm::make_early_inc_range(body.getOps<AllReduceOp>()))
    if (reduce.use_empty() && parts.contains(reduce->getResult(0)))
      reduce.erase();
  remark::analysis(function.getLoc(), remark::RemarkOpts::name("Localized")
                                          .category(DEBUG_TYPE)
                                          .function(function.getName()))
      << remark::metric("split", splits) << remark::metric("scatters", scatters)
      << remark::metric("slices", slices) << remark::metric("gathers", gathers);
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {

struct Localize : public mpcomm::impl::LocalizePassBase<Localize> {
  using LocalizePassBase::LocalizePassBase;

  LogicalResult localize(func::FuncOp function);
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(localize(function)))
        return signalPassFailure();
  }
};

} // namespace

LogicalResult Localize::localize(func::FuncOp function) {
  FailureOr<FlatSharding> flat = FlatSharding::get(function);
  if (failed(flat))
    return failure();
  if (*flat)
    Localizer(function, *flat).run();
  return success();
}
