from libc.stdint cimport uint32_t, uint64_t
from numpy.random cimport bitgen_t

# The state of a PCG64 generator of NumPy: 128 bits that change, 128 bits that do not, and half of the last number
ctypedef struct Pcg:
    uint64_t high, low, step_high, step_low
    uint32_t spare
    uint32_t has_spare

cdef void connect(bitgen_t* bits, Pcg* state) noexcept
cdef int read_state(Pcg* state, generator) except -1
cdef write_state(Pcg* state, generator)
