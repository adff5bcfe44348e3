// The library onnxruntime loads: ops of the domain `pressroom`, version 1.
//
// PackedLinear24  X float [.., in], records uint8 [tiles, blocks, bytes], order int32 [parts, in] (optional)
//                 ->  Y float [.., out]
//   attributes  in_features (int), rows (ints: outputs of each part; parts are packed one after the other)
//   order       part p reads X[.., order[p]]: a layer whose 2:4 groups hold in that order of its inputs
// Linear16        X float [.., in], values  ->  Y float [.., out];         attributes in_features, out_features
// Embedding16     ids int64 [..], values        ->  Y float [.., in];          attributes in_features, out_features
//   a tied embedding: row `id` of the matrix that Linear16 multiplies with
// Linear8        see linear8_op.h
// Weights must be constants of the graph: their sizes are checked once, when a session is made.
// The environment variable PRESSROOM_SIMD (avx512, avx2, portable) forces a level, for tests and comparisons.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernel.h"
#include "linear.h"
#if defined(__x86_64__)
#include "linear8_op.h"
#endif

namespace {

using pressroom::Batch;
using pressroom::Linear;
using pressroom::record_bytes;
using pressroom::TILE;
using pressroom::Values;

const pressroom::Level& chosen_level(const Api& api) {
  const char* wanted = std::getenv("PRESSROOM_SIMD");
  const pressroom::Level* level = pressroom::level(wanted);
  if (!level) refuse(api, std::string("PRESSROOM_SIMD: this processor cannot run ") + wanted);
  return *level;
}

void multiply(const Api& api, const OrtKernelContext* context, pressroom::Run run, const Linear& layer,
              const Batch& batch) {
  share_out(api, context, layer.tiles(), layer.inputs * TILE,
            [&](size_t first, size_t last) { run(layer, batch, first, last); });
}

class PackedLinear24 {
 public:
  static constexpr const char* NAME = "PackedLinear24";
  static constexpr int INPUTS[] = {ort::FLOAT, ort::UINT8, ort::INT32};
  static constexpr size_t OPTIONAL_FROM = 2;

  PackedLinear24(const Api& api, const OrtKernelInfo* info) : run_(chosen_level(api).sparse) {
    inputs_ = size_attribute(api, info, "in_features", pressroom::GROUP);
    add_parts(api, part_rows(api, info), weight(api, info, 1, "records"));
    read_order(api, info);
  }

  void compute(const Api& api, OrtKernelContext* context) const {
    const Tensor x = input(api, context);
    expect_width(api, x, inputs_);
    std::vector<int64_t> shape = x.shape;
    shape.back() = static_cast<int64_t>(outputs_);
    float* y = output(api, context, shape);
    const size_t rows = x.leading();
    for (size_t part = 0; part < parts_.size(); ++part) {
      const float* from = gathered(part, static_cast<const float*>(x.data), rows);
      multiply(api, context, run_, parts_[part], {from, y, rows, inputs_, outputs_});
      y += parts_[part].outputs;
    }
  }

 private:
  static std::vector<int64_t> part_rows(const Api& api, const OrtKernelInfo* info) {
    size_t count = 0;
    check(api.attributes(info, "rows", nullptr, &count));
    std::vector<int64_t> rows(count);
    check(api.attributes(info, "rows", rows.data(), &count));
    for (const int64_t one : rows)
      if (one <= 0) refuse(api, "rows: every part needs a row at least");
    return rows;
  }

  // The length of a record tells what kind of values it holds.
  void add_parts(const Api& api, const std::vector<int64_t>& rows, const Tensor& records) {
    const size_t bytes = records.shape.empty() ? 0 : static_cast<size_t>(records.shape.back());
    const Values kind = bytes == record_bytes(Values::BFLOAT16) ? Values::BFLOAT16 : Values::FLOAT32;
    if (bytes != record_bytes(kind)) refuse(api, "records: of " + std::to_string(bytes) + " bytes are not known");
    size_t offset = 0;
    for (const int64_t one : rows) {
      parts_.push_back({static_cast<const char*>(records.data) + offset, kind, inputs_, static_cast<size_t>(one)});
      outputs_ += parts_.back().outputs;
      offset += parts_.back().tiles() * parts_.back().blocks() * bytes;
    }
    expect(api, "records", records, offset);
  }

  void read_order(const Api& api, const OrtKernelInfo* info) {
    int is_constant = 0;
    const OrtValue* value = nullptr;
    OrtStatus* absent = api.constant_input(info, 2, &is_constant, &value);
    if (absent) api.release_status(absent);
    if (absent || !is_constant || !value) return;
    const Tensor order = read(api, value);
    expect(api, "order", order, parts_.size() * inputs_);
    order_.assign(static_cast<const int32_t*>(order.data), static_cast<const int32_t*>(order.data) + order.count());
    for (const int32_t channel : order_)
      if (channel < 0 || static_cast<size_t>(channel) >= inputs_) refuse(api, "order: names an input that is not there");
  }

