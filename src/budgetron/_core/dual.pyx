# cython: cdivision=True
"""Dual coordinate descent for the SVM without intercept: one pass over some rows of the kernel matrix."""

cdef extern from "simd.h" nogil:
    void bt_axpy_f(double, const float*, double*, ptrdiff_t)


def descend(const float[:, ::1] rows, const long long[::1] which, const double[::1] y, const double[::1] diagonal,
            double C, double[::1] alpha, double[::1] f):
    """Minimize the dual in each of these coordinates, in order.

    Parameters
    ----------
    rows : ndarray of shape (n, T)
        Kernel values of the points `which` with all points.
    which : ndarray of shape (n,)
    y, diagonal : ndarray of shape (T,)
        Labels, and k(x, x).
    C : float
        The largest alpha.
    alpha, f : ndarray of shape (T,)
        The dual variables, and sum_j alpha_j y_j k(x_j, x) at each point; both are changed.
    """
    cdef Py_ssize_t k, i, T = f.shape[0]
    cdef double after, step
    with nogil:
        for k in range(which.shape[0]):
            i = which[k]
            if diagonal[i] <= 0.0:
                continue  # the kernel maps this point to 0, so that its alpha has no effect
            after = min(C, max(0.0, alpha[i] - (y[i] * f[i] - 1.0) / diagonal[i]))
            step = after - alpha[i]
            if step != 0.0:
                alpha[i] = after
                bt_axpy_f(step * y[i], &rows[k, 0], &f[0], T)
