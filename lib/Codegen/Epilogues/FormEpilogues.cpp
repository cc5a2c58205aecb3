//===- FormEpilogues.cpp - kernels after products to epilogues ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pass: brings matrix products and launches together whose kernels do what
// a library can do with the product, and marks the launches.
//
//===----------------------------------------------------------------------===//

#include "Epilogues/EpilogueKernels.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mpcomm/Analysis/Contraction/StridedProduct.h"
#include "mpcomm/Codegen/Passes.h"
#include "mpcomm/Dialect/MPRT/IR/Address.h"
#include "mpcomm/Dialect/MPRT/IR/Epilogue.h"
#include "mpcomm/Runtime/mprt.h"

#define DEBUG_TYPE "mpcomm-form-epilogues"

using namespace mlir;

namespace mpcomm {
#define GEN_PASS_DEF_FORMEPILOGUESPASS
#include "mpcomm/Codegen/Passes.h.inc"

namespace {
using mprt::Epilogue;
using mprt::GemmOp;
using mprt::LaunchOp;

struct FormEpiloguesPass : impl::FormEpiloguesPassBase<FormEpiloguesPass> {
  using FormEpiloguesPassBase::FormEpiloguesPassBase;
  void runOnOperation() override;

private:
  const std::optional<EpilogueKernel> &find(LaunchOp launch);
  bool form(LaunchOp launch);

