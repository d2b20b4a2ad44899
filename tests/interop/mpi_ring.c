// Each rank checks what it gets from the others: a ring, an all-to-all exchange, and one-sided
// writes, reads and additions, with messages from 1 byte to 1 MiB. Ends with 1 if a byte is wrong.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks;

static unsigned char expected(int from, int to, int position) {
  return (unsigned char)(from * 31 + to * 7 + position % 251);
}

static void check(const char* what, const unsigned char* data, int size, int from, int to) {
  for (int i = 0; i < size; ++i) {
    if (data[i] == expected(from, to, i)) continue;
    fprintf(stderr, "rank %d: %s of %d bytes: byte %d is wrong\n", rank, what, size, i);
    exit(1);
  }
}

static void fill(unsigned char* data, int size, int from, int to) {
  for (int i = 0; i < size; ++i) data[i] = expected(from, to, i);
}

static void ring(unsigned char* out, unsigned char* in, int size) {
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  fill(out, size, rank, next);
  MPI_Sendrecv(out, size, MPI_BYTE, next, 0, in, size, MPI_BYTE, previous, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  check("ring", in, size, previous, rank);
}

static void all_to_all(unsigned char* out, unsigned char* in, int size) {
  for (int to = 0; to < ranks; ++to) fill(out + (long)to * size, size, rank, to);
  MPI_Alltoall(out, size, MPI_BYTE, in, size, MPI_BYTE, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; ++from) {
    check("all-to-all", in + (long)from * size, size, from, rank);
  }
}

static void one_sided(unsigned char* out, unsigned char* in, int size) {
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  MPI_Win window, sum_window;
  long sum = 0;
  const long one = 1;
  MPI_Win_create(in, size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_create(&sum, sizeof sum, sizeof sum, MPI_INFO_NULL, MPI_COMM_WORLD, &sum_window);
  fill(out, size, rank, next);
  MPI_Win_fence(0, window);
  MPI_Put(out, size, MPI_BYTE, next, 0, size, MPI_BYTE, window);
  MPI_Win_fence(0, window);
  check("put", in, size, previous, rank);
  MPI_Get(out, size, MPI_BYTE, next, 0, size, MPI_BYTE, window);
  MPI_Win_fence(0, window);
  check("get", out, size, rank, next);
  MPI_Win_fence(0, sum_window);
  MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, sum_window);
  MPI_Win_fence(0, sum_window);
  if (rank == 0 && sum != ranks) {
    fprintf(stderr, "the sum is %ld\n", sum);
    exit(1);
  }
  MPI_Win_free(&sum_window);
  MPI_Win_free(&window);
}

int main(int argc, char** argv) {
  static const int kSizes[] = {1, 100, 8192, 65537, 1 << 20};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  unsigned char* const out = malloc((size_t)ranks << 20);
  unsigned char* const in = malloc((size_t)ranks << 20);
  for (unsigned i = 0; i < sizeof kSizes / sizeof *kSizes; ++i) {
    ring(out, in, kSizes[i]);
    all_to_all(out, in, kSizes[i]);
    one_sided(out, in, kSizes[i]);
  }
  MPI_Finalize();
  if (rank == 0) printf("%d ranks: all data is right\n", ranks);
  return 0;
}
