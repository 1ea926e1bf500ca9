"""Random sequences of calls of an expert algorithm, compared with a loop of `update`."""

import numpy as np
from checks import refuses, strict
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from progress import report_step
from sklearn.base import clone
from states import COPIES, assert_equal, close, frozen

from budgetron.experts import Halving, WeightedMajority

TOLERANCE = 1e-9

# Functions of the number of experts and of rounds
BAD_ADVICE = {
    "NaN": lambda n, rounds: np.full((rounds, n), np.nan),
    "infinity": lambda n, rounds: np.full((rounds, n), np.inf),
    "above 1": lambda n, rounds: np.full((rounds, n), 1.5),
    "below 0": lambda n, rounds: np.full((rounds, n), -0.5),
    "too wide": lambda n, rounds: np.zeros((rounds, n + 1)),
    "no experts": lambda n, rounds: np.zeros((rounds, 0)),
    "three dimensions": lambda n, rounds: np.zeros((rounds, n, 1)),
    "one dimension": lambda n, rounds: np.zeros(n),
    "a number": lambda n, rounds: 0.5,
    "None": lambda n, rounds: None,
    "text": lambda n, rounds: np.full((rounds, n), "a"),
    "complex": lambda n, rounds: np.full((rounds, n), 1j),
    "a ragged list": lambda n, rounds: [[0.0] * n, [0.0] * (n + 1)],
}

FORMS = {
    "C order": np.ascontiguousarray,
    "Fortran order": np.asfortranarray,
    "list": np.ndarray.tolist,
    "float32": lambda values: values.astype(np.float32),
    "big-endian": lambda values: values.astype(">f8"),
    "objects": lambda values: values.astype(object),
    "backwards": lambda values: values[::-1].copy()[::-1],
}

rounds = st.tuples(st.integers(0, 999), st.sampled_from([0, 1, 1, 2, 3, 7, 40]))


class AlgorithmMachine(RuleBasedStateMachine):
    """Calls of one expert algorithm. A subclass sets the variant."""

    variant = None

    @initialize(n=st.sampled_from([1, 2, 3, 8]))
    def start(self, n):
        self.model, self.loop, self.n = self.variant.make(), self.variant.make(), n
        self.started = False

    def values(self, seed, *shape):
        """Return numbers that the algorithm accepts, exact in float32."""
        rng = np.random.default_rng([seed, *shape])
        return rng.integers(0, 2, shape) if self.model._binary else rng.integers(0, 9, shape) / 8

    @rule(batch=rounds, form=st.sampled_from(sorted(FORMS)), by_losses=st.booleans())
    def play(self, batch, form, by_losses):
        report_step()
        seed, n = batch
        form = form if n else "C order"  # an empty list has no experts
        by_losses = by_losses and not isinstance(self.model, WeightedMajority | Halving)
        advice = self.values(seed, n, self.n).astype(float)
        outcomes = self.values(seed + 1, n).astype(float)
        with strict():
            if by_losses:
                trace = self.model.play_losses(FORMS[form](advice))
                expected = [self.loop.play_losses(row[None]) for row in advice]
            else:
                trace = self.model.play(FORMS[form](advice), FORMS[form](outcomes))
                expected = [self.loop.play(row[None], [y]) for row, y in zip(advice, outcomes, strict=True)]
                predictions = [one.predictions[0] for one in expected]
                assert close(trace.predictions, predictions, TOLERANCE)
        assert close(trace.losses, [one.losses[0] for one in expected], TOLERANCE)
        self.started = True
        if n:
            self.compare()

    @rule(seed=st.integers(0, 999))
    def update(self, seed):
        report_step()
        advice, outcome = self.values(seed, self.n), float(self.values(seed, 1)[0])
        with strict():
            loss = self.model.update(advice, outcome)
            assert close(loss, self.loop.play(advice[None], [outcome]).losses[0], TOLERANCE)
        self.started = True
        self.compare()

    def compare(self):
        assert self.model.rounds_ == self.loop.rounds_
        for name in ("weights_", "loss_", "expert_losses_", "regret_"):
            assert close(getattr(self.model, name), getattr(self.loop, name), TOLERANCE), name
        total = float(self.model.weights_.sum())
        assert close(total, 1.0, TOLERANCE) or total == 0.0

    @rule(seed=st.integers(0, 999))
    def predict(self, seed):
        """Predict. This draws random numbers from a randomized algorithm, so the loop predicts, too."""
        report_step()
        advice = self.values(seed, self.n)
        with strict():
            assert close(self.model.predict(advice), self.loop.predict(advice), TOLERANCE)
        self.started = True

    @rule(how=st.sampled_from(sorted(COPIES)), swap=st.booleans(), seed=st.integers(0, 999))
    def copy(self, how, swap, seed):
        report_step()
        before = frozen(self.model)
        with strict():
            other = COPIES[how](self.model)
            clone(self.model)
        assert_equal(before, frozen(other), how)
        if swap:
            self.model, other = other, self.model
        other.play(self.values(seed, 3, self.n), self.values(seed, 3))
        assert_equal(before, frozen(self.model), f"{how} shares its state, which")

    @precondition(lambda self: self.started)
    @rule(
        name=st.sampled_from(sorted(BAD_ADVICE)),
        method=st.sampled_from(["play", "play_losses", "predict", "update"]),
    )
    def bad_advice(self, name, method):
        report_step()
        advice = BAD_ADVICE[name](self.n, 2)
        if method in ("predict", "update"):
            if name == "one dimension":
                return
            # One round: its advice has one dimension less.
            if isinstance(advice, np.ndarray) and advice.ndim > 1:
                advice = advice[0]
        outcomes = [] if method in ("predict", "play_losses") else [0.0 if method == "update" else [0.0, 0.0]]
        refuses(self.model, lambda: getattr(self.model, method)(advice, *outcomes))

    @rule(outcome=st.sampled_from([np.nan, -1.0, 2.0, "a", None, 1j, [0.0, 1.0]]))
    def bad_outcome(self, outcome):
        report_step()
        advice = self.values(0, self.n)
        refuses(self.model, lambda: self.model.update(advice, outcome))
        refuses(self.model, lambda: self.model.play([advice], [outcome]))
        refuses(self.model, lambda: self.model.play([advice], []))
