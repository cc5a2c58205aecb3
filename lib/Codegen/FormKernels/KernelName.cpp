//===- KernelName.cpp - what a kernel is called after ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FormKernels/KernelName.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mpcomm;

/// The mark of `mpcomm::markOrigin` in a location, or an empty string.
static StringRef getOrigin(Location loc) {
  StringRef origin;
  loc->walk([&](Location nested) {
    if (auto fused = dyn_cast<FusedLoc>(nested))
      if (auto name = dyn_cast_or_null<StringAttr>(fused.getMetadata())) {
        origin = name;
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  return origin;
}

/// The ops of the bodies, the first two kinds in order of occurrence.
static std::string nameByBodies(ArrayRef<Operation *> members) {
  SmallVector<StringRef> names;
  for (Operation *member : members)
    member->walk([&](Operation *op) {
      if (op == member ||
          isa<linalg::YieldOp, linalg::IndexOp, arith::ConstantOp>(op) ||
          names.size() == 2)
        return;
      StringRef name = op->getName().stripDialect();
      if (!llvm::is_contained(names, name))
        names.push_back(name);
    });
  if (names.empty())
    names.push_back(isa<linalg::GenericOp>(members.front())
                        ? "copy"
                        : members.front()->getName().stripDialect());
  return llvm::join(names, "_");
}

/// Origins that say less than the arithmetic that goes with them.
static bool isPlain(StringRef origin) {
  return llvm::is_contained(
      {"sum", "prod", "min", "max", "transpose", "broadcast", "iota"}, origin);
}

std::string mpcomm::nameKernel(ArrayRef<Operation *> members) {
  llvm::MapVector<StringRef, unsigned> counts;
  StringRef plain;
  bool hasUnmarked = false;
  for (Operation *member : members) {
    StringRef origin = getOrigin(member->getLoc());
    if (origin.empty())
      hasUnmarked = true;
    else if (isPlain(origin))
      plain = origin;
    else
      ++counts[origin];
  }
  StringRef best;
  unsigned bestCount = 0;
  for (auto &[name, count] : counts)
    if (count > bestCount) {
      best = name;
      bestCount = count;
    }
  if (!best.empty())
    return best.str();
  return plain.empty() || hasUnmarked ? nameByBodies(members) : plain.str();
}
