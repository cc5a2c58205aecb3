//===- openmpi.cpp - all-reduce of MPI ------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// usage: mpirun openmpi blocking | nonblocking, then what timing.h takes.
//
//===----------------------------------------------------------------------===//

#include "timing.h"

#include <cstring>
#include <mpi.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  bool blocking = !std::strcmp(argv[1], "blocking");
  size_t most = 0;
  for (char **size = argv + 3; *size; ++size)
    most = std::max<size_t>(most, std::strtoull(*size, nullptr, 10));
  auto *data = static_cast<float *>(
      std::aligned_alloc(4096, (most + 4095) / 4096 * 4096));
  measure(
      rank, ranks, argv + 2, data, [] { MPI_Barrier(MPI_COMM_WORLD); },
      [&](size_t count) {
        if (blocking) {
          MPI_Allreduce(MPI_IN_PLACE, data, int(count), MPI_FLOAT, MPI_SUM,
                        MPI_COMM_WORLD);
          return;
        }
        MPI_Request request;
        MPI_Iallreduce(MPI_IN_PLACE, data, int(count), MPI_FLOAT, MPI_SUM,
                       MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      });
  std::free(data);
  MPI_Finalize();
}
