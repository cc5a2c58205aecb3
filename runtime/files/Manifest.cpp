//===- Manifest.cpp - parsing and checking a manifest ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `Reader` is a JSON value together with its path. Its accessors record the
// first error and return a default, so that the parser reads as a list of the
// fields; the result counts only when no error was recorded.
//
//===----------------------------------------------------------------------===//

#include "files/Manifest.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>

using namespace mprt;

using Json = nlohmann::json;

namespace {

constexpr std::array<std::string_view, 9> roleNames = {
    "parameter",      "optimizer_state", "buffer", "batch",
    "hyperparameter", "loss_scale",      "rng",    "loss",
    "output"};

class ManifestReader {
public:
  ManifestReader(const Json &value, std::string path, std::string &error)
      : value(value), path(std::move(path)), error(error) {}

  void report(const std::string &message) const {
    if (error.empty())
      error = (path.empty() ? std::string("manifest") : path) + ": " + message;
  }

  bool has(const char *key) const {
    return value.is_object() && value.contains(key) && !value[key].is_null();
  }

  /// The member `key`; a null value, and an error if required, where it is
  /// missing.
  ManifestReader at(const char *key, bool required = true) const {
    static const Json null;
    if (has(key))
      return ManifestReader(value[key], path.empty() ? key : path + "." + key,
                            error);
    if (!value.is_object())
      report("expected an object");
    else if (required)
      report(std::string("'") + key + "' is missing");
    return ManifestReader(null, path.empty() ? key : path + "." + key, error);
  }

  std::string text(const char *key, bool required = true) const {
    ManifestReader member = at(key, required);
    if (!member.value.is_string()) {
      if (has(key))
        member.report("expected a string");
      return {};
    }
    return member.value.get<std::string>();
  }

  uint64_t natural(const char *key, bool required = true) const {
    ManifestReader member = at(key, required);
    if (!member.value.is_number_unsigned()) {
      if (has(key))
        member.report("expected a natural number");
      return 0;
    }
    return member.value.get<uint64_t>();
  }

  int64_t integer() const {
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() &&
         value.get<uint64_t>() >
             static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))) {
      report("expected an integer");
      return 0;
    }
    return value.get<int64_t>();
  }

  std::string string() const {
    if (value.is_string())
      return value.get<std::string>();
    report("expected a string");
    return {};
  }

  std::optional<double> number() const {
    if (value.is_boolean())
      return value.get<bool>() ? 1.0 : 0.0;
    if (!value.is_number()) {
      report("expected a number");
      return std::nullopt;
    }
    return value.get<double>();
  }
  std::optional<double> number(const char *key) const {
    return has(key) ? at(key).number() : std::nullopt;
  }

  /// The names of an object's members.
  std::vector<std::string> keys() const {
    std::vector<std::string> names;
    if (!value.is_object())
      report("expected an object");
    else
      for (const auto &item : value.items())
        names.push_back(item.key());
    return names;
  }

  /// The elements of the array `key`; none where it is missing.
  std::vector<ManifestReader> list(const char *key,
                                   bool required = true) const {
    std::vector<ManifestReader> items;
    ManifestReader member = at(key, required);
    if (!member.value.is_array()) {
      if (has(key))
        member.report("expected an array");
      return items;
    }
    for (size_t i = 0; i < member.value.size(); ++i)
      items.emplace_back(member.value[i],
                         member.path + "[" + std::to_string(i) + "]", error);
    return items;
  }

private:
  const Json &value;
  std::string path;
  std::string &error;
};

std::string numberText(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.17g", value);
  return text;
}

/// Index of the mesh axis `name`; an error, and nothing, where there is none.
std::optional<size_t> findAxis(const ManifestReader &reader,
                               const std::string &name,
                               const Manifest &manifest) {
  for (size_t i = 0; i < manifest.axes.size(); ++i)
    if (manifest.axes[i].name == name)
      return i;
  reader.report("no mesh axis '" + printable(name) + "'");
  return std::nullopt;
}

