# cython: cdivision=True
"""Rules that merge two supports into one, whose row is a mixture of theirs. For the "rbf" kernel.

`find_partner` looks up how much each merge would change the hypothesis, in the tables of `merge_table`. `merge` carries
out the best one. The support with the larger coefficient stays in its slot and gets the new row, and the other is
removed. The new row is not a row of the stream and has no round of its own, so averages and journals cannot be kept.
"""

from libc.math cimport INFINITY, NAN, fabs, pow, sqrt
from libc.stdint cimport int32_t

import numpy as np

from budgetron._core.kernel_values cimport Rows, real
from budgetron._core.rows cimport address, open_dense, open_sparse

from budgetron._core.merge_table import CELLS_OF_KERNEL, CELLS_OF_SHARE, merge_tables

cdef Py_ssize_t SHARES = CELLS_OF_SHARE, KERNELS = CELLS_OF_KERNEL


cdef class MergingRule(SpanRule):
    """A rule that may merge supports.

    Parameters
    ----------
    budget : int
    merges : bool
        Whether the rule merges supports.
    options
        Those of `SpanRule`. A rule that merges supports keeps neither a tail nor a Gram matrix.
    """

    def __init__(self, Py_ssize_t budget=0, *, bint merges=False, **options):
        SpanRule.__init__(self, budget, **options)
        if merges and (self.keeps_tail or self.keeps_gram):
            raise ValueError("a rule that merges supports cannot keep a tail or a Gram matrix")
        self.merges, self.changed = merges, -1
        if merges:
            self.tables = merge_tables()
            self.shares = <const double*> address(self.tables[0])
            self.losses = <const double*> address(self.tables[1])

    def attach(self, Supports supports):
        """Use this slab, with room for each of its slots."""
        SpanRule.attach(self, supports)
        self.make_blend()

    def __setstate__(self, state):
        SpanRule.__setstate__(self, state)
        self.make_blend()

    def add_features(self, Py_ssize_t d):
        """Take rows of d features from now on; the new features were 0 in all rows so far."""
        SpanRule.add_features(self, d)
        self.make_blend()

    def make_blend(self):
        """Make room for the row of a merged support."""
        cdef Supports supports = self.supports
        if self.merges:
            dtype = supports.square.dtype
            self.blended = Supports(supports.kernel, supports.d, dtype, 1, supports.sparse)
            self.mixture = Block(supports.kernel, supports.d, dtype, 1, supports.sparse)
            if not supports.sparse:
                self.mixture.make_matrix()
                self.mixture.make_room(supports.d + 1)

    @property
    def nbytes(self):
        """Bytes that the rule keeps, without its slab."""
        return SpanRule.nbytes.__get__(self) + (self.blended.nbytes + self.mixture.nbytes if self.merges else 0)

    def keep_average(self, Py_ssize_t limit=0):
        """Keep the average of the hypotheses, unless supports are merged."""
        self.refuse_history()
        SpanRule.keep_average(self, limit)

    def keep_journal(self):
        """Keep every hypothesis, unless supports are merged."""
        self.refuse_history()
        SpanRule.keep_journal(self)

    def refuse_history(self):
        """Raise `ValueError` if supports are merged."""
        if self.merges:
            raise ValueError(
                "a learner that merges supports cannot be averaged, and its hypotheses cannot be kept, because the rows of "
                'its supports change; use another way to keep the budget, such as variant="projection"'
            )

    cdef Py_ssize_t find_partner(self, Py_ssize_t position) except? -1 nogil:
        """Return the support with which merging this one changes f least, of ties the oldest; -1 if there is none.

        Only supports whose coefficients have the same sign are merged. |coefficient| at `position` must be the smallest.
        """
        cdef Py_ssize_t p, slot = self.supports._order[position], chosen = -1
        cdef double a = self.weight(position), b, k, m, loss, threshold = INFINITY
        self.supports.kernel_row(slot, self._scratch)
        for p in range(self.size()):
            b = self.weight(p)
            if p == position or a * b <= 0.0:
                continue
            k = self._scratch[self.supports._order[p]]
            loss = a * a * look_up(self.losses, a / (a + b), k)
            if loss < threshold:
                chosen, threshold = p, loss - self.tie_share() * a * a
        if chosen < 0:
            return -1
        b, k = self.weight(chosen), min(1.0, self._scratch[self.supports._order[chosen]])
        self.share = look_up(self.shares, a / (a + b), k)
        self.coefficient = a * pow(k, (1.0 - self.share) ** 2) + b * pow(k, self.share ** 2)
        loss = a * a + b * b + 2.0 * a * b * k - self.coefficient * self.coefficient
        self.distance = sqrt(loss) if loss > 0.0 else 0.0
        return chosen

    cdef int merge(self, Py_ssize_t position, Py_ssize_t partner) except? -1 nogil:
        """Merge two supports as `find_partner` found; `value` is not kept."""
        cdef Py_ssize_t slot = self.supports._order[position], kept = self.supports._order[partner]
        cdef double before = self.weight(partner), c = self.coefficient, at = NAN, after = NAN
        if self.recording:
            at = self.value_anywhere(partner)
        self._coef[kept] = 0.0
        self.blend(kept, slot)
        if self.recording:
            after = self.value_anywhere(partner)
        self._coef[kept] = c / self.factor
        # ||f||^2 without the term of the partner, and then with the new term; `remove` does the same for the other.
        self.norm2 += before * (before * self.own(partner) - 2.0 * at)
        self.norm2 += c * (2.0 * after + c * self.own(partner))
        self.peak = max(self.peak, self.norm2)
        self.changed = kept
        return self.remove(position)

    cdef int blend(self, Py_ssize_t slot, Py_ssize_t other) except -1 nogil:
        """Replace the row x in a slot by h x' + (1 - h) x, where x' is the row in the other."""
        if self.supports.single:
            mix(self, self.supports, self.mixture, slot, other, <float*> self.supports._columns,
                <float*> self.supports._values)
        else:
            mix(self, self.supports, self.mixture, slot, other, <double*> self.supports._columns,
                <double*> self.supports._values)
        if self.supports.sparse:
            self.supports.reserve_entries(self.mixture.rows.starts[1])
            self.blended.used = 0
            self.blended.reserve_entries(self.mixture.rows.starts[1])
        self.supports.store(slot, &self.mixture.rows, 0)
        self.blended.store(0, &self.mixture.rows, 0)
        self.blended.m = self.blended.top = 1
        return 0

    cdef int compare(self, Block block, Py_ssize_t i, void* out, Py_ssize_t ld) except -1 nogil:
        """Write the kernel values of the changed slot with the rows of a block to `out`, which has `ld` numbers per row.

        Row i was played last. Reserve room again for the non-zeros of the later rows.
        """
        cdef Rows* rows = &block.rows
        cdef Py_ssize_t slot = self.changed
        self.changed = -1
        if self.supports.sparse:
            self.supports.reserve_entries(rows.starts[rows.n] - rows.starts[i + 1])
        return self.blended.values_of(block, self.blended.kind_with(block), <char*> out + slot * block.itemsize, ld, None)


