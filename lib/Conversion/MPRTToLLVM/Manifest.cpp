//===- Manifest.cpp - what a program says about itself --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Manifest.h"
#include "Descriptors.h"
#include "mpcomm/Analysis/StepModel/ProgramModel.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPRT/IR/ForecastAttr.h"
#include "mpcomm/Dialect/MPRT/IR/GraphAttr.h"
#include "mpcomm/Runtime/mprt.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace mlir;
using namespace mpcomm;
using llvm::json::Array;
using llvm::json::Object;

static Array shapeOf(ShapedType type) {
  Array shape;
  for (int64_t size : type.getShape())
    shape.push_back(size);
  return shape;
}

/// Of kGraphAttr.
static Object toObject(DictionaryAttr graph) {
  auto text = [](Attribute value) { return cast<StringAttr>(value).str(); };
  Array optimizer;
  for (Attribute entry : graph.getAs<ArrayAttr>(mprt::kGraphOptimizer))
    optimizer.push_back(text(entry));
  Object options;
  for (NamedAttribute option : graph.getAs<DictionaryAttr>(mprt::kGraphOptions))
    options[option.getName().getValue()] = text(option.getValue());
  return Object{{"digest", text(graph.get(mprt::kGraphDigest))},
                {"structure", text(graph.get(mprt::kGraphStructure))},
                {"batch", graph.getAs<IntegerAttr>(mprt::kGraphBatch).getInt()},
                {"optimizer", std::move(optimizer)},
                {"options", std::move(options)}};
}

/// Of kForecastAttr.
static Object forecastOf(DictionaryAttr forecast) {
  auto list = [&](StringRef name) {
    Array values;
    for (double value : forecast.getAs<DenseF64ArrayAttr>(name).asArrayRef())
      values.push_back(value);
    return values;
  };
  return Object{
      {"cluster",
       forecast.getAs<StringAttr>(mprt::kForecastCluster).getValue()},
      {"link", forecast.getAs<StringAttr>(mprt::kForecastLink).getValue()},
      {"compute",
       forecast.getAs<FloatAttr>(mprt::kForecastCompute).getValueAsDouble()},
      {"bandwidth", list(mprt::kForecastBandwidth)},
      {"step", list(mprt::kForecastStep)},
      {"communication", list(mprt::kForecastCommunication)}};
}

Manifest::Manifest(ModuleOp module, StringRef device, StringRef cpu,
                   StringRef features)
    : module(module) {
  root["abi"] = MPRT_ABI_VERSION;
  root["producer"] = "mpcomm " MPCOMM_VERSION;
  root["program"] = module.getName().value_or("program");
  Array featureList;
  for (StringRef feature : llvm::split(features, ','))
    if (!feature.empty())
      featureList.push_back(feature.str());
  root["target"] = Object{{"device", device.str()},
                          {"cpu", cpu.str()},
                          {"features", std::move(featureList)}};
  if (auto graph = module->getAttrOfType<DictionaryAttr>(mprt::kGraphAttr))
    root["graph"] = toObject(graph);
  if (auto forecast =
          module->getAttrOfType<DictionaryAttr>(mprt::kForecastAttr))
    root["forecast"] = forecastOf(forecast);
  Object mesh{{"name", ""}, {"axes", Array()}};
  auto name = module->getAttrOfType<FlatSymbolRefAttr>(mprt::kMeshAttr);
  for (auto op : module.getOps<MeshOp>()) {
    if (name && op.getSymName() != name.getValue())
      continue;
    Array axes;
    for (auto [axis, size] : llvm::zip(op.getAxisNames(), op.getAxisSizes()))
      axes.push_back(
          Object{{"name", cast<StringAttr>(axis).getValue()}, {"size", size}});
    mesh = Object{{"name", op.getSymName()}, {"axes", std::move(axes)}};
    break;
  }
  root["mesh"] = std::move(mesh);
  for (auto program : module.getOps<ProgramOp>())
    if (auto schedule = program->getAttrOfType<StringAttr>(kScheduleAttr))
      root["schedule"] = schedule.getValue();
  auto channels = module->getAttrOfType<DenseI64ArrayAttr>(mprt::kChannelsAttr);
  Array communicators;
  if (auto list = module->getAttrOfType<ArrayAttr>(mprt::kCommunicatorsAttr))
    for (auto [i, entry] : llvm::enumerate(list)) {
      Array axes;
      for (Attribute axis : cast<ArrayAttr>(entry))
        axes.push_back(cast<StringAttr>(axis).getValue());
      Object communicator{{"axes", std::move(axes)}};
      if (channels && i < size_t(channels.size()) && channels[i] != 0)
        communicator["channel"] = channels[i];
      communicators.push_back(std::move(communicator));
    }
  root["communicators"] = std::move(communicators);
}

