//===- DeviceCallsTest.cpp - what each call of a device does --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaApi.h"
#include "Devices.h"
#include "FakeCuda.h"

#include "device/cuda/Kernels.h"
#include "support/Trace.h"

#include <algorithm>
#include <bit>

using namespace mprt;

namespace {

/// A device with one communicator's stream, and what goes to it and comes back.
class DeviceCalls : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    setenv("MPRT_CUBLASLT_LIBRARY", MPCOMM_FAKE_CUBLASLT, 1);
    setenv("MPRT_CUDNN_LIBRARY", MPCOMM_FAKE_CUDNN, 1);
    mpfake_seed(1);
    device = makeDevice(1, GetParam());
  }

  void *toDevice(const Values &values) {
    void *pointer = device->allocate(values.size() * 4).take();
    EXPECT_FALSE(device->upload(pointer, values.data(), values.size() * 4));
    return pointer;
  }

  /// All that `stream` was given is done.
  void finish(uint32_t stream) {
    Expected<bool> done = false;
    while (done && !*done)
      done = device->finished(stream);
    EXPECT_TRUE(done) << done.error().message();
  }

  Values toHost(const void *pointer, size_t count, uint32_t stream = 0) {
    finish(stream);
    Values values(count);
    EXPECT_FALSE(device->download(values.data(), pointer, count * 4));
    return values;
  }

  std::unique_ptr<Device> device;
};

INSTANTIATE_TEST_SUITE_P(Devices, DeviceCalls, testing::Values(onHost, onCuda),
                         [](const auto &info) { return info.param; });

TEST_P(DeviceCalls, DescribesItself) {
  EXPECT_EQ(device->kind(), GetParam());
  EXPECT_FALSE(device->describe().empty());
  EXPECT_EQ(device->programStreams(), 2u);
  EXPECT_GT(device->memoryBytes(), uint64_t(1) << 20);
  EXPECT_EQ(device->isAsynchronous(), GetParam() == onCuda);
  EXPECT_FALSE(device->enter());
}

TEST_P(DeviceCalls, MemoryIsZeroedAndAligned) {
  uint64_t before = device->allocatedBytes();
  for (uint64_t bytes : {0, 4, 4000}) {
    Expected<void *> made = device->allocate(bytes);
    ASSERT_TRUE(made) << made.error().message();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*made) % 256, 0u);
    EXPECT_EQ(toHost(*made, bytes / 4), Values(bytes / 4));
    auto *pinned = static_cast<char *>(device->allocatePinned(bytes).take());
    EXPECT_EQ(std::count(pinned, pinned + bytes, 0), ptrdiff_t(bytes));
  }
  // Of its own memory.
  EXPECT_EQ(device->allocatedBytes() > before, GetParam() == onCuda);
  Expected<void *> tooMuch = device->allocate(uint64_t(1) << 60);
  ASSERT_FALSE(tooMuch);
  EXPECT_EQ(tooMuch.error().status(), MPRT_OUT_OF_MEMORY);
}

TEST_P(DeviceCalls, StreamsCopyAndZeroInOrder) {
  Values values = {1, 2, 3, 4};
  auto *pinned = static_cast<float *>(device->allocatePinned(32).take());
  std::copy(values.begin(), values.end(), pinned);
  void *a = device->allocate(16).take(), *b = device->allocate(16).take();
  uint32_t stream = device->copyStream();
  EXPECT_FALSE(device->copy(stream, a, pinned, 16, CopyKind::ToDevice));
  EXPECT_FALSE(device->copy(stream, b, a, 16, CopyKind::OnDevice));
  EXPECT_FALSE(device->zero(stream, a, 8));
  EXPECT_FALSE(device->copy(stream, pinned + 4, b, 16, CopyKind::ToHost));
  EXPECT_FALSE(device->copy(stream, nullptr, nullptr, 0, CopyKind::OnDevice));
  EXPECT_FALSE(device->zero(stream, nullptr, 0));
  EXPECT_EQ(toHost(a, 4, stream), Values({0, 0, 3, 4}));
  EXPECT_EQ(Values(pinned + 4, pinned + 8), values);
}

