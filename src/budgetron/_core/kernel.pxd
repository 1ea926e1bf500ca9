ctypedef fused real:
    float
    double

cdef enum Kind:
    LINEAR, POLY, RBF, RBF_BY_DIFFERENCES, LAPLACIAN, ALLSUBSETS, CALLABLE


cdef class Kernel:
    cdef Kind kind
    cdef readonly str name
    cdef readonly double gamma, coef0
    cdef readonly int degree
    cdef readonly bint normalized
    cdef readonly object function

    cdef double self_value(self, double raw) noexcept nogil
    cdef bint has_unit_length(self)
    cdef bint is_safe(self, double square, Py_ssize_t d, bint single)


cdef int cross(Kernel kernel, Kind kind, real* a, Py_ssize_t n, real* b, Py_ssize_t m,
               Py_ssize_t d, real* out, Py_ssize_t ld) except -1 nogil
cdef int among(Kernel kernel, Kind kind, real* a, Py_ssize_t n, Py_ssize_t d,
               real* out, Py_ssize_t ld) except -1 nogil
cdef void squares(real* a, Py_ssize_t n, Py_ssize_t d, real* square) noexcept nogil
cdef int self_values(Kernel kernel, real* a, Py_ssize_t n, Py_ssize_t d, real* square,
                     double* own, real* among, Py_ssize_t ld) except -1 nogil
cdef void finish(Kernel kernel, Kind kind, real* raw, real a_square, double a_own,
                 real* b_square, double* b_own, Py_ssize_t m) noexcept nogil
cdef Kind kind_for(Kernel kernel, real* a_square, Py_ssize_t n, real* b_square, Py_ssize_t m) noexcept nogil
cdef double dot(real* row, double* coef, Py_ssize_t m) noexcept nogil
