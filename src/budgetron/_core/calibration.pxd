cdef void see(double* numbers, double margin, double target) noexcept nogil
