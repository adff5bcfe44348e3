// The part of onnxruntime's C interface this library calls, declared by position.
//
// onnxruntime hands a custom-op library one table of functions whose order never changes (each release only appends),
// so a position and a signature are all that is needed; no header of a particular release has to be installed.
// Positions are those of interface version 17 (onnxruntime 1.17), asked for by that number.
#pragma once

#include <cstddef>
#include <cstdint>

struct OrtStatus;
struct OrtValue;
struct OrtKernelInfo;
struct OrtKernelContext;
struct OrtSessionOptions;
struct OrtCustomOpDomain;
struct OrtTensorInfo;

namespace ort {

constexpr uint32_t INTERFACE = 17;

enum Element : int { UNDEFINED = 0, FLOAT = 1, UINT8 = 2, INT32 = 6, INT64 = 7, BFLOAT16 = 16 };
enum Presence : int { REQUIRED = 0, OPTIONAL = 1 };
enum ErrorCode : int { FAIL = 1, INVALID_ARGUMENT = 2 };

struct ApiBase {
  const void* const* (*get_api)(uint32_t version);  // null if the version is not offered
  const char* (*get_version)();
};

// The table of functions; every call returns null or a status that says what went wrong.
class Api {
 public:
  explicit Api(const void* const* table) : table_(table) {}

  OrtStatus* create_status(ErrorCode code, const char* message) const {
    return call<0, OrtStatus*>(static_cast<int>(code), message);
  }
  OrtStatus* create_domain(const char* name, OrtCustomOpDomain** out) const { return call<26, OrtStatus*>(name, out); }
  OrtStatus* domain_add(OrtCustomOpDomain* domain, const struct CustomOp* op) const {
    return call<27, OrtStatus*>(domain, op);
  }
  OrtStatus* add_domain(OrtSessionOptions* options, OrtCustomOpDomain* domain) const {
    return call<28, OrtStatus*>(options, domain);
  }
  OrtStatus* tensor_data(OrtValue* value, void** out) const { return call<51, OrtStatus*>(value, out); }
  OrtStatus* element_type(const OrtTensorInfo* info, int* out) const { return call<60, OrtStatus*>(info, out); }
  OrtStatus* dimension_count(const OrtTensorInfo* info, size_t* out) const { return call<61, OrtStatus*>(info, out); }
  OrtStatus* dimensions(const OrtTensorInfo* info, int64_t* out, size_t count) const {
    return call<62, OrtStatus*>(info, out, count);
  }
  OrtStatus* element_count(const OrtTensorInfo* info, size_t* out) const { return call<64, OrtStatus*>(info, out); }
  OrtStatus* tensor_info(const OrtValue* value, OrtTensorInfo** out) const { return call<65, OrtStatus*>(value, out); }
  OrtStatus* attribute(const OrtKernelInfo* info, const char* name, int64_t* out) const {
    return call<86, OrtStatus*>(info, name, out);
  }
  OrtStatus* input(const OrtKernelContext* context, size_t index, const OrtValue** out) const {
    return call<90, OrtStatus*>(context, index, out);
  }
  OrtStatus* output(OrtKernelContext* context, size_t index, const int64_t* shape, size_t count, OrtValue** out) const {
    return call<91, OrtStatus*>(context, index, shape, count, out);
  }
  void release_status(OrtStatus* status) const { call<93, void>(status); }
  void release_info(OrtTensorInfo* info) const { call<99, void>(info); }
  OrtStatus* attributes(const OrtKernelInfo* info, const char* name, int64_t* out, size_t* size) const {
    return call<163, OrtStatus*>(info, name, out, size);
  }
  OrtStatus* constant_input(const OrtKernelInfo* info, size_t index, int* is_constant, const OrtValue** out) const {
    return call<249, OrtStatus*>(info, index, is_constant, out);
  }
  OrtStatus* parallel_for(const OrtKernelContext* context, void (*work)(void*, size_t), size_t total, size_t batches,
                          void* data) const {
    return call<274, OrtStatus*>(context, work, total, batches, data);
  }

 private:
  template <int POSITION, class Result, class... Arguments>
  Result call(Arguments... arguments) const {
    using Function = Result (*)(Arguments...);
    return reinterpret_cast<Function>(const_cast<void*>(table_[POSITION]))(arguments...);
  }

  const void* const* table_;
};

// A custom op as onnxruntime reads it; fields beyond version 17 are not looked at.
struct CustomOp {
  uint32_t version;
  void* (*create_kernel)(const CustomOp*, const void* const*, const OrtKernelInfo*);
  const char* (*name)(const CustomOp*);
  const char* (*provider)(const CustomOp*);
  int (*input_type)(const CustomOp*, size_t);
  size_t (*input_count)(const CustomOp*);
  int (*output_type)(const CustomOp*, size_t);
  size_t (*output_count)(const CustomOp*);
  void (*compute)(void*, OrtKernelContext*);
  void (*destroy)(void*);
  int (*input_presence)(const CustomOp*, size_t);
  int (*output_presence)(const CustomOp*, size_t);
  int (*input_memory)(const CustomOp*, size_t);
  int (*variadic_input_least)(const CustomOp*);
  int (*variadic_input_alike)(const CustomOp*);
  int (*variadic_output_least)(const CustomOp*);
  int (*variadic_output_alike)(const CustomOp*);
  OrtStatus* (*create_kernel_v2)(const CustomOp*, const void* const*, const OrtKernelInfo*, void**);
  OrtStatus* (*compute_v2)(void*, OrtKernelContext*);
  OrtStatus* (*infer_shape)(const CustomOp*, void*);
  int (*first_version)(const CustomOp*);
  int (*last_version)(const CustomOp*);
};

}  // namespace ort
