//===- RunOptions.cpp - the command line ----------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CommandLine holds each option once: its name, what its value is called, what
// it does and where the value goes. CLI11 parses and prints them. Numbers are
// ours: CLI11 reads 010 as 8, and doubles with two roundings.
//
//===----------------------------------------------------------------------===//

#include "launch/RunOptions.h"

#include "comm/Registry.h"
#include "files/Manifest.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

using namespace mpcomm::run;

namespace {

/// Takes a value, or says what it is not.
using Store = std::function<std::string(const std::string &)>;

template <typename T> std::optional<T> parseWhole(const std::string &text) {
  T value{};
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

Store text(std::string &target) {
  return [&](const std::string &value) {
    target = value;
    return value.empty() ? "a text" : "";
  };
}

/// After `--data=`, without a value, CLI11 takes the next option for it.
Store file(std::string &target) {
  return [&](const std::string &value) {
    target = value;
    return value.empty() || value.starts_with("--") ? "a name" : "";
  };
}

/// Another file, or pattern, of a data set.
Store moreFiles(DataFiles &target, bool areTokens) {
  return [&, areTokens](const std::string &value) {
    target.areTokens = areTokens;
    target.paths.push_back(value);
    return value.empty() || value.starts_with("--") ? "a name" : "";
  };
}

/// Calls `take` with each text between commas.
void split(const std::string &list,
           const std::function<void(const std::string &)> &take) {
  for (size_t begin = 0, end; begin <= list.size(); begin = end + 1) {
    end = std::min(list.find(',', begin), list.size());
    take(list.substr(begin, end - begin));
  }
}

Store numbers(std::vector<double> &target, bool mayBeZero) {
  return [&, mayBeZero](const std::string &value) -> std::string {
    bool good = true;
    target.clear();
    split(value, [&](const std::string &part) {
      std::optional<double> number = parseWhole<double>(part);
      good &= number && std::isfinite(*number) && (mayBeZero || *number > 0);
      target.push_back(number.value_or(0));
    });
    return good        ? ""
           : mayBeZero ? "a list of finite numbers"
                       : "a list of positive numbers";
  };
}

/// NAME,NAME+1
Store shiftedNames(std::vector<std::pair<std::string, uint64_t>> &target) {
  return [&](const std::string &value) {
    bool good = true;
    target.clear();
    split(value, [&](const std::string &part) {
      bool shifted = part.ends_with("+1");
      target.emplace_back(part.substr(0, part.size() - (shifted ? 2 : 0)),
                          shifted);
      good &= !target.back().first.empty();
    });
    return good ? "" : "a list of names, each with +1 or without";
  };
}

template <typename T>
Store natural(T &target, uint64_t least = 0,
              uint64_t most = uint64_t(1) << 62) {
  return [=, &target](const std::string &value) -> std::string {
    std::optional<uint64_t> parsed = parseWhole<uint64_t>(value);
    if (!parsed || *parsed < least || *parsed > most)
      return mprt::concat("a number from ", least, " to ", most);
    target = *parsed;
    return "";
  };
}

/// A finite number of which `isGood` holds.
template <typename T>
Store real(
    T &target, const char *expected = "a finite number",
    bool (*isGood)(double) = [](double) { return true; }) {
  return [=, &target](const std::string &value) -> std::string {
    std::optional<double> parsed = parseWhole<double>(value);
    if (!parsed || !std::isfinite(*parsed) || !isGood(*parsed))
      return expected;
    target = *parsed;
    return "";
  };
}

template <typename T, typename Target>
Store choice(Target &target, std::vector<std::pair<const char *, T>> choices) {
  return [=, &target](const std::string &value) {
    std::string known;
    for (const auto &[name, choice] : choices) {
      if (value == name) {
        target = choice;
        return std::string();
      }
      known += (known.empty() ? "" : ", ") + std::string(name);
    }
    return "one of " + known;
  };
}

Store assignment(std::map<std::string, double> &target) {
  return [&](const std::string &value) -> std::string {
    size_t equals = value.find('=');
    double number = 0;
    if (equals == std::string::npos || equals == 0 ||
        !real(number)(value.substr(equals + 1)).empty())
      return "NAME=X with a finite number X";
    target[value.substr(0, equals)] = number;
    return "";
  };
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

class CommandLine {
public:
  explicit CommandLine(RunOptions &options);

  /// What is wrong with the arguments; empty where nothing is.
  std::string parse(const std::vector<std::string> &arguments);
  std::string help() const { return app.help(); }

private:
  CLI::Option *add(const std::string &name, const char *value, const char *help,
                   const Store &store) {
    auto take = [=](const std::string &given) {
      if (std::string expected = store(given); !expected.empty())
        throw CLI::ValidationError(name, "'" + printable(given) + "' is not " +
                                             expected);
    };
    // Of several values of one option the last one counts.
    return app.add_option_function<std::string>(name, take, help)
        ->type_name(value)
        ->option_text(value)
        ->trigger_on_parse()
        ->group(group);
  }
  CLI::Option *add(const std::string &name, const char *help, bool &target,
                   bool value = true) {
    return app.add_flag_callback(
                  name, [=, &target] { target = value; }, help)
        ->option_text(" ")
        ->group(group);
  }
  // A group of options or two each, in the order of the help.
  void addPlace(RunOptions &o);
  void addTraining(RunOptions &o);
  void addData(RunOptions &o);
  void addHyperparameters(RunOptions &o);
  void addCheckpoints(RunOptions &o);
  void addEvaluation(RunOptions &o);
  void addAdapting(RunOptions &o);
  void addOutput(RunOptions &o);
  void addCalibration(RunOptions &o);

  /// Of arguments that are neither options nor the program.
  std::string describeRest() const;

  RunOptions &options;
  CLI::App app;
  /// Of the options that are added next.
  std::string group = "Options";
};

void CommandLine::addPlace(RunOptions &o) {
  group = "Where it runs";
  std::vector<std::pair<const char *, std::string>> communicators = {
      {"auto", "auto"}};
  std::string names = "auto";
  for (const mprt::Backend *backend : mprt::backends()) {
    communicators.emplace_back(backend->name, backend->name);
    names += std::string("|") + backend->name;
  }
  add("--np", "N", "ranks to start here (default: the program's mesh)",
      natural(o.ranks, 1, maxRanks));
  add("--comm", names.c_str(),
      "communicator: shared memory, MPI, or TCP by Gloo. auto is mpi\n"
      "under mpirun or srun, gloo under torchrun, else shm. With shm,\n"
      "and with gloo without a launcher, mpcomm-run starts the ranks.\n"
      "nccl requires --device cuda and one GPU per rank; ranks meet as\n"
      "with auto",
      choice<std::string>(o.comm, communicators));
  add("--device", "auto|host|cuda",
      "device that computes; auto is the device for which the program\n"
      "is compiled. With cuda, a .mlir is compiled for cuda. Ranks are\n"
      "assigned to the GPUs of a machine in turn",
      choice<std::string>(
          o.device, {{"auto", "auto"}, {"host", "host"}, {"cuda", "cuda"}}));
  add("--timeout", "S",
      "seconds to wait for a rank that does not arrive (default 120)",
      real(o.timeoutSeconds, "a number of seconds from more than 0 to 1e+09",
           [](double x) { return x > 0 && x <= 1e9; }));
  add("--compile-options", "TEXT",
      "further arguments of mpcomm-compile, for a .mlir:\n"
      "\"--options='mesh=pp:2 micro-batches=4'\"",
      text(o.compileOptions));
}

void CommandLine::addTraining(RunOptions &o) {
  group = "Training";
  add("--weights", "FILE",
      "initial parameters and buffers: safetensors, or the *.index.json\n"
      "of a model in several such files",
      file(o.weights));
  add("--data", "FILE",
      "dataset: one tensor for each batch argument, samples first, in\n"
      ".safetensors; or [NAME=]FILE.npy, one file per argument. Given\n"
      "several times, or as a quoted pattern, files follow one another",
      moreFiles(o.data, false));
  add("--tokens", "FILE",
      "dataset of tokens without a header; may be repeated, or a pattern",
      moreFiles(o.data, true));
  add("--steps", "N",
      "last step, including the steps of a resumed run;\n"
      "0: no training (default: one epoch)",
      natural(o.steps));
  add("--epochs", "N", "the same in passes over the dataset",
      natural(o.epochs));
  add("--seed", "N", "seed of the order of samples (default 0)",
      natural(o.seed, 0, ~uint64_t(0)));
  add("--no-shuffle", "take samples in the order of the file", o.shuffle,
      false);
  add("--last-batch", "drop|wrap",
      "samples of an epoch that do not fill a global batch: leave them\n"
      "out, or fill it with the first of the epoch (default drop)",
      choice<LastBatch>(o.format.lastBatch, {{"drop", LastBatch::Drop},
                                             {"wrap", LastBatch::Wrap}}));
}

void CommandLine::addData(RunOptions &o) {
  group = "Data";
  add("--context", "N",
      "tokens per sample (default: as long as the arguments are)",
      natural(o.format.context, 1));
  add("--token-type", "uint16|uint32", "type of --tokens (default uint16)",
      choice<uint64_t>(o.format.tokenBytes, {{"uint16", 2}, {"uint32", 4}}));
  add("--token-arguments", "NAMES",
      "batch arguments that get the tokens, and with +1 those that\n"
      "follow: input_ids,labels+1 (default: the one argument, or of two\n"
      "y, target or targets gets those that follow)",
      shiftedNames(o.format.tokenArguments));
  add("--image-mean", "M,...",
      "uint8 data for float arguments is (byte / 255 - M) / S, with a\n"
      "number for each channel, or one for all",
      numbers(o.format.imageMean, true));
  add("--image-std", "S,...", "see --image-mean",
      numbers(o.format.imageStd, false));
  add("--check-data", "start|use",
      "look for values that are out of range or not finite before the\n"
      "first step, or when a sample is used (default: start up to 4 GiB)",
      choice<bool>(o.format.readsAtStart, {{"start", true}, {"use", false}}));
}

void CommandLine::addHyperparameters(RunOptions &o) {
  group = "Hyperparameters";
  add("--lr", "X", "learning rate (default: the program's)",
      real(o.lr, "a finite number of at least 0",
           [](double x) { return x >= 0; }));
  add("--lr-warmup", "N", "steps of linear warm-up", natural(o.lrWarmup));
  add("--lr-schedule", "KIND",
      "constant, cosine or linear; the decay ends at --steps",
      choice<DecayKind>(o.lrSchedule, {{"constant", DecayKind::Constant},
                                       {"cosine", DecayKind::Cosine},
                                       {"linear", DecayKind::Linear}}));
  add("--set", "NAME=X", "value of any hyperparameter; may be repeated",
      assignment(o.hyperparameters));
}

void CommandLine::addCheckpoints(RunOptions &o) {
  group = "Checkpoints";
  add("--checkpoint", "FILE",
      "write parameters, buffers and optimizer state here at the end",
      file(o.checkpoint));
  add("--checkpoint-every", "N", "and after every N steps",
      natural(o.checkpointEvery, 1));
  add("--checkpoint-keep", "N",
      "keep the last N checkpoints: the latest as FILE, earlier ones\n"
      "as FILE.step-K (default 1)",
      natural(o.checkpointKeep, 1));
  add("--checkpoint-background",
      "write checkpoints before the last one while training continues,\n"
      "from a copy that each rank takes of what it writes",
      o.checkpointBackground);
  add("--resume", "FILE",
      "continue a checkpoint with its step, seed, order of samples and\n"
      "hyperparameters, unless an option overrides them",
      file(o.resume));
  add("--resume-anyway",
      "resume even if graph, optimizer constants, data, order or seed\n"
      "differ from those of the checkpoint",
      o.resumeAnyway);
  add("--save-weights", "FILE", "write only parameters and buffers at the end",
      file(o.saveWeights));

  group = "Replicas";
  add("--check-replicas", "N",
      "compare the state of all ranks every N steps, in addition to\n"
      "before each checkpoint; 0: not before checkpoints either",
      natural(o.checkReplicas));
}

void CommandLine::addEvaluation(RunOptions &o) {
  group = "Evaluation";
  add("--evaluate",
      "run the program's `evaluate` after training and print mean loss\n"
      "and top-1 accuracy; with --steps 0, only evaluate",
      o.evaluate);
  add("--evaluate-every", "N", "the same, and after every N steps",
      [&o](const std::string &value) {
        o.evaluate = true;
        return natural(o.evaluateEvery, 1)(value);
      });
  add("--eval-data", "FILE", "held-out dataset (default: --data)",
      moreFiles(o.evalData, false));
  add("--eval-tokens", "FILE", "the same of tokens (default: --tokens)",
      moreFiles(o.evalData, true));
}

void CommandLine::addAdapting(RunOptions &o) {
  group = "Adapting";
  add("--variant", "NAME",
      "plan to use, of those that mpcomm-compile --variant has put into\n"
      "the program (default: the program itself)",
      text(o.variant));
  add("--variant-after", "N",
      "with --variant: first this many steps of the program itself, as a\n"
      "warm-up of compression (default 0)",
      natural(o.variantAfter, 0));
  add("--adapt", "exact|bf16|f16|i8|...",
      "go on with whichever plan of the program is fastest on the\n"
      "network as it is: those that compute the same, or also those\n"
      "with gradients as narrow as this type on the wire, or low-rank\n"
      "(any)",
      text(o.adapt));
  add("--plan-command", "TEXT",
      "with --adapt: makes a plan for the network as it is measured, in the\n"
      "background: \"mpcomm-compile step.mlir -o $MPCOMM_PLAN --np 2\n"
      "--options=cluster=$MPCOMM_CLUSTER\"",
      text(o.planCommand));
  add("--adapt-every", "N", "steps between looks at the network (default 10)",
      natural(o.adaptEvery, 1, 1 << 30));
  add("--monitor", "FILE",
      "one JSON object per look at the network: what each rank waits\n"
      "for, what each collective takes, the link, the plans; for\n"
      "mpcomm-report --live",
      file(o.monitor));
}

void CommandLine::addOutput(RunOptions &o) {
  group = "Output";
  add("--log-every", "N", "steps between progress lines (default 10)",
      natural(o.logEvery, 1));
  add("--log", "FILE",
      "one JSON object per step; --resume keeps lines up to its step",
      file(o.log));
  add("--tensorboard", "FOLDER",
      "event files for TensorBoard: loss, metrics, learning rate, speed,\n"
      "exposed communication, evaluations",
      file(o.tensorboard));
  add("--trace", "FILE",
      "Chrome/Perfetto trace: one process per rank, one track per stream",
      file(o.trace));
  add("--timeline", "FILE",
      "timeline of the step of median length, for mpcomm-report",
      file(o.timeline));
  add("--profile", "FILE",
      "median seconds of each kernel, product and collective, for the\n"
      "compiler option profile-file=",
      file(o.profile));
  add("--flight-record", "FOLDER",
      "when a rank fails, and on SIGUSR1, each rank writes its last\n"
      "collectives and their progress to FOLDER/rank-N.json",
      file(o.flightRecord));
  add("--flight-collectives", "N",
      "collectives in a flight record (default 64)",
      natural(o.flightCollectives, 1, 1 << 20));
  add("--quiet", "print errors only", o.quiet);

  group = "Values that are not finite";
  add("--check-numerics",
      "check loss and state for NaN and infinity after each step",
      o.checkNumerics);
  add("--allow-nonfinite", "continue if the loss or the data is not finite",
      o.allowNonFinite);
}

void CommandLine::addCalibration(RunOptions &o) {
  group = "Measuring a cluster";
  add("--calibrate", "FILE",
      "instead of training, measure device and communication of --np\n"
      "ranks over --comm, and write a cluster file, for cluster=",
      file(o.calibrate));
  add("--calibrate-seconds", "S", "approximate time for it (default 30)",
      real(o.calibrateSeconds, "a positive number",
           [](double x) { return x > 0; }));
  add("--calibrate-block", "N",
      "ranks per machine: measure inside and across machines, and\n"
      "write two levels of links",
      natural(o.calibrateBlock, 2));
}

CommandLine::CommandLine(RunOptions &o)
    : options(o),
      app("Trains a compiled program on one or more ranks. A program "
          "file is code: run only\none that you trust\n",
          "mpcomm-run") {
  add("program", "FILE",
      "step.so, or a .mlir, which is compiled for --np ranks first",
      file(o.program));
  addPlace(o);
  addTraining(o);
  addData(o);
  addHyperparameters(o);
  addCheckpoints(o);
  addEvaluation(o);
  addAdapting(o);
  addOutput(o);
  addCalibration(o);

  group = "Other";
  add("--version", "print the version", o.version);
  app.set_help_flag("--help,-h", "print this text")->group(group);

  auto option = [&](const char *name) { return app.get_option(name); };
  option("--steps")->excludes(option("--epochs"));
  option("--checkpoint-every")->needs(option("--checkpoint"));
  option("--checkpoint-keep")->needs(option("--checkpoint"));
  option("--checkpoint-background")->needs(option("--checkpoint-every"));
  // A checkpoint holds the weights.
  option("--resume")->excludes(option("--weights"));
  option("--resume-anyway")->needs(option("--resume"));
  option("--data")->excludes(option("--tokens"));
  option("--eval-data")->excludes(option("--eval-tokens"));
  option("--check-numerics")->excludes(option("--allow-nonfinite"));
  option("--plan-command")->needs(option("--adapt"));
  // They are of the steps of one plan.
  option("--adapt")->excludes(option("--timeline"));
  option("--adapt")->excludes(option("--profile"));
  option("--variant-after")->excludes(option("--timeline"));
  option("--variant-after")->excludes(option("--profile"));
  option("--variant-after")->excludes(option("--adapt"));
  option("--variant-after")->needs(option("--variant"));
  option("--calibrate")->excludes(option("program"));
  option("--calibrate-block")->needs(option("--calibrate"));
  app.get_formatter()->column_width(28);
  app.footer("Ways to start it:\n"
             "  mpcomm-run step.so --np 2 --weights w.safetensors --data "
             "d.safetensors \\\n"
             "      --steps 100 --checkpoint c.safetensors\n"
             "  mpirun -np N mpcomm-run step.so [options]\n"
             "  torchrun --no_python --nproc_per_node N mpcomm-run step.so "
             "[options]\n"
             "  mpcomm-run --calibrate cluster.json --np N [--comm gloo]\n\n"
             "Exit status: 0 success, 1 failure, 2 wrong command line, 128 + N "
             "stopped by signal N.");
}

std::string CommandLine::describeRest() const {
  std::vector<std::string> rest = app.remaining();
  // The value of an unknown option is one, too.
  auto given = std::find_if(rest.begin(), rest.end(), [](const auto &word) {
    return word.starts_with('-');
  });
  if (given == rest.end())
    return "one program expected, found a second: '" + printable(rest[0]) + "'";
  std::string name = given->substr(0, std::min<size_t>(given->find('='), 40)),
              best;
  size_t distance = 3;
  for (const CLI::Option *option : app.get_options())
    if (size_t d = editDistance(name, option->get_name()); d < distance) {
      distance = d;
      best = ", did you mean " + option->get_name();
    }
  return "unknown option " + printable(*given) + best;
}

std::string CommandLine::parse(const std::vector<std::string> &arguments) {
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp &) {
    options.help = true;
  } catch (const CLI::ExtrasError &) {
    return describeRest();
  } catch (const CLI::ParseError &error) {
    return error.what();
  }
  return "";
}

/// Combinations that make no sense whatever the program is, beside those that
/// CLI11 knows.
Error checkTogether(const RunOptions &options) {
  if (!options.calibrate.empty())
    return options.comm == "nccl" && options.device != "cuda"
               ? fail("--comm nccl moves memory of GPUs: --calibrate needs "
                      "--device cuda for it")
               : Error();
  if (options.program.empty())
    return fail("no program given; usage: mpcomm-run step.so [options]");
  auto lr = options.hyperparameters.find("lr");
  if (options.lr && lr != options.hyperparameters.end())
    return fail("--lr and --set lr= exclude each other");
  if (lr != options.hyperparameters.end() && lr->second < 0)
    return fail("--set lr=", lr->second, ": a learning rate is not negative");
  size_t means = options.format.imageMean.size(),
         scales = options.format.imageStd.size();
  if (means > 1 && scales > 1 && means != scales)
    return fail("--image-mean has ", means, " numbers, --image-std ", scales);
  if (!options.evalData.empty() && !options.evaluate)
    return fail(options.evalData.areTokens ? "--eval-tokens" : "--eval-data",
                " requires --evaluate");
  if ((options.format.context || !options.format.tokenArguments.empty()) &&
      !options.data.areTokens && !options.evalData.areTokens)
    return fail(options.format.context ? "--context" : "--token-arguments",
                " requires --tokens");
  if (options.adaptEvery != RunOptions().adaptEvery &&
      !options.watchesNetwork())
    return fail("--adapt-every requires --adapt or --monitor");
  bool trainsNothing = options.steps == 0u || options.epochs == 0u;
  if (trainsNothing &&
      !(options.checkpoint.empty() && options.saveWeights.empty()))
    return fail("--checkpoint and --save-weights keep what was trained, and ",
                options.steps ? "--steps" : "--epochs", " 0 trains nothing");
  return {};
}

} // namespace

Expected<RunOptions>
mpcomm::run::parseOptions(const std::vector<std::string> &arguments) {
  RunOptions options;
  if (std::string wrong = CommandLine(options).parse(arguments); !wrong.empty())
    return fail(wrong);
  if (options.help || options.version)
    return options;
  Error status = checkTogether(options);
  return status.failed() ? Expected<RunOptions>(status) : options;
}

std::string mpcomm::run::helpText() {
  RunOptions options;
  return CommandLine(options).help();
}
