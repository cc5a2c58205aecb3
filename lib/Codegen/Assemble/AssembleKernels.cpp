//===- AssembleKernels.cpp - kernels of a GPU to images -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pass: PTX and machine code of the device module, as globals.
//
//===----------------------------------------------------------------------===//

#include "Assemble/GPUCode.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mpcomm/Codegen/Chips.h"
#include "mpcomm/Codegen/Passes.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#define DEBUG_TYPE "mpcomm-assemble-kernels"

using namespace mlir;

namespace mpcomm {
#define GEN_PASS_DEF_ASSEMBLEKERNELSPASS
#include "mpcomm/Codegen/Passes.h.inc"

namespace {

struct Image {
  unsigned chip;
  bool isText;
  std::string data;
};

struct AssembleKernelsPass
    : impl::AssembleKernelsPassBase<AssembleKernelsPass> {
  using AssembleKernelsPassBase::AssembleKernelsPassBase;
  LogicalResult initialize(MLIRContext *context) override;
  void runOnOperation() override;

private:
  /// The images of one chip: machine code, or PTX where there is no assembler
  /// or `isLast`.
  LogicalResult makeImages(gpu::GPUModuleOp device, StringRef chip,
                           std::optional<StringRef> assembler, bool isLast,
                           SmallVectorImpl<Image> &images);
  void report(gpu::GPUModuleOp device, StringRef chip, const KernelUse &use);
  void embed(ArrayRef<Image> images);

  SmallVector<std::string> names;
};
} // namespace

LogicalResult AssembleKernelsPass::initialize(MLIRContext *context) {
  names.assign(chips.begin(), chips.end());
  if (names.empty())
    names = {"sm_80", "sm_90", "sm_100"};
  for (StringRef name : names)
    if (!parseChip(name))
      return emitError(UnknownLoc::get(context))
             << "cannot assemble for chip '" << name
             << "', expected sm_80, sm_90, sm_90a, sm_100 or another from "
                "sm_75 on";
  llvm::sort(names, [](StringRef a, StringRef b) {
    return std::pair(*parseChip(a), a) < std::pair(*parseChip(b), b);
  });
  names.erase(llvm::unique(names), names.end());
  return success();
}

void AssembleKernelsPass::report(gpu::GPUModuleOp device, StringRef chip,
                                 const KernelUse &use) {
  Operation *kernel = SymbolTable::lookupSymbolIn(device, use.name);
  remark::analysis(kernel ? kernel->getLoc() : device.getLoc(),
                   remark::RemarkOpts::name("KernelResources")
                       .category(DEBUG_TYPE)
                       .function(use.name))
      << remark::metric("kernel", use.name) << remark::metric("chip", chip)
      << remark::metric("registers", use.registers)
      << remark::metric("spill_bytes", use.spillStores + use.spillLoads)
      << remark::metric("stack_bytes", use.stack)
      << remark::metric("shared_bytes", use.sharedBytes);
}

LogicalResult
AssembleKernelsPass::makeImages(gpu::GPUModuleOp device, StringRef chip,
                                std::optional<StringRef> assembler, bool isLast,
                                SmallVectorImpl<Image> &images) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module =
      translateModuleToLLVMIR(device, context, device.getName());
  if (!module)
    return device.emitError("cannot be translated: expected kernels in the "
                            "LLVM dialect");
  llvm::Expected<std::string> ptx = translateToPTX(*module, chip);
  if (!ptx)
    return device.emitError() << llvm::toString(ptx.takeError());
  if (!ptxDirectory.empty()) {
    SmallString<128> path(ptxDirectory);
    llvm::sys::path::append(path, chip + ".ptx");
    std::error_code code;
    llvm::raw_fd_ostream stream(path, code);
    stream << *ptx;
    stream.flush();
    if (!code)
      code = stream.error();
    stream.clear_error();
    if (code)
      return device.emitError()
             << "cannot write '" << path << "': " << code.message();
  }
  if (assembler) {
    llvm::Expected<Assembly> assembly = assemble(*assembler, *ptx, chip);
    if (!assembly)
      return device.emitError() << llvm::toString(assembly.takeError());
    for (const KernelUse &use : assembly->kernels)
      report(device, chip, use);
    images.push_back({*parseChip(chip), false, std::move(assembly->cubin)});
  }
  if (!assembler || isLast)
    images.push_back({*parseChip(chip), true, *ptx + '\0'});
  return success();
}

void AssembleKernelsPass::embed(ArrayRef<Image> images) {
  ModuleOp module = getOperation();
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  Location loc = module.getLoc();
  Type i8 = b.getI8Type(), i32 = b.getI32Type(), i64 = b.getI64Type();
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  SmallVector<LLVM::GlobalOp> data;
  for (auto [i, image] : llvm::enumerate(images))
    data.push_back(LLVM::GlobalOp::create(
        b, loc, LLVM::LLVMArrayType::get(i8, image.data.size()),
        /*isConstant=*/true, LLVM::Linkage::Internal,
        "mpcomm.image." + std::to_string(i), b.getStringAttr(image.data),
        /*alignment=*/64));
  // One more ends the list.
  auto entry = LLVM::LLVMStructType::getLiteral(b.getContext(),
                                                {i32, i32, pointer, i64});
  auto type = LLVM::LLVMArrayType::get(entry, images.size() + 1);
  auto global = LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true,
                                       LLVM::Linkage::External, "mpcomm_images",
                                       Attribute());
  b.createBlock(&global.getInitializerRegion());
  Value list = LLVM::ZeroOp::create(b, loc, type);
  auto set = [&](Value value, size_t image, int64_t field) {
    list = LLVM::InsertValueOp::create(
        b, loc, list, value,
        ArrayRef<int64_t>{static_cast<int64_t>(image), field});
  };
  auto constant = [&](Type of, int64_t value) -> Value {
    return LLVM::ConstantOp::create(b, loc, of, b.getIntegerAttr(of, value));
  };
  for (auto [i, image] : llvm::enumerate(images)) {
    set(constant(i32, image.chip), i, 0);
    set(constant(i32, image.isText), i, 1);
    set(LLVM::AddressOfOp::create(b, loc, pointer, data[i].getSymName()), i, 2);
    set(constant(i64, static_cast<int64_t>(image.data.size())), i, 3);
  }
  LLVM::ReturnOp::create(b, loc, list);
}

void AssembleKernelsPass::runOnOperation() {
  auto device = getOperation().lookupSymbol<gpu::GPUModuleOp>(mprt::kGPUModule);
  if (!device)
    return;
  std::optional<std::string> assembler;
  if (ptxas != "none")
    assembler = findAssembler(ptxas);
  SmallVector<Image> images;
  // PTX for later chips is of the last one whose code they can run.
  auto last = llvm::find_if_not(llvm::reverse(names), isForOneChip);
  for (StringRef chip : names)
    if (failed(makeImages(device, chip, assembler,
                          last != names.rend() && chip == *last, images)))
      return signalPassFailure();
  if (ptxas != "none" && !assembler)
    emitWarning(device.getLoc())
        << "found no ptxas in $CUDA_HOME/bin, PATH or /usr/local/cuda/bin: the "
           "program has PTX alone, which drivers compile when it starts";
  device.erase();
  embed(images);
}

} // namespace mpcomm
