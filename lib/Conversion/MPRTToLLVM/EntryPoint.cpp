//===- EntryPoint.cpp - a function as an entry point ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EntryPoint.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPRT/IR/Address.h"
#include "mpcomm/Dialect/MPRT/IR/AttentionCall.h"
#include "mpcomm/Dialect/MPRT/IR/Epilogue.h"
#include "mpcomm/Dialect/MPRT/IR/GraphAttr.h"
#include "mpcomm/Runtime/mprt.h"
#include "llvm/ADT/StringSet.h"

#define DEBUG_TYPE "convert-mprt-to-llvm"

using namespace mlir;
using namespace mpcomm;

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

FailureOr<Value> EntryPoint::pointerTo(Value buffer, Operation *user) {
  FailureOr<Address> address = resolveAddress(buffer, user);
  if (failed(address))
    return failure();
  int64_t bytes =
      address->bytes + address->offset * elementBytes(buffer.getType());
  Value &result = pointers[{address->base, bytes}];
  if (result)
    return result;
  FailureOr<Value> base;
  if (auto argument = dyn_cast<BlockArgument>(address->base))
    base = arguments[argument.getArgNumber()];
  else
    base = globalBase(address->base.getDefiningOp<memref::GetGlobalOp>());
  if (failed(base))
    return failure();
  if (bytes == 0)
    return result = *base;
  // An index that is part of the op holds fewer bits than an arena may need.
  LLVM::GEPArg index = llvm::isInt<LLVM::kGEPConstantBitWidth>(bytes)
                           ? LLVM::GEPArg(static_cast<int32_t>(bytes))
                           : LLVM::GEPArg(constant(i64, bytes));
  result = LLVM::GEPOp::create(builder, user->getLoc(), pointer,
                               builder.getI8Type(), *base, index);
  return result;
}

/// The elements of a constant in memory order; null where they are not known.
/// One byte an i1, as everywhere in the runtime.
static ElementsAttr flatten(ElementsAttr value) {
  Type element = value.getElementType();
  int64_t count = value.getNumElements();
  auto flat = RankedTensorType::get({count}, element);
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(value)) {
    if (!resource.getRawHandle().getBlob() || element.isInteger(1))
      return {};
    return DenseResourceElementsAttr::get(flat, resource.getRawHandle());
  }
  auto dense = dyn_cast<DenseElementsAttr>(value);
  if (!dense || !element.isInteger(1))
    return dense ? ElementsAttr(dense.reshape(flat)) : ElementsAttr();
  auto type =
      RankedTensorType::get({count}, IntegerType::get(value.getContext(), 8));
  if (dense.isSplat())
    return DenseElementsAttr::get(type, int8_t(dense.getSplatValue<bool>()));
  SmallVector<int8_t> bytes;
  for (bool bit : dense.getValues<bool>())
    bytes.push_back(bit);
  return DenseElementsAttr::get(type, ArrayRef<int8_t>(bytes));
}

/// The data of a memref.global as an LLVM global.
FailureOr<Value> EntryPoint::globalBase(memref::GetGlobalOp op) {
  std::string name = ("mpcomm.data." + op.getName()).str();
  auto onDevice = [&](LLVM::GlobalOp global) -> Value {
    Value host = addressOf(global);
    if (device == "host")
      return host;
    int64_t bytes = mpcomm::detail::countBytes(op.getType());
    LLVM::LLVMFuncOp callee =
        declare("mprt_constant", {pointer, pointer, i64}, pointer);
    return LLVM::CallOp::create(builder, op.getLoc(), callee,
                                ValueRange{context, host, constant(i64, bytes)})
        .getResult();
  };
  if (auto known = symbols.lookup<LLVM::GlobalOp>(name))
    return onDevice(known);
  auto source = symbols.lookup<memref::GlobalOp>(op.getName());
  auto value = source ? dyn_cast_or_null<ElementsAttr>(
                            source.getInitialValue().value_or(Attribute()))
                      : ElementsAttr();
  ElementsAttr flat = value ? flatten(value) : ElementsAttr();
  if (!flat)
    return op.emitOpError() << "names '" << op.getName()
                            << "', expected a constant whose elements are "
                               "known";
  OpBuilder top = OpBuilder::atBlockBegin(module.getBody());
  auto global = LLVM::GlobalOp::create(
      top, op.getLoc(),
      LLVM::LLVMArrayType::get(flat.getElementType(), flat.getNumElements()),
      /*isConstant=*/true, LLVM::Linkage::Internal, name, flat,
      /*alignment=*/64);
  symbols.insert(global);
  return onDevice(global);
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

Value EntryPoint::constant(Type type, int64_t value) {
  Value &result = constants[{type, value}];
  if (!result) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(context.getParentBlock());
    result = LLVM::ConstantOp::create(builder, function.getLoc(), type,
                                      builder.getIntegerAttr(type, value));
  }
  return result;
}

