//===- StrictJSON.h - reading JSON with nothing left over -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Objects whose keys are all known. The first thing that is wrong is kept, with
// its path (`links[1].bandwidth`) and what was expected; what is read after it
// is of no matter.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_ANALYSIS_SUPPORT_STRICTJSON_H
#define MPCOMM_LIB_ANALYSIS_SUPPORT_STRICTJSON_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include <string>

namespace mpcomm {

/// Reads the keys of one object.
class ObjectReader {
public:
  /// `error` gets the first error, and stays as it is if it is not empty.
  ObjectReader(const llvm::json::Value &value, std::string path,
               std::string &error);

  /// Each reads a key. A missing one is an error, or leaves `result` as it is
  /// if `isOptional`.
  void read(llvm::StringRef key, double &result, bool isOptional = false);
  void read(llvm::StringRef key, int64_t &result, bool isOptional = false);
  void read(llvm::StringRef key, bool &result, bool isOptional = false);
  void read(llvm::StringRef key, std::string &result, bool isOptional = false);
  void read(llvm::StringRef key, std::vector<std::string> &result,
            bool isOptional = false);
  /// Calls `visit` with each element of an array and its path.
  void readArray(
      llvm::StringRef key, bool isOptional,
      llvm::function_ref<void(const llvm::json::Value &, std::string)> visit);
  /// Calls `visit` with the value of a key and its path.
  void readValue(
      llvm::StringRef key, bool isOptional,
      llvm::function_ref<void(const llvm::json::Value &, std::string)> visit);
  /// An error if a key was not read.
  void finish();

  /// Calls `visit` for each key with its path, all of them being read.
  void forEach(llvm::function_ref<void(llvm::StringRef,
                                       const llvm::json::Value &, std::string)>
                   visit);

  static void fail(std::string &error, llvm::StringRef path,
                   const llvm::Twine &expected, const llvm::json::Value &got);

private:
  const llvm::json::Value *get(llvm::StringRef key, bool isOptional);
  std::string getPath(llvm::StringRef key) const;

  const llvm::json::Object *object;
  std::string path;
  std::string &error;
  llvm::StringSet<> known;
};

/// Parses a text, whose object must have `schema` under the key "schema"; then
/// `read` reads the rest, and returns the error.
llvm::Error
readDocument(llvm::StringRef text, llvm::StringRef file, llvm::StringRef schema,
             llvm::function_ref<void(ObjectReader &, std::string &)> read);

/// The contents of a file.
llvm::Expected<std::string> readFile(llvm::StringRef path);

} // namespace mpcomm

#endif // MPCOMM_LIB_ANALYSIS_SUPPORT_STRICTJSON_H
