//===- FakeCudaTest.cpp - the test double of the CUDA driver --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// That right programs get right results under every seed, and that wrong ones
// are found: under some seed, or by an error.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"
#include "CudaApi.h"

#include "gtest/gtest.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <set>
#include <vector>

namespace {

constexpr uint64_t seeds = 40;

/// A device, a module with the kernels of FakeCudaKernels.cpp, two streams.
class FakeCuda : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    std::ifstream file(MPCOMM_FAKE_CUDA_KERNELS, std::ios::binary);
    image.assign(std::istreambuf_iterator<char>(file), {});
    ASSERT_EQ(cuModuleLoadData(&module, image.data()), CUDA_SUCCESS);
    for (CUstream &stream : streams)
      ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  }

  void TearDown() override {
    mpfake_fail("");
    mpfake_seed(1);
    ASSERT_EQ(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
  }

  CUfunction function(const char *name) {
    CUfunction function = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&function, module, name), CUDA_SUCCESS);
    return function;
  }

  template <typename T> CUdeviceptr toDevice(const std::vector<T> &values) {
    CUdeviceptr pointer = 0;
    EXPECT_EQ(cuMemAlloc_v2(&pointer, values.size() * sizeof(T)), CUDA_SUCCESS);
    EXPECT_EQ(
        cuMemcpyHtoD_v2(pointer, values.data(), values.size() * sizeof(T)),
        CUDA_SUCCESS);
    return pointer;
  }

  template <typename T>
  std::vector<T> toHost(CUdeviceptr pointer, size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(cuMemcpyDtoH_v2(values.data(), pointer, count * sizeof(T)),
              CUDA_SUCCESS);
    return values;
  }

  CUresult launch(const char *name, unsigned blocks, unsigned threads,
                  CUstream stream, std::vector<CUdeviceptr> operands,
                  unsigned shared = 0) {
    std::vector<void *> addresses;
    for (CUdeviceptr &operand : operands)
      addresses.push_back(&operand);
    CUresult result =
        cuLaunchKernel(function(name), blocks, 1, 1, threads, 1, 1, shared,
                       stream, addresses.data(), nullptr);
    // The driver has taken the values.
    operands.assign(operands.size(), 0);
    return result;
  }

  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUstream streams[2] = {};
  CUevent event = nullptr;
  std::vector<char> image;
};

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

TEST_F(FakeCuda, AddsVectors) {
  std::vector<float> a(512), b(512);
  std::iota(a.begin(), a.end(), 0.0f);
  std::iota(b.begin(), b.end(), 1.0f);
  CUdeviceptr c = toDevice(a);
  ASSERT_EQ(launch("add", 4, 128, streams[0], {toDevice(a), toDevice(b), c}),
            CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(streams[0]), CUDA_SUCCESS);
  std::vector<float> sums = toHost<float>(c, 512);
  for (size_t i = 0; i < sums.size(); ++i)
    EXPECT_EQ(sums[i], float(2 * i + 1));
}

TEST_F(FakeCuda, ReducesBlocksUnderEverySeed) {
  std::vector<float> in(8 * 256);
  std::iota(in.begin(), in.end(), 0.0f);
  CUdeviceptr from = toDevice(in), to = toDevice(std::vector<float>(8));
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    mpfake_seed(seed);
    ASSERT_EQ(launch("block_sum", 8, 256, streams[0], {from, to}, 1024),
              CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(streams[0]), CUDA_SUCCESS);
    std::vector<float> sums = toHost<float>(to, 8);
    for (size_t i = 0; i < 8; ++i)
      ASSERT_EQ(sums[i],
                std::accumulate(in.begin() + long(256 * i),
                                in.begin() + long(256 * (i + 1)), 0.0f))
          << "seed " << seed;
  }
}

