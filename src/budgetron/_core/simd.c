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

/* exp(min(x, 0)), written so that it vectorises: x = n log 2 + r with |r| <= log(2) / 2,
 * a near-minimax polynomial in r (in pairs, so that its terms need not wait for each
 * other), and 2^n made by moving n into the exponent. Below
 * `low` n is such that 2^n comes out as 0, and the result with it: far away is 0, not
 * merely small, for its sign decides. The comparisons are turned so that NaN stays NaN. */
INLINE double exp_d(double x)
{
    const double low = -709.2, round = 6755399441055744.0; /* 1.5 * 2^52 */
    double clipped = 0.0 < x ? 0.0 : x, shifted, n, r, r2, r4, p, q, scale;
    uint64_t bits;
    clipped = low > clipped ? low : clipped;
    shifted = clipped * 1.4426950408889634074 + round;
    n = shifted - round;
    r = clipped - n * 6.93147180369123816490e-01;
    r = r - n * 1.90821492927058770002e-10;
    r2 = r * r;
    r4 = r2 * r2;
    p = (1.0 + 1.0000000000000067491 * r) + (0.50000000000000056225 + 0.16666666666554314583 * r) * r2;
    q = (4.1666666666573067732e-2 + 8.3333333856992117269e-3 * r)
        + (1.3888888932514779355e-3 + 1.9841170230570286664e-4 * r) * r2;
    q = q + (2.4801504313785540166e-5 + 2.7640197391694840467e-6 * r + 2.7626371065696356076e-7 * r2) * r4;
    p = p + q * r4;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52; /* the low bits of `shifted` hold n */
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

INLINE float exp_f(float x)
{
    const float low = -88.2f, round = 12582912.0f; /* 1.5 * 2^23 */
    float clipped = 0.0f < x ? 0.0f : x, shifted, n, r, r2, p, q, scale;
    uint32_t bits;
    clipped = low > clipped ? low : clipped;
    shifted = clipped * 1.44269504f + round;
    n = shifted - round;
    r = clipped - n * 6.93359375e-01f;
    r = r - n * -2.12194440e-04f;
    r2 = r * r;
    p = (1.0f + 1.0000000377f * r) + (0.50000000471f + 0.16666415414f * r) * r2;
    q = 4.1666352771e-2f + 8.3751347746e-3f * r + 1.3941118896e-3f * r2;
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
#define EXP exp_d
#include "simd_loops.h"
#undef REAL
#undef NAME
#undef EXP

#define REAL float
#define NAME(name) name##_f
#define EXP exp_f
#include "simd_loops.h"
