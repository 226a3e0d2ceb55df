// SPDX-License-Identifier: Apache-2.0
// A writer of minimal WEIG files: header, table, names and shapes, data; flags and
// reserved fields 0. With --big-endian, all integers and elements are big-endian.
//
// Element k of every tensor holds k + 1 in its type, complex ones (k + 1) - (k + 1)j.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum kind { integer, real, complex };

static const struct tensor {
  const char* name;
  uint32_t dtype;
  unsigned width;  // of a number
  enum kind kind;
  uint64_t rank, shape[3];
} kTensors[] = {
    {"layer.0.weight", 0, 4, real, 2, {2, 3}},
    {"layer.0.bias", 1, 2, real, 1, {5}},
    {"head", 2, 2, real, 3, {2, 1, 2}},
    {"i8", 3, 1, integer, 1, {7}},
    {"u8", 4, 1, integer, 1, {3}},
    {"i32", 5, 4, integer, 1, {3}},
    {"f64", 6, 8, real, 1, {2}},
    {"i64", 7, 8, integer, 0, {0}},
    {"u16", 9, 2, integer, 1, {6}},
    {"complex64", 23, 4, complex, 1, {2}},
    {"empty", 0, 4, real, 2, {0, 4}},
};
enum {
  kCount = sizeof kTensors / sizeof *kTensors,
  kTable = 64,
  kStrings = 64 + 48 * kCount
};

static unsigned char file[1 << 16];
static int big_endian;

static void put(uint64_t at, uint64_t value, unsigned width) {
  for (unsigned i = 0; i < width; ++i)
    file[at + (big_endian ? width - 1 - i : i)] = (unsigned char)(value >> 8 * i);
}

// The bits of `value` as an IEEE number; exact for the small whole numbers used here.
static uint64_t bits_of(double value, uint32_t dtype, unsigned width) {
  uint64_t bits;
  float narrow = (float)value;
  uint32_t word;
  memcpy(&bits, &value, 8);
  memcpy(&word, &narrow, 4);
  if (width == 8) return bits;
  if (width == 4) return word;
  if (dtype == 2) return word >> 16;  // bf16
  return word ? (word >> 16 & 0x8000) | (((word >> 23 & 0xFF) - 112) << 10) |
                    (word >> 13 & 0x3FF)
              : 0;
}

static uint64_t put_elements(const struct tensor* t, uint64_t at) {
  uint64_t count = 1;
  for (uint64_t d = 0; d < t->rank; ++d) count *= t->shape[d];
  for (uint64_t k = 1; k <= count; ++k) {
    put(at, t->kind == integer ? k : bits_of((double)k, t->dtype, t->width), t->width);
    at += t->width;
    if (t->kind != complex) continue;
    put(at, bits_of(-(double)k, t->dtype, t->width), t->width);
    at += t->width;
  }
  return at;
}

int main(int argc, char** argv) {
  big_endian = argc == 3 && strcmp(argv[1], "--big-endian") == 0;
  if (argc != 2 + big_endian) return fprintf(stderr, "[--big-endian] FILE\n"), 1;
  uint64_t string = kStrings;
  uint64_t shapes = 2048;
  uint64_t data = 4096;
  for (uint64_t i = 0; i < kCount; ++i) {
    const struct tensor* t = &kTensors[i];
    const uint64_t record = kTable + 48 * i;
    put(record, string, 8);
    put(record + 8, t->dtype, 4);
    put(record + 16, shapes, 8);
    put(record + 24, t->rank, 8);
    put(record + 32, data, 8);
    strcpy((char*)file + string, t->name);
    string += strlen(t->name) + 1;
    for (uint64_t d = 0; d < t->rank; ++d, shapes += 8) put(shapes, t->shape[d], 8);
    const uint64_t end = put_elements(t, data);
    put(record + 40, end - data, 8);
    data = (end + 63) / 64 * 64;
  }
  put(0, 0x57454947, 4);
  put(4, 1, 4);
  put(8, kCount, 8);
  put(16, kTable, 8);
  put(24, 4096, 8);
  put(32, data, 8);
  FILE* out = fopen(argv[argc - 1], "wb");
  if (!out || fwrite(file, 1, data, out) != data || fclose(out) != 0)
    return perror("cannot write"), 1;
  return 0;
}
