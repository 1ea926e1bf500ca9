# cython: cdivision=True
"""One prediction from the scores of several experts, for any number of classes.

With two classes there is one output, and a score above 0 stands for the second class. With more classes there is an
output for each, and the largest score decides. N experts give a score for each output. For output c, let f_c be the
vector of the experts' scores, each bounded by tanh, of recent labels, and of the constant 1.

Combiners are second-order linear learners (AROW, r = 1) on f_c, with weights and a covariance Sigma for each output.
A combiner that forgets replaces Sigma by keep Sigma + (1 - keep) I before it learns a round. Fixed share (Herbster and
Warmuth 1998) gives a weight, the share, to each combiner and expert by their mistakes. Their weighted vote is the
prediction. An inactive expert votes as the first combiner does.

Recent labels are exponential averages of y_c, which is 1 for the class of a row and -1 for other classes.
"""

from libc.math cimport exp, tanh
from libc.stdint cimport int64_t
from libc.string cimport memset

cimport numpy as cnp

import numpy as np

from budgetron._core.supports import writeable

cdef extern from "simd.h" nogil:
    double bt_dot_d(const double*, const double*, ptrdiff_t)
    void bt_axpy(double, const double*, double*, ptrdiff_t)

cnp.import_array()

# Recent labels are averages at these rates.
RATES = (1.0, 0.1)
cdef double FAST = 1.0, SLOW = 0.1
# Features of a combiner besides the experts: two recent labels and a constant
cdef Py_ssize_t OTHER_FEATURES = 3
# Shares that differ by less are ties: the first combiner's class wins, otherwise the first class.
cdef double TIE = 1e-12
# The noise variance of a row of a very large weight.
cdef double LEAST_NOISE = 1e-12
# The predicted class has a margin that is larger than the others by at least this.
cdef double LEAD = 1e-9

ARRAYS = ("weights", "sigma", "recent", "shares", "losses")


