/* The loops for one type of number, REAL, named by NAME. Included by simd.c once for each. */

CLONES double NAME(bt_dot)(const REAL *row, const double *coef, ptrdiff_t m)
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

/* The same sum, in the same order, over numbers that lie scattered in a longer row. */
CLONES double NAME(bt_dot_at)(const REAL *row, const int32_t *places, const double *coef, ptrdiff_t m)
{
    double lane[LANES] = {0.0}, sum = 0.0;
    ptrdiff_t j = 0;
    for (; j + LANES <= m; j += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += row[places[j + k]] * coef[j + k];
    for (; j < m; j++)
        sum += row[places[j]] * coef[j];
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    return sum;
}

/* Four rows at a time, so that x is read once for them all. */
CLONES void NAME(bt_products)(const REAL *rows, const REAL *x, ptrdiff_t m, ptrdiff_t d, REAL *out)
{
    ptrdiff_t j = 0;
    for (; j + 4 <= m; j += 4) {
        const REAL *r0 = rows + j * d, *r1 = r0 + d, *r2 = r1 + d, *r3 = r2 + d;
        REAL s0 = 0, s1 = 0, s2 = 0, s3 = 0;
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
        REAL sum = 0;
#pragma omp simd reduction(+ : sum)
        for (ptrdiff_t k = 0; k < d; k++)
            sum += rows[j * d + k] * x[k];
        out[j] = sum;
    }
}

CLONES void NAME(bt_rbf)(REAL *row, REAL a, const REAL *b, REAL gamma, ptrdiff_t m)
{
#pragma omp simd
    for (ptrdiff_t j = 0; j < m; j++)
        row[j] = EXP(gamma * (2 * row[j] - (a + b[j])));
}

CLONES void NAME(bt_decay)(REAL *row, REAL gamma, ptrdiff_t m)
{
#pragma omp simd
    for (ptrdiff_t j = 0; j < m; j++)
        row[j] = EXP(-gamma * row[j]);
}

CLONES void NAME(bt_poly)(REAL *row, REAL gamma, REAL coef0, int degree, ptrdiff_t m)
{
#pragma omp simd
    for (ptrdiff_t j = 0; j < m; j++)
        row[j] = gamma * row[j] + coef0;
    for (ptrdiff_t j = 0; j < m; j++) {
        REAL base = row[j], power = 1;
        for (int k = degree; k > 0; k >>= 1, base *= base)
            power *= k & 1 ? base : 1;
        row[j] = power;
    }
}

CLONES double NAME(bt_l2)(const REAL *a, const REAL *b, ptrdiff_t d)
{
    REAL sum = 0;
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t k = 0; k < d; k++)
        sum += (a[k] - b[k]) * (a[k] - b[k]);
    return sum;
}

CLONES double NAME(bt_l1)(const REAL *a, const REAL *b, ptrdiff_t d)
{
    REAL sum = 0;
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t k = 0; k < d; k++) {
        REAL x = a[k] - b[k];
        sum += x < 0 ? -x : x;
    }
    return sum;
}

CLONES double NAME(bt_allsubsets)(const REAL *a, const REAL *b, ptrdiff_t d)
{
    REAL product = 1;
#pragma omp simd reduction(* : product)
    for (ptrdiff_t k = 0; k < d; k++)
        product *= 1 + a[k] * b[k];
    return product;
}

CLONES double NAME(bt_square)(const REAL *a, ptrdiff_t d)
{
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t k = 0; k < d; k++)
        sum += (double)a[k] * a[k];
    return sum;
}

CLONES double NAME(bt_largest)(const REAL *a, ptrdiff_t m)
{
    REAL largest = 0;
#pragma omp simd reduction(max : largest)
    for (ptrdiff_t j = 0; j < m; j++)
        largest = a[j] > largest ? a[j] : largest;
    return largest;
}
