//===- ManifestTest.cpp - what a program file says about itself
//--------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A manifest that is right, and one change at a time that makes it wrong.
//
//===----------------------------------------------------------------------===//

#include "files/Manifest.h"
#include "session/program/CpuFeatures.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace mprt;

namespace {

const char *const text = R"({
  "abi": 1, "producer": "mpcomm 0.1.0", "program": "toy",
  "target": {"device": "host", "cpu": "generic", "features": ["+sse4.2"]},
  "mesh": {"name": "mesh", "axes": [{"name": "pp", "size": 2}, {"name": "dp", "size": 3}]},
  "communicators": [{"axes": ["dp"]}, {"axes": ["dp", "pp"]}],
  "functions": [
    {"name": "train_step", "entry": "mpcomm_train_step", "arena_bytes": 64, "events": 2,
     "arguments": [
       {"name": "w", "role": "parameter", "dtype": "f32", "shape": [2, 3], "access": "update"},
       {"name": "lr", "role": "hyperparameter", "dtype": "f32", "shape": [], "access": "read", "default": 0.5},
       {"name": "y", "role": "batch", "dtype": "i64", "shape": [4], "access": "read", "range": [0, 3]}],
     "results": [
       {"name": "loss", "role": "loss", "dtype": "f32", "shape": [], "argument": null},
       {"name": "w", "role": "parameter", "dtype": "f32", "shape": [2, 3], "argument": 0},
       {"name": "out", "role": "output", "dtype": "f32", "shape": [4, 3], "argument": null, "targets": "y"}],
     "collectives": [{"id": 3, "kind": "all_reduce", "name": "g", "location": "x", "bytes": 4}]}]
})";

/// The message for `text` with the first `from` replaced by `to`.
std::string errorWith(const std::string &from, const std::string &to) {
  std::string changed = text;
  size_t at = changed.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  changed.replace(at, from.size(), to);
  Expected<Manifest> manifest = parseManifest(changed);
  return manifest.failed() ? manifest.message() : "";
}

} // namespace

TEST(Manifest, Forecast) {
  auto with = [](const std::string &forecast) {
    std::string changed = text;
    return changed.insert(changed.find("\"mesh\""),
                          "\"forecast\": " + forecast + ", ");
  };
  auto lists = [](const char *bandwidth, const char *communication) {
    return std::string("{\"cluster\": \"{}\", \"link\": \"net\", \"compute\": "
                       "1.5, \"step\": [2, 3], "
                       "\"bandwidth\": ") +
           bandwidth + ", \"communication\": " + communication + "}";
  };
  Expected<Manifest> manifest =
      parseManifest(with(lists("[9, 4.5]", "[1, 2]")));
  ASSERT_TRUE(manifest.ok()) << manifest.message();
  ASSERT_TRUE(manifest->forecast);
  EXPECT_EQ(manifest->forecast->link, "net");
  EXPECT_EQ(manifest->forecast->compute, 1.5);
  EXPECT_EQ(manifest->forecast->bandwidth, (std::vector<double>{9, 4.5}));
  EXPECT_EQ(manifest->forecast->step, (std::vector<double>{2, 3}));
  EXPECT_EQ(manifest->forecast->communication, (std::vector<double>{1, 2}));
  EXPECT_EQ(parseManifest(with(lists("[9]", "[1, 2]"))).message(),
            "forecast: expected lists of one length, of 2 and more");
  EXPECT_EQ(parseManifest(with(lists("[9, 9]", "[1, 2]"))).message(),
            "forecast: expected rows from fast to slow");
  EXPECT_EQ(parseManifest(with(lists("[9, 4]", "[1, 1]"))).message(),
            "forecast: expected rows from fast to slow");
  EXPECT_EQ(parseManifest(with(lists("[9, 0]", "[1, 2]"))).message(),
            "forecast.bandwidth[1]: expected a positive number");
  EXPECT_EQ(parseManifest(with(lists("[9, \"x\"]", "[1, 2]"))).message(),
            "forecast.bandwidth[1]: expected a number");
  EXPECT_EQ(parseManifest(with("3")).message(), "forecast: expected an object");
}

