//===- mprt-replay.cpp - runs programs that a file describes --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a proof says of programs can be held against what they do. Runs, over
// shared memory, the starts and awaits of all ranks, each program in a world of
// its own, and looks at what arrives.
//
//   mprt-replay FILE [SECONDS]
//
// The file is words, separated by spaces; peers are group ranks, `value` is
// what the buffers of those that send are filled with, and tells who it is
// meant for:
//
//   program NAME
//   mesh SIZE... ;                  one for each axis
//   communicator AXIS... ;          indices of axes
//   rank R                          what follows is its program
//   start N COMMUNICATOR KIND TYPE ACCUMULATE REDUCTION PEER COUNT ID VALUE
//   await N                         numbers of mprt.h; N counts from 0
//   end
//
// Prints for each program its name and `completed`, or what went wrong on the
// rank that is worst off: `corrupt` where something else arrived than was
// meant, `mismatch`, `timeout` where nothing moved for SECONDS (default 1), or
// `failed`, where a peer had left.
//
//===----------------------------------------------------------------------===//

#include "comm/Validate.h"
#include "comm/shm/SharedRanks.h"
#include "session/Context.h"
#include "session/Mesh.h"
#include "support/DType.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <sys/wait.h>
#include <tuple>
#include <unistd.h>

using namespace mprt;

namespace {

struct ReplayStep {
  bool starts;
  unsigned number;
  mprt_collective call{};
  int value = 0;
};

struct Program {
  std::string name;
  std::vector<unsigned> mesh;
  std::vector<std::vector<unsigned>> communicators;
  std::vector<std::vector<ReplayStep>> ranks;
};

/// Worse ones have greater numbers.
enum Outcome { Completed, Failed, TimedOut, Mismatched, Corrupt, Outcomes };
const char *const outcomeNames[Outcomes] = {"completed", "failed", "timeout",
                                            "mismatch", "corrupt"};

/// One rank of a program.
class Player {
public:
  Player(const Program &program, Transport &transport, double patience)
      : program(program), steps(program.ranks[transport.rank()]),
        transport(transport), patience(patience) {}

  Outcome play();

private:
  struct Buffers {
    const ReplayStep *step = nullptr;
    void *send = nullptr, *recv = nullptr;
    unsigned size = 1, self = 0;
  };

  Outcome outcomeOf(const Error &error);
  Error start(const ReplayStep &step);
  bool arrived(unsigned number) const;

  const Program &program;
  const std::vector<ReplayStep> &steps;
  Transport &transport;
  double patience;
  std::unique_ptr<Context> context;
  std::vector<Buffers> buffers;
  std::vector<std::pair<unsigned, unsigned>> places; // rank, size
};

} // namespace

/// Writes `value`, a small integer, as one element.
static void writeElement(mprt_dtype type, void *to, double value) {
  auto put = [&](auto element) { memcpy(to, &element, sizeof(element)); };
  switch (type) {
  case MPRT_F32:
    return put(float(value));
  case MPRT_F64:
    return put(value);
  case MPRT_F16:
    return put(floatToF16(float(value)));
  case MPRT_BF16:
    return put(floatToBf16(float(value)));
  case MPRT_I16:
    return put(int16_t(value));
  case MPRT_I32:
    return put(int32_t(value));
  case MPRT_I64:
    return put(int64_t(value));
  default:
    return put(uint8_t(value));
  }
}

static void fill(mprt_dtype type, void *to, uint64_t count, double value) {
  size_t bytes = sizeOf(type);
  for (uint64_t i = 0; i < count; ++i)
    writeElement(type, static_cast<char *>(to) + i * bytes, value);
}

Outcome Player::outcomeOf(const Error &error) {
  if (!error)
    return Completed;
  if (error.status() == MPRT_MISMATCH)
    return Mismatched;
  return error.status() == MPRT_TIMEOUT ? TimedOut : Failed;
}

Error Player::start(const ReplayStep &step) {
  const mprt_collective &call = step.call;
  auto type = mprt_dtype(call.type);
  Buffers &here = buffers[step.number];
  here.step = &step;
  std::tie(here.self, here.size) = places[call.communicator];
  uint64_t given = sendElements(call, here.size);
  bool inPlace = call.kind == MPRT_ALL_REDUCE || call.kind == MPRT_BROADCAST;
  if (call.kind != MPRT_BARRIER) {
    auto make = [&](uint64_t count) {
      Expected<void *> memory = transport.allocate(count * sizeOf(type));
      return memory ? *memory : nullptr;
    };
    if (call.kind != MPRT_RECV)
      here.send = make(given);
    if (call.kind != MPRT_SEND)
      here.recv = inPlace ? here.send : make(recvElements(call, here.size));
    if (!here.send && !here.recv)
      return makeError(MPRT_OUT_OF_MEMORY, "no memory for a buffer");
    bool isSilent = call.kind == MPRT_BROADCAST && int(here.self) != call.peer;
    if (here.send)
      fill(type, here.send, given, isSilent ? 0 : step.value);
  }
  uint32_t stream = MPRT_COMM_STREAM(call.communicator);
  mprt_collective_run(context->handle(), stream, &call, here.send, here.recv);
  mprt_event_record(context->handle(), stream, step.number);
  return context->error();
}

