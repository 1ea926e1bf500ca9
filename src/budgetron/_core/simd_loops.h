/* The loops for one type of number, REAL, named by NAME. simd.c includes this file once per type. */

CLONES double NAME(bt_dot)(const REAL *row, const double *coef, ptrdiff_t m)
{
    double lane[LANES] = {0.0}, sum = 0.0;
    ptrdiff_t j = 0;
    for (; j + LANES <= m; j += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += row[j + k] * coef[j + k];
    for (; j < m; j++)
        sum += row[j] * coef[j];
    return sum + total(lane);
}

/* The same sum, in the same order, over selected numbers of a longer row. */
CLONES double NAME(bt_dot_at)(const REAL *row, const int32_t *places, const double *coef, ptrdiff_t m)
{
    double lane[LANES] = {0.0}, sum = 0.0;
    ptrdiff_t j = 0;
    for (; j + LANES <= m; j += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += row[places[j + k]] * coef[j + k];
    for (; j < m; j++)
        sum += row[places[j]] * coef[j];
    return sum + total(lane);
}

#define GROUP ((ptrdiff_t)(GROUP_BYTES / sizeof(REAL)))
#define EACH _Pragma("omp simd") for (ptrdiff_t k = 0; k < GROUP; k++)

/* out[k] = 2^min(t[k], 0) for one group: t = n + r with |r| <= 1/2, a polynomial in r, and 2^n made by moving n into
 * the exponent. Very small results are exactly 0, because the sign of a sum of them matters. The comparisons are written
 * so that NaN stays NaN. */
INLINE void NAME(exp2)(const REAL *t, REAL *restrict out)
{
    REAL low[GROUP], n[GROUP], r[GROUP], p[GROUP], scale[GROUP];
    EACH low[k] = 0 < t[k] ? 0 : t[k];
    EACH n[k] = low[k] + ROUND;
    EACH r[k] = low[k] - (n[k] - ROUND);
#define FIRST(a, b) EACH p[k] = a * r[k] + b
#define NEXT(a) EACH p[k] = p[k] * r[k] + a
    SERIES(FIRST, NEXT)
#undef FIRST
#undef NEXT
    EACH
    {
        BITS bits;
        memcpy(&bits, &n[k], sizeof bits);
        bits <<= SHIFT;
        memcpy(&scale[k], &bits, sizeof bits);
    }
    EACH
    {
        REAL value = p[k] * scale[k];
        out[k] = low[k] < LOWEST ? 0 : value;
    }
}

/* The same for j from 0 to m, where exponent is an expression in j. The last group ends at m, and may overlap the one
 * before. Its exponents are computed first, because out may overwrite their input. */
#define EXP2(m, out, exponent)                                                                                        \
    do {                                                                                                              \
        const ptrdiff_t whole = (m) < GROUP ? 0 : (m) - GROUP, rest = (m) - whole;                                    \
        REAL t[GROUP], last[GROUP] = {0};                                                                             \
        if (rest == GROUP)                                                                                            \
            EACH                                                                                                      \
            {                                                                                                         \
                const ptrdiff_t j = whole + k;                                                                        \
                last[k] = exponent;                                                                                   \
            }                                                                                                         \
        else                                                                                                          \
            for (ptrdiff_t j = 0; j < rest; j++)                                                                      \
                last[j] = exponent;                                                                                   \
        for (ptrdiff_t from = 0; from < whole; from += GROUP) {                                                       \
            EACH                                                                                                      \
            {                                                                                                         \
                const ptrdiff_t j = from + k;                                                                         \
                t[k] = exponent;                                                                                      \
            }                                                                                                         \
            NAME(exp2)(t, (out) + from);                                                                              \
        }                                                                                                             \
        NAME(exp2)(last, t);                                                                                          \
        memcpy((out) + whole, t, rest * sizeof(REAL));                                                                \
    } while (0)

/* Four rows at a time, so that x is read once for all of them. */
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

/* Four features at a time, so that out is read and written a quarter as often; in stretches of out that stay in
 * the first cache. */
CLONES void NAME(bt_combine)(const REAL *values, const int32_t *features, ptrdiff_t n, const REAL *columns,
                             ptrdiff_t stride, ptrdiff_t m, REAL *out)
{
    const ptrdiff_t stretch = 8192 / sizeof(REAL);
    for (ptrdiff_t from = 0; from < m; from += stretch) {
        const ptrdiff_t length = m - from < stretch ? m - from : stretch;
        REAL *o = out + from;
        ptrdiff_t e = 0;
        for (ptrdiff_t j = 0; j < length; j++)
            o[j] = 0;
        for (; e + 4 <= n; e += 4) {
            const REAL v0 = values[e], v1 = values[e + 1], v2 = values[e + 2], v3 = values[e + 3];
            const REAL *c0 = columns + (features ? features[e] : e) * stride + from;
            const REAL *c1 = columns + (features ? features[e + 1] : e + 1) * stride + from;
            const REAL *c2 = columns + (features ? features[e + 2] : e + 2) * stride + from;
            const REAL *c3 = columns + (features ? features[e + 3] : e + 3) * stride + from;
#pragma omp simd
            for (ptrdiff_t j = 0; j < length; j++)
                o[j] += (v0 * c0[j] + v1 * c1[j]) + (v2 * c2[j] + v3 * c3[j]);
        }
        for (; e < n; e++) {
            const REAL v = values[e];
            const REAL *c = columns + (features ? features[e] : e) * stride + from;
#pragma omp simd
            for (ptrdiff_t j = 0; j < length; j++)
                o[j] += v * c[j];
        }
    }
}

/* A tile is every feature of a few supports, copied together so that it stays in the first cache while it is multiplied by
 * all rows of the block. The sums of a row over the tile stay in registers. */
#define WIDTH ((ptrdiff_t)(BT_TILE_BYTES / sizeof(REAL)))

#if defined(__GNUC__)
typedef REAL NAME(vector) __attribute__((vector_size(32), may_alias));
typedef REAL NAME(unaligned) __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));