TEST(Manifest, ReadsAllFields) {
  Expected<Manifest> manifest = parseManifest(text);
  ASSERT_TRUE(manifest.ok()) << manifest.message();
  EXPECT_EQ(manifest->ranks(), 6);
  EXPECT_EQ(manifest->describeMesh(), "pp:2 x dp:3");
  EXPECT_EQ(manifest->communicators,
            (std::vector<ManifestCommunicator>{{{1}}, {{0, 1}}}));
  EXPECT_EQ(manifest->dataRanks(), 6u);
  EXPECT_EQ(manifest->dataRankOf(4), 4u);
  const ManifestFunction *function = manifest->find("train_step", 5);
  ASSERT_TRUE(function);
  EXPECT_EQ(function->batchSize(), 4);
  EXPECT_EQ(function->arguments[0].bytes, 24u);
  EXPECT_TRUE(function->arguments[0].updated);
  EXPECT_EQ(function->arguments[1].defaultValue, 0.5);
  EXPECT_EQ(function->arguments[2].range, (std::pair<int64_t, int64_t>(0, 3)));
  EXPECT_FALSE(function->results[0].argument);
  EXPECT_EQ(function->results[1].argument, 0u);
  EXPECT_EQ(function->results[2].targets, "y");
  EXPECT_EQ(function->resultOf(Role::Loss), &function->results[0]);
  EXPECT_EQ(function->collectives[0].id, 3u);
}

TEST(Manifest, StagesShareSamples) {
  // Two stages along pp, which is the outer axis: ranks 0 to 2 and 3 to 5.
  std::string staged = text;
  std::string function =
      staged.substr(staged.find("{\"name\": \"train_step\""));
  function = function.substr(0, function.rfind("]}") + 2);
  auto place = [&](std::string stage, const char *coordinates) {
    std::string entry = "\"arena_bytes\"";
    return stage.replace(stage.find(entry), entry.size(),
                         std::string("\"coordinates\": ") + coordinates + ", " +
                             entry);
  };
  staged.replace(staged.find(function), function.size(),
                 place(function, "[{\"pp\": 0}]") + ", " +
                     place(function, "[{\"pp\": 1}]"));
  std::string channel = "{\"axes\": [\"dp\"]}";
  staged.replace(staged.find(channel), channel.size(),
                 "{\"axes\": [\"dp\"], \"channel\": 3}");
  Expected<Manifest> manifest = parseManifest(staged);
  ASSERT_TRUE(manifest.ok()) << manifest.message();
  EXPECT_EQ(manifest->communicators[0], (ManifestCommunicator{{1}, 3}));
  EXPECT_EQ(manifest->findAll("train_step").size(), 2u);
  EXPECT_EQ(manifest->dataRanks(), 3u);
  for (uint64_t rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(manifest->dataRankOf(rank), rank % 3);
    EXPECT_EQ(manifest->find("train_step", rank),
              &manifest->functions[rank / 3]);
  }
  EXPECT_EQ(manifest->find("evaluate", 0), nullptr);
  EXPECT_EQ(manifest->describeRank(4), "rank 4 (pp:1 x dp:1)");
}

TEST(Manifest, StateInParts) {
  // 6 elements over the 3 ranks of dp: 2 each. Over both axes: 1 each.
  auto split = [](const char *shape, const char *axes) {
    std::string changed = text, from = "\"shape\": [2, 3]";
    for (size_t at = 0; (at = changed.find(from, at)) != std::string::npos;)
      changed.replace(at, from.size(),
                      std::string("\"shape\": ") + shape +
                          ", \"global_shape\": [2, 3], \"sharding\": "
                          "{\"flat\": " +
                          axes + "}");
    return changed;
  };
  Expected<Manifest> manifest = parseManifest(split("[2]", "[\"dp\"]"));
  ASSERT_TRUE(manifest.ok()) << manifest.message();
  const ManifestArgument &w = manifest->functions[0].arguments[0];
  ASSERT_TRUE(w.split);
  EXPECT_EQ(w.wholeShape(), (Shape{2, 3}));
  for (uint64_t rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(rangeOf(w, rank).first, rank % 3 * 2);
    EXPECT_EQ(rangeOf(w, rank).count, 2u);
  }
  manifest = parseManifest(split("[1]", "[\"dp\", \"pp\"]"));
  ASSERT_TRUE(manifest.ok()) << manifest.message();
  for (uint64_t rank = 0; rank < 6; ++rank) // dp varies slowest
    EXPECT_EQ(rangeOf(manifest->functions[0].arguments[0], rank).first,
              rank % 3 * 2 + rank / 3);
  for (auto [shape, axes] :
       {std::pair("[3]", "[\"dp\"]"), std::pair("[2, 1]", "[\"dp\"]"),
        std::pair("[6]", "[]")})
    EXPECT_NE(parseManifest(split(shape, axes))
                  .message()
                  .find("expected 'flat' axes"),
              std::string::npos)
        << shape << axes;
  EXPECT_NE(parseManifest(split("[2]", "[\"tp\"]"))
                .message()
                .find("no mesh axis 'tp'"),
            std::string::npos);
  EXPECT_NE(parseManifest(split("[1]", "[\"dp\", \"dp\"]"))
                .message()
                .find("is named twice"),
            std::string::npos);
}

