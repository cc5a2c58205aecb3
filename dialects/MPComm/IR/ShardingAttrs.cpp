//===- ShardingAttrs.cpp - what a rank holds of a value -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Syntax and constraints of #mpcomm.sharding and its parts.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/OpImplementation.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using namespace mpcomm;

using EmitError = function_ref<InFlightDiagnostic()>;

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

/// `"dp"` or `"dp":(2)4`; null after an error.
static AxisRefAttr parseAxisRef(AsmParser &parser) {
  std::string name;
  int64_t preSize = 0, size = 0;
  SMLoc start = parser.getCurrentLocation();
  if (parser.parseString(&name))
    return {};
  if (succeeded(parser.parseOptionalColon())) {
    if (parser.parseLParen() || parser.parseInteger(preSize) ||
        parser.parseRParen() || parser.parseInteger(size))
      return {};
    if (size == 0) {
      parser.emitError(start, "expects a size of at least 2 for a sub-axis");
      return {};
    }
  }
  return AxisRefAttr::getChecked(
      [&] { return parser.emitError(start); }, parser.getContext(),
      parser.getBuilder().getStringAttr(name), preSize, size);
}

static void printAxisRef(AsmPrinter &printer, AxisRefAttr axis) {
  printer << axis.getName();
  if (axis.isSubAxis())
    printer << ":(" << axis.getPreSize() << ")" << axis.getSize();
}

Attribute AxisRefAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  AxisRefAttr axis = parseAxisRef(parser);
  return axis && succeeded(parser.parseGreater()) ? axis : AxisRefAttr();
}

void AxisRefAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printAxisRef(printer, *this);
  printer << ">";
}

LogicalResult AxisRefAttr::verify(EmitError emitError, StringAttr name,
                                  int64_t preSize, int64_t size) {
  if (name.empty()) // axis C1
    return emitError() << "expects the name of an axis not to be empty";
  bool isWhole = preSize == 0 && size == 0;
  if (!isWhole && (preSize < 1 || size < 2)) // axis C2
    return emitError() << "expects a sub-axis of " << name
                       << " to have at least 1 rank before it and 2 in it, got "
                       << preSize << " and " << size;
  return success();
}

bool AxisRefAttr::overlaps(AxisRefAttr other) const {
  if (getName() != other.getName())
    return false;
  if (!isSubAxis() || !other.isSubAxis())
    return true;
  const AxisRefAttr &first = getPreSize() <= other.getPreSize() ? *this : other;
  const AxisRefAttr &second = first == *this ? other : *this;
  return first == second ||
         mpcomm::detail::multiplySaturated(
             first.getPreSize(), first.getSize()) > second.getPreSize();
}

//===----------------------------------------------------------------------===//
// Partial axes
//===----------------------------------------------------------------------===//

/// `sum "dp"`
static PartialAxisAttr parsePartialAxis(AsmParser &parser) {
  StringRef word;
  SMLoc start = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return {};
  std::optional<Reduction> reduction = symbolizeReduction(word);
  if (!reduction) {
    parser.emitError(start, "expects sum, mean or max, got '") << word << "'";
    return {};
  }
  AxisRefAttr axis = parseAxisRef(parser);
  return axis ? PartialAxisAttr::get(parser.getContext(), axis, *reduction)
              : PartialAxisAttr();
}

static void printPartialAxis(AsmPrinter &printer, PartialAxisAttr partial) {
  printer << stringifyReduction(partial.getReduction()) << " ";
  printAxisRef(printer, partial.getAxis());
}

Attribute PartialAxisAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  PartialAxisAttr partial = parsePartialAxis(parser);
  return partial && succeeded(parser.parseGreater()) ? partial
                                                     : PartialAxisAttr();
}

void PartialAxisAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printPartialAxis(printer, *this);
  printer << ">";
}

//===----------------------------------------------------------------------===//
// Shardings
//===----------------------------------------------------------------------===//