INLINE void NAME(over_tile)(const int32_t *features, const REAL *values, ptrdiff_t n, const REAL *tile, REAL *out)
{
    NAME(vector) sum[8];
    for (int k = 0; k < 8; k++)
        sum[k] = (NAME(vector)){0};
    for (ptrdiff_t e = 0; e < n; e++) {
        const NAME(vector) *c = (const NAME(vector) *)(tile + features[e] * WIDTH);
        for (int k = 0; k < 8; k++)
            sum[k] += values[e] * c[k];
    }
    for (int k = 0; k < 8; k++)
        ((NAME(unaligned) *)out)[k] = sum[k];
}
#else
INLINE void NAME(over_tile)(const int32_t *features, const REAL *values, ptrdiff_t n, const REAL *tile, REAL *out)
{
    for (ptrdiff_t j = 0; j < WIDTH; j++)
        out[j] = 0;
    for (ptrdiff_t e = 0; e < n; e++)
        for (ptrdiff_t j = 0; j < WIDTH; j++)
            out[j] += values[e] * tile[features[e] * WIDTH + j];
}
#endif

INLINE void NAME(over_tiles)(const int64_t *starts, const int32_t *features, const REAL *values, ptrdiff_t n,
                             const REAL *columns, ptrdiff_t stride, ptrdiff_t d, ptrdiff_t m, REAL *out, ptrdiff_t ld,
                             REAL *tile, int rbf, REAL gamma, const REAL *a, const REAL *b)
{
    const REAL rate = (REAL)(gamma * LOG2_E);
    for (ptrdiff_t from = 0; from < m; from += WIDTH) {
        const ptrdiff_t width = m - from < WIDTH ? m - from : WIDTH;
        REAL squares[WIDTH] = {0};
        if (width == WIDTH) /* a constant length, which the compiler turns into a few moves */
            for (ptrdiff_t k = 0; k < d; k++)
                memcpy(tile + k * WIDTH, columns + k * stride + from, BT_TILE_BYTES);
        else
            for (ptrdiff_t k = 0; k < d; k++)
                memcpy(tile + k * WIDTH, columns + k * stride + from, width * sizeof(REAL));
        if (rbf)
            memcpy(squares, b + from, width * sizeof(REAL));
        for (ptrdiff_t i = 0; i < n; i++) {
            REAL row[WIDTH];
            const ptrdiff_t e = starts[i];
            REAL *o = out + i * ld + from;
            NAME(over_tile)(features + e, values + e, starts[i + 1] - e, tile, rbf || width < WIDTH ? row : o);
            if (rbf && width == WIDTH) {
                EXP2(WIDTH, o, rate * (2 * row[j] - (a[i] + squares[j])));
            } else if (rbf) {
                EXP2(width, o, rate * (2 * row[j] - (a[i] + squares[j])));
            } else if (width < WIDTH) {
                memcpy(o, row, width * sizeof(REAL));
            }
        }
    }
}

CLONES void NAME(bt_sparse_products)(const int64_t *starts, const int32_t *features, const REAL *values, ptrdiff_t n,
                                     const REAL *columns, ptrdiff_t stride, ptrdiff_t d, ptrdiff_t m, REAL *out,
                                     ptrdiff_t ld, REAL *tile)
{
    NAME(over_tiles)(starts, features, values, n, columns, stride, d, m, out, ld, tile, 0, 0, 0, 0);
}

