//===- Api.cpp - the functions of the fake NCCL ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fake.h"

#include "CudaApi.h"
#include "FakeCuda.h"
#include "comm/nccl/NcclApi.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

using namespace fake_nccl;
using namespace mprt::nccl;

static thread_local std::string lastError;
/// The calls of an open group, and its depth.
static thread_local int groupDepth = 0;
static thread_local Communicator *groupComm = nullptr;
static thread_local CUstream groupStream = nullptr;
static thread_local std::vector<Call> groupCalls;
static thread_local std::vector<Communicator *> groupAborts;

static int currentVersion() { return numberOf("MPFAKE_NCCL_VERSION", 22809); }

static ncclResult_t refuse(ncclResult_t result, const std::string &why) {
  lastError = why;
  fprintf(stderr, "fake NCCL: %s\n", why.c_str());
  return result;
}

static Communicator *get(ncclComm_t comm) {
  return reinterpret_cast<Communicator *>(comm);
}

/// Leaves a communicator that does not block busy for a while.
static ncclResult_t leave(Communicator &communicator) {
  if (communicator.blocking)
    return ncclSuccess;
  communicator.busy = 3;
  return ncclInProgress;
}

#define FAKE_CALL(name, rank)                                                  \
  if (int code = countCall(#name, rank)) {                                     \
    lastError = #name " was told to fail";                                     \
    return code;                                                               \
  }

#define FAKE_COMM(name)                                                        \
  if (!comm)                                                                   \
    return refuse(ncclInvalidArgument, #name ": no communicator");             \
  Communicator &communicator = *get(comm);                                     \
  FAKE_CALL(name, communicator.world)                                          \
  if (communicator.busy || !communicator.connected)                            \
  return refuse(ncclInvalidUsage, #name ": the communicator is busy")

extern "C" {
#define EXPORT __attribute__((visibility("default")))

EXPORT ncclResult_t ncclGetVersion(int *version) {
  *version = currentVersion();
  return ncclSuccess;
}

EXPORT const char *ncclGetErrorString(ncclResult_t result) {
  static const char *const names[] = {
      "no error",
      "unhandled cuda error",
      "unhandled system error",
      "internal error",
      "invalid argument",
      "invalid usage",
      "remote process exited or there was a network error",
      "NCCL operation in progress"};
  return result >= 0 && result < 8 ? names[result] : "unknown result code";
}

EXPORT const char *ncclGetLastError(ncclComm_t) { return lastError.c_str(); }

EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  FAKE_CALL(ncclGetUniqueId, -1)
  static std::atomic<int> count;
  *id = {};
  snprintf(id->internal, sizeof(id->internal), "/mpfake-nccl-%d-%d",
           int(getpid()), ++count);
  return ncclSuccess;
}

/// A communicator on the region of that name; null where it cannot be.
static Communicator *make(const std::string &name, int size, int rank,
                          int world, bool blocking) {
  auto *made = new Communicator();
  made->name = name;
  made->region = openRegion(name);
  made->rank = rank;
  made->size = size;
  made->world = world;
  made->blocking = blocking;
  void *words = nullptr;
  CUdevice device = 0;
  if (!made->region || cuCtxGetDevice(&device) != CUDA_SUCCESS ||
      cuMemHostAlloc(&words, maxWords * sizeof(uint32_t), 0) != CUDA_SUCCESS)
    return nullptr;
  made->words = static_cast<uint32_t *>(words);
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  made->context = context;
  memset(words, 0, maxWords * sizeof(uint32_t));
  made->region->parts[rank].device = device;
  made->thread = std::thread([made] { made->run(); });
  if (blocking)
    while (!made->connected)
      usleep(100);
  return made;
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks,
                                           ncclUniqueId id, int rank,
                                           ncclConfig_t *config) {
  FAKE_CALL(ncclCommInitRankConfig, rank)
  const char *order = getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  countCall((std::string("NCCL_LAUNCH_ORDER_IMPLICIT=") + (order ? order : ""))
                .c_str(),
            rank);
  if (config->magic != 0xcafebeef || config->size < sizeof(size_t) + 12)
    return refuse(ncclInvalidArgument, "the config was not initialised");
  if (ranks < 1 || ranks > maxRanks || rank < 0 || rank >= ranks)
    return refuse(ncclInvalidArgument, "no such rank");
  Communicator *made =
      make(id.internal, ranks, rank, rank, config->blocking != 0);
  if (!made)
    return refuse(ncclUnhandledCudaError, "no memory");
  *comm = reinterpret_cast<ncclComm_t>(made);
  return leave(*made);
}

static void tellChild(Communicator &communicator) {
  if (communicator.childAt)
    *communicator.childAt = communicator.child;
  communicator.childAt = nullptr;
}

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm,
                                          ncclResult_t *result) {
  Communicator &communicator = *get(comm);
  FAKE_CALL(ncclCommGetAsyncError, communicator.world)
  if (communicator.error) {
    lastError = communicator.error == ncclInvalidUsage
                    ? "Duplicate GPU detected, or collectives that differ"
                    : "an error of a collective";
    *result = communicator.error;
  } else if (!communicator.connected ||
             (communicator.finalizing && communicator.graphs)) {
    *result = ncclInProgress;
  } else {
    *result = communicator.busy > 0 && --communicator.busy > 0 ? ncclInProgress
                                                               : ncclSuccess;
    if (*result == ncclSuccess)
      tellChild(communicator);
  }
  return ncclSuccess;
}

EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  FAKE_COMM(ncclCommFinalize);
  communicator.finalizing = true;
  return leave(communicator);
}

/// What streams still wait for is never freed.
static void end(Communicator &communicator) {
  communicator.wake.notify_all();
  if (communicator.thread.joinable())
    communicator.thread.join();
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  Communicator &communicator = *get(comm);
  FAKE_CALL(ncclCommDestroy, communicator.world) {
    std::lock_guard<std::mutex> guard(communicator.mutex);
    communicator.stopping = true;
  }
  end(communicator);
  return ncclSuccess;
}

/// What comes of an abort after its flag is set. It waits, as long as it takes,
/// for all of the device, on which other communicators may hang, and for graphs
/// that the communicator was captured into.
static void reclaim(Communicator &communicator) {
  cuCtxSetCurrent(static_cast<CUcontext>(communicator.context));
  cuCtxSynchronize();
  while (communicator.graphs)
    usleep(1000);
  end(communicator);
  shm_unlink(communicator.name.c_str());
}

EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  Communicator &communicator = *get(comm);
  countCall("ncclCommAbort", communicator.world);
  while (numberOf("MPFAKE_NCCL_STUCK", 0) && isFaulty(communicator.world))
    sleep(1);
  {
    std::lock_guard<std::mutex> guard(communicator.mutex);
    communicator.aborted = true;
    for (Request *request : communicator.queue)
      std::atomic_ref<uint32_t>(*request->word).store(request->value);
    communicator.queue.clear();
  }
  // From 2.22 on a group ends its communicators at once.
  if (groupDepth && currentVersion() >= 22200)
    groupAborts.push_back(&communicator);
  else
    reclaim(communicator);
  return ncclSuccess;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// When the stream comes to it.
static int post(void *data) {
  auto *request = static_cast<Request *>(data);
  Communicator &communicator = *request->communicator;
  std::lock_guard<std::mutex> guard(communicator.mutex);
  if (request->again)
    std::atomic_ref<uint32_t>(*request->word).store(0);
  if (communicator.aborted)
    std::atomic_ref<uint32_t>(*request->word).store(request->value);
  else
    communicator.queue.push_back(request);
  communicator.wake.notify_all();
  return 0;
}

/// Called once nothing can run it any more.
static void forget(void *data) {
  auto *request = static_cast<Request *>(data);
  if (request->again)
    --request->communicator->graphs;
}

/// Requests live on: a graph may run them at any time.
static Request *makeRequest(Communicator &communicator) {
  static std::mutex mutex;
  static auto &requests = *new std::vector<std::unique_ptr<Request>>;
  std::lock_guard<std::mutex> guard(mutex);
  requests.push_back(std::make_unique<Request>(
      Request{&communicator, std::move(groupCalls), nullptr, 0, false}));
  groupCalls.clear();
  return requests.back().get();
}

static ncclResult_t launch() {
  Communicator &communicator = *groupComm;
  Request *request = makeRequest(communicator);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuStreamIsCapturing(groupStream, &status);
  request->again = status != CU_STREAM_CAPTURE_STATUS_NONE;
  if (request->again && communicator.nextWord == maxWords)
    return refuse(ncclInternalError, "too many graphs");
  communicator.graphs += request->again;
  for (Call &call : request->calls)
    call.graph = request->again ? communicator.nextWord : 0;
  request->word =
      communicator.words + (request->again ? communicator.nextWord++ : 0);
  request->value = request->again ? 1 : ++communicator.eager;
  int result = mpfake_enqueue(groupStream, "a collective of NCCL", post,
                              request, forget);
  if (!result)
    result = cuStreamWaitValue32_v2(
        groupStream, reinterpret_cast<CUdeviceptr>(request->word),
        request->value,
        request->again ? CU_STREAM_WAIT_VALUE_EQ : CU_STREAM_WAIT_VALUE_GEQ);
  if (result)
    return refuse(ncclUnhandledCudaError,
                  "the driver says " + std::to_string(result));
  return leave(communicator);
}

EXPORT ncclResult_t ncclGroupStart() {
  FAKE_CALL(ncclGroupStart, -1)
  ++groupDepth;
  return ncclSuccess;
}

EXPORT ncclResult_t ncclGroupEnd() {
  FAKE_CALL(ncclGroupEnd, -1)
  if (groupDepth == 0)
    return refuse(ncclInvalidUsage, "no group is open");
  if (--groupDepth)
    return ncclSuccess;
  std::vector<std::thread> threads;
  for (Communicator *communicator : groupAborts)
    threads.emplace_back([communicator] { reclaim(*communicator); });
  groupAborts.clear();
  for (std::thread &thread : threads)
    thread.join();
  if (groupCalls.empty())
    return ncclSuccess;
  return launch();
}

static ncclResult_t add(Communicator &communicator, Call call, ncclStream to,
                        uint64_t sent, uint64_t received) {
  size_t width = widthOf(call.type);
  if (!width || call.op < ncclSum || call.op > ncclAvg ||
      call.peer >= communicator.size)
    return refuse(ncclInvalidArgument, "an argument is wrong");
  if ((sent && !mpfake_covers(call.send, sent * width)) ||
      (received && !mpfake_covers(call.recv, received * width)))
    return refuse(ncclInvalidArgument, "a buffer is not of the device");
  auto stream = static_cast<CUstream>(to);
  if (!groupCalls.empty() &&
      (groupComm != &communicator || groupStream != stream))
    return refuse(ncclInvalidUsage, "groups of several communicators are not "
                                    "emulated");
  groupComm = &communicator;
  groupStream = stream;
  groupCalls.push_back(call);
  if (groupDepth)
    return ncclSuccess;
  ncclResult_t result = launch();
  // A lone send or receive says so too early.
  bool isMessage = call.kind == Send || call.kind == Recv;
  return isMessage && result == ncclInProgress ? ncclSuccess : result;
}

EXPORT ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count,
                                  ncclDataType_t type, ncclRedOp_t op,
                                  ncclComm_t comm, ncclStream stream) {
  FAKE_COMM(ncclAllReduce);
  return add(communicator, {AllReduce, send, recv, count, type, op, -1}, stream,
             count, count);
}

