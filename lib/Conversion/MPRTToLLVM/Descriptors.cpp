//===- Descriptors.cpp - static data of a program -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Descriptors.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPComm/IR/SlidingWindow.h"
#include "mpcomm/Dialect/MPRT/IR/AttentionCall.h"
#include "mpcomm/Dialect/MPRT/IR/Epilogue.h"
#include "mpcomm/Runtime/mprt.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mpcomm;

//===----------------------------------------------------------------------===//
// Types and locations
//===----------------------------------------------------------------------===//

FailureOr<uint8_t> mpcomm::runtimeType(Type type) {
  if (type.isF32())
    return uint8_t(MPRT_F32);
  if (type.isF64())
    return uint8_t(MPRT_F64);
  if (type.isF16())
    return uint8_t(MPRT_F16);
  if (type.isBF16())
    return uint8_t(MPRT_BF16);
  if (isa<Float8E4M3FNType>(type))
    return uint8_t(MPRT_F8E4M3);
  if (isa<Float8E5M2Type>(type))
    return uint8_t(MPRT_F8E5M2);
  if (auto integer = dyn_cast<IntegerType>(type))
    switch (integer.getWidth()) {
    case 1:
      return uint8_t(MPRT_BOOL);
    case 8:
      return uint8_t(integer.isUnsigned() ? MPRT_U8 : MPRT_I8);
    case 16:
      return uint8_t(MPRT_I16);
    case 32:
      return uint8_t(MPRT_I32);
    case 64:
      return uint8_t(MPRT_I64);
    }
  return failure();
}

StringRef mpcomm::manifestType(Type type) {
  FailureOr<uint8_t> number = runtimeType(type);
  if (failed(number))
    return "";
  switch (*number) {
  case MPRT_F32:
    return "f32";
  case MPRT_F64:
    return "f64";
  case MPRT_F16:
    return "f16";
  case MPRT_BF16:
    return "bf16";
  case MPRT_I8:
    return "i8";
  case MPRT_U8:
    return "u8";
  case MPRT_I16:
    return "i16";
  case MPRT_I32:
    return "i32";
  case MPRT_I64:
    return "i64";
  case MPRT_BOOL:
    return "bool";
  case MPRT_F8E4M3:
    return "f8e4m3";
  default:
    return "f8e5m2";
  }
}

StringRef mpcomm::nameOf(mprt::StartOp op) {
  auto tag = op->getAttrOfType<StringAttr>(kTagAttr);
  return tag ? tag.getValue() : op.getKind();
}

namespace {
/// What a location names, each once, in order.
struct Places {
  explicit Places(Location loc) { add(loc); }

  llvm::SetVector<StringRef> names;
  PlaceSet lines; // file:line

private:
  void add(Location loc) {
    if (auto name = dyn_cast<NameLoc>(loc)) {
      names.insert(name.getName().getValue());
    } else if (auto fused = dyn_cast<FusedLoc>(loc)) {
      for (Location part : fused.getLocations())
        add(part);
    } else if (auto call = dyn_cast<CallSiteLoc>(loc)) {
      add(call.getCallee());
    } else if (auto line = dyn_cast<FileLineColLoc>(loc)) {
      lines.insert(
          (line.getFilename().getValue() + ":" + Twine(line.getLine())).str());
    }
  }
};
} // namespace

static std::string describe(const Places &places) {
  if (places.names.empty())
    return places.lines.empty() ? "unknown" : places.lines.front();
  // A bucket may come from hundreds of places: the first few say which.
  ArrayRef<StringRef> names = places.names.getArrayRef();
  std::string text = llvm::join(names.take_front(3), ", ");
  if (names.size() > 3)
    text += " and " + std::to_string(names.size() - 3) + " more";
  return text;
}

std::string mpcomm::describe(Location loc) { return ::describe(Places(loc)); }

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

Descriptors::Descriptors(SymbolTable &symbols)
    : symbols(symbols), builder(symbols.getOp()->getContext()) {}

