// AVX-512 VNNI: sixty-four products of bytes an instruction.
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "linear8.h"

namespace pressroom {

namespace {

constexpr int ROWS = 8;  // batch rows whose sums fit the registers
constexpr size_t WIDTH = 64;

// One block of a row, `present` of its inputs being there.
void round_block(const float* x, size_t present, size_t block, int8_t* bytes, float& scale, int32_t& offset) {
  constexpr size_t LANES = 16;
  const auto mask = [&](size_t i) {
    return static_cast<__mmask16>(i >= present ? 0 : present - i >= LANES ? 0xffff : (1u << (present - i)) - 1);
  };
  __m512 largest = _mm512_setzero_ps();
  __mmask16 odd = 0;  // NaN
  for (size_t i = 0; i < block; i += LANES) {
    const __m512 part = _mm512_abs_ps(_mm512_maskz_loadu_ps(mask(i), x + i));
    odd |= _mm512_cmp_ps_mask(part, part, _CMP_UNORD_Q);
    largest = _mm512_max_ps(largest, part);
  }
  const float most = _mm512_reduce_max_ps(largest);
  const bool finite = !odd && most <= std::numeric_limits<float>::max();
  scale = finite ? most / 127.0f : std::numeric_limits<float>::quiet_NaN();
  const __m512 factor = _mm512_set1_ps(finite && scale > 0 ? 1.0f / scale : 0.0f);
  const __m512i low = _mm512_set1_epi32(-127), high = _mm512_set1_epi32(127);
  __m512i sum = _mm512_setzero_si512();
  for (size_t i = 0; i < block; i += LANES) {
    const __m512 part = _mm512_maskz_loadu_ps(mask(i), x + i);
    const __m512i whole = _mm512_max_epi32(low, _mm512_min_epi32(high, _mm512_cvtps_epi32(_mm512_mul_ps(part, factor))));
    sum = _mm512_add_epi32(sum, whole);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes + i), _mm512_cvtepi32_epi8(whole));
  }
  offset = -ZERO8 * _mm512_reduce_add_epi32(sum);
}

inline __m512i quad(const int8_t* bytes) {
  int32_t four;
  std::memcpy(&four, bytes, sizeof four);
  return _mm512_set1_epi32(four);
}

// One tile for M rows of the batch, from `row` on. Chains of sums that do not wait for one another: integers may be
// added in any order.
template <int M>
void tile(const Linear8& w, const Rounded& x, size_t row, const uint8_t* record, __m512 (&sums)[M]) {
  constexpr int CHAINS = M == 1 ? 4 : M <= 3 ? 2 : 1;
  const size_t blocks = w.blocks(), stride = blocks * w.block;
  const int8_t* bytes = x.bytes + row * stride;
  const float* scales = x.scales + row * blocks;
  const int32_t* offsets = x.offsets + row * blocks;
  for (int m = 0; m < M; ++m) sums[m] = _mm512_setzero_ps();
  for (size_t b = 0; b < blocks; ++b) {
    __m512i whole[M][CHAINS];
    for (int m = 0; m < M; ++m) {
      whole[m][0] = _mm512_set1_epi32(offsets[m * blocks + b]);
      for (int c = 1; c < CHAINS; ++c) whole[m][c] = _mm512_setzero_si512();
    }
    for (size_t k = 0; k < w.block; k += CHAINS * QUAD) {
      for (int c = 0; c < CHAINS; ++c, record += WIDTH, bytes += QUAD) {
        const __m512i weights = _mm512_load_si512(record);
        for (int m = 0; m < M; ++m) whole[m][c] = _mm512_dpbusd_epi32(whole[m][c], weights, quad(bytes + m * stride));
      }
    }
    const __m512 scale = _mm512_load_ps(record);
    record += TILE8 * sizeof(float);
    for (int m = 0; m < M; ++m) {
      for (int c = 1; c < CHAINS; ++c) whole[m][0] = _mm512_add_epi32(whole[m][0], whole[m][c]);
      const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(scales[m * blocks + b]));
      sums[m] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole[m][0]), both, sums[m]);
    }
  }
}

template <int M>
void rows_of(const Linear8& w, const Rounded& x, float* y, size_t row, size_t rows, size_t at) {
  if constexpr (M > 1) {
    if (rows < M) return rows_of<M - 1>(w, x, y, row, rows, at);
  }
  __m512 sums[M];
  tile<M>(w, x, row, w.records + at * w.blocks() * w.record_bytes(), sums);
  const size_t first = at * TILE8, left = w.outputs - first;
  const auto mask = static_cast<__mmask16>(left >= TILE8 ? 0xffff : (1u << left) - 1);
  for (int m = 0; m < M; ++m) _mm512_mask_storeu_ps(y + (row + m) * w.outputs + first, mask, sums[m]);
}

}  // namespace

void round_rows(const Linear8& w, const float* x, size_t rows, int8_t* bytes, float* scales, int32_t* offsets) {
  for (size_t row = 0; row < rows; ++row, x += w.inputs)
    for (size_t k = 0; k < w.blocks() * w.block; k += w.block, bytes += w.block)
      round_block(x + k, w.inputs - k, w.block, bytes, *scales++, *offsets++);
}

void multiply8(const Linear8& w, const Rounded& x, float* y, size_t first, size_t last) {
  for (size_t at = first; at < last; ++at)
    for (size_t row = 0; row < x.rows; row += ROWS)
      rows_of<ROWS>(w, x, y, row, std::min<size_t>(ROWS, x.rows - row), at);
}

}  // namespace pressroom
