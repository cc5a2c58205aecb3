//===- StepModelKernels.cpp - what is fused, and what it takes ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Groups ops as mpcomm-form-kernels will group what becomes of them, by
// interfaces and types alone (docs/Design/CostModel.md, "Fusion").
//
// Every kernel runs at its slot, the position of one of its members. Invariant:
// what its members need from outside is there before the slot, and what is
// outside and needs its results comes after. A kernel moves to its last member
// until something outside has used it (it is closed); after that only an op
// that needs nothing later than the slot can join, at the slot.
//
//===----------------------------------------------------------------------===//

#include "StepModel/StepModelBuilder.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mpcomm;
using mpcomm::detail::countBytes;

/// As mpcomm-form-kernels: members of a kernel, and tensors of one op.
static constexpr int kMaxMembers = 128;
static constexpr unsigned kMaxOperands = 32;

int64_t mpcomm::countPasses(Operation *op) {
  auto cost = dyn_cast<CostOpInterface>(op);
  return cost ? std::max<int64_t>(cost.getPasses(), 1) : 1;
}

bool mpcomm::isKernelOp(Operation *op) {
  auto cost = dyn_cast<CostOpInterface>(op);
  if (!cost || op->getNumResults() == 0 ||
      op->getNumOperands() + op->getNumResults() > kMaxOperands ||
      cost.getPasses() > 1 || !isMemoryEffectFree(op))
    return false;
  if (isa<ConcatenateOp>(op))
    return false; // its parts are made in their places, or copied
  if (auto precision = dyn_cast<PrecisionOpInterface>(op);
      precision &&
      precision.getPrecisionClass() == PrecisionClass::LowerPrecision)
    return false; // a contraction
  if (!llvm::all_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>))
    return false;
  return cost.getFlops() > 0 || cost.getBytesRead() > 0 ||
         cost.getBytesWritten() > 0;
}

RankedTensorType mpcomm::getSpace(Operation *op) {
  RankedTensorType space;
  auto consider = [&](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (tensor && (!space || tensor.getNumElements() > space.getNumElements()))
      space = tensor;
  };
  for (Type type : op->getResultTypes())
    consider(type);
  if (cast<CostOpInterface>(op).getBytesRead() >=
      countBytes(op->getOperandTypes()))
    for (Type type : op->getOperandTypes())
      consider(type);
  return space;
}

/// Whether `row` has one value for each row of `space`, its last dimension
/// being gone or 1.
static bool isRowOf(RankedTensorType row, RankedTensorType space) {
  ArrayRef<int64_t> shape = row.getShape(), full = space.getShape();
  if (full.empty())
    return false;
  if (shape.size() == full.size() && shape.back() == 1)
    shape = shape.drop_back();
  return shape == full.drop_back();
}

