//===- CollectiveOps.cpp - meshes, collectives, async and await -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InferError.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mpcomm;

//===----------------------------------------------------------------------===//
// MeshOp
//===----------------------------------------------------------------------===//

LogicalResult MeshOp::verify() {
  if (getAxisNames().empty()) // mesh C1
    return emitOpError("expects at least one axis");
  if (getAxisNames().size() != getAxisSizes().size())
    return emitOpError() << "has " << getAxisNames().size()
                         << " axis names but " << getAxisSizes().size()
                         << " sizes";
  llvm::StringSet<> seen;
  int64_t ranks = 1;
  for (auto [name, size] : llvm::zip(getAxisNames(), getAxisSizes())) {
    StringRef axis = cast<StringAttr>(name).getValue();
    if (axis.empty())
      return emitOpError("expects axis names that are not empty");
    if (!seen.insert(axis).second)
      return emitOpError() << "names axis " << name << " twice";
    if (size < 1) // mesh C2
      return emitOpError() << "expects a positive size for axis " << name
                           << ", got " << size;
    if (size > INT32_MAX || (ranks *= size) > INT32_MAX)
      return emitOpError("has more ranks than 32 bits count");
  }
  return success();
}

int64_t MeshOp::getNumRanks() {
  int64_t ranks = 1;
  for (int64_t size : getAxisSizes())
    ranks *= size;
  return ranks;
}

std::optional<int64_t> MeshOp::getAxisSize(StringRef name) {
  for (auto [axis, size] : llvm::zip(getAxisNames(), getAxisSizes()))
    if (cast<StringAttr>(axis).getValue() == name)
      return size;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// ProgramOp
//===----------------------------------------------------------------------===//

LogicalResult ProgramOp::verify() {
  if (getFunctions().empty()) // program C2
    return emitOpError("expects at least one function");
  return detail::verifyAxes(*this, getAxes()); // program C1
}

LogicalResult ProgramOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto mesh = symbols.lookupNearestSymbolFrom<MeshOp>(*this, getMeshAttr());
  if (!mesh)
    return emitOpError() << "names " << getMeshAttr()
                         << ", which is not an mpcomm.mesh";
  int64_t ranks = 1;
  for (Attribute axis : getAxes()) {
    std::optional<int64_t> size =
        mesh.getAxisSize(cast<StringAttr>(axis).getValue());
    if (!size) // program C1
      return emitOpError() << "names axis " << axis << ", which mesh "
                           << getMeshAttr() << " does not have";
    ranks *= *size;
  }
  if (static_cast<int64_t>(getFunctions().size()) != ranks) // program C2
    return emitOpError() << "has " << getFunctions().size()
                         << " functions, expected " << ranks
                         << ", one for each rank along its axes";
  llvm::SmallPtrSet<Attribute, 8> seen;
  for (auto other : (*this)->getParentOfType<ModuleOp>().getOps<ProgramOp>())
    if (other != *this)
      seen.insert_range(other.getFunctions());
  for (Attribute name : getFunctions()) { // program C3
    auto symbol = cast<FlatSymbolRefAttr>(name);
    auto function =
        symbols.lookupNearestSymbolFrom<FunctionOpInterface>(*this, symbol);
    if (!function || !function.isPublic())
      return emitOpError() << "runs " << symbol
                           << ", which is not a public function";
    if (seen.contains(name))
      return emitOpError() << "runs " << symbol
                           << ", which another program runs too";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// AllReduceOp
//===----------------------------------------------------------------------===//

bool AllReduceOp::isGather() { return (*this)->hasAttr(kPendingAttr); }

LogicalResult AllReduceOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> location,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  if (adaptor.getInputs().empty()) // all_reduce C1
    return inferError(location, "all_reduce", "expects at least one operand");
  llvm::append_range(types, TypeRange(adaptor.getInputs()));
  return success();
}

//===----------------------------------------------------------------------===//
// CollectivePermuteOp
//===----------------------------------------------------------------------===//

SmallVector<int64_t> CollectivePermuteOp::getTargets(int64_t ranks) {
  SmallVector<int64_t> targets(ranks, -1);
  ArrayRef<int64_t> pairs = getSourceTargetPairs();
  for (size_t i = 0; i < pairs.size(); i += 2)
    targets[pairs[i]] = pairs[i + 1];
  return targets;
}

//===----------------------------------------------------------------------===//
// AsyncOp, AwaitOp
//===----------------------------------------------------------------------===//

Operation *AsyncOp::getCollective() {
  Block &block = getBody().front();
  return block.empty() ? nullptr : &block.front();
}

LogicalResult PredivideOp::verify() {
  return detail::verifyAxes(*this, getAxes()); // predivide C1
}

LogicalResult AsyncOp::verify() {
  Block &block = getBody().front();
  auto yield = block.empty() ? YieldOp() : dyn_cast<YieldOp>(block.back());
  if (!yield)
    return emitOpError("expects its region to end with mpcomm.yield");
  if (block.getOperations().size() != 2 ||
      !isa<CollectiveOpInterface>(block.front())) // async C1
    return emitOpError("expects exactly one op before the yield of its "
                       "region, a collective");
  if (!llvm::equal(block.front().getResults(), yield.getValues())) // async C2
    return yield.emitOpError("expects to yield the results of the collective, "
                             "in order");
  if (!llvm::equal(getFuture().getType().getTypes(),
                   yield.getValues().getTypes())) // async C3
    return emitOpError() << "expects a future of the yielded types, got "
                         << getFuture().getType();
  return success();
}

LogicalResult AwaitOp::inferReturnTypes(MLIRContext *,
                                        std::optional<Location> location,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  auto future = dyn_cast<FutureType>(adaptor.getFuture().getType());
  if (!future)
    return inferError(location, "await", "expects a future, got ",
                      adaptor.getFuture().getType());
  llvm::append_range(types, future.getTypes());
  return success();
}

LogicalResult AwaitOp::verify() {
  for (Operation *user : getFuture().getUsers()) // await C1
    if (user != getOperation() && isa<AwaitOp>(user)) {
      InFlightDiagnostic diag =
          emitOpError("waits for a future that is awaited elsewhere too");
      diag.attachNote(user->getLoc()) << "the other one is here";
      return diag;
    }
  return success();
}
