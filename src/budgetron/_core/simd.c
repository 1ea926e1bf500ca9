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

/* Four rows at a time, so that x is read once for them all. */
CLONES void bt_products_d(const double *rows, const double *x, ptrdiff_t m, ptrdiff_t d, double *out)
{
    ptrdiff_t j = 0;
    for (; j + 4 <= m; j += 4) {
        const double *r0 = rows + j * d, *r1 = r0 + d, *r2 = r1 + d, *r3 = r2 + d;
        double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
        for (ptrdiff_t k = 0; k < d; k++) {
            s0 += r0[k] * x[k];
            s1 += r1[k] * x[k];
            s2 += r2[k] * x[k];
            s3 += r3[k] * x[k];
        }
        out[j] = s0;
        out[j + 1] = s1;
        out[j + 2] = s2;
        out[j + 3] = s3;
    }
    for (; j < m; j++) {
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (ptrdiff_t k = 0; k < d; k++)
            sum += rows[j * d + k] * x[k];
        out[j] = sum;
    }
}

CLONES void bt_products_f(const float *rows, const float *x, ptrdiff_t m, ptrdiff_t d, float *out)
{
    ptrdiff_t j = 0;
    for (; j + 4 <= m; j += 4) {
        const float *r0 = rows + j * d, *r1 = r0 + d, *r2 = r1 + d, *r3 = r2 + d;
        float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
        for (ptrdiff_t k = 0; k < d; k++) {
            s0 += r0[k] * x[k];
            s1 += r1[k] * x[k];
            s2 += r2[k] * x[k];
            s3 += r3[k] * x[k];
        }
        out[j] = s0;
        out[j + 1] = s1;
        out[j + 2] = s2;
        out[j + 3] = s3;
    }
    for (; j < m; j++) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (ptrdiff_t k = 0; k < d; k++)
            sum += rows[j * d + k] * x[k];
        out[j] = sum;
    }
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
    for (ptrdiff_t j = 0; j < m; j++)
        row[j] = exp_d(gamma * (2.0 * row[j] - (a + b[j])));
}

CLONES void bt_rbf_f(float *row, float a, const float *b, float gamma, ptrdiff_t m)
{
#pragma omp simd
    for (ptrdiff_t j = 0; j < m; j++)
        row[j] = exp_f(gamma * (2.0f * row[j] - (a + b[j])));
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
        for (int k = degree; k > 0; k >>= 1, base *= base)
            power *= k & 1 ? base : 1.0;
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
        for (int k = degree; k > 0; k >>= 1, base *= base)
            power *= k & 1 ? base : 1.0f;
        row[j] = power;
    }
}

CLONES double bt_l2_d(const double *a, const double *b, ptrdiff_t d)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t k = 0; k < d; k++)
        sum += (a[k] - b[k]) * (a[k] - b[k]);
    return sum;
}

CLONES double bt_l2_f(const float *a, const float *b, ptrdiff_t d)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t k = 0; k < d; k++)
        sum += (a[k] - b[k]) * (a[k] - b[k]);
    return sum;
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

CLONES double bt_largest_d(const double *a, ptrdiff_t m)
{
    double largest = 0;
#pragma omp simd reduction(max : largest)
    for (ptrdiff_t j = 0; j < m; j++)
        largest = a[j] > largest ? a[j] : largest;
    return largest;
}

CLONES double bt_largest_f(const float *a, ptrdiff_t m)
{
    float largest = 0;
#pragma omp simd reduction(max : largest)
    for (ptrdiff_t j = 0; j < m; j++)
        largest = a[j] > largest ? a[j] : largest;
    return largest;
}