std::string Descriptors::note(Location loc) {
  Places places(loc);
  std::string text = ::describe(places);
  Noted &all = locations[text];
  for (StringRef name : places.names)
    all.places.insert(name.str());
  all.places.insert(places.lines.begin(), places.lines.end());
  all.runs = std::max(all.runs, runs);
  return text;
}

llvm::json::Array Descriptors::takeLocations() {
  llvm::json::Array result;
  for (auto &[text, noted] : locations) {
    if (noted.places.size() < 2 && noted.runs == 1)
      continue;
    llvm::json::Object made{
        {"text", text},
        {"places", llvm::json::Array(noted.places.takeVector())}};
    if (noted.runs > 1)
      made["runs"] = noted.runs;
    result.push_back(std::move(made));
  }
  locations.clear();
  return result;
}

void Descriptors::moveToEnd() {
  if (last)
    builder.setInsertionPointAfter(last);
  else
    builder.setInsertionPointToStart(&symbols.getOp()->getRegion(0).front());
}

Descriptors::Field Descriptors::number(unsigned bits, int64_t value) {
  Type type = builder.getIntegerType(bits);
  return {type, builder.getIntegerAttr(type, value), {}, {}};
}

Descriptors::Field Descriptors::array(ArrayRef<int64_t> values, size_t size) {
  Field field{LLVM::LLVMArrayType::get(builder.getI64Type(), size), {}, {}, {}};
  field.list.assign(values.begin(), values.end());
  field.list.resize(size, 0);
  return field;
}

Descriptors::Field Descriptors::address(StringRef symbol) {
  return {LLVM::LLVMPointerType::get(builder.getContext()),
          {},
          FlatSymbolRefAttr::get(builder.getContext(), symbol),
          {}};
}

Descriptors::Field Descriptors::null() {
  return {LLVM::LLVMPointerType::get(builder.getContext()), {}, {}, {}};
}

LLVM::GlobalOp Descriptors::string(StringRef value, StringRef name) {
  LLVM::GlobalOp &global = strings[value];
  if (global && name.empty())
    return global;
  std::string text = (value + Twine('\0')).str();
  auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), text.size());
  moveToEnd();
  auto made = enter(LLVM::GlobalOp::create(
      builder, symbols.getOp()->getLoc(), type, /*isConstant=*/true,
      name.empty() ? LLVM::Linkage::Internal : LLVM::Linkage::External,
      name.empty() ? "mpcomm.str." + std::to_string(nextGlobal++) : name.str(),
      builder.getStringAttr(text)));
  if (name.empty())
    global = made;
  return made;
}

LLVM::GlobalOp Descriptors::make(StringRef base, Location loc,
                                 ArrayRef<Field> fields) {
  SmallVector<Type> types;
  for (const Field &field : fields)
    types.push_back(field.type);
  auto type = LLVM::LLVMStructType::getLiteral(builder.getContext(), types);
  moveToEnd();
  auto global = enter(LLVM::GlobalOp::create(
      builder, loc, type, /*isConstant=*/true, LLVM::Linkage::Internal,
      ("mpcomm." + base + "." + Twine(nextGlobal++)).str(), Attribute()));
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&global.getInitializerRegion());
  Value value = LLVM::UndefOp::create(builder, loc, type);
  for (auto [i, field] : llvm::enumerate(fields)) {
    Value element;
    if (!field.list.empty())
      element = LLVM::ConstantOp::create(builder, loc, field.type,
                                         builder.getI64TensorAttr(field.list));
    else if (field.symbol)
      element = LLVM::AddressOfOp::create(builder, loc, field.type,
                                          field.symbol.getValue());
    else if (!field.value)
      element = LLVM::ZeroOp::create(builder, loc, field.type);
    else
      element = LLVM::ConstantOp::create(builder, loc, field.type,
                                         cast<TypedAttr>(field.value));
    value =
        LLVM::InsertValueOp::create(builder, loc, value, element,
                                    ArrayRef<int64_t>{static_cast<int64_t>(i)});
  }
  LLVM::ReturnOp::create(builder, loc, value);
  return global;
}

