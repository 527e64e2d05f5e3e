// What libocr_mpi.so gives the program: a table of C functions, so that `ocr` itself needs no MPI.
#pragma once
#include <cstdint>

/// All functions belong to one thread. A request is an operation under way, which test() ends;
/// every rank starts the same operations in the same order, f32 sums in an order of their own.
struct OcrMpiTable {
  int version;  // kOcrMpiVersion of the plug-in
  /// MPI_Init. Returns 0, else the error is in last_error().
  int (*init)(int* rank, int* size);
  /// Each starts an operation and returns its request, null on an error. Sums and the broadcast
  /// (rank 0's bytes to all) are in place; the memory must stay until the request has ended.
  void* (*start_sum_f32)(float* data, int count);
  void* (*start_sum_f64)(double* data, int count);
  void* (*start_broadcast)(char* data, int count);
  void* (*start_barrier)();
  /// 1: ended, and the request is gone; 0: not yet; -1: failed, see last_error().
  int (*test)(void* request);
  /// Short texts beside the operations. Sending waits for nobody and ignores errors; receiving
  /// returns the number of bytes and the sender, 0 bytes when there is nothing.
  void (*send_note)(int to, const char* text, int bytes);
  int (*receive_note)(int* from, char* text, int capacity);
  const char* (*last_error)();
  void (*finalize)();
  /// Ends all ranks; does not return.
  void (*abort)(int code);
};

inline constexpr int kOcrMpiVersion = 1;
inline constexpr const char* kOcrMpiSymbol = "ocr_mpi_table";
using OcrMpiTableFunction = const OcrMpiTable* (*)();