  struct Kernel {
    std::optional<EpilogueKernel> found;
    std::optional<std::pair<SplitKernel, SplitKernel>>
        splits; // once it was split
  };
  SymbolTable *symbols = nullptr;
  llvm::StringMap<Kernel> kernels;
};
} // namespace

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

/// What `op` uses; failure, without a word, where that is not known: the launch
/// stays what it is.
static FailureOr<SmallVector<Access, 4>> usesOf(Operation *op) {
  ScopedDiagnosticHandler quiet(op->getContext(),
                                [](Diagnostic &) { return success(); });
  return accessesOf(op);
}

/// Whether `op` may change places with everything that a stream does between it
/// and `end`, further down in its block.
static bool canSink(Operation *op, Operation *end) {
  FailureOr<SmallVector<Access, 4>> own = usesOf(op);
  if (failed(own))
    return false;
  for (op = mprt::nextOnStream(op); op != end; op = mprt::nextOnStream(op)) {
    // What waits for something, or is waited for, stays where it is.
    if (!isa_and_nonnull<GemmOp, LaunchOp, mprt::AttentionOp>(op))
      return false;
    FailureOr<SmallVector<Access, 4>> others = usesOf(op);
    if (failed(others))
      return false;
    for (const Access &access : *own)
      if (llvm::any_of(*others, [&](const Access &other) {
            return access.touches(other);
          }))
        return false;
  }
  return true;
}

/// Whether the launch can be made what is next after the product.
static bool canJoin(GemmOp product, LaunchOp launch) {
  return product->isBeforeInBlock(launch) ? canSink(product, launch)
                                          : canSink(launch, product);
}

static void join(GemmOp product, LaunchOp launch) {
  if (product->isBeforeInBlock(launch))
    product->moveBefore(launch);
  else
    launch->moveAfter(product);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

static bool isDense(Value buffer) {
  return mprt::isContiguous(cast<MemRefType>(buffer.getType()));
}

/// Whether `buffer` is a matrix of so many columns, row by row.
static bool isMatrix(Value buffer, int64_t rows, int64_t columns) {
  auto type = cast<MemRefType>(buffer.getType());
  return isDense(buffer) && type.getRank() > 0 &&
         type.getShape().back() == columns &&
         type.getNumElements() == rows * columns;
}

/// Whether what the library writes to while it reads A and B is no memory of
/// theirs, nor of C: that it was free may be true of the launch alone.
static bool isApart(LaunchOp launch, unsigned written, GemmOp product) {
  FailureOr<SmallVector<Access, 4>> own = usesOf(launch);
  FailureOr<SmallVector<Access, 4>> others = usesOf(product);
  return succeeded(own) && succeeded(others) &&
         llvm::none_of(*others, [&](const Access &other) {
           return (*own)[written].touches(other);
         });
}

/// Whether the launch, which writes over `result`, has nothing else that lies
/// there: a library would read it when it is something else already.
static bool isAlone(LaunchOp launch, unsigned result) {
  FailureOr<SmallVector<Access, 4>> own = usesOf(launch);
  if (failed(own))
    return false;
  for (auto [i, access] : llvm::enumerate(*own))
    if (i != result && access.touches((*own)[result]))
      return false;
  return true;
}

/// What `launch` does, of which `found` is true, as an epilogue of `product`.
static std::optional<Epilogue> match(GemmOp product, LaunchOp launch,
                                     const EpilogueKernel &found) {
  Epilogue epilogue = found.epilogue;
  int64_t m = product.getM(), n = product.getN(), k = product.getK();
  Value matrix = launch->getOperand(found.matrix);
  bool isOfF8 = isF8OfTensorCores(product.getA().getType()) &&
                isF8OfTensorCores(product.getB().getType());
  if (!product.getBatch().empty() || product.getAccumulate() ||
      (!epilogue.scales.empty() && !isOfF8) ||
      (epilogue.hasBias() && !isDense(launch->getOperand(epilogue.bias))))
    return std::nullopt;
  if (epilogue.kind == MPRT_BIAS_GRAD_A) {
    // A is transposed where its sums over k are those over rows.
    if (product.getA() == matrix && isMatrix(matrix, k, m) &&
        product.getAStrides() == ArrayRef<int64_t>{1, m})
      epilogue.kind = MPRT_BIAS_GRAD_A;
    else if (product.getB() == matrix && isMatrix(matrix, k, n) &&
             product.getBStrides() == ArrayRef<int64_t>{n, 1})
      epilogue.kind = MPRT_BIAS_GRAD_B;
    else
      return std::nullopt;
    return isApart(launch, epilogue.bias, product) ? std::optional(epilogue)
                                                   : std::nullopt;
  }
  // What comes after the launch has another C to make.
  if (product.getC() != matrix || !product->isBeforeInBlock(launch) ||
      !isMatrix(matrix, m, n) || product.getCStrides()[0] != n ||
      !isAlone(launch, found.matrix) ||
      (epilogue.hasMatrix() && !isDense(launch->getOperand(epilogue.matrix))) ||
      (epilogue.kind == MPRT_BIAS_GELU_AUX &&
       !isApart(launch, epilogue.matrix, product)))
    return std::nullopt;
  return epilogue;
}

/// The product that has `launch` as an epilogue, where the kernel is `found`.
static GemmOp productOf(LaunchOp launch, const EpilogueKernel &found) {
  GemmOp nearest;
  for (Operation *user : launch->getOperand(found.matrix).getUsers()) {
    auto product = dyn_cast<GemmOp>(user);
    if (!product || product->getBlock() != launch->getBlock() ||
        !mprt::epilogueOf(product).empty() || !match(product, launch, found) ||
        !canJoin(product, launch))
      continue;
    // Of those before it that write it no two can join it; of those that
    // read it the first.
    if (!nearest || product->isBeforeInBlock(nearest))
      nearest = product;
  }
  return nearest;
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

const std::optional<EpilogueKernel> &FormEpiloguesPass::find(LaunchOp launch) {
  auto [entry, isNew] = kernels.try_emplace(launch.getKernel());
  if (isNew)
    if (auto kernel = symbols->lookup<func::FuncOp>(launch.getKernel()))
      entry->second.found = matchEpilogueKernel(
          kernel, static_cast<unsigned>(launch.getInputs().size()));
  return entry->second.found;
}

/// `launch` as a launch of one of the kernels that its kernel is split into.
static LaunchOp launchSplit(OpBuilder &b, LaunchOp launch, SplitKernel &split) {
  SmallVector<Value> operands;
  for (unsigned operand : split.operands)
    operands.push_back(launch->getOperand(operand));
  ArrayRef<Value> all = operands;
  return LaunchOp::create(
      b, launch.getLoc(), TypeRange(), split.kernel.getSymName(),
      all.take_front(split.inputs), all.drop_front(split.inputs));
}

bool FormEpiloguesPass::form(LaunchOp launch) {
  const std::optional<EpilogueKernel> &found = find(launch);
  if (!found || launch->hasAttr(mprt::kEpilogueAttr))
    return false;
  GemmOp product = productOf(launch, *found);
  if (!product)
    return false;
  Epilogue epilogue = *match(product, launch, *found);
  if (found->goesOn) {
    Kernel &kernel = kernels[launch.getKernel()];
    if (!kernel.splits)
      kernel.splits = splitGeluGrad(
          symbols->lookup<func::FuncOp>(launch.getKernel()), *found,
          static_cast<unsigned>(launch.getInputs().size()), *symbols);
    OpBuilder b(launch);
    auto &[own, rest] = *kernel.splits;
    LaunchOp split = launchSplit(b, launch, own);
    launchSplit(b, launch, rest);
    launch.erase();
    launch = split;
    epilogue = find(launch)->epilogue;
  }
  join(product, launch);
  epilogue.set(launch);
  return true;
}

void FormEpiloguesPass::runOnOperation() {
  SymbolTable table(getOperation());
  symbols = &table;
  kernels.clear();
  for (auto function : llvm::to_vector(getOperation().getOps<func::FuncOp>())) {
    if (function->hasAttr(mprt::kKernelAttr))
      continue;
    int64_t products = 0, formed = 0;
    function.walk([&](GemmOp) { ++products; });
    // What splits a kernel comes before what that makes of it.
    for (bool ofGradients : {false, true})
      function.walk([&](LaunchOp launch) {
        const std::optional<EpilogueKernel> &found = find(launch);
        if (found && ofGradients == (found->epilogue.kind == MPRT_BIAS_GRAD_A))
          formed += form(launch);
      });
    if (formed)
      remark::passed(function.getLoc(), remark::RemarkOpts::name("Epilogues")
                                            .category(DEBUG_TYPE)
                                            .function(function.getName()))
          << remark::metric("products", products)
          << remark::metric("epilogues", formed);
  }
  // What was split is launched no more, unless it was launched elsewhere.
  for (auto &[name, kernel] : kernels) {
    auto function = symbols->lookup<func::FuncOp>(name);
    if (kernel.splits &&
        SymbolTable::symbolKnownUseEmpty(function, getOperation()))
      symbols->erase(function);
  }
}

} // namespace mpcomm
