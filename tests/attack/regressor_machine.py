"""Random sequences of calls of a regressor or its river adapter, compared with a loop of single rows."""

import numpy as np
from checks import refuses, strict
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from progress import report_step
from scipy.sparse import csr_array
from states import COPIES, assert_equal, close, frozen

from budgetron import ConformalRegressor
from budgetron.river import RiverRegressor

# Rounding errors grow with the number of rounds; ties between experts or supports are not expected.
TOLERANCE = 1e-6

FORMS = {
    "C order": np.ascontiguousarray,
    "Fortran order": np.asfortranarray,
    "list": np.ndarray.tolist,
    "sparse": csr_array,
    "backwards": lambda X: X[::-1].copy()[::-1],
}
BAD_ROWS = {
    "NaN": lambda d: np.full((1, d), np.nan),
    "infinity": lambda d: np.full((1, d), np.inf),
    "too wide": lambda d: np.zeros((1, d + 1)),
    "text": lambda d: np.full((1, d), "a"),
    "None": lambda d: None,
    "one dimension": lambda d: np.zeros(d),
}
BAD_TARGETS = [np.nan, np.inf, "a", None, 1e40, 1j]


class RegressorMachine(RuleBasedStateMachine):
    """Calls of one regressor. A subclass sets the variant."""

    variant = None

    def __init__(self):
        super().__init__()
        self.model, self.loop, self.rounds = self.variant.make(), self.variant.make(), 0
        self.is_adapter = isinstance(self.model, RiverRegressor)

    def batch(self, seed, n):
        rng = np.random.default_rng([seed, n])
        X = np.zeros((n, self.variant.d))
        places = [0, self.variant.d // 2, self.variant.d - 1]
        X[:, places] = rng.normal(size=(n, 3)).round(3)
        return X, (X[:, 0] + rng.normal(size=n)).round(3)

    def learn_by_loop(self, X, y):
        return [self.play(self.loop, x, target) for x, target in zip(X, y, strict=True)]

    def play(self, model, x, y):
        if not self.is_adapter:
            return model.play(x, y)
        row = dict(enumerate(x.tolist()))
        before = model.predict_one(row)
        model.learn_one(row, y)
        return before

    @rule(seed=st.integers(0, 999), n=st.sampled_from([1, 2, 3, 20, 70]), form=st.sampled_from(sorted(FORMS)))
    def learn(self, seed, n, form):
        report_step()
        X, y = self.batch(seed, n)
        with strict():
            expected = self.learn_by_loop(X, y)
            if self.is_adapter:
                import pandas as pd

                self.model.learn_many(pd.DataFrame(X), pd.Series(y))
            else:
                trace = self.model.progressive_fit(FORMS[form](X), y)
                assert close(trace.predictions, expected, TOLERANCE)
        self.rounds += n
        self.compare()

    @rule(seed=st.integers(0, 999))
    def play_one(self, seed):
        report_step()
        X, y = self.batch(seed, 1)
        with strict():
            assert close(self.play(self.model, X[0], y[0]), self.play(self.loop, X[0], y[0]), TOLERANCE)
        self.rounds += 1
        self.compare()

    def compare(self):
        X, _ = self.batch(1, 5)
        if self.is_adapter:
            left, right = ([m.predict_one(dict(enumerate(x))) for x in X] for m in (self.model, self.loop))
        else:
            assert self.model.rounds_ == self.loop.rounds_ == self.rounds
            left, right = self.model.predict(X), self.loop.predict(X)
        assert close(left, right, TOLERANCE)
        if isinstance(self.model, ConformalRegressor):
            assert self.model.counts_.tolist() == self.loop.counts_.tolist()
            assert close(self.model.scores_, self.loop.scores_, TOLERANCE)
        limit = getattr(self.model, "memory", None)
        if limit is not None:
            assert self.model.nbytes_ <= int(limit.removesuffix("kB")) << 10

    @rule(how=st.sampled_from(sorted(COPIES)), swap=st.booleans(), seed=st.integers(0, 999))
    def copy(self, how, swap, seed):
        report_step()
        before = frozen(self.model)
        with strict():
            other = COPIES[how](self.model)
        assert_equal(before, frozen(other), how)
        if swap:
            self.model, other = other, self.model
        X, y = self.batch(seed, 1)
        self.play(other, X[0], y[0])
        assert_equal(before, frozen(self.model), f"{how} shares its state, which")

    @precondition(lambda self: self.rounds and not self.is_adapter)
    @rule(name=st.sampled_from(sorted(BAD_ROWS)), method=st.sampled_from(["partial_fit", "predict"]))
    def bad_rows(self, name, method):
        report_step()
        rows = BAD_ROWS[name](self.variant.d)
        targets = [[0.0]] if method == "partial_fit" else []
        refuses(self.model, lambda: getattr(self.model, method)(rows, *targets))

    @precondition(lambda self: self.rounds)
    @rule(bad=st.sampled_from(BAD_TARGETS))
    def bad_target(self, bad):
        report_step()
        X, _ = self.batch(0, 1)
        if self.is_adapter:
            refuses(self.model, lambda: self.model.learn_one(dict(enumerate(X[0].tolist())), bad))
            return
        refuses(self.model, lambda: self.model.play(X[0], bad))
        refuses(self.model, lambda: self.model.partial_fit(X, [bad]))
