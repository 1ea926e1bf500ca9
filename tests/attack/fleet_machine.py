"""Random sequences of calls of a fleet, compared with an estimator for each key."""

import numpy as np
from checks import refuses, strict
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from progress import report_step
from scipy.sparse import csr_array
from sklearn.base import clone
from states import COPIES, assert_equal, frozen

from budgetron.fleet import Fleet

KEYS = 5

# Functions of valid keys, rows and labels
BAD_BATCHES = {
    "NaN": lambda keys, X, y: (keys, np.full_like(X, np.nan), y),
    "infinity in the last row": lambda keys, X, y: (keys, np.append(X, [[np.inf] * X.shape[1]], 0)[1:], y),
    "too wide": lambda keys, X, y: (keys, np.zeros((len(y), X.shape[1] + 1)), y),
    "an unknown label": lambda keys, X, y: (keys, X, np.append(y[1:], 7)),
    "too few keys": lambda keys, X, y: (keys[1:], X, y),
    "too few labels": lambda keys, X, y: (keys, X, y[1:]),
    "keys of two dimensions": lambda keys, X, y: (np.array([keys]), X, y),
    "no key": lambda keys, X, y: ([*keys[1:], None], X, y),
    "keys that are numbers with a fraction": lambda keys, X, y: (np.arange(len(y)) + 0.5, X, y),
    "truth values as keys": lambda keys, X, y: (np.ones(len(y), bool), X, y),
    "keys of the other kind": lambda keys, X, y: ([b"a"] * len(y), X, y),
    "a key that is too large": lambda keys, X, y: ([2**63] * len(y), X, y),
    "a key that is no valid text": lambda keys, X, y: (["\ud800"] * len(y), X, y),
}

batches = st.tuples(st.integers(0, 999), st.sampled_from([1, 1, 2, 3, 17, 60]))


class FleetMachine(RuleBasedStateMachine):
    """Calls of one fleet. A subclass sets the variant."""

    variant = None

    @initialize(text=st.booleans())
    def start(self, text):
        self.fleet, self.text = self.variant.make(), text
        self.models = {}

    def batch(self, seed, n):
        rng = np.random.default_rng([seed, n])
        keys = rng.integers(-2, KEYS, n)
        X = rng.integers(-8, 9, (n, self.variant.d)) / 8
        y = rng.integers(2, size=n)
        return [f"key {key} ☃" for key in keys] if self.text else keys, X, y

    @rule(batch=batches, sparse=st.booleans(), learns=st.booleans())
    def play(self, batch, sparse, learns):
        report_step()
        keys, X, y = self.batch(*batch)
        rows = csr_array(X) if sparse else X
        expected = []
        for i, key in enumerate(list(keys)):
            model = self.models.setdefault(key, clone(self.fleet.learner))
            expected.append(model.play(rows[[i]] if sparse else X[i], y[i], classes=[0, 1]))
        with strict():
            if learns:
                self.fleet.partial_fit(keys, rows, y, classes=[0, 1])
            else:
                np.testing.assert_array_equal(self.fleet.play(keys, rows, y, classes=[0, 1]), expected)
        self.compare()

    def compare(self):
        """Compare what can be seen of all keys."""
        table = self.fleet.stats()
        assert sorted(table["key"].tolist()) == sorted(self.models)
        for i, key in enumerate(table["key"].tolist()):
            model = self.models[key]
            assert (table["rows"][i], table["mistakes"][i]) == (model.rounds_, model.mistakes_)
            assert table["supports"][i] == getattr(model, "n_support_", 0)

    @rule(batch=batches)
    def predict(self, batch):
        report_step()
        keys, X, _ = self.batch(*batch)
        if not self.models:
            return
        before = frozen(self.fleet)
        with strict():
            margins = self.fleet.decision_function(keys, X)
            assert np.array_equal(self.fleet.predict(keys, X), (margins > 0).astype(int))
        for key, x, margin in zip(list(keys), X, margins, strict=True):
            assert (key in self.fleet) == (key in self.models)
            if key in self.models:
                assert np.isclose(margin, self.models[key].decision_function([x])[0], rtol=1e-9, atol=1e-9)
            else:
                assert margin == 0.0
        assert_equal(before, frozen(self.fleet))

    @rule(seed=st.integers(0, 999), which=st.sampled_from(sorted(BAD_BATCHES)))
    def play_bad_batch(self, seed, which):
        report_step()
        if which == "too wide" and not self.models:  # the first batch decides on the number of features
            return
        bad = BAD_BATCHES[which](*self.batch(seed, 9))
        refuses(self.fleet, lambda: self.fleet.play(*bad, classes=[0, 1]))

    @rule(how=st.sampled_from(sorted(COPIES)))
    def copy(self, how):
        report_step()
        before = frozen(self.fleet)
        with strict():
            self.fleet = COPIES[how](self.fleet)
        assert_equal(before, frozen(self.fleet))

    @rule(n=st.integers(1, 4))
    def split_and_merge(self, n):
        report_step()
        parts = self.fleet.split(n)
        assert sum(map(len, parts)) == len(self.fleet)
        self.fleet = parts[0].merge(*parts[1:])
        if self.models:
            self.compare()
            refuses(self.fleet, lambda: self.fleet.merge(self.fleet))

    @rule()
    def through_bytes(self):
        report_step()
        self.fleet = Fleet.from_bytes(self.fleet.to_bytes())
