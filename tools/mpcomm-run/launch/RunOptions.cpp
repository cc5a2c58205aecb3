//===- RunOptions.cpp - the command line ----------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `optionTable` holds each option once: its name, what its value is called,
// what it does and where the value goes. Numbers are parsed whole or not at
// all; a typing error is answered with the nearest name.
//
//===----------------------------------------------------------------------===//

#include "launch/RunOptions.h"

#include "launch/Environment.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

using namespace mpcomm::run;

namespace {

using Store = std::function<Status(RunOptions &, const std::string &)>;

struct Option {
  const char *name;
  /// What the value is called in the help; null for a flag.
  const char *value;
  const char *help;
  Store store;
};

struct OptionGroup {
  const char *title;
  std::vector<Option> options;
};

template <typename T> std::optional<T> parseWhole(const std::string &text) {
  T value{};
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

Store text(std::string RunOptions::*member) {
  return [=](RunOptions &options, const std::string &value) -> Status {
    if (value.empty())
      return fail("the value is empty");
    options.*member = value;
    return {};
  };
}

Store flag(bool RunOptions::*member, bool value = true) {
  return [=](RunOptions &options, const std::string &) -> Status {
    options.*member = value;
    return {};
  };
}

template <typename T>
Store natural(T RunOptions::*member, uint64_t least = 0,
              uint64_t most = uint64_t(1) << 62) {
  return [=](RunOptions &options, const std::string &value) -> Status {
    std::optional<uint64_t> parsed = parseWhole<uint64_t>(value);
    if (!parsed || *parsed < least || *parsed > most)
      return fail("'", printable(value), "' is not a number from ", least,
                  " to ", most);
    options.*member = *parsed;
    return {};
  };
}

std::optional<double> parseFinite(const std::string &text) {
  std::optional<double> value = parseWhole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

template <typename T> Store real(T RunOptions::*member, bool positive) {
  return [=](RunOptions &options, const std::string &value) -> Status {
    std::optional<double> parsed = parseFinite(value);
    if (!parsed || (positive && *parsed <= 0))
      return fail("'", printable(value), "' is not a ",
                  positive ? "positive" : "finite", " number");
    options.*member = *parsed;
    return {};
  };
}

/// Seconds that clocks can count in nanoseconds.
Store seconds(double RunOptions::*member) {
  return [=](RunOptions &options, const std::string &value) -> Status {
    constexpr double most = 1e9;
    std::optional<double> parsed = parseFinite(value);
    if (!parsed || *parsed <= 0 || *parsed > most)
      return fail("'", printable(value), "' is not a number of seconds from ",
                  "more than 0 to ", most);
    options.*member = *parsed;
    return {};
  };
}

template <typename T, typename Member>
Store choice(Member RunOptions::*member,
             std::vector<std::pair<const char *, T>> choices) {
  return [=](RunOptions &options, const std::string &value) -> Status {
    std::string known;
    for (const auto &[name, choice] : choices) {
      if (value == name) {
        options.*member = choice;
        return {};
      }
      known += (known.empty() ? "" : ", ") + std::string(name);
    }
    return fail("'", printable(value), "' is not one of ", known);
  };
}

Status setHyperparameter(RunOptions &options, const std::string &value) {
  size_t equals = value.find('=');
  if (equals == std::string::npos || equals == 0)
    return fail("'", printable(value), "' is not NAME=VALUE");
  std::optional<double> number = parseFinite(value.substr(equals + 1));
  if (!number)
    return fail("'", printable(value.substr(equals + 1)),
                "' is not a finite number");
  options.hyperparameters[value.substr(0, equals)] = *number;
  return {};
}

const std::vector<OptionGroup> &optionTable() {
  using O = RunOptions;
  static const std::vector<OptionGroup> table = {
      {"Where it runs",
       {
           {"np", "N", "ranks to start here (default: the program's mesh)",
            natural(&O::ranks, 1, kMaxRanks)},
           {"comm", "auto|shm|mpi|gloo|nccl",
            "how ranks talk: shared memory, MPI, or TCP by Gloo; auto is mpi\n"
            "under mpirun or srun, gloo under torchrun, else shm. shm and,\n"
            "without a launcher, gloo start the ranks here. nccl is for\n"
            "--device cuda, a GPU for each rank: they meet as with auto, and\n"
            "NCCL moves what the program sends",
            choice<CommKind>(&O::comm, {{"auto", CommKind::Auto},
                                        {"shm", CommKind::Shm},
                                        {"mpi", CommKind::Mpi},
                                        {"gloo", CommKind::Gloo},
                                        {"nccl", CommKind::Nccl}})},
           {"device", "auto|host|cuda",
            "device that computes; auto is what the program is compiled for,\n"
            "and cuda what a .mlir is compiled for, too.\n"
            "Ranks of one machine share its GPUs in turn",
            choice<std::string>(
                &O::device,
                {{"auto", "auto"}, {"host", "host"}, {"cuda", "cuda"}})},
           {"timeout", "S",
            "seconds to wait for a rank that does not arrive (default 120)",
            seconds(&O::timeoutSeconds)},
           {"compile-options", "TEXT",
            "further arguments for mpcomm-compile, if given a .mlir",
            text(&O::compileOptions)},
       }},
      {"What it trains on",
       {
           {"weights", "FILE", "initial parameters and buffers (safetensors)",
            text(&O::weights)},
           {"data", "FILE",
            "dataset: one tensor for each batch argument, samples first",
            text(&O::data)},
           {"steps", "N",
            "step to train up to, counting those of a resumed run;\n"
            "0 trains nothing (default: one epoch)",
            natural(&O::steps)},
           {"epochs", "N", "the same in passes over the dataset",
            natural(&O::epochs)},
           {"seed", "N", "seed of the order of samples (default 0)",
            natural(&O::seed, 0, ~uint64_t(0))},
           {"no-shuffle", nullptr, "take samples in the order of the file",
            flag(&O::shuffle, false)},
       }},
      {"Hyperparameters",
       {
           {"lr", "X", "learning rate (default: the program's)",
            real(&O::lr, false)},
           {"lr-warmup", "N", "steps of linear warm-up", natural(&O::lrWarmup)},
           {"lr-schedule", "KIND",
            "constant, cosine or linear; the decay ends at --steps",
            choice<DecayKind>(&O::lrSchedule,
                              {{"constant", DecayKind::Constant},
                               {"cosine", DecayKind::Cosine},
                               {"linear", DecayKind::Linear}})},
           {"set", "NAME=X", "value of any hyperparameter; may be repeated",
            setHyperparameter},
       }},
      {"What it keeps",
       {
           {"checkpoint", "FILE",
            "write parameters, buffers and optimizer state here at the end",
            text(&O::checkpoint)},
           {"checkpoint-every", "N", "and after every N steps",
            natural(&O::checkpointEvery, 1)},
           {"checkpoint-keep", "N",
            "keep the last N checkpoints: the latest under its name, those\n"
            "before it as FILE.step-K (default 1)",
            natural(&O::checkpointKeep, 1)},
           {"resume", "FILE",
            "continue a checkpoint: same step, seed, samples, "
            "hyperparameters,\n"
            "where no option says otherwise, and hence same losses",
            text(&O::resume)},
           {"resume-anyway", nullptr,
            "go on with another graph, other optimizer constants, data, order\n"
            "or seed than the checkpoint was written with",
            flag(&O::resumeAnyway)},
           {"save-weights", "FILE",
            "write parameters and buffers alone at the end",
            text(&O::saveWeights)},
       }},
      {"Replicas",
       {
           {"check-replicas", "N",
            "compare the state of all ranks every N steps, beside the\n"
            "comparison before each checkpoint, which 0 leaves out, too",
            natural(&O::checkReplicas)},
       }},
      {"Evaluation",
       {
           {"evaluate", nullptr,
            "run the program's `evaluate` after training, print mean loss\n"
            "and top-1 accuracy; with --steps 0, evaluate only",
            flag(&O::evaluate)},
           {"eval-data", "FILE", "held-out dataset (default: --data)",
            text(&O::evalData)},
       }},
      {"What it shows",
       {
           {"log-every", "N", "steps between progress lines (default 10)",
            natural(&O::logEvery, 1)},
           {"log", "FILE",
            "one JSON object a step; on --resume the lines up to its step stay",
            text(&O::log)},
           {"trace", "FILE",
            "Chrome/Perfetto trace: one process a rank, one track a stream",
            text(&O::trace)},
           {"timeline", "FILE",
            "the step of median length, as mpcomm-report reads it",
            text(&O::timeline)},
           {"profile", "FILE",
            "median seconds of each kernel, product and collective, which\n"
            "the compiler takes by profile-file=",
            text(&O::profile)},
           {"flight-record", "FOLDER",
            "where a rank fails, and on SIGUSR1, each rank writes its last\n"
            "collectives, and how far they came, to FOLDER/rank-N.json",
            text(&O::flightRecord)},
           {"flight-collectives", "N",
            "how many collectives that are (default 64)",
            natural(&O::flightCollectives, 1, 1 << 20)},
           {"quiet", nullptr, "print errors only", flag(&O::quiet)},
       }},
      {"Numbers that are not finite",
       {
           {"check-numerics", nullptr,
            "look for NaN and infinity in loss and state after each step",
            flag(&O::checkNumerics)},
           {"allow-nonfinite", nullptr,
            "go on when the loss or the data is not finite",
            flag(&O::allowNonFinite)},
       }},
      {"Measuring a cluster",
       {
           {"calibrate", "FILE",
            "train nothing: measure what --np ranks reach over --comm, and\n"
            "write the cluster file, which the compiler takes by cluster=",
            text(&O::calibrate)},
           {"calibrate-seconds", "S", "about how long that takes (default 30)",
            real(&O::calibrateSeconds, true)},
           {"calibrate-block", "N",
            "N consecutive ranks are a machine: measure inside and across\n"
            "machines, and write two levels of links",
            natural(&O::calibrateBlock, 2)},
       }},
      {"Other",
       {
           {"help", nullptr, "print this text", flag(&O::help)},
           {"version", nullptr, "print the version", flag(&O::version)},
       }},
  };
  return table;
}

size_t editDistance(const std::string &a, const std::string &b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t next = std::min(
          {row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = row[j];
      row[j] = next;
    }
  }
  return row[b.size()];
}

const Option *findOption(const std::string &name) {
  for (const OptionGroup &group : optionTable())
    for (const Option &option : group.options)
      if (name == option.name)
        return &option;
  return nullptr;
}

Status unknownOption(const std::string &name) {
  std::string best;
  size_t distance = 3;
  for (const OptionGroup &group : optionTable())
    for (const Option &option : group.options)
      if (size_t d = editDistance(name.substr(0, 40), option.name);
          d < distance) {
        distance = d;
        best = option.name;
      }
  return fail("unknown option --", printable(name),
              best.empty() ? "" : ", did you mean --", best);
}

/// Combinations that make no sense whatever the program is.
Status checkTogether(const RunOptions &options) {
  if (!options.calibrate.empty()) {
    if (!options.program.empty())
      return fail("--calibrate runs no program, found '",
                  printable(options.program), "'");
    if (options.comm == CommKind::Nccl && options.device != "cuda")
      return fail("--comm nccl moves memory of GPUs: --calibrate needs "
                  "--device cuda for it");
    return {};
  }
  if (options.calibrateBlock)
    return fail("--calibrate-block needs --calibrate");
  if (options.program.empty())
    return fail("no program given; usage: mpcomm-run step.so [options]");
  if (options.steps && options.epochs)
    return fail("--steps and --epochs exclude each other");
  if (options.checkpointEvery && options.checkpoint.empty())
    return fail("--checkpoint-every needs --checkpoint FILE");
  if (options.checkpointKeep > 1 && options.checkpoint.empty())
    return fail("--checkpoint-keep needs --checkpoint FILE");
  if (!options.resume.empty() && !options.weights.empty())
    return fail("--resume and --weights exclude each other: a checkpoint "
                "holds the weights");
  if (options.resumeAnyway && options.resume.empty())
    return fail("--resume-anyway needs --resume FILE");
  if (options.lr && options.hyperparameters.count("lr"))
    return fail("--lr and --set lr= exclude each other");
  bool trainsNothing = options.steps == 0u || options.epochs == 0u;
  if (trainsNothing &&
      !(options.checkpoint.empty() && options.saveWeights.empty()))
    return fail("--checkpoint and --save-weights keep what was trained, and ",
                options.steps ? "--steps" : "--epochs", " 0 trains nothing");
  if (!options.evalData.empty() && !options.evaluate)
    return fail("--eval-data needs --evaluate");
  if (options.checkNumerics && options.allowNonFinite)
    return fail("--check-numerics and --allow-nonfinite exclude each other");
  return {};
}

} // namespace

Result<RunOptions>
mpcomm::run::parseOptions(const std::vector<std::string> &arguments) {
  RunOptions options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string &argument = arguments[i];
    if (argument == "-h") {
      options.help = true;
      continue;
    }
    if (argument.size() < 2 || argument[0] != '-') {
      if (!options.program.empty())
        return fail("one program expected, found a second: '",
                    printable(argument), "'");
      options.program = argument;
      continue;
    }
    size_t dashes = argument[1] == '-' ? 2 : 1;
    size_t equals = argument.find('=');
    std::string name = argument.substr(
        dashes, equals == std::string::npos ? equals : equals - dashes);
    const Option *option = findOption(name);
    if (!option)
      return unknownOption(name);
    std::string value;
    if (option->value && equals != std::string::npos)
      value = argument.substr(equals + 1);
    else if (option->value && i + 1 < arguments.size())
      value = arguments[++i];
    else if (option->value)
      return fail("--", name, " needs a value: --", name, " ", option->value);
    else if (equals != std::string::npos)
      return fail("--", name, " takes no value");
    if (Status status = option->store(options, value); status.failed())
      return fail("--", name, ": ", status.message());
  }
  if (options.help || options.version)
    return options;
  if (Status status = checkTogether(options); status.failed())
    return status;
  return options;
}

std::string mpcomm::run::helpText() {
  std::string help =
      "OVERVIEW: trains a compiled program on one or more ranks. A program\n"
      "file is code: run only one that you trust\n\n"
      "USAGE: mpcomm-run step.so [options]\n"
      "       mpcomm-run step.mlir --np N [options]   (compiles it first)\n"
      "       mpirun -np N mpcomm-run step.so [options]\n"
      "       mpcomm-run --calibrate cluster.json --np N [--comm gloo]\n"
      "       torchrun --no-python --nproc-per-node N mpcomm-run step.so "
      "[options]\n\n"
      "EXAMPLE: mpcomm-run step.so --np 2 --weights w.safetensors \\\n"
      "           --data d.safetensors --steps 100 --checkpoint "
      "c.safetensors\n";
  constexpr size_t column = 28;
  for (const OptionGroup &group : optionTable()) {
    help += "\n" + std::string(group.title) + ":\n";
    for (const Option &option : group.options) {
      std::string left = std::string("  --") + option.name;
      if (option.value)
        left += std::string(" ") + option.value;
      left.resize(std::max(left.size() + 2, column), ' ');
      help += left;
      for (const char *c = option.help; *c; ++c) {
        help += *c;
        if (*c == '\n')
          help.append(column, ' ');
      }
      help += "\n";
    }
  }
  help += "\nExit status: 0 success, 1 failure, 2 wrong command line, 128 + N "
          "stopped by signal N.\n";
  return help;
}
