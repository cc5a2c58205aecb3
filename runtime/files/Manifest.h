//===- Manifest.h - what a program file says about itself
//--------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The JSON text inside a program file, as data. docs/Design/Manifest.md
// describes it. `parseManifest` checks all that is relied on later, so
// that nothing after it needs to look at JSON or doubt an index.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_FILES_MANIFEST_H
#define MPCOMM_RUNTIME_FILES_MANIFEST_H

#include "support/Error.h"
#include "support/Tensor.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mprt {

/// What an argument or a result is for.
enum class Role : uint8_t {
  Parameter,
  OptimizerState,
  Buffer,
  Batch,
  Hyperparameter,
  LossScale,
  Rng,
  Loss,
  Output
};

std::string_view nameOf(Role role);

/// True for what a file of weights has: it is of the model, not of how it is
/// trained.
inline bool isWeight(Role role) {
  return role == Role::Parameter || role == Role::Buffer;
}

/// True for what lives from one step to the next and goes into a checkpoint.
inline bool isState(Role role) {
  return role == Role::Parameter || role == Role::OptimizerState ||
         role == Role::Buffer || role == Role::LossScale;
}

/// How ranks share a tensor: its elements, in row-major order and padded, are
/// cut into parts of one size.
struct ManifestSplit {
  struct Axis {
    uint64_t stride = 1, size = 1; ///< of the numbers of ranks along it
    bool operator==(const Axis &) const = default;
  };
  Shape whole;
  /// The first varies slowest.
  std::vector<Axis> axes;
  /// Each rank's part is its own: the whole is one behind the other, along a
  /// first dimension. On other meshes their mean is kept.
  bool isLocal = false;

  uint64_t parts() const;
  uint64_t partOf(uint64_t rank) const;
  bool operator==(const ManifestSplit &) const = default;
};

struct ManifestTensor {
  std::string name;
  Role role = Role::Parameter;
  DType type = MPRT_F32;
  Shape shape;
  uint64_t elements = 0;
  uint64_t bytes = 0;
  /// Where a rank has a part only; the shape is that of a part, [elements].
  std::optional<ManifestSplit> split;

  /// Of the tensor, of which this may be a part.
  const Shape &wholeShape() const { return split ? split->whole : shape; }
};

/// Of a tensor, in row-major order, what a rank has; without padding.
struct ElementRange {
  uint64_t first = 0, count = 0;
};
ElementRange rangeOf(const ManifestTensor &tensor, uint64_t rank);

struct ManifestArgument : ManifestTensor {
  /// The program writes this buffer.
  bool updated = false;
  /// Value of all elements where nothing else gives one.
  std::optional<double> defaultValue;
  /// The parameter, of the same shape, whose converted values this state
  /// starts from where nothing else gives them.
  std::optional<std::string> copyOf;
  /// State that the compiler added: a program that takes over from one without
  /// it goes on with what there was, or its default.
  bool isAdded = false;
  /// Such state that is only of use to the next step of the same program: no
  /// file has it.
  bool isTransient = false;
  /// Integer batch data lies in [first, second).
  std::optional<std::pair<int64_t, int64_t>> range;
};

struct ManifestResult : ManifestTensor {
  /// The argument in whose buffer this result stands; otherwise the result has
  /// a buffer of its own.
  std::optional<size_t> argument;
  /// For an output: the integer batch argument with its class labels.
  std::optional<std::string> targets;
};

struct ManifestCollective {
  uint64_t id = 0;
  std::string kind, name, location;
  uint64_t bytes = 0, tensors = 1;
};

/// A pass of a micro-batch on a stage: which of the function's calls on the
/// compute stream it is.
struct ManifestPass {
  std::string action; ///< as in "F0"
  int64_t stage = 0;
  uint64_t first = 0, calls = 0;
};

/// Where ranks are: coordinates on some of the mesh axes, by their index. The
/// ranks are all that are there, wherever they are on the other axes.
using ManifestCoordinates = std::map<size_t, int64_t>;

struct ManifestFunction {
  std::string name, entry;
  /// Who runs it; empty where all ranks do.
  std::vector<ManifestCoordinates> coordinates;
  uint64_t arenaBytes = 0;
  uint32_t events = 0;
  std::vector<ManifestArgument> arguments;
  std::vector<ManifestResult> results;
  std::vector<ManifestCollective> collectives;
  /// Calls on the compute stream, each an event of a trace; and what of them
  /// are passes of a pipeline, in order. Zero where the file does not say.
  uint64_t computeCalls = 0;
  std::vector<ManifestPass> passes;

