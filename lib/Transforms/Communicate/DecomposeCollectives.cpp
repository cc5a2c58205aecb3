//===- DecomposeCollectives.cpp - all_reduce in two levels ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An all_reduce over ranks that lie in several blocks of the cluster becomes a
// reduce_scatter inside the blocks, an all_reduce across them on what is left,
// and an all_gather inside. Blocks are runs of consecutive ranks, so that the
// inner group is the fastest part of the group's axes; an axis that a block
// cuts is split in two, in the mesh and wherever it is named.
//
//===----------------------------------------------------------------------===//

#include "Communicate/Communicator.h"
#include "Communicate/Model.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mpcomm {
#define GEN_PASS_DEF_DECOMPOSECOLLECTIVESPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-decompose-collectives"

using namespace mlir;
using namespace mpcomm;

namespace {

/// Where the axes of a group are cut: the inner group is the last `inner` ranks
/// of axis `axis` and all axes after it.
struct Cut {
  unsigned axis = 0; // in the group's axes, in mesh order
  int64_t inner = 1; // divides the size of the axis
};

/// An all_reduce that is faster in two levels.
struct Candidate {
  AllReduceOp op;
  Cut cut;
  double flat, hierarchical; // seconds
  int64_t inside, across;    // ranks
};

class Decomposer {
public:
  Decomposer(ModuleOp module, const CostModel &model, Numerics numerics)
      : module(module), model(model), numerics(numerics) {}

  /// Returns whether anything changed.
  bool run();

private:
  std::optional<Candidate> getCandidate(AllReduceOp op);
  std::optional<Cut> getCut(AllReduceOp op, int64_t inside);
  bool isSharding(MeshOp mesh, StringAttr axis);
  StringRef split(const Candidate &candidate);
  void splitAxis(MeshOp mesh, unsigned axis, int64_t inner);
  void rewrite(const Candidate &candidate);
  SmallVector<Attribute> getAxes(AllReduceOp op);

  ModuleOp module;
  const CostModel &model;
  Numerics numerics;
};

} // namespace

static MeshOp getMesh(AllReduceOp op) {
  return SymbolTable::lookupNearestSymbolFrom<MeshOp>(op, op.getMeshAttr());
}

/// The op's axes in the order of the mesh.
SmallVector<Attribute> Decomposer::getAxes(AllReduceOp op) {
  SmallVector<Attribute> axes;
  for (Attribute axis : getMesh(op).getAxisNames())
    if (llvm::is_contained(op.getAxes(), axis))
      axes.push_back(axis);
  return axes;
}

/// The type that travels, if a cast leads to it and back.
static Type getWireElement(AllReduceOp op) {
  Type element = getElementTypeOrSelf(op.getInputs().front());
  for (Value input : op.getInputs())
    if (getElementTypeOrSelf(input) != element)
      return Type();
  Type wire = op.getWire().value_or(element);
  if (wire != element &&
      wire.getIntOrFloatBitWidth() == element.getIntOrFloatBitWidth())
    return Type();
  return wire;
}

std::optional<Cut> Decomposer::getCut(AllReduceOp op, int64_t inside) {
  SmallVector<Attribute> axes = getAxes(op);
  MeshOp mesh = getMesh(op);
  for (int i = static_cast<int>(axes.size()) - 1; i >= 0; --i) {
    int64_t size =
        mesh.getAxisSize(cast<StringAttr>(axes[i]).getValue()).value_or(1);
    if (inside <= size)
      return size % inside == 0 ? std::optional(Cut{unsigned(i), inside})
                                : std::nullopt;
    if (inside % size)
      return std::nullopt;
    inside /= size;
  }
  return std::nullopt;
}

std::optional<Candidate> Decomposer::getCandidate(AllReduceOp op) {
  if (!isMovableCollective(op) || !getMesh(op) || !getWireElement(op) ||
      (numerics == Numerics::Exact && dependsOnOrder(op)))
    return std::nullopt;
  FailureOr<GroupShape> shape = model.getGroupShape(op);
  FailureOr<CostCurve> flat = model.getCollective(op);
  if (failed(shape) || failed(flat))
    return std::nullopt;
  int64_t bytes = CostModel::getWireBytes(op);
  std::optional<Candidate> best;
  double least = flat->at(bytes);
  for (unsigned level = 0, e = shape->inside.size(); level < e; ++level) {
    auto groups = CostModel::splitGroup(*shape, level);
    if (!groups)
      continue;
    auto [inside, across] = *groups;
    std::optional<Cut> cut = getCut(op, inside.ranks);
    if (!cut)
      continue;
    double seconds =
        getTwoLevelCost(model, *shape, level)->at(bytes) +
        getPackingSeconds(model, op.getInputs().size(),
                          mpcomm::detail::countBytes(op->getOperandTypes()));
    if (seconds >= least)
      continue;
    least = seconds;
    best = {op, *cut, flat->at(bytes), seconds, inside.ranks, across.ranks};
  }
  return best;
}

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

