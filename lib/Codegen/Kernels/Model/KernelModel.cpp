//===- KernelModel.cpp - what a kernel computes ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the tensor form of a kernel: checks it, finds the domain, chooses the
// column and merges dimensions that lie together in memory everywhere.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Model/KernelModel.h"
#include "Kernels/Model/DomainBuilder.h"
#include "Kernels/Model/LaneOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Analysis/KernelGroups/BlockNests.h"

using namespace mlir;

namespace mpcomm::kernels {

TypedAttr matchUniformTensor(Value tensor) {
  if (auto fill = tensor.getDefiningOp<linalg::FillOp>()) {
    auto constant = fill.getInputs()[0].getDefiningOp<arith::ConstantOp>();
    return constant ? cast<TypedAttr>(constant.getValue()) : TypedAttr();
  }
  DenseElementsAttr elements;
  if (matchPattern(tensor, m_Constant(&elements)) && elements.isSplat())
    return cast<TypedAttr>(elements.getSplatValue<Attribute>());
  return {};
}

bool isSupportedInBody(Operation *op) {
  if (isa<linalg::IndexOp, tensor::ExtractOp>(op))
    return true;
  if (isa<arith::ConstantOp>(op))
    return !isa<ShapedType>(op->getResult(0).getType());
  return isa_and_nonnull<arith::ArithDialect, math::MathDialect>(
             op->getDialect()) &&
         op->getNumResults() == 1 && OpTrait::hasElementwiseMappableTraits(op);
}

static bool isSupportedType(Type type) {
  return type.isIndex() || isElementOfKernels(type);
}

/// The op of `op`'s body that adds one more term to result `index`, with the
/// term; null if the body has another form.
static std::pair<Operation *, Value> matchCombiner(linalg::LinalgOp op,
                                                   unsigned index) {
  Block *body = op.getBlock();
  Value yielded = body->getTerminator()->getOperand(index);
  Value out = op.getRegionOutputArgs()[index];
  Operation *combiner = yielded.getDefiningOp();
  if (!combiner || combiner->getBlock() != body ||
      !isa<arith::AddFOp, arith::MulFOp, arith::MaximumFOp, arith::MinimumFOp,
           arith::MaxNumFOp, arith::MinNumFOp, arith::AddIOp, arith::MulIOp,
           arith::MaxSIOp, arith::MinSIOp, arith::MaxUIOp, arith::MinUIOp,
           arith::AndIOp, arith::OrIOp, arith::XOrIOp>(combiner) ||
      !out.hasOneUse())
    return {};
  if (combiner->getOperand(0) == out)
    return {combiner, combiner->getOperand(1)};
  if (combiner->getOperand(1) == out)
    return {combiner, combiner->getOperand(0)};
  return {};
}

/// Checks one op of a body, which belongs to `owner`.
static LogicalResult
checkBodyOp(linalg::LinalgOp owner, Operation *op,
            llvm::function_ref<InFlightDiagnostic(Operation *)> emitError) {
  if (!isSupportedInBody(op))
    return emitError(op) << "has no code in a kernel";
  for (Type type : op->getResultTypes())
    if (!isSupportedType(type))
      return emitError(op) << "makes " << type << ", which kernels do not have";
  if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
    auto argument = dyn_cast<BlockArgument>(extract.getTensor());
    if (!argument || argument.getOwner() != owner->getBlock())
      return emitError(op) << "reads a tensor that is not an argument of the "
                              "kernel";
  }
  for (Value operand : op->getOperands()) {
    if (owner->getRegion(0).isAncestor(operand.getParentRegion()) ||
        isa<ShapedType>(operand.getType()) ||
        operand.getDefiningOp<arith::ConstantOp>())
      continue;
    return emitError(op) << "reads a value of outside the body that is no "
                            "constant";
  }
  return success();
}

namespace {
/// State of one KernelModel::build.
class ModelBuilder {
public:
  explicit ModelBuilder(KernelModel &model) : model(model), domain(model) {}
  LogicalResult run();

private:
  LogicalResult readSignature();
  LogicalResult readOps();
  /// Forgets ops whose results nothing needs.
  void dropDeadOps();
  bool isLive(Value value) const;
  LogicalResult readOp(linalg::LinalgOp op);
  LogicalResult readOperand(linalg::LinalgOp op, OpOperand &operand);
  LogicalResult readResult(linalg::LinalgOp op, unsigned index);
  LogicalResult readReturn();
  LogicalResult classify();
  void moveToRows();
  LogicalResult checkReplaced();

  InFlightDiagnostic error(Operation *op) {
    return op->emitError() << "in kernel '" << model.kernel.getSymName()
                           << "': ";
  }

