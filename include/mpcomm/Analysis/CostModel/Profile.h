//===- Profile.h - measured seconds of ops ----------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `mpcomm-run --profile` records of a real run. The JSON form is described
// in docs/Design/CostModel.md.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_COSTMODEL_PROFILE_H
#define MPCOMM_ANALYSIS_COSTMODEL_PROFILE_H

#include "mlir/IR/Location.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace mlir {
class Operation;
} // namespace mlir

namespace mpcomm {

/// A measured time. With `locations`, it is the time of one call of a step (a
/// kernel, a product, a collective). If the call matches several ops, its time
/// is shared among them in proportion to their predicted times, so the sum is
/// the measured time. Without `locations`, it is the time of each op that
/// matches.
struct ProfileEntry {
  /// The locations of the call, in the form of forEachPlace.
  std::vector<std::string> locations;
  /// Op name (`mpcomm.dot_general`). Empty: all ops at these locations that do
  /// not match an entry with a name.
  std::string op;
  /// Types as getShapes() prints them; empty: any.
  std::string shapes;
  /// Median over the steps of the run.
  double seconds = 0;
};

struct Profile {
  /// The program that ran, the machine, and how many ranks and steps.
  std::string name, cluster;
  int64_t ranks = 1;
  int64_t steps = 0;
  std::vector<ProfileEntry> entries;
};

/// Reads the JSON form; errors as parseCluster's.
llvm::Expected<Profile> parseProfile(llvm::StringRef json,
                                     llvm::StringRef file = "profile");
llvm::Expected<Profile> loadProfile(llvm::StringRef path);
std::string toJson(const Profile &profile);

/// Calls `visit` with the text of each place in a location: the name of a named
/// location, else `file:line` and `file:line:col`.
void forEachPlace(mlir::Location location,
                  llvm::function_ref<void(llvm::StringRef)> visit);

/// Operand types and result types of an op, in the form of profiles:
/// `4x8xf32,8x16xf32->4x16xf32`.
std::string getShapes(mlir::Operation *op);

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_COSTMODEL_PROFILE_H
