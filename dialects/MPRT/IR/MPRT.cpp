//===- MPRT.cpp - the runtime dialect -------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verification and memory effects of ops, and verification of attributes.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include "OpHelpers.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPRT/IR/AttentionCall.h"
#include "mpcomm/Dialect/MPRT/IR/Epilogue.h"
#include "mpcomm/Dialect/MPRT/IR/ForecastAttr.h"
#include "mpcomm/Dialect/MPRT/IR/GraphAttr.h"
#include "mpcomm/Runtime/mprt.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace mlir;
using namespace mpcomm;
using namespace mpcomm::mprt;

#include "mpcomm/Dialect/MPRT/IR/MPRTDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "mpcomm/Dialect/MPRT/IR/MPRTAttrs.cpp.inc"

void MPRTDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "mpcomm/Dialect/MPRT/IR/MPRTAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "mpcomm/Dialect/MPRT/IR/MPRTOps.cpp.inc"
      >();
}

bool mpcomm::mprt::isContiguous(MemRefType type) {
  if (type.getNumElements() == 0)
    return true;
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(type.getStridesAndOffset(strides, offset)))
    return false;
  int64_t expected = 1;
  for (int64_t d = type.getRank() - 1; d >= 0; --d) {
    if (type.getDimSize(d) == 1)
      continue;
    if (strides[d] != expected)
      return false;
    expected *= type.getDimSize(d);
  }
  return true;
}

/// The offset of the last of `sizes` elements that lie `strides` apart; none
/// where a stride is unknown or negative, or 64 bits do not hold it.
static std::optional<int64_t> lastOffset(ArrayRef<int64_t> sizes,
                                         ArrayRef<int64_t> strides) {
  int64_t last = 0;
  for (auto [size, stride] : llvm::zip_equal(sizes, strides)) {
    int64_t reach;
    if (stride < 0 || llvm::MulOverflow<int64_t>(size - 1, stride, reach) ||
        llvm::AddOverflow(last, reach, last))
      return std::nullopt;
  }
  return last;
}

std::optional<int64_t> mpcomm::mprt::spanOf(MemRefType type) {
  if (type.getNumElements() == 0)
    return 0;
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(type.getStridesAndOffset(strides, offset)))
    return std::nullopt;
  std::optional<int64_t> last = lastOffset(type.getShape(), strides);
  if (!last || *last == INT64_MAX)
    return std::nullopt;
  return *last + 1;
}

Value mpcomm::mprt::getViewRoot(Value buffer) {
  while (auto view = buffer.getDefiningOp<ViewLikeOpInterface>())
    buffer = view.getViewSource();
  return buffer;
}

//===----------------------------------------------------------------------===//
// LaunchOp
//===----------------------------------------------------------------------===//

LogicalResult GridAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               int64_t threads, int64_t blocks, bool,
                               int64_t scratch) {
  if (threads < 32 || threads > 1024 || threads % 32 != 0)
    return emitError()
           << "expected a multiple of 32 threads, at most 1024, got "
           << threads;
  if (blocks < 1 || blocks > INT32_MAX)
    return emitError() << "expected 1 to 2147483647 blocks, got " << blocks;
  if (scratch < 0)
    return emitError() << "expected scratch of at least 0 bytes, got "
                       << scratch;
  return success();
}

LogicalResult LaunchOp::verify() {
  return verifyDestinationStyle(*this, getOutputs()); // C1, C2
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<FunctionOpInterface>(
      *this, getKernelAttr());
  if (!kernel || !kernel->hasAttr(kKernelAttr)) // launch C3
    return emitOpError() << "expects " << getKernelAttr()
                         << " to be a function with the attribute '"
                         << kKernelAttr << "'";
  if (kernel.getNumArguments() != getNumOperands())
    return emitOpError() << "has " << getNumOperands() << " operands, but "
                         << getKernelAttr() << " takes "
                         << kernel.getNumArguments();
  for (auto [i, pair] : llvm::enumerate(
           llvm::zip(getOperandTypes(), kernel.getArgumentTypes()))) {
    auto [operand, argument] = pair;
    auto from = cast<ShapedType>(operand);
    auto to = dyn_cast<ShapedType>(argument);
    if (!to || to.getShape() != from.getShape())
      return emitOpError() << "has operand #" << i << " of type " << operand
                           << ", but " << getKernelAttr() << " takes "
                           << argument;
  }
  return success();
}

