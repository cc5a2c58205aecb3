//===- CudaAttentionTest.cpp - attention by cuDNN or by kernels -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Against the test doubles of the driver and of cuDNN, which computes the graph
// op by op. Results are compared with the definition in f64; operands have gaps
// between their rows, which must not change.
//
//===----------------------------------------------------------------------===//

#include "FakeDevice.h"
#include "device/Descriptors.h"
#include "device/cuda/Attention.h"
#include "support/DType.h"

#include <array>
#include <cmath>
#include <random>

using namespace mprt;
using namespace mprt::cuda;

namespace {

/// Unit roundoff of a type.
double unitOf(uint8_t type) { return type == MPRT_BF16 ? 0x1p-8 : 0x1p-11; }

/// A tensor with values, as the definition has them, of four dimensions or
/// three.
struct Values {
  std::array<int64_t, 4> sizes{}, strides{};
  uint8_t type = MPRT_F32;
  std::vector<double> numbers;

  int64_t count() const { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }
  int64_t at(int64_t a, int64_t b, int64_t c, int64_t d = 0) const {
    return ((a * sizes[1] + b) * sizes[2] + c) * sizes[3] + d;
  }
  int64_t offset(int64_t i) const {
    int64_t at = 0;
    for (size_t d = 4; d-- > 0; i /= sizes[d])
      at += i % sizes[d] * strides[d];
    return at;
  }
  size_t bytes() const {
    return size_t(offset(count() - 1) + 1) * sizeOf(mprt_dtype(type));
  }
  void put(std::vector<char> &to, int64_t i) const {
    char *place = to.data() + size_t(offset(i)) * sizeOf(mprt_dtype(type));
    auto value = float(numbers[size_t(i)]);
    uint16_t half = type == MPRT_F16 ? floatToF16(value) : floatToBf16(value);
    if (type == MPRT_F32)
      std::memcpy(place, &value, sizeof value);
    else
      std::memcpy(place, &half, sizeof half);
  }
  double get(const std::vector<char> &from, int64_t i) const {
    const char *place =
        from.data() + size_t(offset(i)) * sizeOf(mprt_dtype(type));
    if (type == MPRT_F32) {
      float value;
      std::memcpy(&value, place, sizeof value);
      return value;
    }
    uint16_t half;
    std::memcpy(&half, place, sizeof half);
    return type == MPRT_F16 ? f16ToFloat(half) : bf16ToFloat(half);
  }
};

/// Attention and its gradient by their definition, and what rounding may do to
/// each number: `bounds` are of the results' names.
struct Problem {
  Problem(int64_t batch, int64_t heads, int64_t rows, int64_t columns,
          int64_t size, uint8_t type, bool isCausal)
      : batch(batch), heads(heads), rows(rows), columns(columns), size(size),
        type(type), isCausal(isCausal) {}

  int64_t batch, heads, rows, columns, size;
  uint8_t type;
  bool isCausal;
  double scale = 0.25;
  int64_t gap = 0; ///< elements between the rows of operands
  Values q, k, v, out, lse, dout, dq, dk, dv;
  Values outBound, lseBound, dqBound, dkBound, dvBound;

  Values make(int64_t positions) const {
    Values made;
    made.sizes = {batch, positions, heads, size};
    int64_t row = heads * size + gap;
    made.strides = {positions * row, row, size, 1};
    made.type = type;
    made.numbers.resize(size_t(made.count()));
    return made;
  }