/// `sharding`: the whole, and the axes over which it is split.
void parseSplit(const ManifestReader &reader, ManifestTensor &tensor,
                const Manifest &manifest) {
  if (!reader.has("sharding"))
    return;
  ManifestSplit split;
  for (const ManifestReader &size : reader.list("global_shape"))
    split.whole.push_back(size.integer());
  for (const ManifestReader &name : reader.at("sharding").list("flat")) {
    std::optional<size_t> axis = findAxis(name, name.string(), manifest);
    if (!axis)
      return;
    ManifestSplit::Axis &along = split.axes.emplace_back();
    along.size = static_cast<uint64_t>(manifest.axes[*axis].size);
    for (size_t inner = *axis + 1; inner < manifest.axes.size(); ++inner)
      along.stride *= static_cast<uint64_t>(manifest.axes[inner].size);
    for (size_t i = 0; i + 1 < split.axes.size(); ++i)
      if (split.axes[i].stride == along.stride)
        return name.report("is named twice");
  }
  split.isLocal = reader.at("sharding").number("local").value_or(0) != 0;
  std::optional<uint64_t> elements;
  if (split.whole.size() <= maxRank && bytesOf(tensor.type, split.whole))
    elements = elementsOf(split.whole);
  bool fits =
      elements && !split.axes.empty() && isState(tensor.role) &&
      tensor.shape.size() == 1 &&
      tensor.elements == (*elements + split.parts() - 1) / split.parts() &&
      (!split.isLocal || uint64_t(split.whole.front()) == split.parts());
  if (!fits)
    return reader.report("sharding of " + std::string(nameOf(tensor.role)) +
                         " " + describe(tensor.type, tensor.shape) +
                         ", expected 'flat' axes, 'global_shape', and state of "
                         "one dimension with an equal part of its elements");
  tensor.split = std::move(split);
}

void parseTensor(const ManifestReader &reader, ManifestTensor &tensor,
                 const Manifest &manifest) {
  tensor.name = reader.text("name");
  if (tensor.name.empty())
    reader.report("'name' is empty");
  std::string role = reader.text("role");
  auto found = std::find(roleNames.begin(), roleNames.end(), role);
  if (found == roleNames.end())
    reader.report("role '" + printable(role) + "' is not known");
  else
    tensor.role = static_cast<Role>(found - roleNames.begin());
  std::string type = reader.text("dtype");
  if (std::optional<DType> parsed = mprt::parseDType(type))
    tensor.type = *parsed;
  else
    reader.report("dtype '" + printable(type) + "' is not known");
  for (const ManifestReader &size : reader.list("shape"))
    tensor.shape.push_back(size.integer());
  if (tensor.shape.size() > maxRank)
    return reader.report("more than " + std::to_string(maxRank) +
                         " dimensions");
  std::optional<uint64_t> bytes = bytesOf(tensor.type, tensor.shape);
  if (!bytes)
    return reader.report("shape of " + describe(tensor.type, tensor.shape) +
                         " is negative or overflows");
  tensor.bytes = *bytes;
  tensor.elements = *bytes / sizeOf(tensor.type);
  parseSplit(reader, tensor, manifest);
}

/// What the argument starts from: `default` or `copy_of`.
void parseStart(const ManifestReader &reader, ManifestArgument &argument) {
  argument.defaultValue = reader.number("default");
  if (argument.defaultValue && !isFloat(argument.type) &&
      !isStorable(argument.type, *argument.defaultValue))
    reader.report("default " + numberText(*argument.defaultValue) + " is no " +
                  std::string(nameOf(argument.type)));
  if (!reader.has("copy_of"))
    return;
  argument.copyOf = reader.text("copy_of");
  bool mayCopy = isState(argument.role) && argument.role != Role::Parameter;
  if (!mayCopy || !isFloat(argument.type) || argument.defaultValue)
    reader.report("copy_of on " + std::string(nameOf(argument.role)) + " " +
                  describe(argument.type, argument.shape) +
                  ", expected state of floats other than a parameter, without "
                  "a default");
}