void LaunchOp::getEffects(Effects &effects) {
  addEffects(getInputsMutable(), true, false, effects);
  addEffects(getOutputsMutable(), true, true, effects);
}

//===----------------------------------------------------------------------===//
// StartOp, AwaitOp
//===----------------------------------------------------------------------===//

/// A collective has two events of the runtime, which counts them in 32 bits.
static constexpr uint64_t kMaxEvent = INT32_MAX / 2 - 1;

/// Whether one of the values of I64Attrs, which ODS gives as unsigned, is
/// negative.
static bool isNegative(ArrayRef<uint64_t> values) {
  return llvm::any_of(values,
                      [](uint64_t v) { return static_cast<int64_t>(v) < 0; });
}

/// The kind that `kind` names; checks that `reduction` fits it.
static FailureOr<CollectiveKind> verifyKind(Operation *op, StringRef kind,
                                            StringRef reduction) {
  std::optional<CollectiveKind> value = symbolizeCollectiveKind(kind);
  if (!value)
    return op->emitOpError() << "does not know the collective '" << kind << "'";
  bool reduces = mpcomm::detail::reduces(*value);
  if (reduces && !symbolizeReduction(reduction))
    return op->emitOpError() << "expects a reduction for '" << kind
                             << "', got '" << reduction << "'";
  if (!reduces && !reduction.empty())
    return op->emitOpError() << "expects no reduction for '" << kind
                             << "', got '" << reduction << "'";
  return *value;
}

/// Checks the targets of a permute.
static LogicalResult verifyTargets(StartOp op, bool isPermute) { // start C5
  std::optional<ArrayRef<int64_t>> targets = op.getTargets();
  if (targets.has_value() != isPermute)
    return op.emitOpError() << "expects " << (isPermute ? "" : "no ")
                            << "'targets' for '" << op.getKind() << "'";
  if (!targets)
    return success();
  llvm::SmallDenseSet<int64_t> seen;
  for (int64_t target : *targets) {
    if (target < -1 || target >= static_cast<int64_t>(targets->size()))
      return op.emitOpError() << "expects each of 'targets' in [-1, "
                              << targets->size() << "), got " << target;
    if (target >= 0 && !seen.insert(target).second)
      return op.emitOpError() << "has rank " << target << " as two 'targets'";
  }
  return success();
}

LogicalResult StartOp::verify() {
  FailureOr<CollectiveKind> kind =
      verifyKind(*this, getKind(), getReduction()); // start C1
  if (failed(kind) || failed(verifyDestinationStyle(*this, getOutputs()))) // C2
    return failure();
  if (isNegative({getEvent(), getId(), getCommunicator(), getPeer() + 1}))
    return emitOpError("expects numbers that are not negative"); // start C4
  if (getEvent() > kMaxEvent)
    return emitOpError() << "expects an event of at most " << kMaxEvent
                         << ", got " << getEvent();
  for (auto [value, name] :
       {std::pair(getId(), "id"), std::pair(getCommunicator(), "communicator"),
        std::pair(getPeer() + 1, "peer")})
    if (value >= INT32_MAX)
      return emitOpError() << "expects '" << name << "' in 32 bits";
  if (failed(verifyTargets(*this, *kind == CollectiveKind::Permute)))
    return failure();
  size_t inputs = getInputs().size(), outputs = getOutputs().size();
  bool fits;
  switch (*kind) { // start C3
  case CollectiveKind::AllReduce:
    fits = inputs == 0 && outputs >= 1;
    break;
  case CollectiveKind::Broadcast:
  case CollectiveKind::Recv:
    fits = inputs == 0 && outputs == 1;
    break;
  case CollectiveKind::Send:
    fits = inputs == 1 && outputs == 0;
    break;
  case CollectiveKind::Barrier:
    fits = inputs == 0 && outputs == 0;
    break;
  default:
    fits = inputs == 1 && outputs == 1;
  }
  if (!fits)
    return emitOpError() << "does not expect " << inputs << " inputs and "
                         << outputs << " outputs for '" << getKind() << "'";
  for (Value operand : getOperands())
    if (getElementTypeOrSelf(operand) !=
        getElementTypeOrSelf(getOperands().front()))
      return emitOpError("expects operands of one element type");
  return success();
}

