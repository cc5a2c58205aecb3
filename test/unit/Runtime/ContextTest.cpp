//===- ContextTest.cpp - streams, events, errors of one process -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What needs no second rank. Collectives among ranks are the conformance
// suite's.
//
//===----------------------------------------------------------------------===//

#include "session/Context.h"
#include "comm/Validate.h"
#include "comm/shm/SharedRanks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

using namespace mprt;

namespace {

/// A rank that is alone in its world, with one communicator.
struct Alone {
  std::unique_ptr<shm::SharedRanks> world;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Context> context;

  explicit Alone(ContextOptions options = {}) {
    options.events = 2;
    world = shm::SharedRanks::create(1, {}).take();
    transport = world->join(0).take();
    std::vector<std::unique_ptr<Communicator>> communicators;
    communicators.push_back(transport->createCommunicator({0}).take());
    context =
        Context::create(options, transport.get(), std::move(communicators))
            .take();
  }
};

mprt_collective sum(uint64_t count) {
  mprt_collective collective{};
  collective.kind = MPRT_ALL_REDUCE;
  collective.type = collective.accumulate = MPRT_F32;
  collective.peer = -1;
  collective.count = count;
  collective.name = "grads";
  collective.location = "model.py:3";
  return collective;
}

void increment(void *const *args) { ++*static_cast<int *>(args[0]); }

TEST(ContextTest, RunsWithoutTransport) {
  auto context = Context::create({}, nullptr, {}).take();
  mprt_kernel kernel{};
  kernel.fn = increment;
  kernel.name = "increment";
  kernel.location = "here";
  kernel.bytes = 4;
  kernel.flops = 1;
  int value = 1;
  void *args[] = {&value};
  EXPECT_EQ(mprt_launch(context->handle(), 0, &kernel, args), MPRT_OK);
  EXPECT_EQ(value, 2);
  EXPECT_EQ(context->stats().launches, 1u);
  EXPECT_STREQ(mprt_message_of(context->handle()), "");
}

TEST(ContextTest, ErrorsAreSticky) {
  auto context = Context::create({}, nullptr, {}).take();
  mprt_kernel kernel{};
  kernel.fn = increment;
  kernel.name = "increment";
  kernel.location = "here";
  kernel.bytes = 4;
  kernel.flops = 1;
  int value = 1;
  void *args[] = {&value};
  EXPECT_EQ(mprt_launch(context->handle(), 3, &kernel, args),
            MPRT_INVALID_ARGUMENT);
  EXPECT_NE(strstr(mprt_message_of(context->handle()), "no stream 3"), nullptr);
  EXPECT_EQ(mprt_launch(context->handle(), 0, &kernel, args),
            MPRT_INVALID_ARGUMENT);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(mprt_status_of(context->handle()), MPRT_INVALID_ARGUMENT);
}

TEST(ContextTest, ChecksEvents) {
  Alone unrecorded;
  mprt_context *context = unrecorded.context->handle();
  EXPECT_EQ(mprt_stream_wait(context, 0, 1), MPRT_INVALID_ARGUMENT);
  EXPECT_NE(strstr(mprt_message_of(context), "never recorded"), nullptr);
  Alone outOfRange;
  context = outOfRange.context->handle();
  EXPECT_EQ(mprt_event_record(context, 1, 2), MPRT_INVALID_ARGUMENT);
  EXPECT_NE(strstr(mprt_message_of(context), "no event 2, only 2"), nullptr);
}

TEST(ContextTest, ChecksCollectives) {
  float data[4] = {};
  Alone wrongStream;
  mprt_collective collective = sum(4);
  collective.communicator = 1;
  EXPECT_EQ(mprt_collective_run(wrongStream.context->handle(), 2, &collective,
                                data, data),
            MPRT_INVALID_ARGUMENT);
  Alone nullBuffer;
  collective.communicator = 0;
  EXPECT_EQ(mprt_collective_run(nullBuffer.context->handle(), 1, &collective,
                                nullptr, data),
            MPRT_INVALID_ARGUMENT);
  EXPECT_NE(strstr(mprt_message_of(nullBuffer.context->handle()),
                   "all_reduce \"grads\" at model.py:3"),
            nullptr);
  for (auto [accumulate, message] :
       {std::pair(200, "unknown type to accumulate in 200"),
        std::pair(int(MPRT_I32), "sums of f32 cannot be kept in i32"),
        std::pair(int(MPRT_F16), "sums of f32 cannot be kept in f16")}) {
    Alone wrongSums;
    mprt_collective wrong = collective;
    wrong.accumulate = uint8_t(accumulate);
    EXPECT_EQ(
        mprt_collective_run(wrongSums.context->handle(), 1, &wrong, data, data),
        MPRT_INVALID_ARGUMENT);
    EXPECT_NE(strstr(mprt_message_of(wrongSums.context->handle()), message),
              nullptr)
        << mprt_message_of(wrongSums.context->handle());
  }
  Alone tooLarge;
  collective.count = uint64_t(1) << 60;
  EXPECT_EQ(mprt_collective_run(tooLarge.context->handle(), 1, &collective,
                                data, data),
            MPRT_INVALID_ARGUMENT);
}

/// What is wrong with a permute, or another kind, of 4 floats in a group of 3.
static std::string checkTargets(mprt_collective_kind kind,
                                const std::vector<int32_t> &targets) {
  mprt_collective collective = sum(4);
  collective.kind = uint8_t(kind);
  collective.peer = 0;
  collective.targets = targets.data();
  collective.num_targets = uint32_t(targets.size());
  float send[4], recv[12];
  Error error = validateCollective(collective, 3, 0, send, recv);
  return error ? error.message().substr(error.message().find(": ") + 2) : "";
}

TEST(ValidateTest, Targets) {
  EXPECT_EQ(checkTargets(MPRT_PERMUTE, {1, -1, 0}), "");
  EXPECT_EQ(checkTargets(MPRT_PERMUTE, {1, 0}), "expected 3 targets, found 2");
  EXPECT_EQ(checkTargets(MPRT_PERMUTE, {1, 3, 0}),
            "expected a rank of the group (0 to 2) or -1 as target of rank 1, "
            "found 3");
  EXPECT_EQ(checkTargets(MPRT_PERMUTE, {-2, 1, 0}),
            "expected a rank of the group (0 to 2) or -1 as target of rank 0, "
            "found -2");
  EXPECT_EQ(checkTargets(MPRT_PERMUTE, {1, 2, 1}),
            "rank 1 is the target of two ranks");
  EXPECT_EQ(checkTargets(MPRT_GATHER, {}), "");
  EXPECT_EQ(checkTargets(MPRT_GATHER, {1, 2, 0}),
            "expected 0 targets, found 3");
}

TEST(ValidateTest, BuffersOfRootedCollectives) {
  float data[16];
  int32_t targets[] = {1, -1};
  mprt_collective collective = sum(4);
  collective.peer = 0;
  auto check = [&](mprt_collective_kind kind, unsigned rank, const float *send,
                   const float *recv) {
    collective.kind = uint8_t(kind);
    collective.targets = kind == MPRT_PERMUTE ? targets : nullptr;
    collective.num_targets = kind == MPRT_PERMUTE ? 2 : 0;
    Error error = validateCollective(collective, 2, rank, send, recv);
    return error ? error.message().substr(error.message().find(": ") + 2) : "";
  };
  // A gather's result is 8 long, and so is what a scatter's root gives.
  EXPECT_EQ(check(MPRT_REDUCE, 1, data, data + 4), "");
  EXPECT_EQ(check(MPRT_REDUCE, 1, data, data + 3), "the buffers overlap");
  EXPECT_EQ(check(MPRT_GATHER, 1, data + 8, data), "");
  EXPECT_EQ(check(MPRT_GATHER, 1, data + 7, data), "the buffers overlap");
  EXPECT_EQ(check(MPRT_SCATTER, 0, data, data + 7), "the buffers overlap");
  // Others than the root, and a rank without target, need no buffer to send.
  EXPECT_EQ(check(MPRT_SCATTER, 1, nullptr, data), "");
  EXPECT_EQ(check(MPRT_SCATTER, 0, nullptr, data),
            "the buffer to send is null");
  EXPECT_EQ(check(MPRT_PERMUTE, 1, nullptr, data), "");
  EXPECT_EQ(check(MPRT_PERMUTE, 0, nullptr, data),
            "the buffer to send is null");
  EXPECT_EQ(check(MPRT_REDUCE, 1, data, nullptr),
            "the buffer to receive is null");
}

TEST(ContextTest, NamesTheProductThatFails) {
  Alone alone;
  mprt_gemm_desc product = {};
  product.m = -1;
  product.name = "logits";
  product.location = "model.py:12";
  EXPECT_EQ(mprt_gemm(alone.context->handle(), MPRT_COMPUTE_STREAM, &product,
                      nullptr, nullptr, nullptr),
            MPRT_INVALID_ARGUMENT);
  EXPECT_STREQ(mprt_message_of(alone.context->handle()),
               "mprt_gemm \"logits\" at model.py:12 on rank 0: a size is "
               "negative");
}

TEST(ContextTest, WhatHasElementsIsNotNull) {
  float values[4] = {};
  void *args[] = {values};
  auto messageOf = [](auto call) {
    Alone alone;
    mprt_context *context = alone.context->handle();
    call(context);
    return std::string(mprt_message_of(context));
  };
  auto endsWith = [](const std::string &message, const std::string &end) {
    EXPECT_TRUE(message.ends_with(end)) << message;
  };
  mprt_gemm_desc product = {};
  product.m = product.n = product.k = 2;
  product.strides_a[0] = product.strides_b[0] = product.strides_c[0] = 2;
  product.strides_a[1] = product.strides_b[1] = product.strides_c[1] = 1;
  void *const operands[] = {nullptr, values};
  for (int i = 0; i < 3; ++i)
    endsWith(messageOf([&](mprt_context *context) {
               mprt_gemm(context, 0, &product, operands[i != 0],
                         operands[i != 1], operands[i != 2]);
             }),
             std::string("operand ") + "abc"[i] + " is null");
  product.k = 0; // c becomes zero
  EXPECT_EQ(messageOf([&](mprt_context *context) {
              mprt_gemm(context, 0, &product, nullptr, nullptr, values);
            }),
            "");
  mprt_window_desc pool = {};
  pool.kind = MPRT_MAX_POOL;
  for (int64_t *sizes : {pool.input, pool.output})
    std::fill_n(sizes, 4, 1);
  for (int64_t *sizes : {pool.window, pool.strides, pool.dilation})
    std::fill_n(sizes, 2, 1);
  for (int i : {0, 2})
    endsWith(messageOf([&](mprt_context *context) {
               mprt_pool(context, 0, &pool, operands[i != 0], nullptr,
                         operands[i != 2]);
             }),
             std::string("operand ") + "abc"[i] + " is null");
  pool.input[0] = pool.output[0] = 0;
  EXPECT_EQ(messageOf([&](mprt_context *context) {
              mprt_pool(context, 0, &pool, nullptr, nullptr, nullptr);
            }),
            "");
  mprt_kernel kernel = {};
  kernel.operands = 1;
  endsWith(messageOf([&](mprt_context *context) {
             mprt_launch(context, 0, &kernel, nullptr);
           }),
           "args is null, expected pointers to 1 operands");
  product.k = 2;
  mprt_epilogue epilogue = {};
  epilogue.kind = MPRT_BIAS;
  epilogue.count = 1;
  const mprt_kernel *kernels[] = {nullptr};
  auto runEpilogue = [&](void *const *pointers) {
    return messageOf([&](mprt_context *context) {
      mprt_gemm_epilogue(context, 0, &product, values, values, values,
                         &epilogue, pointers);
    });
  };
  endsWith(runEpilogue(args), "kernels is null, expected 1 of an epilogue");
  epilogue.kernels = kernels;
  endsWith(runEpilogue(args), "kernel 0 of an epilogue is null");
  kernels[0] = &kernel;
  endsWith(runEpilogue(nullptr),
           "args is null, expected pointers to 1 operands");
  endsWith(messageOf([&](mprt_context *context) {
             mprt_copy(context, 0, nullptr, values, 4);
           }),
           "dst is null");
  endsWith(messageOf([&](mprt_context *context) {
             mprt_copy(context, 0, values, nullptr, 4);
           }),
           "src is null");
  endsWith(messageOf([&](mprt_context *context) {
             mprt_zero(context, 0, nullptr, 4);
           }),
           "dst is null");
  endsWith(messageOf([&](mprt_context *context) {
             EXPECT_EQ(mprt_constant(context, nullptr, 4), nullptr);
           }),
           "host is null");
  EXPECT_EQ(messageOf([&](mprt_context *context) {
              mprt_copy(context, 0, nullptr, nullptr, 0);
              mprt_zero(context, 0, nullptr, 0);
              mprt_constant(context, nullptr, 0);
            }),
            "");
}

TEST(ContextTest, TakesConvolutionsAndPoolsByTheirOwnCalls) {
  Alone alone;
  mprt_window_desc pool = {};
  pool.kind = MPRT_MAX_POOL;
  pool.name = "max_pool";
  pool.location = "model.py:8";
  EXPECT_EQ(mprt_convolution(alone.context->handle(), MPRT_COMPUTE_STREAM,
                             &pool, nullptr, nullptr, nullptr),
            MPRT_INVALID_ARGUMENT);
  EXPECT_STREQ(mprt_message_of(alone.context->handle()),
               "mprt_convolution \"max_pool\" at model.py:8 on rank 0: its "
               "descriptor has the kind 3");
}

TEST(ContextTest, NamesThePoolThatFails) {
  Alone alone;
  mprt_window_desc pool = {};
  pool.kind = MPRT_MAX_POOL;
  pool.type = MPRT_I64;
  pool.name = "max_pool";
  pool.location = "model.py:7";
  EXPECT_EQ(mprt_pool(alone.context->handle(), MPRT_COMPUTE_STREAM, &pool,
                      nullptr, nullptr, nullptr),
            MPRT_UNSUPPORTED);
  EXPECT_STREQ(mprt_message_of(alone.context->handle()),
               "mprt_pool \"max_pool\" at model.py:7 on rank 0: no "
               "convolution or pool of i64");
}

TEST(ContextTest, RunsTheKernelsOfAnEpilogue) {
  ContextOptions options;
  options.traceCapacity = 8;
  Alone alone(options);
  mprt_kernel kernel{};
  kernel.fn = [](void *const *args) { *static_cast<float *>(args[1]) += 1; };
  kernel.operands = 2;
  kernel.bytes = 8;
  kernel.flops = 1;
  const mprt_kernel *kernels[] = {&kernel, &kernel};
  mprt_epilogue epilogue = {};
  epilogue.kind = MPRT_BIAS;
  epilogue.count = 2;
  epilogue.kernels = kernels;
  mprt_gemm_desc product = {};
  product.m = product.n = product.k = 1;
  product.strides_a[1] = product.strides_b[1] = product.strides_c[1] = 1;
  product.name = "gemm";
  product.location = "model.py:9";
  float a = 3, b = 5, c = 0, bias = 0;
  void *args[] = {&bias, &c};
  mprt_context *context = alone.context->handle();
  EXPECT_EQ(mprt_gemm_epilogue(context, MPRT_COMPUTE_STREAM, &product, &a, &b,
                               &c, &epilogue, args),
            MPRT_OK);
  EXPECT_EQ(c, 3 * 5 + 2);
  EXPECT_EQ(alone.context->stats().gemms, 1u);
  EXPECT_EQ(alone.context->stats().launches, 2u);
  std::vector<TraceEvent> events = alone.context->trace().events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, TraceEvent::Gemm);
  EXPECT_EQ(events[0].bytes, 3 * sizeof(float) + 2 * 8);
  EXPECT_EQ(events[0].flops, 2u + 2);

