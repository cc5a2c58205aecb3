//===- CommunicationReader.cpp - what one rank does -----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ops of IR to starts and awaits, and to errors where that cannot be done.
//
//===----------------------------------------------------------------------===//

#include "Verify/CommunicationReader.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;
using namespace mpcomm;

/// What one rank may execute: more than that is taken for a loop that is not
/// meant to be written out.
static constexpr size_t maxInstructions = size_t(1) << 22;
/// How many ops may be looked at for that, those of loops and calls each time.
static constexpr size_t maxVisited = size_t(1) << 24;

//===----------------------------------------------------------------------===//
// Who communicates
//===----------------------------------------------------------------------===//

CommunicatingFunctions::Role CommunicatingFunctions::roleOf(Operation *op) {
  auto [it, isNew] = roles.try_emplace(op->getName(), Silent);
  if (isNew) {
    if (isa<CollectiveOpInterface, AsyncOp, AwaitOp, mprt::StartOp,
            mprt::AwaitOp>(op))
      it->second = Communicates;
    else if (isa<mprt::CallOp, mprt::LaunchOp, CallOpInterface>(op))
      it->second = Calls;
  }
  return it->second;
}

bool CommunicatingFunctions::isCall(Operation *op, Operation *&callee) {
  callee = nullptr;
  if (roleOf(op) != Calls)
    return false;
  FlatSymbolRefAttr name;
  if (auto call = dyn_cast<mprt::CallOp>(op))
    name = call.getCalleeAttr();
  else if (auto launch = dyn_cast<mprt::LaunchOp>(op))
    name = launch.getKernelAttr();
  if (name)
    callee = symbols.lookupNearestSymbolFrom(op, name);
  else
    callee = cast<CallOpInterface>(op).resolveCallableInTable(&symbols);
  auto function = dyn_cast_or_null<FunctionOpInterface>(callee);
  if (function && !function.isExternal())
    return true;
  callee = nullptr;
  return !isa<mprt::LaunchOp>(op); // a kernel elsewhere only computes
}

CommunicatingFunctions::CommunicatingFunctions(ModuleOp module) {
  llvm::DenseMap<Operation *, SmallVector<Operation *>> callers;
  SmallVector<Operation *> found;
  for (auto function : module.getOps<FunctionOpInterface>())
    function->walk([&](Operation *op) {
      Role role = roleOf(op);
      if (role == Silent)
        return;
      Operation *callee;
      bool calls = isCall(op, callee);
      if (callee)
        callers[callee].push_back(function);
      else if (calls || role == Communicates)
        found.push_back(function);
      while (op->getParentOp() != function)
        op = op->getParentOp();
      SmallVector<Operation *> &own = candidates[function];
      if (own.empty() || own.back() != op)
        own.push_back(op);
    });
  while (!found.empty()) {
    Operation *function = found.pop_back_val();
    if (functions.insert(function).second)
      llvm::append_range(found, callers[function]);
  }
}

Operation *CommunicatingFunctions::find(Operation *op) {
  Operation *found = nullptr;
  op->walk<WalkOrder::PreOrder>([&](Operation *inner) {
    Operation *callee;
    if (roleOf(inner) != Communicates &&
        (!isCall(inner, callee) || (callee && !contains(callee))))
      return WalkResult::advance();
    found = inner;
    return WalkResult::interrupt();
  });
  return found;
}

//===----------------------------------------------------------------------===//
// Meshes, communicators, ops
//===----------------------------------------------------------------------===//

LogicalResult ProgramReader::setMesh(Operation *user, FlatSymbolRefAttr name) {
  if (mesh && meshName == name)
    return success();
  if (mesh) {
    InFlightDiagnostic diag = emitError(user->getLoc())
                              << "'" << user->getName() << "' runs on mesh "
                              << name << ", expected " << meshName
                              << ", that of the program's others";
    diag.attachNote(mesh.getLoc()) << "which is this one";
    return failure();
  }
  meshName = name;
  mesh = communicating.symbols.lookupNearestSymbolFrom<MeshOp>(user, name);
  if (!mesh)
    return emitError(user->getLoc()) << "'" << user->getName() << "' names "
                                     << name << ", which is not an mpcomm.mesh";
  for (auto [axis, size] : llvm::zip(mesh.getAxisNames(), mesh.getAxisSizes()))
    model.problem.mesh.push_back({cast<StringAttr>(axis).str(), size});
  return success();
}

FailureOr<int> ProgramReader::communicatorOf(Operation *op,
                                             ArrayRef<Attribute> axes,
                                             int64_t channel) {
  std::vector<int> indices;
  for (Attribute axis : axes) {
    auto at = llvm::find(mesh.getAxisNames(), axis);
    if (at == mesh.getAxisNames().end())
      return emitError(op->getLoc())
             << "'" << op->getName() << "' names axis " << axis
             << ", which mesh " << meshName << " does not have";
    indices.push_back(at - mesh.getAxisNames().begin());
  }
  llvm::sort(indices);
  indices.erase(llvm::unique(indices), indices.end());
  if (indices.empty())
    return emitError(op->getLoc())
           << "'" << op->getName() << "' runs along no axis, expected one";
  auto [it, isNew] = communicators.try_emplace(
      {indices, channel}, int(model.problem.communicators.size()));
  if (isNew)
    model.problem.communicators.push_back(
        {indices, static_cast<int>(channel), buffered});
  return it->second;
}