Value EntryPoint::addressOf(LLVM::GlobalOp global) {
  return LLVM::AddressOfOp::create(builder, function.getLoc(), pointer,
                                   global.getSymName());
}

void EntryPoint::call(StringRef callee, ValueRange operands) {
  SmallVector<Value> all{context};
  llvm::append_range(all, operands);
  LLVM::LLVMFuncOp declared =
      declare(callee, llvm::to_vector(ValueRange(all).getTypes()));
  LLVM::CallOp::create(builder, function.getLoc(), declared, all);
}

LLVM::LLVMFuncOp EntryPoint::declare(StringRef callee, ArrayRef<Type> types,
                                     Type result) {
  if (auto known = symbols.lookup<LLVM::LLVMFuncOp>(callee))
    return known;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(module.getBody());
  auto declared = LLVM::LLVMFuncOp::create(
      builder, module.getLoc(), callee,
      LLVM::LLVMFunctionType::get(result ? result : i32, types));
  symbols.insert(declared);
  return declared;
}

/// Writes the addresses of `buffers`, operands of `op`, where a callee reads
/// them.
LogicalResult EntryPoint::fillSlots(Operation *op, ArrayRef<Value> buffers) {
  for (auto [i, buffer] : llvm::enumerate(buffers)) {
    FailureOr<Value> address = pointerTo(buffer, op);
    if (failed(address))
      return failure();
    LLVM::StoreOp::create(builder, op->getLoc(), *address, slot(i));
  }
  return success();
}

/// The symbol of the function that `function` becomes.
static std::string entryName(StringRef function) {
  return ("mpcomm_" + function).str();
}

/// The address of pointer `i` of a callee's list.
Value EntryPoint::slot(unsigned i) {
  return LLVM::GEPOp::create(builder, function.getLoc(), pointer, pointer,
                             slots,
                             ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
}

/// One call after the other; what is stacked moves on by a row each time.
LogicalResult EntryPoint::lowerLoop(mprt::CallOp op, ArrayRef<Value> buffers,
                                    TypeRange types, Value scratch) {
  Location loc = op.getLoc();
  int64_t trips = op.countCalls();
  SmallVector<Value> bases;
  for (Value buffer : buffers) {
    FailureOr<Value> base = pointerTo(buffer, op);
    if (failed(base))
      return failure();
    bases.push_back(*base);
  }
  // In the entry block, which dominates the loop and what follows.
  Value zero = constant(i64, 0), one = constant(i64, 1);
  Value end = constant(i64, trips), last = constant(i64, trips - 1);
  SmallVector<Value> rows;
  for (auto [buffer, type] : llvm::zip_equal(buffers, types))
    rows.push_back(op.isStacked(buffer, type)
                       ? constant(i64, mpcomm::detail::countBytes(type))
                       : Value());
  Block *before = builder.getInsertionBlock();
  Region &region = *before->getParent();
  Block *trip =
      builder.createBlock(&region, std::next(before->getIterator()), i64, loc);
  Block *after = builder.createBlock(&region, std::next(trip->getIterator()));
  builder.setInsertionPointToEnd(before);
  LLVM::BrOp::create(builder, loc, zero, trip);

  builder.setInsertionPointToStart(trip);
  Value counter = trip->getArgument(0), row = counter;
  if (op.getReverse())
    row = LLVM::SubOp::create(builder, loc, last, counter);
  for (auto [i, base, bytes] : llvm::enumerate(bases, rows)) {
    Value address = base;
    if (bytes) {
      Value offset = LLVM::MulOp::create(builder, loc, row, bytes);
      address = LLVM::GEPOp::create(builder, loc, pointer, builder.getI8Type(),
                                    base, ArrayRef<LLVM::GEPArg>{offset});
    }
    LLVM::StoreOp::create(builder, loc, address, slot(i));
  }
  call(entryName(op.getCallee()), {slots, scratch});
  Value next = LLVM::AddOp::create(builder, loc, counter, one);
  Value again =
      LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::slt, next, end);
  LLVM::CondBrOp::create(builder, loc, again, trip, next, after, ValueRange());
  builder.setInsertionPointToStart(after);
  return success();
}

