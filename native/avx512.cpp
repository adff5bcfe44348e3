// AVX-512: a whole tile in one register.
#include <immintrin.h>

#include "tile.h"

namespace {

struct Avx512 {
  static constexpr size_t LANES = 16;
  static constexpr int ROWS = 4;
  using F = __m512;
  using I = __m512i;

  static F zero() { return _mm512_setzero_ps(); }
  static F load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* to, F value) { _mm512_storeu_ps(to, value); }
  static I words(const char* from) { return _mm512_loadu_si512(from); }
  template <int BITS>
  static I shift(I value) { return _mm512_srli_epi32(value, BITS); }
  static F low(I both) { return _mm512_castsi512_ps(_mm512_slli_epi32(both, 16)); }
  static F high(I both) { return _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32(int(0xffff0000u)))); }
  static F once(float value) { return _mm512_set1_ps(value); }
  static F quad(const float* from) { return _mm512_broadcast_f32x4(_mm_loadu_ps(from)); }
  static F pick(F quad, I where) { return _mm512_permutevar_ps(quad, where); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
};

}  // namespace

const pressroom::Level pressroom::avx512 = {"avx512", run_sparse<Avx512>, run_dense<Avx512>};
