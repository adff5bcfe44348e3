// Linear layers y = W x over packed weights: what a kernel is given, and the levels there are.
//
// Rows of W lie in tiles of sixteen, one row a lane, so that a tile's sums need no adding across lanes:
//   sparse, 2:4 along inputs   records [tiles, blocks] of eight groups of four inputs, one after the other in memory:
//                              a word a lane, four bits a group: the two positions (0..3) inside the group, first in
//                              the low bits; then a group's values, bfloat16 [16, 2] or float32 [2, 16]
//   dense                      bfloat16 [tiles, inputs / 2, 16, 2]
// The last tile is filled up with zero rows, the last record with zero groups; neither is ever written or read from x.
// Sums run in the same order whatever the batch, so a row's result does not depend on its mates. Pruned weights are
// skipped: an infinite or NaN input spoils only the rows that keep a weight for it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pressroom {

constexpr size_t TILE = 16;  // rows of W side by side
constexpr size_t GROUP = 4;  // inputs that share two weights
constexpr size_t BLOCK = 8;  // groups whose positions fill a word

enum class Values { FLOAT32, BFLOAT16 };

struct Linear {
  const void* weights;
  Values kind;
  size_t inputs;  // multiple of 4 if sparse, of 2 if dense
  size_t outputs;

  size_t tiles() const { return (outputs + TILE - 1) / TILE; }
  size_t groups() const { return inputs / GROUP; }
  size_t blocks() const { return (groups() + BLOCK - 1) / BLOCK; }
};

// Bytes of one group's values, and of one record.
constexpr size_t value_bytes(Values kind) { return TILE * 2 * (kind == Values::FLOAT32 ? 4 : 2); }
constexpr size_t record_bytes(Values kind) { return TILE * sizeof(uint32_t) + BLOCK * value_bytes(kind); }

// Rows of inputs and outputs; neighbouring rows are `stride` floats apart.
struct Batch {
  const float* x;
  float* y;  // first output of the layer in the first row
  size_t rows;
  size_t x_stride;
  size_t y_stride;
};

// Compute the outputs of tiles first..last (last excluded) for every row of the batch.
using Run = void (*)(const Linear&, const Batch&, size_t first, size_t last);

struct Level {
  const char* name;
  Run sparse;
  Run dense;
};

// The fastest level of this processor, or the one called `wanted`; null where the processor cannot run that.
const Level* level(const char* wanted);

extern const Level portable;
#if defined(__x86_64__)
extern const Level avx2;
extern const Level avx512;
#endif

}  // namespace pressroom