ManifestArgument parseArgument(const ManifestReader &reader,
                               const Manifest &manifest) {
  ManifestArgument argument;
  parseTensor(reader, argument, manifest);
  std::string access = reader.text("access");
  if (access != "read" && access != "update")
    reader.report("access '" + printable(access) +
                  "', expected 'read' or 'update'");
  argument.updated = access == "update";
  argument.isAdded = reader.number("added").value_or(0) != 0;
  argument.isTransient = reader.number("transient").value_or(0) != 0;
  if (argument.isTransient && (!argument.isAdded || !isState(argument.role)))
    reader.report("'transient', expected it on state that is 'added'");
  parseStart(reader, argument);
  if (argument.role == Role::Loss || argument.role == Role::Output)
    reader.report("an argument cannot have role '" +
                  std::string(nameOf(argument.role)) + "'");
  if (argument.role == Role::Hyperparameter && argument.elements != 1)
    reader.report("a hyperparameter holds one element, found " +
                  describe(argument.type, argument.shape));
  if (argument.role == Role::Batch &&
      (argument.shape.empty() || argument.elements == 0))
    reader.report("a batch argument needs a leading dimension and elements, "
                  "found " +
                  describe(argument.type, argument.shape));
  if (argument.role == Role::Batch && argument.updated)
    reader.report("a batch argument cannot be updated");
  if (reader.has("range")) {
    std::vector<ManifestReader> bounds = reader.list("range");
    if (bounds.size() != 2)
      reader.report("range holds " + std::to_string(bounds.size()) +
                    " numbers, expected 2");
    else
      argument.range = {bounds[0].integer(), bounds[1].integer()};
    if (!isInteger(argument.type))
      reader.report("range on " + describe(argument.type, argument.shape) +
                    ", expected an integer type");
  }
  return argument;
}

ManifestResult parseResult(const ManifestReader &reader,
                           const ManifestFunction &function,
                           const Manifest &manifest) {
  ManifestResult result;
  parseTensor(reader, result, manifest);
  if (result.role == Role::Loss &&
      (!isFloat(result.type) || result.elements != 1))
    reader.report("a loss is one float, found " +
                  describe(result.type, result.shape));
  if (reader.has("targets"))
    result.targets = reader.text("targets");
  if (!reader.has("argument")) {
    // It is what its argument holds in the next step.
    const ManifestArgument *next = function.argumentOf(result.name);
    if (isState(result.role) &&
        !(next && next->role == result.role && next->type == result.type &&
          next->shape == result.shape && next->split == result.split))
      reader.report(std::string(nameOf(result.role)) + " '" +
                    printable(result.name) +
                    "' is in no argument, and no argument of that name is "
                    "a " +
                    std::string(nameOf(result.role)) + " of " +
                    describe(result.type, result.shape));
    return result;
  }
  uint64_t index = reader.natural("argument");
  if (index >= function.arguments.size()) {
    reader.report("argument " + std::to_string(index) + " of " +
                  std::to_string(function.arguments.size()));
    return result;
  }
  const ManifestArgument &argument = function.arguments[index];
  if (argument.type != result.type || argument.shape != result.shape ||
      argument.split != result.split || !argument.updated)
    reader.report("is in argument '" + printable(argument.name) +
                  "', which is not an updated " +
                  describe(result.type, result.shape));
  result.argument = index;
  return result;
}