LLVM::GlobalOp Descriptors::kernel(mprt::LaunchOp launch) {
  // The same kernel at another place is another descriptor: traces and errors
  // name places.
  std::string location = note(launch.getLoc());
  std::string key = (launch.getKernel() + "\n" + location).str();
  LLVM::GlobalOp &global = kernels[key];
  if (global)
    return global;
  auto kernel = symbols.lookup<func::FuncOp>(launch.getKernel());
  auto grid = kernel ? kernel->getAttrOfType<mprt::GridAttr>(mprt::kGridAttr)
                     : mprt::GridAttr();
  std::string wrapper = (launch.getKernel() + ".packed").str();
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  if (!grid && !symbols.lookup(wrapper)) {
    moveToEnd();
    enter(LLVM::LLVMFuncOp::create(
        builder, launch.getLoc(), wrapper,
        LLVM::LLVMFunctionType::get(
            LLVM::LLVMVoidType::get(builder.getContext()), {pointer})));
  }
  auto bytesOf = [&](StringRef attribute) {
    return kernel ? kernel->getAttrOfType<IntegerAttr>(attribute)
                  : IntegerAttr();
  };
  IntegerAttr moved = bytesOf(mprt::kMovedBytesAttr),
              shared = bytesOf(mprt::kSharedBytesAttr);
  int64_t bytes = moved ? moved.getInt()
                        : mpcomm::detail::countBytes(launch->getOperandTypes());
  LLVM::GlobalOp name = string(launch.getKernel());
  LLVM::GlobalOp place = string(location);
  Field symbol = grid ? address(name.getSymName()) : null();
  if (grid)
    scratchBytes = std::max(scratchBytes, grid.getScratch());
  return global =
             make("kernel", launch.getLoc(),
                  {number(32, nextKernel++), grid ? null() : address(wrapper),
                   address(name.getSymName()), address(place.getSymName()),
                   number(64, bytes), number(64, 0), symbol,
                   number(32, grid ? launch->getNumOperands() : 0),
                   number(32, grid ? grid.getThreads() : 0),
                   number(64, grid ? grid.getBlocks() : 0),
                   number(32, grid && grid.getGridStride()),
                   number(32, shared ? shared.getInt() : 0),
                   number(64, grid ? grid.getScratch() : 0)});
}

FailureOr<LLVM::GlobalOp>
Descriptors::epilogue(ArrayRef<mprt::LaunchOp> launches) {
  mprt::LaunchOp first = launches.front();
  mprt::Epilogue epilogue = *mprt::Epilogue::of(first);
  uint8_t type = 0;
  if (epilogue.hasBias()) {
    Type element =
        getElementTypeOrSelf(first->getOperand(epilogue.bias).getType());
    FailureOr<uint8_t> known = runtimeType(element);
    if (failed(known))
      return first.emitOpError() << "has a bias of type " << element
                                 << ", which the runtime does not know";
    type = *known;
  }
  SmallVector<Field> kernels;
  for (mprt::LaunchOp launch : launches)
    kernels.push_back(address(kernel(launch).getSymName()));
  LLVM::GlobalOp list = make("kernels", first.getLoc(), kernels);
  auto numScales = static_cast<int64_t>(epilogue.scales.size());
  epilogue.scales.resize(2, 0);
  return make("epilogue", first.getLoc(),
              {number(32, epilogue.kind), number(32, epilogue.bias),
               number(32, epilogue.matrix), number(32, type),
               number(32, static_cast<int64_t>(kernels.size())),
               number(32, numScales), number(32, epilogue.scales[0]),
               number(32, epilogue.scales[1]), address(list.getSymName())});
}