TEST_P(DeviceCalls, EventsOrderStreams) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    mpfake_seed(seed);
    void *a = toDevice(Values(elements, 1)), *b = toDevice(Values(elements, 2)),
         *c = toDevice(Values(elements)), *d = toDevice(Values(elements));
    Expected<uint32_t> event = device->createEvent();
    ASSERT_TRUE(event) << event.error().message();
    void *operands[] = {a, b, c};
    EXPECT_FALSE(device->launch(1, addKernel, operands));
    EXPECT_FALSE(device->record(1, *event));
    EXPECT_FALSE(device->wait(0, *event));
    EXPECT_FALSE(device->copy(0, d, c, elements * 4, CopyKind::OnDevice));
    EXPECT_EQ(toHost(d, elements), Values(elements, 3)) << "seed " << seed;
  }
}

TEST_P(DeviceCalls, RefusesKernelsOfOthers) {
  mprt_kernel kernel = addKernel;
  (GetParam() == onHost ? (void)(kernel.fn = nullptr)
                        : (void)(kernel.symbol = nullptr));
  void *a = toDevice(Values(elements));
  void *operands[] = {a, a, a};
  Error error = device->launch(0, kernel, operands);
  EXPECT_EQ(error.status(), MPRT_INVALID_ARGUMENT);
  EXPECT_EQ(error.message(), GetParam() == onHost
                                 ? "it is no kernel for the host"
                                 : "it is no kernel for a GPU");
}

/// C[4, 8] of A[4, 2] and B[2, 8].
mprt_gemm_desc smallProduct() {
  mprt_gemm_desc desc{};
  desc.m = 4, desc.n = 8, desc.k = 2;
  desc.strides_a[0] = 2, desc.strides_b[0] = desc.strides_c[0] = 8;
  desc.strides_a[1] = desc.strides_b[1] = desc.strides_c[1] = 1;
  desc.name = "product";
  return desc;
}

/// Of factors that are all 1 and 3, a bias that is 1, 2, ..., and what C was.
Values smallResult(float was, bool hasBias) {
  Values values(elements, was + 2 * 3);
  for (uint32_t i = 0; hasBias && i < elements; ++i)
    values[i] += float(1 + i % 8);
  return values;
}

TEST_P(DeviceCalls, Multiplies) {
  mprt_gemm_desc desc = smallProduct();
  desc.accumulate = 1;
  void *a = toDevice(Values(8, 1)), *b = toDevice(Values(16, 3)),
       *c = toDevice(Values(elements, 5));
  EXPECT_FALSE(device->gemm(0, desc, a, b, c));
  EXPECT_EQ(toHost(c, elements), smallResult(5, false));
  desc.m = -1;
  EXPECT_EQ(device->gemm(0, desc, a, b, c).status(), MPRT_INVALID_ARGUMENT);
}

// The kernel adds a whole matrix: that of the bias, once a row.
TEST_P(DeviceCalls, DoesEpiloguesWithTheProductOrAfterIt) {
  const mprt_kernel *kernels[] = {&addKernel};
  mprt_epilogue epilogue{};
  epilogue.kind = MPRT_BIAS;
  epilogue.bias_type = MPRT_F32;
  epilogue.count = 1;
  epilogue.kernels = kernels;
  // No library adds to C as well.
  for (uint8_t accumulate : {0, 1}) {
    mprt_gemm_desc desc = smallProduct();
    desc.accumulate = accumulate;
    Values rows;
    for (uint32_t i = 0; i < elements; ++i)
      rows.push_back(float(1 + i % 8));
    void *a = toDevice(Values(8, 1)), *b = toDevice(Values(16, 3)),
         *c = toDevice(Values(elements, 5)), *bias = toDevice(rows);
    void *args[] = {bias, c, c};
    Expected<uint32_t> kernelsRun =
        device->gemmWithEpilogue(0, desc, a, b, c, epilogue, args);
    ASSERT_TRUE(kernelsRun) << kernelsRun.error().message();
    EXPECT_EQ(*kernelsRun, GetParam() == onCuda && !accumulate ? 0u : 1u);
    EXPECT_EQ(toHost(c, elements), smallResult(accumulate ? 5 : 0, true));

    mprt_kernel wrong = addKernel;
    wrong.fn = nullptr;
    wrong.threads = 33;
    const mprt_kernel *wrongs[] = {&wrong};
    mprt_epilogue broken = epilogue;
    broken.kernels = wrongs;
    Expected<uint32_t> failed =
        device->gemmWithEpilogue(0, desc, a, b, c, broken, args);
    EXPECT_EQ(bool(failed), *kernelsRun == 0);
    if (!failed) {
      EXPECT_EQ(failed.error().message().rfind("its kernel \"add\": ", 0), 0u)
          << failed.error().message();
    }
  }
  epilogue.bias = 3;
  EXPECT_EQ(device
                ->gemmWithEpilogue(0, smallProduct(), nullptr, nullptr, nullptr,
                                   epilogue, nullptr)
                .error()
                .message(),
            "an epilogue of kind 1 beside 1 kernels, expected a kind from 1 to "
            "7, and kernels that have its bias and its matrix");
}

