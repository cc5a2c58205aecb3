//===- PipelineText.cpp - pipeline schedules as text ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes and reads the textual form of a schedule: a header with its figures,
// then one line a rank, in order. The grammar is in
// docs/Design/PipelineSchedules.md.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/PipelineSchedule.h"
#include <algorithm>
#include <charconv>

using namespace mpcomm;

static constexpr std::string_view magic = "mpcomm-pipeline-1";
static constexpr std::string_view letters = "FBIW"; // by PipelineActionKind

std::string PipelineAction::str(int chunks) const {
  std::string text = letters[size_t(kind)] + std::to_string(microbatch);
  return chunks > 1 ? text + "." + std::to_string(chunk) : text;
}

std::string PipelineSchedule::str() const {
  std::string text(magic);
  text += " stages=" + std::to_string(stages) +
          " chunks=" + std::to_string(chunks) +
          " microbatches=" + std::to_string(microbatches);
  if (chunks > 1)
    text +=
        placement == PipelinePlacement::V ? " placement=v" : " placement=loop";
  text += "\n";
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    text += std::to_string(rank) + ":";
    for (const PipelineAction &action : ranks[rank])
      text += " " + action.str(chunks);
    text += "\n";
  }
  return text;
}

namespace {
class Parser {
public:
  explicit Parser(std::string_view text) : text(text) {}
  PipelineScheduleOr parse();

private:
  /// The next line that holds a word, split into its words; false at the end.
  bool nextLine();
  bool fail(std::string_view found, const std::string &expected);
  bool parseHeader();
  bool parseRank();
  bool parseAction(std::string_view word, PipelineAction &action);

  std::string_view text;
  std::vector<std::string_view> words;
  int line = 0;
  PipelineScheduleOr result;
};
} // namespace

/// A number in decimal digits up to `most`, without sign or leading zero.
static bool parseNumber(std::string_view digits, int most, int &value) {
  if (digits.empty() || digits[0] < '0' || digits[0] > '9' ||
      (digits.size() > 1 && digits[0] == '0'))
    return false;
  auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc() && end == digits.data() + digits.size() &&
         value <= most;
}

bool Parser::nextLine() {
  words.clear();
  while (!text.empty() && words.empty()) {
    ++line;
    size_t length = text.find('\n');
    std::string_view rest = text.substr(0, length);
    text.remove_prefix(length == text.npos ? text.size() : length + 1);
    rest = rest.substr(0, rest.find('#'));
    while (true) {
      size_t from = rest.find_first_not_of(" \t\r");
      if (from == rest.npos)
        break;
      rest.remove_prefix(from);
      size_t size = std::min(rest.find_first_of(" \t\r"), rest.size());
      words.push_back(rest.substr(0, size));
      rest.remove_prefix(size);
    }
  }
  return !words.empty();
}

/// `found` as it stands in an error: cut short, and no control characters.
static std::string quote(std::string_view found) {
  std::string shown = "'";
  for (char c : found.substr(0, 40))
    shown += c >= ' ' && c <= '~' ? c : '?';
  return shown + (found.size() > 40 ? "...'" : "'");
}

bool Parser::fail(std::string_view found, const std::string &expected) {
  result.error = "line " + std::to_string(line) + ": expected " + expected +
                 ", found " +
                 (found.empty() ? "the end of the line" : quote(found));
  return false;
}

bool Parser::parseHeader() {
  PipelineSchedule &schedule = result.schedule;
  if (words[0] != magic)
    return fail(words[0], "'" + std::string(magic) + "'");
  const std::pair<std::string_view, int *> fields[] = {
      {"stages=", &schedule.stages},
      {"chunks=", &schedule.chunks},
      {"microbatches=", &schedule.microbatches}};
  size_t next = 1;
  for (auto [name, value] : fields) {
    std::string_view word = next < words.size() ? words[next++] : "";
    if (!word.starts_with(name) ||
        !parseNumber(word.substr(name.size()), std::numeric_limits<int>::max(),
                     *value))
      return fail(word, "'" + std::string(name) + "' and a number");
  }
  std::string error = schedule.checkShape();
  if (!error.empty()) {
    result.error = "line " + std::to_string(line) + ": " + error;
    return false;
  }
  if (schedule.chunks == 1)
    return next == words.size() || fail(words[next], "the end of the line");
  std::string_view word = next < words.size() ? words[next++] : "";
  if (word != "placement=loop" && word != "placement=v")
    return fail(word, "'placement=loop' or 'placement=v'");
  if (word == "placement=v")
    schedule.placement = PipelinePlacement::V;
  return next == words.size() || fail(words[next], "the end of the line");
}

bool Parser::parseAction(std::string_view word, PipelineAction &action) {
  const PipelineSchedule &schedule = result.schedule;
  size_t kind = letters.find(word[0]);
  if (kind == letters.npos)
    return fail(word, "an action: F, B, I or W and a micro-batch");
  action.kind = PipelineActionKind(kind);
  size_t dot = std::min(word.find('.'), word.size());
  if (!parseNumber(word.substr(1, dot - 1), schedule.microbatches - 1,
                   action.microbatch))
    return fail(word, "'" + std::string(1, word[0]) +
                          "' and a micro-batch from 0 to " +
                          std::to_string(schedule.microbatches - 1));
  if (schedule.chunks == 1)
    return dot == word.size() ||
           fail(word, "an action without chunk, as chunks=1");
  if (dot == word.size() ||
      !parseNumber(word.substr(dot + 1), schedule.chunks - 1, action.chunk))
    return fail(word, "an action with '.' and a chunk from 0 to " +
                          std::to_string(schedule.chunks - 1));
  return true;
}

bool Parser::parseRank() {
  PipelineSchedule &schedule = result.schedule;
  std::string label = std::to_string(schedule.ranks.size()) + ":";
  if (words[0] != label)
    return fail(words[0], "'" + label + "'");
  std::vector<PipelineAction> actions(words.size() - 1);
  for (size_t i = 0; i < actions.size(); ++i)
    if (!parseAction(words[i + 1], actions[i]))
      return false;
  schedule.ranks.push_back(std::move(actions));
  return true;
}

PipelineScheduleOr Parser::parse() {
  if (!nextLine()) {
    result.error = "line " + std::to_string(line + 1) + ": expected '" +
                   std::string(magic) + "', found the end of the text";
    return result;
  }
  if (!parseHeader())
    return result;
  while (int(result.schedule.ranks.size()) < result.schedule.stages) {
    if (!nextLine()) {
      result.error = "line " + std::to_string(line + 1) + ": expected '" +
                     std::to_string(result.schedule.ranks.size()) +
                     ":', found the end of the text";
      return result;
    }
    if (!parseRank())
      return result;
  }
  if (nextLine())
    fail(words[0], "the end of the text after " +
                       std::to_string(result.schedule.stages) + " ranks");
  return result;
}

PipelineScheduleOr mpcomm::parsePipelineSchedule(std::string_view text) {
  return Parser(text).parse();
}