std::pair<Array, std::string> Manifest::getRanks(func::FuncOp function) {
  for (auto program : module.getOps<ProgramOp>()) {
    auto mesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(
        program, program.getMeshAttr());
    Array all;
    for (auto [i, name] : llvm::enumerate(program.getFunctions())) {
      if (cast<FlatSymbolRefAttr>(name).getAttr() != function.getSymNameAttr())
        continue;
      Object coordinates;
      int64_t rest = i; // row-major over the program's axes
      for (Attribute entry : llvm::reverse(program.getAxes())) {
        StringRef axis = cast<StringAttr>(entry).getValue();
        int64_t size = *mesh.getAxisSize(axis);
        coordinates[axis] = rest % size;
        rest /= size;
      }
      all.push_back(std::move(coordinates));
    }
    if (!all.empty())
      return {std::move(all), program.getSymName().str()};
  }
  return {Array(), function.getSymName().str()};
}

/// Ranks along the axes of `sharding` that are `local`.
static int64_t countLocal(ShardingAttr sharding, ModuleOp module) {
  auto mesh = module.lookupSymbol<MeshOp>(sharding.getMesh());
  int64_t ranks = 1;
  for (auto axis : sharding.getLocal().getAsRange<AxisRefAttr>())
    ranks *= mesh ? mesh.getAxisSize(axis.getName().getValue()).value_or(1) : 1;
  return ranks;
}

void Manifest::addSharding(Object &tensor, ShapedType type,
                           DictionaryAttr attrs) {
  auto sharding =
      attrs ? attrs.getAs<ShardingAttr>(kShardingAttr) : ShardingAttr();
  auto whole = attrs ? attrs.getAs<TypeAttr>(kGlobalTypeAttr) : TypeAttr();
  auto listOf = [](ArrayAttr axes) {
    Array names;
    for (auto axis : axes.getAsRange<AxisRefAttr>())
      names.push_back(axis.getName().getValue());
    return names;
  };
  if (sharding && !sharding.getLocal().empty()) {
    // What ranks have of their own lies in files one behind the other.
    Array all = shapeOf(type);
    all.insert(all.begin(), countLocal(sharding, module));
    tensor["shape"] = Array{type.getNumElements()};
    tensor["global_shape"] = std::move(all);
    tensor["sharding"] =
        Object{{"flat", listOf(sharding.getLocal())}, {"local", true}};
  } else if (sharding && whole) {
    tensor["global_shape"] = shapeOf(cast<ShapedType>(whole.getValue()));
    tensor["sharding"] = Object{{"flat", listOf(sharding.getFlat())}};
  }
}

