//===- PipelineCsv.cpp - pipeline schedules as PyTorch's CSV --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes and reads the files that torch.distributed.pipelining reads and
// writes: a row a rank, of the actions that it takes. The grammar is in
// docs/Design/PipelineSchedules.md. Programs of ranks place communication
// themselves; so of a lowered file, sends and receives are held against those
// that the schedule implies, and left out.
//
//===----------------------------------------------------------------------===//

#include "PipelineSchedule/PipelineImpl.h"
#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>

using namespace mpcomm;
using namespace mpcomm::pipeline;

static constexpr std::string_view letters = "FBIW"; // by PipelineActionKind
static constexpr std::string_view transfers[] = {"SEND_F", "RECV_F", "SEND_B",
                                                 "RECV_B"};
/// Of sharded parameters, which stages here do not have.
static constexpr std::string_view shardings[] = {"UNSHARD", "RESHARD",
                                                 "REDUCE_GRAD"};
static constexpr std::string_view overlapped = "OVERLAP_F_B";
/// Above any micro-batch and stage of a schedule that checks.
static constexpr int most = 1 << 24;

char mpcomm::pipelineActionLetter(PipelineActionKind kind) {
  return letters[size_t(kind)];
}

std::string PipelineAction::str() const {
  return std::to_string(stage) + pipelineActionLetter(kind) +
         std::to_string(microbatch);
}

std::string PipelineSchedule::str() const {
  std::string text;
  for (const std::vector<PipelineAction> &order : ranks) {
    for (size_t i = 0; i < order.size(); ++i)
      text += (i ? "," : "") + order[i].str();
    text += "\n";
  }
  return text;
}

namespace {
class CsvReader {
public:
  PipelineScheduleOr read(std::string_view text);

private:
  /// A send or receive: the position of the next action, and its column.
  struct Transfer {
    int rank, next, column;
  };
  using TransferKey = std::tuple<std::string_view, int, int>;

  bool fail(const std::string &what);
  bool expect(std::string_view found, const std::string &expected);
  bool readRow(std::string_view row);
  bool readCell(std::string_view cell);
  bool readAction(std::string_view word, bool isWhole);
  bool place(int stage);
  bool finish();
  bool checkTransfers();
  bool checkTransfer(const TransferKey &key, int rank, int from, int to);

  PipelineScheduleOr result;
  /// Where the reader is, from 1.
  int row = 0, column = 0;
  Columns columns;
  /// By stage: the row and column of its first action.
  std::map<int, std::pair<int, int>> places;
  /// By kind, stage and micro-batch.
  std::map<TransferKey, Transfer> sent;
};
} // namespace

static std::string_view trim(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n";
  size_t from = text.find_first_not_of(blank);
  if (from == text.npos)
    return "";
  return text.substr(from, text.find_last_not_of(blank) + 1 - from);
}

/// Cuts `text` at the first `separator`, and returns what is before it.
static std::string_view cut(std::string_view &text, char separator) {
  size_t length = text.find(separator);
  std::string_view head = text.substr(0, length);
  text.remove_prefix(length == text.npos ? text.size() : length + 1);
  return head;
}

/// Takes a number in decimal digits off the front of `text`; -1 if there is
/// none, or one out of range.
static int takeNumber(std::string_view &text) {
  int value = -1;
  if (text.empty() || text[0] < '0' || text[0] > '9')
    return -1;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(end - text.data());
  return error == std::errc() && value < most ? value : -1;
}

/// `found` as an error shows it: cut short, and no control characters.
static std::string quote(std::string_view found) {
  std::string shown = "'";
  for (char c : found.substr(0, 40))
    shown += c >= ' ' && c <= '~' ? c : '?';
  return shown + (found.size() > 40 ? "...'" : "'");
}

static std::string str(int row, int column) {
  return "row " + std::to_string(row) + ", column " + std::to_string(column);
}

bool CsvReader::fail(const std::string &what) {
  result.error = str(row, column) + ": " + what;
  return false;
}

bool CsvReader::expect(std::string_view found, const std::string &expected) {
  return fail("expected " + expected + ", found " + quote(found));
}

/// A stage is on the rank of its first action.
bool CsvReader::place(int stage) {
  auto known = places.try_emplace(stage, row, column).first->second;
  return known.first == row ||
         fail("stage " + std::to_string(stage) + " is also at " +
              str(known.first, known.second) + ", expected it in one row");
}

