/* The vector loops of the core: elementwise kernel functions and dot products.
 *
 * Plain C loops that the compiler vectorises. On x86-64 Linux each function is
 * compiled for several instruction sets and the best one is picked when the
 * library is loaded; elsewhere there is one portable version. Suffix _d is
 * float64, _f is float32.
 */
#ifndef BUDGETRON_SIMD_H
#define BUDGETRON_SIMD_H

#include <stddef.h>
#include <stdint.h>

/* sum_j row[j] * coef[j]; coefficients are float64 for both kinds of row */
double bt_dot_d(const double *row, const double *coef, ptrdiff_t m);
double bt_dot_f(const float *row, const double *coef, ptrdiff_t m);

/* sum_j row[places[j]] * coef[j] */
double bt_dot_at_d(const double *row, const int32_t *places, const double *coef, ptrdiff_t m);
double bt_dot_at_f(const float *row, const int32_t *places, const double *coef, ptrdiff_t m);

/* Supports are stored feature by feature: columns[k * stride + j] is feature k of support j.
 *
 * out[j] = sum_e values[e] columns[features[e], j]: one row's products with m supports;
 * features may be NULL for the first n in their order */
void bt_combine_d(const double *values, const int32_t *features, ptrdiff_t n, const double *columns, ptrdiff_t stride,
                  ptrdiff_t m, double *out);
void bt_combine_f(const float *values, const int32_t *features, ptrdiff_t n, const float *columns, ptrdiff_t stride,
                  ptrdiff_t m, float *out);

/* The same for n rows; row i has the entries from starts[i] to starts[i + 1]. tile has BT_TILE_BYTES for each
 * of d features, and starts at a multiple of 64 bytes */
#define BT_TILE_BYTES 256
void bt_sparse_products_d(const int64_t *starts, const int32_t *features, const double *values, ptrdiff_t n,
                          const double *columns, ptrdiff_t stride, ptrdiff_t d, ptrdiff_t m, double *out, ptrdiff_t ld,
                          double *tile);
void bt_sparse_products_f(const int64_t *starts, const int32_t *features, const float *values, ptrdiff_t n,
                          const float *columns, ptrdiff_t stride, ptrdiff_t d, ptrdiff_t m, float *out, ptrdiff_t ld,
                          float *tile);

/* The same, followed by RBF values; a are the squared norms of the rows, b those of the supports */
void bt_sparse_rbf_d(const int64_t *starts, const int32_t *features, const double *values, ptrdiff_t n,
                     const double *columns, ptrdiff_t stride, ptrdiff_t d, ptrdiff_t m, double *out, ptrdiff_t ld,
                     double *tile, double gamma, const double *a, const double *b);
void bt_sparse_rbf_f(const int64_t *starts, const int32_t *features, const float *values, ptrdiff_t n,
                     const float *columns, ptrdiff_t stride, ptrdiff_t d, ptrdiff_t m, float *out, ptrdiff_t ld,
                     float *tile, float gamma, const float *a, const float *b);

/* RBF values of one row x of d <= 4 features, of squared norm a, with m supports of squared norms b */
void bt_few_rbf_d(const double *x, ptrdiff_t d, const double *columns, ptrdiff_t stride, ptrdiff_t m, double *out,
                  double gamma, double a, const double *b);
void bt_few_rbf_f(const float *x, ptrdiff_t d, const float *columns, ptrdiff_t stride, ptrdiff_t m, float *out,
                  float gamma, float a, const float *b);

/* One row x of d features against m supports: out[j] = sum_k (x[k] - s_j[k])^2, sum_k |x[k] - s_j[k]| and
 * prod_k (1 + x[k] s_j[k]) */
void bt_l2_columns_d(const double *x, ptrdiff_t d, const double *columns, ptrdiff_t stride, ptrdiff_t m, double *out);
void bt_l2_columns_f(const float *x, ptrdiff_t d, const float *columns, ptrdiff_t stride, ptrdiff_t m, float *out);
void bt_l1_columns_d(const double *x, ptrdiff_t d, const double *columns, ptrdiff_t stride, ptrdiff_t m, double *out);
void bt_l1_columns_f(const float *x, ptrdiff_t d, const float *columns, ptrdiff_t stride, ptrdiff_t m, float *out);
void bt_allsubsets_columns_d(const double *x, ptrdiff_t d, const double *columns, ptrdiff_t stride, ptrdiff_t m,
                             double *out);