  // X, or a copy of it in the order that the part asks for.
  const float* gathered(size_t part, const float* x, size_t rows) const {
    if (order_.empty()) return x;
    thread_local std::vector<float> copy;
    copy.resize(rows * inputs_);
    const int32_t* order = order_.data() + part * inputs_;
    for (size_t row = 0; row < rows; ++row)
      for (size_t i = 0; i < inputs_; ++i) copy[row * inputs_ + i] = x[row * inputs_ + order[i]];
    return copy.data();
  }

  pressroom::Run run_;
  size_t inputs_ = 0, outputs_ = 0;
  std::vector<Linear> parts_;
  std::vector<int32_t> order_;  // [parts, inputs], or empty
};

Linear dense_layer(const Api& api, const OrtKernelInfo* info) {
  Linear layer{nullptr, Values::BFLOAT16, size_attribute(api, info, "in_features", 2),
               size_attribute(api, info, "out_features", 1)};
  const Tensor values = weight(api, info, 1, "values");
  expect(api, "values", values, layer.tiles() * TILE * layer.inputs);
  layer.weights = values.data;
  return layer;
}

class Linear16 {
 public:
  static constexpr const char* NAME = "Linear16";
  static constexpr int INPUTS[] = {ort::FLOAT, ort::BFLOAT16};
  static constexpr size_t OPTIONAL_FROM = 2;

  Linear16(const Api& api, const OrtKernelInfo* info)
      : run_(chosen_level(api).dense), layer_(dense_layer(api, info)) {}

  void compute(const Api& api, OrtKernelContext* context) const {
    const Tensor x = input(api, context);
    expect_width(api, x, layer_.inputs);
    std::vector<int64_t> shape = x.shape;
    shape.back() = static_cast<int64_t>(layer_.outputs);
    float* y = output(api, context, shape);
    multiply(api, context, run_, layer_,
             {static_cast<const float*>(x.data), y, x.leading(), layer_.inputs, layer_.outputs});
  }

 private:
  pressroom::Run run_;
  Linear layer_;
};

class Embedding16 {
 public:
  static constexpr const char* NAME = "Embedding16";
  static constexpr int INPUTS[] = {ort::INT64, ort::BFLOAT16};
  static constexpr size_t OPTIONAL_FROM = 2;

  Embedding16(const Api& api, const OrtKernelInfo* info) : layer_(dense_layer(api, info)) {}

  void compute(const Api& api, OrtKernelContext* context) const {
    const Tensor ids = input(api, context);
    std::vector<int64_t> shape = ids.shape;
    shape.push_back(static_cast<int64_t>(layer_.inputs));
    float* y = output(api, context, shape);
    const auto* id = static_cast<const int64_t*>(ids.data);
    for (size_t i = 0; i < ids.count(); ++i, y += layer_.inputs) {
      if (id[i] < 0 || static_cast<size_t>(id[i]) >= layer_.outputs)
        refuse(api, "ids: got " + std::to_string(id[i]) + ", the vocabulary has " + std::to_string(layer_.outputs));
      copy_row(static_cast<size_t>(id[i]), y);
    }
  }

 private:
  void copy_row(size_t row, float* y) const {
    const auto* pairs = static_cast<const uint32_t*>(layer_.weights) + row / TILE * layer_.inputs / 2 * TILE + row % TILE;
    for (size_t i = 0; i < layer_.inputs; i += 2, pairs += TILE) {
      const uint32_t two[] = {*pairs << 16, *pairs & 0xffff0000u};
      std::memcpy(y + i, two, sizeof two);
    }
  }

  Linear layer_;
};

// Without Linear8, sessions take the body that the graph defines for it: MatMulNBits, onnxruntime's own.
bool offers_linear8() {
#if defined(__x86_64__)
  const char* wanted = std::getenv("PRESSROOM_SIMD");
  return pressroom::has_vnni() && (!wanted || !*wanted || std::strcmp(wanted, "avx512") == 0);
#else
  return false;
#endif
}

OrtCustomOpDomain* make_domain(const Api& api, [[maybe_unused]] bool linear8) {
  OrtCustomOpDomain* domain = nullptr;
  check(api.create_domain("pressroom", &domain));
  check(api.domain_add(domain, Registered<PackedLinear24>::op()));
  check(api.domain_add(domain, Registered<Linear16>::op()));
  check(api.domain_add(domain, Registered<Embedding16>::op()));
#if defined(__x86_64__)
  if (linear8) check(api.domain_add(domain, Registered<Linear8Op>::op()));
#endif
  return domain;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) OrtStatus* RegisterCustomOps(OrtSessionOptions* options,
                                                                               const ort::ApiBase* base) {
  const void* const* table = base->get_api(ort::INTERFACE);
  if (!table) return nullptr;  // older than the interface; the session then names the unknown op
  const Api api(table);
  static OrtCustomOpDomain* domains[2] = {};  // for all sessions; they need them as long as they live
  return guarded(api, [&] {
    const bool linear8 = offers_linear8();
    if (!domains[linear8]) domains[linear8] = make_domain(api, linear8);
    check(api.add_domain(options, domains[linear8]));
  });
}
