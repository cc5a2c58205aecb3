//===- VerifyRuntimePrograms.cpp - the contract of Form 5 -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Form 5: flat functions on buffers whose addresses are known. The memory plan
// is checked here from the addresses alone, without what made it: a buffer of
// the arena is a memref.view of it, lives from its first use to its last (to
// the await, of a collective in flight), and shares no byte with another one
// that lives at the same time.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPRT/IR/Address.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/MapVector.h"
#include <map>

namespace mpcomm {
#define GEN_PASS_DEF_VERIFYRUNTIMEPROGRAMSPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-verify-runtime-programs"

using namespace mlir;
using namespace mpcomm;

namespace {

/// Bytes of one base of which each belongs to one value at a time, or to none.
template <typename T> class Ranges {
public:
  /// What holds some byte of [begin, end), or null.
  const T *find(int64_t begin, int64_t end) const {
    auto it = ranges.lower_bound(begin);
    if (it != ranges.begin() && std::prev(it)->second.first > begin)
      return &std::prev(it)->second.second;
    return it != ranges.end() && it->first < end ? &it->second.second : nullptr;
  }
  void insert(int64_t begin, int64_t end, T value) {
    ranges.insert({begin, {end, value}});
  }
  void erase(int64_t begin) { ranges.erase(begin); }
  /// Adds [begin, end) to what is there already.
  void unite(int64_t begin, int64_t end, T value) {
    auto it = ranges.lower_bound(begin);
    if (it != ranges.begin() && std::prev(it)->second.first >= begin)
      --it;
    while (it != ranges.end() && it->first <= end) {
      begin = std::min(begin, it->first);
      end = std::max(end, it->second.first);
      it = ranges.erase(it);
    }
    insert(begin, end, value);
  }

private:
  std::map<int64_t, std::pair<int64_t, T>> ranges; // begin -> end
};

/// The checks of one function.
class RuntimeProgram {
public:
  explicit RuntimeProgram(func::FuncOp function)
      : function(function), block(function.getBody().front()) {}
  LogicalResult check();

private:
  /// A collective between its start and its await.
  struct InFlight {
    mprt::StartOp start;
    SmallVector<Access, 4> accesses;
  };
  /// A view of the arena.
  struct Buffer {
    memref::ViewOp view;
    int64_t begin, end;            // bytes
    int64_t first = -1, last = -1; // positions of its uses
  };

  LogicalResult checkOp(Operation &op);
  LogicalResult checkAccess(Operation *op, const Access &access);
  LogicalResult checkInFlight(Operation *op, mprt::StartOp starting,
                              ArrayRef<Access> accesses);
  LogicalResult start(mprt::StartOp op, ArrayRef<Access> accesses);
  LogicalResult finish(mprt::AwaitOp op, ArrayRef<Access> accesses);
  void use(Operation *op);
  LogicalResult checkLifetimes();
  int64_t sizeOf(Value base) const;
  bool mayWrite(Value base);

