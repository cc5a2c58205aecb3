//===- CostExternalModels.cpp - costs of upstream's ops -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CostOpInterface for arith, math, tensor and linalg: floating-point operations
// and the bytes an op has to move if nothing is fused. Integer arithmetic,
// conversions and moves are no floating-point operations. Ops that only give a
// value another shape or name, and constants, move nothing.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mpcomm/Analysis/ExternalModels.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using namespace mpcomm;
using mpcomm::detail::countBytes;
using mpcomm::detail::countElements;
using mpcomm::detail::countResultElements;
using mpcomm::detail::multiplySaturated;

namespace {

/// `flops` for each element of the result; all operands read once.
template <typename OpT, int64_t flops>
struct ElementwiseCost
    : CostOpInterface::ExternalModel<ElementwiseCost<OpT, flops>, OpT> {
  int64_t getFlops(Operation *op) const {
    return multiplySaturated(flops, countResultElements(op));
  }
};

/// No work at all: constants, reshapes, empty tensors.
template <typename OpT>
struct FreeCost : CostOpInterface::ExternalModel<FreeCost<OpT>, OpT> {
  int64_t getFlops(Operation *) const { return 0; }
  int64_t getBytesRead(Operation *) const { return 0; }
  int64_t getBytesWritten(Operation *) const { return 0; }
};

/// Reads as much as it writes, not all of its operand: slices, gathers.
template <typename OpT>
struct SliceCost : CostOpInterface::ExternalModel<SliceCost<OpT>, OpT> {
  int64_t getFlops(Operation *) const { return 0; }
  int64_t getBytesRead(Operation *op) const {
    return countBytes(op->getResultTypes());
  }
};

/// Writes its first operand into the destination, of which the rest stays.
template <typename OpT>
struct InsertCost : CostOpInterface::ExternalModel<InsertCost<OpT>, OpT> {
  int64_t getFlops(Operation *) const { return 0; }
  int64_t getBytesRead(Operation *op) const {
    return countBytes(op->getOperand(0).getType());
  }
  int64_t getBytesWritten(Operation *op) const {
    return countBytes(op->getOperand(0).getType());
  }
};

/// A scalar out of a tensor.
struct ExtractCost
    : CostOpInterface::ExternalModel<ExtractCost, tensor::ExtractOp> {
  int64_t getFlops(Operation *) const { return 0; }
  int64_t getBytesRead(Operation *op) const {
    return countBytes(RankedTensorType::get({}, op->getResult(0).getType()));
  }
  int64_t getBytesWritten(Operation *) const { return 0; }
};

/// The body's flops at each point of the iteration space. Outputs are read
/// where the body uses them.
template <typename OpT>
struct StructuredCost
    : CostOpInterface::ExternalModel<StructuredCost<OpT>, OpT> {
  int64_t getFlops(Operation *op) const {
    auto structured = cast<linalg::LinalgOp>(op);
    int64_t points = 1;
    for (int64_t range : structured.getStaticLoopRanges())
      points =
          multiplySaturated(points, ShapedType::isDynamic(range) ? 1 : range);
    int64_t perPoint = 0;
    for (Operation &inner : structured.getBlock()->without_terminator())
      if (auto cost = dyn_cast<CostOpInterface>(inner))
        perPoint += cost.getFlops();
    return multiplySaturated(points, perPoint);
  }
  int64_t getBytesRead(Operation *op) const {
    auto structured = cast<linalg::LinalgOp>(op);
    int64_t bytes = 0;
    for (OpOperand &operand : op->getOpOperands())
      if (structured.payloadUsesValueFromOperand(&operand))
        bytes += countBytes(operand.get().getType());
    return bytes;
  }
  int64_t getBytesWritten(Operation *op) const {
    return countBytes(cast<linalg::LinalgOp>(op).getDpsInits().getTypes());
  }
  /// Sums are added up in a wider type than that of the products.
  Type getProductType(Operation *op) const {
    return getElementTypeOrSelf(op->getOperand(0).getType());
  }
};

/// As mpcomm.softmax: maximum, difference, exponential, sum, division.
struct SoftmaxCost
    : CostOpInterface::ExternalModel<SoftmaxCost, linalg::SoftmaxOp> {
  int64_t getFlops(Operation *op) const {
    return multiplySaturated(
        5, countElements(cast<linalg::SoftmaxOp>(op).getInput().getType()));
  }
  int64_t getBytesRead(Operation *op) const {
    return countBytes(cast<linalg::SoftmaxOp>(op).getInput().getType());
  }
  int64_t getBytesWritten(Operation *op) const {
    return countBytes(cast<linalg::SoftmaxOp>(op).getOutput().getType());
  }
};

template <int64_t flops, typename... Ops>
void attachElementwise(MLIRContext *context) {
  (Ops::template attachInterface<ElementwiseCost<Ops, flops>>(*context), ...);
}
template <template <typename> typename Model, typename... Ops>
void attach(MLIRContext *context) {
  (Ops::template attachInterface<Model<Ops>>(*context), ...);
}

} // namespace

