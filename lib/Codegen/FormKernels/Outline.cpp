//===- Outline.cpp - a group becomes a kernel and its launch --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FormKernels/Outline.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace mpcomm;

namespace {

/// A kernel under construction.
class KernelBuilder {
public:
  KernelBuilder(Location loc, ArrayRef<Value> inputs,
                ArrayRef<Value> destinations)
      : builder(loc.getContext()) {
    SmallVector<Type> arguments, results;
    for (Value value : inputs)
      arguments.push_back(value.getType());
    for (Value value : destinations)
      results.push_back(value.getType());
    llvm::append_range(arguments, results);
    kernel = func::FuncOp::create(loc, "kernel",
                                  builder.getFunctionType(arguments, results));
    Block *entry = kernel.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    for (auto [i, value] : llvm::enumerate(inputs))
      mapping.map(value, entry->getArgument(i));
    this->destinations = entry->getArguments().drop_front(inputs.size());
  }

  /// Clones constants that `op` and its regions use. Fails on other values
  /// that the kernel does not have.
  LogicalResult cloneConstants(Operation *op);
  /// The destination argument, or a new tensor, with what `init` starts from.
  Value cloneInit(Value init, Value destination);

  OpBuilder builder;
  func::FuncOp kernel;
  IRMapping mapping;
  Block::BlockArgListType destinations;
};

} // namespace

LogicalResult KernelBuilder::cloneConstants(Operation *op) {
  llvm::SetVector<Value> used;
  getUsedValuesDefinedAbove(op->getRegions(), used);
  for (Value input : cast<DestinationStyleOpInterface>(op).getDpsInputs())
    used.insert(input);
  for (Value value : used) {
    if (mapping.contains(value))
      continue;
    Operation *def = value.getDefiningOp();
    if (auto constant = dyn_cast_or_null<arith::ConstantOp>(def))
      builder.clone(*constant, mapping);
    else if (!isa_and_nonnull<linalg::FillOp>(def))
      return op->emitOpError("uses a scalar that is no constant, which a "
                             "kernel cannot have");
  }
  return success();
}

Value KernelBuilder::cloneInit(Value init, Value destination) {
  auto type = cast<RankedTensorType>(init.getType());
  Location loc = init.getLoc();
  if (!destination)
    destination = tensor::EmptyOp::create(builder, loc, type.getShape(),
                                          type.getElementType());
  auto fill = init.getDefiningOp<linalg::FillOp>();
  if (!fill)
    return destination;
  Value scalar = mapping.lookupOrNull(fill.value());
  if (!scalar) {
    Operation *constant = fill.value().getDefiningOp();
    scalar = builder.clone(*constant, mapping)->getResult(0);
  }
  return linalg::FillOp::create(builder, fill.getLoc(), scalar, destination)
      .getResult(0);
}

FailureOr<func::FuncOp>
mpcomm::outlineGroup(const BlockNests &nests, const KernelGroup &group,
                     ArrayRef<int> inputs, ArrayRef<Destination> destinations) {
  SmallVector<Value> read, written;
  for (int input : inputs)
    read.push_back(nests.getValue(input));
  for (const Destination &destination : destinations)
    written.push_back(nests.getValue(destination.result));
  KernelBuilder kernel(nests.getOp(group.members.front().op)->getLoc(), read,
                       written);
  llvm::DenseMap<Value, Value> destinationOf;
  for (auto [destination, result, argument] :
       llvm::zip_equal(destinations, written, kernel.destinations)) {
    destinationOf[result] = argument;
    if (destination.isUpdated)
      kernel.mapping.map(nests.getValue(destination.tensor), argument);
  }
  for (const KernelMember &member : group.members) {
    auto op = cast<DestinationStyleOpInterface>(nests.getOp(member.op));
    if (failed(kernel.cloneConstants(op))) {
      kernel.kernel.erase();
      return failure();
    }
    SmallVector<Value> inits;
    for (auto [init, result] :
         llvm::zip_equal(op.getDpsInits(), op->getResults()))
      inits.push_back(kernel.cloneInit(init, destinationOf.lookup(result)));
    // Inits are no inputs of the kernel: the clone gets them afterwards.
    Operation *clone = kernel.builder.clone(*op, kernel.mapping);
    cast<DestinationStyleOpInterface>(clone).getDpsInitsMutable().assign(inits);
  }
  SmallVector<Value> returned;
  for (Value result : written)
    returned.push_back(kernel.mapping.lookup(result));
  func::ReturnOp::create(kernel.builder, kernel.kernel.getLoc(), returned);
  return kernel.kernel;
}
