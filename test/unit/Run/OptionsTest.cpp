//===- OptionsTest.cpp - the command line ---------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is accepted, and what each mistake is answered with.
//
//===----------------------------------------------------------------------===//

#include "launch/RunOptions.h"

#include <gtest/gtest.h>

using namespace mpcomm::run;

static std::string errorOf(std::vector<std::string> arguments) {
  Expected<RunOptions> options = parseOptions(arguments);
  return options.failed() ? options.message() : "";
}

TEST(Options, BothSpellings) {
  Expected<RunOptions> options =
      parseOptions({"step.so", "--np", "4", "--steps=7", "--lr", "1e-3",
                    "--set", "beta=0.5", "--lr-schedule", "cosine",
                    "--no-shuffle", "--seed", "18446744073709551615"});
  ASSERT_TRUE(options.ok()) << options.message();
  EXPECT_EQ(options->program, "step.so");
  EXPECT_EQ(options->ranks, 4u);
  EXPECT_EQ(options->steps, 7u);
  EXPECT_EQ(options->lr, 1e-3);
  EXPECT_EQ(options->hyperparameters.at("beta"), 0.5);
  EXPECT_EQ(options->lrSchedule, DecayKind::Cosine);
  EXPECT_FALSE(options->shuffle);
  EXPECT_EQ(options->seed, ~uint64_t(0));
}