EXPORT ncclResult_t ncclReduceScatter(const void *send, void *recv,
                                      size_t count, ncclDataType_t type,
                                      ncclRedOp_t op, ncclComm_t comm,
                                      ncclStream stream) {
  FAKE_COMM(ncclReduceScatter);
  return add(communicator, {ReduceScatter, send, recv, count, type, op, -1},
             stream, count * communicator.size, count);
}

EXPORT ncclResult_t ncclAllGather(const void *send, void *recv, size_t count,
                                  ncclDataType_t type, ncclComm_t comm,
                                  ncclStream stream) {
  FAKE_COMM(ncclAllGather);
  return add(communicator, {AllGather, send, recv, count, type, ncclSum, -1},
             stream, count, count * communicator.size);
}

EXPORT ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count,
                                  ncclDataType_t type, int root,
                                  ncclComm_t comm, ncclStream stream) {
  FAKE_COMM(ncclBroadcast);
  return add(communicator, {Broadcast, send, recv, count, type, ncclSum, root},
             stream, count, count);
}

EXPORT ncclResult_t ncclReduce(const void *send, void *recv, size_t count,
                               ncclDataType_t type, ncclRedOp_t op, int root,
                               ncclComm_t comm, ncclStream stream) {
  FAKE_COMM(ncclReduce);
  return add(communicator, {Reduce, send, recv, count, type, op, root}, stream,
             count, root == communicator.rank ? count : 0);
}

