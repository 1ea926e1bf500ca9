cdef class LinearExperts:
    cdef readonly tuple kinds
    cdef readonly Py_ssize_t n_experts, d, outputs
    cdef readonly object dtype, weights, row
    cdef double* _weights
    cdef double* _row
    cdef double rates[16]
    cdef bint logistic[16]

    cdef int play_row(self, void* x, double label, double weight, bint learn, double* scores) except -1