  epilogue.bias = 2;
  EXPECT_EQ(mprt_gemm_epilogue(context, MPRT_COMPUTE_STREAM, &product, &a, &b,
                               &c, &epilogue, args),
            MPRT_INVALID_ARGUMENT);
  EXPECT_STREQ(mprt_message_of(context),
               "mprt_gemm_epilogue \"gemm\" at model.py:9 on rank 0: an "
               "epilogue of kind 1 beside 2 kernels, expected a kind from 1 "
               "to 7, and kernels that have its bias and its matrix");
}

TEST(ContextTest, StreamsKeepTheirOrder) {
  Alone alone;
  mprt_context *context = alone.context->handle();
  float source[3] = {1, 2, 3}, target[3] = {};
  mprt_collective collective = sum(3);
  mprt_copy(context, 1, target, source, sizeof(source));
  mprt_zero(context, 1, source, sizeof(source));
  mprt_collective_run(context, 1, &collective, target, source);
  mprt_event_record(context, 1, 0);
  mprt_stream_wait(context, 0, 0);
  ASSERT_EQ(mprt_status_of(context), MPRT_OK);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(source[i], float(i + 1));
}

TEST(ContextTest, QueuesGrow) {
  Alone alone;
  mprt_context *context = alone.context->handle();
  std::vector<float> data(1000);
  mprt_collective collective = sum(1);
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = float(i);
    mprt_collective_run(context, 1, &collective, &data[i], &data[i]);
  }
  EXPECT_FALSE(alone.context->synchronize());
  EXPECT_EQ(alone.context->stats().collectives, 1000u);
  EXPECT_EQ(alone.context->stats().collectiveBytes, 4000u);
  EXPECT_EQ(data[999], 999.0f);
}