  KernelModel &model;
  DomainBuilder domain;
  SmallVector<linalg::LinalgOp> ops;
  llvm::SmallPtrSet<Operation *, 16> live;
};
} // namespace

LogicalResult ModelBuilder::readSignature() {
  func::FuncOp kernel = model.kernel;
  if (!kernel.getBody().hasOneBlock())
    return error(kernel) << "expected one block of ops on tensors";
  if (kernel.getNumResults() > kernel.getNumArguments())
    return error(kernel) << "expected a destination for each result";
  for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape() ||
        !mpcomm::detail::isCountable(tensor) ||
        !isElementOfKernels(tensor.getElementType()))
      return error(kernel) << "argument #" << i << " has type " << type
                           << ", expected a tensor of static shape of numbers, "
                              "at most 2^48 of them";
  }
  for (unsigned i = 0; i < kernel.getNumResults(); ++i)
    if (kernel.getResultTypes()[i] !=
        kernel.getArgumentTypes()[model.numInputs() + i])
      return error(kernel) << "result #" << i
                           << " differs in type from its "
                              "destination";
  return success();
}

bool ModelBuilder::isLive(Value value) const {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return isa<func::ReturnOp>(user) || live.contains(user);
  });
}

void ModelBuilder::dropDeadOps() {
  for (linalg::LinalgOp op : llvm::reverse(ops))
    if (llvm::any_of(op->getResults(),
                     [&](Value value) { return isLive(value); }))
      live.insert(op);
  llvm::erase_if(ops, [&](linalg::LinalgOp op) { return !live.contains(op); });
}

LogicalResult ModelBuilder::readOps() {
  for (Operation &op : model.kernel.getBody().front()) {
    if (isa<func::ReturnOp, tensor::EmptyOp>(op))
      continue;
    if (auto fill = dyn_cast<linalg::FillOp>(op)) {
      if (!fill.hasPureTensorSemantics() ||
          !matchUniformTensor(fill.getResult(0)))
        return error(fill) << "expected a fill with a constant";
      continue;
    }
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      if (isa<TensorType>(constant.getType()) &&
          !matchUniformTensor(constant.getResult()))
        return error(constant) << "expected a constant of one value";
      continue;
    }
    auto structured = dyn_cast<linalg::LinalgOp>(op);
    if (!structured || !structured.hasPureTensorSemantics())
      return error(&op) << "expected a linalg op on tensors";
    for (Type type : structured->getResultTypes())
      if (!isElementOfKernels(getElementTypeOrSelf(type)))
        return error(&op) << "makes " << type << ", expected numbers";
    if (llvm::any_of(structured.getIndexingMapsArray(), [](AffineMap map) {
          return llvm::any_of(map.getResults(), [](AffineExpr expr) {
            return !isa<AffineDimExpr, AffineConstantExpr>(expr);
          });
        }))
      return error(&op) << "expected indexing maps of dimensions and constants";
    for (Operation &inner : structured.getBlock()->without_terminator())
      if (failed(checkBodyOp(structured, &inner,
                             [&](Operation *at) { return error(at); })))
        return failure();
    for (Value yielded : structured.getBlock()->getTerminator()->getOperands())
      if (!structured->getRegion(0).isAncestor(yielded.getParentRegion()) &&
          !yielded.getDefiningOp<arith::ConstantOp>())
        return error(&op) << "yields a value of outside that is no constant";
    ops.push_back(structured);
  }
  dropDeadOps();
  return domain.place(ops, [&](Operation *at) { return error(at); });
}

LogicalResult ModelBuilder::readOperand(linalg::LinalgOp op,
                                        OpOperand &operand) {
  Value value = operand.get();
  if (!isa<TensorType>(value.getType())) {
    if (!value.getDefiningOp<arith::ConstantOp>())
      return error(op) << "reads a scalar that is no constant";
    return success();
  }
  if (matchUniformTensor(value))
    return success();
  bool isInit = op.isDpsInit(&operand);
  bool read = !isInit || op.payloadUsesValueFromOperand(&operand);
  if (value.getDefiningOp<tensor::EmptyOp>()) {
    if (read)
      return error(op) << "reads elements that nothing wrote";
    return success();
  }
  if (isa<BlockArgument>(value)) {
    domain.addAccess(op, operand);
    return success();
  }
  if (!read)
    return success();
  // An intermediate: read where it was written.
  auto producer = cast<OpResult>(value);
  auto source = dyn_cast<linalg::LinalgOp>(producer.getOwner());
  if (!source)
    return error(op) << "reads a tensor of an op without code";
  if (domain.entries(op, op.getMatchingIndexingMap(&operand)) !=
      domain.entries(source, source.getIndexingMapMatchingResult(producer)))
    return error(op) << "reads an intermediate at other places than those "
                        "where it was written";
  return success();
}

