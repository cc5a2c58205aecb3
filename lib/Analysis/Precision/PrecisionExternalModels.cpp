//===- PrecisionExternalModels.cpp - precision of upstream's ops ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PrecisionOpInterface for arith, math, tensor and linalg. Functions that
// stretch small differences (exponentials, logarithms, powers, reciprocals,
// tangents) need full precision, as in PyTorch's autocast lists; other
// elementwise work follows its inputs.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Analysis/ExternalModels.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using namespace mpcomm;

static Type sumTypeFor(Type type) {
  return mpcomm::detail::getSumType(getElementTypeOrSelf(type));
}

namespace {

template <typename OpT, PrecisionClass precision>
struct FixedPrecision
    : PrecisionOpInterface::ExternalModel<FixedPrecision<OpT, precision>, OpT> {
  PrecisionClass getPrecisionClass(Operation *) const { return precision; }
};

/// Contractions and convolutions gain from lower precision, other sums need
/// f32. Without a reduction: the strictest class of the ops in the body, and
/// any if the body only yields.
template <typename OpT>
struct StructuredPrecision
    : PrecisionOpInterface::ExternalModel<StructuredPrecision<OpT>, OpT> {
  PrecisionClass getPrecisionClass(Operation *op) const {
    auto structured = cast<linalg::LinalgOp>(op);
    if (linalg::isaContractionOpInterface(structured) ||
        linalg::isaConvolutionOpInterface(structured))
      return PrecisionClass::LowerPrecision;
    if (structured.getNumReductionLoops())
      return PrecisionClass::FP32;
    bool needsFP32 = false, follows = false;
    for (Operation &inner : structured.getBlock()->without_terminator()) {
      auto model = dyn_cast<PrecisionOpInterface>(inner);
      PrecisionClass precision =
          model ? model.getPrecisionClass() : PrecisionClass::Promote;
      needsFP32 |= precision == PrecisionClass::FP32;
      follows |= precision != PrecisionClass::Any;
    }
    return needsFP32 ? PrecisionClass::FP32
           : follows ? PrecisionClass::Promote
                     : PrecisionClass::Any;
  }
  Type getAccumulationType(Operation *op) const {
    auto structured = cast<linalg::LinalgOp>(op);
    if (!structured.getNumReductionLoops() || !structured.getNumDpsInits())
      return Type();
    return sumTypeFor(structured.getDpsInitOperand(0)->get().getType());
  }
};

struct SoftmaxPrecision
    : PrecisionOpInterface::ExternalModel<SoftmaxPrecision, linalg::SoftmaxOp> {
  PrecisionClass getPrecisionClass(Operation *) const {
    return PrecisionClass::FP32;
  }
  Type getAccumulationType(Operation *op) const {
    return sumTypeFor(cast<linalg::SoftmaxOp>(op).getInput().getType());
  }
};

template <PrecisionClass precision, typename... Ops>
void attach(MLIRContext *context) {
  (Ops::template attachInterface<FixedPrecision<Ops, precision>>(*context),
   ...);
}
template <typename... Ops> void attachStructured(MLIRContext *context) {
  (Ops::template attachInterface<StructuredPrecision<Ops>>(*context), ...);
}

} // namespace

static void attachArith(MLIRContext *context, arith::ArithDialect *) {
  using namespace arith;
  attach<PrecisionClass::Promote, AddFOp, SubFOp, MulFOp, DivFOp, RemFOp,
         NegFOp, MaximumFOp, MinimumFOp, MaxNumFOp, MinNumFOp, CmpFOp>(context);
  attach<PrecisionClass::Any, AddIOp, AddUIExtendedOp, SubIOp, MulIOp,
         MulSIExtendedOp, MulUIExtendedOp, DivSIOp, DivUIOp, CeilDivSIOp,
         CeilDivUIOp, FloorDivSIOp, RemSIOp, RemUIOp, AndIOp, OrIOp, XOrIOp,
         ShLIOp, ShRSIOp, ShRUIOp, CmpIOp, MaxSIOp, MaxUIOp, MinSIOp, MinUIOp,
         SelectOp, ConstantOp, ScalingExtFOp, ScalingTruncFOp, ExtFOp, ExtSIOp,
         ExtUIOp, TruncFOp, TruncIOp, SIToFPOp, UIToFPOp, FPToSIOp, FPToUIOp,
         IndexCastOp, IndexCastUIOp, BitcastOp>(context);
}

static void attachMath(MLIRContext *context, math::MathDialect *) {
  using namespace math;
  attach<PrecisionClass::FP32, AcosOp, AsinOp, CoshOp, ExpOp, Exp2Op, ExpM1Op,
         FPowIOp, LogOp, Log10Op, Log1pOp, Log2Op, PowFOp, RsqrtOp, SinhOp,
         TanOp>(context);
  attach<PrecisionClass::Promote, AbsFOp, AcoshOp, AsinhOp, AtanOp, Atan2Op,
         AtanhOp, CbrtOp, CeilOp, CopySignOp, CosOp, ErfOp, ErfcOp, FloorOp,
         ClampFOp, FmaOp, RoundOp, RoundEvenOp, SinOp, SincosOp, SqrtOp, TanhOp,
         TruncOp>(context);
  attach<PrecisionClass::Any, AbsIOp, CountLeadingZerosOp, CountTrailingZerosOp,
         CtPopOp, IPowIOp, IsFiniteOp, IsInfOp, IsNaNOp, IsNormalOp>(context);
}

static void attachTensor(MLIRContext *context, tensor::TensorDialect *) {
  using namespace tensor;
  attach<PrecisionClass::Any, CastOp, CollapseShapeOp, ConcatOp, DimOp, EmptyOp,
         ExpandShapeOp, ExtractOp, ExtractSliceOp, FromElementsOp,
         tensor::GatherOp, GenerateOp, InsertOp, InsertSliceOp, tensor::PadOp,
         RankOp, tensor::ReshapeOp, tensor::ScatterOp, SplatOp>(context);
  // The bits of an element have a meaning in its own type only.
  attach<PrecisionClass::FP32, tensor::BitcastOp>(context);
}

static void attachLinalg(MLIRContext *context, linalg::LinalgDialect *) {
  attachStructured<
#define GET_OP_LIST
#include "mlir/Dialect/Linalg/IR/LinalgStructuredOps.cpp.inc"
      >(context);
  linalg::SoftmaxOp::attachInterface<SoftmaxPrecision>(*context);
  attach<PrecisionClass::Any, linalg::PackOp, linalg::UnPackOp>(context);
}

void mpcomm::registerPrecisionModels(DialectRegistry &registry) {
  registry.addExtension(attachArith);
  registry.addExtension(attachMath);
  registry.addExtension(attachTensor);
  registry.addExtension(attachLinalg);
}