  void draw(std::mt19937 &random) {
    q = make(rows), out = make(rows), dout = make(rows), dq = make(rows);
    k = make(columns), v = make(columns), dk = make(columns);
    dv = make(columns);
    lse.sizes = {batch, heads, rows, 1};
    lse.strides = {heads * rows, rows, 1, 1};
    lse.numbers.resize(size_t(lse.count()));
    std::normal_distribution<float> normal;
    for (Values *one : {&q, &k, &v, &dout})
      for (double &number : one->numbers)
        number = type == MPRT_F16 ? f16ToFloat(floatToF16(normal(random)))
                                  : bf16ToFloat(floatToBf16(normal(random)));
    outBound = out, lseBound = lse, dqBound = dq, dkBound = dk, dvBound = dv;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        solve(b, h);
  }

private:
  /// Numbers between operations are f32: a few roundings of 2^-24 each of
  /// scores, whose exponentials are off by as much. Probabilities and
  /// gradients of scores are rounded to the type once, results once more; of
  /// f16, small ones by up to 2^-25.
  void solve(int64_t b, int64_t h) {
    double u = unitOf(type), tiny = 16 * 0x1p-24, least = 0x1p-24;
    for (int64_t i = 0; i < rows; ++i) {
      int64_t kept = isCausal ? std::min(i + 1, columns) : columns;
      std::vector<double> s(size_t(kept), 0), p(size_t(kept), 0);
      double most = -INFINITY, sum = 0, largest = 1;
      for (int64_t j = 0; j < kept; ++j) {
        double &score = s[size_t(j)];
        for (int64_t d = 0; d < size; ++d)
          score += scale * q.numbers[size_t(q.at(b, i, h, d))] *
                   k.numbers[size_t(k.at(b, j, h, d))];
        most = std::max(most, score);
        largest = std::max(largest, std::abs(score));
      }
      for (int64_t j = 0; j < kept; ++j)
        sum += p[size_t(j)] = std::exp(s[size_t(j)] - most);
      lse.numbers[size_t(lse.at(b, h, i))] = most + std::log(sum);
      double wide = tiny * (largest + 1);
      lseBound.numbers[size_t(lse.at(b, h, i))] = wide;
      double delta = 0, deltaSize = 0;
      for (int64_t d = 0; d < size; ++d) {
        double result = 0, bound = 0, values = 1;
        for (int64_t j = 0; j < kept; ++j) {
          double term =
              p[size_t(j)] / sum * v.numbers[size_t(v.at(b, j, h, d))];
          result += term;
          bound += std::abs(term);
          values += std::abs(v.numbers[size_t(v.at(b, j, h, d))]);
        }
        // The gradient reads what the type holds of it.
        double held = type == MPRT_F16
                          ? f16ToFloat(floatToF16(float(result)))
                          : bf16ToFloat(floatToBf16(float(result)));
        out.numbers[size_t(out.at(b, i, h, d))] = held;
        outBound.numbers[size_t(out.at(b, i, h, d))] =
            (3 * u + wide) * bound + least * values;
        double product = held * dout.numbers[size_t(dout.at(b, i, h, d))];
        delta += product;
        deltaSize += std::abs(product);
      }
      for (int64_t j = 0; j < kept; ++j) {
        double dp = 0, dpSize = 0;
        for (int64_t d = 0; d < size; ++d) {
          double product = dout.numbers[size_t(dout.at(b, i, h, d))] *
                           v.numbers[size_t(v.at(b, j, h, d))];
          dp += product;
          dpSize += std::abs(product);
        }
        double weight = p[size_t(j)] / sum, ds = scale * weight * (dp - delta);
        double dsBound = (2 * u) * std::abs(ds) +
                         wide * scale * weight * (dpSize + deltaSize);
        for (int64_t d = 0; d < size; ++d) {
          auto add = [&](Values &to, Values &bounds, int64_t at, double factor,
                         double number, double off) {
            to.numbers[size_t(at)] += factor * number;
            bounds.numbers[size_t(at)] += off * std::abs(number) +
                                          u * std::abs(factor * number) +
                                          least * (std::abs(number) + 1);
          };
          add(dq, dqBound, dq.at(b, i, h, d), ds,
              k.numbers[size_t(k.at(b, j, h, d))], dsBound);
          add(dk, dkBound, dk.at(b, j, h, d), ds,
              q.numbers[size_t(q.at(b, i, h, d))], dsBound);
          add(dv, dvBound, dv.at(b, j, h, d), weight,
              dout.numbers[size_t(dout.at(b, i, h, d))],
              (2 * u + wide) * weight);
        }
      }
    }
  }
};

class CudaAttention : public FakeDevice {
protected:
  void SetUp() override {
    FakeDevice::SetUp();
    setenv("MPRT_ATTENTION", "cudnn", 1);
  }
  void TearDown() override {
    unsetenv("MPRT_ATTENTION");
    unsetenv("MPRT_CUDA_TUNE");
    freeAll();
    FakeDevice::TearDown();
  }

