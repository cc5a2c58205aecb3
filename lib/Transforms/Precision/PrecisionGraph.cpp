//===- PrecisionGraph.cpp - a step as a placement problem -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See PrecisionGraph.h. The forward pass is what the loss depends on; what
// reads its values and is not part of it comes after.
//
//===----------------------------------------------------------------------===//

#include "Precision/PrecisionGraph.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Analysis/Dataflow/Linearity.h"
#include "mpcomm/Analysis/StepSignature.h"

using namespace mlir;
using namespace mpcomm;
using mpcomm::detail::countElements;

/// Statistics have at most this part of the elements of what they are of.
static constexpr int64_t kStatisticsPart = 2;

bool PrecisionGraph::isSubject(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.hasStaticShape() && type.getElementType().isF32() &&
         !matchPattern(value, m_Constant());
}

void mpcomm::forEachRead(Operation *op,
                         llvm::function_ref<void(OpOperand &)> visit) {
  op->walk([&](Operation *inner) {
    for (OpOperand &use : inner->getOpOperands())
      if (inner == op ||
          !op->isAncestor(use.get().getParentBlock()->getParentOp()))
        visit(use);
  });
}

Operation *mpcomm::getAncestorIn(Block &block, Operation *op) {
  return block.findAncestorOpInBlock(*op);
}

//===----------------------------------------------------------------------===//
// Forward and backward
//===----------------------------------------------------------------------===//

void PrecisionGraph::findForward() {
  SmallVector<Operation *> stack;
  auto push = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (op && op->getBlock() == &body && forward.insert(op).second)
      stack.push_back(op);
  };
  for (OpOperand &use : body.getTerminator()->getOpOperands())
    if (getResultRole(function, use.getOperandNumber()) == Role::Loss)
      push(use.get());
  while (!stack.empty())
    forEachRead(stack.pop_back_val(), [&](OpOperand &use) { push(use.get()); });
}

Value mpcomm::getMoved(Operation *op) {
  return isa_and_nonnull<MovementOpInterface>(op) ? op->getOperand(0) : Value();
}

/// Backward reads of a movement read one of their own, where its input is there
/// anyway or is smaller: then the input is what is stored.
void PrecisionGraph::repeatMovements() {
  SmallVector<Operation *> ops;
  for (Operation &op : body)
    if (isForward(&op) && getMoved(&op) && isSubject(op.getResult(0)))
      ops.push_back(&op);
  auto isReadLater = [&](Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      Operation *at = getAncestorIn(body, user);
      return !isForward(at) && at != body.getTerminator();
    });
  };
  // From the last on: the input of a movement may be another one.
  for (Operation *op : llvm::reverse(ops)) {
    Value result = op->getResult(0), input = getMoved(op);
    Operation *maker = input.getDefiningOp();
    bool isThere = !maker || !isForward(maker) || isReadLater(input);
    bool isSmaller =
        countElements(input.getType()) < countElements(result.getType());
    if (!isReadLater(result) || !(isThere || isSmaller))
      continue;
    Operation *first = nullptr;
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : result.getUses()) {
      Operation *at = getAncestorIn(body, use.getOwner());
      if (isForward(at) || at == body.getTerminator())
        continue;
      uses.push_back(&use);
      if (!first || at->isBeforeInBlock(first))
        first = at;
    }
    OpBuilder builder(first);
    Operation *again = builder.clone(*op);
    originals[again->getResult(0)] = result;
    for (OpOperand *use : uses)
      use->set(again->getResult(0));
  }
}

/// Whether an activation of the forward pass is stored for the backward pass:
/// small statistics are not. What a loop stacks is of many trips.
bool PrecisionGraph::isSaved(Value value) const {
  Operation *op = value.getDefiningOp();
  if (!precision.storeActivations || !op || !isForward(op))
    return false;
  if (auto loop = dyn_cast<ScanOp>(op))
    return llvm::is_contained(loop.getStacked(), value);
  auto model = dyn_cast<PrecisionOpInterface>(op);
  if (model && model.getPrecisionClass() != PrecisionClass::FP32)
    return true;
  int64_t largest = 0;
  for (Type type : op->getOperandTypes())
    largest = std::max(largest, countElements(type));
  for (Type type : op->getResultTypes())
    largest = std::max(largest, countElements(type));
  return countElements(value.getType()) > largest / kStatisticsPart;
}

