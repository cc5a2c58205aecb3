//===- PhiloxTest.cpp - the generator's known answers ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of constants the ops fold to constants: the vectors that the authors of
// Philox-4x32-10 publish (kat_vectors of Random123).
//
//===----------------------------------------------------------------------===//

#include "Philox.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"
#include "gtest/gtest.h"

using namespace mlir;

using Words = std::array<uint64_t, 4>;

/// What emitPhilox folds to.
static Words run(const Words &counter, std::array<uint64_t, 2> key) {
  MLIRContext context;
  context.loadDialect<arith::ArithDialect>();
  Location loc = UnknownLoc::get(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  ImplicitLocOpBuilder b(loc, module->getBodyRegion());
  b.setInsertionPointToStart(module->getBody());
  auto word = [&](uint64_t value) -> Value {
    return arith::ConstantOp::create(
        b, b.getI64IntegerAttr(static_cast<int64_t>(value)));
  };
  std::array<Value, 4> made = mpcomm::emitPhilox(
      b,
      {word(counter[0]), word(counter[1]), word(counter[2]), word(counter[3])},
      {word(key[0]), word(key[1])});
  Words words;
  for (auto [value, number] : llvm::zip_equal(made, words)) {
    APInt constant;
    EXPECT_TRUE(matchPattern(value, m_ConstantInt(&constant)));
    number = constant.getZExtValue();
  }
  return words;
}

TEST(Philox, KnownAnswers) {
  constexpr uint64_t all = 0xffffffff;
  EXPECT_EQ(run({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(run({all, all, all, all}, {all, all}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(run({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}
