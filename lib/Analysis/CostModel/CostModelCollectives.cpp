//===- CostModelCollectives.cpp - what collectives cost by algorithm ------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Hockney's model, latency alpha and beta seconds a byte, over a hierarchy of
// links. With p ranks and n bytes of payload, on one level:
//
//   all_reduce      ring    2 (p-1) alpha + 2 (p-1)/p n beta
//                   tree    2 (d+c-1) alpha + 2 (1 + (d-1)/c) n beta
//                   halving 2 d alpha + 2 (p-1)/p n beta
//                   direct  alpha + (p-1) n beta, or 2 alpha + 2 (p-1)/p n beta
//
// d = ceil(log2 p); a tree is pipelined in c chunks, each c being one straight
// line. Sources: Thakur, Rabenseifner and Gropp, "Optimization of Collective
// Communication Operations in MPICH", 2005 (ring, halving, pairwise exchange,
// Bruck); Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth
// broadcast, reduction and scan", 2009 (tree); NCCL's tuning model (hops of a
// ring by kind of link). Derivations, and what each assumes over several
// levels, are in docs/Design/CostModel.md.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/CostModel/CostModel.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <numeric>
#include <tuple>

using namespace mlir;
using namespace mpcomm;

/// The chunks that a pipeline may be cut into.
static constexpr int64_t kChunks[] = {1, 4, 16, 64, 256};

namespace {

/// A link level that the messages of a group use.
struct Stage {
  unsigned link;
  /// Ranks of the group in one inner block, and in one block of this level.
  int64_t inner, inside;
  double latency;
  /// Seconds a byte of a rank's own link, and of the links by which a flat ring
  /// or tree leaves an inner block.
  double beta, flatBeta;

  /// Inner blocks that the level joins.
  int64_t getFan() const { return llvm::divideCeil(inside, inner); }
  int64_t getDepth() const { return llvm::Log2_64_Ceil(getFan()); }
  bool isPowerOfTwo() const { return llvm::isPowerOf2_64(getFan()); }
};

/// The links of a group, and the costs of each algorithm on them.
class CostGroup {
public:
  CostGroup(const Cluster &cluster, const GroupShape &shape);

  std::vector<CostLine> get(CollectiveKind kind,
                            CollectiveAlgorithm algorithm) const;
  unsigned getOutermostLink() const { return stages.back().link; }
  bool isOneLevel() const { return stages.size() == 1; }
  bool isEmpty() const { return stages.empty(); }

private:
  using Costs = std::vector<CostLine>;
  void addRing(CollectiveKind kind, Costs &costs) const;
  void addTree(CollectiveKind kind, Costs &costs) const;
  void addHalving(CollectiveKind kind, Costs &costs) const;
  void addDirect(CollectiveKind kind, Costs &costs) const;

  double ranks;
  SmallVector<Stage, 4> stages;
  /// Of one turn of a ring, p - 1 hops; and of the slowest hop.
  double ringLatency = 0, slowestLatency = 0;
  /// Of the links that bound a flat ring or tree.
  double flatBeta = 0;
  unsigned flatLink = 0;
  /// From the root of a tree to its leaves.
  double treeLatency = 0;
  int64_t depth = 0;
};

} // namespace

CostGroup::CostGroup(const Cluster &cluster, const GroupShape &shape)
    : ranks(static_cast<double>(shape.ranks)) {
  int64_t inner = 1;
  for (auto [i, inside] : llvm::enumerate(shape.inside)) {
    if (inside <= inner)
      continue;
    const LinkLevel &link = cluster.links[i];
    Stage stage;
    stage.link = i;
    stage.inner = inner;
    stage.inside = inside;
    stage.latency = link.latency;
    stage.beta = 1 / link.bandwidth;
    int64_t rails = link.rails == 0 ? inner : std::min(link.rails, inner);
    stage.flatBeta = stage.beta / static_cast<double>(rails);
    stages.push_back(stage);
    inner = inside;
  }
  // A chain through all ranks leaves an inner block of a level once for each
  // of these blocks but the last; what leaves it further out is no hop of it.
  for (auto [i, stage] : llvm::enumerate(stages)) {
    int64_t blocks = llvm::divideCeil(shape.ranks, stage.inner) - 1;
    int64_t further = i + 1 == stages.size()
                          ? 0
                          : llvm::divideCeil(shape.ranks, stage.inside) - 1;
    ringLatency += static_cast<double>(blocks - further) * stage.latency;
    slowestLatency = std::max(slowestLatency, stage.latency);
    treeLatency += static_cast<double>(stage.getDepth()) * stage.latency;
    depth += stage.getDepth();
    if (stage.flatBeta >= flatBeta) {
      flatBeta = stage.flatBeta;
      flatLink = stage.link;
    }
  }
}