cdef double look_up(const double* table, double m, double k) noexcept nogil:
    """Return a value of a table by bilinear interpolation."""
    cdef double x = min(1.0, max(0.0, 2.0 * m)) * SHARES, y = min(1.0, max(0.0, k)) * KERNELS
    cdef Py_ssize_t i = min(<Py_ssize_t> x, SHARES - 1), j = min(<Py_ssize_t> y, KERNELS - 1)
    cdef const double* corner = table + i * (KERNELS + 1) + j
    x, y = x - i, y - j
    return ((1.0 - x) * ((1.0 - y) * corner[0] + y * corner[1])
            + x * ((1.0 - y) * corner[KERNELS + 1] + y * corner[KERNELS + 2]))


cdef int mix(MergingRule rule, Supports supports, Block block, Py_ssize_t slot, Py_ssize_t other, real* columns,
             real* values) except -1 nogil:
    """Write the mixture of the rows in two slots into the block."""
    cdef double h = rule.share
    cdef Py_ssize_t i, j, k, n = 0, stop, last
    cdef int32_t* features = supports._features
    cdef real* row
    if not supports.sparse:
        row = <real*> block._dense
        for k in range(supports.d):
            row[k] = <real> (h * columns[k * supports.stride + other] + (1.0 - h) * columns[k * supports.stride + slot])
        return open_dense(block, row, 1)
    i, j = supports._begins[slot], supports._begins[other]
    stop, last = i + supports._lengths[slot], j + supports._lengths[other]
    block.make_room(max(1, stop - i + last - j))
    row = <real*> block._values
    while i < stop or j < last:
        if j == last or (i < stop and features[i] < features[j]):
            block._features[n], row[n] = features[i], <real> ((1.0 - h) * values[i])
            i += 1
        elif i == stop or features[j] < features[i]:
            block._features[n], row[n] = features[j], <real> (h * values[j])
            j += 1
        else:
            block._features[n], row[n] = features[i], <real> (h * values[j] + (1.0 - h) * values[i])
            i += 1
            j += 1
        n += row[n] != 0.0
    block._starts[0], block._starts[1] = 0, n
    return open_sparse(block, block._starts, block._features, row, 1)
