//===- GPUAttentionBias.cpp - a bias of scores ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread reads the bias of its scores from device memory, where it needs
// them: the eight rows of an accumulator are eight pieces of 32 bytes in f32,
// 16 in 16 bits. Along dimensions of one element the same number is read once
// for all scores of the thread.
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/Attention/GPUAttention.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <map>

using namespace mlir;

namespace mpcomm::kernels {

namespace {

/// The bias of a block's batch and head.
class BiasReader {
public:
  BiasReader(AttentionCode &code, MemRefType layout, uint64_t alignment,
             Value base, const AttentionCode::Scores &scores);

  /// Of scores i and, where they are a pair, i + 1.
  SmallVector<Value> read(size_t i);

private:
  /// From a score to the next row and column, in elements; 0 where they have
  /// one bias.
  struct Steps {
    int64_t row, column;
  };
  bool isPair(size_t i) const;
  Value addressOf(std::pair<int64_t, int64_t> place, bool ofPair);
  Value load(Value address, bool ofPair);

  AttentionCode &code;
  const AttentionCode::Scores &scores;
  FloatType element;
  Steps steps;
  int64_t bytes;
  /// Whether pairs of columns, of rows lie beside each other.
  bool columnsInPairs = false, rowsInPairs = false;
  Value first;
  /// By place, less dimensions of one element.
  std::map<std::pair<int64_t, int64_t>, SmallVector<Value>> known;
};

} // namespace

BiasReader::BiasReader(AttentionCode &code, MemRefType layout,
                       uint64_t alignment, Value base,
                       const AttentionCode::Scores &scores)
    : code(code), scores(scores),
      element(cast<FloatType>(layout.getElementType())),
      bytes(element.getWidth() / 8) {
  SmallVector<int64_t> strides = layout.getStridesAndOffset().first;
  bool isAligned = alignment % (2 * bytes) == 0;
  auto stepOf = [&](unsigned dim) {
    return layout.getDimSize(dim) == 1 ? 0 : strides[dim];
  };
  steps = {stepOf(2), stepOf(3)};
  auto allEvenBut = [&](unsigned dim, int64_t count) {
    for (unsigned other = 0; other < 4; ++other)
      if (other != dim && stepOf(other) % 2 != 0)
        return false;
    // The last pair is all there, or all beyond the end.
    return stepOf(dim) == 1 && (scores.isInside || count % 2 == 0);
  };
  columnsInPairs = isAligned && allEvenBut(3, code.columns);
  rowsInPairs = isAligned && allEvenBut(2, code.rows);
  for (auto [dim, index] :
       {std::pair(0, code.batchIndex), std::pair(1, code.headIndex)})
    if (stepOf(dim) != 0)
      base = code.advance(base, index, stepOf(dim) * bytes);
  first = base;
  if (!scores.isInside)
    return;
  // One address does for the whole tile.
  if (steps.row != 0)
    first = code.advance(first, scores.row, steps.row * bytes);
  if (steps.column != 0)
    first = code.advance(first, scores.column, steps.column * bytes);
}

/// Of places that follow each other, the first has an even row and column.
bool BiasReader::isPair(size_t i) const {
  if (i + 1 == scores.places.size())
    return false;
  auto [down, right] = scores.places[i];
  std::pair<int64_t, int64_t> next = scores.places[i + 1];
  return (columnsInPairs && next == std::pair(down, right + 1)) ||
         (rowsInPairs && next == std::pair(down + 1, right));
}

Value BiasReader::addressOf(std::pair<int64_t, int64_t> place, bool ofPair) {
  auto [down, right] = place;
  if (scores.isInside)
    return code.advance(first,
                        (down * steps.row + right * steps.column) * bytes);
  Value address = first;
  if (steps.row != 0)
    address =
        code.advance(address,
                     code.least(code.add(scores.row, down),
                                code.rows - (ofPair && rowsInPairs ? 2 : 1)),
                     steps.row * bytes);
  if (steps.column != 0)
    address = code.advance(
        address,
        code.least(code.add(scores.column, right),
                   code.columns - (ofPair && columnsInPairs ? 2 : 1)),
        steps.column * bytes);
  return address;
}

Value BiasReader::load(Value address, bool ofPair) {
  Type type = ofPair ? Type(VectorType::get({2}, element)) : Type(element);
  return code.load(type, address, ofPair ? 2 * bytes : bytes);
}

SmallVector<Value> BiasReader::read(size_t i) {
  auto [down, right] = scores.places[i];
  SmallVector<Value> &values =
      known[{steps.row ? down : 0, steps.column ? right : 0}];
  bool ofPair = isPair(i);
  if (values.size() > (ofPair ? 1 : 0))
    return values;
  Value loaded = load(addressOf({down, right}, ofPair), ofPair);
  values.clear();
  if (!ofPair)
    values.push_back(loaded);
  for (int64_t j = 0; ofPair && j < 2; ++j)
    values.push_back(vector::ExtractOp::create(code.b, code.loc, loaded, j));
  if (!element.isF32())
    for (Value &value : values)
      value = arith::ExtFOp::create(code.b, code.loc, code.f32, value);
  return values;
}

SmallVector<Value> AttentionCode::biasOf(const Scores &scores) {
  unsigned argument = op.getInputs().size() - 1;
  BiasReader reader(*this, layouts[argument], alignments[argument],
                    global(argument), scores);
  SmallVector<Value> values;
  while (values.size() < scores.places.size())
    llvm::append_range(values, reader.read(values.size()));
  return values;
}

SmallVector<Value> AttentionCode::addBias(const Scores &scores,
                                          ArrayRef<Value> values) {
  Value scale = real(op.getScale().convertToDouble());
  SmallVector<Value> made;
  for (auto [value, bias] : llvm::zip_equal(values, biasOf(scores)))
    made.push_back(fma(value, scale, bias));
  return made;
}

} // namespace mpcomm::kernels