/// Whether all that came is what this rank was to get.
bool Player::arrived(unsigned number) const {
  const Buffers &here = buffers[number];
  if (!here.step || !here.recv)
    return true;
  const mprt_collective &call = here.step->call;
  double value = here.step->value;
  bool reduces =
      call.kind == MPRT_ALL_REDUCE || call.kind == MPRT_REDUCE_SCATTER;
  if (reduces && call.reduction == MPRT_SUM)
    value *= here.size;
  auto type = mprt_dtype(call.type);
  uint64_t taken = recvElements(call, here.size);
  char expected[8];
  writeElement(type, expected, value);
  size_t bytes = sizeOf(type);
  for (uint64_t i = 0; i < taken; ++i)
    if (memcmp(static_cast<const char *>(here.recv) + i * bytes, expected,
               bytes) != 0)
      return false;
  return true;
}

Outcome Player::play() {
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (const std::vector<unsigned> &axes : program.communicators) {
    auto made = transport.createCommunicator(
        groupOf(program.mesh, axes, transport.rank()));
    if (!made)
      return outcomeOf(made.error());
    places.push_back({(*made)->rank(), (*made)->size()});
    communicators.push_back(made.take());
  }
  ContextOptions options;
  options.events = steps.size() + 1;
  options.timeoutSeconds = patience;
  options.progress = ProgressMode::Poll;
  auto made = Context::create(options, &transport, std::move(communicators));
  if (!made)
    return outcomeOf(made.error());
  context = made.take();
  buffers.resize(steps.size());
  for (const ReplayStep &step : steps) {
    if (step.starts) {
      if (Error error = start(step))
        return outcomeOf(error);
      continue;
    }
    mprt_stream_wait(context->handle(), MPRT_COMPUTE_STREAM, step.number);
    if (Error error = context->error())
      return outcomeOf(error);
    if (!arrived(step.number))
      return Corrupt;
  }
  if (Error error = context->synchronize())
    return outcomeOf(error);
  for (unsigned number = 0; number < buffers.size(); ++number)
    if (!arrived(number))
      return Corrupt;
  return Completed;
}

/// The worst outcome of all ranks, each in a process.
static Outcome run(const Program &program, double patience) {
  auto size = unsigned(program.ranks.size());
  shm::SharedRanksOptions options;
  options.arenaBytes = uint64_t(1) << 30;
  options.communicators = unsigned(program.communicators.size() + 1);
  auto world = shm::SharedRanks::create(size, options);
  if (!world) {
    fprintf(stderr, "mprt-replay: %s\n", world.error().message().c_str());
    exit(1);
  }
  fflush(stdout);
  for (unsigned r = 0; r < size; ++r)
    if (fork() == 0) {
      int outcome = Failed;
      {
        auto transport = (*world)->join(r);
        if (transport)
          outcome = Player(program, **transport, patience).play();
      }
      _exit(outcome);
    }
  int worst = Completed;
  for (int status = 0; wait(&status) > 0;) {
    int outcome = WIFEXITED(status) ? WEXITSTATUS(status) : Failed;
    worst = outcome > worst && outcome < Outcomes ? outcome : worst;
  }
  return Outcome(worst);
}

/// Reads the next program; false at the end, or where the file is malformed.
static bool read(std::istream &in, Program &program) {
  std::string word;
  if (!(in >> word >> program.name) || word != "program")
    return false;
  auto readList = [&] {
    std::vector<unsigned> list;
    while (in >> word && word != ";")
      list.push_back(unsigned(strtoul(word.c_str(), nullptr, 10)));
    return list;
  };
  std::vector<ReplayStep> *steps = nullptr;
  while (in >> word && word != "end") {
    if (word == "mesh") {
      program.mesh = readList();
      unsigned ranks = 1;
      for (unsigned axis : program.mesh)
        ranks *= axis;
      program.ranks.resize(ranks);
    } else if (word == "communicator") {
      program.communicators.push_back(readList());
    } else if (word == "rank") {
      size_t rank;
      if (!(in >> rank) || rank >= program.ranks.size())
        return false;
      steps = &program.ranks[rank];
    } else if (steps && (word == "start" || word == "await")) {
      ReplayStep step{word == "start", 0};
      in >> step.number;
      unsigned kind, type, accumulate, reduction;
      if (step.starts) {
        in >> step.call.communicator >> kind >> type >> accumulate >>
            reduction >> step.call.peer >> step.call.count >> step.call.id >>
            step.value;
        // Permutes and collectives that leave out ranks are not of the format.
        if (!in || step.call.communicator >= program.communicators.size() ||
            kind >= MPRT_PERMUTE)
          return false;
        step.call.kind = uint8_t(kind);
        step.call.type = uint8_t(type);
        step.call.accumulate = uint8_t(accumulate);
        step.call.reduction = uint8_t(reduction);
      }
      steps->push_back(step);
    } else {
      return false;
    }
  }
  // Numbers are indices of buffers, and there are as many of those as steps.
  for (const std::vector<ReplayStep> &rank : program.ranks)
    for (const ReplayStep &step : rank)
      if (step.number >= rank.size())
        return false;
  return word == "end";
}

int main(int argc, char **argv) {
  if (argc != 2 && argc != 3) {
    fprintf(stderr, "usage: mprt-replay FILE [SECONDS]\n");
    return 2;
  }
  std::ifstream in(argv[1]);
  double patience = argc > 2 ? atof(argv[2]) : 1;
  Program program;
  while (read(in, program)) {
    printf("%s %s\n", program.name.c_str(),
           outcomeNames[run(program, patience)]);
    fflush(stdout);
    program = {};
  }
  if (!in.eof()) {
    fprintf(stderr, "mprt-replay: %s is malformed\n", argv[1]);
    return 1;
  }
  return 0;
}