EXPORT ncclResult_t ncclSend(const void *send, size_t count,
                             ncclDataType_t type, int peer, ncclComm_t comm,
                             ncclStream stream) {
  FAKE_COMM(ncclSend);
  return add(communicator, {Send, send, nullptr, count, type, ncclSum, peer},
             stream, count, 0);
}

EXPORT ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type,
                             int peer, ncclComm_t comm, ncclStream stream) {
  FAKE_COMM(ncclRecv);
  return add(communicator, {Recv, nullptr, recv, count, type, ncclSum, peer},
             stream, 0, count);
}

EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key,
                                  ncclComm_t *made, ncclConfig_t *config) {
  FAKE_COMM(ncclCommSplit);
  // There is nothing before the communicator says that it is done.
  *made = nullptr;
  // All ranks' colours and keys, as an all-gather by way of the outboxes.
  Part &mine = communicator.region->parts[communicator.rank];
  int32_t values[2] = {color, key};
  memcpy(mine.outbox, values, sizeof(values));
  ++communicator.numSplits;
  if (!communicator.meet())
    return ncclSystemError;
  int size = 0, rank = 0;
  for (int r = 0; r < communicator.size; ++r) {
    memcpy(values, communicator.region->parts[r].outbox, sizeof(values));
    size += values[0] == color;
    rank += values[0] == color && values[1] < key;
  }
  if (!communicator.meet())
    return ncclSystemError;
  std::string name = communicator.name + "-" +
                     std::to_string(communicator.numSplits) + "-" +
                     std::to_string(color);
  Communicator *split =
      make(name, size, rank, communicator.world, config->blocking != 0);
  if (!split)
    return refuse(ncclUnhandledCudaError, "no memory");
  communicator.child = split;
  communicator.childAt = reinterpret_cast<Communicator **>(made);
  (void)leave(communicator);
  if (communicator.blocking)
    tellChild(communicator);
  return ncclSuccess;
}

