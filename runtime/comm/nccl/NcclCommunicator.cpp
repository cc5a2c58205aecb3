//===- NcclCommunicator.cpp - collectives of one group by NCCL ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One collective is one call of NCCL, or one group of calls. NCCL gets it onto
// the stream of the communicator; events and later work there come after it. A
// collective is finished when its stream is: it is not asked for each.
//
//===----------------------------------------------------------------------===//

#include "comm/nccl/NcclCommunicator.h"

#include "comm/Validate.h"
#include "device/Device.h"
#include "support/DType.h"
#include "support/Trace.h"

using namespace mprt;
using namespace mprt::nccl;

/// Calls between kernels look at the stream no more often than this.
static constexpr uint64_t lookNanoseconds = 10'000;

//===----------------------------------------------------------------------===//
// What NCCL can do
//===----------------------------------------------------------------------===//

static std::optional<ncclDataType_t> numberType(mprt_dtype type) {
  switch (type) {
  case MPRT_F32:
    return ncclFloat32;
  case MPRT_F64:
    return ncclFloat64;
  case MPRT_F16:
    return ncclFloat16;
  case MPRT_BF16:
    return ncclBfloat16;
  case MPRT_I8:
    return ncclInt8;
  case MPRT_U8:
  case MPRT_BOOL:
    return ncclUint8;
  case MPRT_I32:
    return ncclInt32;
  case MPRT_I64:
    return ncclInt64;
  default:
    return std::nullopt;
  }
}

static ncclRedOp_t numberOp(mprt_reduction reduction, bool logical) {
  switch (reduction) {
  case MPRT_SUM:
    return logical ? ncclMax : ncclSum;
  case MPRT_PROD:
    return logical ? ncclMin : ncclProd;
  case MPRT_MIN:
    return ncclMin;
  case MPRT_MAX:
    return ncclMax;
  case MPRT_MEAN:
    return ncclAvg;
  }
  return ncclSum;
}

Expected<Form> mprt::nccl::formOf(const mprt_collective &collective,
                                  unsigned size, bool takesNcclNumerics) {
  auto type = mprt_dtype(collective.type);
  // What only moves, moves as bytes.
  if (!reduces(collective))
    return Form{ncclUint8, collective.kind == MPRT_BARRIER ? 1 : sizeOf(type),
                ncclSum};
  auto refuse = [&](const auto &...parts) {
    return makeError(MPRT_UNSUPPORTED, describe(collective), ": ", parts...);
  };
  auto reduction = mprt_reduction(collective.reduction);
  auto accumulate = mprt_dtype(collective.accumulate);
  std::optional<ncclDataType_t> number = numberType(type);
  if (!number)
    return refuse("NCCL has no reductions of ", nameOf(type));
  bool selects = reduction == MPRT_MIN || reduction == MPRT_MAX;
  const char *advice =
      "; MPRT_NCCL_NUMERICS=nccl in the environment takes what NCCL computes";
  if (selects && isFloat(type) && size > 1 && !takesNcclNumerics)
    return refuse("the ", nameOf(reduction), " of NCCL drops NaN", advice);
  // Rounded once from the wider type, the sum or the product of two numbers is
  // what it is in their own: f32 has more than twice the digits of f16 and
  // bf16, and f64 of f32 (Figueroa 1995).
  if (!selects && isFloat(type) && accumulate != type && size > 2 &&
      !takesNcclNumerics)
    return refuse("NCCL keeps partial sums in ", nameOf(type), ", not in ",
                  nameOf(accumulate), ", among ", size, " ranks: send ",
                  nameOf(accumulate), " (wire=", nameOf(accumulate),
                  " when compiling)", advice);
  return Form{*number, 1, numberOp(reduction, type == MPRT_BOOL)};
}

//===----------------------------------------------------------------------===//
// Starting
//===----------------------------------------------------------------------===//

std::string NcclCommunicator::name(const mprt_collective &collective) const {
  return describe(collective) + " on rank " + std::to_string(group[groupRank]);
}

Error NcclCommunicator::bind(Device &bound, uint32_t number) {
  device = &bound;
  stream = number;
  native = bound.handleOf(number);
  return {};
}

Expected<const void *>
NcclCommunicator::stage(const mprt_collective &collective, const void *from,
                        uint64_t bytes) {
  if (bytes > stagingBytes) {
    if (device->isCapturing())
      return makeError(MPRT_UNSUPPORTED, name(collective),
                       ": it needs memory while its step is captured");
    // What is under way may use the old memory, which the device keeps.
    Expected<void *> memory = device->allocate(bytes);
    if (!memory)
      return memory.error().withContext(name(collective) + ": ");
    staging = *memory;
    stagingBytes = bytes;
  }
  if (Error error =
          device->copy(stream, staging, from, bytes, CopyKind::OnDevice))
    return error;
  return static_cast<const void *>(staging);
}