LogicalResult ProgramReader::addOp(Operation *at, ProofOp op,
                                   int communicator) {
  if (program->instructions.size() >= maxInstructions)
    return emitError(at->getLoc()) << "'" << at->getName()
                                   << "' starts a collective too many: the "
                                      "program of a rank has more than "
                                   << maxInstructions << " starts and awaits";
  if (op.kind == ProofKind::Broadcast) {
    int64_t group = 1;
    for (int axis : model.problem.communicators[communicator].axes)
      group *= model.problem.mesh[axis].size;
    if (op.peer.number < 0 || op.peer.number >= group)
      return emitError(at->getLoc())
             << "'" << at->getName() << "' has root " << op.peer.number
             << ", expected a rank of its group of " << group;
  }
  op.communicator = communicator;
  program->instructions.push_back(
      RankInstruction::start(int(program->collectives.size())));
  program->collectives.push_back(std::move(op));
  source->instructions.push_back({at, call});
  source->ops.push_back({at, call});
  return success();
}

void ProgramReader::addAwait(Operation *at, int op) {
  program->instructions.push_back(RankInstruction::await(op));
  source->instructions.push_back({at, call});
}

FailureOr<SmallVector<int>> ProgramReader::start(CollectiveOpInterface op) {
  if (failed(setMesh(op, op.getMeshAttr())))
    return failure();
  FailureOr<int> communicator =
      communicatorOf(op, op.getAxesAttr().getValue(), op.getChannel());
  if (failed(communicator))
    return failure();
  SmallVector<int> started;
  for (ProofOp &described : describeCollective(op)) {
    started.push_back(int(program->collectives.size()));
    if (failed(addOp(op, std::move(described), *communicator)))
      return failure();
  }
  return started;
}

LogicalResult ProgramReader::start(mprt::StartOp op) {
  auto names = module->getAttrOfType<ArrayAttr>(mprt::kCommunicatorsAttr);
  auto channels = module->getAttrOfType<DenseI64ArrayAttr>(mprt::kChannelsAttr);
  auto name = module->getAttrOfType<FlatSymbolRefAttr>(mprt::kMeshAttr);
  int64_t number = op.getCommunicator();
  if (!names || !name)
    return emitError(op.getLoc())
           << "'mprt.start' is in a module without '"
           << (names ? mprt::kMeshAttr : mprt::kCommunicatorsAttr) << "'";
  if (number >= static_cast<int64_t>(names.size()))
    return emitError(op.getLoc()) << "'mprt.start' names communicator "
                                  << number << " of " << names.size();
  int64_t channel = 0;
  if (channels && number < channels.size())
    channel = channels[number];
  if (failed(setMesh(op, name)))
    return failure();
  FailureOr<int> communicator =
      communicatorOf(op, cast<ArrayAttr>(names[number]).getValue(), channel);
  if (failed(communicator))
    return failure();
  // They would be two streams of the runtime, and are one of the model.
  auto [same, isNew] = numbers.try_emplace(*communicator, number);
  if (same->second != number)
    return emitError(op.getLoc())
           << "'mprt.start' names communicator " << number
           << ", which has the axes and the channel of communicator "
           << same->second;
  int64_t event = op.getEvent();
  if (auto it = events.find(event); it != events.end() && !it->second.awaited) {
    InFlightDiagnostic diag = emitError(op.getLoc())
                              << "'mprt.start' marks its end by event " << event
                              << ", expected one that is not in use";
    diag.attachNote(source->ops[it->second.op].op->getLoc())
        << "it marks the end of this one, which was not awaited since";
    return failure();
  }
  events[event] = {int(program->collectives.size()), false};
  return addOp(op, describeStart(op), *communicator);
}

LogicalResult ProgramReader::await(AwaitOp op) {
  auto async = op.getFuture().getDefiningOp<AsyncOp>();
  auto it = futures.find(async);
  if (!async || it == futures.end())
    return emitError(op.getLoc())
           << "'mpcomm.await' awaits "
           << (async ? "what was not started"
                     : "a future that no mpcomm.async gives")
           << ", expected an mpcomm.async before it";
  for (int started : it->second)
    addAwait(op, started);
  return success();
}

LogicalResult ProgramReader::await(mprt::AwaitOp op) {
  int64_t event = op.getEvent();
  auto it = events.find(event);
  if (it == events.end())
    return emitError(op.getLoc())
           << "'mprt.await' awaits event " << event
           << ", expected one that a collective before it marks";
  // Once more does no harm: the mark is after the stream already.
  if (!it->second.awaited)
    addAwait(op, it->second.op);
  it->second.awaited = true;
  return success();
}

