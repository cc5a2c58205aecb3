//===- BatchKernel.cpp - several kernels as one ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See BatchKernel.h.
//
//===----------------------------------------------------------------------===//

#include "Launches/BatchKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace mpcomm::batches {

/// Blocks a multiprocessor from which on a block takes several pieces of work,
/// and how many at most: it finds its launch once. Some eight run at a time;
/// the last of so many do not leave the others idle for long.
static constexpr int64_t kBlocksOfProcessor = 64;
static constexpr int64_t kMaxPieces = 8;

Signature Signature::of(ArrayRef<Launch> run, const Batch &batch,
                        SmallVectorImpl<Pointers::Key> &pointers,
                        size_t &inputs) {
  Pointers all;
  for (unsigned number : batch)
    all.add(run[number]);
  llvm::DenseMap<Pointers::Key, int64_t> numbers;
  for (bool isWritten : {false, true}) {
    if (isWritten)
      inputs = pointers.size();
    for (const auto &[pointer, written] : all.known)
      if (written == isWritten) {
        numbers[pointer] = static_cast<int64_t>(pointers.size());
        pointers.push_back(pointer);
      }
  }
  Signature signature;
  signature.pointers = static_cast<int64_t>(pointers.size());
  llvm::MapVector<const BatchMember *, Body> bodies;
  for (unsigned number : batch) {
    const Launch &launch = run[number];
    Body &body = bodies[launch.member];
    body.member = launch.member;
    SmallVector<int64_t> &list = body.launches.emplace_back();
    for (const Pointers::Key &pointer : Pointers::of(launch))
      list.push_back(numbers[pointer]);
    list.push_back(launch.scratchOffset);
    if (int64_t bytes = launch.member->grid.getScratch())
      signature.scratchBytes =
          std::max(signature.scratchBytes, launch.scratchOffset + bytes);
  }
  for (auto &[member, body] : bodies)
    signature.bodies.push_back(std::move(body));
  return signature;
}

std::vector<int64_t> Signature::key() const {
  std::vector<int64_t> key{pointers};
  for (const Body &body : bodies) {
    key.push_back(
        static_cast<int64_t>(reinterpret_cast<intptr_t>(body.member)));
    key.push_back(static_cast<int64_t>(body.launches.size()));
    for (ArrayRef<int64_t> launch : body.launches)
      key.insert(key.end(), launch.begin(), launch.end());
  }
  return key;
}

namespace {
class Emitter {
public:
  Emitter(gpu::GPUModuleOp device, StringRef name, Location loc,
          const Signature &signature, ArrayRef<Pointers::Key> pointers,
          const BatchLimits &limits);
  BatchKernel run();

private:
  void deal(OpBuilder &b, Value block, size_t begin, size_t end);
  void emitBody(OpBuilder &b, Value block, size_t number);
  SmallVector<Value> select(OpBuilder &b, const Signature::Body &body,
                            Value launch, ArrayRef<unsigned> slots);
  Value slot(OpBuilder &b, const Signature::Body &body, size_t launch,
             unsigned slot);
  Value number(OpBuilder &b, int64_t value) {
    return arith::ConstantIndexOp::create(b, loc, value);
  }

  gpu::GPUFuncOp function;
  Location loc;
  const Signature &signature;
  /// Of each body: blocks of a launch, and its first block.
  SmallVector<int64_t> blocks, starts;
  int64_t allBlocks = 0, threads;
  Value scratch;
  /// By type: bodies, of which a block has one, share it.
  llvm::DenseMap<Type, SmallVector<Value>> shared;
};
} // namespace

Emitter::Emitter(gpu::GPUModuleOp device, StringRef name, Location loc,
                 const Signature &signature, ArrayRef<Pointers::Key> pointers,
                 const BatchLimits &limits)
    : loc(loc), signature(signature) {
  const BatchMember &first = *signature.bodies.front().member;
  threads = first.grid.getThreads();
  for (const Signature::Body &body : signature.bodies)
    allBlocks += body.member->grid.getBlocks() *
                 static_cast<int64_t>(body.launches.size());
  int64_t pieces = std::clamp<int64_t>(
      allBlocks / (limits.processors * kBlocksOfProcessor), 1, kMaxPieces);
  allBlocks = 0;
  for (const Signature::Body &body : signature.bodies) {
    mprt::GridAttr grid = body.member->grid;
    blocks.push_back(grid.getGridStride()
                         ? llvm::divideCeil(grid.getBlocks(), pieces)
                         : grid.getBlocks());
    starts.push_back(allBlocks);
    allBlocks += blocks.back() * static_cast<int64_t>(body.launches.size());
  }
  OpBuilder b = OpBuilder::atBlockEnd(device.getBody());
  SmallVector<Type> arguments;
  for (const Pointers::Key &pointer : pointers)
    arguments.push_back(pointer.second);
  if (signature.scratchBytes)
    arguments.push_back(
        MemRefType::get({signature.scratchBytes}, b.getI8Type()));
  function = gpu::GPUFuncOp::create(
      b, loc, name, FunctionType::get(b.getContext(), arguments, {}));
  // As its members are compiled, see createGPUKernel.
  StringRef minimum = NVVM::NVVMDialect::getMinctasmAttrName();
  if (Attribute blocks = first.code->getAttr(minimum))
    function->setAttr(minimum, blocks);
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  function.setKnownBlockSizeAttr(
      b.getDenseI32ArrayAttr({static_cast<int32_t>(threads), 1, 1}));
  if (signature.scratchBytes)
    scratch = function.getArguments()[pointers.size()];
}

