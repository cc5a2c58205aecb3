//===- Buckets.cpp - collectives of several tensors -----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What collectives of which operand i makes result i have in common.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using namespace mpcomm;

LogicalResult mpcomm::detail::verifyBucket(Operation *op) {
  // reduce_scatter C6, all_gather C4, all_to_all C4
  if (op->getNumOperands() == 0)
    return op->emitOpError("expects at least one operand");
  if (op->getNumOperands() != op->getNumResults())
    return op->emitOpError()
           << "expects a result for each of its " << op->getNumOperands()
           << " operands, got " << op->getNumResults();
  // reduce_scatter C1, all_gather C1, all_to_all C1
  for (StringRef name : cast<BucketableOpInterface>(op).getOperandLists()) {
    int64_t size = op->getAttrOfType<DenseI64ArrayAttr>(name).size();
    if (size != op->getNumOperands())
      return op->emitOpError()
             << "expects a number in '" << name << "' for each of its "
             << op->getNumOperands() << " operands, got " << size;
  }
  return success();
}

Attribute mpcomm::detail::getBucketKey(Operation *op) {
  Type element = getElementTypeOrSelf(op->getOperand(0));
  for (Type type : op->getOperandTypes())
    if (getElementTypeOrSelf(type) != element)
      return Attribute();
  NamedAttrList common(op->getAttrDictionary());
  for (StringRef name : cast<BucketableOpInterface>(op).getOperandLists())
    common.erase(name);
  MLIRContext *context = op->getContext();
  return ArrayAttr::get(context, {op->getName().getIdentifier(),
                                  common.getDictionary(context),
                                  TypeAttr::get(element)});
}

BucketableOpInterface mpcomm::createBucket(OpBuilder &builder,
                                           ArrayRef<BucketOperand> operands) {
  BucketableOpInterface first = operands.front().op;
  SmallVector<Location> locations;
  OperationState state(first->getLoc(), first->getName());
  state.addAttributes(first->getAttrs());
  for (const BucketOperand &operand : operands) {
    BucketableOpInterface op = operand.op;
    locations.push_back(op->getLoc());
    state.addOperands(operand.value);
    bool isWhole = operand.value == op->getOperand(operand.index);
    state.addTypes(isWhole ? op->getResult(operand.index).getType()
                           : operand.value.getType());
  }
  state.location = builder.getFusedLoc(locations);
  for (StringRef name : first.getOperandLists()) {
    SmallVector<int64_t> entries;
    for (const BucketOperand &operand : operands)
      entries.push_back(
          operand.op->getAttrOfType<DenseI64ArrayAttr>(name)[operand.index]);
    state.attributes.set(name, builder.getDenseI64ArrayAttr(entries));
  }
  return cast<BucketableOpInterface>(builder.create(state));
}