TEST_F(FakeCuda, ShowsMissingBarriers) {
  std::vector<int32_t> in(64);
  std::iota(in.begin(), in.end(), 100);
  CUdeviceptr from = toDevice(in), to = toDevice(in);
  std::set<std::vector<int32_t>> results[2];
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    mpfake_seed(seed);
    for (int racy = 0; racy < 2; ++racy) {
      ASSERT_EQ(launch(racy ? "racy_neighbour" : "neighbour", 1, 64, streams[0],
                       {from, to}),
                CUDA_SUCCESS);
      ASSERT_EQ(cuStreamSynchronize(streams[0]), CUDA_SUCCESS);
      results[racy].insert(toHost<int32_t>(to, 64));
    }
  }
  EXPECT_EQ(results[0].size(), 1u);
  EXPECT_EQ((*results[0].begin())[63], 100);
  EXPECT_GT(results[1].size(), seeds / 2);
  EXPECT_EQ(results[1].count(*results[0].begin()), 0u);
}

TEST_F(FakeCuda, RunsBlocksInAnyOrder) {
  CUdeviceptr to = toDevice(std::vector<int32_t>(1));
  std::set<int32_t> last;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    mpfake_seed(seed);
    ASSERT_EQ(launch("last_block", 16, 32, streams[0], {to}), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(streams[0]), CUDA_SUCCESS);
    last.insert(toHost<int32_t>(to, 1)[0]);
  }
  EXPECT_GT(last.size(), 8u);
}

TEST_F(FakeCuda, ShufflesAsTheProgrammingGuideSays) {
  CUdeviceptr to = toDevice(std::vector<uint32_t>(5 * 64));
  for (uint32_t width : {4u, 16u, 32u})
    for (uint32_t offset : {0u, 1u, 3u, 5u}) {
      CUdeviceptr shape = toDevice<uint32_t>({offset, width});
      ASSERT_EQ(launch("shuffles", 2, 32, streams[0], {to, shape}),
                CUDA_SUCCESS);
      ASSERT_EQ(cuStreamSynchronize(streams[0]), CUDA_SUCCESS);
      std::vector<uint32_t> out = toHost<uint32_t>(to, 5 * 64);
      for (uint32_t i = 0; i < 64; ++i) {
        uint32_t lane = i % 32, in = lane % width, first = lane - in;
        // "Each thread only exchanges data with threads in the same group of
        // width consecutive threads"; xor may reach back to earlier groups.
        uint32_t other = lane ^ offset;
        EXPECT_EQ(out[5 * i], other < first + width ? other : lane);
        EXPECT_EQ(out[5 * i + 1], in >= offset ? lane - offset : lane);
        EXPECT_EQ(out[5 * i + 2], in + offset < width ? lane + offset : lane);
        EXPECT_EQ(out[5 * i + 3], first + offset % width);
        EXPECT_EQ(out[5 * i + 4], 0x49249249u);
      }
    }
}