  /// A call with its operands on the device.
  struct Call {
    mprt_attention_desc desc = {};
    std::vector<void *> args;
    std::vector<const Values *> results, bounds;
    std::vector<std::vector<char>> before; ///< what results held
    void *mask = nullptr;
  };

  Call makeCall(const Problem &problem, bool isGradient) {
    Call call;
    mprt_attention_desc &d = call.desc;
    d.kind = isGradient ? MPRT_ATTENTION_GRAD : MPRT_ATTENTION;
    d.type = problem.type;
    d.has_mask = problem.isCausal;
    d.batch = problem.batch, d.heads = problem.heads, d.rows = problem.rows;
    d.columns = problem.columns, d.size = problem.size;
    d.scale = problem.scale;
    d.location = "here";
    auto add = [&](const Values &values, const Values *bounds) {
      std::copy_n(values.strides.data(), 4, d.strides[call.args.size()]);
      std::vector<char> bytes(values.bytes(), 0x11);
      if (!bounds)
        for (int64_t i = 0; i < values.count(); ++i)
          values.put(bytes, i);
      call.args.push_back(toDevice(bytes));
      if (bounds) {
        call.results.push_back(&values);
        call.bounds.push_back(bounds);
        call.before.push_back(bytes);
      }
    };
    auto addMask = [&] {
      if (!d.has_mask)
        return;
      std::vector<char> bytes;
      for (int64_t i = 0; i < problem.rows; ++i)
        for (int64_t j = 0; j < problem.columns; ++j)
          bytes.push_back(j <= i);
      int64_t strides[] = {problem.columns, 1, 0, 0};
      std::copy_n(strides, 4, d.strides[call.args.size()]);
      call.args.push_back(call.mask = toDevice(bytes));
    };
    const Problem &p = problem;
    if (isGradient) {
      for (const Values *one : {&p.dout, &p.q, &p.k, &p.v, &p.out, &p.lse})
        add(*one, nullptr);
      addMask();
      add(p.dq, &p.dqBound), add(p.dk, &p.dkBound), add(p.dv, &p.dvBound);
    } else {
      for (const Values *one : {&p.q, &p.k, &p.v})
        add(*one, nullptr);
      addMask();
      add(p.out, &p.outBound), add(p.lse, &p.lseBound);
    }
    return call;
  }

  /// Results within their bounds, and nothing else written.
  void compare(const Call &call) {
    size_t first = call.args.size() - call.results.size();
    for (size_t r = 0; r < call.results.size(); ++r) {
      const Values &expected = *call.results[r];
      std::vector<char> found = toHost(call.args[first + r], expected.bytes());
      for (int64_t i = 0; i < expected.count(); ++i)
        ASSERT_LE(
            std::abs(expected.get(found, i) - expected.numbers[size_t(i)]),
            call.bounds[r]->numbers[size_t(i)])
            << "result " << r << ", element " << i << " of "
            << expected.numbers[size_t(i)];
      std::vector<char> rest = call.before[r];
      for (int64_t i = 0; i < expected.count(); ++i) {
        size_t bytes = sizeOf(mprt_dtype(expected.type)),
               at = size_t(expected.offset(i)) * bytes;
        std::memcpy(rest.data() + at, found.data() + at, bytes);
      }
      ASSERT_TRUE(rest == found) << "result " << r << " wrote between rows";
    }
  }

  static Problem small(uint8_t type = MPRT_BF16, bool isCausal = true) {
    Problem problem(2, 2, 20, 20, 16, type, isCausal);
    std::mt19937 random(3);
    problem.draw(random);
    return problem;
  }