/// The class labels of an output: an integer batch argument with one element
/// for each row of the output.
void checkTargets(const ManifestReader &reader,
                  const ManifestFunction &function) {
  for (const ManifestResult &result : function.results) {
    if (!result.targets)
      continue;
    const ManifestArgument *labels = function.argumentOf(*result.targets);
    bool fits = labels && labels->role == Role::Batch &&
                isInteger(labels->type) && isFloat(result.type) &&
                !result.shape.empty() && result.shape.back() > 0 &&
                result.elements / result.shape.back() == labels->elements;
    if (!fits)
      reader.report("targets '" + printable(*result.targets) + "' of '" +
                    printable(result.name) +
                    "' is not an integer batch argument with one label for "
                    "each row of " +
                    describe(result.type, result.shape));
  }
}

/// `{"pp": 0}`: on each axis that it names, a coordinate.
ManifestCoordinates parseCoordinates(const ManifestReader &reader,
                                     const Manifest &manifest) {
  ManifestCoordinates coordinates;
  for (const std::string &name : reader.keys()) {
    std::optional<size_t> axis = findAxis(reader, name, manifest);
    uint64_t at = reader.natural(name.c_str());
    if (!axis)
      continue;
    if (at >= static_cast<uint64_t>(manifest.axes[*axis].size))
      reader.report("there is no rank " + std::to_string(at) + " along '" +
                    printable(name) + "', which has " +
                    std::to_string(manifest.axes[*axis].size));
    coordinates[*axis] = static_cast<int64_t>(at);
  }
  if (coordinates.empty())
    reader.report("expected a coordinate on at least one mesh axis");
  return coordinates;
}

/// The calls of the compute stream, and the passes among them.
void parsePasses(const ManifestReader &reader, ManifestFunction &function) {
  if (!reader.has("calls"))
    return;
  ManifestReader calls = reader.at("calls");
  for (const std::string &kind : calls.keys())
    function.computeCalls += calls.natural(kind.c_str());
  uint64_t end = 0;
  for (const ManifestReader &item : reader.list("passes", false)) {
    ManifestPass pass;
    pass.action = item.text("action");
    pass.stage = static_cast<int64_t>(item.natural("stage"));
    pass.first = item.natural("first");
    pass.calls = item.natural("calls");
    std::string number = pass.action.substr(pass.action.empty() ? 0 : 1);
    if (pass.action.find_first_of("FBIW") != 0 || number.empty() ||
        number.size() > 8 ||
        number.find_first_not_of("0123456789") != std::string::npos)
      return item.report("action '" + printable(pass.action) +
                         "', expected F, B, I or W and the number of a "
                         "micro-batch");
    if (pass.calls < 1 || pass.first < end ||
        pass.calls > function.computeCalls ||
        pass.first > function.computeCalls - pass.calls)
      return item.report("is calls " + std::to_string(pass.first) + " to " +
                         std::to_string(pass.first + pass.calls) +
                         ", expected some after the pass before it, of " +
                         std::to_string(function.computeCalls));
    end = pass.first + pass.calls;
    function.passes.push_back(std::move(pass));
  }
}