TEST_P(DeviceCalls, RefusesScalesThatNoEpilogueHas) {
  const mprt_kernel *kernels[] = {&addKernel};
  auto run = [&](int32_t kind, uint32_t scales, uint32_t last) {
    mprt_epilogue epilogue{};
    epilogue.kind = kind;
    epilogue.count = 1;
    epilogue.kernels = kernels;
    epilogue.scale_count = scales;
    epilogue.scales[1] = last;
    return device
        ->gemmWithEpilogue(0, smallProduct(), nullptr, nullptr, nullptr,
                           epilogue, nullptr)
        .error()
        .message();
  };
  EXPECT_EQ(run(MPRT_SCALE, 0, 0),
            "an epilogue of kind 7 has 0 scales, expected 1 to 2");
  EXPECT_EQ(run(MPRT_BIAS, 3, 0),
            "an epilogue of kind 1 has 3 scales, expected 0 to 2");
  EXPECT_EQ(run(MPRT_BIAS_GRAD_A, 1, 0),
            "an epilogue of kind 5 has 1 scales, expected 0 to 0");
  EXPECT_EQ(run(MPRT_SCALE, 2, 3), "a scale of an epilogue is operand 3 of a "
                                   "kernel, expected less than 3");
}

TEST_P(DeviceCalls, Convolves) {
  // Sums of 2 x 2 of an image of 3 x 3.
  mprt_window_desc desc{};
  desc.kind = MPRT_CONVOLUTION;
  desc.type = MPRT_F32;
  auto fill = [](int64_t (&to)[4], int64_t rows, int64_t columns) {
    to[0] = to[1] = 1, to[2] = rows, to[3] = columns;
  };
  auto stride = [](int64_t (&to)[4], int64_t rows, int64_t columns) {
    to[0] = to[1] = rows * columns, to[2] = columns, to[3] = 1;
  };
  fill(desc.input, 3, 3), fill(desc.output, 2, 2);
  stride(desc.strides_a, 3, 3), stride(desc.strides_b, 2, 2),
      stride(desc.strides_c, 2, 2);
  for (int i = 0; i < 2; ++i)
    desc.window[i] = 2, desc.strides[i] = desc.dilation[i] = 1;
  desc.groups = 1;
  void *x = toDevice({1, 2, 3, 4, 5, 6, 7, 8, 9}), *w = toDevice(Values(4, 1)),
       *y = toDevice(Values(4));
  Error error = device->convolveOrPool(0, desc, x, w, y);
  ASSERT_FALSE(error) << error.message();
  EXPECT_EQ(toHost(y, 4), Values({12, 16, 24, 28}));
}

TEST_P(DeviceCalls, MarksHaveTimes) {
  ASSERT_FALSE(device->clearMarks());
  uint64_t begin = nowNanoseconds();
  uint64_t first = device->mark(0).take();
  void *a = toDevice(Values(elements));
  void *operands[] = {a, a, a};
  EXPECT_FALSE(device->launch(0, addKernel, operands));
  uint64_t second = device->mark(0).take();
  finish(0);
  uint64_t from = device->timeOf(first).take(),
           to = device->timeOf(second).take(), end = nowNanoseconds();
  EXPECT_LE(from, to);
  // The clocks are compared by two looks around an event.
  EXPECT_GE(from + (end - begin), begin);
  EXPECT_LE(to, end + (end - begin));
}