static bool fits(RankedTensorType a, RankedTensorType b) {
  return a.getNumElements() == b.getNumElements() || isRowOf(a, b) ||
         isRowOf(b, a);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

int StepBuilder::findKernel(int kernel) {
  while (kernels[kernel].parent != kernel) {
    kernels[kernel].parent = kernels[kernels[kernel].parent].parent;
    kernel = kernels[kernel].parent;
  }
  return kernel;
}

int StepBuilder::getKernelOf(int value) {
  int maker = def[root[value]];
  return maker >= 0 && isStreamed[maker] ? findKernel(step.kernels[maker]) : -1;
}

int StepBuilder::getSlot(int op) {
  return op < numOps && isStreamed[op]
             ? kernels[findKernel(step.kernels[op])].slot
             : op;
}

/// Whether the op that makes `value` can give it to another one of its kernel:
/// element by element, or one value a row. Sums over rows are complete only
/// when the kernel has ended.
bool StepBuilder::canStayInside(int value) {
  auto type = cast<RankedTensorType>(values[value].getType());
  RankedTensorType space = getSpace(ops[def[value]]);
  return type.getNumElements() == space.getNumElements() ||
         isRowOf(type, space);
}

/// Whether an op has a value as its operand, neither a view of it nor something
/// that it computes of it.
bool StepBuilder::isOperand(int op, int value) const {
  return root[value] == value &&
         llvm::is_contained(ops[op]->getOperands(), values[value]);
}

void StepBuilder::joinKernels(int op) {
  int own = static_cast<int>(kernels.size());
  step.kernels[op] = own;
  Kernel made;
  made.space = getSpace(ops[op]);
  made.slot = op;
  made.parent = own;
  kernels.push_back(made);

  ArrayRef<int> used = getUses(op);
  auto usesViewOf = [&](int kernel) {
    return llvm::any_of(used, [&](int value) {
      return !isOperand(op, value) && getKernelOf(value) == kernel;
    });
  };
  // When a value is there, as far as `kernel` does not make it.
  auto isThereBefore = [&](int value, int kernel) {
    int maker = def[root[value]];
    if (maker < 0 || (root[value] == value && getKernelOf(value) == kernel))
      return true;
    return getSlot(maker) < kernels[kernel].slot;
  };
  auto canJoin = [&](int value, int kernel) {
    const Kernel &other = kernels[kernel];
    return kernel != own && fits(other.space, kernels[own].space) &&
           other.members + kernels[own].members <= kMaxMembers &&
           canStayInside(value) && !usesViewOf(kernel);
  };
  auto join = [&](int kernel) {
    Kernel &into = kernels[kernel], &from = kernels[own];
    if (from.space.getNumElements() > into.space.getNumElements())
      into.space = from.space;
    into.members += from.members;
    from.parent = kernel;
    own = kernel;
  };
  for (int value : used) {
    int kernel = isOperand(op, value) ? getKernelOf(value) : -1;
    if (kernel < 0 || kernels[kernel].isClosed || !canJoin(value, kernel))
      continue;
    join(kernel);
    kernels[own].slot = op;
  }
  if (kernels[own].members == 1)
    for (int value : used) {
      int kernel = isOperand(op, value) ? getKernelOf(value) : -1;
      if (kernel < 0 || !canJoin(value, kernel) ||
          !llvm::all_of(used, [&](int v) { return isThereBefore(v, kernel); }))
        continue;
      join(kernel);
      break;
    }
}

/// The first pass of several runs in a kernel that makes an operand.
void StepBuilder::fuseFirstPass(int op) {
  for (Value operand : ops[op]->getOperands()) {
    int value = getNumber(operand);
    int kernel =
        value >= 0 && !sources.contains(value) ? getKernelOf(value) : -1;
    if (kernel < 0 || root[value] != value || kernels[kernel].isClosed ||
        !canStayInside(value) ||
        !fits(kernels[kernel].space, getSpace(ops[op])))
      continue;
    fusedBytes[op] = static_cast<double>(countBytes(operand.getType()));
    return;
  }
}

void StepBuilder::formKernels() {
  isStreamed.assign(ops.size(), false);
  step.kernels.assign(ops.size(), -1);
  isWritten.assign(values.size(), false);
  for (int op = 0; op < static_cast<int>(ops.size()); ++op) {
    if (op < numOps && !isView[op] && !isInlined[op] && isKernelOp(ops[op])) {
      isStreamed[op] = true;
      joinKernels(op);
    } else if (op < numOps && countPasses(ops[op]) > 1) {
      fuseFirstPass(op);
    }
    // Whatever else made its operands has to have run. A view is made where it
    // is used.
    if (isView[op])
      continue;
    for (int value : getUses(op))
      if (int kernel = getKernelOf(value);
          kernel >= 0 &&
          (!isStreamed[op] || kernel != findKernel(step.kernels[op])))
        kernels[kernel].isClosed = true;
  }
  // What leaves a kernel: what something else uses, be it a view.
  for (int op = 0; op < static_cast<int>(ops.size()); ++op)
    for (int value : getUses(op))
      if (int kernel = getKernelOf(value);
          kernel >= 0 &&
          (!isStreamed[op] || kernel != findKernel(step.kernels[op])))
        isWritten[root[value]] = true;
  for (int &kernel : step.kernels)
    if (kernel >= 0)
      kernel = findKernel(kernel);
}

//===----------------------------------------------------------------------===//
// Seconds
//===----------------------------------------------------------------------===//

void StepBuilder::costOps() {
  step.seconds.assign(ops.size(), 0);
  for (int op = 0; op < numOps; ++op) {
    Operation *current = ops[op];
    if (isView[op] || isInlined[op] || getCollective(current) ||
        isa<AwaitOp>(current))
      continue;
    if (const Callee *part = getCallee(op))
      step.seconds[op] = part->seconds;
    else if (isStreamed[op])
      step.seconds[op] = costKernelOp(op);
    else if (isa<ConcatenateOp>(current))
      step.seconds[op] = costCopies(op);
    else if (countPasses(current) > 1)
      step.seconds[op] = costPasses(op);
    else
      step.seconds[op] = model.getSeconds(current);
  }
}

/// Of what it reads, the part that no other member has made or read; of what it
/// writes, the part that something else needs.
double StepBuilder::costKernelOp(int op) {
  Operation *current = ops[op];
  Kernel &kernel = kernels[step.kernels[op]];
  double operands = 0, outside = 0, results = 0, written = 0;
  SmallVector<int> read;
  for (Value operand : current->getOperands()) {
    auto size = static_cast<double>(countBytes(operand.getType()));
    operands += size;
    // A constant of one value is in the code.
    if (size == 0 ||
        matchPattern(operand, m_Constant<SplatElementsAttr>(nullptr)))
      continue;
    read.clear();
    addSources(getNumber(operand), read);
    for (int value : read) {
      bool isOwn = isOperand(op, value) && def[value] >= 0 &&
                   isStreamed[def[value]] &&
                   step.kernels[def[value]] == step.kernels[op];
      if (!isOwn && isRead.insert({step.kernels[op], value}).second)
        outside += static_cast<double>(countBytes(values[value].getType()));
    }
  }
  for (Value result : current->getResults()) {
    auto size = static_cast<double>(countBytes(result.getType()));
    results += size;
    if (isWritten[getNumber(result)])
      written += size;
  }
  auto cost = cast<CostOpInterface>(current);
  double bytes = 0;
  if (operands > 0)
    bytes += static_cast<double>(cost.getBytesRead()) * (outside / operands);
  if (results > 0)
    bytes += static_cast<double>(cost.getBytesWritten()) * (written / results);
  double seconds = model.getSeconds(
      current, static_cast<int64_t>(std::min(bytes, 9e18)), !kernel.isLaunched);
  kernel.isLaunched |= seconds > 0;
  return seconds;
}

/// All passes but those that readers of its results make, each a launch.
double StepBuilder::costPasses(int op) {
  double read = 0, written = 0;
  for (int value : getUses(op))
    read += static_cast<double>(countBytes(values[value].getType()));
  auto passes = static_cast<double>(countPasses(ops[op]));
  bool isFinished = true;
  for (Value result : ops[op]->getResults()) {
    if (sources.contains(getNumber(result)))
      isFinished = false;
    else
      written += static_cast<double>(countBytes(result.getType()));
  }
  passes -= !isFinished;
  double fused = fusedBytes.lookup(op);
  double bytes = std::min(read * passes - fused + written, 9e18);
  return model.getSeconds(ops[op], static_cast<int64_t>(bytes),
                          /*isLaunched=*/false) +
         (passes - (fused > 0)) * model.getCluster().device.launch;
}

/// The parts of a concatenation that are not made in their places.
double StepBuilder::costCopies(int op) {
  double seconds = 0;
  for (int64_t bytes : copied.lookup(op))
    seconds += model.getSeconds(ops[op],
                                bytes > (int64_t(1) << 61) ? bytes : 2 * bytes,
                                /*isLaunched=*/true);
  return seconds;
}

void StepBuilder::applyProfile() {
  const std::vector<ProfileEntry> &entries = model.getProfile()->entries;
  llvm::StringMap<SmallVector<unsigned, 1>> byPlace, byName;
  for (auto [i, entry] : llvm::enumerate(entries)) {
    for (const std::string &place : entry.locations)
      byPlace[place].push_back(i);
    if (entry.locations.empty())
      byName[entry.op].push_back(i);
  }
  // The entries of each op, and what they share out.
  struct Share {
    int op;
    unsigned entry;
  };
  std::vector<Share> shares;
  std::vector<double> weights(entries.size(), 0);
  std::vector<unsigned> counts(entries.size(), 0);
  std::vector<double> measured(ops.size(), -1);
  auto getWeight = [&](int op) {
    return collectiveOf[op] >= 0
               ? step.collectives[collectiveOf[op]].getSeconds()
               : step.seconds[op];
  };
  for (int op = 0; op < numOps; ++op) {
    if (isView[op] || isa<AwaitOp>(ops[op]))
      continue;
    Operation *named = ops[op];
    if (collectiveOf[op] >= 0)
      named = step.collectives[collectiveOf[op]].op;
    StringRef name = named->getName().getStringRef();
    std::string shapes;
    auto fitsShapes = [&](const ProfileEntry &entry) {
      if (!entry.shapes.empty() && shapes.empty())
        shapes = getShapes(named);
      return entry.shapes.empty() || entry.shapes == shapes;
    };
    SmallVector<unsigned> found, unnamed;
    forEachPlace(named->getLoc(), [&](StringRef place) {
      auto at = byPlace.find(place);
      if (at == byPlace.end())
        return;
      for (unsigned i : at->second)
        if (entries[i].op.empty() && fitsShapes(entries[i]))
          unnamed.push_back(i);
        else if (entries[i].op == name && fitsShapes(entries[i]))
          found.push_back(i);
    });
    if (found.empty() && collectiveOf[op] < 0)
      found = std::move(unnamed);
    llvm::sort(found);
    found.erase(llvm::unique(found), found.end());
    for (unsigned i : found) {
      shares.push_back({op, i});
      weights[i] += getWeight(op);
      ++counts[i];
    }
    if (!found.empty())
      continue;
    if (auto at = byName.find(name); at != byName.end())
      for (unsigned i : at->second)
        if (fitsShapes(entries[i]))
          measured[op] = entries[i].seconds;
  }
  for (const Share &share : shares) {
    double part = weights[share.entry] > 0
                      ? getWeight(share.op) / weights[share.entry]
                      : 1.0 / counts[share.entry];
    measured[share.op] =
        std::max(measured[share.op], 0.0) + part * entries[share.entry].seconds;
  }
  ProfileCoverage &coverage = step.coverage.emplace();
  for (auto [i, entry] : llvm::enumerate(entries)) {
    if (entry.locations.empty())
      continue;
    coverage.recorded += entry.seconds;
    if (counts[i] > 0)
      coverage.matched += entry.seconds;
  }
  for (int op = 0; op < numOps; ++op) {
    if (!isView[op] && !isa<AwaitOp>(ops[op]))
      coverage.modeled += getWeight(op);
    if (measured[op] < 0)
      continue;
    coverage.replaced += getWeight(op);
    if (collectiveOf[op] < 0) {
      step.seconds[op] = measured[op];
      continue;
    }
    StepCollective &collective = step.collectives[collectiveOf[op]];
    collective.algorithm = CollectiveAlgorithm::Measured;
    collective.latency = std::min(collective.latency, measured[op]);
    collective.transfer = measured[op] - collective.latency;
  }
}
