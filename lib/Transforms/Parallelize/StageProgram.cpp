//===- StageProgram.cpp - what a rank of a pipeline runs ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Parallelize/StageProgram.h"
#include "Parallelize/UpdatePhase.h"
#include "mpcomm/Analysis/StepModel/ProgramModel.h"
#include <deque>

using namespace mlir;
using namespace mpcomm;

//===----------------------------------------------------------------------===//
// What travels
//===----------------------------------------------------------------------===//

/// The future of `collective`, which is made by `make` in an async.
static Value startAsync(OpBuilder &builder, Location loc,
                        ArrayRef<Type> results, const Twine &tag,
                        function_ref<Operation *(OpBuilder &)> make) {
  auto async = AsyncOp::create(builder, loc,
                               FutureType::get(builder.getContext(), results));
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&async.getBody());
  Operation *op = make(builder);
  op->setAttr(kTagAttr, builder.getStringAttr(tag));
  YieldOp::create(builder, loc, op->getResults());
  return async.getFuture();
}

Value mpcomm::startSend(OpBuilder &builder, const PipelineMesh &mesh,
                        Value value, int to, int channel, const Twine &tag) {
  Location loc = value.getLoc();
  return startAsync(builder, loc, {}, tag, [&](OpBuilder &b) {
    return SendOp::create(b, loc, value, mesh.mesh, mesh.axes,
                          b.getI64IntegerAttr(to),
                          b.getI64IntegerAttr(channel));
  });
}

Value mpcomm::startRecv(OpBuilder &builder, const PipelineMesh &mesh,
                        Location loc, Type type, int from, int channel,
                        const Twine &tag) {
  return startAsync(builder, loc, type, tag, [&](OpBuilder &b) {
    return RecvOp::create(b, loc, type, mesh.mesh, mesh.axes,
                          b.getI64IntegerAttr(from),
                          b.getI64IntegerAttr(channel));
  });
}

Value mpcomm::broadcastFrom(OpBuilder &builder, const PipelineMesh &mesh,
                            Value value, int root, StringRef tag) {
  auto op =
      CollectiveBroadcastOp::create(builder, value.getLoc(), value, mesh.mesh,
                                    mesh.axes, builder.getI64IntegerAttr(root));
  op->setAttr(kTagAttr, builder.getStringAttr(tag));
  return op.getResult();
}

//===----------------------------------------------------------------------===//
// Actions
//===----------------------------------------------------------------------===//

namespace {

/// The program of one rank.
class ProgramBuilder {
public:
  ProgramBuilder(StageFunctions &stageFunctions,
                 const PipelineSchedule &schedule, const PipelineMesh &mesh,
                 int rank, ArrayRef<PipelineMessage> messages, int buffers);
  FailureOr<func::FuncOp> build(const UpdatePhasePlan &plan);

private:
  using Values = llvm::DenseMap<Value, Value>;

  void createFunction(const UpdatePhasePlan &plan);
  void run(int index);
  Operation *call(const PipelineAction &action);
  void post(int index);
  void receive(int index);
  void send(int index);
  void handOver(const PipelineAction &action);
  Values &liveOf(int stage, int microbatch) {
    return live[{stage, microbatch}];
  }
  std::string tagOf(const PipelineMessage &message, size_t value) const;

  StageFunctions &stageFunctions;
  const MicroBatch &micro;
  const PipelineSchedule &schedule;
  const PipelineMesh &mesh;
  int rank, buffers;
  func::FuncOp function;
  OpBuilder builder;
  IRMapping arguments;
  /// By sum and by state: what the micro-batches so far have left.
  llvm::DenseMap<unsigned, Value> totals, states;
  /// By stage and micro-batch, then by value of the step.
  std::map<std::pair<int, int>, Values> live;
  /// By position of the action that needs it, and that makes it.
  std::map<int, std::vector<const PipelineMessage *>> inbound, outbound;
  /// Futures of receives, by message; of sends under way, by channel.
  std::map<const PipelineMessage *, SmallVector<Value>> posted;
  std::map<int, std::deque<SmallVector<Value>>> underway;
  SmallVector<ActionEnd> ends;
};

} // namespace

ProgramBuilder::ProgramBuilder(StageFunctions &stageFunctions,
                               const PipelineSchedule &schedule,
                               const PipelineMesh &mesh, int rank,
                               ArrayRef<PipelineMessage> messages, int buffers)
    : stageFunctions(stageFunctions),
      micro(stageFunctions.getGraph().getMicroBatch()), schedule(schedule),
      mesh(mesh), rank(rank), buffers(buffers),
      builder(mesh.mesh.getContext()) {
  for (const PipelineMessage &message : messages) {
    if (stageFunctions.getCrossing(message.edge, message.backward).empty())
      continue;
    if (message.receiver == rank)
      inbound[message.needed].push_back(&message);
    if (message.sender == rank)
      outbound[message.made].push_back(&message);
  }
}