ManifestFunction parseFunction(const ManifestReader &reader,
                               const Manifest &manifest) {
  ManifestFunction function;
  function.name = reader.text("name");
  function.entry = reader.text("entry");
  for (const ManifestReader &item :
       reader.list("coordinates", /*required=*/false))
    function.coordinates.push_back(parseCoordinates(item, manifest));
  function.arenaBytes = reader.natural("arena_bytes");
  uint64_t events = reader.natural("events");
  if (events > (1u << 24))
    reader.report("events is " + std::to_string(events) + ", the limit is " +
                  std::to_string(1u << 24));
  function.events = static_cast<uint32_t>(events);
  if (function.arenaBytes > (uint64_t(1) << 46))
    reader.report("arena_bytes is " + std::to_string(function.arenaBytes) +
                  ", the limit is 2^46");
  std::set<std::string> names;
  for (const ManifestReader &item : reader.list("arguments")) {
    function.arguments.push_back(parseArgument(item, manifest));
    const ManifestArgument &argument = function.arguments.back();
    if (!names.insert(argument.name).second)
      item.report("a second argument '" + printable(argument.name) + "'");
    if (argument.role == Role::Batch && !argument.shape.empty() &&
        argument.shape[0] != function.batchSize())
      item.report("leading dimension " + std::to_string(argument.shape[0]) +
                  " differs from the first batch argument's " +
                  std::to_string(function.batchSize()));
  }
  for (const ManifestArgument &argument : function.arguments) {
    if (!argument.copyOf)
      continue;
    const ManifestArgument *source = function.argumentOf(*argument.copyOf);
    if (!source || source->role != Role::Parameter || !isFloat(source->type) ||
        source->wholeShape() != argument.wholeShape())
      reader.report("'" + printable(argument.name) + "' is a copy of '" +
                    printable(*argument.copyOf) +
                    "', expected a parameter of floats of its shape");
  }
  std::set<std::string> renewed;
  for (const ManifestReader &item : reader.list("results")) {
    function.results.push_back(parseResult(item, function, manifest));
    const ManifestResult &result = function.results.back();
    if (isState(result.role) && !renewed.insert(result.name).second)
      item.report("a second result for '" + printable(result.name) + "'");
  }
  checkTargets(reader, function);
  for (const ManifestReader &item :
       reader.list("collectives", /*required=*/false)) {
    ManifestCollective collective;
    collective.id = item.natural("id");
    collective.kind = item.text("kind");
    collective.name = item.text("name", false);
    collective.location = item.text("location", false);
    collective.bytes = item.natural("bytes", false);
    if (item.has("tensors"))
      collective.tensors = item.natural("tensors");
    function.collectives.push_back(std::move(collective));
  }
  parsePasses(reader, function);
  return function;
}

void parseMesh(const ManifestReader &reader, Manifest &manifest) {
  if (!reader.has("mesh"))
    return;
  int64_t product = 1;
  for (const ManifestReader &item : reader.at("mesh").list("axes")) {
    ManifestAxis axis;
    axis.name = item.text("name");
    uint64_t size = item.natural("size");
    if (size < 1 || size > static_cast<uint64_t>(maxRanks))
      return item.report("size is " + std::to_string(size) +
                         ", expected 1 to " + std::to_string(maxRanks));
    axis.size = static_cast<int64_t>(size);
    product *= axis.size;
    if (product > maxRanks)
      return item.report("the mesh has more than " + std::to_string(maxRanks) +
                         " ranks");
    manifest.axes.push_back(std::move(axis));
  }
}

void parseCommunicators(const ManifestReader &reader, Manifest &manifest) {
  for (const ManifestReader &item : reader.list("communicators", false)) {
    std::set<size_t> spanned;
    for (const ManifestReader &name : item.list("axes"))
      if (std::optional<size_t> axis = findAxis(name, name.string(), manifest))
        spanned.insert(*axis);
    ManifestCommunicator communicator;
    communicator.axes.assign(spanned.begin(), spanned.end());
    communicator.channel = item.natural("channel", /*required=*/false);
    manifest.communicators.push_back(std::move(communicator));
  }
}

void parseLocations(const ManifestReader &reader, Manifest &manifest) {
  for (const ManifestReader &item : reader.list("locations", false)) {
    ManifestPlaces::mapped_type &known = manifest.places[item.text("text")];
    for (const ManifestReader &place : item.list("places"))
      known.places.push_back(place.string());
    if (item.has("runs"))
      known.runs = item.natural("runs");
    if (known.runs < 1)
      return item.report("runs is 0, expected 1 or more");
  }
}

void parseGraph(const ManifestReader &reader, Manifest &manifest) {
  if (!reader.has("graph"))
    return;
  ManifestReader item = reader.at("graph");
  ManifestGraph graph;
  graph.digest = item.text("digest");
  graph.structure = item.text("structure");
  graph.batch = item.natural("batch");
  for (const ManifestReader &text : item.list("optimizer"))
    graph.optimizer.push_back(text.string());
  ManifestReader options = item.at("options");
  for (const std::string &name : options.keys())
    graph.options[name] = options.text(name.c_str());
  manifest.graph = std::move(graph);
}

