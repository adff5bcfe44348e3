// Linear8       X float [.., K], bytes uint8 [N, blocks, block], scales float [N, blocks] -> Y float [.., N]
//   attributes  in_features K, out_features N, block_size
// Both weights are those of MatMulNBits with 8 bits; they must be constants, and are rearranged when a session is made.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "arena.h"
#include "kernel.h"
#include "linear8.h"

namespace {

class Linear8Op {
 public:
  static constexpr const char* NAME = "Linear8";
  static constexpr int INPUTS[] = {ort::FLOAT, ort::UINT8, ort::FLOAT};
  static constexpr size_t OPTIONAL_FROM = 3;

  Linear8Op(const Api& api, const OrtKernelInfo* info) {
    layer_.inputs = size_attribute(api, info, "in_features", 1);
    layer_.outputs = size_attribute(api, info, "out_features", 1);
    layer_.block = size_attribute(api, info, "block_size", 64);
    const Tensor bytes = weight(api, info, 1, "bytes"), scales = weight(api, info, 2, "scales");
    expect(api, "bytes", bytes, layer_.outputs * layer_.blocks() * layer_.block);
    expect(api, "scales", scales, layer_.outputs * layer_.blocks());
    records_ = pressroom::Arena::take(layer_.tiles() * layer_.blocks() * layer_.record_bytes());
    layer_.records = records_.get();
    arrange(static_cast<const uint8_t*>(bytes.data), static_cast<const float*>(scales.data));
  }

  void compute(const Api& api, OrtKernelContext* context) const {
    const Tensor x = input(api, context);
    expect_width(api, x, layer_.inputs);
    std::vector<int64_t> shape = x.shape;
    shape.back() = static_cast<int64_t>(layer_.outputs);
    float* y = output(api, context, shape);
    const pressroom::Rounded rounded = round(static_cast<const float*>(x.data), x.leading());
    share_out(api, context, layer_.tiles(), layer_.inputs * pressroom::TILE8,
              [&](size_t first, size_t last) { pressroom::multiply8(layer_, rounded, y, first, last); });
  }

 private:
  // Rows of nought fill up the last tile.
  void arrange(const uint8_t* bytes, const float* scales) {
    const size_t blocks = layer_.blocks(), block = layer_.block;
    uint8_t* record = records_.get();
    for (size_t first = 0; first < layer_.tiles() * pressroom::TILE8; first += pressroom::TILE8)
      for (size_t b = 0; b < blocks; ++b, record += layer_.record_bytes())
        for (size_t lane = 0; lane < pressroom::TILE8 && first + lane < layer_.outputs; ++lane) {
          const size_t at = (first + lane) * blocks + b;
          for (size_t k = 0; k < block; k += pressroom::QUAD)
            std::memcpy(record + k * pressroom::TILE8 + lane * pressroom::QUAD, bytes + at * block + k, pressroom::QUAD);
          std::memcpy(record + block * pressroom::TILE8 + lane * sizeof(float), scales + at, sizeof(float));
        }
  }

  // The batch in bytes, in memory of this thread that is used again by every layer.
  pressroom::Rounded round(const float* x, size_t rows) const {
    thread_local std::vector<int8_t> bytes;
    thread_local std::vector<float> scales;
    thread_local std::vector<int32_t> offsets;
    const size_t blocks = rows * layer_.blocks();
    bytes.resize(blocks * layer_.block);
    scales.resize(blocks);
    offsets.resize(blocks);
    pressroom::round_rows(layer_, x, rows, bytes.data(), scales.data(), offsets.data());
    return {bytes.data(), scales.data(), offsets.data(), rows};
  }

  pressroom::Linear8 layer_{};
  std::shared_ptr<uint8_t> records_;
};

}  // namespace
