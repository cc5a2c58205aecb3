//===- MpiCommunicator.cpp - collectives over MPI -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/mpi/MpiCommunicator.h"

#include "comm/Validate.h"
#include "support/DType.h"

#include <algorithm>
#include <climits>
#include <cstring>

using namespace mprt;
using namespace mprt::mpi;

Error mprt::mpi::mpiError(const std::string &what, int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return makeError(MPRT_INTERNAL, what, ": ", text);
}

std::string mprt::mpi::nameRanks(const std::vector<unsigned> &ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (size_t i = 0; i < ranks.size(); ++i)
    text += (i ? ", " : " ") + std::to_string(ranks[i]);
  return text;
}

/// What goes from one rank to another.
static constexpr int dataTag = 0, headerTag = 1;

static bool isPaired(const mprt_collective &call) {
  return call.kind == MPRT_SEND || call.kind == MPRT_RECV;
}

/// Elements travel as numbers of their size; what they mean matters to
/// reductions alone.
static MPI_Datatype typeOf(uint8_t type) {
  switch (type) {
  case MPRT_F32:
    return MPI_FLOAT;
  case MPRT_F64:
    return MPI_DOUBLE;
  case MPRT_I8:
    return MPI_INT8_T;
  case MPRT_I16:
    return MPI_INT16_T;
  case MPRT_I32:
    return MPI_INT32_T;
  case MPRT_I64:
    return MPI_INT64_T;
  case MPRT_F16:
  case MPRT_BF16:
    return MPI_UINT16_T;
  default: // u8, bool, the 8-bit floats
    return MPI_UINT8_T;
  }
}

static MPI_Op opOf(const mprt_collective &call) {
  bool logical = call.type == MPRT_BOOL;
  switch (call.reduction) {
  case MPRT_PROD:
    return logical ? MPI_MIN : MPI_PROD;
  case MPRT_MIN:
    return MPI_MIN;
  case MPRT_MAX:
    return MPI_MAX;
  default:
    return logical ? MPI_MAX : MPI_SUM;
  }
}

Expected<std::unique_ptr<Communicator>>
MpiCommunicator::create(MPI_Comm parent, std::vector<unsigned> group,
                        unsigned rank, bool checkCollectives) {
  std::unique_ptr<MpiCommunicator> made(
      new MpiCommunicator(std::move(group), rank));
  made->checks = checkCollectives;
  made->pointToPoint = parent;
  MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
  for (MPI_Comm &comm : made->collectiveComms) {
    if (int code = MPI_Comm_dup(parent, &comm))
      return mpiError("cannot duplicate a communicator", code);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  }
  return std::unique_ptr<Communicator>(std::move(made));
}

//===----------------------------------------------------------------------===//
// Starting
//===----------------------------------------------------------------------===//

bool MpiCommunicator::isExact(const mprt_collective &call) const {
  // Some MPI libraries saturate sums of 8- and 16-bit integers; ours wrap.
  bool narrow = sizeOf(mprt_dtype(call.type)) <= 2 && call.type != MPRT_BOOL;
  bool wider = call.type == MPRT_F32 && call.accumulate == MPRT_F64;
  // Whether a minimum of NaN and a number is NaN depends on their order.
  bool ordered = isFloat(mprt_dtype(call.type)) &&
                 (call.reduction == MPRT_MIN || call.reduction == MPRT_MAX);
  return narrow || wider || ordered;
}

bool MpiCommunicator::overlaps(const Operation &a, const Operation &b) const {
  auto width = [](const Operation &op) {
    return op.call->kind == MPRT_BARRIER ? 0
                                         : sizeOf(mprt_dtype(op.call->type));
  };
  auto meet = [](const uint8_t *x, uint64_t xBytes, const uint8_t *y,
                 uint64_t yBytes) {
    auto from = reinterpret_cast<uintptr_t>(x);
    auto other = reinterpret_cast<uintptr_t>(y);
    return xBytes && yBytes && from < other + yBytes && other < from + xBytes;
  };
  uint64_t aSent = sendElements(*a.call, size()) * width(a);
  uint64_t aReceived = recvElements(*a.call, size()) * width(a);
  uint64_t bSent = sendElements(*b.call, size()) * width(b);
  uint64_t bReceived = recvElements(*b.call, size()) * width(b);
  return meet(a.recv, aReceived, b.recv, bReceived) ||
         meet(a.recv, aReceived, b.send, bSent) ||
         meet(a.send, aSent, b.recv, bReceived);
}

