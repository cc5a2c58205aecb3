//===- TestPrintStepModel.cpp - what a step takes and holds ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Remarks on each instruction of the StepModel of a function, and on the
// function, with the cluster of the option or of the module.
//
//===----------------------------------------------------------------------===//

#include "TestPasses.h"
#include "mlir/Pass/Pass.h"
#include "mpcomm/Analysis/Cluster/ClusterAttr.h"
#include "mpcomm/Analysis/StepModel/StepModel.h"
#include "mpcomm/Scheduling/Simulator/Simulator.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace mpcomm;

/// Times in nanoseconds, to four digits.
static std::string printTime(double seconds) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.4g ns", seconds * 1e9);
  return text;
}

namespace {
struct TestPrintStepModel
    : PassWrapper<TestPrintStepModel, InterfacePass<FunctionOpInterface>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestPrintStepModel)

  TestPrintStepModel() = default;
  TestPrintStepModel(const TestPrintStepModel &other) : PassWrapper(other) {}

  StringRef getArgument() const final { return "test-mpcomm-print-step-model"; }
  StringRef getDescription() const final {
    return "Emits remarks on what a step takes and holds";
  }

  // Its lowering says what kernels there are.
  void getDependentDialects(DialectRegistry &registry) const final {
    registry.insert<MPCommDialect>();
  }

  Option<std::string> cluster{*this, "cluster",
                              llvm::cl::desc("Preset or file; empty: the "
                                             "module's")};
  Option<std::string> profile{*this, "profile-file",
                              llvm::cl::desc("A recorded run")};
  Option<bool> quiet{*this, "quiet",
                     llvm::cl::desc("Remarks on the function only")};

  void runOnOperation() override {
    FunctionOpInterface function = getOperation();
    FailureOr<Cluster> found = findCluster(function, cluster);
    if (failed(found))
      return signalPassFailure();
    std::optional<Profile> recorded;
    if (!profile.empty()) {
      llvm::Expected<Profile> loaded = loadProfile(profile);
      if (!loaded) {
        function.emitError() << llvm::toString(loaded.takeError());
        return signalPassFailure();
      }
      recorded = std::move(*loaded);
    }
    CostModel model(std::move(*found), std::move(recorded));
    FailureOr<StepModel> step = StepModel::get(function, model);
    if (failed(step))
      return signalPassFailure();
    if (!quiet)
      for (const StepInstruction &instruction : step->getInstructions())
        print(*step, instruction);

    SimProblem problem = step->buildSimProblem(model);
    InFlightDiagnostic remark =
        function.emitRemark()
        << "compute " << printTime(step->getComputeSeconds()) << ", arguments "
        << step->getStaticBytes() << ", peak " << step->getPeakBytes()
        << " bytes; predicted kernels = " << step->getNumKernels()
        << ", bytes = " << step->getKernelBytes()
        << ", arena = " << step->getArenaBytes();
    if (std::string error = problem.check(); !error.empty())
      remark << "; " << error;
    if (peakBytes(problem.classes.front()) != step->getPeakBytes())
      remark << "; simulated peak " << peakBytes(problem.classes.front());
  }

  void print(const StepModel &step, const StepInstruction &instruction) {
    InFlightDiagnostic remark = instruction.op->emitRemark();
    switch (instruction.kind) {
    case RankInstruction::Compute:
      remark << "computes " << printTime(instruction.seconds);
      if (int kernel = step.getKernel(instruction.op); kernel >= 0)
        remark << " in kernel " << kernel;
      break;
    case RankInstruction::Start: {
      const StepCollective &collective =
          step.getCollectives()[instruction.collective];
      remark << "starts " << collective.bytes << " bytes of "
             << collective.tensors << " tensors, "
             << stringifyCollectiveAlgorithm(collective.algorithm) << " "
             << printTime(collective.latency) << " + "
             << printTime(collective.transfer) << " on link "
             << collective.link;
      break;
    }
    case RankInstruction::Await:
      remark << "awaits " << instruction.collective;
      break;
    }
    if (instruction.allocates != 0)
      remark << ", allocates " << instruction.allocates;
    if (instruction.frees != 0)
      remark << ", frees " << instruction.frees;
  }
};
} // namespace

void mpcomm::test::registerTestPrintStepModelPass() {
  PassRegistration<TestPrintStepModel>();
}
