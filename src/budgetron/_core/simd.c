#include "simd.h"

#include <stdint.h>
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

/* exp(x) for x <= 0, written so that it vectorises: x = n log 2 + r with |r| <=
 * log(2) / 2, a near-minimax polynomial in r, and n added to the exponent. Below `low` the
 * result is 0. NaN stays NaN because every comparison with it is false. */
INLINE double exp_d(double x)
{
    const double low = -708.0, round = 6755399441055744.0; /* 1.5 * 2^52 */
    double clipped = x < low ? low : x;
    double shifted = clipped * 1.4426950408889634074 + round;
    double n = shifted - round;
    double r = clipped - n * 6.93147180369123816490e-01;
    uint64_t bits;
    double scale, p;
    r = r - n * 1.90821492927058770002e-10;
    p = 2.7626371065696356076e-7;
    p = p * r + 2.7640197391694840467e-6;
    p = p * r + 2.4801504313785540166e-5;
    p = p * r + 1.9841170230570286664e-4;
    p = p * r + 1.3888888932514779355e-3;
    p = p * r + 8.3333333856992117269e-3;
    p = p * r + 4.1666666666573067732e-2;
    p = p * r + 0.16666666666554314583;
    p = p * r + 0.50000000000000056225;
    p = p * r + 1.0000000000000067491;
    p = p * r + 1.0;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52; /* the low bits of `shifted` hold n */
    memcpy(&scale, &bits, sizeof scale);
    return x < low ? 0.0 : p * scale;
}

INLINE float exp_f(float x)
{
    const float low = -87.0f, round = 12582912.0f; /* 1.5 * 2^23 */
    float clipped = x < low ? low : x;
    float shifted = clipped * 1.44269504f + round;
    float n = shifted - round;
    float r = clipped - n * 6.93359375e-01f;
    uint32_t bits;
    float scale, p;
    r = r - n * -2.12194440e-04f;
    p = 1.3941118896e-3f;
    p = p * r + 8.3751347746e-3f;
    p = p * r + 4.1666352771e-2f;
    p = p * r + 0.16666415414f;
    p = p * r + 0.50000000471f;
    p = p * r + 1.0000000377f;
    p = p * r + 1.0f;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127) << 23;
    memcpy(&scale, &bits, sizeof scale);
    return x < low ? 0.0f : p * scale;
}

/* Independent partial sums: one alone would wait for each addition to end. */
#define LANES 16

CLONES double bt_dot_d(const double *row, const double *coef, ptrdiff_t m)
{
    double lane[LANES] = {0.0}, sum = 0.0;
    ptrdiff_t j = 0;
    for (; j + LANES <= m; j += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += row[j + k] * coef[j + k];
    for (; j < m; j++)
        sum += row[j] * coef[j];
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    return sum;
}

CLONES double bt_dot_f(const float *row, const double *coef, ptrdiff_t m)
{
    double lane[LANES] = {0.0}, sum = 0.0;
    ptrdiff_t j = 0;
    for (; j + LANES <= m; j += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += row[j + k] * coef[j + k];
    for (; j < m; j++)
        sum += row[j] * coef[j];
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    return sum;
}

CLONES void bt_axpy(double c, const double *row, double *out, ptrdiff_t m)
{
#pragma omp simd
    for (ptrdiff_t j = 0; j < m; j++)
        out[j] += c * row[j];
}

CLONES void bt_rbf_d(double *row, double a, const double *b, double gamma, ptrdiff_t m)
{
#pragma omp simd
    for (ptrdiff_t j = 0; j < m; j++) {
        double x = gamma * (2.0 * row[j] - (a + b[j]));
        row[j] = exp_d(x > 0.0 ? 0.0 : x);
    }
}

CLONES void bt_rbf_f(float *row, float a, const float *b, float gamma, ptrdiff_t m)
{
#pragma omp simd
    for (ptrdiff_t j = 0; j < m; j++) {
        float x = gamma * (2.0f * row[j] - (a + b[j]));
        row[j] = exp_f(x > 0.0f ? 0.0f : x);
    }
}

CLONES void bt_decay_d(double *row, double gamma, ptrdiff_t m)
{
#pragma omp simd
    for (ptrdiff_t j = 0; j < m; j++)
        row[j] = exp_d(-gamma * row[j]);
}

CLONES void bt_decay_f(float *row, float gamma, ptrdiff_t m)
{
#pragma omp simd
    for (ptrdiff_t j = 0; j < m; j++)
        row[j] = exp_f(-gamma * row[j]);
}

CLONES void bt_poly_d(double *row, double gamma, double coef0, int degree, ptrdiff_t m)
{
#pragma omp simd
    for (ptrdiff_t j = 0; j < m; j++)
        row[j] = gamma * row[j] + coef0;
    for (ptrdiff_t j = 0; j < m; j++) {
        double base = row[j], power = 1.0;
        for (int k = 0; k < degree; k++)
            power *= base;
        row[j] = power;
    }
}

CLONES void bt_poly_f(float *row, float gamma, float coef0, int degree, ptrdiff_t m)
{
#pragma omp simd
    for (ptrdiff_t j = 0; j < m; j++)
        row[j] = gamma * row[j] + coef0;
    for (ptrdiff_t j = 0; j < m; j++) {
        float base = row[j], power = 1.0f;
        for (int k = 0; k < degree; k++)
            power *= base;
        row[j] = power;
    }
}

CLONES double bt_l1_d(const double *a, const double *b, ptrdiff_t d)
{
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t k = 0; k < d; k++) {
        double x = a[k] - b[k];
        sum += x < 0.0 ? -x : x;
    }
    return sum;
}

CLONES double bt_l1_f(const float *a, const float *b, ptrdiff_t d)
{
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t k = 0; k < d; k++) {
        float x = a[k] - b[k];
        sum += x < 0.0f ? -x : x;
    }
    return sum;
}

CLONES double bt_allsubsets_d(const double *a, const double *b, ptrdiff_t d)
{
    double product = 1.0;
#pragma omp simd reduction(* : product)
    for (ptrdiff_t k = 0; k < d; k++)
        product *= 1.0 + a[k] * b[k];
    return product;
}

CLONES double bt_allsubsets_f(const float *a, const float *b, ptrdiff_t d)
{
    float product = 1.0f;
#pragma omp simd reduction(* : product)
    for (ptrdiff_t k = 0; k < d; k++)
        product *= 1.0f + a[k] * b[k];
    return product;
}

CLONES double bt_square_d(const double *a, ptrdiff_t d)
{
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t k = 0; k < d; k++)
        sum += a[k] * a[k];
    return sum;
}

CLONES double bt_square_f(const float *a, ptrdiff_t d)
{
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t k = 0; k < d; k++)
        sum += (double)a[k] * a[k];
    return sum;
}