/// Whether no rank has more than one message to send and one to receive.
static bool isOneMessage(CollectiveKind kind) {
  return kind == CollectiveKind::Send || kind == CollectiveKind::Recv ||
         kind == CollectiveKind::Permute;
}

void CostGroup::addRing(CollectiveKind kind, Costs &costs) const {
  auto add = [&](double latency, double bytes) {
    costs.push_back(makeLine(CollectiveAlgorithm::Ring, latency,
                             bytes * flatBeta, flatLink));
  };
  switch (kind) {
  case CollectiveKind::AllReduce:
    return add(2 * ringLatency, 2 * (ranks - 1) / ranks);
  case CollectiveKind::ReduceScatter:
    return add(ringLatency, (ranks - 1) / ranks);
  case CollectiveKind::AllGather:
    return add(ringLatency, ranks - 1);
  case CollectiveKind::Broadcast: // a chain
  case CollectiveKind::Reduce:
    for (int64_t chunks : kChunks) {
      double c = static_cast<double>(chunks);
      add(ringLatency + (c - 1) * slowestLatency, 1 + (ranks - 2) / c);
    }
    return;
  case CollectiveKind::AllToAll:
  case CollectiveKind::Gather:
  case CollectiveKind::Scatter: {
    // Pairwise exchange: p - 1 steps, a block to another rank in each; the root
    // of a gather or scatter has that many messages.
    CostLine cost = makeLine(CollectiveAlgorithm::Ring, 0, 0, 0);
    double slowest = 0;
    double block = kind == CollectiveKind::Gather ? 1 : 1 / ranks;
    for (const Stage &stage : stages) {
      double peers = static_cast<double>(stage.inside - stage.inner);
      double seconds = peers * block * stage.beta;
      cost.latency += peers * stage.latency;
      cost.secondsPerByte += seconds;
      if (seconds >= slowest) {
        slowest = seconds;
        cost.link = stage.link;
      }
    }
    costs.push_back(cost);
    return;
  }
  case CollectiveKind::Barrier:
    return add(2 * ringLatency, 0);
  case CollectiveKind::Send:
  case CollectiveKind::Recv:
  case CollectiveKind::Permute:
    return;
  }
}

void CostGroup::addTree(CollectiveKind kind, Costs &costs) const {
  double ways = kind == CollectiveKind::AllReduce || // up, and down again
                        kind == CollectiveKind::Barrier
                    ? 2
                    : 1;
  double d = static_cast<double>(depth);
  switch (kind) {
  case CollectiveKind::AllReduce:
  case CollectiveKind::Broadcast:
  case CollectiveKind::Reduce:
    for (int64_t chunks : kChunks) {
      double c = static_cast<double>(chunks);
      costs.push_back(makeLine(CollectiveAlgorithm::Tree,
                               ways * (treeLatency + (c - 1) * slowestLatency),
                               ways * (1 + (d - 1) / c) * flatBeta, flatLink));
    }
    return;
  case CollectiveKind::Barrier:
    costs.push_back(
        makeLine(CollectiveAlgorithm::Tree, ways * treeLatency, 0, flatLink));
    return;
  default:
    return;
  }
}

void CostGroup::addHalving(CollectiveKind kind, Costs &costs) const {
  // What goes through a level's links: after the inner levels have halved (or
  // before they double), a rank has 1 / inner of all bytes. Where the fan is no
  // power of two, half of the rest sends its all to a partner first.
  CostLine cost = makeLine(CollectiveAlgorithm::Halving, treeLatency, 0, 0);
  double slowest = 0;
  for (const Stage &stage : stages) {
    double fan = static_cast<double>(stage.getFan());
    double bytes = (fan - 1) / fan;
    if (!stage.isPowerOfTwo())
      bytes += 1;
    bytes /= static_cast<double>(stage.inner);
    switch (kind) {
    case CollectiveKind::AllReduce:
    case CollectiveKind::Reduce: // halving, then gathered by the root
      bytes *= 2;
      break;
    case CollectiveKind::ReduceScatter:
      break;
    case CollectiveKind::AllGather:
      bytes *= ranks;
      break;
    case CollectiveKind::AllToAll: // Bruck: half of the payload in each step
      bytes = 0.5 * static_cast<double>(stage.getDepth());
      break;
    case CollectiveKind::Barrier: // dissemination
      bytes = 0;
      break;
    default:
      return;
    }
    double seconds = bytes * stage.beta;
    cost.secondsPerByte += seconds;
    if (seconds >= slowest) {
      slowest = seconds;
      cost.link = stage.link;
    }
  }
  if (kind == CollectiveKind::AllReduce || kind == CollectiveKind::Reduce)
    cost.latency *= 2;
  costs.push_back(cost);
}