std::string ProgramBuilder::tagOf(const PipelineMessage &message,
                                  size_t value) const {
  return (Twine(message.backward ? "B" : "F") + Twine(message.microbatch) +
          ".e" + Twine(message.edge) + ".v" + Twine(value))
      .str();
}

/// Starts the receives that an action needs.
void ProgramBuilder::post(int index) {
  for (const PipelineMessage *message : inbound[index]) {
    SmallVector<Value> &futures = posted[message];
    ArrayRef<Value> values =
        stageFunctions.getCrossing(message->edge, message->backward);
    for (auto [i, value] : llvm::enumerate(values))
      futures.push_back(startRecv(builder, mesh, value.getLoc(),
                                  value.getType(), message->sender,
                                  message->channel + 1, tagOf(*message, i)));
  }
}

void ProgramBuilder::receive(int index) {
  for (const PipelineMessage *message : inbound[index]) {
    int stage = message->backward ? message->edge : message->edge + 1;
    Values &values = liveOf(stage, message->microbatch);
    ArrayRef<Value> crossing =
        stageFunctions.getCrossing(message->edge, message->backward);
    for (auto [value, future] : llvm::zip(crossing, posted[message]))
      values[value] =
          AwaitOp::create(builder, future.getLoc(), future)->getResult(0);
  }
}

/// Starts the sends of what an action has made; as many messages of a channel
/// are under way as there are buffers.
void ProgramBuilder::send(int index) {
  for (const PipelineMessage *message : outbound[index]) {
    auto &queue = underway[message->channel];
    if (static_cast<int>(queue.size()) >= buffers) {
      for (Value future : queue.front())
        AwaitOp::create(builder, future.getLoc(), future);
      queue.pop_front();
    }
    int stage = message->backward ? message->edge + 1 : message->edge;
    Values &values = liveOf(stage, message->microbatch);
    SmallVector<Value> futures;
    for (auto [i, value] : llvm::enumerate(
             stageFunctions.getCrossing(message->edge, message->backward)))
      futures.push_back(startSend(builder, mesh, values.lookup(value),
                                  message->receiver, message->channel + 1,
                                  tagOf(*message, i)));
    queue.push_back(std::move(futures));
  }
}

/// Edges between two stages of one rank.
void ProgramBuilder::handOver(const PipelineAction &action) {
  int stage = action.stage;
  bool isForward = action.kind == PipelineActionKind::Forward;
  int edge = isForward ? stage - 1 : stage;
  if (action.kind == PipelineActionKind::WeightBackward || edge < 0 ||
      edge + 1 >= stageFunctions.getNumStages() || !schedule.isLocal(edge))
    return;
  Values &from = liveOf(isForward ? stage - 1 : stage + 1, action.microbatch);
  Values &to = liveOf(stage, action.microbatch);
  for (Value value : stageFunctions.getCrossing(edge, !isForward))
    to[value] = from.lookup(value);
}

/// The call; null where the action has nothing to do.
Operation *ProgramBuilder::call(const PipelineAction &action) {
  const StageFunction &stageFunction =
      stageFunctions.getFunction(action.stage, action.kind);
  if (!stageFunction.function)
    return nullptr;
  Values &values = liveOf(action.stage, action.microbatch);
  SmallVector<Value> operands;
  for (Value argument : stageFunction.captured)
    operands.push_back(arguments.lookup(argument));
  for (Value batch : stageFunction.batches)
    operands.push_back(sliceMicroBatch(builder, arguments.lookup(batch),
                                       action.microbatch, micro.count));
  for (Value seed : stageFunction.seeds)
    operands.push_back(
        seedMicroBatch(builder, arguments.lookup(seed), action.microbatch));
  for (Value value : stageFunction.incoming)
    operands.push_back(values.lookup(value));
  for (unsigned sum : stageFunction.sums)
    operands.push_back(totals.lookup(sum));
  for (unsigned state : stageFunction.states)
    operands.push_back(states.lookup(state));
  func::FuncOp callee = stageFunction.function;
  auto call = func::CallOp::create(builder, callee.getLoc(), callee, operands);
  setStageAction(call, action);
  unsigned next = 0;
  for (unsigned sum : stageFunction.sums)
    totals[sum] = call.getResult(next++);
  for (unsigned state : stageFunction.states)
    states[state] = call.getResult(next++);
  for (Value value : stageFunction.outgoing)
    values[value] = call.getResult(next++);
  return call;
}