Error MpiCommunicator::start(const mprt_collective &collective,
                             const void *send, void *recv) {
  if (collective.count > uint64_t(INT_MAX))
    return makeError(MPRT_UNSUPPORTED, describe(collective),
                     ": MPI takes at most ", INT_MAX, " elements at once");
  Operation &op = operation(inFlight);
  op.call = &collective;
  op.send = static_cast<const uint8_t *>(send);
  op.recv = static_cast<uint8_t *>(recv);
  op.comm = isPaired(collective) ? pointToPoint
                                 : collectiveComms[collectives++ % depth];
  op.step = Operation::Waiting;
  ++inFlight;
  return {};
}

Error MpiCommunicator::postCheck(Operation &op) {
  op.headers.assign(size() + 1, Header{});
  const mprt_collective &call = *op.call;
  Header &mine = op.headers[size()];
  mine = {Signature(call), CallWords(call)};
  op.step = Operation::Checking;
  int code;
  if (call.kind == MPRT_SEND)
    code = MPI_Isend(&mine, sizeof(Header), MPI_BYTE, call.peer, headerTag,
                     op.comm, &op.request);
  else if (call.kind == MPRT_RECV)
    code = MPI_Irecv(&op.headers[size_t(call.peer)], sizeof(Header), MPI_BYTE,
                     call.peer, headerTag, op.comm, &op.request);
  else
    code = MPI_Iallgather(&mine, sizeof(Header), MPI_BYTE, op.headers.data(),
                          sizeof(Header), MPI_BYTE, op.comm, &op.request);
  return code ? mpiError(describe(call), code) : Error();
}

Error MpiCommunicator::checkHeaders(const Operation &op) const {
  const Signature &mine = op.headers[size()].signature;
  if (op.call->kind == MPRT_SEND)
    return {};
  if (op.call->kind == MPRT_RECV) {
    auto peer = size_t(op.call->peer);
    const Header &theirs = op.headers[peer];
    return theirs.signature.carriesSame(mine)
               ? Error()
               : makeMismatch(*op.call, group[groupRank], group[peer],
                              theirs.signature, theirs.words);
  }
  for (unsigned r = 0; r < size(); ++r)
    if (const Header &theirs = op.headers[r]; !(theirs.signature == mine))
      return makeMismatch(*op.call, group[groupRank], group[r],
                          theirs.signature, theirs.words);
  return {};
}

Error MpiCommunicator::checkMessage(const Operation &op, int code,
                                    const MPI_Status &status) const {
  const mprt_collective &call = *op.call;
  int kind = MPI_SUCCESS, count = 0;
  if (code)
    MPI_Error_class(code, &kind);
  bool isLonger = kind == MPI_ERR_TRUNCATE;
  if (!code)
    MPI_Get_count(&status, typeOf(call.type), &count);
  bool waitedForData = call.kind == MPRT_RECV && op.step == Operation::First;
  if (waitedForData && (isLonger || (!code && count != int(call.count))))
    return makeError(
        MPRT_MISMATCH, describe(call), " on rank ", group[groupRank],
        ": ranks call different collectives: rank ", group[groupRank],
        " calls ", Signature(call).describe(), ", rank ",
        group[size_t(call.peer)], " sends ",
        isLonger ? std::string("more") : std::to_string(count) + " elements",
        "; MPRT_CHECK=1 says from where");
  return code ? mpiError(describe(call) + " on rank " +
                             std::to_string(group[groupRank]),
                         code)
              : Error();
}

Error MpiCommunicator::post(Operation &op) {
  op.step = Operation::First;
  switch (op.call->kind) {
  case MPRT_ALL_REDUCE:
  case MPRT_REDUCE:
    return postReduce(op);
  case MPRT_REDUCE_SCATTER:
    return postReduceScatter(op);
  default:
    return postMoving(op);
  }
}

Error MpiCommunicator::postReduce(Operation &op) {
  auto count = int(op.call->count);
  MPI_Datatype type = typeOf(op.call->type);
  int code;
  if (!isExact(*op.call) && op.call->kind == MPRT_REDUCE) {
    code = MPI_Ireduce(op.send, op.recv, count, type, opOf(*op.call),
                       op.call->peer, op.comm, &op.request);
  } else if (!isExact(*op.call)) {
    const void *from = op.send == op.recv ? MPI_IN_PLACE : op.send;
    code = MPI_Iallreduce(from, op.recv, count, type, opOf(*op.call), op.comm,
                          &op.request);
  } else {
    // Slice r goes to rank r; the slices of this rank arrive as rows.
    auto n = int(size());
    int length = int((op.call->count + size() - 1) / size());
    op.counts.resize(size());
    op.displacements.resize(size());
    for (int r = 0; r < n; ++r) {
      op.displacements[size_t(r)] =
          int(std::min<int64_t>(count, int64_t(r) * length));
      op.counts[size_t(r)] =
          std::min(length, count - op.displacements[size_t(r)]);
    }
    int own = op.counts[groupRank];
    op.rowCounts.assign(size(), own);
    op.rowDisplacements.resize(size());
    for (int r = 0; r < n; ++r)
      op.rowDisplacements[size_t(r)] = r * own;
    op.scratch.resize(size_t(own) * size() * sizeOf(mprt_dtype(op.call->type)) +
                      1);
    code =
        MPI_Ialltoallv(op.send, op.counts.data(), op.displacements.data(), type,
                       op.scratch.data(), op.rowCounts.data(),
                       op.rowDisplacements.data(), type, op.comm, &op.request);
  }
  return code ? mpiError(describe(*op.call), code) : Error();
}

