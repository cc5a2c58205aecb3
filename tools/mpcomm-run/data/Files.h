//===- Files.h - the files that a run reads and writes --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What can be known of them before the first step is found out there: nobody
// is to train for a day and then learn that the checkpoint has no place to go.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_DATA_FILES_H
#define MPCOMM_RUN_DATA_FILES_H

#include "launch/RunOptions.h"

namespace mpcomm::run {

/// Replaces each pattern among the names of data by the files that match it, in
/// the order of their names. Fails where none does. A file whose name looks
/// like a pattern is a file.
Error expandPatterns(RunOptions &options);

/// No file is written that is also read, or written by two options, under the
/// names that --checkpoint-keep gives, too. (A checkpoint may replace the one
/// that is resumed.) Follows links.
Error checkFilesDiffer(const RunOptions &options);

/// The outputs that are OutputFiles, of which a process that is killed leaves
/// its temporary behind.
std::vector<std::string> replacedFiles(const RunOptions &options);

/// Every output can be written, by trying; for the process that writes them.
Error probeOutputs(const RunOptions &options);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_DATA_FILES_H
