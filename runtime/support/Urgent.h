//===- Urgent.h - threads that others wait for ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SUPPORT_URGENT_H
#define MPCOMM_RUNTIME_SUPPORT_URGENT_H

namespace mprt {

/// Makes the calling thread, and those that it starts, run soon after something
/// wakes it, even while a computing thread has the core: it asks the scheduler
/// for short slices (Linux 6.12: such a thread preempts one with long ones),
/// and for a higher priority, which takes CAP_SYS_NICE. Does what is permitted.
/// For threads that move data and sleep in between.
void becomeUrgent();

} // namespace mprt

#endif // MPCOMM_RUNTIME_SUPPORT_URGENT_H
