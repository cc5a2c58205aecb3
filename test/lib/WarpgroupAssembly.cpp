//===- WarpgroupAssembly.cpp - inline assembly of wgmma, read back --------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of the PTX ISA's wgmma.mma_async: sums, the left operand, the descriptor of
// the right one, a predicate that says whether sums are added to, a factor of 1
// for either operand, and whether each operand in shared memory is read across.
//
//===----------------------------------------------------------------------===//

#include "WarpgroupAssembly.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace mpcomm::test;

/// The numbers of `{$3, $4}` or `$3`; nothing of another text.
static std::optional<SmallVector<unsigned>> readList(StringRef text) {
  SmallVector<unsigned> numbers;
  if (text.consume_front("{") && !text.consume_back("}"))
    return std::nullopt;
  for (StringRef part : llvm::split(text, ",")) {
    part = part.trim();
    if (!part.consume_front("$") ||
        part.getAsInteger(10, numbers.emplace_back()))
      return std::nullopt;
  }
  return numbers;
}

/// Results are numbered first, then operands, of which the first may be bound
/// to the results. How many of these are; nothing where some are, or in another
/// order.
static std::optional<unsigned> countTied(LLVM::InlineAsmOp op,
                                         unsigned results) {
  unsigned number = 0, tied = 0;
  for (StringRef constraint : llvm::split(op.getConstraints(), ",")) {
    unsigned result;
    if ((number < results) != (constraint == "=f"))
      return std::nullopt;
    if (!constraint.getAsInteger(10, result) && result != tied++)
      return std::nullopt;
    ++number;
  }
  if (number != results + op->getNumOperands() || (tied && tied != results))
    return std::nullopt;
  return tied;
}

namespace {
class Reader {
public:
  Reader(LLVM::InlineAsmOp op, unsigned results, unsigned tied)
      : op(op), results(results), tied(tied) {}

  std::optional<WarpgroupAssembly> read();

private:
  bool readWait(StringRef text);
  bool readStatement(StringRef text);
  bool readProduct(ArrayRef<StringRef> words);
  /// Adds operands that a list names; false where it names others.
  bool addOperands(StringRef list, size_t count,
                   SmallVectorImpl<unsigned> &operands);

  LLVM::InlineAsmOp op;
  unsigned results, tied;
  WarpgroupAssembly code;
  llvm::StringMap<bool> predicates;
  bool isFenced = false, isCommitted = false;
};
} // namespace

bool Reader::addOperands(StringRef list, size_t count,
                         SmallVectorImpl<unsigned> &operands) {
  std::optional<SmallVector<unsigned>> numbers = readList(list);
  if (!numbers || numbers->size() != count)
    return false;
  for (unsigned number : *numbers) {
    if (number < results + tied || number >= results + op->getNumOperands())
      return false;
    operands.push_back(number - results);
  }
  return true;
}

/// Words: columns, two types, sums, left, right, predicate, whether the left
/// one is read across (in shared memory), and the right one.
bool Reader::readProduct(ArrayRef<StringRef> words) {
  auto [columns, type, other, sums, left, right, predicate, leftAcross,
        rightAcross] =
      std::tie(words[0], words[1], words[2], words[3], words[4], words[5],
               words[6], words[7], words[8]);
  auto known = predicates.find(predicate);
  std::optional<SmallVector<unsigned>> places = readList(sums);
  int64_t width;
  if (columns.getAsInteger(10, width) || type != other || !isFenced ||
      isCommitted || known == predicates.end() || !places ||
      !llvm::equal(*places, llvm::seq(0u, results)) ||
      width != 2 * static_cast<int64_t>(results))
    return false;
  WarpgroupAssembly slice;
  slice.columns = width;
  slice.isBF16 = type == "bf16";
  slice.inRegisters = left.starts_with("{");
  slice.isAcross = rightAcross == "1";
  // Operands in registers have no such word, and tiles are read along rows.
  if (slice.inRegisters != leftAcross.empty())
    return false;
  if (code.slices == 0) {
    slice.accumulates = known->second;
    code = slice;
  } else if (!known->second || code.isBF16 != slice.isBF16 ||
             code.inRegisters != slice.inRegisters ||
             code.isAcross != slice.isAcross) {
    return false;
  }
  ++code.slices;
  return addOperands(left, slice.inRegisters ? 4 : 1, code.left) &&
         addOperands(right, 1, code.right);
}

bool Reader::readStatement(StringRef text) {
  static const llvm::Regex set("^setp\\.ne\\.b32 ([a-z]+), ([01]), 0$");
  static const llvm::Regex product(
      "^wgmma\\.mma_async\\.sync\\.aligned\\.m64n([0-9]+)k16\\.f32\\."
      "(bf16|f16)\\.(bf16|f16) ([{][^}]*[}]), ([{][^}]*[}]|[$][0-9]+), "
      "([$][0-9]+), ([a-z]+), 1, 1, (0, )?([01])$");
  SmallVector<StringRef> words;
  if (text == ".reg .pred adds, yes")
    return true;
  if (set.match(text, &words)) {
    predicates[words[1]] = words[2] == "1";
    return true;
  }
  if (text == "wgmma.fence.sync.aligned")
    return isFenced = true;
  if (text == "wgmma.commit_group.sync.aligned")
    return isCommitted = true;
  return product.match(text, &words) &&
         readProduct(ArrayRef(words).drop_front());
}

bool Reader::readWait(StringRef text) {
  return text.consume_front("wgmma.wait_group.sync.aligned ") &&
         text.consume_back(";") &&
         !text.getAsInteger(10, code.others.emplace());
}

std::optional<WarpgroupAssembly> Reader::read() {
  StringRef text = op.getAsmString();
  if (readWait(text))
    return tied == op->getNumOperands() ? std::optional(code) : std::nullopt;
  code = {};
  if (!text.consume_front("{") || !text.consume_back("}"))
    return std::nullopt;
  SmallVector<StringRef> statements = llvm::to_vector(llvm::split(text, ";"));
  // After the last one is nothing.
  if (!statements.pop_back_val().trim().empty() ||
      !llvm::all_of(statements, [&](StringRef statement) {
        return readStatement(statement.trim());
      }))
    return std::nullopt;
  if (!isCommitted || code.slices == 0 || code.accumulates != (tied != 0))
    return std::nullopt;
  return code;
}

std::optional<WarpgroupAssembly> WarpgroupAssembly::read(LLVM::InlineAsmOp op) {
  auto type = op.getRes()
                  ? dyn_cast<LLVM::LLVMStructType>(op.getRes().getType())
                  : LLVM::LLVMStructType();
  if (!type)
    return std::nullopt;
  auto results = static_cast<unsigned>(type.getBody().size());
  std::optional<unsigned> tied = countTied(op, results);
  return tied ? Reader(op, results, *tied).read() : std::nullopt;
}