/// `isWhole`: all of a cell, not one of several that overlap.
bool CsvReader::readAction(std::string_view word, bool isWhole) {
  std::string_view rest = word;
  std::string expected =
      "an action: a stage, F, B, I or W, and a micro-batch, as in 1F0";
  int stage = takeNumber(rest);
  size_t length = std::min(rest.find_first_of("0123456789"), rest.size());
  std::string_view kind = rest.substr(0, length);
  rest.remove_prefix(length);
  bool hasBatch = !rest.empty();
  int batch = takeNumber(rest);
  auto isOneOf = [&](const auto &names) {
    return std::find(std::begin(names), std::end(names), kind) !=
           std::end(names);
  };
  if (stage < 0 || !rest.empty())
    return expect(word, expected);
  if (isWhole && isOneOf(shardings))
    return hasBatch ? expect(word, "no micro-batch after " + std::string(kind))
                    : place(stage);
  if (batch < 0)
    return expect(word, expected);
  if (isWhole && isOneOf(transfers)) {
    kind = *std::find(std::begin(transfers), std::end(transfers), kind);
    auto [at, isNew] = sent.try_emplace(
        {kind, stage, batch},
        Transfer{row - 1, int(result.schedule.ranks.back().size()), column});
    return place(stage) &&
           (isNew ||
            fail(std::string(word) + " is also at column " +
                 std::to_string(at->second.column) + ", expected it once"));
  }
  size_t letter = kind.size() == 1 ? letters.find(kind[0]) : letters.npos;
  if (letter == letters.npos)
    return expect(word, expected);
  result.schedule.ranks.back().push_back(
      {PipelineActionKind(letter), batch, stage});
  columns.back().push_back(column);
  result.schedule.microbatches =
      std::max(result.schedule.microbatches, batch + 1);
  return place(stage);
}

/// Actions that overlap are taken one after the other.
bool CsvReader::readCell(std::string_view cell) {
  if (cell.size() > 1 && cell.front() == '"' && cell.back() == '"')
    cell = trim(cell.substr(1, cell.size() - 2));
  if (cell.empty()) // a bubble
    return true;
  if (cell[0] != '(')
    return readAction(cell, true);
  std::string_view rest = cell.substr(1);
  std::string_view inner = cut(rest, ')');
  if (trim(rest) != overlapped || trim(inner).empty())
    return expect(cell, "actions that overlap, as in (0F1;1B0)OVERLAP_F_B");
  while (!inner.empty())
    if (!readAction(trim(cut(inner, ';')), false))
      return false;
  return true;
}

bool CsvReader::readRow(std::string_view text) {
  ++row;
  column = 0;
  result.schedule.ranks.emplace_back();
  columns.emplace_back();
  while (!text.empty()) {
    ++column;
    if (!readCell(trim(cut(text, ','))))
      return false;
  }
  if (!result.schedule.ranks.back().empty())
    return true;
  result.error = "row " + std::to_string(row) + ": expected actions of rank " +
                 std::to_string(row - 1) + ", found none";
  return false;
}

/// `from`: the action that must be before it, or -1; `to`: after it.
bool CsvReader::checkTransfer(const TransferKey &key, int rank, int from,
                              int to) {
  auto [kind, stage, batch] = key;
  std::string name =
      std::to_string(stage) + std::string(kind) + std::to_string(batch);
  const std::vector<PipelineAction> &order = result.schedule.ranks[rank];
  auto found = sent.find(key);
  if (found == sent.end()) {
    result.error = "row " + std::to_string(rank + 1) + ": expected " + name +
                   ", which is missing";
    return false;
  }
  Transfer at = found->second;
  sent.erase(found);
  row = rank + 1;
  column = at.column;
  if (from >= 0 && at.next <= from)
    return fail(name + " is before " + order[from].str() + " at column " +
                std::to_string(columns[rank][from]) +
                ", expected it after that");
  if (to >= 0 && at.next > to)
    return fail(name + " is after " + order[to].str() + " at column " +
                std::to_string(columns[rank][to]) +
                ", expected it before that");
  return true;
}

/// All that the schedule implies are there, after what makes and before what
/// needs them, and no others.
bool CsvReader::checkTransfers() {
  if (sent.empty())
    return true;
  for (const PipelineMessage &message : result.schedule.messages()) {
    int down = message.edge, up = message.edge + 1;
    bool back = message.backward;
    if (!checkTransfer(
            {transfers[2 * back], back ? up : down, message.microbatch},
            message.sender, message.made, -1) ||
        !checkTransfer(
            {transfers[2 * back + 1], back ? down : up, message.microbatch},
            message.receiver, -1, message.needed))
      return false;
  }
  if (sent.empty())
    return true;
  auto &[key, at] = *sent.begin();
  row = at.rank + 1;
  column = at.column;
  return fail("expected no " + std::to_string(std::get<1>(key)) +
              std::string(std::get<0>(key)) + std::to_string(std::get<2>(key)) +
              ": nothing travels there");
}

bool CsvReader::finish() {
  PipelineSchedule &schedule = result.schedule;
  schedule.stages = int(schedule.ranks.size());
  schedule.placement.clear();
  for (auto [stage, at] : places) {
    if (stage != schedule.virtualStages()) {
      result.error = "expected stages from 0 to " +
                     std::to_string(places.rbegin()->first) +
                     ", found no action of stage " +
                     std::to_string(schedule.virtualStages());
      return false;
    }
    schedule.placement.push_back(at.first - 1);
  }
  result.error = verify(schedule, {}, &columns);
  return result.error.empty() && checkTransfers();
}

PipelineScheduleOr CsvReader::read(std::string_view text) {
  text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
  do
    if (!readRow(cut(text, '\n')))
      return result;
  while (!text.empty());
  finish();
  return result;
}

PipelineScheduleOr mpcomm::parsePipelineSchedule(std::string_view text) {
  return CsvReader().read(text);
}