LogicalResult ModelBuilder::readResult(linalg::LinalgOp op, unsigned index) {
  OpResult value = op->getResult(index);
  if (!isLive(value))
    return success();
  KernelResult &result = model.results[value];
  result.op = op;
  result.index = index;
  domain.setDims(result, op.getIndexingMapMatchingResult(value));
  model.order.push_back(value);
  if (result.reduced.none())
    return success();
  std::tie(result.combiner, result.term) = matchCombiner(op, index);
  if (!result.combiner)
    return error(op) << "result #" << index
                     << " is reduced by a body that does not combine it once";
  result.comparesBits = isOfMagnitudes(result.combiner);
  for (Operation *user : value.getUsers())
    if (live.contains(user))
      domain.mustBeColumn(result.reduced);
  return success();
}

LogicalResult ModelBuilder::readOp(linalg::LinalgOp op) {
  for (OpOperand &operand : op->getOpOperands())
    if (failed(readOperand(op, operand)))
      return failure();
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    if (failed(readResult(op, i)))
      return failure();
  return success();
}

LogicalResult ModelBuilder::readReturn() {
  Operation *terminator = model.kernel.getBody().front().getTerminator();
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    unsigned destination = model.numInputs() + i;
    if (TypedAttr filled = matchUniformTensor(value)) {
      model.fills.push_back({destination, filled});
    } else if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (argument.getArgNumber() != destination)
        return error(terminator) << "returns argument #"
                                 << argument.getArgNumber() << " uncopied";
    } else if (model.results.contains(value)) {
      domain.addStore(value, destination);
    } else {
      return error(terminator) << "result #" << i << " is not computed";
    }
  }
  return success();
}

/// A destination that is read as an input holds what the result replaces: each
/// element must be read where it is written, and nowhere else.
LogicalResult ModelBuilder::checkReplaced() {
  for (linalg::LinalgOp op : ops)
    for (auto extract : op.getBlock()->getOps<tensor::ExtractOp>())
      if (cast<BlockArgument>(extract.getTensor()).getArgNumber() >=
          model.numInputs())
        return error(extract) << "reads a destination, expected an input";
  for (const auto &[operand, access] : model.accesses) {
    auto op = cast<linalg::LinalgOp>(operand->getOwner());
    if (access.argument < model.numInputs())
      continue;
    for (const auto &fill : model.fills)
      if (fill.first == access.argument)
        return error(op) << "reads a destination that is filled";
    for (Store &store : model.stores) {
      const KernelResult &result = model.results[store.value];
      if (store.access.argument != access.argument ||
          (op.isDpsInit(operand) && (result.kind == ResultKind::Accumulate ||
                                     !op.payloadUsesValueFromOperand(operand))))
        continue;
      if (!(store.access == access) || result.kind == ResultKind::Accumulate)
        return error(op) << "reads a destination at other places than those "
                            "where it is written";
      if (result.kind == ResultKind::Uniform)
        continue;
      store.onceOver.clear();
      for (int dim = 0; dim < model.column(); ++dim)
        if (!result.dims.test(dim) && model.sizes[dim] > 1)
          store.onceOver.push_back(dim);
      if (store.onceOver.empty())
        continue;
      Operation *end = model.kernel.getBody().front().getTerminator();
      if (result.op != op || !store.value.hasOneUse() ||
          llvm::any_of(op->getUsers(),
                       [&](Operation *user) { return user != end; }))
        return error(op) << "reads a destination that several rows replace, "
                            "expected only the op that writes it to do so, and "
                            "its results to be only returned";
      // The other rows find it replaced: they store none of the op's results.
      for (Store &other : model.stores)
        if (model.results[other.value].op == op)
          other.onceOver = store.onceOver;
    }
  }
  return success();
}

LogicalResult ModelBuilder::classify() {
  int column = model.column();
  for (Value value : model.order) {
    KernelResult &result = model.results[value];
    if (result.reduced.none()) {
      // What comes from a reduction of the row is known in the row only.
      bool ofRow = llvm::any_of(result.op->getOperands(), [&](Value operand) {
        auto source = model.results.find(operand);
        return source != model.results.end() &&
               source->second.kind != ResultKind::Uniform;
      });
      if (result.dims.any() && result.dims.test(column))
        result.kind = ResultKind::Element;
      else
        result.kind = result.dims.any() || ofRow ? ResultKind::RowScalar
                                                 : ResultKind::Uniform;
      continue;
    }
    if (result.reduced.count() == 1 && result.reduced.test(column)) {
      result.kind = ResultKind::RowReduce;
      continue;
    }
    result.kind = ResultKind::Accumulate;
    // Each term must be added once.
    for (int dim = 0; dim < column; ++dim)
      if (!result.dims.test(dim) && !result.reduced.test(dim))
        return error(result.op) << "sums over some dimensions of the rows and "
                                   "leaves out others";
    if (!model.storeOf(value) || !value.hasOneUse())
      return error(result.op)
             << "result #" << result.index
             << " is summed over rows, expected it to be returned, once, and "
                "not read";
    Value init = result.op.getDpsInitOperand(result.index)->get();
    const Store *store = model.storeOf(value);
    auto argument = dyn_cast<BlockArgument>(init);
    if (!matchUniformTensor(init) &&
        !(argument && argument.getArgNumber() == store->access.argument))
      return error(result.op) << "expected a fill or the destination as the "
                                 "start of a sum over rows";
  }
  moveToRows();
  return success();
}

