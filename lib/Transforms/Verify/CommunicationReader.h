//===- CommunicationReader.h - what one rank does ---------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Walks the function that a rank runs as the rank does: parts where they are
// called, loops as often as they turn. What remains is a straight line of
// starts and awaits.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_VERIFY_COMMUNICATIONREADER_H
#define MPCOMM_LIB_TRANSFORMS_VERIFY_COMMUNICATIONREADER_H

#include "Verify/CommunicationModel.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include "llvm/ADT/DenseSet.h"
#include <map>

namespace mpcomm {

/// Which functions of a module communicate, themselves or by what they call. A
/// function that calls what is not known is taken for one.
class CommunicatingFunctions {
public:
  explicit CommunicatingFunctions(mlir::ModuleOp module);

  bool contains(mlir::Operation *function) const {
    return functions.contains(function);
  }

  /// The ops of the function's body that communicate or call, or hold such ops,
  /// in their order: few among many.
  llvm::ArrayRef<mlir::Operation *> opsOf(mlir::Operation *function) const {
    auto it = candidates.find(function);
    return it == candidates.end() ? llvm::ArrayRef<mlir::Operation *>()
                                  : llvm::ArrayRef(it->second);
  }

  /// The first op in `op`, or itself, that communicates, or calls what does or
  /// is not known; null if there is none.
  mlir::Operation *find(mlir::Operation *op);

  /// What an op of some name may have to do with communication. Regions are
  /// looked into apart.
  enum Role { Silent, Communicates, Calls };
  Role roleOf(mlir::Operation *op);

  /// Whether `op` runs a function. `callee` is the one, or null where it is not
  /// known or has no body.
  bool isCall(mlir::Operation *op, mlir::Operation *&callee);

  mlir::SymbolTableCollection symbols;

private:
  llvm::DenseSet<mlir::Operation *> functions;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Operation *>>
      candidates;
  /// Interfaces cost a search each, and most ops have one of few names.
  llvm::DenseMap<mlir::OperationName, Role> roles;
};

/// Reads the functions of one problem, on one mesh.
class ProgramReader {
public:
  ProgramReader(CommunicationModel &model, mlir::ModuleOp module,
                CommunicatingFunctions &communicating, bool buffered)
      : model(model), module(module), communicating(communicating),
        buffered(buffered) {}

  llvm::LogicalResult setMesh(mlir::Operation *user,
                              mlir::FlatSymbolRefAttr name);
  /// Adds a class without ranks.
  llvm::LogicalResult read(mlir::FunctionOpInterface function);
  MeshOp getMesh() const { return mesh; }

private:
  llvm::LogicalResult readBody(mlir::FunctionOpInterface function);
  llvm::LogicalResult readBlock(mlir::Block &block);
  llvm::LogicalResult readOp(mlir::Operation *op);
  llvm::LogicalResult readCall(mlir::Operation *op, mlir::Operation *callee);
  llvm::LogicalResult readRegions(mlir::Operation *op);
  llvm::FailureOr<llvm::SmallVector<int>> start(CollectiveOpInterface op);
  llvm::LogicalResult start(mprt::StartOp op);
  llvm::LogicalResult await(AwaitOp op);
  llvm::LogicalResult await(mprt::AwaitOp op);
  llvm::FailureOr<int> communicatorOf(mlir::Operation *op,
                                      llvm::ArrayRef<mlir::Attribute> axes,
                                      int64_t channel);
  llvm::LogicalResult addOp(mlir::Operation *at, ProofOp op, int communicator);
  void addAwait(mlir::Operation *at, int op);

  CommunicationModel &model;
  mlir::ModuleOp module;
  CommunicatingFunctions &communicating;
  bool buffered;
  mlir::FlatSymbolRefAttr meshName;
  MeshOp mesh;
  /// By axes and channel.
  std::map<std::pair<std::vector<int>, int64_t>, int> communicators;
  /// Of Form 5: the module's numbers of the communicators.
  llvm::DenseMap<int, int64_t> numbers;

  // Of the function that is being read:
  ProofProgram *program = nullptr;
  CommunicationSource *source = nullptr;
  int call = -1;
  size_t visited = 0; // ops so far
  llvm::SmallVector<mlir::Operation *> running;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<int>> futures;
  /// The op whose end an event marks, until it is awaited or marked again.
  struct Mark {
    int op;
    bool awaited;
  };
  llvm::DenseMap<int64_t, Mark> events;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_VERIFY_COMMUNICATIONREADER_H
