#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

/* Loops whose iterations are independent of each other. With -fopenmp, LW_PARALLEL shares them among
   threads. */
#define LW_DO_PRAGMA(text) _Pragma(#text)
#if defined(_OPENMP)
#define LW_PARALLEL LW_DO_PRAGMA(omp parallel for)
#else
#define LW_PARALLEL
#endif
#if defined(__clang__)
#define LW_VECTORIZE LW_DO_PRAGMA(clang loop vectorize(assume_safety))
#define LW_UNROLL LW_DO_PRAGMA(clang loop unroll(full))
#elif defined(__GNUC__)
#define LW_VECTORIZE LW_DO_PRAGMA(GCC ivdep)
#define LW_UNROLL LW_DO_PRAGMA(GCC unroll 64)
#else
#define LW_VECTORIZE
#define LW_UNROLL
#endif

/* Indices: the quotient rounded down, and its remainder, for divisors above 0. */
static inline int64_t lw_floordiv(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}
static inline int64_t lw_mod(int64_t a, int64_t b) {
  return a % b + (a % b < 0 ? b : 0);
}
static inline int64_t lw_least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t lw_greatest(int64_t a, int64_t b) { return a > b ? a : b; }

/* Integers: division by 0 gives 0, shifts by too much give what the last bit leaves, and all else
   wraps around. */
#define LW_INTEGER(T, U, name, bits)                                                              \
  static inline T lw_floor_divide_##name(T a, T b) {                                              \
    if (b == 0) return 0;                                                                         \
    if ((T)-1 < 0 && b == (T)-1) return (T)(0 - (U)a);                                            \
    return (T)(a / b - (a % b != 0 && (a % b < 0) != (b < 0)));                                   \
  }                                                                                               \
  static inline T lw_truncate_mod_##name(T a, T b) {                                              \
    return b == 0 || ((T)-1 < 0 && b == (T)-1) ? 0 : (T)(a % b);                                  \
  }                                                                                               \
  static inline T lw_floor_mod_##name(T a, T b) {                                                 \
    T rest = lw_truncate_mod_##name(a, b);                                                        \
    return rest != 0 && (rest < 0) != (b < 0) ? (T)(rest + b) : rest;                             \
  }                                                                                               \
  static inline T lw_power_##name(T x, T n) {                                                     \
    uint64_t result = 1, factor = (uint64_t)x, left = (uint64_t)n;                                \
    for (; left; left >>= 1, factor *= factor)                                                    \
      if (left & 1) result *= factor;                                                             \
    return (T)result;                                                                             \
  }                                                                                               \
  static inline T lw_left_shift_##name(T x, T n) {                                                \
    return n < 0 || (uint64_t)n >= bits ? 0 : (T)((U)x << n);                                     \
  }                                                                                               \
  static inline T lw_right_shift_##name(T x, T n) {                                               \
    if (n < 0 || (uint64_t)n >= bits) return x < 0 ? (T)-1 : 0;                                   \
    return (T)(x >> n);                                                                           \
  }                                                                                               \
  static inline void lw_sort_##name(T *row, int64_t count) {                                      \
    for (int64_t gap = count / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11)                      \
      for (int64_t i = gap; i < count; i++) {                                                     \
        T moved = row[i];                                                                         \
        int64_t j = i;                                                                            \
        for (; j >= gap && row[j - gap] > moved; j -= gap) row[j] = row[j - gap];                 \
        row[j] = moved;                                                                           \
      }                                                                                           \
  }
LW_INTEGER(int8_t, uint8_t, int8, 8)
LW_INTEGER(int16_t, uint16_t, int16, 16)
LW_INTEGER(int32_t, uint32_t, int32, 32)
LW_INTEGER(int64_t, uint64_t, int64, 64)
LW_INTEGER(uint8_t, uint8_t, uint8, 8)
LW_INTEGER(uint16_t, uint16_t, uint16, 16)
LW_INTEGER(uint32_t, uint32_t, uint32, 32)
LW_INTEGER(uint64_t, uint64_t, uint64, 64)

