//===- MpiCommunicator.cpp - collectives by MPI ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpiCommunicator.h"

#include "../../core/DType.h"
#include "../Reduce.h"
#include "../Validate.h"
#include "MpiReduceOps.h"

#include <climits>
#include <cstdio>
#include <cstring>

using namespace mprt;

/// Tags of messages between two ranks.
static constexpr int dataTag = 1, headerTag = 2;

MpiCommunicator::MpiCommunicator(std::vector<unsigned> group, unsigned rank,
                                 MPI_Comm handle, bool check)
    : Communicator(std::move(group), rank), handle(handle), check(check) {}

MpiCommunicator::~MpiCommunicator() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  // With something in flight the others have failed; MPI would wait for them.
  if (!finalized && stage == Stage::Idle)
    MPI_Comm_free(&handle);
}

Error MpiCommunicator::failure(const char *call, int code) const {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return makeError(MPRT_PEER_FAILED, describe(*collective), " on rank ",
                   group[groupRank], ": ", call, " failed: ", text);
}

static bool isPair(const mprt_collective &collective) {
  return collective.kind == MPRT_SEND || collective.kind == MPRT_RECV;
}

std::vector<unsigned> MpiCommunicator::waitingFor() const {
  if (stage == Stage::Idle || !isPair(*collective))
    return {};
  return {group[unsigned(collective->peer)]};
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

Error MpiCommunicator::startComparison() {
  mine.collective = *collective;
  mine.collective.name = mine.collective.location = nullptr;
  std::snprintf(mine.name, sizeof(mine.name), "%s",
                collective->name ? collective->name : "");
  std::snprintf(mine.location, sizeof(mine.location), "%s",
                collective->location ? collective->location : "");
  headers.resize(size());
  stage = Stage::Comparing;
  int bytes = int(sizeof(Header)), code;
  if (collective->kind == MPRT_SEND)
    code = MPI_Isend(&mine, bytes, MPI_BYTE, collective->peer, headerTag,
                     handle, &request);
  else if (collective->kind == MPRT_RECV)
    code = MPI_Irecv(&headers[unsigned(collective->peer)], bytes, MPI_BYTE,
                     collective->peer, headerTag, handle, &request);
  else
    code = MPI_Iallgather(&mine, bytes, MPI_BYTE, headers.data(), bytes,
                          MPI_BYTE, handle, &request);
  return code ? failure("the comparison", code) : Error();
}

Error MpiCommunicator::compare() {
  for (unsigned peer = 0; peer < size(); ++peer) {
    bool received = collective->kind == MPRT_RECV
                        ? peer == unsigned(collective->peer)
                        : collective->kind != MPRT_SEND;
    if (!received || peer == groupRank)
      continue;
    mprt_collective other = headers[peer].collective;
    const mprt_collective &own = *collective;
    bool same = own.id == other.id && own.type == other.type &&
                own.count == other.count;
    if (!isPair(own))
      same &= own.kind == other.kind && own.peer == other.peer &&
              own.reduction == other.reduction &&
              own.accumulate == other.accumulate;
    if (same)
      continue;
    other.name = headers[peer].name;
    other.location = headers[peer].location;
    return makeError(MPRT_MISMATCH, "ranks called different collectives: rank ",
                     group[groupRank], " ", describe(own), " ",
                     describeShape(own), ", rank ", group[peer], " ",
                     describe(other), " ", describeShape(other));
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Operation
//===----------------------------------------------------------------------===//

Error MpiCommunicator::startOperation() {
  const mprt_collective &c = *collective;
  auto type = mprt_dtype(c.type);
  MPI_Datatype datatype = mpiTypeOf(type);
  int count = int(c.count), code = MPI_SUCCESS;
  size_t bytes = c.kind == MPRT_BARRIER ? 0 : c.count * sizeOf(type);
  MPI_Op op = MPI_OP_NULL;
  if (c.kind == MPRT_ALL_REDUCE || c.kind == MPRT_REDUCE_SCATTER) {
    op = mpiOpOf(type, mprt_dtype(c.accumulate), mprt_reduction(c.reduction));
    if (op == MPI_OP_NULL)
      return makeError(MPRT_UNSUPPORTED, describe(c), ": MPI cannot make the ",
                       "reduction");
  }
  const void *from = send == recv ? MPI_IN_PLACE : send;
  stage = Stage::Running;
  switch (mprt_collective_kind(c.kind)) {
  case MPRT_ALL_REDUCE:
    code = MPI_Iallreduce(from, recv, count, datatype, op, handle, &request);
    break;
  case MPRT_REDUCE_SCATTER: {
    // MPI wants buffers that do not overlap.
    void *to = recv;
    if (recv == static_cast<const char *>(send) + groupRank * bytes) {
      if (scratch.size() < bytes)
        scratch.resize(bytes);
      to = scratch.data();
    }
    code = MPI_Ireduce_scatter_block(send, to, count, datatype, op, handle,
                                     &request);
    break;
  }
  case MPRT_ALL_GATHER:
    from = send == static_cast<char *>(recv) + groupRank * bytes ? MPI_IN_PLACE
                                                                 : send;
    code = MPI_Iallgather(from, count, datatype, recv, count, datatype, handle,
                          &request);
    break;
  case MPRT_ALL_TO_ALL:
    code = MPI_Ialltoall(from, count, datatype, recv, count, datatype, handle,
                         &request);
    break;
  case MPRT_BROADCAST:
    if (unsigned(c.peer) == groupRank && send != recv && bytes)
      std::memcpy(recv, send, bytes);
    code = MPI_Ibcast(recv, count, datatype, c.peer, handle, &request);
    break;
  case MPRT_SEND:
    code = MPI_Isend(send, count, datatype, c.peer, dataTag, handle, &request);
    break;
  case MPRT_RECV:
    code = MPI_Irecv(recv, count, datatype, c.peer, dataTag, handle, &request);
    break;
  case MPRT_BARRIER:
    code = MPI_Ibarrier(handle, &request);
    break;
  }
  return code ? failure("MPI", code) : Error();
}

void MpiCommunicator::finishOperation() {
  const mprt_collective &c = *collective;
  auto type = mprt_dtype(c.type);
  bool reduces = c.kind == MPRT_ALL_REDUCE || c.kind == MPRT_REDUCE_SCATTER;
  if (!reduces || c.count == 0)
    return;
  size_t bytes = c.count * sizeOf(type);
  void *result = recv;
  if (c.kind == MPRT_REDUCE_SCATTER &&
      recv == static_cast<const char *>(send) + groupRank * bytes)
    result = scratch.data();
  if (c.reduction == MPRT_MEAN) {
    const void *inputs[] = {result};
    void *outputs[] = {recv};
    ReduceArguments arguments = {};
    arguments.inputs = inputs;
    arguments.numInputs = 1;
    arguments.outputs = outputs;
    arguments.numOutputs = 1;
    arguments.count = c.count;
    arguments.divisor = size();
    findReduce(type, mprt_dtype(c.accumulate), MPRT_MEAN)(arguments);
  } else if (result != recv) {
    std::memcpy(recv, result, bytes);
  }
}

Error MpiCommunicator::start(const mprt_collective &next, const void *sendNext,
                             void *recvNext) {
  collective = &next;
  send = sendNext;
  recv = recvNext;
  if (next.kind != MPRT_BARRIER && next.count > uint64_t(INT_MAX))
    return makeError(MPRT_UNSUPPORTED, describe(next), ": MPI takes at most ",
                     INT_MAX, " elements, found ", next.count);
  return check ? startComparison() : startOperation();
}

Error MpiCommunicator::progress(bool &moved) {
  while (stage != Stage::Idle) {
    int done = 0;
    if (int code = MPI_Test(&request, &done, MPI_STATUS_IGNORE))
      return failure("MPI_Test", code);
    if (!done)
      return {};
    moved = true;
    if (stage == Stage::Comparing) {
      if (Error error = compare())
        return error;
      if (Error error = startOperation())
        return error;
      continue;
    }
    finishOperation();
    stage = Stage::Idle;
    ++finished;
  }
  return {};
}