/// Uniform values that read what a row replaces, and what is computed from
/// them, become values of the row: it stores after all of its values are known,
/// and uniform values are computed after all rows.
void ModelBuilder::moveToRows() {
  auto isOfRow = [&](Value value) {
    auto found = model.results.find(value);
    return found != model.results.end() &&
           found->second.kind != ResultKind::Uniform;
  };
  for (bool isMoved = true; isMoved;) {
    isMoved = false;
    llvm::SmallDenseSet<unsigned> replaced;
    for (const Store &store : model.stores)
      if (isOfRow(store.value))
        replaced.insert(store.access.argument);
    for (Value value : model.order) {
      KernelResult &result = model.results[value];
      if (result.kind != ResultKind::Uniform)
        continue;
      if (llvm::any_of(result.op->getOpOperands(), [&](OpOperand &operand) {
            auto access = model.accesses.find(&operand);
            return isOfRow(operand.get()) ||
                   (access != model.accesses.end() &&
                    replaced.contains(access->second.argument));
          })) {
        result.kind = ResultKind::RowScalar;
        isMoved = true;
      }
    }
  }
}

LogicalResult ModelBuilder::run() {
  if (failed(readSignature()) || failed(readOps()))
    return failure();
  for (linalg::LinalgOp op : ops)
    if (failed(readOp(op)))
      return failure();
  if (failed(readReturn()) ||
      failed(domain.finish([&](Operation *at) { return error(at); })))
    return failure();
  if (failed(classify()))
    return failure();
  return checkReplaced();
}

std::optional<KernelModel> KernelModel::build(func::FuncOp kernel,
                                              ArrayRef<MemRefType> layouts) {
  KernelModel model;
  model.kernel = kernel;
  model.layouts.assign(layouts.begin(), layouts.end());
  ModelBuilder builder(model);
  if (failed(builder.run()))
    return std::nullopt;
  return model;
}

/// Points of the domain that differ in `dims`.
static int64_t countPoints(const KernelModel &model,
                           llvm::function_ref<bool(int)> isPart) {
  int64_t points = 1;
  for (auto [dim, size] : llvm::enumerate(model.sizes))
    if (isPart(static_cast<int>(dim)))
      points *= size;
  return points;
}

int64_t countMovedBytes(const KernelModel &model) {
  auto bytesOf = [&](unsigned argument, int64_t elements) {
    MemRefType layout = model.layouts[argument];
    return std::min(elements, layout.getNumElements()) *
           llvm::divideCeil(layout.getElementTypeBitWidth(), 8);
  };
  auto countAccess = [&](const KernelAccess &access) {
    return bytesOf(access.argument, countPoints(model, [&](int dim) {
                     return access.strides[dim] != 0;
                   }));
  };
  int64_t bytes = 0;
  // Several ops may read one element.
  SmallVector<const KernelAccess *> counted;
  for (const auto &[operand, access] : model.accesses) {
    auto op = cast<linalg::LinalgOp>(operand->getOwner());
    if (!op.payloadUsesValueFromOperand(operand) ||
        llvm::any_of(counted, [&, &access = access](const KernelAccess *other) {
          return *other == access;
        }))
      continue;
    counted.push_back(&access);
    bytes += countAccess(access);
  }
  for (const Store &store : model.stores)
    bytes += countAccess(store.access);
  for (const auto &fill : model.fills)
    bytes += bytesOf(fill.first, model.layouts[fill.first].getNumElements());
  for (const auto &[op, loops] : model.loops) {
    for (auto extract : op->getRegion(0).front().getOps<tensor::ExtractOp>())
      bytes += bytesOf(cast<BlockArgument>(extract.getTensor()).getArgNumber(),
                       countPoints(model, [&, &loops = loops](int dim) {
                         return llvm::is_contained(loops, dim);
                       }));
  }
  return bytes;
}

} // namespace mpcomm::kernels
