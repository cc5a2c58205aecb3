// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Somebody else's program: parses a module and counts its collectives.
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mpcomm::MPCommDialect, mlir::func::FuncDialect>();
  mlir::MLIRContext context(registry);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(argv[argc - 1], &context);
  if (!module)
    return 1;
  int64_t n = 0, bytes = 0;
  module->walk([&](mpcomm::CollectiveOpInterface op) {
    ++n, bytes += op.getPayloadBytes();
  });
  llvm::outs() << n << " collectives, " << bytes << " bytes\n";
}
