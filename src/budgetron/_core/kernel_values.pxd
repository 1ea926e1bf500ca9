from libc.stdint cimport int32_t, int64_t

ctypedef fused real:
    float
    double

cdef enum Kind:
    LINEAR, POLY, RBF, RBF_BY_DIFFERENCES, LAPLACIAN, ALLSUBSETS, CALLABLE

# Rows of at most this many features have an RBF loop of their own.
cdef enum:
    NARROW = 4

# The parameters of a kernel, for the loops.
ctypedef struct Form:
    Kind kind
    double gamma, coef0
    int degree
    bint normalized

# Rows to learn or predict: as a matrix, as non-zeros, or both. Row i has the non-zeros from starts[i] to
# starts[i + 1], sorted by feature. `square` are squared norms, and `own` raw self values k(x, x).
ctypedef struct Rows:
    Py_ssize_t n, d
    void* dense
    int64_t* starts
    int32_t* features
    void* values
    bint sparse  # whether products over the non-zeros are faster
    void* square
    double* own

# The non-zeros of such rows, sorted by feature: those of feature k are from heads[k] to heads[k + 1].
ctypedef struct Index:
    int32_t* heads
    int32_t* rows
    void* values


cdef Py_ssize_t tile_bytes(Py_ssize_t d) noexcept nogil
cdef bint is_product(Kind kind) noexcept nogil
cdef void over_columns(Form* kernel, Kind kind, Rows* rows, real* columns, Py_ssize_t stride, real* square, double* own,
                       Py_ssize_t start, Py_ssize_t stop, real* out, Py_ssize_t ld, void* tile) noexcept nogil
cdef void over_nonzeros(Form* kernel, Kind kind, Rows* rows, Index* index, real* spread, int64_t* begins, int32_t* lengths,
                        int32_t* features, real* values, real* square, double* own, Py_ssize_t start, Py_ssize_t stop,
                        real* out, Py_ssize_t ld) noexcept nogil
cdef void between(Form* kernel, Kind kind, Rows* rows, Py_ssize_t i, Py_ssize_t start, Py_ssize_t stop, real* out,
                  real* spread) noexcept nogil
cdef void squares(Rows* rows, real* square) noexcept nogil
cdef void self_values(Form* kernel, Rows* rows, real* square, double* own) noexcept nogil
cdef void finish(Form* kernel, Kind kind, real* raw, real a_square, double a_own,
                 real* b_square, double* b_own, Py_ssize_t m) noexcept nogil
cdef Kind kind_for(Form* kernel, real* a_square, Py_ssize_t n, real* b_square, Py_ssize_t m) noexcept nogil
cdef double dot(real* row, double* coef, Py_ssize_t m) noexcept nogil