TEST(Manifest, PaddingIsNobodys) {
  ManifestTensor tensor;
  tensor.shape = {2};
  tensor.elements = 2;
  tensor.split = ManifestSplit{{5}, {{1, 4}}};
  uint64_t firsts[] = {0, 2, 4, 5}, counts[] = {2, 2, 1, 0};
  for (uint64_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(rangeOf(tensor, rank).first, firsts[rank]);
    EXPECT_EQ(rangeOf(tensor, rank).count, counts[rank]);
  }
}

TEST(Manifest, MissingOrMistypedFields) {
  EXPECT_EQ(parseManifest("{").message(), "manifest is not JSON");
  EXPECT_EQ(parseManifest("[]").message(), "manifest: expected an object");
  EXPECT_EQ(parseManifest("{\"abi\": 1}").message(),
            "manifest: 'functions' is missing");
  EXPECT_EQ(errorWith("\"abi\": 1", "\"abi\": \"1\""),
            "abi: expected a natural number");
  EXPECT_EQ(errorWith("\"events\": 2", "\"events\": -2"),
            "functions[0].events: expected a natural number");
  EXPECT_EQ(errorWith("\"arena_bytes\": 64, ", ""),
            "functions[0]: 'arena_bytes' is missing");
  EXPECT_EQ(errorWith("\"arena_bytes\": 64", "\"arena_bytes\": 1e30"),
            "functions[0].arena_bytes: expected a natural number");
}

TEST(Manifest, TensorsThatMakeNoSense) {
  EXPECT_EQ(errorWith("\"shape\": [2, 3]", "\"shape\": [2, -3]"),
            "functions[0].arguments[0]: shape of f32 [2, -3] is negative or "
            "overflows");
  EXPECT_EQ(
      errorWith("\"shape\": [2, 3]", "\"shape\": [4294967296, 4294967296]"),
      "functions[0].arguments[0]: shape of f32 [4294967296, 4294967296] "
      "is negative or overflows");
  EXPECT_EQ(errorWith("\"dtype\": \"f32\"", "\"dtype\": \"f33\""),
            "functions[0].arguments[0]: dtype 'f33' is not known");
  EXPECT_EQ(errorWith("\"role\": \"parameter\"", "\"role\": \"loss\""),
            "functions[0].arguments[0]: an argument cannot have role 'loss'");
  EXPECT_EQ(errorWith("\"access\": \"read\", \"default\"",
                      "\"access\": \"write\", \"default\""),
            "functions[0].arguments[1]: access 'write', expected 'read' or "
            "'update'");
  EXPECT_EQ(errorWith("\"range\": [0, 3]", "\"range\": [0]"),
            "functions[0].arguments[2]: range holds 1 numbers, expected 2");
  EXPECT_EQ(errorWith("\"name\": \"lr\"", "\"name\": \"w\""),
            "functions[0].arguments[1]: a second argument 'w'");
}