static void attachArith(MLIRContext *context, arith::ArithDialect *) {
  using namespace arith;
  attachElementwise<1, AddFOp, SubFOp, MulFOp, DivFOp, RemFOp, NegFOp,
                    MaximumFOp, MinimumFOp, MaxNumFOp, MinNumFOp, CmpFOp>(
      context);
  attachElementwise<
      0, AddIOp, AddUIExtendedOp, SubIOp, MulIOp, MulSIExtendedOp,
      MulUIExtendedOp, DivSIOp, DivUIOp, CeilDivSIOp, CeilDivUIOp, FloorDivSIOp,
      RemSIOp, RemUIOp, AndIOp, OrIOp, XOrIOp, ShLIOp, ShRSIOp, ShRUIOp, CmpIOp,
      MaxSIOp, MaxUIOp, MinSIOp, MinUIOp, SelectOp, ExtFOp, ExtSIOp, ExtUIOp,
      TruncFOp, TruncIOp, ScalingExtFOp, ScalingTruncFOp, SIToFPOp, UIToFPOp,
      FPToSIOp, FPToUIOp, IndexCastOp, IndexCastUIOp, BitcastOp>(context);
  attach<FreeCost, ConstantOp>(context);
}

static void attachMath(MLIRContext *context, math::MathDialect *) {
  using namespace math;
  attachElementwise<1, AbsFOp, AcosOp, AcoshOp, AsinOp, AsinhOp, AtanOp,
                    Atan2Op, AtanhOp, CbrtOp, CeilOp, CopySignOp, CosOp, CoshOp,
                    ErfOp, ErfcOp, ExpOp, Exp2Op, ExpM1Op, FloorOp, FPowIOp,
                    SincosOp, LogOp, Log10Op, Log1pOp, Log2Op, PowFOp, RoundOp,
                    RoundEvenOp, RsqrtOp, SinOp, SinhOp, SqrtOp, TanOp, TanhOp,
                    TruncOp>(context);
  attachElementwise<2, ClampFOp, FmaOp>(context);
  attachElementwise<0, AbsIOp, CountLeadingZerosOp, CountTrailingZerosOp,
                    CtPopOp, IPowIOp, IsFiniteOp, IsInfOp, IsNaNOp, IsNormalOp>(
      context);
}

static void attachTensor(MLIRContext *context, tensor::TensorDialect *) {
  using namespace tensor;
  attach<FreeCost, BitcastOp, CastOp, CollapseShapeOp, DimOp, EmptyOp,
         ExpandShapeOp, RankOp, tensor::ReshapeOp>(context);
  attach<SliceCost, ExtractSliceOp, tensor::GatherOp>(context);
  attach<InsertCost, InsertOp, InsertSliceOp, tensor::ScatterOp>(context);
  attachElementwise<0, ConcatOp, FromElementsOp, GenerateOp, tensor::PadOp,
                    SplatOp>(context);
  ExtractOp::attachInterface<ExtractCost>(*context);
}

static void attachLinalg(MLIRContext *context, linalg::LinalgDialect *) {
  attach<StructuredCost,
#define GET_OP_LIST
#include "mlir/Dialect/Linalg/IR/LinalgStructuredOps.cpp.inc"
         >(context);
  linalg::SoftmaxOp::attachInterface<SoftmaxCost>(*context);
  attachElementwise<0, linalg::PackOp, linalg::UnPackOp>(context);
}

void mpcomm::registerCostModels(DialectRegistry &registry) {
  registry.addExtension(attachArith);
  registry.addExtension(attachMath);
  registry.addExtension(attachTensor);
  registry.addExtension(attachLinalg);
}