/// A name for a part of an axis that the mesh does not have yet.
static StringAttr getPartName(MeshOp mesh, StringRef axis, StringRef part) {
  std::string name = (axis + "." + part).str();
  while (mesh.getAxisSize(name))
    name += "'";
  return StringAttr::get(mesh.getContext(), name);
}

void Decomposer::splitAxis(MeshOp mesh, unsigned axis, int64_t inner) {
  SmallVector<Attribute> names(mesh.getAxisNames().getValue());
  SmallVector<int64_t> sizes(mesh.getAxisSizes());
  Attribute whole = names[axis];
  StringRef name = cast<StringAttr>(whole).getValue();
  Attribute outerName = getPartName(mesh, name, "outer");
  Attribute innerName = getPartName(mesh, name, "inner");
  names[axis] = outerName;
  names.insert(names.begin() + axis + 1, innerName);
  sizes[axis] /= inner;
  sizes.insert(sizes.begin() + axis + 1, inner);
  MLIRContext *context = mesh.getContext();
  mesh.setAxisNamesAttr(ArrayAttr::get(context, names));
  mesh.setAxisSizes(sizes);
  // Whoever names the axis names both parts; a module inside may have another
  // mesh of this name.
  SymbolTableCollection symbols;
  module.walk([&](Operation *op) {
    FlatSymbolRefAttr name;
    ArrayAttr axes;
    llvm::TypeSwitch<Operation *>(op)
        .Case<CollectiveOpInterface, RankDependentOpInterface, PredivideOp>(
            [&](auto user) {
              name = user.getMeshAttr();
              axes = user.getAxesAttr();
            });
    if (!name || symbols.lookupNearestSymbolFrom(op, name) != mesh ||
        !llvm::is_contained(axes, whole))
      return;
    SmallVector<Attribute> parts;
    for (Attribute named : axes) {
      if (named == whole)
        parts.append({outerName, innerName});
      else
        parts.push_back(named);
    }
    op->setAttr("axes", ArrayAttr::get(context, parts));
  });
}

