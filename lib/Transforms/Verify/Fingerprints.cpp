//===- Fingerprints.cpp - what a program computes, as numbers -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Expressions in a normal form: a reduction stands inside of slices, of rows of
// several tensors, and of blocks. Only what may be taken apart again has a term
// beside its hash.
//
//===----------------------------------------------------------------------===//

#include "Verify/Fingerprints.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/xxhash.h"
#include <map>

using namespace mlir;
using namespace mpcomm;

/// Scrambles all bits (the finalizer of SplitMix64).
static uint64_t mix(uint64_t seed, uint64_t value) {
  uint64_t z = seed * 0x9e3779b97f4a7c15 + value + 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

static uint64_t hashText(StringRef text) { return llvm::xxh3_64bits(text); }

uint64_t Fingerprints::hash(Attribute attr) {
  if (!attr)
    return 0;
  if (auto known = attributes.find(attr); known != attributes.end())
    return known->second;
  uint64_t result = 0;
  if (auto dictionary = dyn_cast<DictionaryAttr>(attr)) {
    for (NamedAttribute entry : dictionary)
      result = mix(mix(result, hashText(entry.getName().getValue())),
                   hash(entry.getValue()));
  } else if (auto array = dyn_cast<ArrayAttr>(attr)) {
    for (Attribute entry : array)
      result = mix(result, hash(entry));
  } else if (auto dense = dyn_cast<DenseIntOrFPElementsAttr>(attr)) {
    ArrayRef<char> data = dense.getRawData();
    result = mix(hash(Type(dense.getType())),
                 hashText(StringRef(data.data(), data.size())));
  } else {
    std::string text;
    llvm::raw_string_ostream stream(text);
    attr.print(stream);
    result = hashText(text);
  }
  return attributes[attr] = result;
}

uint64_t Fingerprints::hash(Type type) {
  if (auto known = types.find(type); known != types.end())
    return known->second;
  std::string text;
  llvm::raw_string_ostream stream(text);
  type.print(stream);
  return types[type] = hashText(text);
}

namespace {

/// Axes of a mesh and how many of their ranks; parts of an axis are one.
using Group = SmallVector<std::pair<StringRef, int64_t>, 2>;

/// How a value is put together, where that may be undone.
struct Term {
  enum Kind : uint8_t {
    Slice,  ///< elements begin .. end - 1 of the `size` of `base`
    Row,    ///< one after the other, each with its number of elements
    Reduce, ///< over `group`
    Divide, ///< by the ranks of `group`
    Block   ///< of each rank of `group`, along `dim`
  };
  explicit Term(Kind kind, uint64_t base = 0) : kind(kind), base(base) {}
  Kind kind;
  uint64_t base;
  int64_t begin = 0, end = 0, size = 0;
  SmallVector<std::pair<uint64_t, int64_t>> row;
  Group group;
  Reduction reduction = Reduction::Sum;
  int64_t dim = 0;
};

} // namespace

namespace mpcomm {

/// Of one function.
class FunctionFingerprints {
public:
  FunctionFingerprints(Fingerprints &all, FunctionOpInterface function,
                       ArrayRef<const AxisShardings *> shardings)
      : all(all), function(function), shardings(shardings) {}

  SmallVector<int64_t> run();

private:
  void visit(Operation *op);
  void visitCollective(CollectiveOpInterface op);
  uint64_t hashOp(Operation *op);
  uint64_t hashRegions(Operation *op, uint64_t seed);
  SmallVector<int64_t> &getCallee(FunctionOpInterface callee);
  Group getGroup(Operation *op, FlatSymbolRefAttr mesh, ArrayAttr axes) const;
  bool isReplicated(Value value, ArrayAttr axes) const;

  const Term *find(uint64_t value) const {
    auto found = terms.find(value);
    return found == terms.end() ? nullptr : &found->second;
  }
  uint64_t add(Term term);
  uint64_t slice(uint64_t value, int64_t begin, int64_t end, int64_t size);
  uint64_t join(ArrayRef<std::pair<uint64_t, int64_t>> parts);
  uint64_t block(uint64_t value, int64_t dim, const Group &group);
  uint64_t gather(uint64_t value, int64_t dim, const Group &group);
  uint64_t reduce(uint64_t value, Reduction reduction, const Group &group);
  uint64_t divide(uint64_t value, const Group &group);
  /// `value` with `inside` where the elements are.
  uint64_t applyInside(uint64_t value,
                       llvm::function_ref<uint64_t(uint64_t)> inside);

  uint64_t get(Value value) const { return values.lookup(value); }
  void set(Value value, uint64_t number) { values[value] = number; }

  Fingerprints &all;
  FunctionOpInterface function;
  ArrayRef<const AxisShardings *> shardings;
  llvm::DenseMap<Value, uint64_t> values;
  std::map<uint64_t, Term> terms;
  /// Of each message before it between the same two ranks.
  std::map<uint64_t, uint64_t> sent, received;
};

} // namespace mpcomm

//===----------------------------------------------------------------------===//
// Terms
//===----------------------------------------------------------------------===//

static uint64_t hashGroup(const Group &group) {
  uint64_t result = 0;
  for (auto [axis, ranks] : group)
    result = mix(mix(result, hashText(axis)), ranks);
  return result;
}

/// With the ranks of axes that are in both multiplied.
static Group merge(Group group, const Group &other) {
  for (auto [axis, ranks] : other) {
    auto *known = llvm::find_if(
        group, [axis = axis](auto &entry) { return entry.first == axis; });
    if (known == group.end())
      group.push_back({axis, ranks});
    else
      known->second *= ranks;
  }
  llvm::sort(group);
  return group;
}

uint64_t FunctionFingerprints::add(Term term) {
  uint64_t result = mix(term.kind + 1, term.base);
  for (auto [part, size] : term.row)
    result = mix(mix(result, part), size);
  for (int64_t number : {term.begin, term.end, term.size, term.dim,
                         static_cast<int64_t>(term.reduction)})
    result = mix(result, number);
  result = mix(result, hashGroup(term.group));
  terms.try_emplace(result, std::move(term));
  return result;
}

uint64_t FunctionFingerprints::slice(uint64_t value, int64_t begin, int64_t end,
                                     int64_t size) {
  if (begin == 0 && end == size)
    return value;
  const Term *term = find(value);
  if (term && term->kind == Term::Slice)
    return slice(term->base, term->begin + begin, term->begin + end,
                 term->size);
  if (term && term->kind == Term::Row) {
    SmallVector<std::pair<uint64_t, int64_t>> parts;
    int64_t at = 0;
    for (auto [part, length] : term->row) {
      int64_t from = std::max(begin - at, int64_t(0));
      int64_t to = std::min(end - at, length);
      if (from < to)
        parts.push_back({slice(part, from, to, length), to - from});
      at += length;
    }
    return join(parts);
  }
  Term made(Term::Slice, value);
  made.begin = begin;
  made.end = end;
  made.size = size;
  return add(made);
}

/// Slices of one value that follow each other are one.
uint64_t
FunctionFingerprints::join(ArrayRef<std::pair<uint64_t, int64_t>> parts) {
  Term made(Term::Row);
  for (auto [part, length] : parts) {
    const Term *term = find(part);
    if (term && term->kind == Term::Row) {
      llvm::append_range(made.row, term->row);
      continue;
    }
    const Term *last = made.row.empty() ? nullptr : find(made.row.back().first);
    if (term && last && term->kind == Term::Slice &&
        last->kind == Term::Slice && term->base == last->base &&
        last->end == term->begin) {
      uint64_t both = slice(term->base, last->begin, term->end, term->size);
      made.row.back() = {both, made.row.back().second + length};
      continue;
    }
    made.row.push_back({part, length});
  }
  if (made.row.size() == 1)
    return made.row.front().first;
  return add(std::move(made));
}

uint64_t FunctionFingerprints::block(uint64_t value, int64_t dim,
                                     const Group &group) {
  Term made(Term::Block, value);
  made.dim = dim;
  made.group = group;
  return add(std::move(made));
}

uint64_t FunctionFingerprints::gather(uint64_t value, int64_t dim,
                                      const Group &group) {
  const Term *term = find(value);
  if (term && term->kind == Term::Block && term->dim == dim &&
      term->group == group)
    return term->base;
  return mix(mix(mix(hashText("gather"), value), dim), hashGroup(group));
}

uint64_t FunctionFingerprints::applyInside(
    uint64_t value, llvm::function_ref<uint64_t(uint64_t)> inside) {
  const Term *term = find(value);
  if (!term)
    return inside(value);
  switch (term->kind) {
  case Term::Slice: {
    auto [begin, end, size] = std::tuple(term->begin, term->end, term->size);
    return slice(applyInside(term->base, inside), begin, end, size);
  }
  case Term::Row: {
    SmallVector<std::pair<uint64_t, int64_t>> parts(term->row);
    for (auto &part : parts)
      part.first = applyInside(part.first, inside);
    return join(parts);
  }
  case Term::Block: {
    Group group = term->group;
    int64_t dim = term->dim;
    return block(applyInside(term->base, inside), dim, group);
  }
  case Term::Reduce:
  case Term::Divide:
    break;
  }
  return inside(value);
}

uint64_t FunctionFingerprints::reduce(uint64_t value, Reduction reduction,
                                      const Group &group) {
  return applyInside(value, [&](uint64_t elements) {
    Term made(Term::Reduce, elements);
    made.group = group;
    made.reduction = reduction;
    const Term *term = find(elements);
    if (term && term->kind == Term::Reduce && term->reduction == reduction) {
      made.group = merge(term->group, group);
      made.base = term->base;
    }
    const Term *divided = find(made.base);
    if (reduction == Reduction::Sum && divided &&
        divided->kind == Term::Divide && divided->group == made.group) {
      made.reduction = Reduction::Mean;
      made.base = divided->base;
    }
    return add(std::move(made));
  });
}

uint64_t FunctionFingerprints::divide(uint64_t value, const Group &group) {
  return applyInside(value, [&](uint64_t elements) {
    Term made(Term::Divide, elements);
    made.group = group;
    if (const Term *term = find(elements); term && term->kind == Term::Divide) {
      made.group = merge(term->group, group);
      made.base = term->base;
    }
    return add(std::move(made));
  });
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

Group FunctionFingerprints::getGroup(Operation *op, FlatSymbolRefAttr mesh,
                                     ArrayAttr axes) const {
  Group group;
  for (auto axis : axes.getAsRange<StringAttr>()) {
    FailureOr<int64_t> ranks = mpcomm::detail::lookupGroupSize(
        op, mesh, ArrayAttr::get(op->getContext(), {axis}));
    group = merge(std::move(group), {{axis.getValue().split('.').first,
                                      succeeded(ranks) ? *ranks : 0}});
  }
  return group;
}

bool FunctionFingerprints::isReplicated(Value value, ArrayAttr axes) const {
  return llvm::all_of(axes, [&](Attribute axis) {
    const auto *along = llvm::find_if(
        shardings, [&](auto *one) { return one->getAxis() == axis; });
    return along != shardings.end() && !(*along)->varies(value);
  });
}

void FunctionFingerprints::visitCollective(CollectiveOpInterface op) {
  Group group = getGroup(op, op.getMeshAttr(), op.getAxesAttr());
  CollectiveKind kind = op.getCollectiveKind();
  auto pairs = llvm::zip(op->getOperands(), op->getResults());
  switch (kind) {
  case CollectiveKind::AllReduce:
    for (auto [operand, result] : pairs) {
      Reduction reduction = *op.getCollectiveReduction();
      // What is the same already stays so, if it is not rounded on the way.
      bool isSame = reduction != Reduction::Sum &&
                    reduction != Reduction::Prod && !op.getWireType() &&
                    isReplicated(operand, op.getAxesAttr());
      set(result,
          isSame ? get(operand) : reduce(get(operand), reduction, group));
    }
    return;
  case CollectiveKind::ReduceScatter:
    for (auto [operand, result, dim] :
         llvm::zip(op->getOperands(), op->getResults(),
                   cast<ReduceScatterOp>(op).getDims()))
      set(result,
          block(reduce(get(operand), *op.getCollectiveReduction(), group), dim,
                group));
    return;
  case CollectiveKind::AllGather:
    for (auto [operand, result, dim] :
         llvm::zip(op->getOperands(), op->getResults(),
                   cast<AllGatherOp>(op).getDims()))
      set(result, gather(get(operand), dim, group));
    return;
  case CollectiveKind::Barrier:
    return;
  default:
    break;
  }
  uint64_t number =
      mix(hashText(op->getName().getStringRef()), hashGroup(group));
  number = mix(number, op.getPeer().value_or(-1));
  if (std::optional<Reduction> reduction = op.getCollectiveReduction())
    number = mix(number, static_cast<uint64_t>(*reduction));
  if (kind == CollectiveKind::Send || kind == CollectiveKind::Recv) {
    // In order between two ranks, on a channel of their own.
    number = mix(number, op.getChannel());
    if (kind == CollectiveKind::Send) {
      uint64_t &messages = sent[number];
      messages = mix(messages, get(op->getOperand(0)));
    } else {
      uint64_t &messages = received[number];
      messages = mix(messages, number);
      set(op->getResult(0), messages);
    }
    return;
  }
  if (FailureOr<int64_t> ranks = op.getGroupSize(); succeeded(ranks))
    for (int64_t target : op.getTargets(*ranks))
      number = mix(number, target);
  SmallVector<DenseI64ArrayAttr> lists;
  if (auto bucket = dyn_cast<BucketableOpInterface>(op.getOperation()))
    for (StringRef name : bucket.getOperandLists())
      lists.push_back(op->getAttrOfType<DenseI64ArrayAttr>(name));
  if (auto dim = op->getAttrOfType<IntegerAttr>("dim"))
    number = mix(number, dim.getInt());
  for (auto [i, entry] : llvm::enumerate(pairs)) {
    auto [operand, result] = entry;
    uint64_t own = mix(number, get(operand));
    for (DenseI64ArrayAttr list : lists)
      own = mix(own, list[i]);
    set(result, own);
  }
}

uint64_t FunctionFingerprints::hashRegions(Operation *op, uint64_t seed) {
  for (Region &region : op->getRegions()) {
    llvm::DenseMap<Block *, uint64_t> numbers;
    for (Block &block : region) {
      numbers[&block] = numbers.size();
      for (BlockArgument argument : block.getArguments())
        set(argument, mix(mix(mix(seed, hashText("argument")), numbers[&block]),
                          argument.getArgNumber()));
    }
    for (Block &block : region) {
      seed = mix(seed, block.getNumArguments());
      for (Operation &inner : block) {
        visit(&inner);
        if (isMemoryEffectFree(&inner) &&
            !inner.hasTrait<OpTrait::IsTerminator>())
          continue; // counts where it is used
        seed = mix(seed, hashOp(&inner));
        for (Block *next : inner.getSuccessors())
          seed = mix(seed, numbers[next]);
      }
    }
  }
  return seed;
}

/// The op, what it takes and what it gives.
uint64_t FunctionFingerprints::hashOp(Operation *op) {
  uint64_t result = hashText(op->getName().getStringRef());
  Attribute properties = op->getPropertiesAsAttribute();
  result = mix(result, all.hash(properties));
  for (Value operand : op->getOperands())
    result = mix(mix(result, get(operand)), all.hash(operand.getType()));
  for (Type type : op->getResultTypes())
    result = mix(result, all.hash(type));
  return result;
}

SmallVector<int64_t> &
FunctionFingerprints::getCallee(FunctionOpInterface callee) {
  auto [known, isNew] = all.callees.try_emplace(callee);
  if (isNew) {
    SmallVector<int64_t> made =
        FunctionFingerprints(all, callee, shardings).run();
    return all.callees[callee] = std::move(made);
  }
  return known->second;
}

void FunctionFingerprints::visit(Operation *op) {
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    return visitCollective(collective);
  if (auto slice = dyn_cast<AllSliceOp>(op)) {
    Group group = getGroup(op, slice.getMeshAttr(), slice.getAxes());
    return set(slice.getResult(),
               block(get(slice.getInput()), slice.getDim(), group));
  }
  if (auto index = dyn_cast<AxisIndexOp>(op)) {
    Group group = getGroup(op, index.getMeshAttr(), index.getAxes());
    return set(index.getResult(),
               mix(hashText("coordinate"), hashGroup(group)));
  }
  if (auto division = dyn_cast<PredivideOp>(op)) {
    Group group = getGroup(op, division.getMeshAttr(), division.getAxes());
    return set(division.getResult(), divide(get(division.getInput()), group));
  }
  if (isa<arith::ExtFOp, arith::TruncFOp>(op))
    return set(op->getResult(0), get(op->getOperand(0)));
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    const Term *term = find(get(reshape.getInput()));
    if (!term || term->kind != Term::Block)
      return set(reshape.getResult(), get(reshape.getInput()));
  }
  if (auto part = dyn_cast<SliceOp>(op);
      part && part.getStarts().size() == 1 && part.getStrides()[0] == 1)
    return set(part.getResult(),
               slice(get(part.getInput()), part.getStarts()[0],
                     part.getLimits()[0],
                     mpcomm::detail::countElements(part.getInput().getType())));
  if (auto row = dyn_cast<ConcatenateOp>(op);
      row && cast<RankedTensorType>(row.getType()).getRank() == 1) {
    SmallVector<std::pair<uint64_t, int64_t>> parts;
    for (Value input : row.getInputs())
      parts.push_back(
          {get(input), mpcomm::detail::countElements(input.getType())});
    return set(row.getResult(), join(parts));
  }
  if (auto async = dyn_cast<AsyncOp>(op)) {
    for (Operation &inner : async.getBody().front().without_terminator())
      visit(&inner);
    return;
  }
  if (auto await = dyn_cast<AwaitOp>(op)) {
    if (auto async = await.getFuture().getDefiningOp<AsyncOp>())
      for (auto [value, result] : llvm::zip(
               async.getBody().front().back().getOperands(), op->getResults()))
        set(result, get(value));
    return;
  }
  uint64_t number = 0;
  FunctionOpInterface callee = getFollowedCallee(op);
  if (callee && callee != function) {
    // Nothing is known yet of a function that calls itself by way of others.
    SmallVector<int64_t> numbers = getCallee(callee);
    if (numbers.size() > op->getNumResults()) {
      for (Value operand : op->getOperands())
        number = mix(number, get(operand));
      for (OpResult result : op->getResults())
        set(result, mix(numbers[result.getResultNumber()], number));
      if (numbers.back()) {
        uint64_t &messages = sent[hashText("messages of calls")];
        messages = mix(messages, numbers.back());
      }
      return;
    }
  }
  number = hashRegions(op, hashOp(op));
  for (OpResult result : op->getResults())
    set(result, mix(number, result.getResultNumber()));
}

SmallVector<int64_t> FunctionFingerprints::run() {
  Block &body = function.getFunctionBody().front();
  for (BlockArgument argument : body.getArguments())
    set(argument, mix(hashText("argument"), argument.getArgNumber()));
  for (Operation &op : body.without_terminator())
    visit(&op);
  SmallVector<int64_t> result;
  for (Value returned : body.back().getOperands())
    result.push_back(get(returned));
  uint64_t messages = 0;
  for (auto [between, number] : sent)
    messages = mix(mix(messages, between), number);
  result.push_back(messages);
  return result;
}

std::optional<SmallVector<int64_t>>
Fingerprints::compute(FunctionOpInterface function,
                      ArrayRef<const AxisShardings *> shardings) {
  if (function.isExternal() || !function.getFunctionBody().hasOneBlock() ||
      function.getFunctionBody().front().empty() ||
      !function.getFunctionBody()
           .front()
           .back()
           .hasTrait<OpTrait::ReturnLike>())
    return std::nullopt;
  return FunctionFingerprints(*this, function, shardings).run();
}
