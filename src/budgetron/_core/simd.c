#include "simd.h"

#include <string.h>

/* Run-time dispatch needs ifunc, which glibc has. The x86-64 levels, unlike single
 * micro-architectures, are chosen by what the processor can do and not by its maker. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#if __GNUC__ >= 12
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES __attribute__((target_clones("avx2", "default")))
#endif
#else
#define CLONES
#endif

#if defined(_MSC_VER)
#define INLINE static __forceinline
#else
#define INLINE static inline __attribute__((always_inline))
#endif

/* 2^min(t, 0), written so that it vectorises: t = n + r with |r| <= 1/2, a near-minimax
 * polynomial in r (in pairs, so that its terms need not wait for each other), and 2^n made by
 * moving n into the exponent. Below `low` n is such that 2^n comes out as 0, and the result
 * with it: far away is 0, not merely small, for its sign decides. The comparisons are
 * turned so that NaN stays NaN. */
#define LOG2_E 1.4426950408889634074

INLINE double exp2_d(double t)
{
    const double low = -1023.2, round = 6755399441055744.0; /* 1.5 * 2^52 */
    double clipped = 0.0 < t ? 0.0 : t, shifted, r, r2, r4, p, q, scale;
    uint64_t bits;
    clipped = low > clipped ? low : clipped;
    shifted = clipped + round;
    r = clipped - (shifted - round);
    r2 = r * r;
    r4 = r2 * r2;
    p = (1.0 + 0.69314718055995 * r) + (0.240226506959101 + 0.05550410866444742 * r) * r2;
    q = (0.009618129107606871 + 0.0013333558230215262 * r) + (0.00015403530441765088 + 1.5252657229551429e-05 * r) * r2;
    q = q + (1.321544257022465e-06 + 1.0208696429374313e-07 * r + 7.072589488396345e-09 * r2) * r4;
    p = p + q * r4;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52; /* the low bits of `shifted` hold n */
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

INLINE float exp2_f(float t)
{
    const float low = -127.2f, round = 12582912.0f; /* 1.5 * 2^23 */
    float clipped = 0.0f < t ? 0.0f : t, shifted, r, r2, p, q, scale;
    uint32_t bits;
    clipped = low > clipped ? low : clipped;
    shifted = clipped + round;
    r = clipped - (shifted - round);
    r2 = r * r;
    p = (1.0f + 6.931472067e-01f * r) + (2.402265092e-01f + 5.550327193e-02f * r) * r2;
    q = 9.618056649e-03f + 1.340044158e-03f * r + 1.546145630e-04f * r2;
    p = p + q * (r2 * r2);
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127) << 23;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

/* Independent partial sums of a dot product: one alone would wait for each addition to end. */
#define LANES 16

CLONES void bt_axpy(double c, const double *row, double *out, ptrdiff_t m)
{
#pragma omp simd
    for (ptrdiff_t j = 0; j < m; j++)
        out[j] += c * row[j];
}

CLONES void bt_axpy_f(double c, const float *row, double *out, ptrdiff_t m)
{
#pragma omp simd
    for (ptrdiff_t j = 0; j < m; j++)
        out[j] += c * row[j];
}

CLONES void bt_exchange(double *restrict u, double *restrict b, double lambda, double g, ptrdiff_t m)
{
#pragma omp simd
    for (ptrdiff_t j = 0; j < m; j++) {
        double old = u[j];
        u[j] += lambda * b[j];
        b[j] += g * old;
    }
}

#define REAL double
#define NAME(name) name##_d
#define EXP2 exp2_d
#include "simd_loops.h"
#undef REAL
#undef NAME
#undef EXP2

#define REAL float
#define NAME(name) name##_f
#define EXP2 exp2_f
#include "simd_loops.h"