/* Floats: NumPy's meaning where C's library has another or none. f is the suffix of its functions. */
#define LW_FLOAT(T, U, name, f)                                                                   \
  static inline T lw_maximum_##name(T a, T b) { return a >= b || a != a ? a : b; }                \
  static inline T lw_minimum_##name(T a, T b) { return a <= b || a != a ? a : b; }                \
  static inline T lw_sign_##name(T x) { return x != x ? x : (T)((x > 0) - (x < 0)); }             \
  static inline T lw_sigmoid_##name(T x) { return 1 / (1 + exp##f(-x)); }                         \
  static inline T lw_flush_##name(T x) {                                                          \
    return fabs##f(x) < (T)0x1p-126 ? copysign##f(0, x) : x;                                      \
  }                                                                                               \
  static inline T lw_floor_mod_##name(T a, T b) {                                                 \
    T rest = fmod##f(a, b);                                                                       \
    if (rest == 0) return copysign##f(0, b);                                                      \
    return (rest < 0) != (b < 0) ? rest + b : rest;                                               \
  }                                                                                               \
  static inline T lw_floor_divide_##name(T a, T b) {                                              \
    if (b == 0) return a / b;                                                                     \
    T rest = fmod##f(a, b), quotient = (a - rest) / b;                                            \
    if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;                                        \
    if (quotient == 0) return copysign##f(0, a / b);                                              \
    T down = floor##f(quotient);                                                                  \
    return quotient - down > (T)0.5 ? down + 1 : down;                                            \
  }                                                                                               \
  static inline U lw_bits_##name(T x) {                                                           \
    U bits;                                                                                       \
    memcpy(&bits, &x, sizeof bits);                                                               \
    return bits;                                                                                  \
  }                                                                                               \
  static inline T lw_from_bits_##name(U bits) {                                                   \
    T x;                                                                                          \
    memcpy(&x, &bits, sizeof x);                                                                  \
    return x;                                                                                     \
  }
LW_FLOAT(float, uint32_t, float32, f)
LW_FLOAT(double, uint64_t, float64, )

/* A float as an integer: what is out of range, or nan, is the least one. */
static inline int32_t lw_to_int32(double x) {
  return x > -2147483649.0 && x < 2147483648.0 ? (int32_t)x : INT32_MIN;
}
static inline int64_t lw_to_int64(double x) {
  return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}
static inline uint64_t lw_to_uint64(double x) {
  if (x >= 0x1p63 && x < 0x1p64) return (uint64_t)(x - 0x1p63) + ((uint64_t)1 << 63);
  return (uint64_t)lw_to_int64(x);
}

/* Floats of 16 bits are kept as their bits, and computed with in float. Halves round to the even
   neighbour. */
static inline float lw_from_bfloat16(uint16_t bits) {
  return lw_from_bits_float32((uint32_t)bits << 16);
}
static inline uint16_t lw_to_bfloat16(float x) {
  uint32_t bits = lw_bits_float32(x);
  if (x != x) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static inline float lw_from_float16(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = bits & 0x7fff;
  if (rest >= 0x7c00) return lw_from_bits_float32(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  if (rest < 0x400) return (sign ? -1.0f : 1.0f) * (float)rest * 0x1p-24f;
  return lw_from_bits_float32(sign | ((rest << 13) + 0x38000000));
}
static inline uint16_t lw_to_float16(float x) {
  uint32_t bits = lw_bits_float32(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x1ff));
  if (rest >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
  if (rest < 0x38800000) { /* the sum has the result in its last bits */
    return (uint16_t)(sign | (lw_bits_float32(lw_from_bits_float32(rest) + 0.5f) - 0x3f000000));
  }
  return (uint16_t)(sign | (rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13);
}
/* A double rounded so that rounding it again to fewer bits rounds it once. */
static inline float lw_to_odd(double x) {
  float near = (float)x;
  if (near != near || (double)near == x || isinf(near)) return near;
  if (lw_bits_float32(near) & 1) return near;
  return nextafterf(near, x > near ? INFINITY : -INFINITY);
}

/* Vectors: the first lanes are in memory, the others 0. */
#define LW_VECTOR(T, name, lanes)                                                                 \
  typedef T name __attribute__((vector_size(lanes * sizeof(T))));                                 \
  static inline name lw_load_##name(const void *from, int64_t count) {                            \
    name v = {0};                                                                                 \
    memcpy(&v, from, (size_t)count * sizeof(T));                                                  \
    return v;                                                                                     \
  }                                                                                               \
  static inline void lw_store_##name(void *to, name v, int64_t count) {                           \
    memcpy(to, &v, (size_t)count * sizeof(T));                                                    \
  }                                                                                               \
  static inline name lw_splat_##name(T x) {                                                       \
    name v;                                                                                       \
    for (int n = 0; n < lanes; n++) v[n] = x;                                                     \
    return v;                                                                                     \
  }
