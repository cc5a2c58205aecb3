//===- PrecisionPolicy.h - what runs in which type --------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The decisions of a user about mixed precision: a type, and exceptions by kind
// of op and by name of parameter. The JSON form `mpcomm-precision-1` is
// described in docs/Design/Precision.md.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_PRECISION_PRECISIONPOLICY_H
#define MPCOMM_ANALYSIS_PRECISION_PRECISIONPOLICY_H

#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/GlobPattern.h"
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mpcomm {

struct PrecisionPolicy {
  /// A pattern over names of parameters, and whether those are kept in f32.
  struct ParameterRule {
    std::string pattern;
    llvm::GlobPattern glob;
    bool isFP32;
  };
  /// How operands of 8 bits get their scales: `delayed` or `current` (empty:
  /// not said); of how many steps the greatest magnitudes are kept; by how many
  /// powers of two the scale stays below what would fit.
  struct Fp8Rule {
    std::string scaling;
    std::optional<int64_t> history, margin;
  };

  /// `none`, `bf16`, `f16` or `fp8`; empty: not said.
  std::string type;
  /// `auto`, `lower_precision` or `fp32`: whether products run in the narrow
  /// type; `lower_precision` or `fp32`: what activations that wait for the
  /// backward pass, and gradients that wait for the update, are stored in.
  /// Empty: not said.
  std::string compute, activations, gradients;
  /// Read where the type is `fp8`.
  Fp8Rule fp8;
  /// Classes that replace those of an op's interface, by op name.
  std::map<std::string, PrecisionClass> ops;
  /// In the order of the alphabet. Of rules that match one name, any that says
  /// `fp32` wins.
  std::vector<ParameterRule> parameters;

  /// The first rule that decides on a parameter, or null.
  const ParameterRule *lookup(llvm::StringRef parameter) const;
};

/// Whether `value` is one that `PrecisionPolicy::<key>` takes, where `policy`
/// stands for `type` and `scaling` for `fp8.scaling`; else `expected` says
/// which ones are.
bool isPolicyValue(llvm::StringRef key, llvm::StringRef value,
                   std::string &expected);

/// The same for numbers: `history` and `margin` of `Fp8Rule`.
bool isPolicyNumber(llvm::StringRef key, int64_t value, std::string &expected);
/// Reads one of them from a text.
std::optional<int64_t> parsePolicyNumber(llvm::StringRef key,
                                         llvm::StringRef text,
                                         std::string &expected);

/// Reads the JSON form. An error names file, path and what was expected.
/// Names of ops are checked against what `context` knows.
llvm::Expected<PrecisionPolicy>
parsePrecisionPolicy(llvm::StringRef json, llvm::StringRef file,
                     mlir::MLIRContext *context);
llvm::Expected<PrecisionPolicy> loadPrecisionPolicy(llvm::StringRef path,
                                                    mlir::MLIRContext *context);

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_PRECISION_PRECISIONPOLICY_H