/// Also writes the communicator: collectives keep their order.
static void addCommunication(Effects &effects) {
  effects.emplace_back(MemoryEffects::Write::get(),
                       CommunicatorResource::get());
}

void StartOp::getEffects(Effects &effects) {
  addCommunication(effects);
  addEffects(getInputsMutable(), true, false, effects);
  addEffects(getOutputsMutable(), true, true, effects);
}

LogicalResult mprt::AwaitOp::verify() {
  if (isNegative(getEvent()) || getEvent() > kMaxEvent) // await C3
    return emitOpError() << "expects an event in [0, " << kMaxEvent << "], got "
                         << static_cast<int64_t>(getEvent());
  if (getInputs().size() > 1) // await C2
    return emitOpError() << "expects at most one input, got "
                         << getInputs().size();
  return verifyDestinationStyle(*this, getOutputs()); // await C1
}

void mprt::AwaitOp::getEffects(Effects &effects) {
  addCommunication(effects);
  addEffects(getInputsMutable(), true, true, effects);
  addEffects(getOutputsMutable(), true, true, effects);
}

//===----------------------------------------------------------------------===//
// GemmOp, CopyOp, AllSliceOp, ZeroOp
//===----------------------------------------------------------------------===//

LogicalResult GemmOp::verify() {
  if (isNegative({getM() - 1, getN() - 1, getK() - 1}) ||
      llvm::any_of(getBatch(), [](int64_t size) { return size < 1; })) // C1
    return emitOpError("expects positive sizes");
  for (ArrayRef<int64_t> strides :
       {getAStrides(), getBStrides(), getCStrides()})
    if (strides.size() != 2)
      return emitOpError("expects two strides for each matrix");
  size_t batch = getBatch().size();
  if (batch > MPRT_GEMM_MAX_BATCH || getABatchStrides().size() != batch ||
      getBBatchStrides().size() != batch || getCBatchStrides().size() != batch)
    return emitOpError() << "expects at most " << MPRT_GEMM_MAX_BATCH
                         << " batch dimensions, with a stride of each matrix "
                            "for each";
  auto unit = [](ArrayRef<int64_t> s) { return s[0] == 1 || s[1] == 1; };
  if (!unit(getAStrides()) || !unit(getBStrides()) || getCStrides()[1] != 1)
    return emitOpError("expects a unit stride in A and in B, and in the rows "
                       "of C"); // gemm C2
  auto reaches = [&](Value buffer, int64_t rows, int64_t columns,
                     ArrayRef<int64_t> strides,
                     ArrayRef<int64_t> batches) -> LogicalResult {
    SmallVector<int64_t> sizes{rows, columns}, steps(strides);
    llvm::append_range(sizes, getBatch());
    llvm::append_range(steps, batches);
    auto type = cast<MemRefType>(buffer.getType());
    std::optional<int64_t> span = spanOf(type), last = lastOffset(sizes, steps);
    if (last && (!span || *last < *span))
      return success();
    return emitOpError() << "reaches "
                         << (last ? "element " + std::to_string(*last)
                                  : std::string("no element"))
                         << " of " << type << ", expected one of its own";
  };
  int64_t m = getM(), n = getN(), k = getK(); // gemm C3
  if (failed(reaches(getA(), m, k, getAStrides(), getABatchStrides())) ||
      failed(reaches(getB(), k, n, getBStrides(), getBBatchStrides())))
    return failure();
  return reaches(getC(), m, n, getCStrides(), getCBatchStrides());
}

void GemmOp::getEffects(Effects &effects) {
  addEffects(getAMutable(), true, false, effects);
  addEffects(getBMutable(), true, false, effects);
  addEffects(getCMutable(), getAccumulate(), true, effects);
}

