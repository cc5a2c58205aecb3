//===- TestEmulateGPU.cpp - kernels of a GPU as code for the host ---------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two passes by which generated kernels run on the fake CUDA driver
// (FakeCuda/README.md). `test-mpcomm-emulate-gpu` leaves of a module its device
// module alone, as functions of the host that ask the emulator for what a GPU's
// thread has. Of those, once compiled to a shared object,
// `test-mpcomm-embed-image` makes the image of the program.
//
//===----------------------------------------------------------------------===//

#include "TestPasses.h"
#include "WarpgroupAssembly.h"
#include "mlir/Conversion/LLVMCommon/MemRefBuilder.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Pass/Pass.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace mpcomm;

namespace {

/// Words for operands and results of an instruction: what a product of a
/// warpgroup of 64 columns takes.
constexpr int64_t kWords = 128;

/// Makes a function of the host of one of a GPU.
class Emulation {
public:
  Emulation(ModuleOp module)
      : module(module), converter(module.getContext()),
        b(OpBuilder::atBlockEnd(module.getBody())), loc(module.getLoc()) {}

  LogicalResult run(gpu::GPUFuncOp kernel);

private:
  Value toMemRef(Value pointer, MemRefType type) {
    Value descriptor =
        MemRefDescriptor::fromStaticShape(b, loc, converter, type, pointer);
    return UnrealizedConversionCastOp::create(b, loc, type, descriptor)
        .getResult(0);
  }
  func::FuncOp declare(StringRef name, TypeRange operands, TypeRange results) {
    if (auto known = module.lookupSymbol<func::FuncOp>(name))
      return known;
    OpBuilder top = OpBuilder::atBlockBegin(module.getBody());
    auto made = func::FuncOp::create(
        top, loc, name, FunctionType::get(b.getContext(), operands, results));
    made.setPrivate();
    return made;
  }
  Value call(StringRef name, ValueRange operands, Type result) {
    func::FuncOp callee = declare(name, operands.getTypes(),
                                  result ? TypeRange(result) : TypeRange());
    auto made = func::CallOp::create(b, loc, callee, operands);
    return result ? made.getResult(0) : Value();
  }
  Value number(int64_t value) {
    return arith::ConstantIntOp::create(b, loc, value, 32);
  }
  Value index(int64_t which) {
    Value value = call("mpemu_index", number(which), b.getI32Type());
    return arith::IndexCastUIOp::create(b, loc, b.getIndexType(), value);
  }
  void constant(const std::string &name, int64_t value) {
    OpBuilder end = OpBuilder::atBlockEnd(module.getBody());
    LLVM::GlobalOp::create(end, loc, end.getI32Type(), /*isConstant=*/true,
                           LLVM::Linkage::External, name,
                           end.getI32IntegerAttr(static_cast<int32_t>(value)));
  }
  LogicalResult replace(Operation *op);
  /// Replaces what tiles on tensor cores use; failure where `op` is no such op.
  LogicalResult replaceOfTiles(Operation *op);
  /// 32-bit word `i` of a room that the function has for operands and results.
  Value word(int64_t i) {
    return LLVM::GEPOp::create(b, loc, words.getType(), b.getI32Type(), words,
                               ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
  }
  /// Words of the room, as the struct that `op` has made.
  void useWords(Operation *op, int64_t first, Type type);
  /// Replaces products of warpgroups and waits for them; failure where `op` is
  /// neither.
  LogicalResult replaceOfWarpgroups(LLVM::InlineAsmOp op);
  Value address(Value pointer) {
    return LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), pointer);
  }

  Value words;
  int64_t staticShared = 0; ///< bytes of the function that is made
  ModuleOp module;
  LLVMTypeConverter converter;
  OpBuilder b;
  Location loc;
};

} // namespace

void Emulation::useWords(Operation *op, int64_t first, Type type) {
  Value all = LLVM::PoisonOp::create(b, loc, op->getResult(0).getType());
  auto fields = cast<LLVM::LLVMStructType>(all.getType()).getBody().size();
  for (int64_t i = 0; i < static_cast<int64_t>(fields); ++i)
    all = LLVM::InsertValueOp::create(
        b, loc, all, LLVM::LoadOp::create(b, loc, type, word(first + i)), i);
  op->getResult(0).replaceAllUsesWith(all);
}

