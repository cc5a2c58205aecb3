//===- KernelGroups.h - which loop nests run in one kernel ------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Groups the loop nests of one block. There is no IR in here: ops, nests and
// values are numbers in a KernelProblem.
//
// A group is a set of nests over one row space: the loops of the nest with the
// most of them. Every op has a slot: the position at which it runs; that of a
// member is its group's slot, which is the position of one of the members, so
// that slots differ. Invariant: each op's slot is greater than the slots of
// what makes its operands. Views and allocations have no slot, they run where
// they are needed. Two groups can merge at a slot greater than those of what
// both need from outside and less than those of what needs either from outside.
// So no merge closes a cycle, and to know it takes time linear in the operands
// and uses of the two groups, not in the size of the graph.
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

/// Which element of a tensor a point of a row space touches, per dimension: the
/// number of a loop, or -1 - c for the constant c.
using LoopIndex = llvm::SmallVector<int64_t>;

/// Loops that compute tensors from tensors, element by element or row by row.
struct LoopNest {
  struct Read {
    int value;
    LoopIndex index;
  };
  struct Write {
    int value;
    LoopIndex index;
    int init = -1;          // what the result starts from; -1: nothing
    bool readsInit = false; // and it is a value that the caller sees
  };
  llvm::SmallVector<int64_t> sizes; // of the loops
  llvm::SmallVector<bool> isReduction;
  llvm::SmallVector<Read, 2> reads;
  llvm::SmallVector<Write, 1> writes;
  llvm::SmallVector<int, 0> captured; // tensors that are read anywhere
  bool isScatter = false;             // adds rows anywhere: a kernel of its own
  bool isCheap = false;               // may be repeated for every row
  bool isWideningOf8Bits = false;
};

/// The ops of a block in program order, and the tensors that they use.
struct KernelProblem {
  enum class OpKind {
    Nest,
    View, // a window on the memory of its source, or an allocation
    Init, // a fill that goes with what starts from it
    Other
  };
  struct Op {
    OpKind kind = OpKind::Other;
    int nest = -1;   // of Nest
    int source = -1; // of View: the value; -1 of an allocation
    llvm::SmallVector<int, 1> results;
  };
  struct Value {
    int64_t bytes = 0;
    int maker = -1;                  // op; -1: made before the block
    llvm::SmallVector<int, 2> users; // ops; -1 for one in another block
    bool isUniform = false;          // a constant of one value: in the code
    bool isFilled = false;           // an allocation or a fill
    bool isScalar = false;           // of rank 0
  };
  std::vector<Op> ops;
  std::vector<LoopNest> nests;
  std::vector<Value> values;

  /// Whether an op is one of Nest.
  bool isNest(int op) const { return ops[op].kind == OpKind::Nest; }
  const LoopNest &getNest(int op) const { return nests[ops[op].nest]; }
  /// The value whose memory `value` is a window on.
  int stripViews(int value) const;
};

struct KernelMember {
  int op;                           // one of Nest
  llvm::SmallVector<int64_t> loops; // loop of the space for each own loop

  /// An index of the member's nest, in the loops of the group.
  LoopIndex map(const LoopIndex &index) const;
};

struct KernelGroup {
  llvm::SmallVector<KernelMember, 1> members; // in program order
  llvm::SmallVector<int64_t> space;           // sizes of the loops
  int slot = -1; // the member at which the kernel will run

  /// The group of one op.
  static KernelGroup get(const KernelProblem &problem, int op);
};

/// Whether the results of a member are summed up over loops other than the last
/// one alone: they are complete only at the end of the kernel.
bool isAccumulated(const KernelProblem &problem, const KernelGroup &group,
                   const KernelMember &member);

/// Tells of a value whether something else needs it.
using IsUsedOutside = llvm::function_ref<bool(int value)>;

/// Why the group, with its members' loops, is no kernel; empty if it is one.
/// Time: linear in the operands of the members.
std::string checkGroup(const KernelProblem &problem, const KernelGroup &group,
                       IsUsedOutside isUsedOutside);

/// The two groups as one, over the space of the one with more loops, if what
/// they share says which loops correspond; the slot is that of `first`.
std::optional<KernelGroup> unite(const KernelProblem &problem,
                                 const KernelGroup &first,
                                 const KernelGroup &second);

/// Tensors that a kernel reads from outside and results that are used outside.
struct KernelOperands {
  llvm::SetVector<int> inputs, outputs;
  int64_t countBytes(const KernelProblem &problem) const;
};
KernelOperands getOperands(const KernelProblem &problem,
                           const KernelGroup &group,
                           IsUsedOutside isUsedOutside);

/// Finds the groups of a problem, which has to live as long. They have numbers;
/// -1 stands for none: everything is outside of it.
class KernelGroups {
public:
  /// Groups have at most `maxOperands` inputs and outputs.
  KernelGroups(const KernelProblem &problem, unsigned maxOperands);

  /// An op that makes no kernel by itself, and why.
  struct Error {
    int op;
    std::string why;
  };
  /// Nothing where each nest is in a group.
  std::optional<Error> run();

  /// Numbers of groups, by slot.
  std::vector<int> getGroups() const;
  const KernelGroup &get(int group) const { return groups[group]; }
  /// The group of an op, or -1.
  int lookup(int op) const { return op < 0 ? -1 : groupOf[op]; }
  /// The position at which the op that makes a value runs; -1: before.
  int getSlot(int value) const;
  /// Whether something outside of `group` needs the value.
  bool isUsedOutside(int group, int value) const;
  /// The greatest slot of what uses the value outside of `group`, through
  /// views; -1: nothing.
  int getLastUse(int group, int value) const;
  /// Whether anything outside of `group`, and of the kernel that makes the
  /// value, needs it, through views. Time: up to the first such use.
  bool hasUseOutside(int group, int value) const;
  /// What a group reads and writes.
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
