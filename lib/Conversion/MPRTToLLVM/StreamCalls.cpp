//===- StreamCalls.cpp - what a step runs on the compute stream -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StreamCalls.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPRT/IR/AttentionCall.h"
#include "mpcomm/Dialect/MPRT/IR/Epilogue.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

using namespace mlir;
using namespace mpcomm;

void StreamCalls::add(const StreamCalls &other, int64_t times) {
  auto add = [&](int64_t &sum, int64_t more) {
    sum += mpcomm::detail::multiplySaturated(more, times);
  };
  add(kernels, other.kernels);
  add(products, other.products);
  add(windows, other.windows);
  add(copies, other.copies);
}

StreamCalls StreamCallCounter::countOp(Operation *op) {
  StreamCalls calls;
  if (auto call = dyn_cast<mprt::CallOp>(op)) {
    if (auto callee = symbols.lookup<func::FuncOp>(call.getCallee()))
      calls.add(count(callee), call.countCalls());
    return calls;
  }
  // The product that it belongs to is counted.
  bool isEpilogue = device != "host" && op->hasAttr(mprt::kEpilogueAttr);
  // The first kernel of an attention stands for all of them.
  bool isPart = op->getAttrOfType<UnitAttr>(mprt::kAttentionAttr) != nullptr;
  calls.kernels = isa<mprt::LaunchOp>(op) && !isEpilogue && !isPart;
  calls.products = isa<mprt::GemmOp>(op);
  calls.windows = isa<mprt::ConvolutionOp, mprt::PoolOp>(op);
  calls.copies = isa<mprt::CopyOp, mprt::ZeroOp, mprt::AllSliceOp>(op);
  return calls;
}

StreamCalls StreamCallCounter::count(func::FuncOp function) {
  // Nothing calls itself: a loop's body is a function of its own.
  if (auto found = known.find(function.getName()); found != known.end())
    return found->second;
  StreamCalls calls;
  for (Operation &op : function.getBody().front())
    calls.add(countOp(&op));
  return known[function.getName()] = calls;
}

llvm::json::Array StreamCallCounter::passes(func::FuncOp function) {
  llvm::json::Array passes;
  int64_t first = 0;
  for (Operation &op : function.getBody().front()) {
    int64_t calls = countOp(&op).all();
    auto tag = op.getAttrOfType<StringAttr>(kTagAttr);
    auto stage = op.getAttrOfType<IntegerAttr>(kStageAttr);
    if (isa<mprt::CallOp>(op) && tag && stage && calls)
      passes.push_back(llvm::json::Object{{"action", tag.getValue().str()},
                                          {"stage", stage.getInt()},
                                          {"first", first},
                                          {"calls", calls}});
    first += calls;
  }
  return passes;
}