TEST(ContextTest, TracesKernelsAndCollectives) {
  ContextOptions options;
  options.traceCapacity = 8;
  Alone alone(options);
  mprt_context *context = alone.context->handle();
  mprt_kernel kernel{};
  kernel.fn = increment;
  kernel.name = "increment";
  kernel.location = "here";
  kernel.bytes = 4;
  kernel.flops = 1;
  int value = 0;
  void *args[] = {&value};
  float data[4] = {};
  mprt_collective collective = sum(4);
  mprt_launch(context, 0, &kernel, args);
  mprt_collective_run(context, 1, &collective, data, data);
  ASSERT_FALSE(alone.context->synchronize());
  std::vector<TraceEvent> events = alone.context->trace().events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, TraceEvent::Kernel);
  EXPECT_STREQ(events[0].name, "increment");
  EXPECT_EQ(events[1].kind, TraceEvent::Collective);
  EXPECT_EQ(events[1].stream, 1u);
  EXPECT_STREQ(events[1].location, "model.py:3");
  EXPECT_EQ(events[1].bytes, 16u);
  EXPECT_LE(events[1].begin, events[1].end);
}

TEST(ContextTest, TracesTheWorkOfProducts) {
  ContextOptions options;
  options.traceCapacity = 8;
  Alone alone(options);
  // C[2, 2, 4] += A[2, 2, 3] B[3, 4], of which the batches share B.
  mprt_gemm_desc product = {};
  product.m = 2, product.n = 4, product.k = 3;
  product.accumulate = 1;
  product.batch_rank = 1;
  product.batch[0] = 2, product.batch_a[0] = 6, product.batch_c[0] = 8;
  product.strides_a[0] = 3, product.strides_a[1] = 1;
  product.strides_b[0] = 4, product.strides_b[1] = 1;
  product.strides_c[0] = 4, product.strides_c[1] = 1;
  float a[12] = {}, b[12] = {}, c[16] = {};
  ASSERT_EQ(mprt_gemm(alone.context->handle(), MPRT_COMPUTE_STREAM, &product, a,
                      b, c),
            MPRT_OK);
  std::vector<TraceEvent> events = alone.context->trace().events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, TraceEvent::Gemm);
  EXPECT_EQ(events[0].flops, 2u * 2 * 2 * 3 * 4);
  EXPECT_EQ(events[0].bytes, sizeof(a) + sizeof(b) + 2 * sizeof(c));
  EXPECT_STREQ(events[0].type, "f32");
}

