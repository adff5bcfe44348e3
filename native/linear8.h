// Linear layers y = W x whose weights are bytes with a scale for every block of inputs, as MatMulNBits stores them:
//   W[n, k] = (bytes[n, k] - 128) * scales[n, k / block]
// A row of x is rounded to signed bytes, block by block, with the block's largest magnitude as 127. Products are summed
// exactly in integers inside a block, and in float32 from block to block, in the same order whatever the batch: a row's
// result does not depend on its mates.
//
// Weights are kept a second time, in the order they are read: records [tiles, blocks], one stream through memory, each
//   bytes   uint8 [block / 4, 16, 4]   four inputs of sixteen rows
//   scales  float32 [16]
#pragma once

#include <cstddef>
#include <cstdint>

namespace pressroom {

constexpr size_t TILE8 = 16;      // rows of W side by side
constexpr size_t QUAD = 4;        // inputs that one instruction multiplies and adds
constexpr int32_t ZERO8 = 128;    // the byte that stands for a weight of nought

struct Linear8 {
  const uint8_t* records;
  size_t inputs;
  size_t outputs;
  size_t block;  // inputs that share a scale; a multiple of 64

  size_t tiles() const { return (outputs + TILE8 - 1) / TILE8; }
  size_t blocks() const { return (inputs + block - 1) / block; }
  size_t record_bytes() const { return TILE8 * (block + sizeof(float)); }
};

// Rows of x in bytes; `offset` undoes that weights are stored with 128 added.
struct Rounded {
  const int8_t* bytes;     // [rows, blocks * block], nought beyond the inputs
  const float* scales;     // [rows, blocks]; NaN where a block holds no finite numbers
  const int32_t* offsets;  // [rows, blocks]: -128 times the sum of a block's bytes
  size_t rows;
};

bool has_vnni();

// The kernels, of processors with AVX-512 VNNI (`has_vnni`).
void round_rows(const Linear8&, const float* x, size_t rows, int8_t* bytes, float* scales, int32_t* offsets);
// The outputs of tiles first..last (last excluded) for every row; y [rows, outputs].
void multiply8(const Linear8&, const Rounded& x, float* y, size_t first, size_t last);

}  // namespace pressroom