  /// Kernels that take `microseconds` and count their runs.
  std::function<Error()> kernels(uint64_t microseconds) {
    return [this, microseconds] {
      ++kernelRuns;
      mpfake_enqueue(
          stream, "kernels",
          [](void *time) {
            mpfake_elapse(*static_cast<uint64_t *>(time));
            return 0;
          },
          new uint64_t(microseconds),
          [](void *time) { delete static_cast<uint64_t *>(time); });
      return Error();
    };
  }

  /// Whether the library ran.
  bool run(Attention &attention, const Call &call, uint64_t microseconds = 0) {
    Expected<bool> taken = attention.run(call.desc, stream, call.args.data(),
                                         kernels(microseconds));
    EXPECT_TRUE(bool(taken)) << taken.error().message();
    return taken && *taken;
  }

  static void expectIn(const std::string &text, const char *part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }

  /// Of the fake device's clock, which also tells the time that plans take.
  static constexpr uint64_t slowKernels = 10'000'000;
  uint64_t kernelRuns = 0;
};

TEST_F(CudaAttention, EqualsTheDefinition) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    mpfake_seed(seed);
    auto one = [&](int64_t most) {
      return 1 + int64_t(random() % uint64_t(most));
    };
    bool isCausal = random() % 2;
    int64_t rows = one(40), columns = isCausal ? rows : one(40);
    Problem problem(one(2), one(3), rows, columns, 16 * one(4),
                    uint8_t(random() % 2 ? MPRT_BF16 : MPRT_F16), isCausal);
    problem.gap = 16 * int64_t(random() % 3);
    problem.scale = 1 / std::sqrt(double(problem.size));
    problem.draw(random);
    Attention attention(*driver);
    for (bool isGradient : {false, true}) {
      Call call = makeCall(problem, isGradient);
      EXPECT_TRUE(run(attention, call));
      compare(call);
      if (HasFailure())
        return;
      // The plan is ready for a graph.
      size_t first = call.args.size() - call.results.size();
      for (size_t r = 0; r < call.results.size(); ++r)
        overwrite(call.args[first + r], call.before[r]);
      replay([&] { EXPECT_TRUE(run(attention, call)); });
      compare(call);
      if (HasFailure())
        return;
    }
    EXPECT_EQ(kernelRuns, 0u);
    freeAll();
  }
}

TEST_F(CudaAttention, TakesTheFasterOneOnceAllRanksWantIt) {
  unsetenv("MPRT_ATTENTION");
  Problem problem = small();
  Attention attention(*driver);
  Call call = makeCall(problem, false);
  // Kernels are slower than the library's fastest plan, but run until then.
  EXPECT_FALSE(run(attention, call, slowKernels));
  EXPECT_EQ(kernelRuns, 4u);
  std::vector<LibraryVote> votes = attention.unsettled();
  ASSERT_EQ(votes.size(), 1u);
  EXPECT_EQ(votes[0].wants, 1u);
  EXPECT_EQ(attention.deviceBytes(), 0u);
  EXPECT_FALSE(run(attention, call, slowKernels));
  replay([&] { EXPECT_FALSE(run(attention, call, slowKernels)); });
  // Votes on something else settle nothing.
  attention.settle(std::vector<LibraryVote>{{votes[0].key + 1, 1}});
  EXPECT_EQ(attention.unsettled().size(), 1u);
  attention.settle(votes);
  EXPECT_TRUE(attention.unsettled().empty());
  EXPECT_GT(attention.deviceBytes(), 0u);
  uint64_t fast = mpfake_count("cudnnBackendExecute/fast"),
           slow = mpfake_count("cudnnBackendExecute/slow");
  EXPECT_TRUE(run(attention, call));
  compare(call);
  replay([&] { EXPECT_TRUE(run(attention, call)); });
  EXPECT_EQ(mpfake_count("cudnnBackendExecute/fast"), fast + 2);
  EXPECT_EQ(mpfake_count("cudnnBackendExecute/slow"), slow);
  EXPECT_EQ(kernelRuns, 4u);
  expectIn(attention.describeChoices(), "by cuDNN (cuDNN ");

  // Another call of the same shape does not measure again.
  Call other = makeCall(problem, false);
  EXPECT_TRUE(run(attention, other));
  EXPECT_EQ(kernelRuns, 4u);

  // A rank that does not want it, or for which kernels are faster.
  Attention outvoted(*driver);
  EXPECT_FALSE(run(outvoted, call, slowKernels));
  votes = outvoted.unsettled();
  ASSERT_EQ(votes.size(), 1u);
  votes.push_back({votes[0].key, 0});
  outvoted.settle(votes);
  EXPECT_TRUE(outvoted.unsettled().empty());
  EXPECT_FALSE(run(outvoted, call));
  expectIn(outvoted.describeChoices(), "not on all ranks");
  Attention fastKernels(*driver);
  Call gradient = makeCall(problem, true);
  EXPECT_FALSE(run(fastKernels, gradient, 0));
  votes = fastKernels.unsettled();
  ASSERT_EQ(votes.size(), 1u);
  // Less than the few microseconds of a plan on the fake device.
  EXPECT_EQ(votes[0].wants, 0u);
  fastKernels.settle(votes);
  EXPECT_EQ(fastKernels.deviceBytes(), 0u);
  EXPECT_FALSE(run(fastKernels, gradient));
}