LogicalResult CopyOp::verify() {
  auto from = cast<MemRefType>(getSource().getType());
  auto to = cast<MemRefType>(getTarget().getType());
  if (from.getShape() != to.getShape() ||
      from.getElementType() != to.getElementType() || !isContiguous(from) ||
      !isContiguous(to)) // copy C1
    return emitOpError() << "expects contiguous buffers of one shape and "
                            "element type, got "
                         << from << " and " << to;
  return success();
}

void CopyOp::getEffects(Effects &effects) {
  addEffects(getSourceMutable(), true, false, effects);
  addEffects(getTargetMutable(), false, true, effects);
}

LogicalResult mprt::AllSliceOp::verify() {
  if (getInputs().size() != 1 || getOutputs().size() != 1)
    return emitOpError() << "expects one input and one output, got "
                         << getInputs().size() << " and "
                         << getOutputs().size();
  if (failed(verifyDestinationStyle(*this, getOutputs()))) // all_slice C1
    return failure();
  int64_t blocks = 1;
  bool fits = getSizes().size() == getStrides().size();
  for (int64_t number : llvm::concat<const int64_t>(getSizes(), getStrides()))
    fits &= number > 0 && number <= INT32_MAX;
  for (int64_t size : getSizes())
    fits = fits && (blocks *= size) <= INT32_MAX;
  if (!fits) // all_slice C2
    return emitOpError() << "expects as many sizes as strides, positive and of "
                            "32 bits together, got ["
                         << getSizes() << "] and [" << getStrides() << "]";
  auto from = cast<ShapedType>(getInputs().front().getType());
  auto to = cast<ShapedType>(getOutputs().front().getType());
  if (from.getElementType() != to.getElementType() ||
      from.getNumElements() !=
          mpcomm::detail::multiplySaturated(to.getNumElements(), blocks))
    return emitOpError() << "expects an input of " << blocks
                         << " blocks of the output, got " << from << " and "
                         << to; // all_slice C3
  return success();
}

void mprt::AllSliceOp::getEffects(Effects &effects) {
  addEffects(getInputsMutable(), true, false, effects);
  addEffects(getOutputsMutable(), false, true, effects);
}

LogicalResult ZeroOp::verify() {
  if (!isContiguous(cast<MemRefType>(getTarget().getType()))) // zero C1
    return emitOpError() << "expects a contiguous buffer, got "
                         << getTarget().getType();
  return success();
}

void ZeroOp::getEffects(Effects &effects) {
  addEffects(getTargetMutable(), false, true, effects);
}

//===----------------------------------------------------------------------===//
// Attributes on other ops
//===----------------------------------------------------------------------===//

/// `what` is wrong with the attribute.
static LogicalResult emitAttrError(Operation *op, NamedAttribute attr,
                                   const Twine &what) {
  return op->emitOpError() << "expects '" << attr.getName().getValue()
                           << "' to be " << what << ", got " << attr.getValue();
}

static bool isI64(Attribute attr) {
  auto integer = dyn_cast_or_null<IntegerAttr>(attr);
  return integer && integer.getType().isSignlessInteger(64);
}

static LogicalResult verifyCommunicators(Operation *op, NamedAttribute attr) {
  auto isAxes = [](Attribute entry) {
    auto axes = dyn_cast<ArrayAttr>(entry);
    return axes && llvm::all_of(axes, llvm::IsaPred<StringAttr>);
  };
  auto list = dyn_cast<ArrayAttr>(attr.getValue());
  if (!isa<ModuleOp>(op) || !list || !llvm::all_of(list, isAxes))
    return emitAttrError(op, attr, "lists of axes, on a module");
  return success();
}

