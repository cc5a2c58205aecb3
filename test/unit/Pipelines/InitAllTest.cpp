//===- InitAllTest.cpp - what a tool of somebody else's registers ---------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mpcomm/InitAllDialects.h"
#include "mpcomm/Pipelines/Pipelines.h"

#include <gtest/gtest.h>

static const char step[] = R"(
func.func @train_step(
    %w: tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %y: tensor<8x2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "y"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 1.0e-01 : f32})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %c = arith.constant dense<1.250000e-01> : tensor<8x2xf32>
  %p = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  %e = arith.subf %p, %y : tensor<8x2xf32>
  %d = arith.mulf %e, %c : tensor<8x2xf32>
  %t = math.absf %d : tensor<8x2xf32>
  %loss = mpcomm.reduce sum %t, dims = [0, 1] : (tensor<8x2xf32>) -> tensor<f32>
  %g = mpcomm.dot_general %x, %d, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %v = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.000000e+00 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  return %loss, %v : tensor<f32>, tensor<4x2xf32>
}
)";

/// As docs/Guides/Embedding.md shows it: nothing else is needed.
static mlir::LogicalResult compile(llvm::StringRef graph, std::string &reason,
                                   std::string &program) {
  mlir::DialectRegistry registry;
  mpcomm::registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(graph, &context);
  mpcomm::CompileOptions options;
  mlir::PassManager passes(&context);
  if (!module || failed(options.parse("mesh=dp:2 precision=bf16", reason)) ||
      failed(mpcomm::buildCompilePipeline(passes, options, reason)) ||
      failed(passes.run(*module)))
    return mlir::failure();
  llvm::raw_string_ostream(program) << *module;
  return mlir::success();
}

TEST(InitAll, OneCallIsEnoughToCompile) {
  std::string reason, program;
  ASSERT_TRUE(succeeded(compile(step, reason, program))) << reason;
  EXPECT_NE(program.find("@mpcomm_train_step"), std::string::npos);
}
