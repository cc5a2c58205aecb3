//===- Model.cpp - the cost model that a pass asks ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Communicate/Model.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mpcomm;

/// What `Model` makes of an op; nothing, with the reason, where it cannot.
template <typename Model, typename Op>
static std::optional<Model> getQuietly(Op op, const CostModel &model,
                                       std::string &why) {
  ScopedDiagnosticHandler handler(op->getContext(),
                                  [&](Diagnostic &diagnostic) {
                                    why = diagnostic.str();
                                    return success();
                                  });
  FailureOr<Model> made = Model::get(op, model);
  if (failed(made))
    return std::nullopt;
  return std::move(*made);
}

std::optional<StepModel> mpcomm::getStepModel(FunctionOpInterface function,
                                              const CostModel &model,
                                              std::string &why) {
  return getQuietly<StepModel>(function, model, why);
}

std::optional<ProgramModel> mpcomm::getProgramModel(Operation *symbol,
                                                    const CostModel &model,
                                                    std::string &why) {
  return getQuietly<ProgramModel>(symbol, model, why);
}

std::optional<CostCurve> mpcomm::getTwoLevelCost(const CostModel &model,
                                                 const GroupShape &shape,
                                                 unsigned level) {
  auto groups = CostModel::splitGroup(shape, level);
  if (!groups)
    return std::nullopt;
  auto [inside, across] = *groups;
  if (inside.ranks * across.ranks != shape.ranks) // shares would not be equal
    return std::nullopt;
  auto share = static_cast<double>(inside.ranks);
  CostCurve scatter =
      model.getCollective(CollectiveKind::ReduceScatter, inside);
  CostCurve reduce = model.getCollective(CollectiveKind::AllReduce, across);
  CostCurve gather = model.getCollective(CollectiveKind::AllGather, inside);
  std::vector<CostLine> ways;
  for (const CostLine &a : scatter.pieces)
    for (const CostLine &b : reduce.pieces)
      for (const CostLine &c : gather.pieces)
        ways.push_back(makeLine(
            CollectiveAlgorithm::Hierarchical,
            a.latency + b.latency + c.latency,
            a.secondsPerByte + (b.secondsPerByte + c.secondsPerByte) / share,
            b.link));
  return CostCurve::getEnvelope(std::move(ways));
}

bool mpcomm::isCompressible(CollectiveOpInterface op) {
  bool isScatter = op.getCollectiveKind() == CollectiveKind::ReduceScatter;
  if (!isScatter && op.getCollectiveKind() != CollectiveKind::AllReduce)
    return false;
  bool isSum = op.getCollectiveReduction() == Reduction::Sum ||
               op.getCollectiveReduction() == Reduction::Mean;
  bool areFloats = llvm::all_of(op->getOperands(), [&](Value input) {
    auto type = dyn_cast<RankedTensorType>(input.getType());
    auto element = dyn_cast<FloatType>(getElementTypeOrSelf(input.getType()));
    return element && element.getWidth() <= 32 &&
           (!isScatter || (type && type.getRank() == 1));
  });
  Type accumulate = op.getAccumulateType();
  return isSum && areFloats && accumulate && accumulate.isF32();
}

CostCurve mpcomm::getCompressedCost(const CostModel &model,
                                    const GroupShape &shape,
                                    const WireFormat &format,
                                    CollectiveOpInterface op) {
  auto ranks = static_cast<double>(shape.ranks);
  double elements = 0, stored = 0;
  for (Value input : op->getOperands()) {
    elements +=
        static_cast<double>(mpcomm::detail::countElements(input.getType()));
    stored += static_cast<double>(mpcomm::detail::countBytes(input.getType()));
  }
  auto plain = static_cast<double>(CostModel::getWireBytes(op));
  if (elements == 0 || plain == 0)
    return CostCurve::getEnvelope(
        {makeLine(CollectiveAlgorithm::Direct, 0, 0, 0)});
  // Of one byte of the plain payload: elements, and what they are encoded and
  // in memory.
  double share = elements / plain;
  double sent = share *
                static_cast<double>(format.getBytes(format.getBlock())) /
                static_cast<double>(format.getBlock());
  double wide = share * 4, narrow = stored / plain;
  double traffic = (narrow + wide) +      // row
                   (wide + sent) +        // encode
                   (sent + wide / ranks); // sum
  const DeviceModel &device = model.getCluster().device;
  double messages = format.hasBlocks() ? 2 : 1;
  std::vector<CostLine> ways;
  CostCurve exchange = model.getCollective(CollectiveKind::AllToAll, shape);
  if (op.getCollectiveKind() == CollectiveKind::ReduceScatter) {
    traffic += (wide + narrow) / ranks; // hand out
    for (const CostLine &a : exchange.pieces)
      ways.push_back(makeLine(
          CollectiveAlgorithm::Direct, messages * a.latency + 2 * device.launch,
          sent * a.secondsPerByte + traffic / device.memoryBandwidth, a.link));
    return CostCurve::getEnvelope(std::move(ways));
  }
  traffic += (wide + sent) / ranks + // encode
             (sent + wide) +         // decode
             (wide + narrow);        // hand out
  CostCurve gather = model.getCollective(CollectiveKind::AllGather, shape);
  for (const CostLine &a : exchange.pieces)
    for (const CostLine &b : gather.pieces)
      ways.push_back(
          makeLine(CollectiveAlgorithm::Direct,
                   messages * (a.latency + b.latency) + 3 * device.launch,
                   sent * (a.secondsPerByte + b.secondsPerByte / ranks) +
                       traffic / device.memoryBandwidth,
                   a.link));
  return CostCurve::getEnvelope(std::move(ways));
}

double mpcomm::getPackingSeconds(const CostModel &model, size_t tensors,
                                 double bytes) {
  if (tensors < 2)
    return 0;
  const DeviceModel &device = model.getCluster().device;
  return 4 * bytes / device.memoryBandwidth +
         static_cast<double>(tensors + 1) * device.launch;
}

std::string mpcomm::toMicros(double seconds) {
  return llvm::formatv("{0:f1}", 1e6 * seconds).str();
}
