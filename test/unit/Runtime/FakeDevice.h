//===- FakeDevice.h - a fake CUDA device for tests of the runtime ---------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_UNIT_RUNTIME_FAKEDEVICE_H
#define MPCOMM_TEST_UNIT_RUNTIME_FAKEDEVICE_H

#include "FakeCuda.h"
#include "device/cuda/Driver.h"

#include "gtest/gtest.h"

#include <cstdlib>
#include <cstring>
#include <vector>

namespace mprt::cuda {

/// The runtime's driver is the test double, with a context and a stream.
class FakeDevice : public testing::Test {
protected:
  static void SetUpTestSuite() {
    setenv("MPRT_CUDA_LIBRARY", MPCOMM_FAKE_CUDA, 1);
    setenv("MPRT_CUBLASLT_LIBRARY", MPCOMM_FAKE_CUBLASLT, 1);
    setenv("MPRT_CUDNN_LIBRARY", MPCOMM_FAKE_CUDNN, 1);
  }

  void SetUp() override {
    Expected<const Driver *> loaded = Driver::load();
    ASSERT_TRUE(bool(loaded)) << loaded.error().message();
    driver = *loaded;
    ASSERT_EQ(driver->cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    ASSERT_EQ(driver->cuCtxSetCurrent(context), CUDA_SUCCESS);
    ASSERT_EQ(
        driver->cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0),
        CUDA_SUCCESS);
  }

  void TearDown() override {
    mpfake_fail("");
    ASSERT_EQ(driver->cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  }

  /// A copy of `bytes` on the device, `offset` bytes into an allocation.
  void *toDevice(const std::vector<char> &bytes, size_t offset = 0) {
    CUdeviceptr pointer = 0;
    EXPECT_EQ(driver->cuMemAlloc(&pointer, bytes.size() + offset + 1),
              CUDA_SUCCESS);
    allocated.push_back(pointer);
    EXPECT_EQ(
        driver->cuMemcpyHtoD(pointer + offset, bytes.data(), bytes.size()),
        CUDA_SUCCESS);
    return reinterpret_cast<void *>(pointer + offset);
  }

  void overwrite(void *pointer, const std::vector<char> &bytes) {
    EXPECT_EQ(
        driver->cuMemcpyHtoD(addressOf(pointer), bytes.data(), bytes.size()),
        CUDA_SUCCESS);
  }

  std::vector<char> toHost(const void *pointer, size_t count) {
    std::vector<char> bytes(count);
    EXPECT_EQ(driver->cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(driver->cuMemcpyDtoH(bytes.data(), addressOf(pointer), count),
              CUDA_SUCCESS);
    return bytes;
  }

  void freeAll() {
    for (CUdeviceptr pointer : allocated)
      EXPECT_EQ(driver->cuMemFree(pointer), CUDA_SUCCESS);
    allocated.clear();
  }

  /// Captures what `enqueue` does on the stream, and launches it.
  template <typename Enqueue> void replay(Enqueue enqueue) {
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    ASSERT_EQ(driver->cuStreamBeginCapture(stream,
                                           CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
              CUDA_SUCCESS);
    enqueue();
    ASSERT_EQ(driver->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    ASSERT_EQ(driver->cuGraphInstantiateWithFlags(&exec, graph, 0),
              CUDA_SUCCESS);
    ASSERT_EQ(driver->cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    ASSERT_EQ(driver->cuStreamSynchronize(stream), CUDA_SUCCESS);
    ASSERT_EQ(driver->cuGraphExecDestroy(exec), CUDA_SUCCESS);
    ASSERT_EQ(driver->cuGraphDestroy(graph), CUDA_SUCCESS);
  }

  const Driver *driver = nullptr;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  std::vector<CUdeviceptr> allocated;
};

} // namespace mprt::cuda

#endif // MPCOMM_TEST_UNIT_RUNTIME_FAKEDEVICE_H
