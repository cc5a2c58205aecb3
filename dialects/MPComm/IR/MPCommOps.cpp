//===- MPCommOps.cpp - generated definitions of the ops -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The generated definitions and the pieces of syntax that they call.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/Builders.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using namespace mpcomm;

/// `<["pp" = 2, "dp" = 4]>`
static ParseResult parseMeshAxes(OpAsmParser &parser, ArrayAttr &names,
                                 DenseI64ArrayAttr &sizes) {
  SmallVector<Attribute> nameList;
  SmallVector<int64_t> sizeList;
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    int64_t size;
    if (parser.parseString(&name) || parser.parseEqual() ||
        parser.parseInteger(size))
      return failure();
    nameList.push_back(parser.getBuilder().getStringAttr(name));
    sizeList.push_back(size);
    return success();
  };
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseAxis) ||
      parser.parseGreater())
    return failure();
  names = parser.getBuilder().getArrayAttr(nameList);
  sizes = parser.getBuilder().getDenseI64ArrayAttr(sizeList);
  return success();
}

static void printMeshAxes(OpAsmPrinter &printer, Operation *, ArrayAttr names,
                          DenseI64ArrayAttr sizes) {
  printer << "<[";
  llvm::interleaveComma(
      llvm::zip(names, sizes.asArrayRef()), printer, [&](auto axis) {
        printer << std::get<0>(axis) << " = " << std::get<1>(axis);
      });
  printer << "]>";
}

/// Pairs of ranks, in one list of numbers: [[0, 1], [1, 2]].
static ParseResult parseRankPairs(OpAsmParser &parser,
                                  DenseI64ArrayAttr &pairs) {
  SmallVector<int64_t> numbers;
  auto parsePair = [&]() -> ParseResult {
    int64_t &source = numbers.emplace_back(), target;
    if (parser.parseLSquare() || parser.parseInteger(source) ||
        parser.parseComma() || parser.parseInteger(target) ||
        parser.parseRSquare())
      return failure();
    numbers.push_back(target);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parsePair))
    return failure();
  pairs = parser.getBuilder().getDenseI64ArrayAttr(numbers);
  return success();
}

static void printRankPairs(OpAsmPrinter &printer, Operation *,
                           DenseI64ArrayAttr pairs) {
  printer << '[';
  for (int64_t i = 0; i + 1 < pairs.size(); i += 2)
    printer << (i ? ", [" : "[") << pairs[i] << ", " << pairs[i + 1] << ']';
  printer << ']';
}

/// A float without its type, which is f64.
static ParseResult parsePlainF64(OpAsmParser &parser, FloatAttr &value) {
  return parser.parseAttribute(value, parser.getBuilder().getF64Type());
}

static void printPlainF64(OpAsmPrinter &printer, Operation *, FloatAttr value) {
  printer.printAttributeWithoutType(value);
}

/// An operand that may be missing, and the comma that follows it.
static ParseResult
parseOptionalOperand(OpAsmParser &parser,
                     std::optional<OpAsmParser::UnresolvedOperand> &operand) {
  OpAsmParser::UnresolvedOperand parsed;
  OptionalParseResult result = parser.parseOptionalOperand(parsed);
  if (!result.has_value())
    return success();
  operand = parsed;
  return failure(failed(*result) || parser.parseComma());
}

static void printOptionalOperand(OpAsmPrinter &printer, Operation *,
                                 Value operand) {
  if (operand)
    printer << ' ' << operand << ',';
}

/// Operands, each followed by a comma: what follows is no operand.
static ParseResult parseOperandsAndComma(
    OpAsmParser &parser,
    SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands) {
  while (true) {
    OpAsmParser::UnresolvedOperand parsed;
    OptionalParseResult result = parser.parseOptionalOperand(parsed);
    if (!result.has_value())
      return success();
    if (failed(*result) || parser.parseComma())
      return failure();
    operands.push_back(parsed);
  }
}

static void printOperandsAndComma(OpAsmPrinter &printer, Operation *,
                                  OperandRange operands) {
  llvm::interleave(
      operands, printer, [&](Value operand) { printer << operand << ','; },
      " ");
}

#define GET_OP_CLASSES
#include "mpcomm/Dialect/MPComm/IR/MPCommOps.cpp.inc"
