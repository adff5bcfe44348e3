// Any processor: plain loops over eight lanes, which compilers turn into whatever vectors there are.
#include "tile.h"

namespace {

struct Portable {
  static constexpr size_t LANES = 8;
  static constexpr int ROWS = 2;
  struct F { float lane[LANES]; };
  struct I { uint32_t lane[LANES]; };

  template <class Function>
  static F each(Function function) {
    F out;
    for (size_t i = 0; i < LANES; ++i) out.lane[i] = function(i);
    return out;
  }
  static float as_float(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

  static F zero() { return each([](size_t) { return 0.0f; }); }
  static F load(const float* from) { return each([=](size_t i) { return from[i]; }); }
  static void store(float* to, const F& value) { std::memcpy(to, value.lane, sizeof value.lane); }
  static I words(const char* from) {
    I out;
    std::memcpy(out.lane, from, sizeof out.lane);
    return out;
  }
  template <int BITS>
  static I shift(I value) {
    for (uint32_t& lane : value.lane) lane >>= BITS;
    return value;
  }
  static F low(const I& both) { return each([&](size_t i) { return as_float(both.lane[i] << 16); }); }
  static F high(const I& both) { return each([&](size_t i) { return as_float(both.lane[i] & 0xffff0000u); }); }
  static F once(float value) { return each([=](size_t) { return value; }); }
  static F quad(const float* from) { return each([=](size_t i) { return from[i % 4]; }); }
  static F pick(const F& quad, const I& where) { return each([&](size_t i) { return quad.lane[where.lane[i] & 3]; }); }
  static F fma(const F& a, const F& b, const F& c) {
    return each([&](size_t i) { return a.lane[i] * b.lane[i] + c.lane[i]; });
  }
  static F add(const F& a, const F& b) { return each([&](size_t i) { return a.lane[i] + b.lane[i]; }); }
};

}  // namespace

const pressroom::Level pressroom::portable = {"portable", run_sparse<Portable>, run_dense<Portable>};
