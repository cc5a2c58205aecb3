//===- VerifyTrainingGraph.cpp - the contract of Form 1 -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Form 1: one pure step on static tensors whose signature says what each value
// is for. All errors of a function are reported, not the first alone.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/StringMap.h"

namespace mpcomm {
#define GEN_PASS_DEF_VERIFYTRAININGGRAPHPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-verify-training-graph"

using namespace mlir;
using namespace mpcomm;

static bool isStaticTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape() &&
         mpcomm::detail::isCountable(tensor);
}

static bool isScalarFloatTensor(Type type) {
  return isStaticTensor(type) && cast<RankedTensorType>(type).getRank() == 0 &&
         isa<FloatType>(cast<RankedTensorType>(type).getElementType());
}

namespace {

/// Checks one function; `ok` turns false with the first error.
class FunctionChecker {
public:
  explicit FunctionChecker(func::FuncOp function) : function(function) {}

  /// What @train_step and @evaluate have in common.
  void checkCommon();
  void checkStep();
  void checkEvaluate(func::FuncOp step);

  bool ok = true;

private:
  InFlightDiagnostic error(Operation *at) {
    ok = false;
    return at->emitOpError();
  }
  InFlightDiagnostic error() { return error(function); }

  void checkBody();
  void checkArguments();
  void checkResults();
  void checkBatch();
  void checkDonation();
  void checkStateResults();
  void checkCopies();
  void checkTargets(unsigned index);

  func::FuncOp function;
  llvm::StringMap<unsigned> argumentsByName, resultsByName;
};

} // namespace

void FunctionChecker::checkBody() {
  if (!function.getFunctionBody().hasOneBlock())
    error() << "has " << function.getFunctionBody().getBlocks().size()
            << " blocks, expected one";
  function.getFunctionBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    for (Value result : op->getResults())
      if (isa<TensorType, BaseMemRefType>(result.getType()) &&
          !isStaticTensor(result.getType()))
        error(op)
            << "gives a value of type " << result.getType()
            << ", expected ranked tensors of static shape and at most 2^48 "
               "elements in a training graph";
    if (isa<CollectiveOpInterface, AsyncOp, AwaitOp>(op)) {
      error(op) << "communicates, expected no collectives in a training graph";
      return WalkResult::skip();
    }
    if (op->hasTrait<OpTrait::IsTerminator>() || isMemoryEffectFree(op))
      return WalkResult::advance();
    // Report the ops inside instead of the op around them.
    if (op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() &&
        op->getNumRegions())
      return WalkResult::advance();
    error(op) << "has side effects, or effects that are not known, expected "
                 "pure ops in a training graph";
    return WalkResult::skip();
  });
}

void FunctionChecker::checkArguments() {
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    auto what = [&, i = i] { return describeArgument(function, i); };
    if (!isStaticTensor(type))
      error() << "has " << what() << " of type " << type
              << ", expected a ranked tensor of static shape and at most 2^48 "
                 "elements";
    std::optional<Role> role = getArgumentRole(function, i);
    StringRef name = getArgumentName(function, i);
    if (!role)
      error() << "has " << what() << " without '" << kRoleAttr << "'";
    else if (*role == Role::Loss || *role == Role::Output)
      error() << "has " << what() << " of role '" << stringifyRole(*role)
              << "', which only a result can have";
    if (name.empty())
      error() << "has " << what() << " without '" << kNameAttr << "'";
    else if (auto [it, isNew] = argumentsByName.try_emplace(name, i); !isNew)
      error() << "has " << what() << " with the name of argument #"
              << it->second;
    if (role != Role::Hyperparameter)
      continue;
    if (!isScalarFloatTensor(type))
      error() << "has hyperparameter " << what() << " of type " << type
              << ", expected a 0-d tensor of floats";
    if (!function.getArgAttr(i, kDefaultAttr))
      error() << "has hyperparameter " << what() << " without '" << kDefaultAttr
              << "'";
  }
}