Error MpiCommunicator::postReduceScatter(Operation &op) {
  auto count = int(op.call->count);
  MPI_Datatype type = typeOf(op.call->type);
  uint64_t bytes = op.call->count * sizeOf(mprt_dtype(op.call->type));
  int code;
  if (isExact(*op.call)) {
    op.scratch.resize(bytes * size() + 1);
    code = MPI_Ialltoall(op.send, count, type, op.scratch.data(), count, type,
                         op.comm, &op.request);
  } else {
    // MPI's "in place" has the result at the start of the input: not ours.
    op.scratch.resize(bytes + 1);
    code = MPI_Ireduce_scatter_block(op.send, op.scratch.data(), count, type,
                                     opOf(*op.call), op.comm, &op.request);
  }
  return code ? mpiError(describe(*op.call), code) : Error();
}

int MpiCommunicator::postPermute(Operation &op) {
  const mprt_collective &call = *op.call;
  auto count = int(call.count);
  MPI_Datatype type = typeOf(call.type);
  const int32_t *targets = call.targets, *end = targets + size();
  int target = targets[groupRank];
  auto source = int(std::find(targets, end, int32_t(groupRank)) - targets);
  if (target == int(groupRank)) {
    if (count != 0)
      memcpy(op.recv, op.send, call.count * sizeOf(mprt_dtype(call.type)));
    return MPI_SUCCESS;
  }
  if (source != int(size()))
    if (int code = MPI_Irecv(op.recv, count, type, source, dataTag, op.comm,
                             &op.request))
      return code;
  return target < 0 ? MPI_SUCCESS
                    : MPI_Isend(op.send, count, type, target, dataTag, op.comm,
                                &op.sending);
}

Error MpiCommunicator::postMoving(Operation &op) {
  const mprt_collective &call = *op.call;
  auto count = int(call.count);
  MPI_Datatype type = typeOf(call.type);
  uint64_t bytes = call.kind == MPRT_BARRIER
                       ? 0
                       : call.count * sizeOf(mprt_dtype(call.type));
  int code = MPI_SUCCESS;
  switch (call.kind) {
  case MPRT_ALL_GATHER: {
    bool inPlace = op.send == op.recv + groupRank * bytes;
    code = MPI_Iallgather(inPlace ? MPI_IN_PLACE : op.send, count, type,
                          op.recv, count, type, op.comm, &op.request);
    break;
  }
  case MPRT_ALL_TO_ALL: {
    const uint8_t *from = op.send;
    if (from == op.recv && bytes != 0) {
      op.scratch.assign(from, from + bytes * size());
      from = op.scratch.data();
    }
    code = MPI_Ialltoall(from, count, type, op.recv, count, type, op.comm,
                         &op.request);
    break;
  }
  case MPRT_BROADCAST:
    if (unsigned(call.peer) == groupRank && op.send != op.recv && bytes != 0)
      memcpy(op.recv, op.send, bytes);
    code = MPI_Ibcast(op.recv, count, type, call.peer, op.comm, &op.request);
    break;
  case MPRT_GATHER:
    code = MPI_Igather(op.send, count, type, op.recv, count, type, call.peer,
                       op.comm, &op.request);
    break;
  case MPRT_SCATTER:
    code = MPI_Iscatter(op.send, count, type, op.recv, count, type, call.peer,
                        op.comm, &op.request);
    break;
  case MPRT_PERMUTE:
    code = postPermute(op);
    break;
  case MPRT_SEND:
    code = MPI_Isend(op.send, count, type, call.peer, dataTag, op.comm,
                     &op.request);
    break;
  case MPRT_RECV:
    code = MPI_Irecv(op.recv, count, type, call.peer, dataTag, op.comm,
                     &op.request);
    break;
  default:
    code = MPI_Ibarrier(op.comm, &op.request);
    break;
  }
  return code ? mpiError(describe(call), code) : Error();
}

//===----------------------------------------------------------------------===//
// Moving on
//===----------------------------------------------------------------------===//

