//===- CommunicationModel.h - programs as the proof sees them ---*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What IR of Forms 3 to 5 says of communication, in the terms of
// mpcomm/Scheduling/CommunicationProof.h, and the ops that say so.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_VERIFY_COMMUNICATIONMODEL_H
#define MPCOMM_LIB_TRANSFORMS_VERIFY_COMMUNICATIONMODEL_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Scheduling/CommunicationProof/CommunicationProof.h"

namespace mpcomm {

/// An op that is run, and the call that it is run under: index into
/// CommunicationSource::calls, or -1 in the step function itself.
struct CommunicationPlace {
  mlir::Operation *op = nullptr;
  int call = -1;
};

/// Where a ProofProgram comes from: the places of its ops and instructions, by
/// their indices there.
struct CommunicationSource {
  mlir::FunctionOpInterface function;
  llvm::SmallVector<CommunicationPlace> calls, ops, instructions;
};

/// Programs that meet: those of an mpcomm.program, or of one function that all
/// ranks run.
struct CommunicationModel {
  std::string name;
  /// The program or the function.
  mlir::Operation *symbol = nullptr;
  ProofProblem problem;
  /// By class of the problem.
  std::vector<CommunicationSource> sources;
};

/// Reads what ranks communicate: a model for each mpcomm.program, and for each
/// other public function that communicates. Reports what cannot be read, at the
/// op: communication whose number of times is not known, meshes and axes that
/// do not exist, awaits of nothing. With `buffered`, sends need no recv to end.
/// Time: linear in the ops, those of parts counted at each call.
llvm::FailureOr<std::vector<CommunicationModel>>
readCommunication(mlir::ModuleOp module, bool buffered);

/// The ops of one collective, without peers of other ranks' numbering: one, or
/// of a bucket one for each element type. `communicator` is left 0.
llvm::SmallVector<ProofOp> describeCollective(CollectiveOpInterface op);

/// The same of an `mprt.start`, whose collective carries a number besides.
ProofOp describeStart(mlir::Operation *start);

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_VERIFY_COMMUNICATIONMODEL_H