//===----------------------------------------------------------------------===//
// What older versions lack
//===----------------------------------------------------------------------===//

#ifndef MPFAKE_NCCL_OLD
EXPORT ncclResult_t ncclMemAlloc(void **pointer, size_t bytes) {
  FAKE_CALL(ncclMemAlloc, -1)
  CUdeviceptr made = 0;
  if (cuMemAlloc_v2(&made, bytes) != CUDA_SUCCESS)
    return refuse(ncclUnhandledCudaError, "no memory");
  *pointer = reinterpret_cast<void *>(made);
  return ncclSuccess;
}

EXPORT ncclResult_t ncclMemFree(void *pointer) {
  FAKE_CALL(ncclMemFree, -1)
  return cuMemFree_v2(reinterpret_cast<CUdeviceptr>(pointer)) == CUDA_SUCCESS
             ? ncclSuccess
             : ncclUnhandledCudaError;
}

EXPORT ncclResult_t ncclCommRegister(ncclComm_t comm, void *buffer,
                                     size_t bytes, void **handle) {
  FAKE_COMM(ncclCommRegister);
  if (!mpfake_covers(buffer, bytes))
    return refuse(ncclInvalidArgument, "a buffer is not of the device");
  *handle = buffer;
  return ncclSuccess;
}

EXPORT ncclResult_t ncclCommDeregister(ncclComm_t comm, void *) {
  FAKE_COMM(ncclCommDeregister);
  return ncclSuccess;
}
#endif

} // extern "C"