TEST_F(FakeCuda, ReportsDivergentBarriers) {
  CUdeviceptr to = toDevice(std::vector<int32_t>(1));
  ASSERT_EQ(launch("divergent", 1, 64, streams[0], {to}), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(streams[0]), CUDA_ERROR_LAUNCH_FAILED);
  // The error sticks.
  EXPECT_EQ(cuStreamSynchronize(streams[1]), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(cuMemAlloc_v2(&to, 16), CUDA_ERROR_LAUNCH_FAILED);
}

TEST_F(FakeCuda, ReportsWritesBeyondAnAllocation) {
  CUdeviceptr to = toDevice(std::vector<int32_t>(40));
  CUdeviceptr fine = toDevice<int32_t>({39}), wrong = toDevice<int32_t>({40});
  ASSERT_EQ(launch("overrun", 1, 64, streams[0], {to, fine}), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(streams[0]), CUDA_SUCCESS);
  ASSERT_EQ(launch("overrun", 1, 64, streams[0], {to, wrong}), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(streams[0]), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(FakeCuda, ChecksLaunches) {
  CUdeviceptr to = toDevice(std::vector<int32_t>(1));
  EXPECT_EQ(launch("count_threads", 1, 1056, streams[0], {to}),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch("count_threads", 0, 32, streams[0], {to}),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch("count_threads", 1, 32, streams[0], {to}, 49 << 10),
            CUDA_ERROR_INVALID_VALUE);
  CUfunction count = function("count_threads");
  const auto most =
      CUfunction_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  EXPECT_EQ(cuFuncSetAttribute(count, most, 228 << 10),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncSetAttribute(count, most, 227 << 10), CUDA_SUCCESS);
  void *operand = &to;
  EXPECT_EQ(cuLaunchKernel(count, 3, 1, 1, 96, 1, 1, 227 << 10, streams[0],
                           &operand, nullptr),
            CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(streams[0]), CUDA_SUCCESS);
  EXPECT_EQ(toHost<int32_t>(to, 1)[0], 3 * 96);
  int blocks = 0;
  EXPECT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, count, 256,
                                                        227 << 10),
            CUDA_SUCCESS);
  EXPECT_EQ(blocks, 1);
  EXPECT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, count, 256, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(blocks, 8);
  CUfunction none = nullptr;
  EXPECT_EQ(cuModuleGetFunction(&none, module, "nothing"),
            CUDA_ERROR_NOT_FOUND);
  CUmodule bad = nullptr;
  EXPECT_EQ(cuModuleLoadData(&bad, ".version 8.0\n"), CUDA_ERROR_INVALID_PTX);
}

//===----------------------------------------------------------------------===//
// Streams and events
//===----------------------------------------------------------------------===//

/// x := 2 x + 1 on one stream, then x := 3 x on the other, with or without an
/// event between.
TEST_F(FakeCuda, ShowsMissingEvents) {
  CUdeviceptr first = toDevice<float>({2, 1}), second = toDevice<float>({3, 0});
  std::set<float> results[2];
  for (uint64_t seed = 0; seed < seeds; ++seed)
    for (int with = 0; with < 2; ++with) {
      mpfake_seed(seed);
      CUdeviceptr x = toDevice(std::vector<float>(32, 5.0f));
      ASSERT_EQ(launch("scale", 1, 32, streams[0], {x, first}), CUDA_SUCCESS);
      if (with) {
        ASSERT_EQ(cuEventRecord(event, streams[0]), CUDA_SUCCESS);
        ASSERT_EQ(cuStreamWaitEvent(streams[1], event, 0), CUDA_SUCCESS);
      }
      ASSERT_EQ(launch("scale", 1, 32, streams[1], {x, second}), CUDA_SUCCESS);
      ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
      results[with].insert(toHost<float>(x, 32)[31]);
      ASSERT_EQ(cuMemFree_v2(x), CUDA_SUCCESS);
    }
  EXPECT_EQ(results[1], std::set<float>{33});
  EXPECT_EQ(results[0], (std::set<float>{33, 31}));
}

TEST_F(FakeCuda, ReadsPinnedMemoryLateAndOtherMemoryAtOnce) {
  CUdeviceptr to = toDevice<int>({0});
  int *pinned = nullptr;
  ASSERT_EQ(cuMemHostAlloc(reinterpret_cast<void **>(&pinned), 4, 0),
            CUDA_SUCCESS);
  std::set<int> seen[2];
  for (uint64_t seed = 0; seed < seeds; ++seed)
    for (int isPinned = 0; isPinned < 2; ++isPinned) {
      mpfake_seed(seed);
      int own = 1;
      int &value = isPinned ? *pinned : own;
      value = 1;
      ASSERT_EQ(cuMemcpyHtoDAsync_v2(to, &value, 4, streams[0]), CUDA_SUCCESS);
      value = 2;
      ASSERT_EQ(cuStreamSynchronize(streams[0]), CUDA_SUCCESS);
      seen[isPinned].insert(toHost<int>(to, 1)[0]);
    }
  EXPECT_EQ(seen[0], std::set<int>{1});
  EXPECT_TRUE(seen[1].count(2));
}

TEST_F(FakeCuda, WritesPinnedMemoryLate) {
  CUdeviceptr from = toDevice<int>({5});
  int *pinned = nullptr;
  ASSERT_EQ(cuMemHostAlloc(reinterpret_cast<void **>(&pinned), 4, 0),
            CUDA_SUCCESS);
  int late = 0;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    mpfake_seed(seed);
    *pinned = 1;
    ASSERT_EQ(cuMemcpyDtoHAsync_v2(pinned, from, 4, streams[0]), CUDA_SUCCESS);
    late += *static_cast<volatile int *>(pinned) == 1;
    ASSERT_EQ(cuStreamSynchronize(streams[0]), CUDA_SUCCESS);
    EXPECT_EQ(*pinned, 5);
  }
  EXPECT_GT(late, int(seeds / 2));
}

