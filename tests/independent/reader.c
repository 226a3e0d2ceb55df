// SPDX-License-Identifier: Apache-2.0
// A reader of WEIG files that knows their header and their table and nothing more: what
// anyone writes who has read one page about the format. Prints a line a tensor.
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct header {
  uint32_t magic, version;
  uint64_t tensor_count, meta_offset, data_offset, file_size, flags, reserved[2];
};
struct tensor_meta {
  uint64_t name_offset;
  uint32_t dtype, pad;
  uint64_t shape_offset, shape_count, data_offset, data_size;
};
_Static_assert(sizeof(struct header) == 64 && sizeof(struct tensor_meta) == 48,
               "packed");

static int refuse(const char* why) { return fprintf(stderr, "%s\n", why), 1; }

int main(int argc, char** argv) {
  struct stat st;
  struct header h;
  const int fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;
  if (fd < 0 || fstat(fd, &st) != 0) return refuse("cannot open");
  const uint64_t size = (uint64_t)st.st_size;
  const char* base = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (base == MAP_FAILED || size < sizeof h) return refuse("cannot map");
  memcpy(&h, base, sizeof h);
  if (h.magic != 0x57454947 || h.version != 1) return refuse("not a WEIG file");
  if (h.file_size != size) return refuse("cut");
  if (h.meta_offset > size || h.data_offset > size ||
      h.tensor_count > (size - h.meta_offset) / sizeof(struct tensor_meta))
    return refuse("bad header");
  for (uint64_t i = 0; i < h.tensor_count; ++i) {
    struct tensor_meta t;
    memcpy(&t, base + h.meta_offset + i * sizeof t, sizeof t);
    if (t.data_offset > size || t.data_size > size - t.data_offset ||
        t.name_offset > size ||
        !memchr(base + t.name_offset, 0, size - t.name_offset) ||
        t.shape_offset > size || t.shape_count > (size - t.shape_offset) / 8)
      return refuse("bad record");
    printf("%s\t%" PRIu32 "\t[", base + t.name_offset, t.dtype);
    for (uint64_t d = 0; d < t.shape_count; ++d) {
      uint64_t dimension;
      memcpy(&dimension, base + t.shape_offset + 8 * d, 8);
      printf("%s%" PRIu64, d ? "," : "", dimension);
    }
    printf("]\t%" PRIu64 "\t%" PRIu64 "\n", t.data_offset, t.data_size);
  }
  return 0;
}