TEST_F(CudaAttention, KeepsKernelsWhereItMayNotMeasure) {
  unsetenv("MPRT_ATTENTION");
  Problem problem = small();
  Call call = makeCall(problem, false);
  Attention captured(*driver);
  replay([&] { EXPECT_FALSE(run(captured, call)); });
  EXPECT_TRUE(captured.unsettled().empty());
  setenv("MPRT_CUDA_TUNE", "0", 1);
  Attention untuned(*driver);
  EXPECT_FALSE(run(untuned, call));
  ASSERT_EQ(untuned.unsettled().size(), 1u);
  EXPECT_EQ(untuned.unsettled()[0].wants, 0u);
  EXPECT_EQ(kernelRuns, 0u);
  // By hand the first plan that works, untimed.
  setenv("MPRT_ATTENTION", "cudnn", 1);
  Attention byHand(*driver);
  uint64_t slow = mpfake_count("cudnnBackendExecute/slow");
  EXPECT_TRUE(run(byHand, call));
  EXPECT_EQ(mpfake_count("cudnnBackendExecute/slow"), slow + 5);
  EXPECT_EQ(byHand.sharedSettings(), "MPRT_ATTENTION=cudnn");
  setenv("MPRT_ATTENTION", "kernels", 1);
  EXPECT_TRUE(run(byHand, call)); // it has been read
  Attention never(*driver);
  EXPECT_FALSE(run(never, call));
  EXPECT_EQ(never.sharedSettings(), "MPRT_ATTENTION=kernels");
  setenv("MPRT_ATTENTION", "flash", 1);
  Attention unknown(*driver);
  EXPECT_EQ(unknown.checkMode().message(),
            "MPRT_ATTENTION is 'flash', expected auto, cudnn or kernels");
  Expected<bool> taken =
      unknown.run(call.desc, stream, call.args.data(), kernels(0));
  ASSERT_FALSE(bool(taken));
  EXPECT_EQ(taken.error().message(), unknown.checkMode().message());
}

TEST_F(CudaAttention, ReadsMasks) {
  Problem problem = small();
  Call call = makeCall(problem, true);
  std::vector<char> mask = toHost(call.mask, 400);
  Attention attention(*driver);
  EXPECT_TRUE(run(attention, call));
  // What replaces it has to be causal too, be it a part of what is uploaded.
  EXPECT_FALSE(attention.checkUpload(call.mask, mask.data(), 400));
  EXPECT_FALSE(attention.checkUpload(static_cast<char *>(call.mask) + 400,
                                     std::vector<char>(8, 1).data(), 8));
  std::vector<char> part(30, 0);
  std::copy_n(mask.begin() + 40, 20, part.begin() + 5);
  auto from = static_cast<char *>(call.mask) + 35;
  Error error = attention.checkUpload(from, part.data(), part.size());
  EXPECT_EQ(error.status(), MPRT_UNSUPPORTED);
  expectIn(error.message(), "the mask of attention at here was causal");
  std::copy_n(mask.begin() + 35, 30, part.begin());
  EXPECT_FALSE(attention.checkUpload(from, part.data(), part.size()));
  // Any other mask is the kernels'.
  for (int64_t element : {1, 20, 399}) {
    std::vector<char> wrong = mask;
    wrong[size_t(element)] ^= 1;
    Call masked = makeCall(problem, true);
    overwrite(masked.mask, wrong);
    Attention others(*driver);
    EXPECT_FALSE(run(others, masked));
    EXPECT_TRUE(others.unsettled().empty());
    EXPECT_EQ(others.describeChoices(),
              "attention by kernels (masks that are not causal)");
    EXPECT_FALSE(others.checkUpload(masked.mask, mask.data(), 400));
  }
}

