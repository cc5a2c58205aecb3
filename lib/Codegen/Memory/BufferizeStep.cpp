//===- BufferizeStep.cpp - buffers for the tensors of a step --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One-shot bufferization with donation: an argument that donates its buffer
// may be written, and the result that takes the buffer is copied there at the
// end. Where the result was computed in place, which is what kernels are made
// for, that copy is from a buffer to itself and goes.
//
//===----------------------------------------------------------------------===//

#include "Memory/ForwardCopies.h"
#include "Memory/PackOperands.h"
#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/Transforms.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "mpcomm/Codegen/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_BUFFERIZESTEPPASS
#include "mpcomm/Codegen/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-bufferize-step"

using namespace mlir;
using namespace mpcomm;

static bool isZero(Value value) {
  return matchPattern(value, m_AnyZeroFloat()) || matchPattern(value, m_Zero());
}

/// A contraction onto zeros overwrites: no zeros have to be written first.
static void dropZeroFills(func::FuncOp function) {
  function.walk([&](linalg::ContractOp op) {
    auto fill = op.getDpsInits()[0].getDefiningOp<linalg::FillOp>();
    if (!fill || !isZero(fill.getInputs()[0]))
      return;
    OpBuilder builder(op);
    auto type = cast<RankedTensorType>(fill.getResult(0).getType());
    Value empty = tensor::EmptyOp::create(
        builder, fill.getLoc(), type.getShape(), type.getElementType());
    op.setDpsInitOperand(0, empty);
    op->setAttr(mprt::kOverwriteAttr, builder.getUnitAttr());
    if (fill->use_empty())
      fill->erase();
  });
}

/// Gives each user of an allocation one of its own: what has nothing in common
/// must not look as if it lay in one buffer, or the analysis would compare each
/// write of one with each read of the others.
static void unshareEmpties(func::FuncOp function) {
  SmallVector<tensor::EmptyOp> empties;
  function.walk([&](tensor::EmptyOp op) { empties.push_back(op); });
  for (tensor::EmptyOp op : empties)
    while (!op->use_empty() && !op->hasOneUse()) {
      OpOperand &use = *op->use_begin();
      OpBuilder builder(use.getOwner());
      use.set(builder.clone(*op)->getResult(0));
    }
}

namespace {

/// The rewrite of one function.
class FunctionBufferizer {
public:
  explicit FunctionBufferizer(func::FuncOp function)
      : function(function), builder(function.getContext()) {}

  LogicalResult run();

private:
  LogicalResult checkSignature();
  void takeBuffers();
  void returnNew(func::ReturnOp op);
  void returnDonated(func::ReturnOp op);
  void copyOut(func::ReturnOp op, unsigned result, Value buffer);
  LogicalResult bufferize();
  void placeDonated();
  void report();

  func::FuncOp function;
  IRRewriter builder;
  /// For each result, the argument that donates its buffer, or a new one.
  SmallVector<unsigned> place;
  unsigned numDonors = 0; // arguments before the new ones
  /// A donated result, while the body is bufferized: copied to a buffer of its
  /// own, in the place of the argument.
  struct DonatedResult {
    memref::AllocOp copy;
    BlockArgument argument;
  };
  SmallVector<DonatedResult> donatedResults;
};

} // namespace