LogicalResult Emulation::replaceOfWarpgroups(LLVM::InlineAsmOp op) {
  auto code = test::WarpgroupAssembly::read(op);
  if (!code)
    return failure();
  // ptxas of CUDA 12.8 and 13.0 may give registers of left operands to other
  // values in a loop that they come from outside of.
  if (auto loop = op->getParentOfType<LoopLikeOpInterface>();
      loop && code->inRegisters &&
      llvm::any_of(code->left, [&](unsigned operand) {
        return loop.isDefinedOutsideOfLoop(op->getOperand(operand));
      }))
    return failure();
  int64_t at = 0;
  bool fits = true;
  auto store = [&](Value operand) {
    int64_t next = at + operand.getType().getIntOrFloatBitWidth() / 32;
    fits &= next <= kWords;
    if (fits)
      LLVM::StoreOp::create(b, loc, operand, word(at));
    at = next;
  };
  auto results = static_cast<int64_t>(
      cast<LLVM::LLVMStructType>(op.getRes().getType()).getBody().size());
  if (code->others || code->accumulates)
    llvm::for_each(op->getOperands().take_front(results), store);
  // Sums that are not added to have their room, too.
  at = results;
  for (ArrayRef<unsigned> operands : {code->left, code->right})
    for (unsigned operand : operands)
      store(op->getOperand(operand));
  if (!fits)
    return failure();
  if (code->others)
    call("mpemu_warpgroup_wait",
         {number(*code->others), number(results), words}, Type());
  else
    call("mpemu_warpgroup_multiply",
         {number(code->columns), number(code->slices),
          number(code->inRegisters), number(code->isAcross),
          number(code->accumulates), number(code->isBF16), words},
         Type());
  useWords(op, 0, b.getF32Type());
  return success();
}

LogicalResult Emulation::replaceOfTiles(Operation *op) {
  if (auto load = dyn_cast<NVVM::LdMatrixOp>(op)) {
    if (load.getNum() != 4)
      return failure();
    call("mpemu_load_matrix",
         {number(load.getLayout() == NVVM::MMALayout::col),
          address(load.getPtr()), words},
         Type());
    useWords(op, 0, b.getI32Type());
  } else if (auto multiply = dyn_cast<NVVM::MmaOp>(op)) {
    NVVM::MMAShapeAttr shape = multiply.getShape();
    std::optional<NVVM::MMATypes> type = multiply.getMultiplicandAPtxType();
    if (shape.getM() != 16 || shape.getN() != 8 || shape.getK() != 16 || !type)
      return failure();
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      LLVM::StoreOp::create(b, loc, operand, word(static_cast<int64_t>(i)));
    call("mpemu_multiply", {number(*type == NVVM::MMATypes::bf16), words},
         Type());
    useWords(op, 6, b.getF32Type());
  } else if (auto copy = dyn_cast<NVVM::CpAsyncOp>(op)) {
    Value size = number(copy.getSize());
    call("mpemu_copy",
         {address(copy.getDst()), address(copy.getSrc()), size,
          copy.getCpSize() ? copy.getCpSize() : size},
         Type());
  } else if (auto code = dyn_cast<LLVM::InlineAsmOp>(op)) {
    if (failed(replaceOfWarpgroups(code)))
      return failure();
  } else if (auto fence = dyn_cast<NVVM::FenceProxyOp>(op)) {
    if (fence.getKind() != NVVM::ProxyKind::async_shared)
      return failure();
    call("mpemu_fence_tiles", {}, Type());
  } else if (isa<NVVM::CpAsyncCommitGroupOp>(op)) {
    call("mpemu_copy_commit", {}, Type());
  } else if (auto wait = dyn_cast<NVVM::CpAsyncWaitGroupOp>(op)) {
    call("mpemu_copy_wait", number(wait.getN()), Type());
  } else if (auto intrinsic = dyn_cast<LLVM::CallIntrinsicOp>(op)) {
    StringRef name = intrinsic.getIntrin();
    name = name == "llvm.nvvm.ex2.approx.ftz.f32" ? "mpemu_exp2"
           : name == "llvm.nvvm.lg2.approx.ftz.f" ? "mpemu_log2"
                                                  : "";
    if (name.empty())
      return failure();
    op->getResult(0).replaceAllUsesWith(
        call(name, op->getOperands(), b.getF32Type()));
  } else {
    return failure();
  }
  op->erase();
  return success();
}

