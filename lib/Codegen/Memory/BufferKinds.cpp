//===- BufferKinds.cpp - what buffers of a step hold ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An op is a list of flows, each from the buffers that are read to the buffer
// that is written. Going up from the loss, a flow belongs to the forward pass
// if what it writes is needed further down; going down, a buffer that such a
// flow wrote last and another reads is an activation.
//
//===----------------------------------------------------------------------===//

#include "Memory/BufferKinds.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace mpcomm;

StringRef mpcomm::nameOf(BufferKind kind) {
  switch (kind) {
  case BufferKind::Temporary:
    return "temporaries";
  case BufferKind::Gradient:
    return "gradients";
  case BufferKind::Activation:
    return "activations";
  case BufferKind::Communication:
    return "communication";
  }
  llvm_unreachable("covered switch");
}

namespace {

struct Flow {
  Value written;
  SmallVector<Value> reads;
  bool isForward = false;
};

class KindFinder {
public:
  explicit KindFinder(func::FuncOp step) : step(step) {}
  llvm::DenseMap<Value, BufferKind> run();

private:
  ArrayRef<llvm::BitVector> getDependences(mprt::LaunchOp op);
  void addFlows(Operation &op);
  void markForward();
  bool isParameter(Value buffer);
  void raise(Value buffer, BufferKind kind);

  func::FuncOp step;
  SymbolTableCollection symbols;
  /// Of each kernel: for each of its results, the arguments that it needs.
  llvm::DenseMap<Operation *, SmallVector<llvm::BitVector>> dependences;
  SmallVector<Flow> flows;
  llvm::DenseMap<Value, BufferKind> kinds;
};

} // namespace

/// The arguments of a kernel, tensors by then, that each result needs.
ArrayRef<llvm::BitVector> KindFinder::getDependences(mprt::LaunchOp op) {
  auto kernel =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(op, op.getKernelAttr());
  auto [it, isNew] = dependences.try_emplace(kernel);
  unsigned size = op.getInputs().size() + op.getOutputs().size();
  if (!isNew)
    return it->second;
  SmallVector<llvm::BitVector> &all = it->second;
  if (!kernel || kernel.isExternal() || !kernel.getBody().hasOneBlock() ||
      kernel.getNumResults() != op.getOutputs().size()) {
    all.assign(op.getOutputs().size(), llvm::BitVector(size, true));
    return all;
  }
  for (Value result : kernel.getBody().front().getTerminator()->getOperands()) {
    llvm::BitVector &needed = all.emplace_back(size);
    SmallVector<Value> stack = {result};
    llvm::DenseSet<Value> seen;
    while (!stack.empty()) {
      Value value = stack.pop_back_val();
      if (!seen.insert(value).second)
        continue;
      auto argument = dyn_cast<BlockArgument>(value);
      if (argument && argument.getOwner() == &kernel.getBody().front())
        needed.set(argument.getArgNumber());
      // What the op captures, too; arguments of inner blocks lead nowhere.
      if (Operation *maker = value.getDefiningOp())
        maker->walk([&](Operation *inner) {
          llvm::append_range(stack, inner->getOperands());
        });
    }
  }
  return all;
}

/// Nothing is said of buffers whose size is not known.
static bool isStaticBuffer(Value value) {
  auto type = dyn_cast<MemRefType>(value.getType());
  return type && type.hasStaticShape();
}