void bt_allsubsets_columns_f(const float *x, ptrdiff_t d, const float *columns, ptrdiff_t stride, ptrdiff_t m,
                             float *out);

/* the number of non-zeros of n numbers; and these with their positions: their number, or -1 if more than most */
ptrdiff_t bt_count_d(const double *x, ptrdiff_t n);
ptrdiff_t bt_count_f(const float *x, ptrdiff_t n);
ptrdiff_t bt_nonzeros_d(const double *x, ptrdiff_t n, ptrdiff_t most, int32_t *places, double *values);
ptrdiff_t bt_nonzeros_f(const float *x, ptrdiff_t n, ptrdiff_t most, int32_t *places, float *values);

/* out[j] = <rows[j], x> for m rows of d features */
void bt_products_d(const double *rows, const double *x, ptrdiff_t m, ptrdiff_t d, double *out);
void bt_products_f(const float *rows, const float *x, ptrdiff_t m, ptrdiff_t d, float *out);

/* out[j] += c * row[j] */
void bt_axpy(double c, const double *row, double *out, ptrdiff_t m);
void bt_axpy_f(double c, const float *row, double *out, ptrdiff_t m);

/* u[j] += lambda b[j] and b[j] += g u[j], both with the values before */
void bt_exchange(double *u, double *b, double lambda, double g, ptrdiff_t m);

/* row[j] = exp(min(0, 2 gamma row[j] - gamma (a + b[j]))): dot products of a row
 * with squared norm a and of rows with squared norms b become RBF values */
void bt_rbf_d(double *row, double a, const double *b, double gamma, ptrdiff_t m);
void bt_rbf_f(float *row, float a, const float *b, float gamma, ptrdiff_t m);

/* row[j] = exp(-gamma row[j]) for row[j] >= 0: distances become RBF or Laplacian values */
void bt_decay_d(double *row, double gamma, ptrdiff_t m);
void bt_decay_f(float *row, float gamma, ptrdiff_t m);

/* out[j] = exp(-gamma row[places[j]]) */
void bt_decay_at_d(const double *row, const int32_t *places, double gamma, ptrdiff_t m, double *out);
void bt_decay_at_f(const float *row, const int32_t *places, float gamma, ptrdiff_t m, float *out);

/* row[j] = a + b[j] - 2 row[j]: dot products become squared distances; rounding may make them slightly negative */
void bt_distances_d(double *row, double a, const double *b, ptrdiff_t m);
void bt_distances_f(float *row, float a, const float *b, ptrdiff_t m);

/* row[j] = (gamma row[j] + coef0) ** degree */
void bt_poly_d(double *row, double gamma, double coef0, int degree, ptrdiff_t m);
void bt_poly_f(float *row, float gamma, float coef0, int degree, ptrdiff_t m);

/* sum_k (a[k] - b[k])^2, sum_k |a[k] - b[k]| and prod_k (1 + a[k] b[k]) over d features */
double bt_l2_d(const double *a, const double *b, ptrdiff_t d);
double bt_l2_f(const float *a, const float *b, ptrdiff_t d);
double bt_l1_d(const double *a, const double *b, ptrdiff_t d);
double bt_l1_f(const float *a, const float *b, ptrdiff_t d);
double bt_allsubsets_d(const double *a, const double *b, ptrdiff_t d);
double bt_allsubsets_f(const float *a, const float *b, ptrdiff_t d);

/* sum_k a[k]^2, accumulated in float64 */
double bt_square_d(const double *a, ptrdiff_t d);
double bt_square_f(const float *a, ptrdiff_t d);

/* the largest of m numbers that are not negative */
double bt_largest_d(const double *a, ptrdiff_t m);
double bt_largest_f(const float *a, ptrdiff_t m);

#endif