/// What the next action needs is received while this one runs.
void ProgramBuilder::run(int index) {
  const PipelineAction &action = schedule.ranks[rank][index];
  if (index == 0)
    post(0);
  post(index + 1);
  receive(index);
  handOver(action);
  Operation *made = call(action);
  send(index);
  if (made)
    ends.push_back({made, &builder.getBlock()->back()});
}

void ProgramBuilder::createFunction(const UpdatePhasePlan &plan) {
  func::FuncOp step = micro.step;
  SmallVector<Type> types;
  for (BlockArgument argument : plan.arguments) {
    auto type = cast<RankedTensorType>(argument.getType());
    if (llvm::is_contained(micro.batches, argument)) {
      SmallVector<int64_t> shape(type.getShape());
      shape[0] *= micro.count;
      type = type.clone(shape);
    }
    types.push_back(type);
  }
  SmallVector<Type> results;
  for (unsigned result : plan.results)
    results.push_back(step.getResultTypes()[result]);
  function = func::FuncOp::create(
      step.getLoc(), (step.getName() + ".rank" + Twine(rank)).str(),
      builder.getFunctionType(types, results));
  SymbolTable(step->getParentOfType<ModuleOp>())
      .insert(function, Block::iterator(step));
  Block *block = function.addEntryBlock();
  SignatureEditor editor(function);
  for (auto [i, argument] : llvm::enumerate(plan.arguments)) {
    arguments.map(argument, block->getArgument(i));
    SmallVector<NamedAttribute> attrs;
    auto given = step.getArgAttrDict(argument.getArgNumber());
    for (NamedAttribute attr : given ? given : builder.getDictionaryAttr({})) {
      if (attr.getName() == kDonatedAttr) {
        auto *found = llvm::find(plan.results,
                                 cast<IntegerAttr>(attr.getValue()).getInt());
        if (found == plan.results.end())
          continue;
        attr.setValue(builder.getI64IntegerAttr(found - plan.results.begin()));
      }
      attrs.push_back(attr);
    }
    editor.setArgumentAttrs(i, builder.getDictionaryAttr(attrs));
  }
  for (auto [i, result] : llvm::enumerate(plan.results))
    editor.setResultAttrs(i, step.getResultAttrDict(result));
  editor.apply();
  builder.setInsertionPointToStart(block);
}

FailureOr<func::FuncOp> ProgramBuilder::build(const UpdatePhasePlan &plan) {
  createFunction(plan);
  for (unsigned sum : plan.ownSums)
    totals[sum] = micro.sums[sum].makeStart(builder, function.getLoc());
  for (auto [i, state] : llvm::enumerate(micro.states))
    if (arguments.contains(state.before))
      states[i] = arguments.lookup(state.before);
  for (int i = 0, e = static_cast<int>(schedule.ranks[rank].size()); i < e; ++i)
    run(i);
  if (failed(emitUpdatePhase(builder, stageFunctions, plan, mesh, schedule,
                             arguments, totals, states)))
    return failure();
  startReductions(function.getFunctionBody().front(), mesh, ends);
  fixOrder(function.getFunctionBody().front(), mesh);
  // A rank that has done its part still hands out what it has made.
  builder.setInsertionPoint(function.getFunctionBody().front().getTerminator());
  for (auto &[channel, queue] : underway)
    for (SmallVector<Value> &futures : queue)
      for (Value future : futures)
        AwaitOp::create(builder, future.getLoc(), future);
  return function;
}

FailureOr<SmallVector<func::FuncOp>>
mpcomm::buildStagePrograms(StageFunctions &stageFunctions,
                           const PipelineSchedule &schedule, int buffers,
                           const PipelineMesh &mesh) {
  std::vector<PipelineMessage> messages = schedule.messages();
  // All stage functions first: what they take says which arguments a rank
  // needs.
  for (int rank = 0; rank < schedule.stages; ++rank)
    for (const PipelineAction &action : schedule.ranks[rank])
      stageFunctions.getFunction(action.stage, action.kind);
  SmallVector<func::FuncOp> programs;
  for (int rank = 0; rank < schedule.stages; ++rank) {
    FailureOr<UpdatePhasePlan> plan =
        planUpdatePhase(stageFunctions, schedule, rank);
    if (failed(plan))
      return failure();
    ProgramBuilder builder(stageFunctions, schedule, mesh, rank, messages,
                           buffers);
    FailureOr<func::FuncOp> program = builder.build(*plan);
    if (failed(program))
      return failure();
    programs.push_back(*program);
  }
  return programs;
}