TEST_F(FakeCuda, RunsHostFunctionsInTheirTurn) {
  std::vector<int> order;
  struct Call {
    std::vector<int> *order;
    int number;
  } calls[] = {{&order, 0}, {&order, 1}, {&order, 2}};
  CUresult inside = CUDA_SUCCESS;
  for (Call &call : calls)
    ASSERT_EQ(cuLaunchHostFunc(
                  streams[0],
                  [](void *data) {
                    auto *call = static_cast<Call *>(data);
                    call->order->push_back(call->number);
                  },
                  &call),
              CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchHostFunc(
                streams[0],
                [](void *data) {
                  *static_cast<CUresult *>(data) = cuCtxSynchronize();
                },
                &inside),
            CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(streams[0]), CUDA_SUCCESS);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(inside, CUDA_ERROR_NOT_PERMITTED);
}

TEST_F(FakeCuda, WaitsForValuesAndGoesOnUnasked) {
  uint32_t *flag = nullptr, *answer = nullptr;
  ASSERT_EQ(cuMemHostAlloc(reinterpret_cast<void **>(&flag), 8, 0),
            CUDA_SUCCESS);
  answer = flag + 1;
  *flag = *answer = 0;
  auto at = reinterpret_cast<CUdeviceptr>(flag);
  ASSERT_EQ(cuStreamWaitValue32_v2(streams[0], at, 3, CU_STREAM_WAIT_VALUE_GEQ),
            CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWriteValue32_v2(streams[0], at + 4, 9, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(streams[0]), CUDA_ERROR_NOT_READY);
  __atomic_store_n(flag, 3u, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(answer, __ATOMIC_SEQ_CST) != 9) {
  }
  EXPECT_EQ(cuStreamWaitValue32_v2(streams[0], at + 1, 3, 0),
            CUDA_ERROR_INVALID_VALUE);
}

//===----------------------------------------------------------------------===//
// Captures
//===----------------------------------------------------------------------===//

TEST_F(FakeCuda, CapturesDependencesAcrossStreams) {
  CUdeviceptr first = toDevice<float>({2, 1}), second = toDevice<float>({3, 0});
  CUdeviceptr x = toDevice(std::vector<float>(32));
  for (int joined = 0; joined < 3; ++joined) {
    // 0: no event on the way there, 1: none on the way back, 2: both.
    std::set<float> results;
    ASSERT_EQ(cuStreamBeginCapture_v2(
                  streams[0],
                  CUstreamCaptureMode(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)),
              CUDA_SUCCESS);
    ASSERT_EQ(launch("scale", 1, 32, streams[0], {x, first}), CUDA_SUCCESS);
    CUstream other = joined == 0 ? streams[0] : streams[1];
    if (joined) {
      ASSERT_EQ(cuEventRecord(event, streams[0]), CUDA_SUCCESS);
      ASSERT_EQ(cuStreamWaitEvent(streams[1], event, 0), CUDA_SUCCESS);
    }
    ASSERT_EQ(launch("scale", 1, 32, other, {x, second}), CUDA_SUCCESS);
    if (joined == 2) {
      ASSERT_EQ(cuEventRecord(event, streams[1]), CUDA_SUCCESS);
      ASSERT_EQ(cuStreamWaitEvent(streams[0], event, 0), CUDA_SUCCESS);
    }
    CUgraph graph = nullptr;
    CUresult result = cuStreamEndCapture(streams[0], &graph);
    if (joined == 1) {
      EXPECT_EQ(result, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
      EXPECT_EQ(graph, nullptr);
      continue;
    }
    ASSERT_EQ(result, CUDA_SUCCESS);
    size_t count = 0;
    ASSERT_EQ(cuGraphGetNodes(graph, nullptr, &count), CUDA_SUCCESS);
    EXPECT_EQ(count, 2u);
    CUgraphExec exec = nullptr;
    ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      mpfake_seed(seed);
      std::vector<float> fives(32, 5.0f);
      ASSERT_EQ(cuMemcpyHtoD_v2(x, fives.data(), 128), CUDA_SUCCESS);
      ASSERT_EQ(cuGraphLaunch(exec, streams[0]), CUDA_SUCCESS);
      ASSERT_EQ(cuGraphLaunch(exec, streams[0]), CUDA_SUCCESS);
      ASSERT_EQ(cuStreamSynchronize(streams[0]), CUDA_SUCCESS);
      results.insert(toHost<float>(x, 32)[0]);
    }
    EXPECT_EQ(results, std::set<float>{3 * (2 * 33 + 1)});
    ASSERT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphLaunch(exec, streams[0]), CUDA_ERROR_INVALID_HANDLE);
  }
}

