# cython: cdivision=True
"""The hypothesis of a kernel learner, and the operations that every algorithm is made of.

A learner is a subclass of `Rule` that defines *when* to update (`needs_update`, by default on a mistake) and *how*
(`update`). It can use these quantities of the current round:

    y, margin        the label (-1 or +1) and f_t(x_t)
    importance       the weight of the row; 1 if the caller gave none
    value            f(x_t) of the current hypothesis, in the middle of an update
    kxx, k           k(x_t, x_t), and the kernel row of x_t over the slots
    size()           number of supports
    mistakes         mistakes so far, this round's included
    weight(p)        coefficient of the support at position p; 0 is the oldest
    label(p)         its sign, which is the example's label where no support is projected
    own(p)           k(x_p, x_p)
    value_at(p)      f(x_p)
    norm()           ||f||
    tie_tolerance(a) differences of values at two supports up to this are ties, if other terms are at most a

and these operations:

    add(c)           f += c k(x_t, .), in a new slot
    repeated_slot()  the slot of a support that equals x_t, or -1
    increase(s, c)   f += c k(x_t, .), where slot s has a support that equals x_t
    shrink(phi)      f *= phi
    remove(p)        remove the support at position p
    shift(c, d, n)   f += c sum_j d_j k(x_j, .), where the sum is the projection of
                     k(x_t, .) onto the span of the supports and n its squared norm
    move(c, d)       f += c sum_j d_j k(x_j, .), for any d over the slots that is 0 at free slots; not with tail
    draw(n)          a random whole number in 0 .. n-1
    draw_fraction()  a random number in [0, 1)
    note(NAME, v)    enter v in the ledger
    prune_due        set to True, `exchange` is called before the next round

`tail` and `gram` choose how f(x_p) is obtained. The tail of a support is the value at x_p of the part of f that
consists of this support and all newer ones. It costs O(B) per change. For the oldest support it is f(x_p); only the
oldest support may be removed. With the Gram matrix, f is known at all supports and any support may be removed. With
neither, each f(x_p) costs a kernel row. `projection` keeps the factor that projects onto the span of the supports. A
rule that sets `gaussian` (before `attach`) keeps its hypothesis there, in coordinates of that span and, if wanted, of
the row itself; the coefficients follow from it.

A rule may consist of several functions, one for each class (`outputs`). They have the same supports. Such a rule sets
the coefficients of all outputs itself. Operations that need the value or the norm of f are for rules with one output.
`scores` then has the value of each function at x_t, `target` is the output of the row's class, y is 1, and margin is the
score of the target minus the largest other score. The coefficients are a matrix with one row per output.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.math cimport NAN, fabs, isfinite, isnan, sqrt
from libc.stdint cimport uint32_t, uint64_t

import numpy as np

from budgetron._core.gaussian cimport Gaussian
from budgetron._core.history cimport Average, Journal
from budgetron._core.projection cimport Projection
from budgetron._core.rows cimport address

from budgetron._core.supports import NO_VALUES, writeable
from budgetron._core.thinning import thin

cdef extern from "simd.h" nogil:
    double bt_dot_d(const double*, const double*, ptrdiff_t)
    void bt_axpy(double, const double*, double*, ptrdiff_t)

cdef extern from "float.h":
    const double DBL_MIN

# The common factor is multiplied into the coefficients before it underflows. With averages this happens earlier,
# because the sum of the hypotheses is a difference that loses as many digits as the factor does.
cdef double SMALLEST_FACTOR = 1e-100, SMALLEST_AVERAGED = 1e-4

# A norm below this share of its peak has lost too many digits, and is recomputed.
cdef double CANCELLED = 1e-7

ENTRY_NAMES = {
    "norm": NORM, "removed": REMOVED, "phi": PHI, "psi": PSI, "Q": Q, "delta": DELTA,
    "threshold": THRESHOLD, "tau": TAU, "beta": BETA, "grad_error": GRAD_ERROR, "Z": Z, "variance": VARIANCE,
    "step_norm": STEP_NORM, "error": ERROR,
}


def rebuild(cls, args, options, state):
    """Return a rule from its pickled parts: `args` and `options` are those of its constructor."""
    rule = cls(*args, **options)
    rule.__setstate__(state)
    return rule


cdef class Rule:
    """An online algorithm: a hypothesis over a slab of supports, and how a round changes it.

    Parameters
    ----------
    budget : int
        The largest number of supports after a round; 0 for no limit.
    ledger : tuple of str
        Names of the quantities of the algorithm's proof.
    tail, gram, projection : bool
        What to store besides the coefficients (see the module).
    generator : numpy.random.Generator, optional
        Source of the random numbers of `draw`.
    divides : bool
        Whether a step is divided by k(x, x), so that it may overflow.
    norm : bool
        Whether ||f|| must be known after a removal. It costs a kernel row if neither tail nor gram is stored.
    """

    def __cinit__(self, *args, **options):
        self.args, self.options = args, options
        self.coef = self.tail = self.values = self.gram = self.scratch = self.departed_sums = NO_VALUES
        self.factor = 1.0
        self.added = -1
        self.outputs = 1
        self.adds_supports = True
        self.scores = NO_VALUES

    def __init__(self, Py_ssize_t budget=0, *, tuple ledger=("norm",), bint tail=False, bint gram=False,
                 bint projection=False, generator=None, bint divides=False, bint norm=False):
        unknown = set(ledger) - set(ENTRY_NAMES)
        if unknown:
            raise ValueError(f"ledger must have names of {sorted(ENTRY_NAMES)} only; got {sorted(unknown)}")
        self.budget, self.ledger = budget, ledger
        self.keeps_tail, self.keeps_gram, self.divides = tail, gram, divides
        self.keeps_norm = norm or tail or gram
        self.projection = Projection() if projection else None
        self.generator = generator
        if generator is not None:
            self.bits = <bitgen_t*> PyCapsule_GetPointer(generator.bit_generator.capsule, "BitGenerator")

    def capacity(self):
        """Return the number of slots: a new support is added before another is removed."""
        return self.budget + 1 if self.budget else 0

    def attach(self, Supports supports):
        """Use this slab, with room for each of its slots."""
        self.supports = supports
        self.reserve(supports.capacity)

    def reserve(self, Py_ssize_t capacity):
        """Make room for `capacity` slots."""
        if self.projection is not None:  # allocations that may fail come first
            self.projection.reserve(capacity)
        if self.gaussian is not None:
            self.gaussian.reserve(capacity)
        if self.outputs == 1:
            self.coef = lengthen(self.coef, capacity)
        else:
            old, self.coef = self.coef, np.zeros((self.outputs, capacity))
            self.coef[:, :old.shape[1]] = old
        self.scratch = np.zeros(capacity)
        if self.keeps_tail:
            self.tail = lengthen(self.tail, capacity)
        if self.keeps_gram:
            self.values = lengthen(self.values, capacity)
            old, self.gram = self.gram, np.zeros((capacity, capacity))
            if old.ndim == 2:
                self.gram[:len(old), :len(old)] = old
        if self.average is not None:
            self.average.reserve(capacity)
        self.set_pointers()

    def keep_average(self, Py_ssize_t limit=0):
        """Keep the average of the hypotheses from the first round on, with at most `limit` removed supports.

        There may be up to 2 `limit` of them. Then their sum is projected onto the span of `limit`.
        """
        self.average = Average(self.supports.capacity, limit)
        self.make_departed(2 * limit)
        self.departed_sums = np.zeros(2 * limit) if limit else NO_VALUES

    def keep_journal(self):
        """Keep every hypothesis from the first round on."""
        self.journal = Journal()
        self.journal.close(-1, self.factor, True)
        self.make_departed()

    def make_departed(self, Py_ssize_t capacity=0):
        """Make room for removed supports: an average, or an old hypothesis, still needs them."""
        if self.rounds > 0:
            raise ValueError("a learner with initial_coefficients cannot be averaged, and its hypotheses cannot be kept")
        supports = self.supports
        self.departed = Supports(supports.kernel, supports.d, supports.square.dtype, capacity, supports.sparse)

    def thin_departed(self):
        """Project the sum over the removed supports onto the span of some of them, and forget the others."""
        cdef Supports departed = self.departed
        cdef Py_ssize_t m = departed.m, slot
        cdef double* row
        matrix = np.empty((m, m))
        for slot in range(m):  # removed supports fill the first slots
            row = <double*> address(matrix[slot])
            departed.kernel_row(slot, row)
        kept, sums, residual = thin(matrix, self.departed_sums[:m], self.average.limit)
        departed.keep(kept)
        self.departed_sums[:] = 0.0
        self.departed_sums[:len(kept)] = sums
        self.average.residual += residual

    cdef void set_pointers(self):
        self._coef, self._tail = <double*> address(self.coef), <double*> address(self.tail)
        self._values, self._gram = <double*> address(self.values), <double*> address(self.gram)
        self._scratch, self._scores = <double*> address(self.scratch), <double*> address(self.scores)

    def set_outputs(self, Py_ssize_t outputs):
        """Consist of this many functions from now on, whose coefficients are not known yet."""
        self.outputs = outputs
        self.coef = NO_VALUES if outputs == 1 else np.zeros((outputs, 0))
        self.scores = NO_VALUES if outputs == 1 else np.zeros(outputs)

    def add_output(self, Py_ssize_t place):
        """Add a function that is 0. The single function of two classes first becomes one for each of them."""
        before = np.atleast_2d(self.coef)
        before = np.concatenate([-before, before]) if len(before) == 1 else before
        if self.gaussian is not None:
            self.gaussian.add_output(place)
        self.set_outputs(len(before) + 1)
        self.coef = np.insert(before, place, 0.0, axis=0)
        self.reserve(self.supports.capacity)

    def update_coefficients(self):
        """Compute the coefficients and the norm from the Gaussian."""
        self.set_coefficients()
        self.norm2 = self.gaussian.square()

    cdef void set_coefficients(self) noexcept nogil:
        """Compute the coefficients from the Gaussian."""
        self.gaussian.coefficients(self.projection, self._coef, self.supports.capacity)

    def arrays(self):
        """Return all arrays, by name."""
        arrays = {"coef": self.coef, "tail": self.tail, "values": self.values, "gram": self.gram,
                  "scratch": self.scratch, "scores": self.scores}
        if self.projection is not None:
            arrays |= self.projection.arrays()
        if self.gaussian is not None:
            arrays |= {f"gaussian {name}": array for name, array in self.gaussian.arrays().items()}
        if self.average is not None:
            arrays["lag"] = self.average.lag
        if self.journal is not None:
            arrays |= {f"journal {name}": array for name, array in self.journal.arrays().items()}
        if self.departed is not None:
            arrays["departed sums"] = self.departed_sums
        return arrays

    @property
    def nbytes(self):
        """Bytes that the rule keeps, without its slab."""
        departed = 0 if self.departed is None else self.departed.nbytes
        return departed + sum(array.nbytes for array in self.arrays().values())

    def __getstate__(self):
        # "tally" is the name of the file format for the sum of the damages.
        state = {
            "coef": self.coef, "tail": self.tail, "values": self.values, "gram": self.gram,
            "scratch": self.scratch, "factor": self.factor, "norm2": self.norm2, "peak": self.peak, "tally": self.damage_sum,
            "rounds": self.rounds, "mistakes": self.mistakes, "supports": self.supports,
            "projection": self.projection, "average": self.average, "journal": self.journal,
            "departed": self.departed, "departed_sums": self.departed_sums,
        }
        if self.gaussian is not None:
            state["gaussian"] = self.gaussian
        if self.generator is not None:
            state["bits"] = self.generator.bit_generator.state
        return state

    def __setstate__(self, state):
        self.coef, self.tail, self.values = map(kept_array, (state["coef"], state["tail"], state["values"]))
        self.gram, self.scratch = map(kept_array, (state["gram"], state["scratch"]))
        self.factor, self.norm2, self.peak = state["factor"], state["norm2"], state["peak"]
        self.damage_sum = state["tally"]
        self.rounds, self.mistakes, self.supports = state["rounds"], state["mistakes"], state["supports"]
        self.projection, self.average = state["projection"], state["average"]
        self.journal, self.departed = state["journal"], state["departed"]
        self.departed_sums = kept_array(state["departed_sums"])
        self.gaussian = state.get("gaussian")
        if self.coef.ndim == 2:
            self.outputs, self.scores = len(self.coef), np.zeros(len(self.coef))
        if self.generator is not None:
            self.generator.bit_generator.state = state["bits"]
        self.set_pointers()

    def __reduce__(self):
        return rebuild, (type(self), self.args, self.options, self.__getstate__())

    def state(self):
        """Return all that the rule must remember: numbers, arrays, and tables of these."""
        parts = (Supports, Projection, Gaussian, Average, Journal)
        return {name: value.state() if isinstance(value, parts) else value
                for name, value in self.__getstate__().items()}

    def check_own_state(self, dict state, Py_ssize_t capacity):
        """Return `state` after checking the entries that only this kind of rule has, for `capacity` slots.

        A rule with entries of its own overrides this; it raises `ValueError` where an entry is invalid. Entries
        that older files lack are filled in.
        """
        return state

    def check_slots(self, dict state, supports):
        """Check the entries over the slots of `supports` that only this kind of rule has, like `check_own_state`."""

    def set_round_count(self, int64_t rounds):
        """Continue as if this many rounds had been played without an update."""
        self.rounds = rounds

    def add_features(self, Py_ssize_t d):
        """Take rows of d features from now on; the new features were 0 in all rows so far."""
        self.supports.add_features(d)
        if self.departed is not None:
            self.departed.add_features(d)
        if self.gaussian is not None:
            self.gaussian.add_features(d)

    def mirror(self):
        """Replace f by -f."""
        for values in (self.coef, self.tail, self.values):
            np.negative(values, out=values)
        if self.gaussian is not None:
            self.gaussian.mirror()

    def set_budget(self, Py_ssize_t budget):
        """Change the budget, also of copies."""
        self.budget = budget
        self.set_argument(0, budget)

    def set_argument(self, Py_ssize_t place, value):
        """Replace an argument of the constructor, with which copies are made."""
        self.args = (*self.args[:place], value, *self.args[place + 1:])

    def truncate(self, Py_ssize_t budget):
        """Keep the first supports, as many as `budget`, and from now on no more than that.

        Only for rules with a Gaussian. Its coordinates are those of an orthonormal basis, one support after
        the other, so that the first coordinates are all that is known about the span of the first supports.
        """
        cdef Py_ssize_t m = min(self.supports.m, budget), capacity
        if self.gaussian is None:
            raise ValueError("only second-order rules can be truncated")
        self.set_budget(budget)
        capacity = self.capacity()
        self.supports.truncate(m, capacity)
        self.projection.truncate(m, capacity)
        self.gaussian.truncate(m, capacity)
        self.set_outputs(self.outputs)
        self.reserve(capacity)
        self.update_coefficients()

    def coefficients(self):
        """Return the coefficients of each output, from the oldest support to the newest; (n_supports,) if it is one."""
        return self.factor * self.coef[..., self.supports.order[:self.supports.m]]

    def refresh_norm(self):
        """Recompute ||f||^2 if removals left it unknown."""
        if isnan(self.norm2):
            self.measure_norm()

    cdef int measure_norm(self) except? -1 nogil:
        """Compute ||f||^2, and f at the supports if stored, from the rows and the coefficients."""
        cdef double value, total = 0.0
        cdef Py_ssize_t p, slot
        for p in range(self.size()):
            slot = self.supports._order[p]
            self.supports.kernel_row(slot, self._scratch)
            value = bt_dot_d(self._scratch, self._coef, self.supports.top)
            total += self._coef[slot] * value
            if self.keeps_gram:
                self._values[slot] = value
        self.norm2 = self.peak = total * self.factor * self.factor
        return 1

    cdef bint needs_update(self) noexcept nogil:
        return self.y * self.margin <= 0.0

    def exchange(self):
        """Remove supports between rounds, when `prune_due` is set; return the slots kept, now the first, or None."""
        self.prune_due = False

    cdef bint update_is_likely(self, double square) noexcept nogil:
        """Return whether to expect an update, given the squared norm of the projection."""
        return True

    cdef int update(self) except? -1 nogil:
        return self.add(self.y)

    cdef double value_anywhere(self, Py_ssize_t position) except? -1 nogil:
        """Return f(x_p) without a Gram matrix."""
        cdef Py_ssize_t slot = self.supports._order[position]
        if self.keeps_tail and position == 0:
            return self.factor * self._tail[slot]
        self.supports.kernel_row(slot, self._scratch)
        return self.factor * bt_dot_d(self._scratch, self._coef, self.supports.top)

    cdef double tie_tolerance(self, double term) noexcept nogil:
        """Return the difference up to which values computed from f at two supports are ties.

        For rules whose coefficients are at most 1. It is relative to the largest |k(x_p, x_j)| that is possible, or
        to `term` if that is larger: the terms determine the rounding error, while their sum may be near 0.
        """
        cdef double own = 1.0
        cdef Py_ssize_t p
        if not self.supports.kernel.has_unit_length():
            own = 0.0
            for p in range(self.size()):
                own = max(own, self.own(p))
        return self.tie_share() * max(term, own)

    cdef double norm(self) noexcept nogil:
        return sqrt(self.norm2) if self.norm2 > 0.0 else 0.0

    cdef int add(self, double c) except? -1 nogil:
        cdef double stored = c / self.factor
        cdef Py_ssize_t slot, top, j, n
        if not isfinite(stored):
            with gil:
                raise ValueError(
                    f"the step of round {self.rounds} is not finite: k(x, x) = {self.kxx} is too small, or the "
                    "steps grow from round to round; scale the features, or use a smaller eta if there is one"
                )
        if self.supports.m == self.supports.capacity:
            with gil:
                raise IndexError(f"a round may add at most one support to a full budget of {self.budget}")
        slot = self.supports.open(self.rounds)
        top = self.supports.top
        self.supports.store(slot, self.rows, self.row)
        self.k[slot] = self.kxx
        if self.keeps_tail:
            bt_axpy(stored, self.k, self._tail, top)
            self._tail[slot] = stored * self.kxx
        if self.keeps_gram:
            bt_axpy(stored, self.k, self._values, top)
            self._values[slot] = self.value / self.factor + stored * self.kxx
            n = self.supports.capacity
            for j in range(top):
                self._gram[slot * n + j] = self.k[j]
                self._gram[j * n + slot] = self.k[j]
        self._coef[slot] = stored
        if self.average is not None:
            self.average.note_change(slot, stored)
        if self.journal is not None:
            self.journal.note(self.rounds, stored)
        self.norm2 += c * (2.0 * self.value + c * self.kxx)
        self.peak = max(self.peak, self.norm2)
        self.value += c * self.kxx
        self.added = slot
        return 1

    cdef Py_ssize_t repeated_slot(self) noexcept nogil:
        return self.supports.find(self.rows, self.row)

    cdef int increase(self, Py_ssize_t slot, double c) except? -1 nogil:
        cdef double stored = c / self.factor
        self._coef[slot] += stored
        if self.average is not None:
            self.average.note_change(slot, stored)
        if self.journal is not None:
            self.journal.note(self.supports._rounds[slot], stored)
        self.norm2 += c * (2.0 * self.value + c * self.kxx)
        self.peak = max(self.peak, self.norm2)
        self.value += c * self.kxx
        return 1

    cdef int shrink(self, double phi) except? -1 nogil:
        self.factor *= phi
        self.norm2 *= phi * phi
        self.peak *= phi * phi
        self.value *= phi
        if fabs(self.factor) < (SMALLEST_FACTOR if self.average is None else SMALLEST_AVERAGED):
            if self.average is not None:
                self.average.fold_weights(self._coef, self.supports.top)
            if self.journal is not None:
                self.journal.rescale(self.factor)
            multiply_out(self._coef, self.factor, self.supports.top)
            if self.keeps_tail:
                multiply_out(self._tail, self.factor, self.supports.top)
            if self.keeps_gram:
                multiply_out(self._values, self.factor, self.supports.top)
            self.factor = 1.0
        return 1

    cdef int remove(self, Py_ssize_t position) except? -1 nogil:
        cdef Py_ssize_t slot, j
        cdef double c, at = NAN
        if position < 0 or position >= self.size():
            with gil:
                raise IndexError(f"there is no support at position {position} of {self.size()}")
        if self.keeps_tail and position > 0:
            with gil:
                raise ValueError("a rule with tail=True may remove only the oldest support")
        slot, c = self.supports._order[position], self.weight(position)
        self.note(REMOVED, <double> self.supports._rounds[slot])
        if self.recording or self.average is not None or self.keeps_norm:
            at = self.value_at(position)
        self.norm2 += c * (c * self.own(position) - 2.0 * at)
        self.value -= c * self.k[slot]
        if self.keeps_gram:
            bt_axpy(-self._coef[slot], self._gram + slot * self.supports.capacity, self._values,
                    self.supports.top)
        if self.departed is not None:
            self.keep_departed(slot)
        for j in range(self.outputs):  # so that the kernel value of a free slot, which is arbitrary, does not count
            self._coef[j * self.supports.capacity + slot] = 0.0
        self.supports.close(position)
        if self.norm2 < CANCELLED * self.peak:  # the rest is mostly rounding
            self.measure_norm()
        return 1

    cdef int keep_departed(self, Py_ssize_t slot) except -1 with gil:
        """Store a support that is removed, with its share of the sum of the hypotheses."""
        cdef Supports departed = self.departed, supports = self.supports
        cdef Py_ssize_t place
        if departed.m == departed.capacity:
            departed.reserve(max(64, departed.capacity * 3 // 2))
            self.departed_sums = lengthen(self.departed_sums, departed.capacity)
        place = departed.open(supports._rounds[slot])
        departed.copy_from(place, supports, slot)
        if self.average is not None:
            self.departed_sums[place] = self.average.remove_weight(slot, self._coef[slot])
        if self.journal is not None:
            self.journal.note(supports._rounds[slot], -self._coef[slot])
        if self.average is not None and self.average.limit > 0 and departed.m == 2 * self.average.limit:
            self.thin_departed()
        return 0

    cdef int shift(self, double c, double* d, double square) except? -1 nogil:
        self.change_coefficients(c, d)
        self.norm2 += c * (2.0 * self.value + c * square)
        self.peak = max(self.peak, self.norm2)
        self.value += c * square
        return 1

    cdef int move(self, double c, double* d) except? -1 nogil:
        cdef Py_ssize_t j, top = self.supports.top
        cdef double along, square
        if self.keeps_tail:
            with gil:
                raise ValueError("a rule with tail=True may not change the coefficients of its supports")
        if self.keeps_gram:
            for j in range(top):
                self._scratch[j] = 0.0
            for j in range(top):
                if d[j] != 0.0:
                    bt_axpy(d[j], self._gram + j * self.supports.capacity, self._scratch, top)
            along = self.factor * bt_dot_d(d, self._values, top)  # <f, sum_j d_j k(x_j, .)>
            square = bt_dot_d(d, self._scratch, top)
            bt_axpy(c / self.factor, self._scratch, self._values, top)
            self.norm2 += c * (2.0 * along + c * square)
            self.peak = max(self.peak, self.norm2)
        self.value += c * bt_dot_d(d, self.k, top)
        self.change_coefficients(c, d)
        if not self.keeps_gram:
            self.norm2 = NAN
            if self.recording or self.average is not None or self.keeps_norm:
                self.measure_norm()
        elif self.norm2 < CANCELLED * self.peak:  # the rest is mostly rounding
            self.measure_norm()
        return 1

    cdef int change_coefficients(self, double c, double* d) except -1 nogil:
        """Add c d to the coefficients."""
        cdef Py_ssize_t p, slot
        bt_axpy(c / self.factor, d, self._coef, self.supports.top)
        if self.average is not None:
            self.average.note_changes(c / self.factor, d, 0, self.supports.top)
        if self.journal is not None:
            for p in range(self.size()):
                slot = self.supports._order[p]
                self.journal.note(self.supports._rounds[slot], c / self.factor * d[slot])
        return 0

    cdef int require_generator(self) except -1 nogil:
        if self.bits == NULL:
            with gil:
                raise ValueError("draw needs a generator: construct the rule with generator=...")
        return 0

    cdef Py_ssize_t draw(self, Py_ssize_t n) except? -1 nogil:
        # The numbers of Generator.integers(n), by Lemire's method, without its call.
        cdef uint32_t span = <uint32_t> n, low
        cdef uint64_t product
        self.require_generator()
        if n == 1:
            return 0
        product = <uint64_t> self.bits.next_uint32(self.bits.state) * span
        low = <uint32_t> product
        if low < span:
            while low < (-span) % span:
                product = <uint64_t> self.bits.next_uint32(self.bits.state) * span
                low = <uint32_t> product
        return <Py_ssize_t> (product >> 32)

    cdef double draw_fraction(self) except? -1 nogil:
        self.require_generator()
        return self.bits.next_double(self.bits.state)  # the number of Generator.random()

    cdef void note(self, Entry name, double value) noexcept nogil:
        self.entry[<int> name] = value


def kept_array(array):
    """Return an array of a state as the rule may keep it: empty arrays are shared by all rules."""
    return writeable(array) if array.size else NO_VALUES


cdef lengthen(array, Py_ssize_t n):
    longer = np.zeros(n)
    longer[:len(array)] = array
    return longer


cdef void multiply_out(double* array, double factor, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(n):
        array[j] *= factor
        if fabs(array[j]) < DBL_MIN:  # subnormal numbers cost a hundred times as much
            array[j] = 0.0
