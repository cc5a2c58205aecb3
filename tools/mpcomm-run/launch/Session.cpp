//===- Session.cpp - the session that a rank of the run is ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Session.h.
//
//===----------------------------------------------------------------------===//

#include "launch/Session.h"

#include <array>
#include <cstring>

using namespace mpcomm::run;

Expected<std::unique_ptr<RunProgram>>
RunProgram::open(const std::string &path) {
  auto opened = std::make_unique<RunProgram>();
  mpcomm_program *program = nullptr;
  if (Error error = check(mpcomm_program_open, path.c_str(), &program))
    return error;
  opened->program.reset(program);
  auto info = sized<mpcomm_program_info>();
  if (Error error = check(mpcomm_program_describe, program, &info))
    return error;
  Expected<Manifest> manifest = parseManifest(info.manifest);
  if (manifest.failed())
    return fail(path, ": ", manifest.message());
  opened->file = path;
  opened->description = manifest.take();
  opened->hash = info.checksum;
  return opened;
}

Expected<RunSession> RunSession::open(const mpcomm_session_options &options) {
  RunSession opened;
  mpcomm_session *session = nullptr;
  if (Error error = check(mpcomm_session_open, &options, &session))
    return error;
  opened.session.reset(session);
  opened.about = sized<mpcomm_session_info>();
  if (Error error = opened(mpcomm_session_describe, &opened.about))
    return error;
  return opened;
}

const char *RunSession::backend() const {
  auto now = sized<mpcomm_session_info>();
  (void)(*this)(mpcomm_session_describe, &now);
  return now.backend ? now.backend : "";
}

Error RunSession::exchange(
    const std::function<uint64_t(std::span<char>)> &next,
    const std::function<void(uint64_t, std::string_view)> &take) const {
  struct Block {
    uint64_t bytes = 0;
    std::array<char, 32 << 10> text;
  };
  auto block = std::make_unique<Block>();
  std::vector<Block> blocks(size());
  for (bool any = true; any;) {
    block->bytes = next(block->text);
    if (Error error = gather(block.get(), blocks.data(), sizeof(Block)))
      return error;
    any = false;
    for (uint64_t rank = 0; rank < size(); ++rank) {
      any |= blocks[rank].bytes > 0;
      take(rank, {blocks[rank].text.data(), blocks[rank].bytes});
    }
  }
  return {};
}

Expected<std::vector<std::string>>
RunSession::gatherText(const std::string &mine) const {
  std::vector<std::string> texts(size());
  std::string_view left = mine;
  Error error = exchange(
      [&](std::span<char> block) {
        size_t bytes = left.copy(block.data(), block.size());
        left.remove_prefix(bytes);
        return bytes;
      },
      [&](uint64_t rank, std::string_view part) {
        if (index() == 0)
          texts[rank] += part;
      });
  if (error)
    return error;
  return texts;
}

mpcomm_totals RunSession::totals() const {
  auto totals = sized<mpcomm_totals>();
  (void)(*this)(mpcomm_session_totals, &totals);
  return totals;
}