cdef class Combination:
    """Combines N experts.

    Parameters
    ----------
    n_experts : int
    outputs : int
        One for two classes, otherwise one for each class.
    keeps : tuple of float
        For each combiner, the part of its covariance that it keeps in each round; 1 for one that does not forget.
    eta, alpha : float
        The rates of fixed share: the learning rate, and the part of all weights that is shared in each round.
    recency : bool
        Whether combiners see recent labels.

    Attributes
    ----------
    weights, sigma : ndarray of shape (n_combiners, n_outputs, n_features) and (..., n_features, n_features)
    recent : ndarray of shape (n_outputs, 2)
        The recent labels.
    shares : ndarray of shape (n_combiners + n_experts,)
        The weights of the vote.
    losses : ndarray of shape (n_combiners + n_experts + 1,)
        Mistakes of each combiner and expert, and the loss of the vote: the sum, over the rounds, of the shares
        of those that were wrong.
    """

    def __init__(self, Py_ssize_t n_experts, Py_ssize_t outputs, tuple keeps=(1.0, 0.9999), double eta=0.1,
                 double alpha=3e-4, bint recency=True):
        self.n_experts, self.keeps, self.n_combiners = n_experts, keeps, len(keeps)
        self.eta, self.alpha, self.recency = eta, alpha, recency
        self.features = n_experts + OTHER_FEATURES
        if not 0 < self.n_combiners <= 8:
            raise ValueError("there must be one to eight combiners")
        for r, keep in enumerate(keeps):
            self.keep[<Py_ssize_t> r] = keep
        shape = (self.n_combiners, outputs, self.features)
        voters = self.n_combiners + n_experts
        self.set_arrays({
            "weights": np.zeros(shape),
            "sigma": np.broadcast_to(np.eye(self.features), (*shape, self.features)).copy(),
            "recent": np.zeros((outputs, 2)),
            "shares": np.full(voters, 1.0 / voters),
            "losses": np.zeros(voters + 1),
        })

    def set_arrays(self, arrays):
        """Replace the arrays, by name; their shapes must fit."""
        self.weights, self.sigma, self.recent, self.shares, self.losses = (writeable(arrays[name]) for name in ARRAYS)
        self.outputs = self.weights.shape[1]
        classes, voters = max(self.outputs, 2), self.n_combiners + self.n_experts
        sizes = [self.outputs * self.features, self.n_combiners * self.outputs, self.features, classes]
        self.scratch, self.chosen = np.zeros(sum(sizes)), np.zeros(voters, np.int64)
        self._weights, self._sigma = pointer(self.weights), pointer(self.sigma)
        self._recent, self._shares, self._losses = pointer(self.recent), pointer(self.shares), pointer(self.losses)
        self.f = pointer(self.scratch)
        self.margins = self.f + <Py_ssize_t> sizes[0]
        self.direction = self.margins + <Py_ssize_t> sizes[1]
        self.votes = self.direction + <Py_ssize_t> sizes[2]
        self._chosen = <int64_t*> (<cnp.ndarray> self.chosen).data

    def arrays(self):
        """Return the arrays that are the state, by name."""
        return {name: getattr(self, name) for name in ARRAYS}

    def __reduce__(self):
        arguments = (self.n_experts, self.outputs, self.keeps, self.eta, self.alpha, self.recency)
        return rebuild, (arguments, self.arrays())

    @property
    def nbytes(self):
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays().values()) + self.scratch.nbytes + self.chosen.nbytes

    def add_output(self, Py_ssize_t place):
        """Add an output at this place. The one output of two classes first becomes one for each.

        A new output starts with the mean weights of the others, because an expert is about as good for each class.
        """
        arrays = self.arrays()
        for name in ("weights", "sigma"):
            values = arrays[name]
            if self.outputs == 1:
                values = np.concatenate([values, values], axis=1)
            arrays[name] = np.insert(values, place, values.mean(axis=1), axis=1)
        if self.outputs == 1:
            # The scores and recent labels of the first class have the opposite sign, and the constant does not: so its
            # weight and covariances change sign.
            first = 0 if place else 1
            arrays["weights"][:, first, -1] *= -1.0
            arrays["sigma"][:, first, -1, :-1] *= -1.0
            arrays["sigma"][:, first, :-1, -1] *= -1.0
            arrays["recent"] = np.concatenate([-self.recent, self.recent])
        arrays["recent"] = np.insert(arrays["recent"], place, -1.0, axis=0)
        self.set_arrays(arrays)

    def reset(self, Py_ssize_t expert, double variance=1.0):
        """Set the combiners' weights of an expert to 0, with this variance: another expert takes its place."""
        self.weights[:, :, expert] = 0.0
        self.sigma[:, :, expert, :] = self.sigma[:, :, :, expert] = 0.0
        self.sigma[:, :, expert, expert] = variance

    def transfer_weight(self, Py_ssize_t source, Py_ssize_t target):
        """Add the combiners' weights of one expert, which ends, to those of another."""
        self.weights[:, :, target] += self.weights[:, :, source]
        self.weights[:, :, source] = 0.0

    def learn(self, const double[:, :, ::1] scores, active, const double[::1] labels, double[:, ::1] margins,
              const double[::1] importances=None, double[:, :] ledger=None):
        """Play rounds; return the number of wrong votes of each expert.

        Parameters
        ----------
        scores : ndarray of shape (n, n_experts, n_outputs)
        active : ndarray of shape (n_experts,), bool
        labels : ndarray of shape (n,), float64
            -1 and +1, or the index of each row's class if there are more than two.
        margins : ndarray of shape (n, n_outputs), to fill
            The margins before the label was seen.
        importances : ndarray of shape (n,), optional
            Weights of the rows.
        ledger : ndarray of shape (n, 2 + n_combiners + n_experts), to fill, optional
            The loss of the vote, the weight of the row, and the loss (0 or 1) of each combiner and expert.
        """
        cdef Py_ssize_t t, n = scores.shape[0], label
        cdef cnp.uint8_t[::1] speaks = np.ascontiguousarray(active, np.uint8)
        cdef double weight
        self.check(scores, margins, speaks)
        if ledger is not None and (ledger.shape[0] != n or ledger.shape[1] != 2 + self.n_combiners + self.n_experts):
            raise ValueError("a ledger must have a row per round, and two columns more than combiners and experts")
        before = self.losses.copy()
        with nogil:
            for t in range(n):
                predict(self, &scores[t, 0, 0] if self.n_experts else NULL, &speaks[0], self.recency, &margins[t, 0])
                label = <Py_ssize_t> labels[t] if self.outputs > 1 else labels[t] > 0.0
                weight = 1.0 if importances is None else importances[t]
                if ledger is not None:
                    record(self, label, weight, ledger, t)
                learn_label(self, label, weight)
        wrong = (self.losses - before)[self.n_combiners:self.n_combiners + self.n_experts]
        return np.rint(wrong).astype(np.int64)

    def decide(self, const double[:, :, ::1] scores, active, double[:, ::1] margins, bint next_row):
        """Fill the margins of rows. Recent labels are used only for the next row of the stream (`next_row`)."""
        cdef Py_ssize_t t
        cdef cnp.uint8_t[::1] speaks = np.ascontiguousarray(active, np.uint8)
        self.check(scores, margins, speaks)
        with nogil:
            for t in range(scores.shape[0]):
                predict(self, &scores[t, 0, 0] if self.n_experts else NULL, &speaks[0], next_row and self.recency,
                        &margins[t, 0])

    cdef int check(self, const double[:, :, ::1] scores, double[:, ::1] margins, cnp.uint8_t[::1] active) except -1:
        if scores.shape[1] != self.n_experts or scores.shape[2] != self.outputs or active.shape[0] != self.n_experts:
            raise ValueError("scores must have one number per row, expert and output")
        if margins.shape[0] != scores.shape[0] or margins.shape[1] != self.outputs:
            raise ValueError("margins must have one number per row and output")
        return 0


