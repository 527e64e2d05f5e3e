/* The text of a page in C: open, read, free. */
#include <stdio.h>

#include "libocr/pipeline/ocr.h"

int main(int argc, char** argv) {
  if (argc < 2) return fprintf(stderr, "usage: example_read_page_c IMAGE [SETTINGS]\n"), 2;
  ocr_reader* reader = ocr_open(argc > 2 ? argv[2] : NULL);
  char* json = reader ? ocr_read_file(reader, argv[1]) : NULL;
  if (json)
    printf("%s", json);
  else
    fprintf(stderr, "%s\n", ocr_last_error());
  const int failed = json == NULL;
  ocr_free(json);
  ocr_close(reader);
  return failed;
}
