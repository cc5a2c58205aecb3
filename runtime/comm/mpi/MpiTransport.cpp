//===- MpiTransport.cpp - the ranks that MPI started ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Failures travel as small messages on a communicator of their own, which waits
// look at now and then. After a failure MPI is not finalized: that would wait
// for ranks that will not come, while leaving makes mpirun end them.
//
//===----------------------------------------------------------------------===//

#include "Mpi.h"
#include "MpiCommunicator.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sys/mman.h>

using namespace mprt;

namespace {

class MpiTransport : public Transport {
public:
  MpiTransport(const MpiOptions &options, bool initialized)
      : options(options), initialized(initialized) {}
  ~MpiTransport() override;

  Error open();

  unsigned rank() const override { return worldRank; }
  unsigned size() const override { return worldSize; }
  unsigned localRanks() const override { return local; }
  const char *name() const override { return "mpi"; }
  Expected<std::unique_ptr<Communicator>>
  createCommunicator(std::vector<unsigned> group) override;
  Expected<void *> allocate(uint64_t bytes) override;
  void reportFailure(const Error &error) override;
  std::optional<Error> reportedFailure() override;

private:
  /// What a rank sends to all others when it fails.
  struct Notice {
    int32_t status;
    uint32_t rank;
    char text[504];
  };
  struct Block {
    void *data;
    size_t bytes;
  };

  /// Turns of a wait between looks for notices.
  static constexpr unsigned noticeInterval = 64;

  MpiOptions options;
  /// Whether this transport has initialized MPI, and is to finalize it.
  bool initialized;
  bool failed = false;
  unsigned worldRank = 0, worldSize = 1, local = 1;
  MPI_Comm notices = MPI_COMM_NULL;
  Notice sent;
  std::vector<MPI_Request> sending;
  unsigned turns = 0;
  std::vector<Block> blocks;
};

} // namespace

Error MpiTransport::open() {
  int value = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &value);
  worldRank = unsigned(value);
  MPI_Comm_size(MPI_COMM_WORLD, &value);
  worldSize = unsigned(value);
  if (int code = MPI_Comm_dup(MPI_COMM_WORLD, &notices))
    return makeError(MPRT_INTERNAL, "MPI_Comm_dup returned ", code);
  MPI_Comm_set_errhandler(notices, MPI_ERRORS_RETURN);
  MPI_Comm machine;
  if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0,
                          MPI_INFO_NULL, &machine) == MPI_SUCCESS) {
    MPI_Comm_size(machine, &value);
    local = unsigned(value);
    MPI_Comm_free(&machine);
  }
  return {};
}

MpiTransport::~MpiTransport() {
  if (initialized && !failed) {
    if (notices != MPI_COMM_NULL)
      MPI_Comm_free(&notices);
    MPI_Finalize();
  }
  for (const Block &block : blocks)
    munmap(block.data, block.bytes);
}

Expected<std::unique_ptr<Communicator>>
MpiTransport::createCommunicator(std::vector<unsigned> group) {
  auto own = std::find(group.begin(), group.end(), worldRank);
  if (own == group.end() || !std::is_sorted(group.begin(), group.end()) ||
      group.back() >= worldSize)
    return makeError(MPRT_INVALID_ARGUMENT, "rank ", worldRank, " of ",
                     worldSize,
                     ": a group must list its ranks in ascending order, this "
                     "one among them");
  // Each group splits off by the number of its first rank.
  MPI_Comm handle;
  if (int code = MPI_Comm_split(MPI_COMM_WORLD, int(group.front()),
                                int(worldRank), &handle))
    return makeError(MPRT_INTERNAL, "MPI_Comm_split returned ", code);
  MPI_Comm_set_errhandler(handle, MPI_ERRORS_RETURN);
  unsigned rank = unsigned(own - group.begin());
  return std::unique_ptr<Communicator>(new MpiCommunicator(
      std::move(group), rank, handle, options.checkCollectives));
}

Expected<void *> MpiTransport::allocate(uint64_t bytes) {
  size_t length = std::max<uint64_t>(bytes, 1);
  void *data = mmap(nullptr, length, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    return makeError(MPRT_OUT_OF_MEMORY, "rank ", worldRank, ": cannot map ",
                     bytes, " bytes: ", std::strerror(errno));
  madvise(data, length, MADV_HUGEPAGE);
  blocks.push_back({data, length});
  return data;
}

void MpiTransport::reportFailure(const Error &error) {
  if (failed)
    return;
  failed = true;
  sent.status = error.status();
  sent.rank = worldRank;
  std::snprintf(sent.text, sizeof(sent.text), "%s", error.message().c_str());
  for (unsigned peer = 0; peer < worldSize; ++peer) {
    if (peer == worldRank)
      continue;
    MPI_Request request;
    if (MPI_Isend(&sent, int(sizeof(sent)), MPI_BYTE, int(peer), 0, notices,
                  &request) == MPI_SUCCESS)
      sending.push_back(request);
  }
  // Small messages leave at once; a few tests push them on their way.
  int done = 0;
  for (int i = 0; i < 100 && !done; ++i)
    MPI_Testall(int(sending.size()), sending.data(), &done,
                MPI_STATUSES_IGNORE);
}

std::optional<Error> MpiTransport::reportedFailure() {
  if (++turns % noticeInterval != 0)
    return std::nullopt;
  int arrived = 0;
  MPI_Status status;
  if (MPI_Iprobe(MPI_ANY_SOURCE, 0, notices, &arrived, &status) || !arrived)
    return std::nullopt;
  Notice notice;
  if (MPI_Recv(&notice, int(sizeof(notice)), MPI_BYTE, status.MPI_SOURCE, 0,
               notices, MPI_STATUS_IGNORE))
    return std::nullopt;
  notice.text[sizeof(notice.text) - 1] = 0;
  failed = true;
  return makeError(MPRT_PEER_FAILED, "rank ", notice.rank,
                   " failed: ", notice.text);
}

extern "C" Transport *mprt_mpi_join(const MpiOptions &options, Error &error) {
  int before = 0;
  MPI_Initialized(&before);
  if (!before) {
    int provided = 0;
    if (int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED,
                                   &provided)) {
      error = makeError(MPRT_INTERNAL, "MPI_Init_thread returned ", code);
      return nullptr;
    }
    if (provided < MPI_THREAD_SERIALIZED) {
      error = makeError(MPRT_UNSUPPORTED,
                        "this MPI cannot be called from several threads");
      return nullptr;
    }
  }
  auto transport = std::make_unique<MpiTransport>(options, !before);
  error = transport->open();
  return error ? nullptr : transport.release();
}
