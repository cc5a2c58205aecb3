//===- LinearityExternalModels.cpp - factors through upstream's ops -------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// LinearOpInterface for arith and math.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mpcomm/Analysis/ExternalModels.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using namespace mpcomm;

namespace {

template <typename OpT>
struct JointModel : LinearOpInterface::ExternalModel<JointModel<OpT>, OpT> {
  Linearity getLinearity(Operation *op) const { return Linearity::jointly(op); }
};

/// In each of the first `count` operands.
template <typename OpT, unsigned count>
struct EachModel
    : LinearOpInterface::ExternalModel<EachModel<OpT, count>, OpT> {
  Linearity getLinearity(Operation *op) const {
    return Linearity::inEach(op, count);
  }
};

template <typename... Ops> void attachJoint(MLIRContext *context) {
  (Ops::template attachInterface<JointModel<Ops>>(*context), ...);
}

} // namespace

static void attachArith(MLIRContext *context, arith::ArithDialect *) {
  using namespace arith;
  attachJoint<AddFOp, SubFOp, NegFOp, SelectOp, ExtFOp, TruncFOp, MaximumFOp,
              MinimumFOp, MaxNumFOp, MinNumFOp>(context);
  MulFOp::attachInterface<EachModel<MulFOp, 2>>(*context);
  DivFOp::attachInterface<EachModel<DivFOp, 1>>(*context);
}

static void attachMath(MLIRContext *context, math::MathDialect *) {
  attachJoint<math::AbsFOp>(context);
}

void mpcomm::registerLinearityModels(DialectRegistry &registry) {
  registry.addExtension(attachArith);
  registry.addExtension(attachMath);
}