static LogicalResult verifyResults(Operation *op, NamedAttribute attr) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  auto list = dyn_cast<ArrayAttr>(attr.getValue());
  if (!function || !list)
    return emitAttrError(op, attr, "an array, on a function");
  for (Attribute entry : list) {
    auto result = dyn_cast<DictionaryAttr>(entry);
    auto type = result ? result.getAs<TypeAttr>(kResultType) : TypeAttr();
    auto tensor =
        type ? dyn_cast<RankedTensorType>(type.getValue()) : RankedTensorType();
    if (!tensor || !tensor.hasStaticShape() ||
        !isI64(result.get(kResultArgument)))
      return emitAttrError(op, attr,
                           "dictionaries with a tensor 'type' and an i64 "
                           "'argument' each");
    int64_t argument = result.getAs<IntegerAttr>(kResultArgument).getInt();
    if (argument < -1 || argument >= function.getNumArguments())
      return op->emitOpError()
             << "has '" << attr.getName().getValue() << "' with argument "
             << argument << ", expected one of " << function.getNumArguments()
             << " or -1";
  }
  return success();
}

/// Whether `graph` has what the manifest says of a training graph.
static bool isGraphDescription(DictionaryAttr graph) {
  auto optimizer = graph.getAs<ArrayAttr>(kGraphOptimizer);
  auto options = graph.getAs<DictionaryAttr>(kGraphOptions);
  Attribute batch = graph.get(kGraphBatch);
  return graph.getAs<StringAttr>(kGraphDigest) &&
         graph.getAs<StringAttr>(kGraphStructure) && batch && isI64(batch) &&
         optimizer && llvm::all_of(optimizer, llvm::IsaPred<StringAttr>) &&
         options && llvm::all_of(options, [](NamedAttribute option) {
           return isa<StringAttr>(option.getValue());
         });
}

/// Whether `forecast` has what the manifest says of one.
static bool isForecast(DictionaryAttr forecast) {
  auto list = [&](StringRef name) {
    auto values = forecast.getAs<DenseF64ArrayAttr>(name);
    return values ? values.asArrayRef() : ArrayRef<double>();
  };
  auto compute = forecast.getAs<FloatAttr>(kForecastCompute);
  ArrayRef<double> bandwidth = list(kForecastBandwidth),
                   step = list(kForecastStep),
                   communication = list(kForecastCommunication);
  auto isPositive = [](double value) {
    return value > 0 && std::isfinite(value);
  };
  if (!forecast.getAs<StringAttr>(kForecastCluster) ||
      !forecast.getAs<StringAttr>(kForecastLink) || !compute ||
      !(compute.getValueAsDouble() >= 0) || bandwidth.size() < 2 ||
      step.size() != bandwidth.size() ||
      communication.size() != bandwidth.size() ||
      !llvm::all_of(bandwidth, isPositive) || !llvm::all_of(step, isPositive) ||
      !llvm::all_of(communication, isPositive))
    return false;
  for (size_t row = 1; row < bandwidth.size(); ++row)
    if (bandwidth[row] >= bandwidth[row - 1] ||
        communication[row] <= communication[row - 1])
      return false;
  return true;
}

