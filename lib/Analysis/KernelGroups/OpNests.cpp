//===- OpNests.cpp - the loop nests that an op becomes --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/KernelGroups/OpNests.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mpcomm/Analysis/KernelGroups/BlockNests.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "llvm/Support/Threading.h"

using namespace mlir;
using namespace mpcomm;
using OpKind = KernelProblem::OpKind;

/// Whether an op may become nests: it computes tensors of static shape, by
/// itself.
static bool isCandidate(Operation *op) {
  auto isTensor = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.hasStaticShape();
  };
  return isa<CostOpInterface>(op) && op->getNumResults() > 0 &&
         (op->getNumRegions() == 0 ||
          op->hasTrait<OpTrait::IsIsolatedFromAbove>()) &&
         isMemoryEffectFree(op) && !isa<SymbolUserOpInterface>(op) &&
         !op->hasTrait<OpTrait::ConstantLike>() &&
         llvm::all_of(op->getResultTypes(), isTensor) &&
         llvm::all_of(op->getOperandTypes(), isTensor);
}

/// The constant of one value that an operand is; null where it is none.
static Attribute getUniform(Value value) {
  SplatElementsAttr constant;
  return matchPattern(value, m_Constant(&constant)) ? constant : Attribute();
}

static const void *toPointer(uintptr_t number) {
  return reinterpret_cast<const void *>(number);
}

/// Adds what distinguishes the ops of a block from those of others.
static void addSignature(Block &block, std::vector<const void *> &signature) {
  llvm::DenseMap<Value, uintptr_t> numbers;
  auto number = [&](ValueRange values) {
    for (Value value : values)
      numbers.try_emplace(value, numbers.size());
  };
  number(block.getArguments());
  for (Operation &op : block) {
    signature.push_back(op.getName().getAsOpaquePointer());
    signature.push_back(op.getAttrDictionary().getAsOpaquePointer());
    for (Value operand : op.getOperands())
      signature.push_back(toPointer(numbers.lookup(operand)));
    for (Type type : op.getResultTypes())
      signature.push_back(type.getAsOpaquePointer());
    number(op.getResults());
  }
}

/// All that the lowering of an op sees.
static std::vector<const void *> getSignature(Operation *op) {
  std::vector<const void *> signature{
      op->getName().getAsOpaquePointer(),
      op->getAttrDictionary().getAsOpaquePointer()};
  for (Region &region : op->getRegions())
    for (Block &block : region)
      addSignature(block, signature);
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    signature.push_back(value.getType().getAsOpaquePointer());
    signature.push_back(getUniform(value).getAsOpaquePointer());
    // Which other operand is the same value.
    unsigned first = llvm::find(op->getOperands(), value) - op->operand_begin();
    signature.push_back(toPointer(first));
  }
  for (Type type : op->getResultTypes())
    signature.push_back(type.getAsOpaquePointer());
  return signature;
}

/// Equal for ops that do the same to their tensors.
static size_t hashStep(Operation *op) {
  llvm::hash_code hash = llvm::hash_value(0);
  llvm::DenseMap<Value, unsigned> inner; // what the op itself defines
  auto define = [&](Value value) { inner.try_emplace(value, inner.size()); };
  op->walk<WalkOrder::PreOrder>([&](Operation *nested) {
    hash = llvm::hash_combine(hash, nested->getName().getAsOpaquePointer(),
                              nested->getAttrDictionary().getAsOpaquePointer());
    for (Type type : nested->getResultTypes())
      hash = llvm::hash_combine(hash, type.getAsOpaquePointer());
    for (Value operand : nested->getOperands()) {
      Attribute constant;
      auto found = inner.find(operand);
      if (found != inner.end())
        hash = llvm::hash_combine(hash, found->second);
      else if (!isa<TensorType>(operand.getType()) &&
               matchPattern(operand, m_Constant(&constant)))
        hash = llvm::hash_combine(hash, constant.getAsOpaquePointer());
    }
    if (nested != op)
      for (Value result : nested->getResults())
        define(result);
    for (Region &region : nested->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          define(argument);
  });
  return hash;
}

static LoweredOp::Step describe(Operation *op) {
  LoweredOp::Step step;
  step.key = hashStep(op);
  step.isReshape =
      isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp, tensor::CastOp>(op);
  auto generic = dyn_cast<linalg::GenericOp>(op);
  step.isGeneric = generic != nullptr;
  step.isBroadcast = isBroadcast(op);
  step.isWidening =
      isWidening(op) &&
      llvm::all_of(generic.getIndexingMapsArray(),
                   [](AffineMap map) { return map.isIdentity(); });
  step.isProduct = isLibraryCall(op);
  return step;
}

/// A function that is `op` alone, in `module`.
static func::FuncOp makeFunction(ModuleOp module, Operation *op) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Location loc = module.getLoc();
  auto function = func::FuncOp::create(
      builder, loc, "op",
      builder.getFunctionType(op->getOperandTypes(), op->getResultTypes()));
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  IRMapping mapping;
  for (auto [operand, argument] :
       llvm::zip_equal(op->getOperands(), entry->getArguments())) {
    Value known = argument;
    if (Attribute constant = getUniform(operand))
      known =
          arith::ConstantOp::create(builder, loc, cast<TypedAttr>(constant));
    if (!mapping.contains(operand))
      mapping.map(operand, known);
  }
  Operation *clone = builder.clone(*op, mapping);
  func::ReturnOp::create(builder, loc, clone->getResults());
  return function;
}