LogicalResult FunctionBufferizer::checkSignature() {
  if (!function.getBody().hasOneBlock())
    return function.emitOpError("expects a body of one block");
  for (Type type : llvm::concat<const Type>(function.getArgumentTypes(),
                                            function.getResultTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return function.emitOpError()
             << "expects ranked tensors of static shape, got " << type;
  }
  return success();
}

/// Tensors become buffers in the signature; the body sees them as tensors
/// still. Donated buffers and those of results may be written.
void FunctionBufferizer::takeBuffers() {
  Block &body = function.getBody().front();
  MLIRContext *context = function.getContext();
  unsigned numArguments = function.getNumArguments();
  unsigned numResults = function.getNumResults();
  numDonors = numArguments;
  place.assign(numResults, ~0u);
  for (unsigned i = 0; i < numArguments; ++i)
    if (auto donated = function.getArgAttrOfType<IntegerAttr>(i, kDonatedAttr))
      if (donated.getInt() >= 0 && donated.getInt() < numResults &&
          function.getResultTypes()[donated.getInt()] ==
              function.getArgumentTypes()[i])
        place[donated.getInt()] = i;

  SmallVector<Type> inputs;
  SmallVector<Attribute> results;
  builder.setInsertionPointToStart(&body);
  for (unsigned i = 0; i < numArguments; ++i) {
    BlockArgument argument = body.getArgument(i);
    auto type = cast<RankedTensorType>(argument.getType());
    auto buffer = MemRefType::get(type.getShape(), type.getElementType());
    inputs.push_back(buffer);
    argument.setType(buffer);
    // One tensor for all uses of what may be written; of what is only read, one
    // for each, so that the analysis does not compare readers with readers.
    bool writable = llvm::is_contained(place, i);
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : argument.getUses())
      uses.push_back(&use);
    Value tensor;
    for (OpOperand *use : uses) {
      if (!tensor || !writable)
        tensor = bufferization::ToTensorOp::create(builder, argument.getLoc(),
                                                   type, argument,
                                                   /*restrict=*/true, writable);
      use->set(tensor);
    }
  }
  for (unsigned i = 0; i < numResults; ++i) {
    auto type = cast<RankedTensorType>(function.getResultTypes()[i]);
    if (place[i] == ~0u) {
      place[i] = inputs.size();
      inputs.push_back(MemRefType::get(type.getShape(), type.getElementType()));
      body.addArgument(inputs.back(), function.getLoc());
    }
    NamedAttrList result(function_interface_impl::getResultAttrs(function, i));
    result.set(mprt::kResultType, TypeAttr::get(type));
    result.set(mprt::kResultArgument,
               builder.getI64IntegerAttr(place[i] < numArguments
                                             ? static_cast<int64_t>(place[i])
                                             : -1));
    results.push_back(result.getDictionary(context));
  }
  SmallVector<Attribute> argumentAttrs;
  for (unsigned i = 0; i < inputs.size(); ++i) {
    NamedAttrList attrs;
    if (i < numArguments) {
      attrs.append(function_interface_impl::getArgAttrs(function, i));
      attrs.erase(kDonatedAttr);
      if (llvm::is_contained(place, i))
        attrs.set(mprt::kUpdateAttr, builder.getUnitAttr());
    }
    argumentAttrs.push_back(attrs.getDictionary(context));
  }
  function->setAttr(mprt::kResultsAttr, builder.getArrayAttr(results));
  function.removeResAttrsAttr();
  function.removeArgAttrsAttr();
  function.setFunctionType(FunctionType::get(context, inputs, {}));
  function.setAllArgAttrs(argumentAttrs);
}

void FunctionBufferizer::copyOut(func::ReturnOp op, unsigned result,
                                 Value buffer) {
  builder.setInsertionPoint(op);
  (void)bufferization::MaterializeInDestinationOp::create(
      builder, op.getLoc(), /*result=*/Type(), op.getOperand(result), buffer,
      /*restrict=*/true, /*writable=*/true);
}

/// Results go to the new buffers. One that is computed into a fresh tensor is
/// computed into its buffer at once.
void FunctionBufferizer::returnNew(func::ReturnOp op) {
  for (auto [i, value] : llvm::enumerate(op.getOperands())) {
    if (place[i] < numDonors)
      continue;
    Value buffer = function.getArgument(place[i]);
    if (auto result = dyn_cast<OpResult>(value))
      if (auto dst = dyn_cast<DestinationStyleOpInterface>(result.getOwner())) {
        OpOperand *init = dst.getTiedOpOperand(result);
        auto empty = init->get().getDefiningOp<tensor::EmptyOp>();
        if (empty && !isa<mprt::StartOp, mprt::AwaitOp>(dst)) {
          builder.setInsertionPoint(dst);
          init->set(bufferization::ToTensorOp::create(
              builder, op.getLoc(), empty.getType(), buffer, /*restrict=*/true,
              /*writable=*/true));
        }
      }
    copyOut(op, i, buffer);
  }
}

/// Results go to the buffers of the arguments that donate them, by way of
/// buffers of their own: placeDonated() knows the final copies by these.
void FunctionBufferizer::returnDonated(func::ReturnOp op) {
  for (unsigned i = 0; i < place.size(); ++i)
    if (place[i] < numDonors) {
      BlockArgument argument = function.getArgument(place[i]);
      builder.setInsertionPoint(op);
      auto copy = memref::AllocOp::create(builder, op.getLoc(),
                                          cast<MemRefType>(argument.getType()));
      donatedResults.push_back({copy, argument});
      copyOut(op, i, copy);
    }
  builder.setInsertionPoint(op);
  func::ReturnOp::create(builder, op.getLoc());
  builder.eraseOp(op);
}

LogicalResult FunctionBufferizer::bufferize() {
  bufferization::OneShotBufferizationOptions options;
  options.allowReturnAllocsFromLoops = true;
  options.bufferizeFunctionBoundaries = false;
  options.setFunctionBoundaryTypeConversion(
      bufferization::LayoutMapOption::IdentityLayoutMap);
  options.unknownTypeConverterFn =
      [](TensorType type, Attribute memorySpace,
         const bufferization::BufferizationOptions &) {
        return bufferization::getMemRefTypeWithStaticIdentityLayout(
            type, memorySpace);
      };
  bufferization::BufferizationState state;
  return bufferization::runOneShotBufferize(function, options, state);
}

/// Whether memory that `buffer` is a view of may be that of `argument`.
static bool mayRead(Value buffer, BlockArgument argument) {
  Value root = mprt::getViewRoot(buffer);
  return root == argument ||
         (!isa<BlockArgument>(root) && !root.getDefiningOp<memref::AllocOp>() &&
          !root.getDefiningOp<memref::GetGlobalOp>());
}

