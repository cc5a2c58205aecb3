//===- Profile.cpp - measured seconds of ops ------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The JSON form, schema mpcomm-profile-1, and how ops are named in it.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/CostModel/Profile.h"
#include "Support/StrictJSON.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "mpcomm/Analysis/Cluster/Cluster.h"

using namespace mlir;
using namespace mpcomm;
namespace json = llvm::json;

static constexpr StringLiteral kSchema = "mpcomm-profile-1";

static ProfileEntry readEntry(const json::Value &value, std::string path,
                              std::string &error) {
  ProfileEntry entry;
  ObjectReader reader(value, path, error);
  reader.read("locations", entry.locations, /*isOptional=*/true);
  reader.read("op", entry.op, /*isOptional=*/true);
  reader.read("shapes", entry.shapes, /*isOptional=*/true);
  reader.read("seconds", entry.seconds);
  reader.finish();
  if (error.empty() && entry.locations.empty() && entry.op.empty())
    error = path + ": expected 'locations' or 'op'";
  if (error.empty() && !(entry.seconds >= 0))
    ObjectReader::fail(error, path + ".seconds",
                       "a number that is not negative", entry.seconds);
  if (error.empty() && entry.seconds > Cluster::mostSeconds)
    ObjectReader::fail(error, path + ".seconds",
                       "at most " + llvm::Twine(int64_t(Cluster::mostSeconds)),
                       entry.seconds);
  return entry;
}

llvm::Expected<Profile> mpcomm::parseProfile(StringRef text, StringRef file) {
  Profile profile;
  llvm::Error failure = readDocument(
      text, file, kSchema, [&](ObjectReader &reader, std::string &error) {
        reader.read("name", profile.name, /*isOptional=*/true);
        reader.read("cluster", profile.cluster, /*isOptional=*/true);
        reader.read("ranks", profile.ranks, /*isOptional=*/true);
        reader.read("steps", profile.steps, /*isOptional=*/true);
        reader.readArray(
            "entries", false, [&](const json::Value &value, std::string path) {
              profile.entries.push_back(readEntry(value, path, error));
            });
      });
  if (failure)
    return std::move(failure);
  return profile;
}

llvm::Expected<Profile> mpcomm::loadProfile(StringRef path) {
  llvm::Expected<std::string> text = readFile(path);
  if (!text)
    return text.takeError();
  return parseProfile(*text, path);
}

std::string mpcomm::toJson(const Profile &profile) {
  std::string text;
  llvm::raw_string_ostream os(text);
  json::OStream json(os, /*IndentSize=*/2);
  json.object([&] {
    json.attribute("schema", kSchema);
    json.attribute("name", profile.name);
    json.attribute("cluster", profile.cluster);
    json.attribute("ranks", profile.ranks);
    json.attribute("steps", profile.steps);
    json.attributeArray("entries", [&] {
      for (const ProfileEntry &entry : profile.entries)
        json.object([&] {
          if (!entry.locations.empty())
            json.attributeArray("locations", [&] {
              for (const std::string &location : entry.locations)
                json.value(location);
            });
          if (!entry.op.empty())
            json.attribute("op", entry.op);
          if (!entry.shapes.empty())
            json.attribute("shapes", entry.shapes);
          json.attribute("seconds", entry.seconds);
        });
    });
  });
  return text + "\n";
}

void mpcomm::forEachPlace(Location location,
                          llvm::function_ref<void(StringRef)> visit) {
  if (auto name = dyn_cast<NameLoc>(location))
    return visit(name.getName().getValue());
  if (auto fused = dyn_cast<FusedLoc>(location)) {
    for (Location part : fused.getLocations())
      forEachPlace(part, visit);
    return;
  }
  if (auto call = dyn_cast<CallSiteLoc>(location))
    return forEachPlace(call.getCallee(), visit);
  if (auto line = dyn_cast<FileLineColLoc>(location)) {
    std::string text =
        (line.getFilename().getValue() + ":" + Twine(line.getLine())).str();
    visit(text);
    visit(text + ":" + std::to_string(line.getColumn()));
  }
}

std::string mpcomm::getShapes(Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto print = [&](Type type) {
    auto shaped = dyn_cast<ShapedType>(type);
    if (!shaped || !shaped.hasRank()) {
      os << type;
      return;
    }
    for (int64_t size : shaped.getShape())
      if (ShapedType::isDynamic(size))
        os << "?x";
      else
        os << size << 'x';
    os << shaped.getElementType();
  };
  llvm::interleave(op->getOperandTypes(), os, print, ",");
  os << "->";
  llvm::interleave(op->getResultTypes(), os, print, ",");
  return text;
}