  func::FuncOp function;
  Block &block;
  Value arena;
  mprt::CalleeSignature signature;
  int64_t position = 0;
  std::map<int64_t, InFlight> inFlight;         // by event
  Ranges<bool> written;                         // of the arena
  llvm::MapVector<Operation *, Buffer> buffers; // by view
};

} // namespace

/// Whether it takes no time: another name for a buffer, or a constant.
static bool isName(Operation *op) {
  return isa<ViewLikeOpInterface, memref::GetGlobalOp>(op) ||
         op->hasTrait<mlir::OpTrait::ConstantLike>();
}

int64_t RuntimeProgram::sizeOf(Value base) const {
  return mpcomm::detail::countBytes(base.getType());
}

bool RuntimeProgram::mayWrite(Value base) {
  auto argument = dyn_cast<BlockArgument>(base);
  return argument &&
         (signature.arguments[argument.getArgNumber()].kind !=
              mprt::CalleeSignature::Input ||
          function.getArgAttr(argument.getArgNumber(), mprt::kUpdateAttr));
}

LogicalResult RuntimeProgram::checkAccess(Operation *op, const Access &access) {
  if (access.begin < 0 || access.end > sizeOf(access.base))
    return op->emitOpError()
           << "uses bytes " << access.begin << " to " << access.end
           << " of a buffer of " << sizeOf(access.base);
  if (access.writes && !mayWrite(access.base))
    return op->emitOpError() << "writes a buffer of the caller's, expected '"
                             << mprt::kUpdateAttr << "' on the argument";
  if (access.base != arena)
    return success();
  if (access.writes)
    written.unite(access.begin, access.end, true);
  else if (!written.find(access.begin, access.end))
    return op->emitOpError()
           << "reads bytes " << access.begin << " to " << access.end
           << " of the arena, which nothing has written";
  return success();
}

/// What a collective in flight writes is not touched, and what it reads is not
/// written. Collectives of one communicator run one after the other.
LogicalResult RuntimeProgram::checkInFlight(Operation *op,
                                            mprt::StartOp starting,
                                            ArrayRef<Access> accesses) {
  for (auto &[event, flight] : inFlight) {
    if (starting &&
        starting.getCommunicator() == flight.start.getCommunicator())
      continue;
    for (const Access &access : accesses)
      for (const Access &own : flight.accesses)
        if (access.touches(own)) {
          InFlightDiagnostic diag = op->emitOpError()
                                    << (access.writes ? "writes" : "reads")
                                    << " what a collective in flight "
                                    << (own.writes ? "writes" : "reads")
                                    << ", expected its await before";
          diag.attachNote(flight.start.getLoc()) << "it starts here";
          return diag;
        }
  }
  return success();
}

LogicalResult RuntimeProgram::start(mprt::StartOp op,
                                    ArrayRef<Access> accesses) {
  auto [it, isNew] = inFlight.try_emplace(
      op.getEvent(), InFlight{op, SmallVector<Access, 4>(accesses)});
  if (isNew)
    return success();
  InFlightDiagnostic diag = op.emitOpError()
                            << "marks its end by event " << op.getEvent()
                            << ", which another collective in flight has";
  diag.attachNote(it->second.start.getLoc()) << "that one starts here";
  return diag;
}

LogicalResult RuntimeProgram::finish(mprt::AwaitOp op,
                                     ArrayRef<Access> accesses) {
  auto it = inFlight.find(op.getEvent());
  if (it == inFlight.end())
    return op.emitOpError() << "awaits event " << op.getEvent()
                            << ", which no collective in flight has";
  for (const Access &own : it->second.accesses) {
    auto isSame = [&](const Access &access) {
      return access.base == own.base && access.begin == own.begin &&
             access.end == own.end;
    };
    if (!own.writes || llvm::any_of(accesses, isSame))
      continue;
    InFlightDiagnostic diag =
        op.emitOpError("lacks a buffer that its collective writes");
    diag.attachNote(it->second.start.getLoc()) << "the collective starts here";
    return diag;
  }
  inFlight.erase(it);
  return success();
}

/// Notes that `op` uses the buffers of its operands.
void RuntimeProgram::use(Operation *op) {
  for (Value operand : op->getOperands())
    while (Operation *maker = operand.getDefiningOp()) {
      auto view = dyn_cast<ViewLikeOpInterface>(maker);
      if (!view)
        break;
      operand = view.getViewSource();
      if (operand != arena)
        continue;
      auto it = buffers.find(maker);
      if (it == buffers.end())
        break;
      Buffer &buffer = it->second;
      buffer.first = buffer.first < 0 ? position : buffer.first;
      buffer.last = position;
    }
}

LogicalResult RuntimeProgram::checkOp(Operation &op) {
  if (isName(&op)) {
    auto view = dyn_cast<memref::ViewOp>(op);
    if (!view || view.getSource() != arena)
      return success();
    FailureOr<Address> address = resolveAddress(view, &op);
    if (failed(address))
      return failure();
    buffers[&op] = {view, address->bytes,
                    address->bytes + sizeOf(view.getResult())};
    return success();
  }
  if (op.hasTrait<mlir::OpTrait::IsTerminator>()) {
    if (op.getNumOperands() == 0)
      return success();
    return op.emitOpError("returns values, expected results in buffers");
  }
  if (op.getNumRegions() || !isa<MemoryEffectOpInterface>(op) ||
      op.getName().getDialectNamespace() != "mprt")
    return op.emitOpError("is left in a runtime program, expected ops of mprt "
                          "on buffers, one after the other");
  ++position;
  use(&op);
  FailureOr<SmallVector<Access, 4>> accesses = accessesOf(&op);
  if (failed(accesses))
    return failure();
  // An await only keeps the input of its collective alive.
  auto await = dyn_cast<mprt::AwaitOp>(op);
  for (size_t i = 0, e = await ? await.getInputs().size() : 0; i < e; ++i)
    (*accesses)[i].writes = false;
  llvm::erase_if(*accesses, [](const Access &access) {
    return access.begin == access.end;
  });
  if (await && failed(finish(await, *accesses)))
    return failure();
  auto starting = dyn_cast<mprt::StartOp>(op);
  if (failed(checkInFlight(&op, starting, *accesses)))
    return failure();
  // A copy of what nothing has written writes nothing, within the arena.
  auto isUndefined = [&](const Access &access) {
    return !access.writes && !written.find(access.begin, access.end);
  };
  auto isInArena = [&](const Access &access) { return access.base == arena; };
  if (isa<mprt::CopyOp>(op) && llvm::all_of(*accesses, isInArena) &&
      llvm::any_of(*accesses, isUndefined))
    return success();
  for (const Access &access : *accesses)
    if (failed(checkAccess(&op, access)))
      return failure();
  return starting ? start(starting, *accesses) : success();
}

/// In the order of their first uses, each buffer against those that still live.
LogicalResult RuntimeProgram::checkLifetimes() {
  SmallVector<Buffer *> used;
  for (auto &[op, buffer] : buffers)
    if (buffer.first >= 0 && buffer.begin < buffer.end)
      used.push_back(&buffer);
  llvm::stable_sort(used,
                    [](Buffer *a, Buffer *b) { return a->first < b->first; });
  std::multimap<int64_t, Buffer *> ends; // by last use
  Ranges<Buffer *> alive;
  for (Buffer *buffer : used) {
    while (!ends.empty() && ends.begin()->first < buffer->first) {
      alive.erase(ends.begin()->second->begin);
      ends.erase(ends.begin());
    }
    if (Buffer *const *other = alive.find(buffer->begin, buffer->end)) {
      InFlightDiagnostic diag = buffer->view.emitOpError()
                                << "is at bytes " << buffer->begin << " to "
                                << buffer->end
                                << " of the arena, where another buffer lives";
      diag.attachNote((*other)->view.getLoc())
          << "that one is at bytes " << (*other)->begin << " to "
          << (*other)->end;
      return diag;
    }
    alive.insert(buffer->begin, buffer->end, buffer);
    ends.insert({buffer->last, buffer});
  }
  return success();
}

LogicalResult RuntimeProgram::check() {
  if (!function.getBody().hasOneBlock())
    return function.emitOpError("has several blocks, expected one in a runtime "
                                "program");
  FailureOr<mprt::CalleeSignature> found = mprt::getCalleeSignature(function);
  if (failed(found))
    return function.emitOpError("does not say where its results are, expected "
                                "'")
           << mprt::kResultsAttr << "' to";
  signature = std::move(*found);
  if (auto bytes =
          function->getAttrOfType<IntegerAttr>(mprt::kArenaBytesAttr)) {
    if (function.getNumArguments() == 0 ||
        sizeOf(block.getArguments().back()) < bytes.getInt())
      return function.emitOpError()
             << "has no last argument of " << bytes.getInt()
             << " bytes, expected its arena there";
    arena = block.getArguments().back();
  }
  for (Operation &op : block)
    if (failed(checkOp(op)))
      return failure();
  if (inFlight.empty())
    return checkLifetimes();
  return inFlight.begin()->second.start.emitOpError(
      "is never awaited, expected an mprt.await of its event");
}

namespace {
struct VerifyRuntimePrograms
    : mpcomm::impl::VerifyRuntimeProgramsPassBase<VerifyRuntimePrograms> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && !function->hasAttr(mprt::kKernelAttr) &&
          failed(RuntimeProgram(function).check()))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