void FunctionChecker::checkResults() {
  for (auto [i, type] : llvm::enumerate(function.getResultTypes())) {
    auto what = [&, i = i] { return describeResult(function, i); };
    if (!isStaticTensor(type))
      error() << "has " << what() << " of type " << type
              << ", expected a ranked tensor of static shape and at most 2^48 "
                 "elements";
    std::optional<Role> role = getResultRole(function, i);
    StringRef name = getResultName(function, i);
    if (!role)
      error() << "has " << what() << " without '" << kRoleAttr << "'";
    else if (*role == Role::Batch || *role == Role::Hyperparameter)
      error() << "has " << what() << " of role '" << stringifyRole(*role)
              << "', which only an argument can have";
    if (name.empty())
      error() << "has " << what() << " without '" << kNameAttr << "'";
    else if (auto [it, isNew] = resultsByName.try_emplace(name, i); !isNew)
      error() << "has " << what() << " with the name of result #" << it->second;
    checkTargets(i);
  }
}

/// `mpcomm.targets` of a result names an integer batch argument.
void FunctionChecker::checkTargets(unsigned index) {
  auto targets = function.getResultAttrOfType<StringAttr>(index, kTargetsAttr);
  if (!targets)
    return;
  auto it = argumentsByName.find(targets.getValue());
  if (it != argumentsByName.end() &&
      getArgumentRole(function, it->second) == Role::Batch) {
    auto type = dyn_cast<ShapedType>(function.getArgumentTypes()[it->second]);
    if (type && type.getElementType().isInteger())
      return;
  }
  error() << "has " << describeResult(function, index) << " with targets "
          << targets << ", expected the name of an integer batch argument";
}

/// The leading dimension of all batch arguments is the number of samples.
void FunctionChecker::checkBatch() {
  std::optional<unsigned> first;
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (getArgumentRole(function, i) != Role::Batch || !tensor)
      continue;
    if (tensor.getRank() == 0) {
      error() << "has batch " << describeArgument(function, i) << " of type "
              << type << ", expected a leading dimension of samples";
      continue;
    }
    if (!first) {
      first = i;
      continue;
    }
    auto other = cast<RankedTensorType>(function.getArgumentTypes()[*first]);
    if (tensor.getDimSize(0) != other.getDimSize(0))
      error() << "has batch " << describeArgument(function, i) << " of "
              << tensor.getDimSize(0) << " samples, expected "
              << other.getDimSize(0) << " as in "
              << describeArgument(function, *first);
  }
}

void FunctionChecker::checkCommon() {
  checkBody();
  checkArguments();
  checkResults();
  checkBatch();
}

/// Argument i gives its buffer to a result of its type, role and name.
void FunctionChecker::checkDonation() {
  llvm::DenseMap<int64_t, unsigned> donor;
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    std::optional<int64_t> result = getDonation(function, i);
    if (!result)
      continue;
    auto what = [&, i = i] { return describeArgument(function, i); };
    auto target = [&] { return describeResult(function, *result); };
    if (auto [it, isNew] = donor.try_emplace(*result, i); !isNew)
      error() << "donates " << what() << " to " << target()
              << ", which has the buffer of argument #" << it->second
              << " already";
    Type resultType = function.getResultTypes()[*result];
    if (type != resultType)
      error() << "donates " << what() << " of type " << type << " to "
              << target() << " of type " << resultType << ", expected one type";
    if (getArgumentRole(function, i) != getResultRole(function, *result) ||
        getArgumentName(function, i) != getResultName(function, *result))
      error() << "donates " << what() << " to " << target()
              << ", expected one role and one name";
  }
}

/// State that comes out goes in again at the next step.
void FunctionChecker::checkStateResults() {
  for (auto [i, type] : llvm::enumerate(function.getResultTypes())) {
    std::optional<Role> role = getResultRole(function, i);
    if (!role || !isStateRole(*role))
      continue;
    auto it = argumentsByName.find(getResultName(function, i));
    if (it == argumentsByName.end() ||
        getArgumentRole(function, it->second) != role ||
        function.getArgumentTypes()[it->second] != type)
      error() << "has " << describeResult(function, i) << " of role '"
              << stringifyRole(*role) << "' and type " << type
              << ", expected an argument of that name, role and type";
  }
}

