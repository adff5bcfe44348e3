// Which level runs: decided when a session is made, by what the processor and the operating system offer.
#include <cstring>

#include "linear.h"
#include "linear8.h"

namespace pressroom {

const Level* level(const char* wanted) {
#if defined(__x86_64__)
  const bool has_avx512 = __builtin_cpu_supports("avx512f");
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const Level* offered[] = {has_avx512 ? &avx512 : nullptr, has_avx2 ? &avx2 : nullptr, &portable};
#else
  const Level* offered[] = {&portable};
#endif
  for (const Level* one : offered)
    if (one && (!wanted || !*wanted || std::strcmp(one->name, wanted) == 0)) return one;
  return nullptr;
}

#if defined(__x86_64__)
bool has_vnni() { return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw"); }
#endif

}  // namespace pressroom
