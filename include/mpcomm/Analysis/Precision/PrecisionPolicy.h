//===- PrecisionPolicy.h - choices for mixed precision ----------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The user's choices for mixed precision: a type, and exceptions by op and by
// parameter. docs/Design/Precision.md describes the JSON form
// `mpcomm-precision-1`.
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
  /// A pattern of parameter names, and whether these parameters stay in f32.
  struct ParameterRule {
    std::string pattern;
    llvm::GlobPattern glob;
    bool isFP32;
  };
  /// Scaling of 8-bit operands: `delayed` or `current` (empty: not given); the
  /// number of steps of the amax history; and the margin: scales are 2^margin
  /// below the largest that fit.
  struct Fp8Rule {
    std::string scaling;
    std::optional<int64_t> history, margin;
  };

  /// `none`, `bf16`, `f16` or `fp8`; empty: not given.
  std::string type;
  /// The type of products (`auto`, `lower_precision` or `fp32`), of activations
  /// that are stored for the backward pass, and of gradients that are stored
  /// for the update (`lower_precision` or `fp32`). Empty: not given.
  std::string compute, activations, gradients;
  /// Used if the type is `fp8`.
  Fp8Rule fp8;
  /// Classes by op name, which replace those of PrecisionOpInterface.
  std::map<std::string, PrecisionClass> ops;
  /// In alphabetical order. If several rules match a name, `fp32` wins.
  std::vector<ParameterRule> parameters;

  /// The first rule that decides on a parameter, or null.
  const ParameterRule *lookup(llvm::StringRef parameter) const;
};

/// Whether `value` is valid for `PrecisionPolicy::<key>`; the key `policy` is
/// the member `type`, and `scaling` is `fp8.scaling`. Otherwise sets `expected`
/// to a description of the valid values.
bool isPolicyValue(llvm::StringRef key, llvm::StringRef value,
                   std::string &expected);

/// The same for numbers: `history` and `margin` of `Fp8Rule`.
bool isPolicyNumber(llvm::StringRef key, int64_t value, std::string &expected);
/// Parses one of these numbers.
std::optional<int64_t> parsePolicyNumber(llvm::StringRef key,
                                         llvm::StringRef text,
                                         std::string &expected);

/// Reads the JSON form. An error names the file, the JSON path and what was
/// expected. Op names must be registered in `context`.
llvm::Expected<PrecisionPolicy>
parsePrecisionPolicy(llvm::StringRef json, llvm::StringRef file,
                     mlir::MLIRContext *context);
llvm::Expected<PrecisionPolicy> loadPrecisionPolicy(llvm::StringRef path,
                                                    mlir::MLIRContext *context);

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_PRECISION_PRECISIONPOLICY_H