TEST(Manifest, WhatStateStartsFrom) {
  // Before lr, state of the given type and shape, with what it starts from.
  auto with = [&](const char *role, const char *type, const char *shape,
                  const char *start) {
    std::string state = std::string("{\"name\": \"s\", \"role\": \"") + role +
                        "\", \"dtype\": \"" + type + "\", \"shape\": " + shape +
                        ", \"access\": \"read\", " + start + "},\n       ";
    std::string lr = "{\"name\": \"lr\"";
    return errorWith(lr, state + lr);
  };
  EXPECT_EQ(with("buffer", "bf16", "[2, 3]", "\"copy_of\": \"w\""), "");
  EXPECT_EQ(with("loss_scale", "i32", "[]", "\"default\": -2147483648"), "");
  EXPECT_EQ(with("optimizer_state", "f32", "[7]", "\"default\": 0.1"), "");
  EXPECT_EQ(with("loss_scale", "i32", "[]", "\"default\": 2147483648"),
            "functions[0].arguments[1]: default 2147483648 is no i32");
  EXPECT_EQ(with("loss_scale", "u8", "[]", "\"default\": -1"),
            "functions[0].arguments[1]: default -1 is no u8");
  EXPECT_EQ(with("loss_scale", "i64", "[]", "\"default\": 0.5"),
            "functions[0].arguments[1]: default 0.5 is no i64");
  std::string expected = ", expected state of floats other than a parameter, "
                         "without a default";
  EXPECT_EQ(with("batch", "f32", "[2, 3]", "\"copy_of\": \"w\""),
            "functions[0].arguments[1]: copy_of on batch f32 [2, 3]" +
                expected);
  EXPECT_EQ(with("buffer", "i32", "[2, 3]", "\"copy_of\": \"w\""),
            "functions[0].arguments[1]: copy_of on buffer i32 [2, 3]" +
                expected);
  EXPECT_EQ(
      with("buffer", "f32", "[2, 3]", "\"default\": 1, \"copy_of\": \"w\""),
      "functions[0].arguments[1]: copy_of on buffer f32 [2, 3]" + expected);
  for (const char *source : {"lr", "nobody", "s"})
    EXPECT_EQ(with("buffer", "bf16", "[2, 3]",
                   (std::string("\"copy_of\": \"") + source + "\"").c_str()),
              "functions[0]: 's' is a copy of '" + std::string(source) +
                  "', expected a parameter of floats of its shape");
  EXPECT_EQ(with("buffer", "bf16", "[3, 2]", "\"copy_of\": \"w\""),
            "functions[0]: 's' is a copy of 'w', expected a parameter of "
            "floats of its shape");
}

TEST(Manifest, ResultsThatDoNotFitTheirArgument) {
  EXPECT_EQ(errorWith("\"argument\": 0", "\"argument\": 9"),
            "functions[0].results[1]: argument 9 of 3");
  EXPECT_EQ(errorWith("\"argument\": 0", "\"argument\": 1"),
            "functions[0].results[1]: is in argument 'lr', which is not an "
            "updated f32 [2, 3]");
  EXPECT_EQ(errorWith("\"targets\": \"y\"", "\"targets\": \"w\""),
            "functions[0]: targets 'w' of 'out' is not an integer batch "
            "argument with one label for each row of f32 [4, 3]");
}

TEST(Manifest, StateThatNobodyTakes) {
  // In a buffer of its own it trades places with its argument: there is one.
  std::string own = "\"name\": \"w\", \"role\": \"parameter\", \"dtype\": "
                    "\"f32\", \"shape\": [2, 3], \"argument\": ";
  EXPECT_EQ(errorWith(own + "0", own + "null"), "");
  auto with = [&](const char *from, const char *to) {
    std::string changed = own + "null";
    return errorWith(own + "0",
                     changed.replace(changed.find(from), strlen(from), to));
  };
  EXPECT_EQ(with("\"w\"", "\"v\""),
            "functions[0].results[1]: parameter 'v' is in no argument, and "
            "no argument of that name is a parameter of f32 [2, 3]");
  EXPECT_EQ(with("parameter", "buffer"),
            "functions[0].results[1]: buffer 'w' is in no argument, and no "
            "argument of that name is a buffer of f32 [2, 3]");
  EXPECT_NE(with("f32", "f16"), "");
  EXPECT_NE(with("[2, 3]", "[3, 2]"), "");
  EXPECT_EQ(errorWith("{" + own + "0}", "{" + own + "0}, {" + own + "null}"),
            "functions[0].results[2]: a second result for 'w'");
}

TEST(Manifest, MeshAndCommunicators) {
  EXPECT_EQ(errorWith("{\"axes\": [\"dp\"]}", "{\"axes\": [\"tp\"]}"),
            "communicators[0].axes[0]: no mesh axis 'tp'");
  EXPECT_EQ(errorWith("\"size\": 2", "\"size\": 0"),
            "mesh.axes[0]: size is 0, expected 1 to 4096");
  EXPECT_EQ(errorWith("\"size\": 2", "\"size\": 4000"),
            "mesh.axes[1]: the mesh has more than 4096 ranks");
}

TEST(CpuFeatures, KnownUnknownAndNegative) {
  EXPECT_TRUE(missingCpuFeatures({"+never-heard-of", "-avx512f", ""}).empty());
#if defined(__x86_64__)
  EXPECT_TRUE(missingCpuFeatures({"+sse3"}).empty());
#endif
}
