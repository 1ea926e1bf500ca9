#include "simd.h"

#include <string.h>

/* Run-time dispatch needs ifunc, which glibc has. The x86-64 levels are chosen by the features of the processor;
 * names of micro-architectures would be chosen by its manufacturer. */
#if defined(__SANITIZE_ADDRESS__) /* its run-time is not loaded yet when the version is chosen */
#define CLONES
#elif defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
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

/* Exponentials are computed in groups. Each is a long chain of dependent steps; a group of them in registers
 * keeps the processor busy. */
#if defined(__x86_64__) || defined(_M_X64)
#define GROUP_BYTES 128
#else
#define GROUP_BYTES 64
#endif

#define LOG2_E 1.4426950408889634074

/* Independent partial sums of a dot product: a single sum would wait for each addition. */
#define LANES 16

INLINE double total(double *lane)
{
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int k = 0; k < half; k++)
            lane[k] += lane[k + half];
    return lane[0];
}

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

/* Constants for 2^t. Below LOWEST it is 0. The last bits of t + ROUND are the nearest integer of t plus the bias of the
 * exponent; SHIFT moves them to the exponent's position. SERIES is a nearly minimax polynomial of 2^r for |r| <= 1/2. */
#define REAL double
#define BITS uint64_t
#define NAME(name) name##_d
#define LOWEST -1023.2
#define ROUND (6755399441055744.0 + 1023.0) /* 1.5 * 2^52 */
#define SHIFT 52
#define SERIES(first, next)                                                                                           \
    first(7.072589488396345e-09, 1.0208696429374313e-07);                                                             \
    next(1.321544257022465e-06);                                                                                      \
    next(1.5252657229551429e-05);                                                                                     \
    next(0.00015403530441765088);                                                                                     \
    next(0.0013333558230215262);                                                                                      \
    next(0.009618129107606871);                                                                                       \
    next(0.05550410866444742);                                                                                        \
    next(0.240226506959101);                                                                                          \
    next(0.69314718055995);                                                                                           \
    next(1.0);
#include "simd_loops.h"
#undef REAL
#undef BITS
#undef NAME
#undef LOWEST
#undef ROUND
#undef SHIFT
#undef SERIES

#define REAL float
#define BITS uint32_t
#define NAME(name) name##_f
#define LOWEST -127.2f
#define ROUND (12582912.0f + 127.0f) /* 1.5 * 2^23 */
#define SHIFT 23
#define SERIES(first, next)                                                                                           \
    first(1.546145630e-04f, 1.340044158e-03f);                                                                        \
    next(9.618056649e-03f);                                                                                           \
    next(5.550327193e-02f);                                                                                           \
    next(2.402265092e-01f);                                                                                           \
    next(6.931472067e-01f);                                                                                           \
    next(1.0f);
#include "simd_loops.h"