LogicalResult Emulation::replace(Operation *op) {
  b.setInsertionPoint(op);
  if (succeeded(replaceOfTiles(op)))
    return success();
  auto use = [&](Value value) {
    op->getResult(0).replaceAllUsesWith(value);
    op->erase();
    return success();
  };
  if (auto id = dyn_cast<gpu::ThreadIdOp>(op))
    return use(index(0));
  if (auto id = dyn_cast<gpu::BlockIdOp>(op))
    return use(index(1));
  if (auto id = dyn_cast<gpu::BlockDimOp>(op))
    return use(index(2));
  if (auto id = dyn_cast<gpu::GridDimOp>(op))
    return use(index(3));
  if (isa<gpu::DynamicSharedMemoryOp>(op)) {
    auto pointer = LLVM::LLVMPointerType::get(b.getContext());
    Value at = LLVM::GEPOp::create(
        b, loc, pointer, b.getI8Type(), call("mpemu_shared", {}, pointer),
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(staticShared + 16)});
    // Nobody asks for its size.
    return use(toMemRef(at, MemRefType::get({1}, b.getI8Type())));
  }
  if (isa<gpu::BarrierOp>(op)) {
    call("mpemu_barrier", {}, Type());
    op->erase();
    return success();
  }
  if (isa<NVVM::SyncWarpOp>(op)) {
    call("mpemu_ballot", number(0), b.getI32Type());
    op->erase();
    return success();
  }
  if (auto vote = dyn_cast<NVVM::VoteSyncOp>(op)) {
    Value predicate =
        arith::ExtUIOp::create(b, loc, b.getI32Type(), vote.getPred());
    return use(call("mpemu_ballot", predicate, b.getI32Type()));
  }
  if (auto shuffle = dyn_cast<gpu::ShuffleOp>(op)) {
    Type type = shuffle.getValue().getType(), i32 = b.getI32Type();
    Value word = shuffle.getValue();
    if (type != i32)
      word = arith::BitcastOp::create(b, loc, i32, word);
    word = call("mpemu_shuffle",
                {number(static_cast<int64_t>(shuffle.getMode())), word,
                 shuffle.getOffset(), shuffle.getWidth()},
                i32);
    if (type != i32)
      word = arith::BitcastOp::create(b, loc, type, word);
    return use(word);
  }
  if (isa<gpu::GPUDialect, NVVM::NVVMDialect>(op->getDialect()) ||
      isa<LLVM::InlineAsmOp>(op))
    return op->emitOpError("has no emulation");
  return success();
}

LogicalResult Emulation::run(gpu::GPUFuncOp kernel) {
  auto pointer = LLVM::LLVMPointerType::get(module.getContext());
  b.setInsertionPointToEnd(module.getBody());
  auto function =
      func::FuncOp::create(b, kernel.getLoc(), kernel.getName(),
                           FunctionType::get(b.getContext(), {pointer}, {}));
  Block *body = function.addEntryBlock();
  b.setInsertionPointToStart(body);
  words =
      LLVM::AllocaOp::create(b, loc, pointer, b.getI32Type(), number(kWords));
  IRMapping mapping;
  unsigned operands = kernel.getNumArguments();
  for (unsigned i = 0; i < operands; ++i) {
    Value slot =
        LLVM::GEPOp::create(b, loc, pointer, pointer, body->getArgument(0),
                            ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    Value operand = LLVM::LoadOp::create(b, loc, pointer, slot);
    mapping.map(
        kernel.getArgument(i),
        toMemRef(operand, cast<MemRefType>(kernel.getArgument(i).getType())));
  }
  int64_t shared = 0;
  for (BlockArgument buffer : kernel.getWorkgroupAttributions()) {
    auto type = cast<MemRefType>(buffer.getType());
    Value base = call("mpemu_shared", {}, pointer);
    Value at = LLVM::GEPOp::create(
        b, loc, pointer, b.getI8Type(), base,
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(shared)});
    mapping.map(buffer, toMemRef(at, MemRefType::get(type.getShape(),
                                                     type.getElementType())));
    shared = static_cast<int64_t>(llvm::alignTo(
        shared + type.getNumElements() * type.getElementTypeBitWidth() / 8,
        16));
  }
  staticShared = shared;
  for (Operation &op : kernel.getBody().front().without_terminator())
    b.clone(op, mapping);
  func::ReturnOp::create(b, loc);
  SmallVector<Operation *> ops;
  function.walk([&](Operation *op) { ops.push_back(op); });
  for (Operation *op : ops)
    if (failed(replace(op)))
      return failure();
  constant(("mpemu_operands_" + kernel.getName()).str(), operands);
  constant(("mpemu_shared_" + kernel.getName()).str(), shared);
  return success();
}

