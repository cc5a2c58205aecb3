//===- CastRewriter.cpp - types and casts of a planned step ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See CastRewriter.h.
//
//===----------------------------------------------------------------------===//

#include "Precision/CastRewriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Analysis/StepSignature.h"

using namespace mlir;
using namespace mpcomm;

CastRewriter::CastRewriter(func::FuncOp function,
                           const StepPrecision &precision,
                           const PrecisionGraph &graph, const CastPlan &plan)
    : function(function), precision(precision), graph(graph), plan(plan),
      editor(function), numArguments(function.getNumArguments()) {
  for (unsigned i = 0; i < numArguments; ++i)
    if (StringRef name = getArgumentName(function, i); !name.empty())
      names.try_emplace(name, i);
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (getResultRole(function, i) == Role::Parameter)
      parameters.try_emplace(getResultName(function, i), i);
}

static Type withElement(Type type, Type element) {
  return ::cast<RankedTensorType>(type).clone(element);
}

Value CastRewriter::cast(OpBuilder &builder, Value value, Type element) {
  Type type = withElement(value.getType(), element);
  Operation *op;
  if (element.isF32())
    op = arith::ExtFOp::create(builder, value.getLoc(), type, value);
  else
    op = arith::TruncFOp::create(builder, value.getLoc(), type, value);
  made.push_back(op);
  return op->getResult(0);
}

bool CastRewriter::isMadeNarrow(Value value) const {
  int producer = graph.getProblem().values[graph.getValue(value)].producer;
  return producer >= 0 && plan.isNarrow[producer];
}

//===----------------------------------------------------------------------===//
// Narrow forms
//===----------------------------------------------------------------------===//

Value CastRewriter::getNarrowConstant(Value constant) {
  Value &result = narrows[constant];
  if (result)
    return result;
  OpBuilder builder(function.getContext());
  builder.setInsertionPointAfter(constant.getDefiningOp());
  DenseElementsAttr elements;
  if (!matchPattern(constant, m_Constant(&elements)))
    return result = cast(builder, constant, precision.narrow);
  auto narrow = ::cast<DenseFPElementsAttr>(elements).mapValues(
      precision.narrow, [&](const APFloat &value) {
        APFloat rounded = value;
        bool losesInfo;
        rounded.convert(precision.narrow.getFloatSemantics(),
                        APFloat::rmNearestTiesToEven, &losesInfo);
        return rounded.bitcastToAPInt();
      });
  return result = arith::ConstantOp::create(builder, constant.getLoc(),
                                            ::cast<TypedAttr>(narrow));
}

/// State that holds the parameter in the narrow type: the update writes it with
/// the parameter. A null value where nothing updates the parameter.
FailureOr<Value> CastRewriter::getNarrowParameter(BlockArgument argument) {
  unsigned index = argument.getArgNumber();
  if (index >= numArguments ||
      getArgumentRole(function, index) != Role::Parameter)
    return Value();
  StringRef name = getArgumentName(function, index);
  auto result = parameters.find(name);
  if (result == parameters.end())
    return Value();
  Value updated =
      function.getBody().front().getTerminator()->getOperand(result->second);
  if (!updated.getDefiningOp() || !graph.contains(updated) ||
      isMadeNarrow(updated))
    return Value();
  MLIRContext *context = function.getContext();
  std::string suffix;
  llvm::raw_string_ostream(suffix) << '.' << precision.narrow;
  std::string copy = (name + suffix).str();
  if (auto taken = names.find(copy); taken != names.end())
    return function.emitOpError()
           << "has " << describeArgument(function, taken->second)
           << ", expected no such name: it is that of the copy of parameter '"
           << name << "' in " << precision.narrow;
  OpBuilder builder(context);
  builder.setInsertionPointAfter(updated.getDefiningOp());
  Value &narrow = narrows[updated];
  if (!narrow)
    narrow = cast(builder, updated, precision.narrow);
  NamedAttrList attrs;
  attrs.set(kRoleAttr, RoleAttr::get(context, Role::OptimizerState));
  attrs.set(kNameAttr, builder.getStringAttr(copy));
  unsigned number = editor.addResult(narrow, attrs);
  attrs.set(kCopyOfAttr, builder.getStringAttr(name));
  attrs.set(kDonatedAttr, builder.getI64IntegerAttr(number));
  ++copies;
  return Value(editor.addArgument(narrow.getType(), attrs, argument.getLoc()));
}