/// Whether `use` comes so late that its value has been stored by then.
bool PrecisionGraph::readsStore(OpOperand &use) const {
  Operation *at = getAncestorIn(body, use.getOwner());
  if (isQuantized(at))
    return false;
  if (precision.storeGradients)
    if (auto update = dyn_cast<OptimizerOpInterface>(use.getOwner())) {
      // What one update gives to the next is in f32.
      Operation *maker = use.get().getDefiningOp();
      if (llvm::is_contained(update.getGradientOperands(), &use))
        return maker && !isa<OptimizerOpInterface>(maker);
    }
  return !isForward(at) && at != body.getTerminator() && isSaved(use.get());
}

//===----------------------------------------------------------------------===//
// Classes
//===----------------------------------------------------------------------===//

static CastClass toCastClass(PrecisionClass precision) {
  switch (precision) {
  case PrecisionClass::LowerPrecision:
    return CastClass::Narrow;
  case PrecisionClass::FP32:
    return CastClass::Wide;
  case PrecisionClass::Promote:
    return CastClass::Promote;
  case PrecisionClass::Any:
    return CastClass::Moves;
  }
  llvm_unreachable("covered switch");
}

/// Whether all floats that `op` reads and makes are tensors of f32.
static bool isAllF32(Operation *op) {
  auto isF32 = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    Type element = getElementTypeOrSelf(type);
    return !isa<FloatType>(element) ||
           (tensor && tensor.hasStaticShape() && element.isF32());
  };
  return llvm::all_of(op->getOperandTypes(), isF32) &&
         llvm::all_of(op->getResultTypes(), isF32);
}

/// Numbers from integers are rounded by the op itself.
static bool makesFloats(Operation *op) {
  auto isFloat = [](Value value) {
    return isa<FloatType>(getElementTypeOrSelf(value.getType()));
  };
  return llvm::any_of(op->getResults(), isFloat) &&
         llvm::none_of(op->getOperands(), isFloat);
}

/// Whether it sums up products of two operands: a factor on either is one on
/// the result.
static bool isBilinear(Operation *op) {
  return cast<PrecisionOpInterface>(op).getPrecisionClass() ==
             PrecisionClass::LowerPrecision &&
         getLinearity(op).kind == Linearity::Each && op->getNumOperands() == 2;
}

/// `isOwn`: nobody but the op itself has said so.
FailureOr<CastClass> PrecisionGraph::getClass(Operation *op, bool &isOwn) {
  isOwn = false;
  auto attribute = op->getAttrOfType<StringAttr>(kPrecisionAttr);
  if (op->hasAttr(kPrecisionAttr) &&
      (!attribute || (attribute.getValue() != "lower_precision" &&
                      attribute.getValue() != "fp32")))
    return op->emitOpError()
           << "has '" << kPrecisionAttr
           << "', expected \"lower_precision\" or \"fp32\", got "
           << op->getAttr(kPrecisionAttr);
  auto model = dyn_cast<PrecisionOpInterface>(op);
  // Attention makes statistics too, which have no narrower type: it stays in
  // the type in which it is written. A loop has the types of its body.
  bool isFree = model && op->getNumRegions() == 0 && isAllF32(op) &&
                !isa<OptimizerOpInterface, UpdateLossScaleOp, UpdateFp8ScaleOp,
                     AttentionOp, AttentionGradOp, ScanOp>(op) &&
                isMemoryEffectFree(op) &&
                !op->hasTrait<OpTrait::IsTerminator>() && !makesFloats(op);
  if (attribute && attribute.getValue() == "lower_precision" && !isFree)
    return op->emitOpError()
           << "has '" << kPrecisionAttr
           << "' \"lower_precision\", expected it on a pure op without regions "
              "that reads "
              "and makes tensors of f32 and updates nothing, but not on "
              "attention, which makes a statistic too, or a loop";
  if (!isFree)
    return CastClass::Wide;
  if (attribute)
    return attribute.getValue() == "lower_precision" ? CastClass::Narrow
                                                     : CastClass::Wide;
  auto rule = precision.policy.ops.find(op->getName().getStringRef().str());
  isOwn = rule == precision.policy.ops.end();
  return toCastClass(isOwn ? model.getPrecisionClass() : rule->second);
}