void parseForecast(const ManifestReader &reader, Manifest &manifest) {
  if (!reader.has("forecast"))
    return;
  ManifestReader item = reader.at("forecast");
  ManifestForecast forecast;
  forecast.cluster = item.text("cluster");
  forecast.link = item.text("link");
  forecast.compute = item.number("compute").value_or(0);
  for (auto [name, values] : {std::pair("bandwidth", &forecast.bandwidth),
                              {"step", &forecast.step},
                              {"communication", &forecast.communication}})
    for (const ManifestReader &value : item.list(name)) {
      values->push_back(value.number().value_or(0));
      if (!(values->back() > 0))
        value.report("expected a positive number");
    }
  size_t rows = forecast.bandwidth.size();
  if (rows < 2 || forecast.step.size() != rows ||
      forecast.communication.size() != rows)
    return item.report("expected lists of one length, of 2 and more");
  for (size_t row = 1; row < rows; ++row)
    if (forecast.bandwidth[row] >= forecast.bandwidth[row - 1] ||
        forecast.communication[row] <= forecast.communication[row - 1])
      return item.report("expected rows from fast to slow");
  manifest.forecast = std::move(forecast);
}

} // namespace

std::string_view mprt::nameOf(Role role) {
  return roleNames[static_cast<size_t>(role)];
}

bool ManifestFunction::isApplyPending() const {
  return name == applyPending &&
         std::any_of(arguments.begin(), arguments.end(),
                     [](const ManifestArgument &a) { return a.isTransient; });
}

int64_t ManifestFunction::batchSize() const {
  for (const ManifestArgument &argument : arguments)
    if (argument.role == Role::Batch)
      return argument.shape.empty() ? 0 : argument.shape[0];
  return 0;
}

const ManifestResult *ManifestFunction::resultOf(Role role) const {
  for (const ManifestResult &result : results)
    if (result.role == role)
      return &result;
  return nullptr;
}

std::vector<size_t> ManifestFunction::metrics() const {
  std::vector<size_t> found;
  const ManifestResult *loss = resultOf(Role::Loss);
  for (const ManifestResult &result : results)
    if (result.role == Role::Loss && &result != loss)
      found.push_back(&result - results.data());
  return found;
}

const ManifestArgument *
ManifestFunction::argumentOf(const std::string &name) const {
  for (const ManifestArgument &argument : arguments)
    if (argument.name == name)
      return &argument;
  return nullptr;
}

Expected<Manifest> mprt::parseManifest(std::string_view text) {
  Json root = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded())
    return fail("manifest is not JSON");
  std::string error;
  ManifestReader reader(root, "", error);
  Manifest manifest;
  manifest.abi = reader.natural("abi");
  manifest.program = reader.text("program", false);
  manifest.schedule = reader.text("schedule", false);
  if (reader.has("target")) {
    ManifestReader target = reader.at("target");
    manifest.device = target.text("device");
    if (manifest.device != "host" && manifest.device != "cuda")
      target.at("device").report("expected 'host' or 'cuda', found '" +
                                 printable(manifest.device) + "'");
    manifest.scratchBytes = target.natural("scratch_bytes", false);
    manifest.cpu = target.text("cpu", false);
    for (const ManifestReader &feature : target.list("features", false))
      manifest.features.push_back(feature.string());
  }
  parseGraph(reader, manifest);
  parseForecast(reader, manifest);
  parseMesh(reader, manifest);
  parseCommunicators(reader, manifest);
  parseLocations(reader, manifest);
  for (const ManifestReader &item : reader.list("functions"))
    manifest.functions.push_back(parseFunction(item, manifest));
  if (manifest.functions.empty())
    reader.report("no functions");
  if (std::string conflict; error.empty())
    if (conflict = findConflict(manifest); !conflict.empty())
      reader.report(conflict);
  if (!error.empty())
    return fail(error);
  return manifest;
}
