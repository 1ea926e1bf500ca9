from budgetron._core.kernel_values cimport Form, Kind, real


cdef class Kernel:
    cdef Form form
    cdef readonly str name
    cdef readonly object function

    cdef inline double self_value(self, double raw) noexcept nogil:
        """Return k(x, x), given the raw self value. A row that the kernel maps to 0 keeps 0."""
        if self.form.normalized:
            return 1.0 if raw > 0.0 else 0.0
        return raw

    cdef bint has_unit_length(self) noexcept nogil
    cdef bint is_safe(self, double square, Py_ssize_t d, bint single)


cdef int call(Kernel kernel, real* a, Py_ssize_t n, Py_ssize_t d, others, real* out, Py_ssize_t ld) except -1