/// A list of what `parse` reads, in `delimiter`; null after an error.
template <typename Parse>
static ArrayAttr parseList(AsmParser &parser, AsmParser::Delimiter delimiter,
                           Parse parse) {
  SmallVector<Attribute> list;
  auto parseOne = [&]() -> ParseResult {
    Attribute attr = parse(parser);
    if (attr)
      list.push_back(attr);
    return failure(!attr);
  };
  if (parser.parseCommaSeparatedList(delimiter, parseOne))
    return {};
  return ArrayAttr::get(parser.getContext(), list);
}

Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  using Delimiter = AsmParser::Delimiter;
  SMLoc start = parser.getCurrentLocation();
  FlatSymbolRefAttr mesh;
  if (parser.parseLess() || parser.parseAttribute(mesh) || parser.parseComma())
    return {};
  auto parseDim = [](AsmParser &parser) {
    return parseList(parser, Delimiter::Braces, parseAxisRef);
  };
  ArrayAttr dims = parseList(parser, Delimiter::Square, parseDim);
  if (!dims)
    return {};
  auto none = ArrayAttr::get(parser.getContext(), {});
  ArrayAttr flat, partial, local;
  while (succeeded(parser.parseOptionalComma())) {
    StringRef word;
    SMLoc at = parser.getCurrentLocation();
    if (parser.parseKeyword(&word))
      return {};
    ArrayAttr *list = word == "flat"      ? &flat
                      : word == "partial" ? &partial
                      : word == "local"   ? &local
                                          : nullptr;
    if (!list || *list) {
      parser.emitError(at, "expects flat, partial or local, each at most once");
      return {};
    }
    if (parser.parseEqual())
      return {};
    *list = list == &partial
                ? parseList(parser, Delimiter::Square, parsePartialAxis)
                : parseList(parser, Delimiter::Square, parseAxisRef);
    if (!*list)
      return {};
  }
  if (parser.parseGreater())
    return {};
  return ShardingAttr::getChecked(
      [&] { return parser.emitError(start); }, parser.getContext(), mesh, dims,
      flat ? flat : none, partial ? partial : none, local ? local : none);
}

void ShardingAttr::print(AsmPrinter &printer) const {
  auto printAxes = [&](ArrayAttr axes) {
    llvm::interleaveComma(
        axes.getAsRange<AxisRefAttr>(), printer.getStream(),
        [&](AxisRefAttr axis) { printAxisRef(printer, axis); });
  };
  printer << "<" << getMesh() << ", [";
  llvm::interleaveComma(getDims().getAsRange<ArrayAttr>(), printer.getStream(),
                        [&](ArrayAttr axes) {
                          printer << "{";
                          printAxes(axes);
                          printer << "}";
                        });
  printer << "]";
  auto printNamed = [&](StringRef name, ArrayAttr axes) {
    if (axes.empty())
      return;
    printer << ", " << name << " = [";
    printAxes(axes);
    printer << "]";
  };
  printNamed("flat", getFlat());
  if (!getPartial().empty()) {
    printer << ", partial = [";
    llvm::interleaveComma(
        getPartial().getAsRange<PartialAxisAttr>(), printer.getStream(),
        [&](PartialAxisAttr partial) { printPartialAxis(printer, partial); });
    printer << "]";
  }
  printNamed("local", getLocal());
  printer << ">";
}

LogicalResult ShardingAttr::verify(EmitError emitError, FlatSymbolRefAttr,
                                   ArrayAttr dims, ArrayAttr flat,
                                   ArrayAttr partial, ArrayAttr local) {
  SmallVector<AxisRefAttr> seen;
  auto add = [&](Attribute attr) -> LogicalResult {
    auto axis = dyn_cast<AxisRefAttr>(attr);
    if (!axis)
      return emitError() << "expects #mpcomm.axis, got " << attr;
    for (AxisRefAttr other : seen)
      if (axis.overlaps(other)) // sharding C1
        return emitError() << "counts axis " << axis.getName() << " twice";
    seen.push_back(axis);
    return success();
  };
  for (Attribute dim : dims) {
    auto axes = dyn_cast<ArrayAttr>(dim);
    if (!axes)
      return emitError() << "expects lists of axes for dimensions, got " << dim;
    if (!axes.empty() && !flat.empty()) // sharding C2
      return emitError() << "splits a dimension and 'flat', expected one of "
                            "them";
    for (Attribute axis : axes)
      if (failed(add(axis)))
        return failure();
  }
  for (ArrayAttr axes : {flat, local})
    for (Attribute axis : axes)
      if (failed(add(axis)))
        return failure();
  for (Attribute attr : partial) {
    auto one = dyn_cast<PartialAxisAttr>(attr);
    if (!one)
      return emitError() << "expects #mpcomm.partial, got " << attr;
    if (failed(add(one.getAxis())))
      return failure();
    if (one.getReduction() == Reduction::Prod ||
        one.getReduction() == Reduction::Min) // sharding C3
      return emitError() << "expects sum, mean or max of a partial value, got "
                         << stringifyReduction(one.getReduction());
  }
  return success();
}

bool ShardingAttr::isSharded() const {
  return isFlat() || llvm::any_of(getDims().getAsRange<ArrayAttr>(),
                                  [](ArrayAttr axes) { return !axes.empty(); });
}

bool ShardingAttr::isReplicated() const {
  return !isSharded() && getPartial().empty() && getLocal().empty();
}

ShardingAttr ShardingAttr::withFlat(ArrayAttr axes) const {
  return get(getContext(), getMesh(), getDims(), axes, getPartial(),
             getLocal());
}