  /// The name of the function that makes the updates which a step has left for
  /// the next one, and whether this is it.
  static constexpr const char *applyPending = "apply_pending";
  bool isApplyPending() const;

  /// Leading dimension of the batch arguments: samples of one rank in one
  /// call. Zero where the function takes no batch.
  int64_t batchSize() const;
  /// First result of that role, or null.
  const ManifestResult *resultOf(Role role) const;
  /// Indices of the results of role loss after the first, which are numbers to
  /// look at.
  std::vector<size_t> metrics() const;
  /// Argument of that name, or null.
  const ManifestArgument *argumentOf(const std::string &name) const;
};

/// Of a location, by its text.
struct ManifestLocation {
  std::vector<std::string> places; ///< all that it stands for
  uint64_t runs = 1;               ///< how often a step runs what is there
};
using ManifestPlaces = std::map<std::string, ManifestLocation>;

struct ManifestAxis {
  std::string name;
  int64_t size = 1;
};

struct ManifestCommunicator {
  /// Indices of the mesh axes that it spans, ascending.
  std::vector<size_t> axes;
  /// Tells communicators of the same axes apart.
  uint64_t channel = 0;
  bool operator==(const ManifestCommunicator &) const = default;
};

/// By what the training graph of a program is known again.
struct ManifestGraph {
  /// Of its text, and of its ops and arguments without shapes and constants.
  std::string digest, structure;
  /// Samples that it was imported with.
  uint64_t batch = 0;
  /// Each optimizer op with its constants.
  std::vector<std::string> optimizer;
  /// Options of the compiler that decide what is computed.
  std::map<std::string, std::string> options;
};

/// What a plan was simulated to take, by the bandwidth of the link.
struct ManifestForecast {
  /// The cluster, as JSON, and the link of it whose bandwidth it is about.
  std::string cluster, link;
  /// Seconds of computation.
  double compute = 0;
  /// Bytes/s, from fast to slow; and at each the seconds of a step, and those
  /// while any collective but sends and receives is under way. At least two,
  /// all positive; collectives take longer at each.
  std::vector<double> bandwidth, step, communication;
};

struct Manifest {
  uint64_t abi = 0;
  std::string program, cpu, device = "host";
  /// Of a pipeline: its name, where the file says.
  std::string schedule;
  std::vector<std::string> features;
  std::optional<ManifestGraph> graph;
  std::optional<ManifestForecast> forecast;
  /// The greatest scratch that a kernel of a program for a GPU wants.
  uint64_t scratchBytes = 0;
  std::vector<ManifestAxis> axes;
  std::vector<ManifestCommunicator> communicators;
  std::vector<ManifestFunction> functions;
  ManifestPlaces places;

  /// Product of the mesh axes; 1 without a mesh.
  int64_t ranks() const;
  /// Those that any rank runs under that name, in order.
  std::vector<const ManifestFunction *> findAll(const std::string &name) const;
  /// What `rank` runs under that name, or null.
  const ManifestFunction *find(const std::string &name, uint64_t rank) const;

  /// Ranks that differ on axes by which functions are chosen share their
  /// samples: they are one data rank, numbered row-major over the other axes.
  uint64_t dataRanks() const;
  uint64_t dataRankOf(uint64_t rank) const;

  /// Which of the groups of communicator `c` a rank is in, numbered row-major
  /// over the axes that it does not span; and the ranks of a group.
  uint64_t groupOf(uint64_t rank, size_t c) const;
  uint64_t groupSize(size_t c) const;

  /// `dp:2 x tp:2`, for messages.
  std::string describeMesh() const;
  /// `rank 3 (pp:1 x dp:1)`, for messages.
  std::string describeRank(uint64_t rank) const;
};

/// What keeps the functions of a manifest from being run together: ranks for
/// which there is none or several of a name, arguments of one name that differ.
/// Empty where nothing does.
std::string findConflict(const Manifest &manifest);

/// The most ranks that a mesh may have.
inline constexpr int64_t maxRanks = 4096;

/// Parses and checks `text`. Messages name the place as a path
/// (`functions[0].arguments[3].shape`).
Expected<Manifest> parseManifest(std::string_view text);

} // namespace mprt

#endif // MPCOMM_RUNTIME_FILES_MANIFEST_H