TEST_F(CudaAttention, FallsBackToKernels) {
  Problem problem = small();
  for (bool isGradient : {false, true}) {
    Call call = makeCall(problem, isGradient);
    // Any call of the library that fails before the choice.
    for (const char *name :
         {"cudnnCreate", "cudnnSetStream", "cudnnBackendCreateDescriptor",
          "cudnnBackendSetAttribute", "cudnnBackendFinalize",
          "cudnnBackendGetAttribute", "cudnnBackendExecute"}) {
      uint64_t before = mpfake_count(name);
      Attention attention(*driver);
      EXPECT_TRUE(run(attention, call));
      uint64_t calls = mpfake_count(name) - before;
      ASSERT_GE(calls, 1u);
      for (uint64_t n = 1; n <= calls; n += 1 + calls / 50) {
        SCOPED_TRACE(name + (", call " + std::to_string(n)));
        mpfake_fail(
            (std::string(name) + ":" + std::to_string(n) + ":5000").c_str());
        Attention failing(*driver);
        Expected<bool> taken =
            failing.run(call.desc, stream, call.args.data(), kernels(0));
        mpfake_fail("");
        // It is taken with another plan, or not; the last call of each runs
        // the plan that was chosen, and that is an error.
        if (taken && *taken) {
          compare(call);
          if (HasFailure())
            return;
        } else if (taken) {
          expectIn(failing.describeChoices(), "by kernels (");
        } else {
          expectIn(taken.error().message(), isGradient
                                                ? "the gradient of attention "
                                                  "by cuDNN: cudnn"
                                                : "attention by cuDNN: cudnn");
        }
      }
    }
    Attention attention(*driver);
    mpfake_fail("cuMemAlloc:1");
    EXPECT_FALSE(run(attention, call));
    mpfake_fail("");
    expectIn(attention.describeChoices(), "MiB of scratch");
    // Versions whose attention is wrong, or other.
    for (const char *version : {"8902", "91001"}) {
      setenv("MPFAKE_CUDNN_VERSION", version, 1);
      Attention refused(*driver);
      EXPECT_FALSE(run(refused, call));
      unsetenv("MPFAKE_CUDNN_VERSION");
      expectIn(refused.describeChoices(), "is not used for attention");
    }
    // Operands that the library cannot read.
    Call shifted = call;
    shifted.args[0] = static_cast<char *>(shifted.args[0]) + 2;
    Attention unaligned(*driver);
    EXPECT_FALSE(run(unaligned, shifted));
    expectIn(unaligned.describeChoices(), "not aligned");
  }
}

TEST_F(CudaAttention, ChecksDescriptors) {
  Problem problem = small();
  mprt_attention_desc d = makeCall(problem, true).desc;
  mprt_kernel kernel = {};
  kernel.operands = 10;
  const mprt_kernel *list[] = {&kernel};
  d.kernels = list, d.count = 1;
  EXPECT_FALSE(check(d));
  kernel.operands = 9;
  expectIn(check(d).message(), "expected one with 10 operands");
  d.count = 0;
  expectIn(check(d).message(), "without kernels");
  d.type = MPRT_F32;
  expectIn(check(d).message(), "expected 0 or 1, bf16 or f16, and 0 or 1");
  d.size = 0;
  expectIn(check(d).message(), "a size of 0");
}

} // namespace
