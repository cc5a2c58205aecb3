//===- Fault.cpp - failures on purpose ------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A fault is `kind:key=value,key=value`.
//
//===----------------------------------------------------------------------===//

#include "launch/Fault.h"

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <sstream>

using namespace mpcomm::run;

Expected<Fault> mpcomm::run::faultFromEnvironment() {
  Fault fault;
  const char *text = std::getenv("MPRT_FAULT");
  if (!text || !*text)
    return fault;
  std::istringstream stream(text);
  std::string kind;
  std::getline(stream, kind, ':');
  if (kind == "kill")
    fault.kind = Fault::Kind::Kill;
  else if (kind == "stop")
    fault.kind = Fault::Kind::Stop;
  else if (kind == "never-start")
    fault.kind = Fault::Kind::NeverStart;
  else if (kind == "program")
    fault.kind = Fault::Kind::Program;
  else if (kind == "flip")
    fault.kind = Fault::Kind::Flip;
  else
    return fail("MPRT_FAULT: kind '", printable(kind),
                "' is not one of kill, stop, never-start, program, flip");
  for (std::string item; std::getline(stream, item, ',');) {
    size_t equals = item.find('=');
    std::string key = item.substr(0, equals);
    std::string value =
        equals == std::string::npos ? "" : item.substr(equals + 1);
    if (key == "file") {
      fault.file = value;
      continue;
    }
    uint64_t number = 0;
    auto [end, error] =
        std::from_chars(value.data(), value.data() + value.size(), number);
    if ((key != "rank" && key != "step") || error != std::errc() ||
        end != value.data() + value.size())
      return fail("MPRT_FAULT: '", printable(item),
                  "' is not rank=N, step=N or file=NAME");
    (key == "rank" ? fault.rank : fault.step) = number;
  }
  return fault;
}

void mpcomm::run::maybeFail(const Fault &fault, uint64_t rank, uint64_t step) {
  if (fault.rank != rank || fault.step != step)
    return;
  if (fault.kind == Fault::Kind::Kill)
    raise(SIGKILL);
  if (fault.kind == Fault::Kind::Stop)
    raise(SIGSTOP);
}
