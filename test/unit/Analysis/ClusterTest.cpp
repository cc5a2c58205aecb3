//===- ClusterTest.cpp - cluster files, attributes and presets ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/MLIRContext.h"
#include "mpcomm/Analysis/Cluster/ClusterAttr.h"
#include "gtest/gtest.h"

using namespace mpcomm;

static const char *const kSmall = R"({
  "schema": "mpcomm-cluster-1", "name": "small",
  "device": {"name": "cpu", "flops": {"f32": 1e11}, "memory_bandwidth": 1e10,
             "memory_bytes": 8000000000, "launch": 1e-6},
  "links": [{"name": "shm", "ranks": 4, "latency": 1e-6, "bandwidth": 5e9},
            {"name": "net", "ranks": 0, "latency": 2e-5, "bandwidth": 1e9,
             "contends": false, "rails": 2}],
  "measured": [{"kind": "all_reduce", "ranks": 2, "backend": "shm",
                "alpha": 1e-6, "beta": 1e-10}]
})";

/// The error of parsing `kSmall` with `from` replaced by `to`.
static std::string getError(llvm::StringRef from, llvm::StringRef to) {
  std::string text = kSmall;
  size_t at = text.find(from.str());
  if (at == std::string::npos)
    return "no such text";
  text.replace(at, from.size(), to.str());
  llvm::Expected<Cluster> cluster = parseCluster(text, "c.json");
  return cluster ? "" : llvm::toString(cluster.takeError());
}

TEST(ClusterTest, ReadsWhatIsThereAndDefaults) {
  llvm::Expected<Cluster> cluster = parseCluster(kSmall);
  ASSERT_TRUE(bool(cluster)) << llvm::toString(cluster.takeError());
  EXPECT_EQ(cluster->name, "small");
  EXPECT_EQ(cluster->device.flops.at("f32"), 1e11);
  EXPECT_EQ(cluster->device.memoryBytes, 8000000000);
  ASSERT_EQ(cluster->links.size(), 2u);
  EXPECT_TRUE(cluster->links[0].contends);
  EXPECT_EQ(cluster->links[0].rails, 1);
  EXPECT_FALSE(cluster->links[1].contends);
  EXPECT_EQ(cluster->links[1].rails, 2);
  ASSERT_EQ(cluster->measured.size(), 1u);
  EXPECT_EQ(cluster->measured[0].beta, 1e-10);
  EXPECT_EQ(cluster->computeRateUnderComm, 1);
}

TEST(ClusterTest, ErrorsNamePathAndExpectation) {
  EXPECT_EQ(getError("mpcomm-cluster-1", "v0"),
            "c.json: schema: expected \"mpcomm-cluster-1\", got \"v0\"");
  EXPECT_EQ(getError("\"bandwidth\": 1e9", "\"bandwidth\": \"fast\""),
            "c.json: links[1].bandwidth: expected a number, got \"fast\"");
  EXPECT_EQ(getError("\"memory_bytes\"",
                     "\"efficiency\": {\"loop\": 1}, \"memory_bytes\""),
            "c.json: device.efficiency.loop: expected product, convolution, "
            "attention or masked_attention, got 'loop'");
  EXPECT_EQ(getError("\"memory_bytes\"", "\"efficiency\": {\"product\": 4.5}, "
                                         "\"memory_bytes\""),
            "c.json: device.efficiency.product: expected a share from 1e-6 to "
            "4, got 4.5");
  EXPECT_EQ(getError("\"bandwidth\": 1e9", "\"bandwidth\": 0"),
            "c.json: links[1].bandwidth: expected a positive number, got 0");
  EXPECT_EQ(getError("\"rails\": 2", "\"rail\": 2"),
            "c.json: links[1].rail: unknown key, expected bandwidth, contends, "
            "latency, name, rails, ranks");
  EXPECT_EQ(getError("\"name\": \"small\",", ""),
            "c.json: expected a key 'name'");
  EXPECT_EQ(getError("\"launch\": 1e-6", "\"launch\": null"),
            "c.json: device.launch: expected a number, got null");
  EXPECT_EQ(getError("\"ranks\": 4", "\"ranks\": 4.5"),
            "c.json: links[0].ranks: expected an integer, got 4.5");
  EXPECT_EQ(getError("\"ranks\": 0", "\"ranks\": 8"),
            "c.json: links[1].ranks: expected 0, for all, in the last level, "
            "got 8");
  EXPECT_EQ(getError("\"f32\"", "\"f31\""),
            "c.json: device.flops: expected a key 'f32', got none");
  EXPECT_EQ(getError("all_reduce", "all"),
            "c.json: measured[0].kind: expected a collective, got 'all'");
  EXPECT_EQ(getError("[{\"kind\": \"all_reduce\", \"ranks\": 2, \"backend\": "
                     "\"shm\",\n                \"alpha\": 1e-6, \"beta\": "
                     "1e-10}]",
                     "{}"),
            "c.json: measured: expected an array, got an object");
  EXPECT_NE(getError("}", ""), "");
}