namespace {

struct TestEmulateGPU
    : public PassWrapper<TestEmulateGPU, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestEmulateGPU)

  StringRef getArgument() const final { return "test-mpcomm-emulate-gpu"; }
  StringRef getDescription() const final {
    return "Leaves the kernels of a GPU, as functions of the host";
  }
  void getDependentDialects(DialectRegistry &registry) const final {
    registry
        .insert<LLVM::LLVMDialect, func::FuncDialect, arith::ArithDialect>();
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto device = module.lookupSymbol<gpu::GPUModuleOp>(mprt::kGPUModule);
    for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
      if (&op != device.getOperation())
        op.erase();
    if (!device)
      return;
    Emulation emulation(module);
    for (auto kernel : device.getOps<gpu::GPUFuncOp>())
      if (failed(emulation.run(kernel)))
        return signalPassFailure();
    device.erase();
  }
};

struct TestEmbedImage
    : public PassWrapper<TestEmbedImage, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestEmbedImage)
  TestEmbedImage() = default;
  TestEmbedImage(const TestEmbedImage &other) : PassWrapper(other) {}

  StringRef getArgument() const final { return "test-mpcomm-embed-image"; }
  StringRef getDescription() const final {
    return "Makes a file the image of a program for a GPU";
  }
  void getDependentDialects(DialectRegistry &registry) const final {
    registry.insert<LLVM::LLVMDialect>();
  }

  Option<std::string> file{*this, "file", llvm::cl::desc("The image")};
  Option<unsigned> chip{*this, "chip", llvm::cl::desc("Its chip"),
                        llvm::cl::init(90)};

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto image = llvm::MemoryBuffer::getFile(file);
    if (!image) {
      module.emitError() << file << ": " << image.getError().message();
      return signalPassFailure();
    }
    if (auto device = module.lookupSymbol<gpu::GPUModuleOp>(mprt::kGPUModule))
      device.erase();
    StringRef text = (*image)->getBuffer();
    OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
    Location loc = module.getLoc();
    Type i32 = b.getI32Type(), i64 = b.getI64Type();
    auto pointer = LLVM::LLVMPointerType::get(b.getContext());
    LLVM::GlobalOp::create(
        b, loc, LLVM::LLVMArrayType::get(b.getI8Type(), text.size()), true,
        LLVM::Linkage::Internal, "mpcomm.image", b.getStringAttr(text), 64);
    auto entry = LLVM::LLVMStructType::getLiteral(b.getContext(),
                                                  {i32, i32, pointer, i64});
    auto type = LLVM::LLVMArrayType::get(entry, 2);
    auto images =
        LLVM::GlobalOp::create(b, loc, type, true, LLVM::Linkage::External,
                               "mpcomm_images", Attribute());
    b.createBlock(&images.getInitializerRegion());
    Value list = LLVM::ZeroOp::create(b, loc, type);
    auto set = [&](Value value, int64_t field) {
      list = LLVM::InsertValueOp::create(b, loc, list, value,
                                         ArrayRef<int64_t>{0, field});
    };
    set(LLVM::ConstantOp::create(b, loc, i32, b.getI32IntegerAttr(chip)), 0);
    set(LLVM::AddressOfOp::create(b, loc, pointer, "mpcomm.image"), 2);
    set(LLVM::ConstantOp::create(
            b, loc, i64,
            b.getI64IntegerAttr(static_cast<int64_t>(text.size()))),
        3);
    LLVM::ReturnOp::create(b, loc, list);
  }
};

} // namespace

void mpcomm::test::registerTestEmulateGPUPasses() {
  PassRegistration<TestEmulateGPU>();
  PassRegistration<TestEmbedImage>();
}
