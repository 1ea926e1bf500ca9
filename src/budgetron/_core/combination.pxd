cimport numpy as cnp
from libc.stdint cimport int64_t


cdef class Combination:
    cdef readonly Py_ssize_t n_experts, n_combiners, outputs, features
    cdef readonly tuple keeps
    cdef readonly double eta, alpha
    cdef readonly bint recency
    cdef readonly object weights, sigma, recent, shares, losses, scratch
    cdef double keep[8]
    cdef double* _weights
    cdef double* _sigma
    cdef double* _recent
    cdef double* _shares
    cdef double* _losses
    # Of a round: f of each output, margins of each combiner and output, Sigma f, votes of classes; and the class
    # that each combiner and expert votes for
    cdef double* f
    cdef double* margins
    cdef double* direction
    cdef double* votes
    cdef object chosen
    cdef int64_t* _chosen

    cdef int check(self, const double[:, :, ::1] scores, double[:, ::1] margins, cnp.uint8_t[::1] active) except -1


cdef void predict(Combination self, const double* scores, cnp.uint8_t* active, bint recent, double* out) noexcept nogil
cdef void learn_label(Combination self, Py_ssize_t label, double weight) noexcept nogil
