//===- Rank.cpp - one process among the ranks of a run --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Thin: everything that takes time is in the runtime.
//
//===----------------------------------------------------------------------===//

#include "session/Rank.h"

#include "session/Environment.h"

#include <algorithm>
#include <cstdlib>

using namespace mprt;

Error Rank::openDevice(const Manifest &manifest, const mprt_image *images) {
  mprt::DeviceOptions options;
  options.rank = index();
  options.localRank = static_cast<unsigned>(
      localRankFromEnvironment().value_or(index() % localRanks()));
  options.communicators = static_cast<uint32_t>(manifest.communicators.size());
  options.images = images;
  options.scratchBytes = manifest.scratchBytes;
  if (Error status = World::openDevice(manifest.device, options);
      status.failed())
    return status.withContext("device " + manifest.device + ": ");
  return {};
}

void Rank::prepareNccl(const Manifest &manifest) {
  // Two GPUs that have no room for the kernels of both of two communicators may
  // each run the one that the other waits for. Ranks that run the same run it
  // in one order; others have been proved to match without one.
  if (std::all_of(
          manifest.functions.begin(), manifest.functions.end(),
          [](const ManifestFunction &f) { return f.coordinates.empty(); }))
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0);
}

Error Rank::openNccl() {
  if (Error status = openMover(*mprt::findBackend("nccl")); status.failed())
    return status.withContext("comm nccl: ");
  return {};
}

Error Rank::createContext(const Manifest &manifest, uint32_t events,
                          uint32_t traced, uint32_t flights) {
  mprt::MeshOptions mesh;
  for (const ManifestAxis &axis : manifest.axes)
    mesh.axisSizes.push_back(static_cast<unsigned>(axis.size));
  // Those of one group and several channels are several.
  for (const ManifestCommunicator &wanted : manifest.communicators)
    mesh.communicators.emplace_back(wanted.axes.begin(), wanted.axes.end());
  mprt::ContextOptions options;
  options.events = events;
  options.traceCapacity = traced;
  options.flightCapacity = flights;
  // Ranks that measure call what they call as often as they like.
  return World::createContext(options, mesh,
                              /*stepsMatch=*/!manifest.functions.empty());
}

Expected<std::vector<std::string>> Rank::gatherText(const std::string &mine,
                                                    const char *what) {
  uint64_t bytes = mine.size();
  std::vector<uint64_t> all(size());
  if (Error status = gather(&bytes, all.data(), sizeof(bytes)); status.failed())
    return status;
  std::vector<std::string> texts(size());
  texts[index()] = mine;
  for (uint64_t from = 1; from < size(); ++from) {
    Error status;
    if (all[from] && index() == 0) {
      texts[from].resize(all[from]);
      status = receive(from, texts[from].data(), all[from], what);
    } else if (all[from] && index() == from) {
      status = send(0, mine.data(), bytes, what);
    }
    if (status.failed())
      return status;
  }
  return texts;
}

Error Rank::agree(const Error &mine) {
  return mprt::agree(index(), size(), mine,
                     [this](const void *own, void *all, uint64_t bytes) {
                       return gather(own, all, bytes);
                     });
}

Error Rank::describeFailure(const std::string &function, int32_t status) const {
  mprt::Error error = context().error();
  if (error)
    return error.withContext(function + ": ");
  return makeError(MPRT_INTERNAL, "rank ", index(), ": ", function,
                   " returned status ", status,
                   " without an error of the runtime");
}