/// What an argument starts as a copy of is a parameter of its shape.
void FunctionChecker::checkCopies() {
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    auto source = function.getArgAttrOfType<StringAttr>(i, kCopyOfAttr);
    if (!source)
      continue;
    auto isFloats = [](Type type, RankedTensorType &tensor) {
      tensor = dyn_cast<RankedTensorType>(type);
      return tensor && isa<FloatType>(tensor.getElementType());
    };
    std::optional<Role> role = getArgumentRole(function, i);
    RankedTensorType own, other;
    if (!role || !isStateRole(*role) || *role == Role::Parameter ||
        *role == Role::Rng || function.getArgAttr(i, kDefaultAttr) ||
        !isFloats(type, own)) {
      error() << "has '" << kCopyOfAttr << "' on "
              << describeArgument(function, i)
              << ", expected it on state of floats other than a parameter, "
                 "without a default";
      continue;
    }
    auto it = argumentsByName.find(source.getValue());
    if (it == argumentsByName.end() ||
        getArgumentRole(function, it->second) != Role::Parameter ||
        !isFloats(function.getArgumentTypes()[it->second], other) ||
        own.getShape() != other.getShape())
      error() << "has " << describeArgument(function, i) << " of type " << type
              << " as a copy of " << source
              << ", expected the name of a parameter of floats of its shape";
  }
}

void FunctionChecker::checkStep() {
  checkDonation();
  checkCopies();
  checkStateResults();
  unsigned losses = 0;
  for (auto [i, type] : llvm::enumerate(function.getResultTypes())) {
    if (getResultRole(function, i) != Role::Loss)
      continue;
    ++losses;
    if (!isScalarFloatTensor(type))
      error() << "has a loss, " << describeResult(function, i) << ", of type "
              << type << ", expected a 0-d tensor of floats";
  }
  if (losses == 0)
    error() << "has no result of role 'loss', expected one, and any metrics "
               "after it";
}

void FunctionChecker::checkEvaluate(func::FuncOp step) {
  llvm::StringMap<unsigned> inStep;
  for (unsigned i = 0; i < step.getNumArguments(); ++i)
    inStep.try_emplace(getArgumentName(step, i), i);
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    if (getDonation(function, i))
      error() << "donates " << describeArgument(function, i) << ", expected @"
              << kEvaluate << " to donate nothing";
    if (getArgumentName(function, i).empty())
      continue;
    auto it = inStep.find(getArgumentName(function, i));
    if (it != inStep.end() && step.getArgumentTypes()[it->second] == type &&
        getArgumentRole(step, it->second) == getArgumentRole(function, i))
      continue;
    InFlightDiagnostic diag = error() << "has " << describeArgument(function, i)
                                      << " of type " << type
                                      << ", expected one of @" << kTrainStep
                                      << "'s arguments with its role and type";
    if (it != inStep.end())
      diag.attachNote(step.getLoc())
          << "there it is " << describeArgument(step, it->second) << " of type "
          << step.getArgumentTypes()[it->second];
  }
}

namespace {
struct VerifyTrainingGraph
    : mpcomm::impl::VerifyTrainingGraphPassBase<VerifyTrainingGraph> {
  using VerifyTrainingGraphPassBase::VerifyTrainingGraphPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    bool ok = true;
    for (auto function : module.getOps<FunctionOpInterface>())
      if (function.isPublic() && function.getName() != kTrainStep &&
          function.getName() != kEvaluate) {
        function->emitOpError()
            << "is public, expected @" << kTrainStep << " and @" << kEvaluate
            << " alone to be so in a training graph";
        ok = false;
      }
    auto step = module.lookupSymbol<func::FuncOp>(kTrainStep);
    if (!step || !step.isPublic() || step.isExternal()) {
      (step ? step->emitOpError() : module.emitError())
          << (step ? "is private or has no body, expected" : "expected")
          << " a public function @" << kTrainStep << " with a body";
      return signalPassFailure();
    }
    FunctionChecker checker(step);
    checker.checkCommon();
    checker.checkStep();
    ok &= checker.ok;

    auto evaluate = module.lookupSymbol<func::FuncOp>(kEvaluate);
    if (evaluate && !evaluate.isExternal()) {
      FunctionChecker evaluateChecker(evaluate);
      evaluateChecker.checkCommon();
      evaluateChecker.checkEvaluate(step);
      ok &= evaluateChecker.ok;
    } else if (evaluate) {
      evaluate->emitOpError("has no body, expected one");
      ok = false;
    }
    if (!ok)
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