/// Reads what `op` has become in a function.
static std::unique_ptr<LoweredOp> readLowered(func::FuncOp function,
                                              Operation *op) {
  Block &entry = function.getBody().front();
  FailureOr<BlockNests> nests = BlockNests::read(entry);
  if (failed(nests))
    return nullptr;
  auto lowered = std::make_unique<LoweredOp>();
  lowered->problem = nests->getProblem();
  auto precision = dyn_cast<PrecisionOpInterface>(op);
  lowered->isProduct = precision && precision.getPrecisionClass() ==
                                        PrecisionClass::LowerPrecision;
  int terminator = static_cast<int>(lowered->problem.ops.size()) - 1;
  for (int i = 0; i < terminator; ++i) {
    const KernelProblem::Op &known = lowered->problem.ops[i];
    // Scalars are in the code.
    lowered->numOthers += !known.results.empty() && known.kind == OpKind::Other;
    lowered->steps.push_back(describe(nests->getOp(i)));
    for (Value operand : nests->getOp(i)->getOperands())
      if (int value = nests->getNumber(operand); value >= 0)
        lowered->steps.back().uses.push_back(value);
  }
  for (int i = 0, e = static_cast<int>(lowered->problem.values.size()); i < e;
       ++i)
    lowered->types.push_back(nests->getValue(i).getType());
  for (BlockArgument argument : entry.getArguments())
    lowered->operands.push_back(
        argument.use_empty() ? -1 : nests->getNumber(argument));
  for (Value result : entry.getTerminator()->getOperands())
    lowered->results.push_back(nests->getNumber(result));
  return lowered;
}

/// Lowers ops, each in a function of its own; null where one cannot be.
std::vector<std::unique_ptr<LoweredOp>>
OpLoweringInterface::lowerAlone(ArrayRef<Operation *> ops,
                                bool fusesAttention) const {
  std::vector<std::unique_ptr<LoweredOp>> all(ops.size());
  if (ops.empty())
    return all;
  MLIRContext *context = ops.front()->getContext();
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
  std::vector<func::FuncOp> functions;
  for (Operation *op : ops)
    functions.push_back(makeFunction(*module, op));
  // What cannot be lowered is reported by the pass that has to. The handler is
  // all threads'; it takes what this one says.
  ScopedDiagnosticHandler quiet(
      context, [thread = llvm::get_threadid()](Diagnostic &) {
        return success(llvm::get_threadid() == thread);
      });
  if (succeeded(lower(*module, fusesAttention))) {
    for (auto [op, function, lowered] : llvm::zip_equal(ops, functions, all))
      lowered = readLowered(function, op);
  } else if (ops.size() > 1) {
    for (auto [op, lowered] : llvm::zip_equal(ops, all))
      lowered = std::move(lowerAlone(op, fusesAttention).front());
  }
  return all;
}

std::vector<const LoweredOp *>
OpLoweringInterface::get(ArrayRef<Operation *> ops, bool fusesAttention) const {
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<Operation *> firsts;
  std::vector<std::unique_ptr<LoweredOp> *> places, missing;
  for (Operation *op : ops) {
    places.push_back(nullptr);
    if (!isCandidate(op))
      continue;
    std::vector<const void *> signature = getSignature(op);
    signature.push_back(toPointer(fusesAttention));
    auto [entry, isNew] = known.try_emplace(std::move(signature));
    places.back() = &entry->second;
    if (isNew) {
      firsts.push_back(op);
      missing.push_back(&entry->second);
    }
  }
  for (auto [place, lowered] :
       llvm::zip_equal(missing, lowerAlone(firsts, fusesAttention)))
    *place = std::move(lowered);
  std::vector<const LoweredOp *> found;
  for (std::unique_ptr<LoweredOp> *place : places)
    found.push_back(place ? place->get() : nullptr);
  return found;
}