// What is made of figures stays finite: none may be next to nothing, or huge.
TEST(ClusterTest, FiguresAreBounded) {
  EXPECT_EQ(getError("\"bandwidth\": 1e9", "\"bandwidth\": 1e-320"),
            "c.json: links[1].bandwidth: expected a number from 1 to 1e+30, "
            "got 9.99989e-321");
  EXPECT_EQ(getError("\"f32\": 1e11", "\"f32\": 1e308"),
            "c.json: device.flops.f32: expected a number from 1 to 1e+30, got "
            "1e+308");
  EXPECT_EQ(getError("\"launch\": 1e-6", "\"launch\": 1e308"),
            "c.json: device.launch: expected a number from 0 to 1e+09, got "
            "1e+308");
  EXPECT_EQ(getError("\"alpha\": 1e-6", "\"alpha\": 2e9"),
            "c.json: measured[0].alpha: expected a number from 0 to 1e+09, got "
            "2e+09");
  EXPECT_EQ(getError("\"beta\": 1e-10", "\"beta\": 2"),
            "c.json: measured[0].beta: expected a number from 0 to 1, got 2");
  EXPECT_EQ(getError("\"measured\"",
                     "\"comm_rate_under_compute\": 1e-9, \"measured\""),
            "c.json: comm_rate_under_compute: expected a number from 1e-06 to "
            "1, got 1e-09");
}

// The parser recurses; a file may not make it run out of stack.
TEST(ClusterTest, DepthIsBounded) {
  for (const char *open : {"[", "{\"a\":"}) {
    std::string text;
    for (int i = 0; i < 1000000; ++i)
      text += open;
    llvm::Expected<Cluster> cluster = parseCluster(text, "c.json");
    ASSERT_FALSE(bool(cluster));
    EXPECT_EQ(llvm::toString(cluster.takeError()),
              "c.json: expected at most 32 objects and arrays in each other");
  }
  // What is in a string does not count.
  EXPECT_EQ(getError("\"small\"", "\"" + std::string(99, '[') + "\\\"[\""), "");
}

TEST(ClusterTest, RoundTripsThroughJsonAndAttribute) {
  mlir::MLIRContext context;
  context.loadDialect<MPCommDialect>();
  for (llvm::StringRef name : getPresetNames()) {
    Cluster cluster = llvm::cantFail(getPreset(name));
    EXPECT_EQ(cluster.name, name);
    EXPECT_EQ(cluster.check(), "");
    EXPECT_FALSE(cluster.source.empty());
    cluster.measured.push_back({"all_reduce", 3, "x", 1.0 / 3, 1e-17, ""});
    std::string text = toJson(cluster);
    llvm::Expected<Cluster> again = parseCluster(text);
    ASSERT_TRUE(bool(again)) << llvm::toString(again.takeError());
    EXPECT_EQ(toJson(*again), text);
    EXPECT_EQ(toJson(fromAttribute(toAttribute(&context, cluster))), text);
  }
}

TEST(ClusterTest, UnknownPresetsAndFiles) {
  EXPECT_EQ(llvm::toString(getPreset("x").takeError()),
            "unknown cluster 'x': expected dgx-a100, dgx-h100, h200-nvlink-8, "
            "ethernet-10g, ethernet-100g, local");
  EXPECT_EQ(llvm::toString(loadCluster("/no/such").takeError()),
            "cannot read '/no/such': No such file or directory; neither is it "
            "a preset: expected dgx-a100, dgx-h100, h200-nvlink-8, "
            "ethernet-10g, ethernet-100g, local");
}