/// A callee reads all of its list before it fills one of its own.
LogicalResult EntryPoint::lowerCall(mprt::CallOp op) {
  auto callee = symbols.lookup<func::FuncOp>(op.getCallee());
  FailureOr<mprt::CalleeSignature> signature = mprt::getCalleeSignature(callee);
  if (failed(signature) ||
      (callee->hasAttr(mprt::kArenaBytesAttr) && !op.getScratch()))
    return op.emitOpError("expects scratch: run mpcomm-plan-memory first");
  for (Value operand : op->getOperands())
    if (!mprt::isContiguous(cast<MemRefType>(operand.getType())))
      return op.emitOpError("expects contiguous buffers: run "
                            "mpcomm-plan-memory first");
  SmallVector<Value> arguments = op.getArguments(*signature);
  Value scratch = LLVM::ZeroOp::create(builder, op.getLoc(), pointer);
  if (op.getScratch()) {
    arguments.pop_back();
    FailureOr<Value> address = pointerTo(op.getScratch(), op);
    if (failed(address))
      return failure();
    scratch = *address;
  }
  if (op.getTrips() && !parts.collectives[op.getCallee()].empty())
    return op.emitOpError() << "runs @" << op.getCallee()
                            << " in a loop, expected a part of a step that "
                               "does not communicate";
  if (op.getTrips())
    return lowerLoop(op, arguments,
                     callee.getArgumentTypes().take_front(arguments.size()),
                     scratch);
  if (failed(fillSlots(op, arguments)))
    return failure();
  call(entryName(op.getCallee()), {slots, scratch});
  return success();
}

LogicalResult EntryPoint::lowerLaunch(mprt::LaunchOp op) {
  if (op->hasAttr(mprt::kEpilogueAttr))
    return op.emitOpError("is the epilogue of a product, expected ")
           << (device == "host" ? "a program for a GPU"
                                : "mprt.gemm before it");
  if (op->getAttrOfType<UnitAttr>(mprt::kAttentionAttr))
    return op.emitOpError("belongs to an attention, expected ")
           << (device == "host" ? "a program for a GPU"
                                : "its first launch before it, with the same "
                                  "operands");
  if (failed(fillSlots(op, llvm::to_vector(op->getOperands()))))
    return failure();
  call("mprt_launch", {constant(i32, MPRT_COMPUTE_STREAM),
                       addressOf(descriptors.kernel(op)), slots});
  return success();
}

/// The kernels of an attention, in one call.
LogicalResult EntryPoint::lowerAttention(ArrayRef<mprt::LaunchOp> launches) {
  mprt::LaunchOp first = launches.front();
  if (failed(fillSlots(first, llvm::to_vector(first->getOperands()))))
    return failure();
  call("mprt_attention", {constant(i32, MPRT_COMPUTE_STREAM),
                          addressOf(descriptors.attention(launches)), slots});
  return success();
}

/// The product and the launches after it, in one call.
LogicalResult EntryPoint::lowerEpilogue(mprt::GemmOp product,
                                        ArrayRef<mprt::LaunchOp> launches) {
  mprt::LaunchOp launch = launches.front();
  if (failed(fillSlots(launch, llvm::to_vector(launch->getOperands()))))
    return failure();
  SmallVector<Value> operands{constant(i32, MPRT_COMPUTE_STREAM)};
  FailureOr<LLVM::GlobalOp> descriptor = descriptors.gemm(product);
  if (failed(descriptor))
    return failure();
  operands.push_back(addressOf(*descriptor));
  for (Value operand : product->getOperands()) {
    FailureOr<Value> address = pointerTo(operand, product);
    if (failed(address))
      return failure();
    operands.push_back(*address);
  }
  FailureOr<LLVM::GlobalOp> epilogue = descriptors.epilogue(launches);
  if (failed(epilogue))
    return failure();
  operands.push_back(addressOf(*epilogue));
  operands.push_back(slots);
  call("mprt_gemm_epilogue", operands);
  return success();
}

