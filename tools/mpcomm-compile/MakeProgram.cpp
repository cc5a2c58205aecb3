//===- MakeProgram.cpp - a program file of a module -----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles, links and seals: the runner checks the seal before it opens a
// program file.
//
//===----------------------------------------------------------------------===//

#include "MakeProgram.h"
#include "files/WorkFolder.h"
#include "mpcomm/Runtime/ProgramSeal.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/xxhash.h"

/// An error at `path`.
static llvm::Error makeError(const llvm::Twine &what, std::error_code code) {
  return llvm::createStringError(code, what + ": " + code.message());
}

llvm::Expected<std::string>
mpcomm::makeProgram(CodeGen &codeGen, llvm::ArrayRef<llvm::Module *> modules) {
  auto folder = mprt::WorkFolder::create();
  if (folder.failed())
    return llvm::createStringError(folder.message());
  std::string linked = (*folder)->path() + "/step.so";
  std::vector<std::string> objects;
  for (llvm::Module *module : modules) {
    std::string &object = objects.emplace_back(
        (*folder)->path() + "/step" + std::to_string(objects.size()) + ".o");
    std::error_code code;
    llvm::raw_fd_ostream stream(object, code);
    if (code)
      return makeError("cannot write '" + object + "'", code);
    if (llvm::Error error = codeGen.emitObject(*module, stream))
      return error;
    stream.close();
    if ((code = stream.error())) {
      stream.clear_error();
      return makeError("cannot write '" + object + "'", code);
    }
  }
  if (llvm::Error error = mpcomm::linkShared(objects, linked))
    return error;
  auto file = llvm::MemoryBuffer::getFile(linked);
  if (!file)
    return makeError("cannot read '" + linked + "'", file.getError());
  mpcomm::ProgramSeal seal;
  seal.digest = llvm::xxHash64((*file)->getBuffer());
  std::string program = (*file)->getBuffer().str();
  program.append(reinterpret_cast<const char *>(&seal), sizeof(seal));
  return program;
}