LLVM::GlobalOp Descriptors::attention(ArrayRef<mprt::LaunchOp> launches) {
  mprt::LaunchOp first = launches.front();
  mprt::AttentionCall attention = *mprt::AttentionCall::of(first);
  bool hasMask = first->getNumOperands() > attention.getNumOperands();
  auto typeOf = [&](unsigned i) {
    return cast<MemRefType>(first->getOperand(i).getType());
  };
  unsigned query = attention.isGradient ? 1 : 0;
  ArrayRef<int64_t> q = typeOf(query).getShape(),
                    k = typeOf(query + 1).getShape();
  SmallVector<int64_t> allStrides;
  for (unsigned i = 0; i < first->getNumOperands(); ++i) {
    SmallVector<int64_t> strides;
    int64_t offset;
    (void)typeOf(i).getStridesAndOffset(strides, offset);
    strides.resize(4, 0);
    llvm::append_range(allStrides, strides);
  }
  SmallVector<Field> kernels;
  for (mprt::LaunchOp launch : launches)
    kernels.push_back(address(kernel(launch).getSymName()));
  LLVM::GlobalOp list = make("kernels", first.getLoc(), kernels);
  LLVM::GlobalOp name =
      string(attention.isGradient ? "attention_grad" : "attention");
  LLVM::GlobalOp place = string(note(first.getLoc()));
  Field scale{
      builder.getF64Type(), builder.getF64FloatAttr(attention.scale), {}, {}};
  return make(
      "attention", first.getLoc(),
      {number(32, nextAttention++),
       number(8, attention.isGradient ? MPRT_ATTENTION_GRAD : MPRT_ATTENTION),
       number(8, *runtimeType(typeOf(query).getElementType())),
       number(8, hasMask), number(8, 0), number(64, q[0]), number(64, q[2]),
       number(64, q[1]), number(64, k[1]), number(64, q[3]), scale,
       array(allStrides, size_t(4) * MPRT_ATTENTION_MAX_OPERANDS),
       number(32, static_cast<int64_t>(kernels.size())), number(32, 0),
       address(list.getSymName()), address(name.getSymName()),
       address(place.getSymName())});
}

FailureOr<LLVM::GlobalOp> Descriptors::gemm(mprt::GemmOp op) {
  uint8_t types[3];
  for (unsigned i = 0; i < 3; ++i) {
    Type element = getElementTypeOrSelf(op->getOperand(i).getType());
    FailureOr<uint8_t> number = runtimeType(element);
    if (failed(number) || !isa<FloatType>(element))
      return op.emitOpError() << "has elements of type " << element
                              << ", which the runtime cannot multiply";
    types[i] = *number;
  }
  LLVM::GlobalOp name = string("gemm");
  LLVM::GlobalOp place = string(note(op.getLoc()));
  return make("gemm", op.getLoc(),
              {number(32, nextGemm++), number(8, types[0]), number(8, types[1]),
               number(8, types[2]), number(8, op.getAccumulate()),
               number(32, op.getBatch().size()), number(64, op.getM()),
               number(64, op.getN()), number(64, op.getK()),
               array(op.getAStrides(), 2), array(op.getBStrides(), 2),
               array(op.getCStrides(), 2),
               array(op.getBatch(), MPRT_GEMM_MAX_BATCH),
               array(op.getABatchStrides(), MPRT_GEMM_MAX_BATCH),
               array(op.getBBatchStrides(), MPRT_GEMM_MAX_BATCH),
               array(op.getCBatchStrides(), MPRT_GEMM_MAX_BATCH),
               address(name.getSymName()), address(place.getSymName())});
}

