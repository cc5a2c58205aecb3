//===- SlidingWindow.cpp - geometry of convolutions and pools -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Dialect/MPComm/IR/SlidingWindow.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpcomm;

SmallVector<int64_t, 4> SlidingWindow::sizesOf(ShapedType activation) const {
  SmallVector<int64_t, 4> sizes;
  for (unsigned d = 0; d < 4; ++d)
    sizes.push_back(activation.getDimSize(position(d)));
  return sizes;
}

int64_t SlidingWindow::count(unsigned axis, int64_t extent) const {
  // Below 2^48 + 2 * 2^31, and below 2^62: none of them overflows.
  int64_t padded = extent + low[axis] + high[axis];
  int64_t span = (size[axis] - 1) * dilation[axis] + 1;
  return padded < span ? 0 : (padded - span) / strides[axis] + 1;
}

/// Two entries a list, and numbers in range.
static LogicalResult verifyLists(EmitError emitError,
                                 const SlidingWindow &windows) {
  for (auto [list, name, least] : {std::tuple(windows.size, "window", 1),
                                   {windows.strides, "strides", 1},
                                   {windows.low, "low", 0},
                                   {windows.high, "high", 0},
                                   {windows.dilation, "dilation", 1}}) {
    if (list.size() != 2)
      return emitError() << "expects two entries in '" << name << "', got "
                         << list.size();
    for (int64_t value : list)
      if (value < least || value > INT32_MAX)
        return emitError() << "expects entries in [" << least << ", "
                           << INT32_MAX << "] in '" << name << "', got "
                           << value;
  }
  return success();
}

/// The output has a position for each window, and there is one.
static LogicalResult verifyPositions(EmitError emitError, ShapedType input,
                                     ShapedType output,
                                     const SlidingWindow &windows) {
  SmallVector<int64_t, 4> from = windows.sizesOf(input),
                          to = windows.sizesOf(output);
  for (unsigned axis : {0, 1}) {
    int64_t count = windows.count(axis, from[2 + axis]);
    if (count < 1 || to[2 + axis] != count)
      return emitError() << "has " << count << " windows along "
                         << (axis ? "the width" : "the height") << " of "
                         << input << ", expected as many as " << output
                         << " has, at least one";
  }
  return success();
}

LogicalResult mpcomm::verifyConvolution(EmitError emitError, ShapedType input,
                                        ShapedType filter, ShapedType output,
                                        const SlidingWindow &windows,
                                        int64_t groups) {
  for (ShapedType type : {input, filter, output})
    if (!type.hasRank() || type.getRank() != 4 ||
        type.getElementType() != input.getElementType()) // C1
      return emitError() << "expects input, filter and output of rank 4 and of "
                            "one element type, got "
                         << input << ", " << filter << " and " << output;
  if (failed(verifyLists(emitError, windows))) // C2
    return failure();
  SmallVector<int64_t, 4> from = windows.sizesOf(input),
                          to = windows.sizesOf(output);
  ArrayRef<int64_t> shape = filter.getShape();
  if (groups < 1 || shape[0] < 1 || shape[1] < 1 || shape[0] % groups ||
      llvm::is_contained(ArrayRef(from).drop_front(), 0)) // C3
    return emitError() << "expects positive sizes, and 'groups' that divide "
                       << "the output channels of " << filter << ", got "
                       << groups << " and " << input;
  // Below 2^48 / 1: the product does not overflow.
  if (groups > from[1] || from[1] != shape[1] * groups) // C4
    return emitError() << "expects an input of " << groups << " groups of "
                       << shape[1] << " channels, got " << from[1];
  if (to[0] != from[0] || to[1] != shape[0]) // C5
    return emitError() << "expects an output of batch " << from[0] << " and "
                       << shape[0] << " channels, got " << to[0] << " and "
                       << to[1];
  return verifyPositions(emitError, input, output, windows); // C5
}

LogicalResult mpcomm::verifyPool(EmitError emitError, ShapedType input,
                                 ShapedType output,
                                 const SlidingWindow &windows) {
  if (!input.hasRank() || !output.hasRank() || input.getRank() != 4 ||
      output.getRank() != 4 ||
      input.getElementType() != output.getElementType()) // C1
    return emitError() << "expects input and result of rank 4 and of one "
                          "element type, got "
                       << input << " and " << output;
  if (failed(verifyLists(emitError, windows))) // C2
    return failure();
  SmallVector<int64_t, 4> from = windows.sizesOf(input),
                          to = windows.sizesOf(output);
  if (from[0] != to[0] || from[1] != to[1]) // C1
    return emitError() << "expects input and result of the same batch and "
                          "channels, got "
                       << input << " and " << output;
  for (unsigned axis : {0, 1})
    if (windows.low[axis] >= windows.size[axis] ||
        windows.high[axis] >= windows.size[axis]) // C2
      return emitError() << "expects paddings below the window's size "
                         << windows.size[axis] << ", got " << windows.low[axis]
                         << " and " << windows.high[axis];
  if (llvm::is_contained(ArrayRef(from).drop_front(), 0)) // C3
    return emitError() << "expects positive channels and sizes, got " << input;
  return verifyPositions(emitError, input, output, windows); // C3
}
