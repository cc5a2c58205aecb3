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

bool CastRewriter::isMadeLow(Value value) const {
  int producer = graph.getProblem().values[graph.getValue(value)].producer;
  return producer >= 0 && plan.isLow[producer];
}

//===----------------------------------------------------------------------===//
// Narrow forms
//===----------------------------------------------------------------------===//

Value CastRewriter::getLowConstant(Value constant) {
  Value &low = lows[constant];
  if (low)
    return low;
  OpBuilder builder(function.getContext());
  builder.setInsertionPointAfter(constant.getDefiningOp());
  DenseElementsAttr elements;
  if (!matchPattern(constant, m_Constant(&elements)))
    return low = cast(builder, constant, precision.low);
  auto narrow = ::cast<DenseFPElementsAttr>(elements).mapValues(
      precision.low, [&](const APFloat &value) {
        APFloat rounded = value;
        bool losesInfo;
        rounded.convert(precision.low.getFloatSemantics(),
                        APFloat::rmNearestTiesToEven, &losesInfo);
        return rounded.bitcastToAPInt();
      });
  return low = arith::ConstantOp::create(builder, constant.getLoc(),
                                         ::cast<TypedAttr>(narrow));
}

/// State that holds the parameter in the narrow type: the update writes it with
/// the parameter. A null value where nothing updates the parameter.
FailureOr<Value> CastRewriter::getLowParameter(BlockArgument argument) {
  unsigned index = argument.getArgNumber();
  if (index >= numArguments ||
      getArgumentRole(function, index) != Role::Parameter)
    return Value();
  StringRef name = getArgumentName(function, index);
  Operation *exit = function.getBody().front().getTerminator();
  Value updated;
  for (unsigned i = 0; i < function.getNumResults() && !updated; ++i)
    if (getResultRole(function, i) == Role::Parameter &&
        getResultName(function, i) == name)
      updated = exit->getOperand(i);
  if (!updated || !updated.getDefiningOp() || !graph.contains(updated) ||
      isMadeLow(updated))
    return Value();
  MLIRContext *context = function.getContext();
  std::string suffix;
  llvm::raw_string_ostream(suffix) << '.' << precision.low;
  std::string copy = (name + suffix).str();
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (getArgumentName(function, i) == copy)
      return function.emitOpError()
             << "has " << describeArgument(function, i)
             << ", expected no such name: it is that of the copy of parameter '"
             << name << "' in " << precision.low;
  OpBuilder builder(context);
  builder.setInsertionPointAfter(updated.getDefiningOp());
  Value &narrow = lows[updated];
  if (!narrow)
    narrow = cast(builder, updated, precision.low);
  NamedAttribute role(kRoleAttr, RoleAttr::get(context, Role::OptimizerState)),
      named(kNameAttr, builder.getStringAttr(copy));
  unsigned result = function.getNumResults();
  auto donated = builder.getI64IntegerAttr(result);
  if (::failed(
          function.insertResult(result, narrow.getType(),
                                builder.getDictionaryAttr({role, named}))) ||
      ::failed(function.insertArgument(
          function.getNumArguments(), narrow.getType(),
          builder.getDictionaryAttr(
              {role, named,
               NamedAttribute(kCopyOfAttr, builder.getStringAttr(name)),
               NamedAttribute(kDonatedAttr, donated)}),
          argument.getLoc())))
    return failure();
  exit->insertOperands(exit->getNumOperands(), narrow);
  ++copies;
  return Value(function.getArguments().back());
}

/// The value in the narrow type.
Value CastRewriter::getLow(Value value) {
  if (isMadeLow(value))
    return value;
  if (Value low = lows.lookup(value))
    return low;
  OpBuilder builder(function.getContext());
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    FailureOr<Value> copy = getLowParameter(argument);
    failed |= ::failed(copy);
    if (succeeded(copy) && *copy)
      return lows[value] = *copy;
    builder.setInsertionPointToStart(&function.getBody().front());
  } else {
    builder.setInsertionPointAfter(value.getDefiningOp());
  }
  return lows[value] = cast(builder, value, precision.low);
}

//===----------------------------------------------------------------------===//
// Wide forms
//===----------------------------------------------------------------------===//

/// What `use`, in `at` of the body, reads in f32.
Value CastRewriter::getFull(OpOperand &use, Operation *at) {
  Value value = use.get();
  int producer = graph.getProblem().values[graph.getValue(use)].producer;
  if (producer < 0 || !plan.isLow[producer])
    return value;
  Value narrow = getLow(value);
  Value &full = fulls[graph.isForward(at)][narrow];
  if (!full) {
    OpBuilder builder(at);
    full = cast(builder, narrow, Float32Type::get(function.getContext()));
  }
  return full;
}

void CastRewriter::rewrite(Operation *op) {
  bool isLow = plan.isLow[graph.getNode(op)];
  // Reads first: they are found by the values that the step had. Those of
  // products from 8 bits are Fp8Rewriter's.
  SmallVector<std::pair<OpOperand *, Value>> reads;
  forEachRead(op, [&](OpOperand &use) {
    if (graph.isQuantized(op))
      return;
    if (graph.contains(use.get()))
      reads.push_back({&use, isLow ? getLow(use.get()) : getFull(use, op)});
    else if (isLow && getElementTypeOrSelf(use.get().getType()).isF32())
      reads.push_back({&use, getLowConstant(use.get())});
  });
  for (auto [use, value] : reads)
    use->set(value);
  if (!isLow)
    return;
  for (Value result : op->getResults())
    if (graph.contains(result))
      result.setType(withElement(result.getType(), precision.low));
}

//===----------------------------------------------------------------------===//
// The whole step
//===----------------------------------------------------------------------===//

/// Whether a cast can be part of the kernel that `op` is in: products are not
/// in kernels, and what comes from or goes outside of the step has none.
static bool hasKernel(Operation *op) {
  auto model = dyn_cast_if_present<PrecisionOpInterface>(op);
  return model && model.getPrecisionClass() != PrecisionClass::Low;
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
