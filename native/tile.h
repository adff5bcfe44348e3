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
using pressroom::BLOCK;
using pressroom::GROUP;
using pressroom::Linear;
using pressroom::TILE;
using pressroom::Values;

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
template <class V, Values KIND>
struct Sparse {
  static size_t tile_bytes(const Linear& w) { return w.blocks() * pressroom::record_bytes(KIND); }
  static void pair(const char* values, typename V::F& first, typename V::F& second) {
    if constexpr (KIND == Values::BFLOAT16) {
      const typename V::I both = V::words(values);
      first = V::low(both);
      second = V::high(both);
    } else {
      first = V::load(reinterpret_cast<const float*>(values));
      second = V::load(reinterpret_cast<const float*>(values) + TILE);
    }
  }

  // Sums of M rows of x over SIDE pieces of LANES outputs, whose weights begin `gap` bytes apart.
  template <int M, int SIDE>
  static void sum(const Linear& w, const char* weights, size_t gap, const float* x, size_t stride,
                  typename V::F (&sums)[M][SIDE]) {
    typename V::F other[M][SIDE];
    clear<V, M, SIDE>(sums);
    clear<V, M, SIDE>(other);
    const size_t groups = w.groups();
    for (size_t start = 0; start < groups; start += BLOCK) {
      typename V::I where[SIDE];
      for (int s = 0; s < SIDE; ++s) where[s] = V::words(weights + s * gap);
      weights += TILE * sizeof(uint32_t);
      const auto step = [&](size_t) {
        for (int s = 0; s < SIDE; ++s) {
          typename V::F first, second;
          pair(weights + s * gap, first, second);
          const typename V::I next = V::template shift<2>(where[s]);
          for (int m = 0; m < M; ++m) {
            const typename V::F quad = V::quad(x + m * stride);
            sums[m][s] = V::fma(first, V::pick(quad, where[s]), sums[m][s]);
            other[m][s] = V::fma(second, V::pick(quad, next), other[m][s]);
          }
          where[s] = V::template shift<4>(where[s]);
        }
        weights += pressroom::value_bytes(KIND);
        x += GROUP;
      };
      if (groups - start >= BLOCK) {
#pragma GCC unroll 8
        for (size_t j = 0; j < BLOCK; ++j) step(j);
      } else {
        for (size_t j = start; j < groups; ++j) step(j);
      }
    }
    join<V, M, SIDE>(sums, other);
  }
};

// Dense bfloat16 weights: inputs 2k and 2k+1 in the two halves of a lane's word.
template <class V>
struct Dense {
  static constexpr size_t PAIR_BYTES = TILE * 4;

  static size_t tile_bytes(const Linear& w) { return w.inputs / 2 * PAIR_BYTES; }

  template <int M, int SIDE>
  static void sum(const Linear& w, const char* weights, size_t gap, const float* x, size_t stride,
                  typename V::F (&sums)[M][SIDE]) {
    typename V::F other[M][SIDE];
    clear<V, M, SIDE>(sums);
    clear<V, M, SIDE>(other);
    for (size_t pairs = w.inputs / 2; pairs > 0; --pairs, weights += PAIR_BYTES, x += 2) {
      for (int s = 0; s < SIDE; ++s) {
        const typename V::I both = V::words(weights + s * gap);
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

// SIDE pieces of LANES outputs from `output` on, all of one tile, for M rows of the batch.
template <class V, class Weights, int M, int SIDE>
void piece(const Linear& w, const Batch& batch, size_t row, size_t output) {
  constexpr size_t GAP = V::LANES * 4;
  const char* weights = static_cast<const char*>(w.weights) + output / TILE * Weights::tile_bytes(w) + output % TILE * 4;
  typename V::F sums[M][SIDE];
  Weights::template sum<M, SIDE>(w, weights, GAP, batch.x + row * batch.x_stride, batch.x_stride, sums);
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
  constexpr int WHOLE = TILE / V::LANES;  // pieces of a tile: one row alone takes them together, in one pass over memory
  if (batch.rows == 1) {
    for (size_t tile = first; tile < last; ++tile) piece<V, Weights, 1, WHOLE>(w, batch, 0, tile * TILE);
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
  if (w.kind == Values::BFLOAT16) return run<V, Sparse<V, Values::BFLOAT16>>(w, batch, first, last);
  run<V, Sparse<V, Values::FLOAT32>>(w, batch, first, last);
}

template <class V>
void run_dense(const Linear& w, const Batch& batch, size_t first, size_t last) {
  run<V, Dense<V>>(w, batch, first, last);
}

}  // namespace