/// Writes the donated buffers, all that is read of them first: a copy whose
/// target no copy still reads goes next. In a cycle, and where it is not known
/// what a source is a view of, one source moves to a buffer of its own.
void FunctionBufferizer::placeDonated() {
  struct FinalCopy {
    Value source;
    BlockArgument target;
    Location loc;
    bool isOwn = false;
  };
  SmallVector<FinalCopy> pending;
  for (DonatedResult &result : donatedResults) {
    if (result.copy->use_empty()) { // nothing has written what was copied
      builder.eraseOp(result.copy);
      continue;
    }
    auto copy = cast<memref::CopyOp>(*result.copy->user_begin());
    if (!isSameView(copy.getSource(), result.argument))
      pending.push_back({copy.getSource(), result.argument, copy.getLoc()});
    builder.eraseOp(copy);
    builder.eraseOp(result.copy);
  }
  // Copies to new buffers that end the block, whole ones, are part of it where
  // one of the others reads such a buffer.
  Operation *terminator = function.getBody().front().getTerminator();
  SmallVector<memref::CopyOp> last;
  llvm::SmallDenseSet<Value> written;
  for (Operation *op = terminator->getPrevNode(); op; op = op->getPrevNode()) {
    if (isMemoryEffectFree(op))
      continue;
    auto copy = dyn_cast<memref::CopyOp>(op);
    auto target =
        copy ? dyn_cast<BlockArgument>(copy.getTarget()) : BlockArgument();
    if (!target || target.getOwner() != terminator->getBlock() ||
        target.getArgNumber() < numDonors || !written.insert(target).second)
      break;
    last.push_back(copy);
  }
  auto readsWritten = [&](Value source) {
    return written.contains(mprt::getViewRoot(source));
  };
  if (llvm::any_of(last,
                   [&](auto copy) { return readsWritten(copy.getSource()); }) ||
      llvm::any_of(pending, [&](const FinalCopy &copy) {
        return readsWritten(copy.source);
      }))
    for (memref::CopyOp copy : last) {
      pending.push_back({copy.getSource(),
                         cast<BlockArgument>(copy.getTarget()), copy.getLoc()});
      builder.eraseOp(copy);
    }
  builder.setInsertionPoint(terminator);
  while (!pending.empty()) {
    auto *next = llvm::find_if(pending, [&](const FinalCopy &copy) {
      return llvm::none_of(pending, [&](const FinalCopy &other) {
        return mayRead(other.source, copy.target);
      });
    });
    if (next != pending.end()) {
      memref::CopyOp::create(builder, next->loc, next->source, next->target);
      pending.erase(next);
      continue;
    }
    FinalCopy &first = *llvm::find_if(
        pending, [](const FinalCopy &copy) { return !copy.isOwn; });
    Value own = memref::AllocOp::create(
        builder, first.loc, cast<MemRefType>(first.target.getType()));
    memref::CopyOp::create(builder, first.loc, first.source, own);
    first.source = own;
    first.isOwn = true;
  }
}

void FunctionBufferizer::report() {
  int64_t buffers = 0, bytes = 0, copies = 0;
  function.walk([&](Operation *op) {
    if (auto alloc = dyn_cast<memref::AllocOp>(op)) {
      ++buffers;
      bytes += mpcomm::detail::countBytes(alloc.getType());
    }
    copies += isa<memref::CopyOp>(op);
  });
  remark::analysis(function.getLoc(), remark::RemarkOpts::name("Bufferized")
                                          .category(DEBUG_TYPE)
                                          .function(function.getName()))
      << remark::metric("Buffers", buffers) << remark::metric("Bytes", bytes)
      << remark::metric("Copies", copies);
}

LogicalResult FunctionBufferizer::run() {
  if (failed(checkSignature()))
    return failure();
  auto returnOp =
      dyn_cast<func::ReturnOp>(function.getBody().front().getTerminator());
  if (!returnOp)
    return function.emitOpError("expects to end with func.return");
  dropZeroFills(function);
  unshareEmpties(function);
  takeBuffers();
  returnNew(returnOp);
  // What is computed only to be inserted into a larger tensor, or to be
  // returned in a new buffer, is computed there. A donated buffer holds the
  // argument until then: by way of a copy at the end, which the elimination
  // would see as another buffer, a result could overwrite what is still read.
  if (failed(bufferization::eliminateEmptyTensors(builder, function)))
    return failure();
  returnDonated(returnOp);
  if (failed(bufferize()))
    return failure();
  forwardCopies(function.getBody().front(), builder);
  packOperands(function.getBody().front(), builder);
  placeDonated();
  report();
  return success();
}

namespace {

struct BufferizeStep
    : public mpcomm::impl::BufferizeStepPassBase<BufferizeStep> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && !function->hasAttr(mprt::kKernelAttr))
        if (failed(FunctionBufferizer(function).run()))
          return signalPassFailure();
  }
};

} // namespace
