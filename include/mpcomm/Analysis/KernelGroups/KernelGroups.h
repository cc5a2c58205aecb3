//===- KernelGroups.h - which loop nests run in one kernel ------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Groups the loop nests of one block. The algorithm does not depend on IR: ops,
// nests and values are numbers in a KernelProblem.
//
// A group is a set of nests over one row space, the loops of the nest with the
// most loops. The slot of an op is the position at which it runs. All members
// of a group have the slot of the group, which is the position of one of the
// members, so slots are unique. Invariant: the slot of an op is greater than
// those of the producers of its operands. Views and allocations have no slot;
// they run where they are needed. Two groups can merge at a slot that is
// greater than those of their producers outside and less than those of their
// users outside. So no merge closes a cycle, and the check is linear in the
// operands and uses of the two groups, not in the size of the graph.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_KERNELGROUPS_KERNELGROUPS_H
#define MPCOMM_ANALYSIS_KERNELGROUPS_KERNELGROUPS_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mpcomm {

/// Most tensors that a kernel reads and writes.
inline constexpr unsigned kMaxKernelOperands = 32;

/// The element of a tensor that a point of a row space accesses: for each
/// dimension the number of a loop, or -1 - c for the constant c.
using LoopIndex = llvm::SmallVector<int64_t>;

/// A loop nest that computes tensors from tensors, by elements or by rows.
struct LoopNest {
  struct Read {
    int value;
    LoopIndex index;
  };
  struct Write {
    int value;
    LoopIndex index;
    int init = -1;          // initial value of the result; -1: none
    bool readsInit = false; // whether it is a value that the caller sees
  };
  llvm::SmallVector<int64_t> sizes; // of the loops
  llvm::SmallVector<bool> isReduction;
  llvm::SmallVector<Read, 2> reads;
  llvm::SmallVector<Write, 1> writes;
  llvm::SmallVector<int, 0> captured; // tensors that are read at any element
  bool isScatter = false;             // writes anywhere: a separate kernel
  bool isCheap = false;               // may be repeated for every row
  bool isWideningOf8Bits = false;
};

/// The ops of a block in program order, and the tensors that they use.
struct KernelProblem {
  enum class OpKind {
    Nest,
    View, // a view of the memory of its source, or an allocation
    Init, // a fill that belongs to the ops whose initial value it is
    Other
  };
  struct Op {
    OpKind kind = OpKind::Other;
    int nest = -1;              // of Nest
    int source = -1;            // of View: the value; -1 of an allocation
    bool isLibraryCall = false; // of Other: products and the like
    llvm::SmallVector<int, 1> results;
  };
  struct Value {
    int64_t bytes = 0;
    const void *type = nullptr;      // equal for equal types
    int maker = -1;                  // the op that defines it; -1: none here
    llvm::SmallVector<int, 2> users; // ops; -1 for one in another block
    bool isUniform = false;          // a splat constant: in the code
    bool isFilled = false;           // an allocation or a fill
    bool isScalar = false;           // of rank 0
  };
  std::vector<Op> ops;
  std::vector<LoopNest> nests;
  std::vector<Value> values;

  /// Whether an op has the kind Nest.
  bool isNest(int op) const { return ops[op].kind == OpKind::Nest; }
  const LoopNest &getNest(int op) const { return nests[ops[op].nest]; }
  /// The value that `value` is a view of, through all views; or itself.
  int stripViews(int value) const;
};

struct KernelMember {
  int op;                           // of kind Nest
  llvm::SmallVector<int64_t> loops; // loop of the space for each own loop

  /// Converts an index of the member's nest to the loops of the group.
  LoopIndex map(const LoopIndex &index) const;
};

struct KernelGroup {
  llvm::SmallVector<KernelMember, 1> members; // in program order
  llvm::SmallVector<int64_t> space;           // sizes of the loops
  int slot = -1; // the member at which the kernel will run

  /// The group that consists of one op.
  static KernelGroup get(const KernelProblem &problem, int op);
};

/// Whether a member reduces over loops other than the last one, so that its
/// results are complete only at the end of the kernel.
bool isAccumulated(const KernelProblem &problem, const KernelGroup &group,
                   const KernelMember &member);

/// Whether an op outside of the group uses a value.
using IsUsedOutside = llvm::function_ref<bool(int value)>;

/// Empty if the group is a valid kernel; else the reason why it is not. Time:
/// linear in the operands of the members.
std::string checkGroup(const KernelProblem &problem, const KernelGroup &group,
                       IsUsedOutside isUsedOutside);

/// Merges two groups over the row space of the one with more loops, if the
/// values that they share determine which loops correspond. The slot is that of
/// `first`.
std::optional<KernelGroup> unite(const KernelProblem &problem,
                                 const KernelGroup &first,
                                 const KernelGroup &second);

/// The inputs of a kernel, and those of its results that are used outside.
struct KernelOperands {
  llvm::SetVector<int> inputs, outputs;
  int64_t countBytes(const KernelProblem &problem) const;
};
KernelOperands getOperands(const KernelProblem &problem,
                           const KernelGroup &group,
                           IsUsedOutside isUsedOutside);

/// Finds the groups of a problem, which must outlive this object. Groups are
/// numbered. The number -1 means no group; all ops are outside of it.
class KernelGroups {
public:
  /// Groups have at most `maxOperands` inputs and outputs.
  KernelGroups(const KernelProblem &problem, unsigned maxOperands);

  /// An op that is not a valid kernel by itself, and the reason.
  struct Error {
    int op;
    std::string why;
  };
  /// Nothing if each nest is in a group.
  std::optional<Error> run();

  /// Numbers of groups, by slot.
  std::vector<int> getGroups() const;
  const KernelGroup &get(int group) const { return groups[group]; }
  /// The group of an op, or -1.
  int lookup(int op) const { return op < 0 ? -1 : groupOf[op]; }
  /// The slot of the op that defines a value; -1 if it is before the block.
  int getSlot(int value) const;
  /// Whether an op outside of `group` uses the value.
  bool isUsedOutside(int group, int value) const;
  /// The greatest slot of the users of the value outside of `group`, through
  /// views; -1 if there are none.
  int getLastUse(int group, int value) const;
  /// Whether an op outside of `group` and of the kernel that defines the value
  /// uses it, through views. Time: up to the first such use.
  bool hasUseOutside(int group, int value) const;
  /// The inputs and outputs of a group.
  KernelOperands getOperands(int group) const;

private:
  void growFromProducers();
  void mergeNeighbours();
  bool tryMerge(int first, int second, bool mayHoist);
  bool isWorthwhile(int first, int second) const;
  bool areTied(int first, int second) const;
  std::optional<int> findSlot(int first, int second, bool mayHoist) const;
  int getFirstUse(int a, int b, int value) const;
  bool anyUser(int value, llvm::function_ref<bool(int op)> visit) const;
  int getGroupOfMaker(int value) const {
    return lookup(problem.values[value].maker);
  }
  int getSlotOfOp(int op) const {
    return groupOf[op] < 0 ? op : groups[groupOf[op]].slot;
  }

  const KernelProblem &problem;
  unsigned maxOperands;
  std::vector<int> groupOf;        // by op
  std::vector<KernelGroup> groups; // without members: merged away
};

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_KERNELGROUPS_KERNELGROUPS_H
