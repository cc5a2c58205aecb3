//===- WorkFolder.h - a folder for what is needed for a moment ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A folder of a random name in TMPDIR (or /tmp), on which this process holds a
// lock. Those of dead processes are removed by the next one.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_FILES_WORKFOLDER_H
#define MPCOMM_RUNTIME_FILES_WORKFOLDER_H

#include "support/Error.h"

#include <memory>
#include <string>

namespace mprt {

class WorkFolder {
public:
  static Expected<std::unique_ptr<WorkFolder>> create();
  /// Removes the folder with all that is in it.
  ~WorkFolder();
  WorkFolder(const WorkFolder &) = delete;
  WorkFolder &operator=(const WorkFolder &) = delete;

  const std::string &path() const { return folder; }

private:
  WorkFolder(std::string folder, int lock)
      : folder(std::move(folder)), lock(lock) {}

  std::string folder;
  int lock;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_FILES_WORKFOLDER_H