LogicalResult MPRTDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attr) {
  StringRef name = attr.getName();
  if (name == kCommunicatorsAttr)
    return verifyCommunicators(op, attr);
  if (name == kChannelsAttr) {
    auto channels = dyn_cast<DenseI64ArrayAttr>(attr.getValue());
    if (!isa<ModuleOp>(op) || !channels ||
        llvm::any_of(channels.asArrayRef(),
                     [](int64_t c) { return c < 0 || c > UINT16_MAX; }))
      return emitAttrError(op, attr,
                           "an array of i64 from 0 to 65535, on a module");
    return success();
  }
  if (name == kResultsAttr)
    return verifyResults(op, attr);
  if (name == kMeshAttr) {
    if (!isa<ModuleOp>(op) || !isa<FlatSymbolRefAttr>(attr.getValue()))
      return emitAttrError(op, attr, "the symbol of a mesh, on a module");
    return success();
  }
  if (name == kGraphAttr) {
    auto graph = dyn_cast<DictionaryAttr>(attr.getValue());
    if (!isa<ModuleOp>(op) || !graph || !isGraphDescription(graph))
      return emitAttrError(op, attr,
                           "a dictionary of digest, structure (strings), batch "
                           "(an i64), optimizer (an array of strings) and "
                           "options (a dictionary of strings), on a module");
    return success();
  }
  if (name == kForecastAttr) {
    auto forecast = dyn_cast<DictionaryAttr>(attr.getValue());
    if (!isa<ModuleOp>(op) || !forecast || !isForecast(forecast))
      return emitAttrError(
          op, attr,
          "a dictionary of cluster and link (strings), compute (a "
          "float), and lists of at least two positive doubles "
          "that run parallel: bandwidth (falling), step, and "
          "communication (rising), on a module");
    return success();
  }
  if (name == kGridAttr) {
    auto kernel = dyn_cast<FunctionOpInterface>(op);
    if (!kernel || !kernel.isExternal() || !op->hasAttr(kKernelAttr) ||
        !isa<GridAttr>(attr.getValue()))
      return emitAttrError(op, attr,
                           "a #mprt.grid, on a kernel without a body");
    return success();
  }
  if (name == kMovedBytesAttr || name == kSharedBytesAttr) {
    if (!op->hasAttr(kKernelAttr) || !isI64(attr.getValue()) ||
        cast<IntegerAttr>(attr.getValue()).getInt() < 0)
      return emitAttrError(op, attr,
                           "an i64 that is not negative, on a kernel");
    return success();
  }
  if (name == kEpilogueAttr) {
    auto launch = dyn_cast<LaunchOp>(op);
    if (!launch || !Epilogue::of(launch))
      return emitAttrError(op, attr,
                           "a kind (bias, bias_gelu, bias_gelu_aux, "
                           "gelu_grad, bias_grad_a, bias_grad_b or scale) and "
                           "numbers of operands, on a launch");
    return success();
  }
  if (name == kFixedMaskAttr) {
    auto attention = dyn_cast<AttentionOp>(op);
    if (!attention || !attention.getMask() || !isa<UnitAttr>(attr.getValue()))
      return emitAttrError(op, attr,
                           "a unit attribute, on attention with a "
                           "mask");
    return success();
  }
  if (name == kAttentionAttr) {
    auto launch = dyn_cast<LaunchOp>(op);
    bool isPart = launch && isa<UnitAttr>(attr.getValue());
    if (!isa<AttentionOp>(op) && !isPart &&
        (!launch || !AttentionCall::of(launch)))
      return emitAttrError(op, attr,
                           "a kind (attention or attention_grad) and a scale "
                           "of f64, or a unit attribute after them, on a "
                           "launch with the operands of attention");
    return success();
  }
  if (name == kArenaBytesAttr || name == kBucketBytesAttr) {
    if (!isa<FunctionOpInterface>(op) || !isI64(attr.getValue()) ||
        cast<IntegerAttr>(attr.getValue()).getInt() < 0)
      return emitAttrError(op, attr,
                           "an i64 that is not negative, on a "
                           "function");
    return success();
  }
  if (name == kArenaBytesByKindAttr) {
    auto parts = dyn_cast<DictionaryAttr>(attr.getValue());
    bool areSizes = parts && llvm::all_of(parts, [](NamedAttribute part) {
                      return isI64(part.getValue()) &&
                             cast<IntegerAttr>(part.getValue()).getInt() >= 0;
                    });
    if (!isa<FunctionOpInterface>(op) || !areSizes)
      return emitAttrError(op, attr,
                           "a dictionary of i64 that are not negative, on a "
                           "function");
    return success();
  }
  if (name == kOverwriteAttr) {
    if (!isa<UnitAttr>(attr.getValue()))
      return emitAttrError(op, attr, "a unit attribute");
    return success();
  }
  return op->emitOpError() << "has unknown attribute '" << name << "'";
}

LogicalResult MPRTDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                    unsigned argument,
                                                    NamedAttribute attr) {
  if (attr.getName() != kUpdateAttr || !isa<UnitAttr>(attr.getValue()))
    return op->emitOpError() << "has attribute '" << attr.getName().getValue()
                             << "' on argument #" << argument << ", expected '"
                             << kUpdateAttr << "' as a unit attribute";
  return success();
}

#define GET_OP_CLASSES
#include "mpcomm/Dialect/MPRT/IR/MPRTOps.cpp.inc"
