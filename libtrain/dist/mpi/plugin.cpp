// libocr_mpi.so: the table of mpi_table.h, filled from the MPI library that it was built with. It
// links nothing of the project.
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <list>
#include <string>

#include "libtrain/dist/mpi/mpi_table.h"

namespace {

constexpr int kNoteTag = 7;

// Apart from each other: an order among f32 sums, one among the rest, and notes at any time.
MPI_Comm sums = MPI_COMM_NULL, others = MPI_COMM_NULL, notes = MPI_COMM_NULL;
std::string error;

// A note on its way, which must stay in memory until it has left.
struct Outgoing {
  std::string text;
  MPI_Request request;
};
std::list<Outgoing> outgoing;

bool good(int code, const char* what) {
  if (code == MPI_SUCCESS) return true;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  error = std::string(what) + ": " + std::string(text, static_cast<size_t>(length));
  return false;
}

int init(int* rank, int* size) {
  int given = 0;
  // Other threads read samples; MPI is called by one.
  if (!good(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given), "MPI_Init_thread"))
    return -1;
  for (MPI_Comm* c : {&sums, &others, &notes}) {
    if (!good(MPI_Comm_dup(MPI_COMM_WORLD, c), "MPI_Comm_dup")) return -1;
    MPI_Comm_set_errhandler(*c, MPI_ERRORS_RETURN);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, size);
  return 0;
}

template <class Start>
void* start(const char* what, Start&& begin) {
  auto* request = new MPI_Request(MPI_REQUEST_NULL);
  if (good(begin(request), what)) return request;
  delete request;
  return nullptr;
}

void* start_sum_f32(float* data, int count) {
  return start("MPI_Iallreduce", [&](MPI_Request* r) {
    return MPI_Iallreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, sums, r);
  });
}
void* start_sum_f64(double* data, int count) {
  return start("MPI_Iallreduce", [&](MPI_Request* r) {
    return MPI_Iallreduce(MPI_IN_PLACE, data, count, MPI_DOUBLE, MPI_SUM, others, r);
  });
}
void* start_broadcast(char* data, int count) {
  return start("MPI_Ibcast",
               [&](MPI_Request* r) { return MPI_Ibcast(data, count, MPI_CHAR, 0, others, r); });
}
void* start_barrier() {
  return start("MPI_Ibarrier", [&](MPI_Request* r) { return MPI_Ibarrier(others, r); });
}

int test(void* handle) {
  auto* request = static_cast<MPI_Request*>(handle);
  int done = 0;
  if (!good(MPI_Test(request, &done, MPI_STATUS_IGNORE), "MPI_Test")) return -1;
  if (done) delete request;
  return done ? 1 : 0;
}

void send_note(int to, const char* text, int bytes) {
  outgoing.remove_if([](Outgoing& o) {
    int done = 0;
    MPI_Test(&o.request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  });
  outgoing.push_back({std::string(text, static_cast<size_t>(bytes)), MPI_REQUEST_NULL});
  Outgoing& o = outgoing.back();
  MPI_Isend(o.text.data(), bytes, MPI_CHAR, to, kNoteTag, notes, &o.request);
}

int receive_note(int* from, char* text, int capacity) {
  int there = 0, bytes = 0;
  MPI_Status status;
  if (MPI_Iprobe(MPI_ANY_SOURCE, kNoteTag, notes, &there, &status) != MPI_SUCCESS || !there)
    return 0;
  MPI_Get_count(&status, MPI_CHAR, &bytes);
  *from = status.MPI_SOURCE;
  if (bytes > capacity) bytes = capacity;
  MPI_Recv(text, bytes, MPI_CHAR, *from, kNoteTag, notes, MPI_STATUS_IGNORE);
  return bytes;
}

const char* last_error() { return error.c_str(); }

void finalize() {
  MPI_Comm_free(&sums);
  MPI_Comm_free(&others);
  MPI_Comm_free(&notes);
  MPI_Finalize();
}

void abort_all(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

}  // namespace

extern "C" __attribute__((visibility("default"))) const OcrMpiTable* ocr_mpi_table() {
  static const OcrMpiTable table{kOcrMpiVersion,  init,          start_sum_f32, start_sum_f64,
                                 start_broadcast, start_barrier, test,          send_note,
                                 receive_note,    last_error,    finalize,      abort_all};
  return &table;
}
