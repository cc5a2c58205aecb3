//===- MpiTransport.cpp - a rank that MPI started -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/mpi/Deadline.h"
#include "comm/mpi/Mpi.h"
#include "comm/mpi/MpiCommunicator.h"
#include "support/Pages.h"

#include <algorithm>
#include <cstring>

using namespace mprt;
using namespace mprt::mpi;

namespace {

class MpiTransport final : public Transport {
public:
  explicit MpiTransport(const MpiOptions &options) : options(options) {}
  ~MpiTransport() override;

  Error initialize();
  /// Whether ranks compare what they call is part of what they send.
  Error agreeOnChecks() const;

  unsigned rank() const override { return self; }
  unsigned size() const override { return ranks; }
  unsigned localRanks() const override { return onThisMachine; }
  const char *name() const override { return "mpi"; }

  Expected<std::unique_ptr<Communicator>>
  createCommunicator(std::vector<unsigned> group) override;
  Expected<void *> allocate(uint64_t bytes) override;
  /// mpirun ends the others when this rank ends with a failure.
  void reportFailure(const Error &) override { failed = true; }

private:
  MpiOptions options;
  unsigned self = 0, ranks = 1, onThisMachine = 1;
  int communicators = 0;
  bool owned = false, failed = false;
  std::vector<Pages> allocations;
};

} // namespace

Error MpiTransport::initialize() {
  Deadline deadline(options,
                    Error(MPRT_TIMEOUT, "MPI_Init: not all ranks have come"));
  int already = 0;
  MPI_Initialized(&already);
  if (!already) {
    // One thread at a time: the context's lock sees to it.
    int provided = MPI_THREAD_SINGLE;
    if (int code =
            MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided))
      return mpiError("cannot initialize MPI", code);
    owned = true;
    if (provided < MPI_THREAD_SERIALIZED)
      return makeError(MPRT_UNSUPPORTED,
                       "this MPI cannot be used by more than one thread");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int value = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &value);
  self = unsigned(value);
  MPI_Comm_size(MPI_COMM_WORLD, &value);
  ranks = unsigned(value);
  MPI_Comm local = MPI_COMM_NULL;
  if (int code = MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0,
                                     MPI_INFO_NULL, &local))
    return mpiError("cannot tell which ranks are on this machine", code);
  MPI_Comm_size(local, &value);
  onThisMachine = unsigned(value);
  MPI_Comm_free(&local);
  return agreeOnChecks();
}

Error MpiTransport::agreeOnChecks() const {
  std::vector<unsigned char> all(ranks);
  unsigned char mine = options.checkCollectives;
  if (int code = MPI_Allgather(&mine, 1, MPI_BYTE, all.data(), 1, MPI_BYTE,
                               MPI_COMM_WORLD))
    return mpiError("cannot compare MPRT_CHECK", code);
  auto odd = std::find(all.begin(), all.end(), all[0] ? 0 : 1);
  if (odd == all.end())
    return {};
  return makeError(MPRT_MISMATCH, "MPRT_CHECK is ", all[0] ? "on" : "off",
                   " for rank 0 and ", all[0] ? "off" : "on", " for rank ",
                   odd - all.begin(), "; give all ranks the same");
}

MpiTransport::~MpiTransport() {
  // After a failure the others may never come to MPI_Finalize.
  if (owned && !failed)
    MPI_Finalize();
}

Expected<std::unique_ptr<Communicator>>
MpiTransport::createCommunicator(std::vector<unsigned> group) {
  auto position = std::find(group.begin(), group.end(), self);
  if (position == group.end() || !std::is_sorted(group.begin(), group.end()) ||
      group.back() >= ranks)
    return makeError(MPRT_INVALID_ARGUMENT, "rank ", self, " of ", ranks,
                     " cannot make a communicator of a group that is not "
                     "ascending or that it is not in");
  auto rank = unsigned(position - group.begin());
  Deadline deadline(options,
                    makeError(MPRT_TIMEOUT, "rank ", self,
                              ": cannot make a communicator: not all of ",
                              nameRanks(group), " have come")
                        .ofRank(self));
  std::vector<int> members(group.begin(), group.end());
  MPI_Group world = MPI_GROUP_NULL, part = MPI_GROUP_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, int(members.size()), members.data(), &part);
  MPI_Comm comm = MPI_COMM_NULL;
  int code =
      MPI_Comm_create_group(MPI_COMM_WORLD, part, communicators++, &comm);
  MPI_Group_free(&part);
  MPI_Group_free(&world);
  if (code)
    return mpiError("cannot make a communicator", code);
  return MpiCommunicator::create(comm, std::move(group), rank,
                                 options.checkCollectives);
}

Expected<void *> MpiTransport::allocate(uint64_t bytes) {
  Expected<Pages> pages = Pages::make(bytes, /*now=*/true);
  if (pages.failed())
    return pages.error().withContext("rank " + std::to_string(self) + ": ");
  return allocations.emplace_back(pages.take()).data();
}

Transport *mprt_mpi_join(const MpiOptions &options, Error &error) {
  auto transport = std::make_unique<MpiTransport>(options);
  error = transport->initialize();
  return error ? nullptr : transport.release();
}