void CostGroup::addDirect(CollectiveKind kind, Costs &costs) const {
  const Stage &stage = stages.back();
  auto add = [&](double steps, double bytes) {
    costs.push_back(makeLine(CollectiveAlgorithm::Direct, steps * stage.latency,
                             bytes * stage.beta, stage.link));
  };
  // One message, to whoever it is: the outermost links that there may be
  // between two ranks.
  if (isOneMessage(kind))
    return add(1, 1);
  // All messages of a step are under way at once: on one level only.
  if (!isOneLevel())
    return;
  switch (kind) {
  case CollectiveKind::AllReduce:
  case CollectiveKind::Reduce:
    add(1, ranks - 1);
    return add(2, 2 * (ranks - 1) / ranks);
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllToAll:
  case CollectiveKind::Scatter:
    return add(1, (ranks - 1) / ranks);
  case CollectiveKind::AllGather:
  case CollectiveKind::Gather:
    return add(1, ranks - 1);
  case CollectiveKind::Broadcast:
    add(1, ranks - 1);
    return add(2, 2 * (ranks - 1) / ranks); // scatter, then all_gather
  case CollectiveKind::Barrier:
    return add(1, 0);
  default:
    return;
  }
}

CostGroup::Costs CostGroup::get(CollectiveKind kind,
                                CollectiveAlgorithm algorithm) const {
  Costs costs;
  switch (algorithm) {
  case CollectiveAlgorithm::Direct:
    addDirect(kind, costs);
    break;
  case CollectiveAlgorithm::Ring:
    addRing(kind, costs);
    break;
  case CollectiveAlgorithm::Tree:
    addTree(kind, costs);
    break;
  case CollectiveAlgorithm::Halving:
    addHalving(kind, costs);
    break;
  case CollectiveAlgorithm::Hierarchical:
  case CollectiveAlgorithm::Measured:
    break;
  }
  return costs;
}

//===----------------------------------------------------------------------===//
// CostCurve
//===----------------------------------------------------------------------===//

//===----------------------------------------------------------------------===//
// GroupShape
//===----------------------------------------------------------------------===//

GroupShape mpcomm::getGroupShape(const Cluster &cluster,
                                 ArrayRef<int64_t> sizes,
                                 ArrayRef<bool> spans) {
  GroupShape shape;
  shape.inside.assign(cluster.links.size(), 1);
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    int64_t size = sizes[i];
    bool isOutermost = llvm::all_of(sizes.take_front(i),
                                    [](int64_t outer) { return outer == 1; });
    if (spans[i]) {
      shape.ranks *= size;
      for (auto [level, link] : llvm::enumerate(cluster.links)) {
        // Ranks of this axis that are sure to share a block: the first block
        // starts at rank 0, so what divides both the block and the axis does;
        // along the outermost axis only the last block may be cut.
        int64_t inside = size;
        if (link.ranks != 0) {
          inside = std::gcd(link.ranks, stride * size) / stride;
          if (isOutermost && link.ranks % stride == 0)
            inside = link.ranks / stride;
        }
        shape.inside[level] *= std::clamp<int64_t>(inside, 1, size);
      }
    }
    stride *= size;
  }
  return shape;
}

//===----------------------------------------------------------------------===//
// CostModel
//===----------------------------------------------------------------------===//

std::optional<std::pair<GroupShape, GroupShape>>
CostModel::splitGroup(const GroupShape &shape, unsigned level) {
  if (level + 1 >= shape.inside.size())
    return std::nullopt;
  int64_t block = shape.inside[level];
  GroupShape inside, across;
  inside.ranks = block;
  across.ranks = llvm::divideCeil(shape.ranks, block);
  if (inside.ranks <= 1 || across.ranks <= 1)
    return std::nullopt;
  for (int64_t ranks : shape.inside) {
    inside.inside.push_back(std::min(ranks, block));
    across.inside.push_back(llvm::divideCeil(std::max(ranks, block), block));
  }
  return std::pair(inside, across);
}

/// One way of each phase after the other: payload n of the whole makes
/// `factor` * n of a phase.
static std::vector<CostLine>
chain(ArrayRef<std::pair<CostCurve, double>> phases) {
  std::vector<CostLine> ways = {
      makeLine(CollectiveAlgorithm::Hierarchical, 0, 0, 0)};
  SmallVector<double> slowest = {0};
  for (const auto &[cost, factor] : phases) {
    std::vector<CostLine> longer;
    SmallVector<double> longerSlowest;
    for (auto [way, bound] : llvm::zip_equal(ways, slowest))
      for (const CostLine &piece : cost.pieces) {
        CostLine next = way;
        double seconds = factor * piece.secondsPerByte;
        next.latency += piece.latency;
        next.secondsPerByte += seconds;
        if (seconds >= bound)
          next.link = piece.link;
        longer.push_back(next);
        longerSlowest.push_back(std::max(bound, seconds));
      }
    ways = std::move(longer);
    slowest = std::move(longerSlowest);
  }
  return ways;
}

