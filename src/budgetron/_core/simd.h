/* The vector loops of the core: elementwise kernel finishes and dot products.
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

/* out[j] = <rows[j], x> for m rows of d features */
void bt_products_d(const double *rows, const double *x, ptrdiff_t m, ptrdiff_t d, double *out);
void bt_products_f(const float *rows, const float *x, ptrdiff_t m, ptrdiff_t d, float *out);

/* out[j] += c * row[j] */
void bt_axpy(double c, const double *row, double *out, ptrdiff_t m);
void bt_axpy_f(double c, const float *row, double *out, ptrdiff_t m);

/* u[j] += lambda b[j] while b[j] += g u[j], by the values before */
void bt_exchange(double *u, double *b, double lambda, double g, ptrdiff_t m);

/* row[j] = exp(min(0, 2 gamma row[j] - gamma (a + b[j]))): dot products of a row
 * with squared norm a and of rows with squared norms b become RBF values */
void bt_rbf_d(double *row, double a, const double *b, double gamma, ptrdiff_t m);
void bt_rbf_f(float *row, float a, const float *b, float gamma, ptrdiff_t m);

/* row[j] = exp(-gamma row[j]) for row[j] >= 0: distances become RBF or Laplacian values */
void bt_decay_d(double *row, double gamma, ptrdiff_t m);
void bt_decay_f(float *row, float gamma, ptrdiff_t m);

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