CLONES void NAME(bt_sparse_rbf)(const int64_t *starts, const int32_t *features, const REAL *values, ptrdiff_t n,
                                const REAL *columns, ptrdiff_t stride, ptrdiff_t d, ptrdiff_t m, REAL *out,
                                ptrdiff_t ld, REAL *tile, REAL gamma, const REAL *a, const REAL *b)
{
    NAME(over_tiles)(starts, features, values, n, columns, stride, d, m, out, ld, tile, 1, gamma, a, b);
}

#undef WIDTH

/* Rows of few features need no tile: the features of a support are read once, and its value is computed in registers. */
CLONES void NAME(bt_few_rbf)(const REAL *x, ptrdiff_t d, const REAL *columns, ptrdiff_t stride, ptrdiff_t m, REAL *out,
                             REAL gamma, REAL a, const REAL *b)
{
    const REAL rate = (REAL)(gamma * LOG2_E), start = -rate * a;
    const REAL x0 = 2 * rate * x[0], x1 = d > 1 ? 2 * rate * x[1] : 0, x2 = d > 2 ? 2 * rate * x[2] : 0;
    const REAL x3 = d > 3 ? 2 * rate * x[3] : 0;
    const REAL *c0 = columns, *c1 = c0 + stride, *c2 = c1 + stride, *c3 = c2 + stride;
    if (d == 1)
        EXP2(m, out, start - rate * b[j] + x0 * c0[j]);
    else if (d == 2)
        EXP2(m, out, start - rate * b[j] + x0 * c0[j] + x1 * c1[j]);
    else if (d == 3)
        EXP2(m, out, start - rate * b[j] + x0 * c0[j] + x1 * c1[j] + x2 * c2[j]);
    else
        EXP2(m, out, start - rate * b[j] + x0 * c0[j] + x1 * c1[j] + x2 * c2[j] + x3 * c3[j]);
}

/* The elementwise kernels, a few supports at a time. */
#define OVER_COLUMNS(name, first, step)                                                                               \
    CLONES void NAME(name)(const REAL *x, ptrdiff_t d, const REAL *columns, ptrdiff_t stride, ptrdiff_t m, REAL *out) \
    {                                                                                                                 \
        for (ptrdiff_t from = 0; from < m; from += 256) {                                                             \
            const ptrdiff_t length = m - from < 256 ? m - from : 256;                                                 \
            for (ptrdiff_t j = 0; j < length; j++)                                                                    \
                out[from + j] = first;                                                                                \
            for (ptrdiff_t k = 0; k < d; k++) {                                                                       \
                const REAL v = x[k];                                                                                  \
                const REAL *s = columns + k * stride + from;                                                          \
                REAL *o = out + from;                                                                                 \
                _Pragma("omp simd") for (ptrdiff_t j = 0; j < length; j++) step;                                      \
            }                                                                                                         \
        }                                                                                                             \
    }

OVER_COLUMNS(bt_l2_columns, 0, o[j] += (v - s[j]) * (v - s[j]))
OVER_COLUMNS(bt_l1_columns, 0, o[j] += v < s[j] ? s[j] - v : v - s[j])
OVER_COLUMNS(bt_allsubsets_columns, 1, o[j] *= 1 + v * s[j])

#undef OVER_COLUMNS

CLONES ptrdiff_t NAME(bt_count)(const REAL *x, ptrdiff_t n)
{
    ptrdiff_t count = 0;
#pragma omp simd reduction(+ : count)
    for (ptrdiff_t k = 0; k < n; k++)
        count += x[k] != 0;
    return count;
}

ptrdiff_t NAME(bt_nonzeros)(const REAL *x, ptrdiff_t n, ptrdiff_t most, int32_t *places, REAL *values)
{
    ptrdiff_t count = 0;
    for (ptrdiff_t k = 0; k < n; k++) {
        if (count == most) {
            if (x[k] != 0)
                return -1;
            continue;
        }
        places[count] = (int32_t)k;
        values[count] = x[k];
        count += x[k] != 0;
    }
    return count;
}

CLONES void NAME(bt_rbf)(REAL *row, REAL a, const REAL *b, REAL gamma, ptrdiff_t m)
{
    const REAL rate = (REAL)(gamma * LOG2_E);
    EXP2(m, row, rate * (2 * row[j] - (a + b[j])));
}

CLONES void NAME(bt_decay)(REAL *row, REAL gamma, ptrdiff_t m)
{
    const REAL rate = (REAL)(-gamma * LOG2_E);
    EXP2(m, row, rate * row[j]);
}

CLONES void NAME(bt_decay_at)(const REAL *row, const int32_t *places, REAL gamma, ptrdiff_t m, REAL *out)
{
    const REAL rate = (REAL)(-gamma * LOG2_E);
    EXP2(m, out, rate * row[places[j]]);
}

CLONES void NAME(bt_distances)(REAL *row, REAL a, const REAL *b, ptrdiff_t m)
{
#pragma omp simd
    for (ptrdiff_t j = 0; j < m; j++)
        row[j] = a + b[j] - 2 * row[j];
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