Value Emitter::slot(OpBuilder &b, const Signature::Body &body, size_t launch,
                    unsigned slot) {
  int64_t value = body.launches[launch][slot];
  return slot + 1 == body.launches[launch].size()
             ? number(b, value)
             : Value(function.getArgument(static_cast<unsigned>(value)));
}

/// What launch `launch` has in `slots`. A switch and no tree of conditions:
/// LLVM makes the leaves of a tree into selections, for which each thread loads
/// the pointers of all launches.
SmallVector<Value> Emitter::select(OpBuilder &b, const Signature::Body &body,
                                   Value launch, ArrayRef<unsigned> slots) {
  auto valuesOf = [&](OpBuilder &at, size_t number) {
    SmallVector<Value> values;
    for (unsigned slot : slots)
      values.push_back(this->slot(at, body, number, slot));
    return values;
  };
  size_t last = body.launches.size() - 1;
  SmallVector<int64_t> cases = llvm::to_vector(llvm::seq(int64_t(last)));
  SmallVector<Type> types = llvm::map_to_vector(
      valuesOf(b, last), [](Value value) { return value.getType(); });
  auto choice = scf::IndexSwitchOp::create(b, loc, types, launch, cases,
                                           static_cast<unsigned>(last));
  for (size_t i = 0; i <= last; ++i) {
    Region &region =
        i < last ? choice.getCaseRegions()[i] : choice.getDefaultRegion();
    OpBuilder inner = OpBuilder::atBlockEnd(&region.emplaceBlock());
    scf::YieldOp::create(inner, loc, valuesOf(inner, i));
  }
  return choice.getResults();
}

void Emitter::emitBody(OpBuilder &b, Value block, size_t which) {
  const Signature::Body &body = signature.bodies[which];
  gpu::GPUFuncOp code = body.member->code;
  block = arith::SubIOp::create(b, loc, block, number(b, starts[which]));
  Value size = number(b, blocks[which]);
  Value launch = arith::DivUIOp::create(b, loc, block, size);
  block = arith::RemUIOp::create(b, loc, block, size);
  // What all launches have in common needs no search.
  SmallVector<unsigned> slots;
  SmallVector<Value> values;
  for (size_t i = 0; i < body.launches.front().size(); ++i) {
    values.push_back(slot(b, body, 0, i));
    if (llvm::any_of(body.launches, [&](ArrayRef<int64_t> other) {
          return other[i] != body.launches.front()[i];
        }))
      slots.push_back(static_cast<unsigned>(i));
  }
  if (!slots.empty())
    for (auto [slot, value] : llvm::zip(slots, select(b, body, launch, slots)))
      values[slot] = value;
  IRMapping mapping;
  for (size_t i = 0; i + 1 < values.size(); ++i)
    mapping.map(code.getArgument(i), values[i]);
  if (body.member->grid.getScratch()) {
    BlockArgument own = code.getArgument(values.size() - 1);
    mapping.map(own,
                memref::ViewOp::create(b, loc, cast<MemRefType>(own.getType()),
                                       scratch, values.back(), ValueRange())
                    .getResult());
  }
  llvm::DenseMap<Type, size_t> used;
  for (BlockArgument buffer : code.getWorkgroupAttributions()) {
    SmallVector<Value> &all = shared[buffer.getType()];
    size_t &next = used[buffer.getType()];
    if (next == all.size())
      all.push_back(function.addWorkgroupAttribution(buffer.getType(), loc));
    mapping.map(buffer, all[next++]);
  }
  for (Operation &op : code.getBody().front().without_terminator()) {
    Operation *made = b.clone(op, mapping);
    made->walk([&](Operation *inner) {
      Value value;
      if (auto id = dyn_cast<gpu::BlockIdOp>(inner))
        value = id.getDimension() == gpu::Dimension::x ? block : Value();
      if (auto dim = dyn_cast<gpu::GridDimOp>(inner))
        value = dim.getDimension() == gpu::Dimension::x ? size : Value();
      if (!value)
        return;
      inner->getResult(0).replaceAllUsesWith(value);
      if (inner == made)
        mapping.map(op.getResult(0), value);
      inner->erase();
    });
  }
}

/// Code for blocks of the bodies in [begin, end).
void Emitter::deal(OpBuilder &b, Value block, size_t begin, size_t end) {
  if (end - begin == 1)
    return emitBody(b, block, begin);
  size_t middle = begin + (end - begin) / 2;
  Value isLower = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult,
                                        block, number(b, starts[middle]));
  auto half = [&](size_t from, size_t to) {
    return [&, from, to](OpBuilder &inner, Location at) {
      deal(inner, block, from, to);
      scf::YieldOp::create(inner, at);
    };
  };
  scf::IfOp::create(b, loc, isLower, half(begin, middle), half(middle, end));
}

BatchKernel Emitter::run() {
  OpBuilder b = OpBuilder::atBlockEnd(&function.getBody().front());
  Value block = gpu::BlockIdOp::create(b, loc, gpu::Dimension::x);
  deal(b, block, 0, signature.bodies.size());
  gpu::ReturnOp::create(b, loc);
  return {function,
          mprt::GridAttr::get(b.getContext(), threads, allBlocks,
                              /*gridStride=*/false, signature.scratchBytes)};
}

BatchKernel emitBatchKernel(gpu::GPUModuleOp device, StringRef name,
                            Location loc, const Signature &signature,
                            ArrayRef<Pointers::Key> pointers,
                            const BatchLimits &limits) {
  return Emitter(device, name, loc, signature, pointers, limits).run();
}

} // namespace mpcomm::batches