TEST(ContextTest, RefusesBadTimeouts) {
  ContextOptions options;
  options.timeoutSeconds = 0;
  EXPECT_FALSE(Context::create(options, nullptr, {}));
}

TEST(WorldTest, RefusesBadRanks) {
  EXPECT_FALSE(shm::SharedRanks::create(0, {}));
  auto world = shm::SharedRanks::create(2, {}).take();
  EXPECT_FALSE(world->join(2));
  auto transport = world->join(1).take();
  EXPECT_FALSE(world->join(1)); // twice
  EXPECT_FALSE(transport->createCommunicator({0}));
  EXPECT_FALSE(transport->createCommunicator({1, 0}));
  EXPECT_FALSE(transport->createCommunicator({1, 2}));
}

TEST(WorldTest, AllocatesZeroedPagesUntilTheEnd) {
  shm::SharedRanksOptions options;
  options.arenaBytes = 1 << 20;
  auto world = shm::SharedRanks::create(1, options).take();
  auto transport = world->join(0).take();
  auto *memory = static_cast<uint8_t *>(*transport->allocate(5000));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
  for (int i = 0; i < 5000; ++i)
    ASSERT_EQ(memory[i], 0);
  Expected<void *> tooMuch = transport->allocate(1 << 20);
  ASSERT_FALSE(tooMuch);
  EXPECT_EQ(tooMuch.error().status(), MPRT_OUT_OF_MEMORY);
  EXPECT_TRUE(bool(transport->allocate((1 << 20) - 8192)));
}

} // namespace
