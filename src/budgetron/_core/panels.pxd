"""Arithmetic of lower triangles that are stored in panels (see panels.pyx)."""

cimport cython


@cython.cdivision(True)
cdef inline Py_ssize_t panel_count(Py_ssize_t n, Py_ssize_t panel) noexcept nogil:
    """Return the number of panels of n rows."""
    return (n + panel - 1) // panel


cdef inline Py_ssize_t panel_start(Py_ssize_t p, Py_ssize_t panel) noexcept nogil:
    """Return the position of the first number of panel p."""
    return panel * panel * (p * (p + 1) // 2)


@cython.cdivision(True)
cdef inline Py_ssize_t row_start(Py_ssize_t i, Py_ssize_t panel) noexcept nogil:
    """Return the position of the first number of row i."""
    cdef Py_ssize_t p = i // panel
    return panel_start(p, panel) + (i - p * panel) * (p + 1) * panel


@cython.cdivision(True)
cdef inline Py_ssize_t row_width(Py_ssize_t i, Py_ssize_t panel) noexcept nogil:
    """Return how many numbers are stored for row i."""
    return (i // panel + 1) * panel


cdef inline Py_ssize_t packed_size(Py_ssize_t n, Py_ssize_t panel) noexcept nogil:
    """Return how many numbers are stored for a triangle of n rows."""
    return row_start(n, panel)


cdef unpack(packed, Py_ssize_t n, Py_ssize_t panel)

# Triangular systems. The triangle is L.
cdef void solve_one(double* L, Py_ssize_t panel, Py_ssize_t n, double* z) noexcept nogil
cdef void solve_one_transposed(double* L, Py_ssize_t panel, Py_ssize_t n, double* z) noexcept nogil
cdef void solve_many(double* L, Py_ssize_t panel, Py_ssize_t n, double* z, Py_ssize_t count, Py_ssize_t ld) noexcept nogil
cdef void solve_many_transposed(double* L, Py_ssize_t panel, Py_ssize_t n, double* z, Py_ssize_t count,
                                Py_ssize_t ld) noexcept nogil

# Symmetric matrices. The triangle is the lower half of S.
cdef void multiply(double* S, Py_ssize_t panel, Py_ssize_t n, double* x, double* out) noexcept nogil
cdef void multiply_many(double* S, Py_ssize_t panel, Py_ssize_t n, double* x, double* out, Py_ssize_t count,
                        Py_ssize_t ld) noexcept nogil
cdef void downdate(double* S, Py_ssize_t panel, Py_ssize_t n, double* s) noexcept nogil
cdef void downdate_many(double* S, Py_ssize_t panel, Py_ssize_t n, double* s, Py_ssize_t count,
                        Py_ssize_t ld) noexcept nogil
cdef void add_to_diagonal(double* S, Py_ssize_t panel, Py_ssize_t n, double value) noexcept nogil
cdef void multiply_all(double* S, Py_ssize_t panel, Py_ssize_t n, double factor) noexcept nogil
