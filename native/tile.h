// One kernel for every instruction set: written over a vector type V, compiled once a level with that level's flags.
//
// V offers LANES (16, or fewer where a tile is done in pieces), F (floats), I (32-bit words), ROWS (batch rows whose sums
// fit the registers) and: zero, load, store, words, shift<n>, low, high, once (one float everywhere), quad (four floats
// repeated), pick (of a quad, by the low two bits of each lane's word) and fma.
// Everything here is in an unnamed namespace: levels must not share a function compiled for another processor.
#pragma once

#include <algorithm>
#include <cstring>

#include "linear.h"

namespace {

using pressroom::Batch;
using pressroom::GROUP;
using pressroom::Linear;
using pressroom::PATTERN_GROUPS;
using pressroom::TILE;

constexpr size_t CACHED_BYTES = 256 * 1024;  // inputs gone over again for each tile: they should stay in the second-level cache

template <class V, int M, int SIDE>
void clear(typename V::F (&sums)[M][SIDE]) {
  for (int m = 0; m < M; ++m)
    for (int s = 0; s < SIDE; ++s) sums[m][s] = V::zero();
}

template <class V, int M, int SIDE>
void join(typename V::F (&sums)[M][SIDE], typename V::F (&other)[M][SIDE]) {
  for (int m = 0; m < M; ++m)
    for (int s = 0; s < SIDE; ++s) sums[m][s] = V::add(sums[m][s], other[m][s]);
}

// Weights of 2:4 groups: two values a lane and where in the group they stand.
template <class V, class T>
struct Sparse {
  static constexpr size_t VALUE_STEP = TILE * 2 * sizeof(T);  // bytes a group

  static size_t tile_bytes(const Linear& w) { return w.groups() * VALUE_STEP; }
  static size_t tile_words(const Linear& w) { return w.blocks() * TILE; }
  static void pair(const char* values, typename V::F& first, typename V::F& second) {
    if constexpr (sizeof(T) == 2) {
      const typename V::I both = V::words(reinterpret_cast<const uint32_t*>(values));
      first = V::low(both);
      second = V::high(both);
    } else {
      first = V::load(reinterpret_cast<const float*>(values));
      second = V::load(reinterpret_cast<const float*>(values) + TILE);
    }
  }

  // Sums of M rows of x over SIDE pieces of LANES outputs that lie `value_gap` bytes and `word_gap` words apart.
  template <int M, int SIDE>
  static void sum(const Linear& w, const char* values, const uint32_t* pattern, size_t value_gap, size_t word_gap,
                  const float* x, size_t stride, typename V::F (&sums)[M][SIDE]) {
    typename V::F other[M][SIDE];
    clear<V, M, SIDE>(sums);
    clear<V, M, SIDE>(other);
    const size_t groups = w.groups();
    for (size_t start = 0; start < groups; start += PATTERN_GROUPS, pattern += TILE) {
      typename V::I where[SIDE];
      for (int s = 0; s < SIDE; ++s) where[s] = V::words(pattern + s * word_gap);
      const size_t here = std::min(PATTERN_GROUPS, groups - start);
      const auto step = [&](size_t) {
        for (int s = 0; s < SIDE; ++s) {
          typename V::F first, second;
          pair(values + s * value_gap, first, second);
          const typename V::I next = V::template shift<2>(where[s]);
          for (int m = 0; m < M; ++m) {
            const typename V::F quad = V::quad(x + m * stride);
            sums[m][s] = V::fma(first, V::pick(quad, where[s]), sums[m][s]);
            other[m][s] = V::fma(second, V::pick(quad, next), other[m][s]);
          }
          where[s] = V::template shift<4>(where[s]);
        }
        values += VALUE_STEP;
        x += GROUP;
      };
      if (here == PATTERN_GROUPS) {
#pragma GCC unroll 8
        for (size_t j = 0; j < PATTERN_GROUPS; ++j) step(j);
      } else {
        for (size_t j = 0; j < here; ++j) step(j);
      }
    }
    join<V, M, SIDE>(sums, other);
  }
};

// Dense bfloat16 weights: inputs 2k and 2k+1 in the two halves of a lane's word.
template <class V>
struct Dense {
  static constexpr size_t VALUE_STEP = TILE * 4;

  static size_t tile_bytes(const Linear& w) { return w.inputs / 2 * VALUE_STEP; }
  static size_t tile_words(const Linear&) { return 0; }