ncclResult_t NcclCommunicator::enqueue(ncclComm_t comm,
                                       const mprt_collective &collective,
                                       const Form &form, const void *send,
                                       void *recv) {
  const Api &api = *handle->world.api;
  size_t count = collective.count * form.width;
  switch (collective.kind) {
  case MPRT_ALL_REDUCE:
    return api.ncclAllReduce(send, recv, count, form.type, form.op, comm,
                             native);
  case MPRT_REDUCE_SCATTER:
    return api.ncclReduceScatter(send, recv, count, form.type, form.op, comm,
                                 native);
  case MPRT_ALL_GATHER:
    return api.ncclAllGather(send, recv, count, form.type, comm, native);
  case MPRT_BROADCAST:
    return api.ncclBroadcast(
        unsigned(collective.peer) == groupRank ? send : recv, recv, count,
        form.type, collective.peer, comm, native);
  case MPRT_REDUCE:
    return api.ncclReduce(send, recv, count, form.type, form.op,
                          collective.peer, comm, native);
  case MPRT_SEND:
    return api.ncclSend(send, count, form.type, collective.peer, comm, native);
  case MPRT_RECV:
    return api.ncclRecv(recv, count, form.type, collective.peer, comm, native);
  case MPRT_BARRIER:
    return api.ncclAllReduce(barrier, barrier, 1, ncclInt32, ncclSum, comm,
                             native);
  default:
    break;
  }
  // What goes to and comes from each, at once.
  ncclResult_t result = api.ncclGroupStart();
  auto add = [&](ncclResult_t next) {
    result =
        next == ncclInProgress ? ncclSuccess : next; // the group's end tells
  };
  for (unsigned r = 0; r < size() && result == ncclSuccess; ++r) {
    if (auto block = blockBetween(collective, groupRank, r))
      add(api.ncclSend(static_cast<const uint8_t *>(send) + block->sent * count,
                       count, form.type, int(r), comm, native));
    if (result != ncclSuccess)
      break;
    if (auto block = blockBetween(collective, r, groupRank))
      add(api.ncclRecv(static_cast<uint8_t *>(recv) + block->received * count,
                       count, form.type, int(r), comm, native));
  }
  ncclResult_t end = api.ncclGroupEnd();
  return result == ncclSuccess ? end : result;
}

Error NcclCommunicator::check(const mprt_collective &collective) const {
  Expected<Form> form =
      formOf(collective, size(), handle->world.takesNcclNumerics);
  return form ? Error() : form.error();
}

Error NcclCommunicator::start(const mprt_collective &collective,
                              const void *send, void *recv) {
  last = collective;
  bool captures = device->isCapturing();
  started += !captures;
  Expected<Form> form =
      formOf(collective, size(), handle->world.takesNcclNumerics);
  if (!form)
    return form.error();
  if (collective.count == 0 && collective.kind != MPRT_BARRIER)
    return {};
  if (Error error = device->enter())
    return error;
  if (collective.kind == MPRT_ALL_TO_ALL && send == recv && size() > 1) {
    Expected<const void *> copy =
        stage(collective, send, collective.count * form->width * size());
    if (!copy)
      return copy.error();
    send = *copy;
  }
  if (!isTarget(collective, groupRank))
    if (uint64_t bytes = recvElements(collective, size()) *
                         sizeOf(mprt_dtype(collective.type)))
      if (Error error = device->zero(stream, recv, bytes))
        return error;
  failure = handle->run(name(collective), [&](ncclComm_t comm) {
    return enqueue(comm, collective, *form, send, recv);
  });
  return failure;
}

//===----------------------------------------------------------------------===//
// Moving on
//===----------------------------------------------------------------------===//

Error NcclCommunicator::progress(bool &moved) {
  if (finished == started || device->isCapturing())
    return {};
  uint64_t now = nowNanoseconds();
  if (now - lastLook < lookNanoseconds)
    return {};
  lastLook = now;
  Expected<bool> done = device->finished(stream);
  if (!done)
    return done.error().withContext(
        name(*last) + ": the device stopped at this collective or before it: ");
  if (*done) {
    finished = started;
    moved = true;
    return {};
  }
  return examine();
}

Error NcclCommunicator::examine() {
  if (!last || failure)
    return failure;
  return handle->examine(name(*last) + " or a collective before it");
}

std::vector<unsigned> NcclCommunicator::waitingFor() const {
  std::vector<unsigned> others = group;
  others.erase(others.begin() + groupRank);
  return others;
}

std::string NcclCommunicator::describePeers() const {
  std::string text;
  for (unsigned r : waitingFor())
    text += (text.empty() ? "" : ", ") + std::to_string(r);
  if (text.empty())
    return "";
  return size() > 2 ? "waits for some of ranks " + text +
                          ", NCCL does not tell for which"
                    : "waits for rank " + text;
}