bool PrecisionGraph::isNarrowProduct(Operation *op) {
  bool isOwn;
  auto model = dyn_cast<PrecisionOpInterface>(op);
  if (!model || model.getPrecisionClass() != PrecisionClass::LowerPrecision)
    return false;
  FailureOr<CastClass> found = getClass(op, isOwn);
  return succeeded(found) && *found == CastClass::Narrow;
}

/// Products that read a parameter which policy keeps in f32, or make its
/// gradient, run in f32.
void PrecisionGraph::keepParametersWide() {
  auto isProduct = [&](Operation *op) {
    auto found = classes.find(op);
    return found != classes.end() && found->second == CastClass::Narrow &&
           !op->hasAttr(kPrecisionAttr);
  };
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    const auto *rule =
        precision.policy.lookup(getArgumentName(function, index));
    if (getArgumentRole(function, index) != Role::Parameter || !rule ||
        !rule->isFP32)
      continue;
    SmallVector<Value> reached = {argument};
    llvm::DenseSet<Operation *> seen;
    while (!reached.empty())
      for (Operation *user : reached.pop_back_val().getUsers()) {
        Operation *at = getAncestorIn(body, user);
        if (!seen.insert(at).second)
          continue;
        if (isProduct(at))
          classes[at] = CastClass::Wide;
        if (getMoved(at))
          reached.push_back(at->getResult(0));
        if (auto update = dyn_cast<OptimizerOpInterface>(at)) {
          // As far as the gradient is of this parameter alone.
          SmallVector<OpOperand *> gradients = update.getGradientOperands();
          if (gradients.size() != 1)
            continue;
          Operation *maker = gradients.front()->get().getDefiningOp();
          while (maker && getMoved(maker))
            maker = getMoved(maker).getDefiningOp();
          if (maker && isProduct(maker))
            classes[maker] = CastClass::Wide;
        }
      }
  }
}

Value PrecisionGraph::getRoot(Value value,
                              SmallVectorImpl<Operation *> &path) const {
  while (Operation *op = value.getDefiningOp()) {
    bool isOwnCast =
        isa<arith::ExtFOp, arith::TruncFOp>(op) && !contains(value);
    auto move = dyn_cast<MovementOpInterface>(op);
    if (move && move.isOneToOne())
      path.push_back(op);
    else if (!isOwnCast)
      break;
    value = op->getOperand(0);
  }
  return getOriginal(value);
}

/// Products of the forward pass that multiply by weights, which are made of
/// parameters and constants alone, and their gradients: those of the backward
/// pass that read one of their operands and something of their result's size,
/// and make something of the other operand's size. (Repeated for the backward
/// pass, they read the other operand and make the result.) Products of two
/// activations, as attention's, stay in the narrow type.
void PrecisionGraph::findQuantized() {
  llvm::DenseSet<Value> weights;
  for (BlockArgument argument : body.getArguments())
    if (getArgumentRole(function, argument.getArgNumber()) == Role::Parameter)
      weights.insert(argument);
  // Elements of the two other tensors of products that read a value.
  using Sizes = std::pair<int64_t, int64_t>;
  auto makeSizes = [](Value x, Value y) -> Sizes {
    return std::minmax(
        {countElements(x.getType()), countElements(y.getType())});
  };
  llvm::DenseMap<Value, llvm::SmallDenseSet<Sizes, 2>> read;
  for (Operation &op : body) {
    bool isOfWeights = isMemoryEffectFree(&op);
    forEachRead(&op, [&](OpOperand &use) {
      isOfWeights &= weights.contains(use.get());
    });
    if (isOfWeights)
      weights.insert_range(op.getResults());
    if (classes.lookup(&op) != CastClass::Narrow || !isBilinear(&op) ||
        !llvm::all_of(op.getOperands(), isSubject))
      continue;
    SmallVector<Operation *> path;
    bool isOne = false;
    for (unsigned i : {0u, 1u}) {
      Value root = getRoot(op.getOperand(i), path);
      isOne |= isForward(&op) ? weights.contains(root)
                              : read.lookup(root).contains(makeSizes(
                                    op.getOperand(1 - i), op.getResult(0)));
    }
    if (!isOne)
      continue;
    quantized.insert(&op);
    if (isForward(&op))
      for (unsigned i : {0u, 1u})
        read[getRoot(op.getOperand(i), path)].insert(
            makeSizes(op.getOperand(1 - i), op.getResult(0)));
  }
}