void KindFinder::addFlows(Operation &op) {
  auto add = [&](Value written, ValueRange reads) {
    Value root = mprt::getViewRoot(written);
    if (!isStaticBuffer(root))
      return;
    Flow &flow = flows.emplace_back();
    flow.written = root;
    for (Value value : reads)
      if (Value from = mprt::getViewRoot(value); isStaticBuffer(from))
        flow.reads.push_back(from);
  };
  if (auto launch = dyn_cast<mprt::LaunchOp>(op)) {
    ArrayRef<llvm::BitVector> needed = getDependences(launch);
    for (auto [i, output] : llvm::enumerate(launch.getOutputs())) {
      SmallVector<Value> reads;
      for (unsigned argument : needed[i].set_bits())
        reads.push_back(op.getOperand(argument));
      add(output, reads);
    }
    return;
  }
  if (auto start = dyn_cast<mprt::StartOp>(op)) {
    // In place, or from one input to one output.
    for (auto [output, input] :
         llvm::zip(start.getOutputs(), start.getInputs()))
      add(output, input);
    for (ValueRange buffers : {start.getInputs(), start.getOutputs()})
      for (Value buffer : buffers)
        raise(mprt::getViewRoot(buffer), BufferKind::Communication);
    return;
  }
  // Each buffer of a bucket comes back to itself.
  if (isa<mprt::AwaitOp>(op))
    return;
  if (auto copy = dyn_cast<memref::CopyOp>(op))
    return add(copy.getTarget(), copy.getSource());
  if (auto copy = dyn_cast<mprt::CopyOp>(op))
    return add(op.getOperand(1), op.getOperand(0));
  if (auto inits = dyn_cast<DestinationStyleOpInterface>(op)) {
    SmallVector<Value> reads = inits.getDpsInputs();
    if (!op.hasAttr(mprt::kOverwriteAttr))
      llvm::append_range(reads, inits.getDpsInits());
    for (Value init : inits.getDpsInits())
      add(init, reads);
  }
}

/// Whether the buffer is a parameter of the step.
bool KindFinder::isParameter(Value buffer) {
  auto argument = dyn_cast<BlockArgument>(buffer);
  if (!argument || argument.getOwner() != &step.getBody().front())
    return false;
  auto role =
      step.getArgAttrOfType<RoleAttr>(argument.getArgNumber(), kRoleAttr);
  return role && role.getValue() == Role::Parameter;
}

void KindFinder::markForward() {
  llvm::DenseSet<Value> needed;
  auto results = step->getAttrOfType<ArrayAttr>(mprt::kResultsAttr);
  unsigned numOwn = 0;
  SmallVector<unsigned> own; // arguments at the end, of losses
  for (Attribute entry : results ? results.getValue() : ArrayRef<Attribute>()) {
    auto result = cast<DictionaryAttr>(entry);
    auto role = result.getAs<RoleAttr>(kRoleAttr);
    int64_t argument =
        result.getAs<IntegerAttr>(mprt::kResultArgument).getInt();
    bool isLoss = role && role.getValue() == Role::Loss;
    if (isLoss && argument >= 0)
      needed.insert(step.getArgument(argument));
    else if (isLoss)
      own.push_back(numOwn);
    numOwn += argument < 0;
  }
  // By hand there may be fewer.
  if (numOwn <= step.getNumArguments())
    for (unsigned i : own)
      needed.insert(step.getArgument(step.getNumArguments() - numOwn + i));
  for (Flow &flow : llvm::reverse(flows)) {
    flow.isForward = needed.contains(flow.written);
    if (flow.isForward)
      needed.insert_range(flow.reads);
  }
}

void KindFinder::raise(Value buffer, BufferKind kind) {
  if (!buffer.getDefiningOp<memref::AllocOp>())
    return;
  BufferKind &known = kinds[buffer];
  known = std::max(known, kind);
}

llvm::DenseMap<Value, BufferKind> KindFinder::run() {
  for (Operation &op : step.getBody().front())
    if (!isa<ViewLikeOpInterface, memref::AllocOp>(op))
      addFlows(op);
  markForward();
  llvm::DenseSet<Value> ofForward; // buffers that the forward pass wrote last
  for (const Flow &flow : flows) {
    int64_t size = cast<MemRefType>(flow.written.getType()).getNumElements();
    for (Value read : flow.reads) {
      if (!flow.isForward && ofForward.contains(read))
        raise(read, BufferKind::Activation);
      else if (isParameter(flow.written) &&
               cast<MemRefType>(read.getType()).getNumElements() == size)
        raise(read, BufferKind::Gradient);
    }
    if (flow.isForward)
      ofForward.insert(flow.written);
    else
      ofForward.erase(flow.written);
  }
  return std::move(kinds);
}

llvm::DenseMap<Value, BufferKind> mpcomm::getBufferKinds(func::FuncOp step) {
  return KindFinder(step).run();
}