void MpiCommunicator::reduceRows(const Operation &op, uint64_t count,
                                 uint8_t *result) const {
  uint64_t row = count * sizeOf(mprt_dtype(op.call->type));
  std::vector<const void *> inputs(size());
  for (unsigned r = 0; r < size(); ++r)
    inputs[r] = op.scratch.data() + r * row;
  void *output = result;
  findReduce(mprt_dtype(op.call->type), mprt_dtype(op.call->accumulate),
             mprt_reduction(op.call->reduction))(
      {inputs.data(), size(), &output, 1, count, size()});
}

void MpiCommunicator::divide(const Operation &op) const {
  if (op.call->reduction != MPRT_MEAN)
    return;
  // The mean over one rank that divides by the size of the group.
  const void *input = op.recv;
  void *output = op.recv;
  findReduce(mprt_dtype(op.call->type), mprt_dtype(op.call->accumulate),
             MPRT_MEAN)(
      {&input, 1, &output, 1, size_t(op.call->count), size()});
}

Error MpiCommunicator::continueWith(Operation &op) {
  const mprt_collective &call = *op.call;
  if (op.step == Operation::Checking) {
    if (Error error = checkHeaders(op))
      return error;
    return post(op);
  }
  uint64_t width =
      call.kind == MPRT_BARRIER ? 0 : sizeOf(mprt_dtype(call.type));
  bool first = op.step == Operation::First;
  op.step = Operation::Done;
  bool reducesWhole = call.kind == MPRT_ALL_REDUCE || call.kind == MPRT_REDUCE;
  if (reducesWhole && !isExact(call)) {
    if (isTarget(call, groupRank))
      divide(op);
  } else if (reducesWhole && first) {
    auto own = uint64_t(op.counts[groupRank]);
    uint8_t *slice = op.recv + uint64_t(op.displacements[groupRank]) * width;
    reduceRows(op, own, slice);
    op.step = Operation::Second;
    MPI_Datatype type = typeOf(call.type);
    int code;
    if (call.kind == MPRT_ALL_REDUCE)
      code = MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, op.recv,
                             op.counts.data(), op.displacements.data(), type,
                             op.comm, &op.request);
    else // the others have their slices in buffers that are cleared after it
      code = MPI_Igatherv(isTarget(call, groupRank) ? MPI_IN_PLACE : slice,
                          int(own), type, op.recv, op.counts.data(),
                          op.displacements.data(), type, call.peer, op.comm,
                          &op.request);
    if (code)
      return mpiError(describe(call), code);
    return {};
  } else if (call.kind == MPRT_REDUCE_SCATTER) {
    if (isExact(call)) {
      reduceRows(op, call.count, op.recv);
    } else if (call.count != 0) {
      memcpy(op.recv, op.scratch.data(), call.count * width);
      divide(op);
    }
  }
  clearUnreached(call, size(), groupRank, op.recv);
  return {};
}

Error MpiCommunicator::progress(bool &moved) {
  for (unsigned age = 0; age < inFlight; ++age) {
    Operation &op = operation(age);
    if (op.step == Operation::Done)
      continue;
    if (op.step == Operation::Waiting) {
      const Operation &first = operation(0);
      if (age > 0 && overlaps(first, op))
        continue;
      // Data come in the order of their headers.
      if (age > 0 && isPaired(*op.call) && first.step == Operation::Checking &&
          isPaired(*first.call))
        continue;
      if (Error error = checks ? postCheck(op) : post(op))
        return error;
      moved = true;
    }
    int done = 0;
    MPI_Status status;
    int code = MPI_Test(&op.request, &done, &status);
    if (!code && done && op.sending != MPI_REQUEST_NULL)
      code = MPI_Test(&op.sending, &done, MPI_STATUS_IGNORE);
    if (!code && !done)
      continue;
    if (Error error = checkMessage(op, code, status))
      return error;
    moved = true;
    if (Error error = continueWith(op))
      return error;
  }
  // In the order in which they were started.
  while (inFlight > 0 && operation(0).step == Operation::Done) {
    oldest = (oldest + 1) % depth;
    --inFlight;
    ++finished;
    moved = true;
  }
  return {};
}

std::string MpiCommunicator::describePeers() const {
  if (inFlight == 0)
    return "";
  const mprt_collective &call = *operations[oldest].call;
  if (isPaired(call))
    return "waits for " + nameRanks({group[size_t(call.peer)]});
  std::vector<unsigned> others = group;
  others.erase(others.begin() + groupRank);
  return (others.size() > 1 ? "waits for some of " : "waits for ") +
         nameRanks(others) +
         (others.size() > 1 ? ", MPI does not tell for which" : "");
}