LogicalResult PrecisionGraph::findClasses() {
  for (Operation &op : body) {
    bool isOwn;
    FailureOr<CastClass> found = getClass(&op, isOwn);
    if (failed(found))
      return failure();
    classes[&op] = *found;
    if (isOwn && *found == CastClass::Narrow)
      products.push_back(&op);
  }
  keepParametersWide();
  if (precision.fp8)
    findQuantized();
  llvm::erase_if(products, [&](Operation *op) {
    return classes.lookup(op) != CastClass::Narrow;
  });
  return success();
}

CastProblem PrecisionGraph::getWideProblem() const {
  CastProblem result = problem;
  for (Operation *op : products)
    result.ops[getNode(op)] = CastClass::Wide;
  return result;
}

/// Vectors of parameters, such as biases, follow what they are added to. Other
/// values from outside keep their bits.
ValueKind PrecisionGraph::getArgumentKind(BlockArgument argument) {
  unsigned index = argument.getArgNumber();
  if (getArgumentRole(function, index) != Role::Parameter)
    return ValueKind::Exact;
  if (const auto *rule =
          precision.policy.lookup(getArgumentName(function, index)))
    return rule->isFP32 ? ValueKind::Exact : ValueKind::Narrow;
  auto type = cast<RankedTensorType>(argument.getType());
  return llvm::count_if(type.getShape(), [](int64_t n) { return n > 1; }) <= 1
             ? ValueKind::Neutral
             : ValueKind::Exact;
}

//===----------------------------------------------------------------------===//
// The problem
//===----------------------------------------------------------------------===//

int PrecisionGraph::getValue(OpOperand &use) const {
  auto store = stores.find(use.get());
  return store != stores.end() && readsStore(use) ? store->second
                                                  : numbers.lookup(use.get());
}

void PrecisionGraph::addValue(Value value, int producer) {
  numbers[value] = problem.values.size();
  CastProblem::Value &entry = problem.values.emplace_back();
  entry.bytes = mpcomm::detail::countBytes(value.getType());
  entry.producer = producer;
  if (producer < 0)
    entry.kind = getArgumentKind(cast<BlockArgument>(value));
  if (!llvm::any_of(value.getUses(),
                    [&](OpOperand &use) { return readsStore(use); }) ||
      producer < 0)
    return;
  entry.consumers.push_back(problem.ops.size());
  CastProblem::Value store;
  store.bytes = entry.bytes;
  store.producer = problem.ops.size();
  problem.ops.push_back(CastClass::Narrow);
  stores[value] = problem.values.size();
  problem.values.push_back(store);
}

/// Whether the narrow type has all elements of a constant.
static bool holds(FloatType narrow, DenseElementsAttr elements) {
  auto isHeld = [&](APFloat value) {
    bool losesInfo = false;
    value.convert(narrow.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &losesInfo);
    return !losesInfo;
  };
  if (elements.isSplat())
    return isHeld(elements.getSplatValue<APFloat>());
  return llvm::all_of(elements.getValues<APFloat>(), isHeld);
}

void PrecisionGraph::addReads(Operation *op, int node) {
  if (isQuantized(op))
    return;
  llvm::DenseSet<int> seen;
  forEachRead(op, [&](OpOperand &use) {
    if (isSubject(use.get())) {
      int number = getValue(use);
      if (seen.insert(number).second)
        problem.values[number].consumers.push_back(node);
      return;
    }
    // A constant is there in either type, but does not lose bits for others.
    DenseElementsAttr elements;
    if (!matchPattern(use.get(), m_Constant(&elements)) ||
        !elements.getElementType().isF32() || holds(precision.narrow, elements))
      return;
    CastProblem::Value constant;
    constant.consumers.push_back(node);
    problem.values.push_back(constant);
  });
}

LogicalResult PrecisionGraph::build() {
  findForward();
  if (precision.storeActivations)
    repeatMovements();
  if (failed(findClasses()))
    return failure();
  for (BlockArgument argument : function.getArguments())
    if (isSubject(argument))
      addValue(argument, /*producer=*/-1);
  for (Operation &op : body) {
    if (matchPattern(&op, m_Constant()))
      continue;
    int node = problem.ops.size();
    problem.ops.push_back(classes.lookup(&op));
    nodes[&op] = node;
    addReads(&op, node);
    for (Value result : op.getResults())
      if (isSubject(result))
        addValue(result, node);
  }
  std::string wrong = problem.check();
  if (!wrong.empty())
    return function.emitOpError() << "is too large for casts: " << wrong;
  return success();
}