def rebuild(arguments, arrays):
    """Return a combination from its pickled parts."""
    combination = Combination(*arguments)
    combination.set_arrays(arrays)
    return combination


cdef double* pointer(array):
    return <double*> (<cnp.ndarray> array).data


cdef inline Py_ssize_t choice(double* scores, Py_ssize_t outputs) noexcept nogil:
    """Return the class that scores stand for."""
    cdef Py_ssize_t c, best = 0
    if outputs == 1:
        return scores[0] > 0.0
    for c in range(1, outputs):
        if scores[c] > scores[best]:
            best = c
    return best


cdef void predict(Combination self, const double* scores, cnp.uint8_t* active, bint recent, double* out) noexcept nogil:
    """Compute the margins of a row; `learn_label` uses the intermediate results."""
    cdef Py_ssize_t i, c, r, winner, N = self.n_experts, K = self.outputs, F = self.features, R = self.n_combiners
    cdef Py_ssize_t classes = K if K > 1 else 2
    cdef double* f
    for c in range(K):
        f = self.f + c * F
        for i in range(N):
            f[i] = tanh(scores[i * K + c]) if active[i] else 0.0
        f[N] = self._recent[2 * c] if recent else 0.0
        f[N + 1] = self._recent[2 * c + 1] if recent else 0.0
        f[N + 2] = 1.0
        for r in range(R):
            self.margins[r * K + c] = bt_dot_d(self._weights + (r * K + c) * F, f, F)
    memset(self.votes, 0, classes * sizeof(double))
    for r in range(R):
        self._chosen[r] = choice(self.margins + r * K, K)
    for i in range(N):
        self._chosen[R + i] = choice(<double*> scores + i * K, K) if active[i] else self._chosen[0]
    for i in range(R + N):
        self.votes[self._chosen[i]] += self._shares[i]
    winner = self._chosen[0]
    for c in range(classes):
        if self.votes[c] > self.votes[winner] + TIE:
            winner = c
    write_margins(self, winner, out)