template <typename Op>
FailureOr<LLVM::GlobalOp> Descriptors::slidingWindow(Op op, int64_t groups,
                                                     bool countPadding) {
  Type element = getElementTypeOrSelf(op.getOutputs().front().getType());
  FailureOr<uint8_t> type = runtimeType(element);
  if (failed(type) || *type > MPRT_BF16)
    return op->emitOpError()
           << "has elements of type " << element
           << ", which the runtime has no convolutions and pools of";
  unsigned kind = *op.getKindNumber();
  SlidingWindow windows = op.getGeometry();
  // Strides of the operands in the logical order of their dimensions. Of what
  // the forward op reads and makes, the first that is found has the sizes.
  Value inputs[] = {op->getOperand(0), op.getOutputs().front()};
  if (kind == MPRT_CONVOLUTION_INPUT_GRAD || kind == MPRT_MAX_POOL_GRAD ||
      kind == MPRT_AVG_POOL_GRAD)
    std::swap(inputs[0], inputs[1]);
  if (kind == MPRT_CONVOLUTION_FILTER_GRAD)
    inputs[0] = op->getOperand(1), inputs[1] = op->getOperand(0);
  auto sizesOf = [&](Value value) {
    return array(windows.sizesOf(cast<ShapedType>(value.getType())), 4);
  };
  auto stridesOf = [&](Value value, bool isFilter) {
    auto buffer = cast<MemRefType>(value.getType());
    SmallVector<int64_t> strides, logical;
    int64_t offset;
    (void)buffer.getStridesAndOffset(strides, offset);
    for (unsigned d = 0; d < 4; ++d)
      logical.push_back(strides[isFilter ? d : windows.position(d)]);
    return array(logical, 4);
  };
  bool convolves = kind <= MPRT_CONVOLUTION_FILTER_GRAD;
  bool makesFilter = kind == MPRT_CONVOLUTION_FILTER_GRAD;
  Field second = op.getInputs().size() == 2
                     ? stridesOf(op->getOperand(1), convolves && !makesFilter)
                     : array({0, 0, 0, 0}, 4);
  LLVM::GlobalOp name = string(op.getKind());
  LLVM::GlobalOp place = string(note(op.getLoc()));
  return make("window", op.getLoc(),
              {number(32, nextWindow++), number(8, kind), number(8, *type),
               number(8, countPadding), number(8, 0), sizesOf(inputs[0]),
               sizesOf(inputs[1]), array(windows.size, 2),
               array(windows.strides, 2), array(windows.low, 2),
               array(windows.dilation, 2), number(64, groups),
               stridesOf(op->getOperand(0), false), second,
               stridesOf(op.getOutputs().front(), makesFilter),
               address(name.getSymName()), address(place.getSymName())});
}

FailureOr<LLVM::GlobalOp> Descriptors::convolution(mprt::ConvolutionOp op) {
  return slidingWindow(op, op.getGroups(), /*countPadding=*/false);
}

FailureOr<LLVM::GlobalOp> Descriptors::pool(mprt::PoolOp op) {
  return slidingWindow(op, /*groups=*/1, op.getCountPadding());
}

FailureOr<LLVM::GlobalOp> Descriptors::collective(mprt::StartOp op, Type type,
                                                  int64_t count) {
  auto kind = *symbolizeCollectiveKind(op.getKind());
  auto reduction = symbolizeReduction(op.getReduction());
  FailureOr<uint8_t> element = runtimeType(type);
  FailureOr<uint8_t> accumulate = runtimeType(op.getAccumulate());
  if (failed(element) || failed(accumulate))
    return op.emitOpError() << "has elements of type " << type
                            << ", which the runtime cannot communicate";
  LLVM::GlobalOp name = string(nameOf(op));
  LLVM::GlobalOp place = string(note(op.getLoc()));
  Field targets = null();
  ArrayRef<int64_t> all = op.getTargets().value_or(ArrayRef<int64_t>());
  if (!all.empty()) {
    SmallVector<Field> numbers;
    for (int64_t target : all)
      numbers.push_back(number(32, target));
    targets = address(make("targets", op.getLoc(), numbers).getSymName());
  }
  // The dialect's enums have the numbers of those of mprt.h.
  return make("collective", op.getLoc(),
              {number(32, op.getId()), number(8, static_cast<int>(kind)),
               number(8, reduction ? static_cast<int>(*reduction) : 0),
               number(8, *element), number(8, *accumulate),
               number(32, op.getCommunicator()), number(32, op.getPeer()),
               number(64, count), address(name.getSymName()),
               address(place.getSymName()), targets,
               number(32, static_cast<int64_t>(all.size())), number(32, 0)});
}
