//===- NpyFile.h - arrays as numpy.save writes them -----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The NPY format, versions 1 to 3 (numpy.lib.format): a magic string, the
// length of a header, the header as the text of a Python dictionary, and the
// array. The header may come from anywhere: whatever is not as numpy writes it
// is refused.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_DATA_NPYFILE_H
#define MPCOMM_RUN_DATA_NPYFILE_H

#include "data/Runtime.h"
#include "files/SafeTensors.h"

#include <string>
#include <string_view>

namespace mpcomm::run {

/// The array in `contents`, the bytes of a file; `begin` of it counts from the
/// first of them. Types that programs do not have are as in SafeTensors.h.
/// `what` begins each message. Fails for arrays in Fortran's order or of
/// another machine's byte order, and where the file is shorter or longer than
/// its header says.
Expected<TensorEntry> parseNpy(const std::string &what,
                               std::string_view contents);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_DATA_NPYFILE_H
