// AVX2 with fused multiply-add: a tile in two halves.
#include <immintrin.h>

#include "tile.h"

namespace {

struct Avx2 {
  static constexpr size_t LANES = 8;
  static constexpr int ROWS = 4;
  using F = __m256;
  using I = __m256i;

  static F zero() { return _mm256_setzero_ps(); }
  static F load(const float* from) { return _mm256_loadu_ps(from); }
  static void store(float* to, F value) { _mm256_storeu_ps(to, value); }
  static I words(const char* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
  template <int BITS>
  static I shift(I value) { return _mm256_srli_epi32(value, BITS); }
  static F low(I both) { return _mm256_castsi256_ps(_mm256_slli_epi32(both, 16)); }
  static F high(I both) { return _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32(int(0xffff0000u)))); }
  static F once(float value) { return _mm256_set1_ps(value); }
  static F quad(const float* from) { return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(from)); }
  static F pick(F quad, I where) { return _mm256_permutevar_ps(quad, where); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
};

}  // namespace

const pressroom::Level pressroom::avx2 = {"avx2", run_sparse<Avx2>, run_dense<Avx2>};