TEST(Options, DataIsAList) {
  Expected<RunOptions> options = parseOptions(
      {"step.so", "--tokens", "a", "--tokens", "b", "--token-arguments",
       "input_ids,labels+1", "--image-mean", "0.5,1", "--evaluate-every", "3"});
  ASSERT_TRUE(options.ok()) << options.message();
  EXPECT_TRUE(options->data.areTokens);
  EXPECT_EQ(options->data.paths, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(options->format.tokenArguments,
            (std::vector<std::pair<std::string, uint64_t>>{{"input_ids", 0},
                                                           {"labels", 1}}));
  EXPECT_EQ(options->format.imageMean, (std::vector<double>{0.5, 1}));
  EXPECT_TRUE(options->evaluate);
  EXPECT_EQ(options->evaluateEvery, 3u);
}

TEST(Options, TheLastOneCounts) {
  Expected<RunOptions> options = parseOptions(
      {"--set", "a=1", "step.so", "--set", "b=-2", "--set", "a=3", "--lr", "1",
       "--lr", "0.03", "--steps", "010", "--quiet", "--quiet", "--timeout=1",
       "--compile-options", "--options=a b"});
  ASSERT_TRUE(options.ok()) << options.message();
  EXPECT_EQ(options->program, "step.so");
  EXPECT_EQ(options->hyperparameters,
            (std::map<std::string, double>{{"a", 3}, {"b", -2}}));
  EXPECT_EQ(options->lr, 0.03);
  EXPECT_EQ(options->steps, 10u);
  EXPECT_EQ(options->compileOptions, "--options=a b");
}

TEST(Options, Mistakes) {
  EXPECT_EQ(errorOf({}),
            "no program given; usage: mpcomm-run step.so [options]");
  EXPECT_EQ(errorOf({"a.so", "b.so"}),
            "one program expected, found a second: 'b.so'");
  EXPECT_EQ(errorOf({"a.so", "--stesp", "3"}),
            "unknown option --stesp, did you mean --steps");
  EXPECT_EQ(errorOf({"a.so", "--zzzzzzzzzz"}), "unknown option --zzzzzzzzzz");
  EXPECT_EQ(errorOf({"a.so", "--np"}), "--np: 1 required N missing");
  EXPECT_EQ(errorOf({"a.so", "--np", "0"}),
            "--np: '0' is not a number from 1 to 4096");
  EXPECT_EQ(errorOf({"a.so", "--np", "2x"}),
            "--np: '2x' is not a number from 1 to 4096");
  EXPECT_EQ(errorOf({"a.so", "--steps", "-1"}),
            "--steps: '-1' is not a number from 0 to 4611686018427387904");
  EXPECT_EQ(errorOf({"a.so", "--lr", "nan"}),
            "--lr: 'nan' is not a finite number of at least 0");
  EXPECT_EQ(errorOf({"a.so", "--lr", "-1"}),
            "--lr: '-1' is not a finite number of at least 0");
  EXPECT_EQ(errorOf({"a.so", "--image-mean", "0.5,x"}),
            "--image-mean: '0.5,x' is not a list of finite numbers");
  EXPECT_EQ(errorOf({"a.so", "--image-std", "0.5,0"}),
            "--image-std: '0.5,0' is not a list of positive numbers");
  EXPECT_EQ(errorOf({"a.so", "--tokens", "t", "--token-arguments", "x,"}),
            "--token-arguments: 'x,' is not a list of names, each with +1 or "
            "without");
  EXPECT_EQ(errorOf({"a.so", "--timeout", "0"}),
            "--timeout: '0' is not a number of seconds from more than 0 to "
            "1e+09");
  EXPECT_EQ(errorOf({"a.so", "--timeout", "1e12"}),
            "--timeout: '1e12' is not a number of seconds from more than 0 to "
            "1e+09");
  EXPECT_EQ(errorOf({"a.so", "--comm", "tcp"}),
            "--comm: 'tcp' is not one of auto, shm, mpi, gloo, nccl");
  for (const char *set : {"x", "=1", "x=", "x=inf"})
    EXPECT_EQ(errorOf({"a.so", "--set", set}),
              "--set: '" + std::string(set) +
                  "' is not NAME=X with a finite number X");
  EXPECT_EQ(errorOf({"a.so", "--weights", ""}), "--weights: '' is not a name");
  EXPECT_EQ(errorOf({"a.so", "--weights=", "--data", "d"}),
            "--weights: '--data' is not a name");
}

TEST(Options, Combinations) {
  EXPECT_EQ(errorOf({"a.so", "--steps", "1", "--epochs", "1"}),
            "--steps excludes --epochs");
  EXPECT_EQ(errorOf({"a.so", "--checkpoint-every", "1"}),
            "--checkpoint-every requires --checkpoint");
  EXPECT_EQ(errorOf({"a.so", "--checkpoint-keep", "2"}),
            "--checkpoint-keep requires --checkpoint");
  EXPECT_EQ(errorOf({"a.so", "--resume", "c", "--weights", "w"}),
            "--weights excludes --resume");
  EXPECT_EQ(errorOf({"a.so", "--resume-anyway"}),
            "--resume-anyway requires --resume");
  EXPECT_EQ(errorOf({"a.so", "--lr", "1", "--set", "lr=1"}),
            "--lr and --set lr= exclude each other");
  EXPECT_EQ(errorOf({"a.so", "--set", "lr=-1"}),
            "--set lr=-1: a learning rate is not negative");
  EXPECT_EQ(errorOf({"a.so", "--data", "d", "--tokens", "t"}),
            "--data excludes --tokens");
  EXPECT_EQ(errorOf({"a.so", "--data", "d", "--context", "8"}),
            "--context requires --tokens");
  EXPECT_EQ(errorOf({"a.so", "--image-mean", "1,2,3", "--image-std", "1,2"}),
            "--image-mean has 3 numbers, --image-std 2");
  EXPECT_EQ(errorOf({"a.so", "--eval-tokens", "d"}),
            "--eval-tokens requires --evaluate");
  EXPECT_EQ(errorOf({"a.so", "--eval-data", "d"}),
            "--eval-data requires --evaluate");
  EXPECT_EQ(errorOf({"a.so", "--check-numerics", "--allow-nonfinite"}),
            "--check-numerics excludes --allow-nonfinite");
  EXPECT_EQ(errorOf({"a.so", "--calibrate", "c"}),
            "program excludes --calibrate");
  EXPECT_EQ(errorOf({"a.so", "--calibrate-block", "2"}),
            "--calibrate-block requires --calibrate");
  EXPECT_EQ(
      errorOf({"a.so", "--epochs", "0", "--evaluate", "--checkpoint", "c"}),
      "--checkpoint and --save-weights keep what was trained, and "
      "--epochs 0 trains nothing");
}

TEST(Options, HelpNeedsNoProgram) {
  Expected<RunOptions> options = parseOptions({"--help"});
  ASSERT_TRUE(options.ok());
  EXPECT_TRUE(options->help);
  EXPECT_NE(helpText().find("--checkpoint-every N"), std::string::npos);
}