/// The value in the narrow type.
Value CastRewriter::getNarrow(Value value) {
  if (isMadeNarrow(value))
    return value;
  if (Value narrow = narrows.lookup(value))
    return narrow;
  OpBuilder builder(function.getContext());
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    FailureOr<Value> copy = getNarrowParameter(argument);
    failed |= ::failed(copy);
    if (succeeded(copy) && *copy)
      return narrows[value] = *copy;
    builder.setInsertionPointToStart(&function.getBody().front());
  } else {
    builder.setInsertionPointAfter(value.getDefiningOp());
  }
  return narrows[value] = cast(builder, value, precision.narrow);
}

//===----------------------------------------------------------------------===//
// Wide forms
//===----------------------------------------------------------------------===//

/// What `use`, in `at` of the body, reads in f32.
Value CastRewriter::getWide(OpOperand &use, Operation *at) {
  Value value = use.get();
  int producer = graph.getProblem().values[graph.getValue(use)].producer;
  if (producer < 0 || !plan.isNarrow[producer])
    return value;
  Value narrow = getNarrow(value);
  Value &wide = wides[graph.isForward(at)][narrow];
  if (!wide) {
    OpBuilder builder(at);
    wide = cast(builder, narrow, Float32Type::get(function.getContext()));
  }
  return wide;
}

void CastRewriter::rewrite(Operation *op) {
  bool isNarrow = plan.isNarrow[graph.getNode(op)];
  // Reads first: they are found by the values that the step had. Those of
  // products from 8 bits are Fp8Rewriter's.
  SmallVector<std::pair<OpOperand *, Value>> reads;
  forEachRead(op, [&](OpOperand &use) {
    if (graph.isQuantized(op))
      return;
    if (graph.contains(use.get()))
      reads.push_back(
          {&use, isNarrow ? getNarrow(use.get()) : getWide(use, op)});
    else if (isNarrow && getElementTypeOrSelf(use.get().getType()).isF32())
      reads.push_back({&use, getNarrowConstant(use.get())});
  });
  for (auto [use, value] : reads)
    use->set(value);
  if (!isNarrow)
    return;
  for (Value result : op->getResults())
    if (graph.contains(result))
      result.setType(withElement(result.getType(), precision.narrow));
}

//===----------------------------------------------------------------------===//
// The whole step
//===----------------------------------------------------------------------===//

/// Whether a cast can be part of the kernel that `op` is in: products are not
/// in kernels, and what comes from or goes outside of the step has none.
static bool hasKernel(Operation *op) {
  auto model = dyn_cast_if_present<PrecisionOpInterface>(op);
  return model && model.getPrecisionClass() != PrecisionClass::LowerPrecision;
}

/// Whether the kernels of neither side of a cast can do it. Movements are no
/// kernels: they are looked through.
static bool standsAlone(Operation *cast) {
  Operation *maker = cast->getOperand(0).getDefiningOp();
  while (maker && getMoved(maker))
    maker = getMoved(maker).getDefiningOp();
  if (hasKernel(maker))
    return false;
  SmallVector<Operation *> readers(cast->getUsers());
  while (!readers.empty()) {
    Operation *reader = readers.pop_back_val();
    if (getMoved(reader))
      llvm::append_range(readers, reader->getUsers());
    else if (hasKernel(reader))
      return false;
  }
  return true;
}

LogicalResult CastRewriter::run() {
  SmallVector<Operation *> ops;
  for (Operation &op : function.getBody().front())
    if (!matchPattern(&op, m_Constant()))
      ops.push_back(&op);
  for (Operation *op : ops)
    rewrite(op);
  editor.apply();
  for (Operation *op : made) {
    Type wide = op->getResult(0).getType();
    if (isa<arith::TruncFOp>(op))
      wide = op->getOperand(0).getType();
    int64_t size = mpcomm::detail::countBytes(wide);
    ++casts;
    bytes += size;
    if (standsAlone(op)) {
      ++alone;
      aloneBytes += size;
    }
  }
  return failure(failed);
}