/// Whether blocks of some value are on ranks along `axis`, as ZeRO's state.
bool Decomposer::isSharding(MeshOp mesh, StringAttr axis) {
  bool found = false;
  AttrTypeWalker sharded;
  sharded.addWalk([&](ShardingAttr sharding) {
    if (sharding.getMesh().getValue() != mesh.getSymName())
      return WalkResult::skip();
    sharding.walk([&](AxisRefAttr named) { found |= named.getName() == axis; });
    return WalkResult::skip();
  });
  module.walk([&](Operation *op) {
    sharded.walk(op->getAttrDictionary());
    return found ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found;
}

/// Makes the cut one between axes. If it cannot be one, the reason.
StringRef Decomposer::split(const Candidate &candidate) {
  constexpr StringLiteral elsewhere = "an axis is split at another place";
  AllReduceOp op = candidate.op;
  std::optional<Cut> cut = getCut(op, candidate.inside);
  if (!cut)
    return elsewhere;
  MeshOp mesh = getMesh(op);
  auto name = cast<StringAttr>(getAxes(op)[cut->axis]);
  if (mesh.getAxisSize(name.getValue()) == cut->inner)
    return {};
  // Proofs of shardings are along one axis each.
  if (isSharding(mesh, name))
    return "values are sharded over the axis that it would split";
  auto names = mesh.getAxisNames().getValue();
  splitAxis(mesh, llvm::find(names, name) - names.begin(), cut->inner);
  return {};
}

//===----------------------------------------------------------------------===//
// The rewrite
//===----------------------------------------------------------------------===//

void Decomposer::rewrite(const Candidate &candidate) {
  AllReduceOp op = candidate.op;
  OpBuilder builder(op);
  Location loc = op.getLoc();
  Type wire = getWireElement(op);
  SmallVector<Attribute> innerAxes, outerAxes;
  int64_t inner = 1;
  SmallVector<Attribute> axes = getAxes(op);
  for (Attribute axis : llvm::reverse(axes)) {
    bool isInner = inner < candidate.inside;
    if (isInner)
      inner *= getMesh(op)
                   .getAxisSize(cast<StringAttr>(axis).getValue())
                   .value_or(1);
    auto &side = isInner ? innerAxes : outerAxes;
    side.insert(side.begin(), axis);
  }
  ArrayAttr inside = builder.getArrayAttr(innerAxes);
  ArrayAttr across = builder.getArrayAttr(outerAxes);

  // All operands in a row, filled up to whole blocks.
  SmallVector<Value> rows;
  int64_t elements = 0;
  auto rowType = [&](int64_t count) {
    return RankedTensorType::get(count, wire);
  };
  for (Value input : op.getInputs()) {
    int64_t count = cast<RankedTensorType>(input.getType()).getNumElements();
    rows.push_back(
        reshapeTo(builder, loc, castFloat(builder, loc, input, wire), count));
    elements += count;
  }
  int64_t padded =
      (elements + candidate.inside - 1) / candidate.inside * candidate.inside;
  if (padded > elements)
    rows.push_back(arith::ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(rowType(padded - elements),
                               builder.getZeroAttr(wire))));
  Value row = rows.size() == 1
                  ? rows.front()
                  : Value(ConcatenateOp::create(builder, loc, rowType(padded),
                                                rows, /*dim=*/0));
  auto blockType = rowType(padded / candidate.inside);
  DenseI64ArrayAttr first = builder.getDenseI64ArrayAttr(0);
  auto scattered =
      ReduceScatterOp::create(builder, loc, blockType, row, op.getMeshAttr(),
                              inside, op.getReductionAttr(), first, TypeAttr(),
                              op.getAccumulateAttr(), op.getChannelAttr());
  if (Operation *late = getLatePlace(op))
    builder.setInsertionPoint(late);
  auto reduced = AllReduceOp::create(
      builder, loc, scattered.getOutputs(), op.getMeshAttr(), across,
      op.getReductionAttr(), TypeAttr(), op.getAccumulateAttr(),
      op.getChannelAttr());
  Value gathered =
      AllGatherOp::create(builder, loc, rowType(padded), reduced.getOutputs(),
                          op.getMeshAttr(), inside, first, op.getChannelAttr())
          .getOutputs()
          .front();

  int64_t begin = 0;
  for (Value result : op.getOutputs()) {
    auto type = cast<RankedTensorType>(result.getType());
    int64_t count = type.getNumElements();
    Value part = gathered;
    if (count != padded)
      part = SliceOp::create(
          builder, loc, rowType(count), part, ArrayRef<int64_t>(begin),
          ArrayRef<int64_t>(begin + count), ArrayRef<int64_t>(1));
    begin += count;
    result.replaceAllUsesWith(
        castFloat(builder, loc, reshapeTo(builder, loc, part, type.getShape()),
                  type.getElementType()));
  }
  op.erase();
}

bool Decomposer::run() {
  SmallVector<Candidate> candidates;
  module.walk([&](AllReduceOp op) {
    if (std::optional<Candidate> candidate = getCandidate(op))
      candidates.push_back(*candidate);
  });
  for (Candidate &candidate : candidates) {
    auto function = candidate.op->getParentOfType<FunctionOpInterface>();
    StringRef name = function ? function.getName() : StringRef();
    auto named = [&](StringRef remark) {
      return remark::RemarkOpts::name(remark)
          .category(DEBUG_TYPE)
          .function(name);
    };
    if (StringRef reason = split(candidate); !reason.empty()) {
      remark::missed(candidate.op.getLoc(), named("NotDecomposed"))
          << remark::reason("{0}", reason);
      continue;
    }
    remark::passed(candidate.op.getLoc(), named("Decomposed"))
        << remark::metric("bytes", CostModel::getWireBytes(candidate.op))
        << remark::metric("inside", candidate.inside)
        << remark::metric("across", candidate.across)
        << remark::metric("flat_us", toMicros(candidate.flat))
        << remark::metric("decomposed_us", toMicros(candidate.hierarchical));
    rewrite(candidate);
  }
  return !candidates.empty();
}

namespace {
struct DecomposeCollectives
    : mpcomm::impl::DecomposeCollectivesPassBase<DecomposeCollectives> {
  using DecomposeCollectivesPassBase::DecomposeCollectivesPassBase;

  void runOnOperation() override {
    FailureOr<CostModel> model =
        getCostModel(getOperation(), cluster, profileFile);
    if (failed(model))
      return signalPassFailure();
    if (!Decomposer(getOperation(), *model, numerics).run())
      markAllAnalysesPreserved();
  }
};
} // namespace
