//===- Outline.cpp - a group becomes a kernel and its launch --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FormKernels/Outline.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/RegionUtils.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using namespace mpcomm;
using linalg::LinalgOp;

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
  if (auto linalgOp = dyn_cast<LinalgOp>(op)) {
    for (Value input : linalgOp.getDpsInputs())
      used.insert(input);
  } else {
    used.insert_range(op->getOperands());
  }
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
    auto op = cast<LinalgOp>(nests.getOp(member.op));
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
    cast<LinalgOp>(clone).getDpsInitsMutable().assign(inits);
  }
  SmallVector<Value> returned;
  for (Value result : written)
    returned.push_back(kernel.mapping.lookup(result));
  func::ReturnOp::create(kernel.builder, kernel.kernel.getLoc(), returned);
  return kernel.kernel;
}

/// A tensor of one value, made before `loop`.
static Value makeUniform(scf::ForOp loop, ArrayRef<int64_t> shape,
                         TypedAttr value) {
  OpBuilder builder(loop);
  Value scalar = arith::ConstantOp::create(builder, loop.getLoc(), value);
  Value empty =
      tensor::EmptyOp::create(builder, loop.getLoc(), shape, value.getType());
  return linalg::FillOp::create(builder, loop.getLoc(), scalar, empty)
      .getResult(0);
}

/// Rows, or ids, that are all the same constant have been folded into the loop:
/// makes a tensor of them again, for the kernel to read. Ids have been clamped
/// and held against `padding` then, which becomes their row where they add
/// nothing, else -1.
static void findFoldedInputs(scf::ForOp loop, Value &rows, Value &ids,
                             int64_t &padding) {
  std::optional<APInt> count = loop.getStaticTripCount();
  auto sums = loop.getBody()->getOps<linalg::GenericOp>();
  auto inserts = loop.getBody()->getOps<tensor::InsertSliceOp>();
  if (!count || sums.empty() || inserts.empty())
    return;
  SmallVector<int64_t> positions{count->getSExtValue()};
  if (ids)
    positions.assign(cast<RankedTensorType>(ids.getType()).getShape());
  else if (rows)
    positions.assign(
        cast<RankedTensorType>(rows.getType()).getShape().drop_back());
  linalg::GenericOp sum = *sums.begin();
  tensor::InsertSliceOp insert = *inserts.begin();
  if (sum.getNumDpsInputs() != 1 || insert.getStaticOffsets().empty())
    return;
  SplatElementsAttr splat;
  if (!rows && matchPattern(sum.getInputs().front(), m_Constant(&splat)) &&
      splat.getType().getRank() > 0) {
    SmallVector<int64_t> shape(positions);
    shape.push_back(splat.getType().getShape().back());
    rows = makeUniform(loop, shape, splat.getSplatValue<TypedAttr>());
  }
  int64_t row = insert.getStaticOffsets().front();
  if (ids || ShapedType::isDynamic(row))
    return;
  ids = makeUniform(loop, positions, OpBuilder(loop).getI64IntegerAttr(row));
  auto yield = cast<linalg::YieldOp>(sum.getBody()->getTerminator());
  bool addsNothing = yield.getOperand(0) == sum.getRegionOutputArgs().front();
  padding = addsNothing ? row : -1;
}

FailureOr<func::FuncOp> mpcomm::outlineScatter(Operation *op,
                                               SmallVectorImpl<Value> &inputs) {
  auto loop = dyn_cast<scf::ForOp>(op);
  auto fill = loop && loop.getInitArgs().size() == 1
                  ? loop.getInitArgs()[0].getDefiningOp<linalg::FillOp>()
                  : linalg::FillOp();
  Value rows, ids;
  for (Value tensor : getCapturedTensors(op)) {
    auto type = cast<TensorType>(tensor.getType());
    if (!isa<FloatType>(type.getElementType()))
      ids = tensor;
    else if (type.getRank() > 1) // not a row, as of constant rows
      rows = tensor;
  }
  auto skipped = op->getAttrOfType<IntegerAttr>(kScatterAddAttr);
  int64_t padding = skipped ? skipped.getInt() : -1;
  if (loop && (!rows || !ids))
    findFoldedInputs(loop, rows, ids, padding);
  if (!fill || !rows || !ids)
    return op->emitOpError("marked mpcomm.scatter_add, expected a loop that "
                           "adds rows to a filled tensor");
  if (!fill.value().getDefiningOp<arith::ConstantOp>())
    return op->emitOpError("marked mpcomm.scatter_add, expected the tensor to "
                           "be filled with a constant");
  inputs.assign({rows, ids});
  KernelBuilder kernel(op->getLoc(), inputs, {op->getResult(0)});
  if (failed(kernel.cloneConstants(op))) {
    kernel.kernel.erase();
    return failure();
  }
  kernel.mapping.map(
      fill.getResult(0),
      kernel.cloneInit(fill.getResult(0), kernel.destinations.front()));
  Operation *clone = kernel.builder.clone(*op, kernel.mapping);
  clone->removeAttr(kScatterAddAttr);
  kernel.kernel->setAttr(kScatterAddAttr,
                         kernel.builder.getI64IntegerAttr(padding));
  func::ReturnOp::create(kernel.builder, op->getLoc(), clone->getResults());
  return kernel.kernel;
}
