cdef enum Loss:
    HINGE, LOGISTIC, SQUARED


cdef bint is_learned(Loss loss, Py_ssize_t outputs, const double* scores, Py_ssize_t target, double y,
                     double margin) noexcept nogil
cdef double choose_steps(Loss loss, Py_ssize_t outputs, const double* scores, Py_ssize_t target, double y, double margin,
                         double v, double noise, double* steps) noexcept nogil
cdef double length_of(const double* steps, Py_ssize_t outputs) noexcept nogil