TEST_P(DeviceCalls, KeepsGraphsOrSaysThatItCannot) {
  void *a = toDevice(Values(elements, 1)), *b = toDevice(Values(elements));
  void *operands[] = {a, a, b};
  if (GetParam() == onHost) {
    for (const Error &error :
         {device->beginCapture(), device->endCapture().error()}) {
      EXPECT_EQ(error.status(), MPRT_UNSUPPORTED);
      EXPECT_EQ(error.message(), "the host has no graphs");
    }
    return;
  }
  ASSERT_FALSE(device->beginCapture());
  EXPECT_TRUE(device->isCapturing());
  EXPECT_FALSE(device->launch(0, addKernel, operands));
  Expected<std::unique_ptr<DeviceGraph>> graph = device->endCapture();
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_EQ((*graph)->nodes().all, 1u);
  EXPECT_EQ((*graph)->nodes().kernels, 1u);
  EXPECT_FALSE(device->launchGraph(**graph));
  EXPECT_EQ(toHost(b, elements), Values(elements, 2));
}

TEST_P(DeviceCalls, ZeroesInGraphsByKernels) {
  if (GetParam() == onHost)
    return;
  constexpr size_t count = 5000;
  constexpr uint64_t allBytes = elements * 4;
  void *a = toDevice(Values(elements, 1)), *b = toDevice(Values(elements)),
       *c = toDevice(Values(count, 7));
  auto *words = static_cast<char *>(c);
  void *copies[] = {a, b, b};
  ASSERT_FALSE(device->beginCapture());
  // b is 1, then 0, then 1 again: each comes after the one before.
  EXPECT_FALSE(device->launch(0, addKernel, copies));
  EXPECT_FALSE(device->zero(0, b, allBytes));
  EXPECT_FALSE(device->launch(0, addKernel, copies));
  EXPECT_FALSE(device->zero(0, words + 4, 4));
  EXPECT_FALSE(device->zero(0, words + 20, 12));
  EXPECT_FALSE(device->zero(0, words + 64, 4096));
  EXPECT_FALSE(device->zero(0, words + 4 * (count - 515), 515 * 4));
  EXPECT_FALSE(device->zero(0, words + 4240, 2)); // no whole word
  Expected<std::unique_ptr<DeviceGraph>> graph = device->endCapture();
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_EQ((*graph)->nodes().all, 8u);
  EXPECT_EQ((*graph)->nodes().kernels, 7u);
  EXPECT_EQ((*graph)->nodes().fills, 1u);
  Values expected(count, 7);
  auto clear = [&](size_t from, size_t to) {
    std::fill(expected.begin() + ptrdiff_t(from),
              expected.begin() + ptrdiff_t(to), 0.f);
  };
  clear(1, 2);
  clear(5, 8);
  clear(16, 1040);
  clear(count - 515, count);
  uint32_t half = std::bit_cast<uint32_t>(7.f) & 0xffff0000u;
  expected[1060] = std::bit_cast<float>(half);
  for (unsigned seed : {1, 2, 3, 4}) {
    mpfake_seed(seed);
    EXPECT_FALSE(device->launchGraph(**graph));
    EXPECT_EQ(toHost(b, elements), Values(elements, 1));
    EXPECT_EQ(toHost(c, count), expected);
  }
}