LogicalResult Manifest::addFunction(func::FuncOp function, StringRef entry,
                                    int64_t events, Array collectives,
                                    StreamCallCounter &counter) {
  auto results = function->getAttrOfType<ArrayAttr>(mprt::kResultsAttr);
  auto arena = function->getAttrOfType<IntegerAttr>(mprt::kArenaBytesAttr);
  if (!results || !arena)
    return function.emitOpError()
           << "expects '" << mprt::kResultsAttr << "' and '"
           << mprt::kArenaBytesAttr
           << "': run mpcomm-bufferize-step and mpcomm-plan-memory first";
  unsigned numOwn = 0; // results with buffers of their own
  for (Attribute result : results)
    numOwn += cast<DictionaryAttr>(result)
                  .getAs<IntegerAttr>(mprt::kResultArgument)
                  .getInt() < 0;
  unsigned numArguments = function.getNumArguments();
  if (numArguments < numOwn + 1)
    return function.emitOpError()
           << "has fewer arguments than '" << mprt::kResultsAttr << "' says";
  numArguments -= numOwn + 1; // and the arena

  Array arguments;
  int64_t bytes[2] = {0, 0}; // parameters, optimizer state
  for (unsigned i = 0; i < numArguments; ++i) {
    auto type = cast<MemRefType>(function.getArgumentTypes()[i]);
    StringRef dtype = manifestType(type.getElementType());
    if (dtype.empty())
      return function.emitOpError() << "argument #" << i << " has elements of "
                                    << "type " << type.getElementType()
                                    << ", which the runtime does not know";
    auto role = function.getArgAttrOfType<RoleAttr>(i, kRoleAttr);
    auto name = function.getArgAttrOfType<StringAttr>(i, kNameAttr);
    Object argument{
        {"name", name ? name.getValue().str() : "arg" + std::to_string(i)},
        {"role", role ? stringifyRole(role.getValue()) : StringRef("batch")},
        {"dtype", dtype},
        {"shape", shapeOf(type)},
        {"access",
         function.getArgAttr(i, mprt::kUpdateAttr) ? "update" : "read"}};
    if (Attribute value = function.getArgAttr(i, kDefaultAttr)) {
      auto number = dyn_cast<FloatAttr>(value);
      double initial =
          number ? number.getValueAsDouble()
                 : static_cast<double>(cast<IntegerAttr>(value).getInt());
      if (!std::isfinite(initial))
        return function.emitOpError()
               << "argument #" << i << " has a default that is not finite, "
               << "which the runtime cannot be told";
      argument["default"] = initial;
    }
    if (auto source = function.getArgAttrOfType<StringAttr>(i, kCopyOfAttr))
      argument["copy_of"] = source.getValue().str();
    if (auto added = function.getArgAttrOfType<StringAttr>(i, kAddedAttr)) {
      argument["added"] = true;
      if (added == kTransientState)
        argument["transient"] = true;
    }
    if (auto range =
            function.getArgAttrOfType<DenseI64ArrayAttr>(i, kRangeAttr))
      argument["range"] = Array{range[0], range[1]};
    addSharding(argument, type, function.getArgAttrDict(i));
    if (role && role.getValue() == Role::Parameter)
      bytes[0] += detail::countBytes(type);
    if (role && role.getValue() == Role::OptimizerState)
      bytes[1] += detail::countBytes(type);
    arguments.push_back(std::move(argument));
  }
  Array resultList;
  for (auto [i, entry] : llvm::enumerate(results)) {
    auto attrs = cast<DictionaryAttr>(entry);
    auto type = cast<RankedTensorType>(
        attrs.getAs<TypeAttr>(mprt::kResultType).getValue());
    auto role = attrs.getAs<RoleAttr>(kRoleAttr);
    auto name = attrs.getAs<StringAttr>(kNameAttr);
    int64_t argument = attrs.getAs<IntegerAttr>(mprt::kResultArgument).getInt();
    StringRef dtype = manifestType(type.getElementType());
    if (dtype.empty())
      return function.emitOpError() << "result #" << i << " has elements of "
                                    << "type " << type.getElementType()
                                    << ", which the runtime does not know";
    Object result{
        {"name", name ? name.getValue().str() : "result" + std::to_string(i)},
        {"role", role ? stringifyRole(role.getValue()) : StringRef("output")},
        {"dtype", dtype},
        {"shape", shapeOf(type)},
        {"argument", argument < 0 ? llvm::json::Value(nullptr)
                                  : llvm::json::Value(argument)}};
    if (auto targets = attrs.getAs<StringAttr>(kTargetsAttr))
      result["targets"] = targets.getValue();
    addSharding(result, type, attrs);
    resultList.push_back(std::move(result));
  }
  auto buckets = function->getAttrOfType<IntegerAttr>(mprt::kBucketBytesAttr);
  Object memory{{"parameters", bytes[0]},
                {"optimizer_state", bytes[1]},
                {"buckets", buckets ? buckets.getInt() : 0},
                {"arena", arena.getInt()}};
  if (auto parts =
          function->getAttrOfType<DictionaryAttr>(mprt::kArenaBytesByKindAttr))
    for (NamedAttribute part : parts)
      memory[part.getName().getValue()] =
          cast<IntegerAttr>(part.getValue()).getInt();
  auto [coordinates, name] = getRanks(function);
  Object entryPoint{{"name", name},
                    {"entry", entry.str()},
                    {"arena_bytes", arena.getInt()},
                    {"events", events},
                    {"arguments", std::move(arguments)},
                    {"results", std::move(resultList)},
                    {"collectives", std::move(collectives)},
                    {"memory", std::move(memory)}};
  if (!coordinates.empty())
    entryPoint["coordinates"] = std::move(coordinates);
  StreamCalls calls = counter.count(function);
  entryPoint["calls"] = Object{{"kernels", calls.kernels},
                               {"products", calls.products},
                               {"windows", calls.windows},
                               {"copies", calls.copies}};
  if (Array passes = counter.passes(function); !passes.empty())
    entryPoint["passes"] = std::move(passes);
  functions.push_back(std::move(entryPoint));
  return success();
}

void Manifest::setLocations(Array locations) {
  root["locations"] = std::move(locations);
}

void Manifest::setScratch(int64_t bytes) {
  (*root.getObject("target"))["scratch_bytes"] = bytes;
}

std::string Manifest::str() const {
  Object whole(root);
  whole["functions"] = Array(functions);
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::formatv("{0:2}", llvm::json::Value(std::move(whole)));
  return text;
}