  template <int M, int SIDE>
  static void sum(const Linear& w, const char* values, const uint32_t*, size_t value_gap, size_t, const float* x,
                  size_t stride, typename V::F (&sums)[M][SIDE]) {
    typename V::F other[M][SIDE];
    clear<V, M, SIDE>(sums);
    clear<V, M, SIDE>(other);
    for (size_t pairs = w.inputs / 2; pairs > 0; --pairs, values += VALUE_STEP, x += 2) {
      for (int s = 0; s < SIDE; ++s) {
        const typename V::I both = V::words(reinterpret_cast<const uint32_t*>(values + s * value_gap));
        const typename V::F even = V::low(both), odd = V::high(both);
        for (int m = 0; m < M; ++m) {
          sums[m][s] = V::fma(even, V::once(x[m * stride]), sums[m][s]);
          other[m][s] = V::fma(odd, V::once(x[m * stride + 1]), other[m][s]);
        }
      }
    }
    join<V, M, SIDE>(sums, other);
  }
};

// Write LANES sums, or as many of them as there are outputs left.
template <class V>
void put(float* y, typename V::F sums, size_t left) {
  if (left >= V::LANES) {
    V::store(y, sums);
  } else {
    float lanes[V::LANES];
    V::store(lanes, sums);
    std::memcpy(y, lanes, left * sizeof(float));
  }
}

// SIDE pieces of LANES outputs from `output` on, for M rows of the batch.
template <class V, class Weights, int M, int SIDE>
void piece(const Linear& w, const Batch& batch, size_t row, size_t output) {
  const size_t tile = output / TILE, lane = output % TILE;
  const char* values = static_cast<const char*>(w.values) + tile * Weights::tile_bytes(w) + lane * 4;
  const uint32_t* pattern = w.pattern + tile * Weights::tile_words(w) + lane;
  const bool whole = V::LANES == TILE;  // pieces are neighbouring tiles, else parts of one tile
  const size_t value_gap = whole ? Weights::tile_bytes(w) : V::LANES * 4;
  const size_t word_gap = whole ? Weights::tile_words(w) : V::LANES;
  typename V::F sums[M][SIDE];
  Weights::template sum<M, SIDE>(w, values, pattern, value_gap, word_gap, batch.x + row * batch.x_stride,
                                 batch.x_stride, sums);
  for (int m = 0; m < M; ++m)
    for (int s = 0; s < SIDE; ++s) {
      const size_t first = output + s * V::LANES;
      if (first < w.outputs) put<V>(batch.y + (row + m) * batch.y_stride + first, sums[m][s], w.outputs - first);
    }
}

// The rows that no full block of V::ROWS is left for.
template <class V, class Weights, int M>
void rest(const Linear& w, const Batch& batch, size_t row, size_t rows, size_t output) {
  if constexpr (M > 0) {
    if (rows == M) return piece<V, Weights, M, 1>(w, batch, row, output);
    rest<V, Weights, M - 1>(w, batch, row, rows, output);
  }
}

template <class V, class Weights>
void run(const Linear& w, const Batch& batch, size_t first, size_t last) {
  constexpr size_t SIDE = 2;  // two independent chains of sums where one row alone would wait for each result
  if (batch.rows == 1) {
    size_t output = first * TILE;
    const size_t end = last * TILE;
    for (; output + SIDE * V::LANES <= end; output += SIDE * V::LANES) piece<V, Weights, 1, SIDE>(w, batch, 0, output);
    for (; output < end; output += V::LANES) piece<V, Weights, 1, 1>(w, batch, 0, output);
    return;
  }
  const size_t cached = std::max<size_t>(V::ROWS, CACHED_BYTES / (w.inputs * sizeof(float)) / V::ROWS * V::ROWS);
  for (size_t begin = 0; begin < batch.rows; begin += cached) {
    const size_t end = std::min(batch.rows, begin + cached);
    for (size_t output = first * TILE; output < last * TILE; output += V::LANES) {
      size_t row = begin;
      for (; row + V::ROWS <= end; row += V::ROWS) piece<V, Weights, V::ROWS, 1>(w, batch, row, output);
      rest<V, Weights, V::ROWS - 1>(w, batch, row, end - row, output);
    }
  }
}

template <class V>
void run_sparse(const Linear& w, const Batch& batch, size_t first, size_t last) {
  if (w.kind == pressroom::Values::BFLOAT16) return run<V, Sparse<V, uint16_t>>(w, batch, first, last);
  run<V, Sparse<V, float>>(w, batch, first, last);
}

template <class V>
void run_dense(const Linear& w, const Batch& batch, size_t first, size_t last) {
  run<V, Dense<V>>(w, batch, first, last);
}

}  // namespace