TEST_P(DeviceCalls, KeepsFillsThatTheDriverDoesNotReplace) {
  if (GetParam() == onHost)
    return;
  struct Case {
    const char *fails;
    unsigned kernels, fills;
  };
  // The second of two fills; at the end both a kernel and the fill stay.
  for (const Case &one : {Case{"cuGraphMemsetNodeGetParams:2", 3, 1},
                          Case{"cuGraphNodeGetDependencies:3", 3, 1},
                          Case{"cuGraphNodeGetDependentNodes:3", 3, 1},
                          Case{"cuGraphAddKernelNode_v2:2", 3, 1},
                          Case{"cuGraphAddDependencies:2", 3, 1},
                          Case{"cuGraphDestroyNode:2", 4, 1}}) {
    SCOPED_TRACE(one.fails);
    void *a = toDevice(Values(elements, 1)), *b = toDevice(Values(elements));
    void *operands[] = {a, b, b};
    ASSERT_FALSE(device->beginCapture());
    EXPECT_FALSE(device->zero(0, b, elements * 4));
    EXPECT_FALSE(device->launch(0, addKernel, operands));
    EXPECT_FALSE(device->zero(0, b, elements * 4));
    EXPECT_FALSE(device->launch(0, addKernel, operands));
    mpfake_fail(one.fails);
    Expected<std::unique_ptr<DeviceGraph>> graph = device->endCapture();
    mpfake_fail("");
    ASSERT_TRUE(graph) << graph.error().message();
    EXPECT_EQ((*graph)->nodes().kernels, one.kernels);
    EXPECT_EQ((*graph)->nodes().fills, one.fills);
    for (unsigned seed : {1, 2, 3}) {
      mpfake_seed(seed);
      EXPECT_FALSE(device->launchGraph(**graph));
      EXPECT_EQ(toHost(b, elements), Values(elements, 1));
    }
  }
}

TEST_P(DeviceCalls, KeepsFillsWithoutKernelsForThem) {
  if (GetParam() == onHost)
    return;
  void *b = toDevice(Values(elements, 1));
  ASSERT_FALSE(device->beginCapture());
  EXPECT_FALSE(device->zero(0, b, elements * 4));
  mpfake_fail("cuModuleLoadDataEx:1");
  Expected<std::unique_ptr<DeviceGraph>> graph = device->endCapture();
  mpfake_fail("");
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_EQ((*graph)->nodes().fills, 1u);
  EXPECT_FALSE(device->launchGraph(**graph));
  EXPECT_EQ(toHost(b, elements), Values(elements));
}

//===----------------------------------------------------------------------===//
// Images
//===----------------------------------------------------------------------===//

TEST(DeviceImages, ChoosesTheNearest) {
  const mprt_image images[] = {{80, 0, "a", 1}, {86, 0, "b", 1},
                               {90, 0, "c", 1}, {90, 1, "d", 1},
                               {80, 1, "e", 1}, {}};
  auto chosen = [&](unsigned chip) -> std::string {
    auto image = cuda::chooseImage(images, chip);
    return image ? static_cast<const char *>((*image)->data)
                 : image.error().message();
  };
  EXPECT_EQ(chosen(80), "a");
  EXPECT_EQ(chosen(86), "b");
  EXPECT_EQ(chosen(89), "b");
  EXPECT_EQ(chosen(90), "c");
  EXPECT_EQ(chosen(100), "d"); // no machine code of 10.x: PTX
  EXPECT_EQ(chosen(75), "the program has no kernels for sm_75, only: sm_80, "
                        "sm_86, sm_90, PTX for sm_90, PTX for sm_80");
  EXPECT_EQ(cuda::chooseImage(images + 5, 90).error().message(),
            "the program has no kernels for sm_90, only: none");
}

TEST(DeviceImages, TakesTextForOneChipThereAlone) {
  static const char one[] =
      "//\n.version 8.0\n.target sm_90a\n.address_size 64",
                    any[] = ".version 7.0\n.target sm_80, debug\n// sm_80a";
  const mprt_image images[] = {
      {80, 1, any, sizeof any}, {90, 1, one, sizeof one}, {}};
  auto chosen = [&](const mprt_image *from, unsigned chip) -> std::string {
    auto image = cuda::chooseImage(from, chip);
    return image ? static_cast<const char *>((*image)->data)
                 : image.error().message();
  };
  EXPECT_EQ(chosen(images, 90), one);
  EXPECT_EQ(chosen(images, 100), any);
  EXPECT_EQ(chosen(images + 1, 90), one);
  EXPECT_EQ(chosen(images + 1, 100),
            "the program has no kernels for sm_100, only: PTX for sm_90a, "
            "which runs on no other chip");
}

} // namespace