/// Elements of the one range of memory that the outputs of an all_reduce fill
/// (gaps between them, which alignment leaves, travel too).
FailureOr<int64_t> EntryPoint::bucketCount(mprt::StartOp op) {
  Value base;
  int64_t begin = INT64_MAX, end = 0;
  for (Value output : op.getOutputs()) {
    FailureOr<Address> address = resolveAddress(output, op);
    if (failed(address))
      return failure();
    auto type = cast<MemRefType>(output.getType());
    if ((base && base != address->base) || !mprt::isContiguous(type))
      return op.emitOpError("expects its buffers to lie in one range: run "
                            "mpcomm-plan-memory first");
    base = address->base;
    int64_t at = address->bytes + address->offset * elementBytes(type);
    if (at < end)
      return op.emitOpError("expects its buffers in increasing order");
    begin = std::min(begin, at);
    end = at + mpcomm::detail::countBytes(type);
  }
  return (end - begin) / elementBytes(op.getOutputs().front().getType());
}

LogicalResult EntryPoint::lowerStart(mprt::StartOp op) {
  auto kind = *symbolizeCollectiveKind(op.getKind());
  Value null = LLVM::ZeroOp::create(builder, op.getLoc(), pointer);
  Value send = null, recv = null;
  Type element = builder.getF32Type();
  int64_t count = 0;
  if (!op->getOperands().empty()) {
    Value first = op->getOperand(0);
    element = getElementTypeOrSelf(first.getType());
    count = cast<MemRefType>(first.getType()).getNumElements();
  }
  for (Value operand : op->getOperands())
    if (!mprt::isContiguous(cast<MemRefType>(operand.getType())))
      return op.emitOpError("expects contiguous buffers: run "
                            "mpcomm-plan-memory first");
  if (!op.getInputs().empty()) {
    FailureOr<Value> address = pointerTo(op.getInputs().front(), op);
    if (failed(address))
      return failure();
    send = *address;
  }
  if (!op.getOutputs().empty()) {
    FailureOr<Value> address = pointerTo(op.getOutputs().front(), op);
    if (failed(address))
      return failure();
    recv = *address;
  }
  auto elements = [](Value v) {
    return cast<MemRefType>(v.getType()).getNumElements();
  };
  switch (kind) {
  case CollectiveKind::AllReduce: {
    FailureOr<int64_t> range = bucketCount(op);
    if (failed(range))
      return failure();
    count = *range;
    send = recv;
    break;
  }
  case CollectiveKind::Broadcast:
    send = recv;
    break;
  case CollectiveKind::ReduceScatter: // counted by what a rank keeps
  case CollectiveKind::Scatter:
    count = elements(op.getOutputs().front());
    break;
  case CollectiveKind::AllToAll: { // counted by block; the group comes first
    auto type = cast<MemRefType>(op.getOutputs().front().getType());
    count = type.getRank() && type.getDimSize(0)
                ? type.getNumElements() / type.getDimSize(0)
                : 0;
    break;
  }
  default:
    break;
  }
  FailureOr<LLVM::GlobalOp> descriptor =
      descriptors.collective(op, element, count);
  if (failed(descriptor))
    return failure();
  Value stream = constant(i32, MPRT_COMM_STREAM(op.getCommunicator()));
  call("mprt_collective_run", {stream, addressOf(*descriptor), send, recv});

  collectives.push_back(llvm::json::Object{
      {"id", op.getId()},
      {"kind", op.getKind().str()},
      {"reduction", op.getReduction().str()},
      {"dtype", manifestType(element)},
      {"count", count},
      {"bytes", count * elementBytes(element)},
      {"communicator", op.getCommunicator()},
      {"tensors", static_cast<int64_t>(op.getOutputs().size())},
      {"name", nameOf(op).str()},
      {"location", describe(op.getLoc())}});
  return success();
}