LogicalResult ProgramReader::readCall(Operation *op, Operation *callee) {
  if (!callee)
    return emitError(op->getLoc())
           << "'" << op->getName()
           << "' calls what has no body here, expected a function of the "
              "module: what it communicates is not known";
  if (!communicating.contains(callee))
    return success();
  if (llvm::is_contained(running, callee))
    return emitError(op->getLoc())
           << "'" << op->getName() << "' calls a function that runs already, "
           << "and communicates: how often is not known";
  int caller = call;
  call = int(source->calls.size());
  source->calls.push_back({op, caller});
  LogicalResult result = readBody(cast<FunctionOpInterface>(callee));
  call = caller;
  return result;
}

/// How often the region of `op` that communicates runs, if that is known.
static std::optional<int64_t> getCount(Operation *op, Region &region) {
  auto loop = dyn_cast<LoopLikeOpInterface>(op);
  if (loop && op->getNumRegions() == 1 &&
      !op->hasTrait<OpTrait::HasParallelRegion>()) {
    std::optional<APInt> count = loop.getStaticTripCount();
    if (!count || count->getActiveBits() > 32)
      return std::nullopt;
    return count->getZExtValue();
  }
  auto branch = dyn_cast<RegionBranchOpInterface>(op);
  if (!branch || loop)
    return std::nullopt;
  SmallVector<Attribute> operands(op->getNumOperands());
  for (auto [attribute, operand] : llvm::zip(operands, op->getOperands()))
    matchPattern(operand, m_Constant(&attribute));
  // Into one region, or none, and from there out again.
  SmallVector<RegionSuccessor> entries, exits;
  branch.getEntrySuccessorRegions(operands, entries);
  if (entries.size() != 1)
    return std::nullopt;
  Region *entered = entries.front().getSuccessor();
  if (entered)
    branch.getSuccessorRegions(*entered, exits);
  for (const RegionSuccessor &exit : exits)
    if (!exit.isParent())
      return std::nullopt;
  return entered == &region;
}

LogicalResult ProgramReader::readRegions(Operation *op) {
  Region *runs = nullptr;
  int64_t count = 0;
  for (Region &region : op->getRegions()) {
    Operation *inner = nullptr;
    for (Block &block : region)
      for (Operation &here : block)
        if (!inner)
          inner = communicating.find(&here);
    if (!inner)
      continue;
    std::optional<int64_t> times = getCount(op, region);
    if (times == 0)
      continue;
    if (!times || runs || !region.hasOneBlock()) {
      InFlightDiagnostic diag =
          emitError(inner->getLoc())
          << "'" << inner->getName() << "' communicates under '"
          << op->getName()
          << "', expected it where it is known how often it runs";
      diag.attachNote(op->getLoc())
          << "a condition or a number of turns that is no constant";
      return failure();
    }
    runs = &region;
    count = *times;
  }
  for (int64_t i = 0; i < count; ++i)
    if (failed(readBlock(runs->front())))
      return failure();
  return success();
}

LogicalResult ProgramReader::readOp(Operation *op) {
  if (++visited > maxVisited)
    return emitError(op->getLoc())
           << "'" << op->getName()
           << "' is under loops and calls that run too often, expected a "
              "program of at most "
           << maxVisited << " ops, each time that they run";
  if (communicating.roleOf(op) == CommunicatingFunctions::Silent)
    return op->getNumRegions() ? readRegions(op) : success();
  if (auto async = dyn_cast<AsyncOp>(op)) {
    auto started = start(cast<CollectiveOpInterface>(async.getCollective()));
    if (failed(started))
      return failure();
    futures[op] = *started;
    return success();
  }
  if (auto collective = dyn_cast<CollectiveOpInterface>(op)) {
    auto started = start(collective);
    if (failed(started))
      return failure();
    for (int number : *started)
      addAwait(op, number);
    return success();
  }
  if (auto awaitOp = dyn_cast<AwaitOp>(op))
    return await(awaitOp);
  if (auto startOp = dyn_cast<mprt::StartOp>(op))
    return start(startOp);
  if (auto awaitOp = dyn_cast<mprt::AwaitOp>(op))
    return await(awaitOp);
  Operation *callee;
  return communicating.isCall(op, callee) ? readCall(op, callee) : success();
}

LogicalResult ProgramReader::readBlock(Block &block) {
  for (Operation &op : block)
    if (failed(readOp(&op)))
      return failure();
  return success();
}

LogicalResult ProgramReader::readBody(FunctionOpInterface function) {
  Region &body = function.getFunctionBody();
  if (!body.hasOneBlock())
    return emitError(function.getLoc())
           << "@" << function.getName()
           << " communicates and has several blocks, expected one";
  running.push_back(function);
  LogicalResult result = success();
  for (Operation *op : communicating.opsOf(function))
    if (succeeded(result))
      result = readOp(op);
  running.pop_back();
  return result;
}

LogicalResult ProgramReader::read(FunctionOpInterface function) {
  ProofClass &added = model.problem.classes.emplace_back();
  added.name = function.getName();
  program = &added.program;
  source = &model.sources.emplace_back();
  source->function = function;
  futures.clear();
  events.clear();
  visited = 0;
  if (!communicating.contains(function))
    return success();
  return readBody(function);
}
