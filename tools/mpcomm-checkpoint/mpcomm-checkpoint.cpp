//===- mpcomm-checkpoint.cpp - files of state -----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Prints what a checkpoint or a file of weights holds, and writes it as one
// file. See `mpcomm-checkpoint --help`.
//
//===----------------------------------------------------------------------===//

#include "Merge.h"

#include "files/Checkpoint.h"
#include "files/OutputFile.h"

#include <CLI/CLI.hpp>

#include <cstdio>

using namespace mpcomm::checkpoint;
using namespace mprt;

namespace {

struct Options {
  std::string file, save, saveWeights, type;
  bool verify = false, version = false;
};

/// What is wrong with the arguments; empty where nothing is.
std::string parse(CLI::App &app, Options &o, int argc, char **argv) {
  auto add = [&](const char *name, std::string &target, const char *value,
                 const char *help) {
    return app.add_option(name, target, help)
        ->type_name(value)
        ->option_text(value)
        ->check([](const std::string &given) {
          return given.empty() || given.starts_with("--")
                     ? "'" + given + "' is not a name"
                     : std::string();
        });
  };
  add("file", o.file, "FILE",
      "a checkpoint, weights, or the *.index.json of a Hugging Face model\n"
      "in several files");
  add("--save", o.save, "FILE",
      "write all of it as one file, which can be resumed as well");
  CLI::Option *weights =
      add("--save-weights", o.saveWeights, "FILE",
          "write parameters and buffers as one safetensors file, which\n"
          "Hugging Face's and PyTorch's loaders read");
  add("--type", o.type, "f32|bf16|f16",
      "of the floats among these weights (default: as they are)")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->needs(weights);
  app.add_flag("--verify", o.verify, "compare every tensor with its checksum")
      ->option_text(" ");
  app.add_flag("--version", o.version, "print the version")->option_text(" ");
  app.set_help_flag("--help,-h", "print this text");
  app.get_formatter()->column_width(28);
  app.footer("Without options, what is in it is printed.\n\n"
             "  mpcomm-checkpoint c.safetensors --save-weights "
             "model.safetensors --type bf16\n\n"
             "Exit status: 0 success, 1 failure, 2 wrong command line.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    std::fputs(app.help().c_str(), stdout);
    std::exit(0);
  } catch (const CLI::ParseError &error) {
    return error.what();
  }
  if (o.version)
    return "";
  if (o.file.empty())
    return "no file given; usage: mpcomm-checkpoint FILE [options]";
  if (!o.save.empty() && !o.saveWeights.empty() &&
      areSameFile(o.save, o.saveWeights))
    return "--save and --save-weights write one file";
  return "";
}

int report(const Error &error) {
  std::fprintf(stderr, "mpcomm-checkpoint: error: %s\n",
               error.message().c_str());
  return 1;
}

/// Fails where an output is one of the files that are read.
Error checkOutputs(const StateFile &file, const Options &options) {
  std::vector<std::string> inputs = file.paths();
  inputs.push_back(options.file);
  for (const std::string *output : {&options.save, &options.saveWeights})
    for (const std::string &input : inputs)
      if (!output->empty() && areSameFile(*output, input))
        return fail(printable(*output), " is a file that is read");
  return {};
}

/// A table of what is in `file`.
void print(const StateFile &file) {
  if (file.metadata().count("mpcomm.step")) {
    if (Expected<CheckpointInfo> info = readCheckpointInfo(file)) {
      std::printf("checkpoint of %s after %llu steps, seed %llu\n",
                  printable(info->program).c_str(),
                  static_cast<unsigned long long>(info->step),
                  static_cast<unsigned long long>(info->seed));
      for (const auto &[name, value] : info->hyperparameters)
        std::printf("  %s = %g\n", printable(name).c_str(), value);
    }
  }
  uint64_t bytes = 0, weights = 0, count = 0;
  for (const std::string &name : file.names()) {
    const TensorEntry &entry = *file.find(name);
    std::string role = file.roleOf(name);
    std::printf("%-44s %-22s %12llu %s\n", printable(name).c_str(),
                describe(entry).c_str(),
                static_cast<unsigned long long>(entry.bytes),
                printable(role).c_str());
    bytes += entry.bytes;
    weights += role.empty() ? entry.bytes : 0;
    ++count;
  }
  std::printf("%llu tensors, files: %zu, bytes: %llu, of parameters and "
              "buffers: %llu\n",
              static_cast<unsigned long long>(count), file.paths().size(),
              static_cast<unsigned long long>(bytes),
              static_cast<unsigned long long>(weights));
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app(
      "Prints what a checkpoint or a file of weights holds, and writes "
      "it as one file\n",
      "mpcomm-checkpoint");
  if (std::string wrong = parse(app, options, argc, argv); !wrong.empty()) {
    std::fprintf(stderr, "mpcomm-checkpoint: error: %s\n", wrong.c_str());
    return 2;
  }
  if (options.version) {
    std::puts("mpcomm-checkpoint " MPCOMM_VERSION);
    return 0;
  }
  Expected<StateFile> file = StateFile::open(options.file);
  if (file.failed())
    return report(file.error());
  if (Error error = checkOutputs(*file, options))
    return report(error);
  if (options.verify) {
    Expected<uint64_t> compared = verify(*file);
    if (compared.failed())
      return report(compared.error());
    if (*compared == 0)
      return report(fail(printable(options.file),
                         ": no tensor has a checksum to compare with"));
    std::printf("%llu of %zu tensors have checksums, and they are right\n",
                static_cast<unsigned long long>(*compared),
                file->names().size());
  }
  if (!options.save.empty())
    if (Error error = writeAll(*file, options.save))
      return report(error);
  if (!options.saveWeights.empty()) {
    std::optional<DType> type;
    if (!options.type.empty())
      type = parseDType(options.type);
    if (Error error = writeWeights(*file, options.saveWeights, type))
      return report(error);
  }
  if (!options.verify && options.save.empty() && options.saveWeights.empty())
    print(*file);
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    return report(fail("standard output: cannot write"));
  return 0;
}