/// The address of the rank's own block of the row that begins at `blocks`.
Value EntryPoint::blockOf(mprt::AllSliceOp op, Value blocks) {
  Location loc = op.getLoc();
  LLVM::LLVMFuncOp callee = declare("mprt_rank", {pointer}, i32);
  Value rank = LLVM::CallOp::create(builder, loc, callee, context).getResult();
  Value block = constant(i32, 0);
  for (auto [size, stride] : llvm::zip(op.getSizes(), op.getStrides())) {
    Value coordinate = LLVM::URemOp::create(
        builder, loc,
        LLVM::UDivOp::create(builder, loc, rank, constant(i32, stride)),
        constant(i32, size));
    block = LLVM::AddOp::create(
        builder, loc,
        LLVM::MulOp::create(builder, loc, block, constant(i32, size)),
        coordinate);
  }
  int64_t bytes = mpcomm::detail::countBytes(op.getOutputs().front().getType());
  Value offset = LLVM::MulOp::create(
      builder, loc, LLVM::ZExtOp::create(builder, loc, i64, block),
      constant(i64, bytes));
  return LLVM::GEPOp::create(builder, loc, pointer, builder.getI8Type(), blocks,
                             ArrayRef<LLVM::GEPArg>{offset});
}

void EntryPoint::callEvents(ArrayRef<EventCall> calls) {
  for (const EventCall &event : calls)
    call(event.isWait ? "mprt_stream_wait" : "mprt_event_record",
         {constant(i32, event.stream),
          constant(i32, parts.events + event.event)});
}

LogicalResult EntryPoint::lower(Operation *op) {
  Value compute = constant(i32, MPRT_COMPUTE_STREAM);
  auto bytes = [&](Value v) {
    return constant(i64, mpcomm::detail::countBytes(v.getType()));
  };
  SmallVector<Value> addresses;
  if (isa<mprt::GemmOp, mprt::ConvolutionOp, mprt::PoolOp, mprt::CopyOp,
          mprt::ZeroOp, mprt::AllSliceOp>(op))
    for (Value operand : op->getOperands()) {
      FailureOr<Value> address = pointerTo(operand, op);
      if (failed(address))
        return failure();
      addresses.push_back(*address);
    }
  if (auto launch = dyn_cast<mprt::LaunchOp>(op))
    return lowerLaunch(launch);
  if (auto call = dyn_cast<mprt::CallOp>(op))
    return lowerCall(call);
  if (auto start = dyn_cast<mprt::StartOp>(op))
    return lowerStart(start);
  // Two operands and a result; null for an operand that is not there.
  auto callWith = [&](StringRef name, FailureOr<LLVM::GlobalOp> descriptor) {
    if (failed(descriptor))
      return failure();
    if (addresses.size() == 2)
      addresses.insert(addresses.begin() + 1,
                       LLVM::ZeroOp::create(builder, op->getLoc(), pointer));
    call(name, {compute, addressOf(*descriptor), addresses[0], addresses[1],
                addresses[2]});
    return success();
  };
  if (auto gemm = dyn_cast<mprt::GemmOp>(op))
    return callWith("mprt_gemm", descriptors.gemm(gemm));
  if (auto convolution = dyn_cast<mprt::ConvolutionOp>(op))
    return callWith("mprt_convolution", descriptors.convolution(convolution));
  if (auto pool = dyn_cast<mprt::PoolOp>(op))
    return callWith("mprt_pool", descriptors.pool(pool));
  if (auto copy = dyn_cast<mprt::CopyOp>(op)) {
    call("mprt_copy",
         {compute, addresses[1], addresses[0], bytes(copy.getTarget())});
    return success();
  }
  if (auto slice = dyn_cast<mprt::AllSliceOp>(op)) {
    for (Value operand : op->getOperands())
      if (!mprt::isContiguous(cast<MemRefType>(operand.getType())))
        return op->emitOpError("expects contiguous buffers: run "
                               "mpcomm-bufferize-step first");
    call("mprt_copy", {compute, addresses[1], blockOf(slice, addresses[0]),
                       bytes(slice.getOutputs().front())});
    return success();
  }
  if (auto zero = dyn_cast<mprt::ZeroOp>(op)) {
    call("mprt_zero", {compute, addresses[0], bytes(zero.getTarget())});
    return success();
  }
  if (isa<mprt::AttentionOp>(op))
    return op->emitOpError("has no call in the runtime: expected kernels of a "
                           "GPU in its place (mpcomm-generate-gpu-kernels)");
  // The waits that an await asks for are before what comes after it.
  if (isa<func::ReturnOp, mprt::AwaitOp, ViewLikeOpInterface,
          memref::GetGlobalOp>(op) ||
      op->hasTrait<OpTrait::ConstantLike>())
    return success();
  return op->emitOpError(
      "has no call in the runtime: it should be in a kernel");
}