TEST_F(FakeCuda, ReplaysGraphsInAnyOrderThatTheyAllow) {
  CUdeviceptr first = toDevice<float>({2, 1}), second = toDevice<float>({3, 0});
  CUdeviceptr x = toDevice(std::vector<float>(32));
  CUevent fork = event, join = nullptr;
  ASSERT_EQ(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture_v2(streams[0], CUstreamCaptureMode(0)),
            CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(fork, streams[0]), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(streams[1], fork, 0), CUDA_SUCCESS);
  ASSERT_EQ(launch("scale", 1, 32, streams[0], {x, first}), CUDA_SUCCESS);
  ASSERT_EQ(launch("scale", 1, 32, streams[1], {x, second}), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(join, streams[1]), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(streams[0], join, 0), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuStreamEndCapture(streams[0], &graph), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  std::set<float> results;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    mpfake_seed(seed);
    std::vector<float> fives(32, 5.0f);
    ASSERT_EQ(cuMemcpyHtoD_v2(x, fives.data(), 128), CUDA_SUCCESS);
    ASSERT_EQ(cuGraphLaunch(exec, streams[0]), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(streams[0]), CUDA_SUCCESS);
    results.insert(toHost<float>(x, 32)[0]);
  }
  EXPECT_EQ(results, (std::set<float>{33, 31}));
}

