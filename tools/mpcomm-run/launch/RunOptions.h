//===- RunOptions.h - the command line ------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the user asked for, checked as far as it can be without the program.
// One table drives both the parser and `--help`.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_LAUNCH_RUNOPTIONS_H
#define MPCOMM_RUN_LAUNCH_RUNOPTIONS_H

#include "data/DataFormat.h"
#include "data/Runtime.h"
#include "files/LearningRate.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mpcomm::run {

struct RunOptions {
  std::string program;
  std::string compileOptions;

  std::optional<uint64_t> ranks;
  std::string comm = "auto";
  std::string device = "auto";
  double timeoutSeconds = 120;

  std::string weights;
  /// Each of --data or of --tokens.
  DataFiles data, evalData;
  DataFormat format;
  std::optional<uint64_t> steps, epochs, seed;
  bool shuffle = true;
  bool evaluate = false;
  /// Steps between evaluations while it trains; 0: only after it.
  uint64_t evaluateEvery = 0;

  std::optional<double> lr;
  std::optional<uint64_t> lrWarmup;
  std::optional<DecayKind> lrSchedule;
  std::map<std::string, double> hyperparameters;

  std::string checkpoint, resume, saveWeights;
  /// Whatever else is not as in the checkpoint.
  bool resumeAnyway = false;
  uint64_t checkpointEvery = 0, checkpointKeep = 1;
  bool checkpointBackground = false;
  /// Steps between comparisons of replicas, beside those at checkpoints; 0:
  /// not even there.
  std::optional<uint64_t> checkReplicas;

  /// The plan to use after so many steps, "" for the first of the file, which
  /// is used until then.
  std::string variant;
  uint64_t variantAfter = 0;
  /// Which numerics another plan may have; "": it stays with its plan.
  std::string adapt;
  std::string planCommand;
  uint64_t adaptEvery = 10;
  /// What is seen of the network, as it is seen.
  std::string monitor;
  bool watchesNetwork() const { return !adapt.empty() || !monitor.empty(); }

  uint64_t logEvery = 10;
  std::string log, tensorboard, trace, timeline, profile;
  bool quiet = false;
  /// Folder of the flight records, and how many collectives each keeps.
  std::string flightRecord;
  uint64_t flightCollectives = 64;
  bool checkNumerics = false, allowNonFinite = false;

  /// Measure instead of training, for about so long.
  std::string calibrate;
  double calibrateSeconds = 30;
  /// Consecutive ranks that inner links join; 0: there is one level.
  uint64_t calibrateBlock = 0;

  bool help = false, version = false;
};

/// Parses the arguments after the program's name. `--name value` and
/// `--name=value` are the same.
Expected<RunOptions> parseOptions(const std::vector<std::string> &arguments);

/// The text of `--help`.
std::string helpText();

} // namespace mpcomm::run

#endif // MPCOMM_RUN_LAUNCH_RUNOPTIONS_H
