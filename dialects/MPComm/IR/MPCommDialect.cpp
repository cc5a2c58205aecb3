//===- MPCommDialect.cpp - the mpcomm dialect -----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Registration, and the meaning of the dialect's attributes on the arguments
// and results of functions.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpcomm;

#include "mpcomm/Dialect/MPComm/IR/MPCommDialect.cpp.inc"
#include "mpcomm/Dialect/MPComm/IR/MPCommEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "mpcomm/Dialect/MPComm/IR/MPCommAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "mpcomm/Dialect/MPComm/IR/MPCommTypes.cpp.inc"

void MPCommDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "mpcomm/Dialect/MPComm/IR/MPCommAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "mpcomm/Dialect/MPComm/IR/MPCommTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "mpcomm/Dialect/MPComm/IR/MPCommOps.cpp.inc"
      >();
}

Operation *MPCommDialect::materializeConstant(OpBuilder &builder,
                                              Attribute value, Type type,
                                              Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

/// `type` is what a rank holds; the type of the whole is beside it, or the
/// same.
static LogicalResult verifySharding(Operation *op, NamedAttribute attr,
                                    function_ref<std::string()> what, Type type,
                                    DictionaryAttr all) {
  auto whole = dyn_cast<ShapedType>(type);
  TypeAttr global;
  if (Attribute given = all.get(kGlobalTypeAttr)) {
    global = dyn_cast<TypeAttr>(given);
    whole = global ? dyn_cast<RankedTensorType>(global.getValue())
                   : RankedTensorType();
    if (!whole || !whole.hasStaticShape() ||
        whole.getElementType() != getElementTypeOrSelf(type))
      return op->emitOpError()
             << "expects '" << kGlobalTypeAttr << "' of " << what()
             << " to be a ranked tensor of static shape of the elements of "
             << type << ", got " << given;
  }
  if (attr.getName() == kGlobalTypeAttr)
    return success();
  auto sharding = dyn_cast<ShardingAttr>(attr.getValue());
  if (!sharding || !whole || !whole.hasRank() ||
      sharding.getRank() != whole.getRank())
    return op->emitOpError()
           << "expects '" << kShardingAttr << "' of " << what()
           << " to be #mpcomm.sharding<...> with a list for each dimension of "
           << (whole ? Type(whole) : type) << ", got " << attr.getValue();
  return success();
}

/// Checks what an argument and a result, of `type` and with the attributes
/// `all`, may both carry. `what` names the place, for a message.
static LogicalResult verifyCommon(Operation *op, NamedAttribute attr,
                                  function_ref<std::string()> what, Type type,
                                  DictionaryAttr all, bool &known) {
  known = true;
  if (attr.getName() == kRoleAttr) {
    if (!isa<RoleAttr>(attr.getValue()))
      return op->emitOpError() << "expects '" << kRoleAttr << "' of " << what()
                               << " to be #mpcomm.role<...>";
    return success();
  }
  if (attr.getName() == kNameAttr) {
    auto name = dyn_cast<StringAttr>(attr.getValue());
    if (!name || name.empty())
      return op->emitOpError() << "expects '" << kNameAttr << "' of " << what()
                               << " to be a non-empty string";
    return success();
  }
  if (attr.getName() == kShardingAttr || attr.getName() == kGlobalTypeAttr)
    return verifySharding(op, attr, what, type, all);
  known = false;
  return success();
}

LogicalResult MPCommDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                      unsigned argIndex,
                                                      NamedAttribute attr) {
  auto what = [&] { return "argument #" + std::to_string(argIndex); };
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function || argIndex >= function.getNumArguments())
    return op->emitOpError() << "cannot carry '" << attr.getName().getValue()
                             << "': it is not a function";
  Type type = function.getArgumentTypes()[argIndex];
  bool known;
  if (failed(verifyCommon(op, attr, what, type,
                          function.getArgAttrDict(argIndex), known)))
    return failure();
  if (known)
    return success();
  if (attr.getName() == kDonatedAttr) {
    auto index = dyn_cast<IntegerAttr>(attr.getValue());
    if (!index || !index.getType().isSignlessInteger(64))
      return op->emitOpError() << "expects '" << kDonatedAttr << "' of "
                               << what() << " to be an i64 integer";
    int64_t results = function.getNumResults();
    if (index.getInt() < 0 || index.getInt() >= results)
      return op->emitOpError() << "expects '" << kDonatedAttr << "' of "
                               << what() << " to name one of " << results
                               << " results, got " << index.getInt();
    return success();
  }
  if (attr.getName() == kDefaultAttr) {
    auto value = dyn_cast<TypedAttr>(attr.getValue());
    auto shaped = dyn_cast<ShapedType>(type);
    if (!isa<FloatAttr, IntegerAttr>(attr.getValue()) || !shaped ||
        value.getType() != shaped.getElementType())
      return op->emitOpError()
             << "expects '" << kDefaultAttr << "' of " << what()
             << " to be a number of the argument's element type";
    return success();
  }
  if (attr.getName() == kCopyOfAttr) {
    auto name = dyn_cast<StringAttr>(attr.getValue());
    if (!name || name.empty())
      return op->emitOpError() << "expects '" << kCopyOfAttr << "' of "
                               << what() << " to be a non-empty string";
    return success();
  }
  if (attr.getName() == kAddedAttr) {
    auto text = dyn_cast<StringAttr>(attr.getValue());
    if (!text || (text != kKeptState && text != kTransientState))
      return op->emitOpError()
             << "expects '" << kAddedAttr << "' of " << what() << " to be \""
             << kKeptState << "\" or \"" << kTransientState << "\"";
    return success();
  }
  if (attr.getName() == kRangeAttr) {
    auto range = dyn_cast<DenseI64ArrayAttr>(attr.getValue());
    if (!range || range.size() != 2 || range[0] >= range[1])
      return op->emitOpError() << "expects '" << kRangeAttr << "' of " << what()
                               << " to be array<i64: lo, hi> with lo < hi";
    return success();
  }
  return op->emitOpError() << "has unknown attribute '"
                           << attr.getName().getValue() << "' on " << what();
}

LogicalResult MPCommDialect::verifyRegionResultAttribute(Operation *op,
                                                         unsigned,
                                                         unsigned resultIndex,
                                                         NamedAttribute attr) {
  auto what = [&] { return "result #" + std::to_string(resultIndex); };
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function || resultIndex >= function.getNumResults())
    return op->emitOpError() << "cannot carry '" << attr.getName().getValue()
                             << "': it is not a function";
  bool known;
  if (failed(verifyCommon(op, attr, what,
                          function.getResultTypes()[resultIndex],
                          function.getResultAttrDict(resultIndex), known)))
    return failure();
  if (known)
    return success();
  if (attr.getName() == kTargetsAttr) {
    auto name = dyn_cast<StringAttr>(attr.getValue());
    if (!name || name.empty())
      return op->emitOpError() << "expects '" << kTargetsAttr << "' of "
                               << what() << " to be a non-empty string";
    return success();
  }
  return op->emitOpError() << "has unknown attribute '"
                           << attr.getName().getValue() << "' on " << what();
}
