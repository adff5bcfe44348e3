// What every op of the library needs: tensors and attributes read through onnxruntime's interface, refusals as statuses.
// Everything here is in an unnamed namespace, as the ops are.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "ort_abi.h"

namespace {

using ort::Api;

// A call of the interface that failed; carries its status to the edge of the library.
struct Failure {
  OrtStatus* status;
};

void check(OrtStatus* status) {
  if (status) throw Failure{status};
}

[[noreturn]] void refuse(const Api& api, const std::string& message) {
  throw Failure{api.create_status(ort::INVALID_ARGUMENT, message.c_str())};
}

// Run `work`; whatever it throws becomes a status.
template <class Work>
OrtStatus* guarded(const Api& api, Work work) {
  try {
    work();
    return nullptr;
  } catch (const Failure& failure) {
    return failure.status;
  } catch (const std::exception& error) {
    return api.create_status(ort::FAIL, error.what());
  }
}

struct Tensor {
  int type;
  std::vector<int64_t> shape;
  void* data;

  size_t count() const { return std::accumulate(shape.begin(), shape.end(), size_t{1}, std::multiplies<size_t>()); }
  // Product of all but the last axis.
  size_t leading() const {
    return std::accumulate(shape.begin(), shape.end() - 1, size_t{1}, std::multiplies<size_t>());
  }
};

Tensor read(const Api& api, const OrtValue* value) {
  Tensor tensor{};
  OrtTensorInfo* info = nullptr;
  check(api.tensor_info(value, &info));
  const auto held = [&api](OrtTensorInfo* one) { api.release_info(one); };
  const std::unique_ptr<OrtTensorInfo, decltype(held)> owner(info, held);
  size_t axes = 0;
  check(api.element_type(info, &tensor.type));
  check(api.dimension_count(info, &axes));
  tensor.shape.resize(axes);
  check(api.dimensions(info, tensor.shape.data(), axes));
  check(api.tensor_data(const_cast<OrtValue*>(value), &tensor.data));
  return tensor;
}

Tensor input(const Api& api, const OrtKernelContext* context) {
  const OrtValue* value = nullptr;
  check(api.input(context, 0, &value));
  return read(api, value);
}

float* output(const Api& api, OrtKernelContext* context, const std::vector<int64_t>& shape) {
  OrtValue* value = nullptr;
  void* data = nullptr;
  check(api.output(context, 0, shape.data(), shape.size(), &value));
  check(api.tensor_data(value, &data));
  return static_cast<float*>(data);
}

// A weight of the graph: lives as long as the session.
Tensor weight(const Api& api, const OrtKernelInfo* info, size_t index, const char* name) {
  int is_constant = 0;
  const OrtValue* value = nullptr;
  check(api.constant_input(info, index, &is_constant, &value));
  if (!is_constant || !value) refuse(api, std::string(name) + ": must be a constant of the graph");
  return read(api, value);
}

size_t size_attribute(const Api& api, const OrtKernelInfo* info, const char* name, size_t multiple) {
  int64_t value = 0;
  check(api.attribute(info, name, &value));
  if (value <= 0 || value % static_cast<int64_t>(multiple) != 0)
    refuse(api, std::string(name) + ": got " + std::to_string(value) + ", expected a multiple of " +
                    std::to_string(multiple) + " above 0");
  return static_cast<size_t>(value);
}

void expect(const Api& api, const char* name, const Tensor& got, size_t count) {
  if (got.count() != count)
    refuse(api, std::string(name) + ": got " + std::to_string(got.count()) + " elements, the attributes ask for " +
                    std::to_string(count));
}

void expect_width(const Api& api, const Tensor& x, size_t inputs) {
  if (x.shape.empty() || static_cast<size_t>(x.shape.back()) != inputs)
    refuse(api, "X: its last axis must have " + std::to_string(inputs) + " elements");
}

// Hand `tiles` tiles of a layer, each of `weights` weights, to onnxruntime's own threads: as many as the session has,
// none of our own. run(first, last) computes some of them.
template <class Run>
void share_out(const Api& api, const OrtKernelContext* context, size_t tiles, size_t weights, const Run& run) {
  constexpr size_t WEIGHTS_A_SHARE = 256 * 1024;  // smaller shares cost more to hand over than they save
  struct Work {
    const Run& run;
    size_t tiles, a_share;
    static void share(void* data, size_t index) {
      const Work& work = *static_cast<const Work*>(data);
      work.run(index * work.a_share, std::min(work.tiles, (index + 1) * work.a_share));
    }
  } work{run, tiles, std::max<size_t>(2, WEIGHTS_A_SHARE / weights / 2 * 2)};
  const size_t shares = (tiles + work.a_share - 1) / work.a_share;
  if (shares == 1) return Work::share(&work, 0);
  check(api.parallel_for(context, Work::share, shares, 0, &work));
}

// The table of callbacks for one op; every kernel carries the interface it was made with.
template <class Op>
struct Registered {
  struct Kernel {
    Api api;
    Op op;
  };

  static OrtStatus* create(const ort::CustomOp*, const void* const* table, const OrtKernelInfo* info, void** kernel) {
    const Api api(table);
    return guarded(api, [&] { *kernel = new Kernel{api, Op(api, info)}; });
  }
  static OrtStatus* compute(void* kernel, OrtKernelContext* context) {
    const Kernel& made = *static_cast<Kernel*>(kernel);
    return guarded(made.api, [&] { made.op.compute(made.api, context); });
  }

  static const ort::CustomOp* op() {
    using C = const ort::CustomOp*;
    static const ort::CustomOp made = {
        ort::INTERFACE,
        nullptr,
        [](C) { return Op::NAME; },
        [](C) -> const char* { return nullptr; },  // the CPU provider
        [](C, size_t index) { return Op::INPUTS[index]; },
        [](C) { return std::size(Op::INPUTS); },
        [](C, size_t) { return static_cast<int>(ort::FLOAT); },
        [](C) { return size_t{1}; },
        nullptr,
        [](void* kernel) { delete static_cast<Kernel*>(kernel); },
        [](C, size_t index) { return static_cast<int>(index < Op::OPTIONAL_FROM ? ort::REQUIRED : ort::OPTIONAL); },
        [](C, size_t) { return static_cast<int>(ort::REQUIRED); },
        [](C, size_t) { return 0; },
        [](C) { return 1; },
        [](C) { return 1; },
        [](C) { return 1; },
        [](C) { return 1; },
        create,
        compute,
        nullptr,
        [](C) { return 1; },
        [](C) { return 0x7fffffff; },
    };
    return &made;
  }
};

}  // namespace