TEST_F(FakeCuda, RefusesWhatMayNotBeCaptured) {
  auto begin = [&] {
    ASSERT_EQ(cuStreamBeginCapture_v2(streams[0], CUstreamCaptureMode(0)),
              CUDA_SUCCESS);
  };
  auto end = [&] {
    CUgraph graph = nullptr;
    return cuStreamEndCapture(streams[0], &graph);
  };
  CUdeviceptr x = toDevice<int>({1});
  begin();
  EXPECT_EQ(cuStreamBeginCapture_v2(streams[0], CUstreamCaptureMode(0)),
            CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(cuStreamSynchronize(streams[0]),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuMemsetD8Async(x, 0, 4, streams[0]),
            CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin();
  EXPECT_EQ(cuMemAlloc_v2(&x, 4), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  ASSERT_EQ(cuEventRecord(event, streams[1]), CUDA_SUCCESS);
  begin();
  EXPECT_EQ(cuStreamWaitEvent(streams[0], event, 0),
            CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin();
  ASSERT_EQ(cuEventRecord(event, streams[0]), CUDA_SUCCESS);
  EXPECT_EQ(cuEventSynchronize(event), CUDA_ERROR_CAPTURED_EVENT);
  ASSERT_EQ(cuStreamWaitEvent(streams[1], event, 0), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(streams[1], &graph),
            CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(end(), CUDA_ERROR_ILLEGAL_STATE);
  CUstreamCaptureStatus status;
  ASSERT_EQ(cuStreamIsCapturing(streams[1], &status), CUDA_SUCCESS);
  EXPECT_EQ(int(status), CU_STREAM_CAPTURE_STATUS_NONE);
}

//===----------------------------------------------------------------------===//
// Memory and faults
//===----------------------------------------------------------------------===//

TEST_F(FakeCuda, ChecksHandlesAndRanges) {
  CUdeviceptr x = toDevice(std::vector<char>(100));
  char host[128] = {};
  EXPECT_EQ(cuMemcpyHtoD_v2(x, host, 101), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(host, x + 90, 11, streams[0]),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoD_v2(x, reinterpret_cast<CUdeviceptr>(host), 1),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD32Async(x + 2, 0, 1, streams[0]),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree_v2(x + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree_v2(x), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(x), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamDestroy_v2(streams[1]), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy_v2(streams[1]), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventDestroy_v2(event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(event, streams[0]), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc_v2(&x, 1), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
}

TEST_F(FakeCuda, FindsUseAfterFree) {
  CUdeviceptr x = toDevice(std::vector<int32_t>(1));
  ASSERT_EQ(launch("last_block", 1, 32, streams[0], {x}), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(streams[0]), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFree_v2(x), CUDA_SUCCESS);
  ASSERT_EQ(launch("last_block", 1, 32, streams[0], {x}), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(streams[0]), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(FakeCuda, OrdersAllocationsByStream) {
  CUdeviceptr x = 0;
  ASSERT_EQ(cuMemAllocAsync(&x, 4, streams[0]), CUDA_SUCCESS);
  ASSERT_EQ(launch("last_block", 1, 32, streams[0], {x}), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFreeAsync(x, streams[0]), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(x, streams[0]), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamSynchronize(streams[0]), CUDA_SUCCESS);
  // On another stream nothing says that the memory is there.
  bool failed = false;
  for (uint64_t seed = 0; seed < seeds && !failed; ++seed) {
    mpfake_seed(seed);
    ASSERT_EQ(cuMemAllocAsync(&x, 4, streams[0]), CUDA_SUCCESS);
    ASSERT_EQ(launch("last_block", 1, 32, streams[1], {x}), CUDA_SUCCESS);
    failed = cuStreamSynchronize(streams[1]) == CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  EXPECT_TRUE(failed);
}

TEST_F(FakeCuda, KeepsTheHostOutOfDeviceMemory) {
  CUdeviceptr x = toDevice<int>({1});
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(*reinterpret_cast<volatile int *>(x) = 2,
               "the host touches device memory");
}

TEST_F(FakeCuda, RunsOutOfMemory) {
  size_t free = 0, total = 0;
  ASSERT_EQ(cuMemGetInfo_v2(&free, &total), CUDA_SUCCESS);
  CUdeviceptr x = 0;
  EXPECT_EQ(cuMemAlloc_v2(&x, total + 1), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAlloc_v2(&x, ~size_t(0)), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(FakeCuda, FailsWhereAskedTo) {
  CUdeviceptr x = 0;
  uint64_t before = mpfake_count("cuMemAlloc");
  mpfake_fail("cuMemAlloc:2,cuEventRecord:1:719");
  EXPECT_EQ(cuMemAlloc_v2(&x, 4), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc_v2(&x, 4), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAlloc_v2(&x, 4), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(event, streams[0]), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(mpfake_count("cuMemAlloc_v2"), before + 3);
}

} // namespace