std::optional<CostCurve>
CostModel::getCollective(CollectiveKind kind, const GroupShape &shape,
                         CollectiveAlgorithm algorithm) const {
  CostGroup group(cluster, shape);
  if (group.isEmpty())
    return std::nullopt;
  std::vector<CostLine> ways;
  if (algorithm == CollectiveAlgorithm::Hierarchical) {
    for (unsigned level = 0; level + 1 < shape.inside.size(); ++level) {
      auto parts = splitGroup(shape, level);
      if (!parts)
        continue;
      auto &[inside, across] = *parts;
      double block = static_cast<double>(inside.ranks);
      double blocks = static_cast<double>(across.ranks);
      auto get = [&](CollectiveKind part, const GroupShape &ranks) {
        return getCollective(part, ranks);
      };
      switch (kind) {
      case CollectiveKind::AllReduce:
        llvm::append_range(
            ways, chain({{get(CollectiveKind::ReduceScatter, inside), 1},
                         {get(CollectiveKind::AllReduce, across), 1 / block},
                         {get(CollectiveKind::AllGather, inside), 1 / block}}));
        break;
      case CollectiveKind::ReduceScatter:
        llvm::append_range(ways, chain({{get(kind, inside), 1},
                                        {get(kind, across), 1 / block}}));
        break;
      case CollectiveKind::AllGather:
        llvm::append_range(
            ways, chain({{get(kind, across), 1}, {get(kind, inside), blocks}}));
        break;
      case CollectiveKind::Broadcast:
        llvm::append_range(
            ways, chain({{get(kind, across), 1}, {get(kind, inside), 1}}));
        break;
      case CollectiveKind::Reduce:
        llvm::append_range(
            ways, chain({{get(kind, inside), 1}, {get(kind, across), 1}}));
        break;
      case CollectiveKind::Gather:
        llvm::append_range(
            ways, chain({{get(kind, inside), 1}, {get(kind, across), block}}));
        break;
      case CollectiveKind::Scatter:
        llvm::append_range(ways, chain({{get(kind, across), 1},
                                        {get(kind, inside), 1 / blocks}}));
        break;
      default:
        break;
      }
    }
  } else {
    ways = group.get(kind, algorithm);
    for (CostLine &way : ways)
      way.latency += cluster.collectiveLaunch;
  }
  if (ways.empty())
    return std::nullopt;
  return CostCurve::getEnvelope(std::move(ways));
}

CostCurve CostModel::getCollective(CollectiveKind kind,
                                   const GroupShape &shape) const {
  CostGroup group(cluster, shape);
  if (group.isEmpty()) // nobody to talk to
    return CostCurve{{makeLine(CollectiveAlgorithm::Direct, 0, 0, 0)}};
  StringRef outermost = cluster.links[group.getOutermostLink()].name;
  for (const MeasuredCollective &line : cluster.measured)
    if (line.kind == stringifyCollectiveKind(kind) &&
        line.ranks == shape.ranks &&
        (line.backend.empty() || backend.empty() || line.backend == backend) &&
        (line.link.empty() || line.link == outermost))
      return CostCurve{{makeLine(CollectiveAlgorithm::Measured, line.alpha,
                                 line.beta, group.getOutermostLink())}};
  std::vector<CostLine> ways;
  auto addAll = [&](bool isAny) {
    for (auto algorithm :
         {CollectiveAlgorithm::Direct, CollectiveAlgorithm::Ring,
          CollectiveAlgorithm::Tree, CollectiveAlgorithm::Halving,
          CollectiveAlgorithm::Hierarchical}) {
      // Hierarchies only where the library has them by name: else a pass makes
      // them.
      bool isKnown = algorithms & (1u << static_cast<unsigned>(algorithm));
      if (isAny ? algorithm != CollectiveAlgorithm::Hierarchical : isKnown)
        if (auto cost = getCollective(kind, shape, algorithm))
          llvm::append_range(ways, cost->pieces);
    }
  };
  // A message from one rank to another needs no algorithm.
  addAll(isOneMessage(kind));
  if (ways.empty())
    addAll(/*isAny=*/true);
  return CostCurve::getEnvelope(std::move(ways));
}