LogicalResult EntryPoint::run(Manifest &manifest, StreamCallCounter &counter) {
  if (!function.getBody().hasOneBlock() || function.getNumResults())
    return function.emitOpError("expects a body of one block and no results");
  for (Type type : function.getArgumentTypes())
    if (!isa<MemRefType>(type))
      return function.emitOpError() << "expects buffers, got " << type;
  Location loc = function.getLoc();
  std::string entry = entryName(function.getSymName());
  if (symbols.lookup(entry))
    return function.emitOpError()
           << "cannot have entry point '" << entry << "': the name is taken";
  OpBuilder top(function);
  auto lowered = LLVM::LLVMFuncOp::create(
      top, loc, entry,
      LLVM::LLVMFunctionType::get(i32, {pointer, pointer, pointer}));
  symbols.insert(lowered);
  if (function.isPrivate())
    lowered.setLinkage(LLVM::Linkage::Internal);
  Block *body = lowered.addEntryBlock(builder);
  context = body->getArgument(0);
  builder.setInsertionPointToStart(body);

  Block &source = function.getBody().front();
  for (Operation &op : source)
    if (isa<mprt::LaunchOp, mprt::CallOp>(op)) // a list even of nothing
      maxOperands = std::max<int64_t>({maxOperands, op.getNumOperands(), 1});
  if (maxOperands)
    slots = LLVM::AllocaOp::create(builder, loc, pointer, pointer,
                                   constant(i64, maxOperands));
  unsigned numArguments = function.getNumArguments();
  bool hasArena = function->hasAttr(mprt::kArenaBytesAttr);
  for (unsigned i = 0; i < numArguments; ++i) {
    if (hasArena && i + 1 == numArguments) {
      arguments.push_back(body->getArgument(2));
      break;
    }
    Value slot = LLVM::GEPOp::create(
        builder, loc, pointer, pointer, body->getArgument(1),
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    arguments.push_back(LLVM::LoadOp::create(builder, loc, pointer, slot));
  }
  FailureOr<EventCalls> events = EventCalls::plan(function);
  if (failed(events))
    return failure();
  callEvents(events->first());
  mprt::GemmOp waiting; // for its epilogue; null for kernels of an attention
  SmallVector<mprt::LaunchOp, 2> launches;
  for (Operation &op : source) {
    callEvents(events->callsBefore(&op));
    auto product = dyn_cast<mprt::GemmOp>(op);
    if (product && device != "host") {
      launches = mprt::epilogueOf(product);
      if (!launches.empty()) {
        waiting = product;
        continue;
      }
    }
    if (auto launch = dyn_cast<mprt::LaunchOp>(op); launch && device != "host")
      if (SmallVector<mprt::LaunchOp, 4> begun = mprt::attentionFrom(launch);
          !begun.empty()) {
        launches.assign(begun.begin(), begun.end());
        waiting = {};
      }
    // All of them are one call, where the last of them is.
    if (llvm::is_contained(launches, dyn_cast<mprt::LaunchOp>(op))) {
      if (&op != launches.back().getOperation())
        continue;
      if (failed(waiting ? lowerEpilogue(waiting, launches)
                         : lowerAttention(launches)))
        return failure();
      if (waiting)
        callEvents(events->callsAfter(waiting));
      for (mprt::LaunchOp launch : launches)
        callEvents(events->callsAfter(launch));
      continue;
    }
    if (failed(lower(&op)))
      return failure();
    callEvents(events->callsAfter(&op));
  }
  LLVM::LLVMFuncOp status = declare("mprt_status_of", {pointer});
  Value result =
      LLVM::CallOp::create(builder, loc, status, context).getResult();
  LLVM::ReturnOp::create(builder, loc, result);
  llvm::StringSet<> called;
  for (auto part : source.getOps<mprt::CallOp>())
    if (called.insert(part.getCallee()).second)
      llvm::append_range(collectives, parts.collectives[part.getCallee()]);
  if (function.isPrivate()) {
    parts.events += events->events();
    parts.collectives[function.getSymName()] = std::move(collectives);
    return success();
  }
  remark::analysis(loc, remark::RemarkOpts::name("Events")
                            .category(DEBUG_TYPE)
                            .function(function.getSymName()))
      << remark::metric("collectives", collectives.size())
      << remark::metric("records", events->records())
      << remark::metric("waits", events->waits())
      << remark::metric("events", events->events());
  return manifest.addFunction(function, entry, parts.events + events->events(),
                              std::move(collectives), counter);
}
