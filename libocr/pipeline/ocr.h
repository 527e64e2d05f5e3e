/* C interface of the page pipeline: open models, read pages, get JSON. Usable from C and, through
 * it, from most other languages. Nothing is thrown across it. A reader is immutable: any number of
 * threads may read with one at a time, and each error text belongs to the thread that caused it. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define OCR_API __attribute__((visibility("default")))
#else
#define OCR_API
#endif

typedef struct ocr_reader ocr_reader;

/* Version of this interface; it changes when programs must be compiled anew. */
#define OCR_ABI_VERSION 1
OCR_API int ocr_abi_version(void);
/* The program's version, e.g. "0.1.0". Never freed. */
OCR_API const char* ocr_version(void);

/* Opens a reader. `settings` is null or text of lines `name: value` in YAML, with the names of
 * `ocr infer --help`, e.g. "models: accurate\ndrop_score: 0.3". Returns null on failure. */
OCR_API ocr_reader* ocr_open(const char* settings);
OCR_API void ocr_close(ocr_reader* reader); /* null is fine */

/* Each returns the result as JSON (the form of `ocr infer --format json`), to be freed with
 * ocr_free(), or null on failure. */
OCR_API char* ocr_read_file(const ocr_reader* reader, const char* path);
/* An encoded file in memory (JPEG, PNG, PDF, ...); `name` stands for it in the result. */
OCR_API char* ocr_read_bytes(const ocr_reader* reader, const void* bytes, size_t size,
                             const char* name);
/* Pixels: 8 bits, `channels` 1 (grey), 3 (BGR) or 4 (BGRA, alpha not looked at); rows `stride`
 * bytes apart. */
OCR_API char* ocr_read_pixels(const ocr_reader* reader, const uint8_t* pixels, int width,
                              int height, int channels, ptrdiff_t stride);
OCR_API void ocr_free(char* json); /* null is fine */

/* What the last call of this thread that failed had to say; valid until its next call. */
OCR_API const char* ocr_last_error(void);

#ifdef __cplusplus
}
#endif