cdef void write_margins(Combination self, Py_ssize_t winner, double* out) noexcept nogil:
    """Write margins that lie between -1 and 1. The winner's is the largest; of two classes, the sign is the winner's.

    They are computed from the votes and from the combiners' margins, weighted by their shares.
    """
    cdef Py_ssize_t c, r, K = self.outputs, R = self.n_combiners
    cdef double combined, total = 0.0, vote, most = -2.0
    for r in range(R):
        total += self._shares[r]
    for c in range(K):
        combined = 0.0
        for r in range(R):
            combined += self._shares[r] * self.margins[r * K + c]
        combined = tanh(combined / total) if total > 0.0 else 0.0
        if K == 1:
            vote = 2.0 * self.votes[1] - 1.0
            if winner == 1:
                vote = max(vote, LEAD)
                out[0] = vote * (0.55 + 0.45 * combined)
            else:
                vote = min(vote, -LEAD)
                out[0] = vote * (0.55 - 0.45 * combined)
            return
        out[c] = self.votes[c] - 0.5 + 0.5 * combined
        if c != winner:
            most = max(most, out[c])
    out[winner] = max(out[winner], most + LEAD)


cdef void record(Combination self, Py_ssize_t label, double weight, double[:, :] ledger, Py_ssize_t t) noexcept nogil:
    """Write the losses of the round that was predicted last, before its label is learned."""
    cdef Py_ssize_t i
    ledger[t, 0], ledger[t, 1] = 0.0, weight
    for i in range(self.n_combiners + self.n_experts):
        ledger[t, 2 + i] = self._chosen[i] != label
        ledger[t, 0] += ledger[t, 2 + i] * self._shares[i]


cdef void learn_label(Combination self, Py_ssize_t label, double weight) noexcept nogil:
    """Learn the label of the row that was predicted last."""
    cdef Py_ssize_t i, j, c, r, N = self.n_experts, K = self.outputs, F = self.features, R = self.n_combiners
    cdef Py_ssize_t voters = R + N
    cdef double y, total = 0.0, right = 0.0
    for i in range(voters):
        if self._chosen[i] != label:
            self._losses[i] += 1.0
            self._losses[voters] += self._shares[i]
        else:
            right += self._shares[i]
    for i in range(voters):
        # If nobody is right, the shares keep their ratios. So a large weight cannot make all of them 0.
        if self._chosen[i] != label and right > 0.0:
            self._shares[i] *= exp(-self.eta * weight)
        total += self._shares[i]
    for i in range(voters):
        self._shares[i] = (1.0 - self.alpha) * self._shares[i] / total + self.alpha / voters
    for c in range(K):
        y = 1.0 if (label == c if K > 1 else label == 1) else -1.0
        for r in range(R):
            learn_combiner(self, r, c, y, weight)
        if weight > 0.0:
            self._recent[2 * c] += FAST * (y - self._recent[2 * c])
            self._recent[2 * c + 1] += SLOW * (y - self._recent[2 * c + 1])


cdef void learn_combiner(Combination self, Py_ssize_t r, Py_ssize_t c, double y, double weight) noexcept nogil:
    """Forget a part of the covariance, then take a step of AROW."""
    cdef Py_ssize_t i, F = self.features, place = r * self.outputs + c
    cdef double* sigma = self._sigma + place * F * F
    cdef double* f = self.f + c * F
    cdef double keep = self.keep[r], margin = self.margins[place], v = 0.0, noise
    if keep < 1.0:
        for i in range(F * F):
            sigma[i] *= keep
        for i in range(F):
            sigma[i * F + i] += 1.0 - keep
    if y * margin >= 1.0 or weight == 0.0:
        return
    for i in range(F):
        self.direction[i] = bt_dot_d(sigma + i * F, f, F)
        v += self.direction[i] * f[i]
    v = max(v, 0.0)
    noise = max(1.0 / weight, LEAST_NOISE)
    bt_axpy((y - margin) / (v + noise), self.direction, self._weights + place * F, F)
    for i in range(F):
        bt_axpy(-self.direction[i] / (v + noise), self.direction, sigma + i * F, F)
