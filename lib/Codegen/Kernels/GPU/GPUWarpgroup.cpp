//===- GPUWarpgroup.cpp - products of warpgroups --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See GPUWarpgroup.h. The instructions are inline assembly, as NVVM's op takes
// no left operand in registers. Emulation reads its text
// (test/lib/WarpgroupAssembly.cpp).
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/GPUWarpgroup.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace mpcomm::kernels {

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

/// Fields of a matrix descriptor, in units of 16 bytes: the address in bits 0
/// to 13, the bytes from 64 elements to the next 64 of a row in bits 16 to 29
/// (for `across`), those from eight rows to the next eight in bits 32 to 45,
/// and 1 in bits 62 and 63 for the swizzle.
static constexpr uint64_t kDescriptor =
    uint64_t(1) << 62 | uint64_t(kSwizzleBytes / 16) << 32;
static constexpr int64_t kAddressMask = (int64_t(1) << 18) - 1;

WarpgroupTile::WarpgroupTile(TileCode &code, Value base, int64_t count)
    : code(code), count(count) {
  OpBuilder &b = code.b;
  Location loc = code.loc;
  auto constant = [&](uint64_t value) -> Value {
    return arith::ConstantOp::create(
        b, loc, b.getI64IntegerAttr(static_cast<int64_t>(value)));
  };
  Value address = LLVM::PtrToIntOp::create(b, loc, code.i64, base);
  address = arith::AndIOp::create(b, loc, address, constant(kAddressMask));
  address = arith::ShRUIOp::create(b, loc, address, constant(4));
  auto lead = static_cast<uint64_t>(count * kPanelBytes / 16);
  descriptor =
      arith::OrIOp::create(b, loc, address, constant(kDescriptor | lead << 16));
}

Value WarpgroupTile::at(int64_t bytes) const {
  if (bytes == 0)
    return descriptor;
  return arith::AddIOp::create(
      code.b, code.loc, descriptor,
      arith::ConstantOp::create(code.b, code.loc,
                                code.b.getI64IntegerAttr(bytes / 16)));
}

Value WarpgroupTile::rows(int64_t row, int64_t slice) const {
  int64_t panel = slice / (kPanel / 16), rest = slice % (kPanel / 16);
  return at((panel * count + row) * kPanelBytes + rest * 32);
}

Value WarpgroupTile::across(int64_t slice) const {
  return at(slice * 16 * kPanelBytes);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Numbers the operands of inline assembly.
static std::string list(int64_t first, int64_t count) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << '{';
  for (int64_t i = 0; i < count; ++i)
    stream << (i ? ", " : "") << '$' << first + i;
  stream << '}';
  return text;
}

/// Inline assembly that gives `results` f32, of which each has the register of
/// the operand of its number where `isTied`.
static void emit(TileCode &code, StringRef text, MutableArrayRef<Value> results,
                 bool isTied, ArrayRef<Value> operands, StringRef kinds) {
  OpBuilder &b = code.b;
  SmallVector<std::string> constraints(results.size(), "=f");
  SmallVector<Value> all;
  if (isTied)
    for (auto [i, value] : llvm::enumerate(results)) {
      constraints.push_back(std::to_string(i));
      all.push_back(value);
    }
  for (char kind : kinds)
    constraints.push_back(std::string(1, kind));
  llvm::append_range(all, operands);
  Type type = LLVM::LLVMStructType::getLiteral(
      b.getContext(), SmallVector<Type>(results.size(), code.f32));
  auto made = LLVM::InlineAsmOp::create(
      b, code.loc, type, all, text, llvm::join(constraints, ","),
      /*has_side_effects=*/true, /*is_align_stack=*/false,
      LLVM::tailcallkind::TailCallKind::None, LLVM::AsmDialectAttr(),
      ArrayAttr());
  for (auto [i, value] : llvm::enumerate(results))
    value = LLVM::ExtractValueOp::create(b, code.loc, made.getRes(),
                                         static_cast<int64_t>(i));
}

void multiply(TileCode &code, MutableArrayRef<Quad> sums,
              const WarpgroupProduct &product, bool accumulates) {
  auto columns = static_cast<int64_t>(sums.size()) * 8,
       slices = static_cast<int64_t>(product.right.size());
  bool inRegisters = product.tile.empty();
  auto results = static_cast<int64_t>(sums.size()) * 4;
  SmallVector<Value> operands = valuesOf(product.left);
  std::string kinds(operands.size(), 'r');
  for (ArrayRef<Value> tiles : {product.tile, product.right}) {
    llvm::append_range(operands, tiles);
    kinds.append(tiles.size(), 'l');
  }
  int64_t first = accumulates ? 2 * results : results;
  int64_t right = first + (inRegisters ? 4 : 1) * slices;
  std::string text;
  llvm::raw_string_ostream stream(text);
  StringRef type = code.element.isBF16() ? "bf16" : "f16";
  stream << "{ .reg .pred adds, yes;\n setp.ne.b32 adds, "
         << (accumulates ? 1 : 0)
         << ", 0;\n setp.ne.b32 yes, 1, 0;\n wgmma.fence.sync.aligned;\n";
  for (int64_t k = 0; k < slices; ++k) {
    stream << " wgmma.mma_async.sync.aligned.m64n" << columns << "k16.f32."
           << type << '.' << type << ' ' << list(0, results) << ", ";
    if (inRegisters)
      stream << list(first + 4 * k, 4);
    else
      stream << '$' << first + k;
    stream << ", $" << right + k << ", " << (k ? "yes" : "adds") << ", 1, 1, "
           << (inRegisters ? "" : "0, ") << (product.isAcross ? 1 : 0) << ";\n";
  }
  stream << " wgmma.commit_group.sync.aligned;\n }";
  SmallVector<Value> values = valuesOf(sums);
  emit(code, text, values, accumulates, operands, kinds);
  llvm::copy(quadsOf(values), sums.begin());
}

void waitForProducts(TileCode &code, int64_t others,
                     ArrayRef<MutableArrayRef<Quad>> sums) {
  SmallVector<Value> values;
  for (MutableArrayRef<Quad> some : sums)
    llvm::append_range(values, valuesOf(some));
  emit(code,
       ("wgmma.wait_group.sync.aligned " + llvm::Twine(others) + ";").str(),
       values, /*isTied=*/true, {}, "");
  ArrayRef<Value> rest = values;
  for (MutableArrayRef<Quad> some : sums) {
    llvm::copy(quadsOf(rest.take_front(4 * some.size())), some.begin());
    rest = rest.drop_front(4 * some.size());
  }
}

void fenceTiles(TileCode &code) {
  NVVM::FenceProxyOp::create(
      code.b, code.loc, NVVM::ProxyKind::async_shared,
      NVVM::SharedSpaceAttr::get(code.b.getContext(),
                                 NVVM::SharedSpace::shared_cta));
}

} // namespace mpcomm::kernels
