"""Random sequences of calls of a detector or its river adapter, compared with a loop of single rows."""

import numpy as np
from checks import refuses, strict
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from progress import report_step
from regressor_machine import BAD_ROWS, FORMS, TOLERANCE
from states import COPIES, assert_equal, close, frozen

from budgetron.river import RiverDetector


class DetectorMachine(RuleBasedStateMachine):
    """Calls of one detector. A subclass sets the variant."""

    variant = None

    def __init__(self):
        super().__init__()
        self.model, self.loop, self.rounds = self.variant.make(), self.variant.make(), 0
        self.is_adapter = isinstance(self.model, RiverDetector)

    def batch(self, seed, n):
        rng = np.random.default_rng([seed, n])
        X = np.zeros((n, self.variant.d))
        X[:, [0, self.variant.d // 2, self.variant.d - 1]] = rng.normal(size=(n, 3)).round(3)
        return X

    def play(self, model, x):
        """Play one round; return the score before it, and the number of alarms after it."""
        if not self.is_adapter:
            return model.play(x), model.alarms_
        row = dict(enumerate(x.tolist()))
        score = model.score_one(row)
        model.learn_one(row)
        return score, model.alarms_

    @rule(seed=st.integers(0, 999), n=st.sampled_from([1, 2, 3, 20, 70]), form=st.sampled_from(sorted(FORMS)))
    def learn(self, seed, n, form):
        report_step()
        X = self.batch(seed, n)
        with strict():
            expected = [self.play(self.loop, x) for x in X]
            if self.is_adapter:
                import pandas as pd

                self.model.learn_many(pd.DataFrame(X))
            else:
                before = self.model.alarms_ if self.rounds else 0
                trace = self.model.progressive_fit(FORMS[form](X))
                assert close(trace.scores, [score for score, _ in expected], TOLERANCE)
                assert before + int(trace.alarms.sum()) == self.model.alarms_
        self.rounds += n
        self.compare()

    @rule(seed=st.integers(0, 999))
    def play_one(self, seed):
        report_step()
        X = self.batch(seed, 1)
        with strict():
            (left, _), (right, _) = self.play(self.model, X[0]), self.play(self.loop, X[0])
            assert close(left, right, TOLERANCE)
        self.rounds += 1
        self.compare()

    def compare(self):
        X = self.batch(1, 5)
        if self.is_adapter:
            rows = [dict(enumerate(x)) for x in X.tolist()]
            left, right = ([m.score_one(row) for row in rows] for m in (self.model, self.loop))
        else:
            assert self.model.rounds_ == self.loop.rounds_ == self.rounds
            left, right = self.model.score_samples(X), self.loop.score_samples(X)
        assert close(left, right, TOLERANCE)
        assert self.model.alarms_ == self.loop.alarms_

    @rule(how=st.sampled_from(sorted(COPIES)), swap=st.booleans(), seed=st.integers(0, 999))
    def copy(self, how, swap, seed):
        report_step()
        before = frozen(self.model)
        with strict():
            other = COPIES[how](self.model)
        assert_equal(before, frozen(other), how)
        if swap:
            self.model, other = other, self.model
        self.play(other, self.batch(seed, 1)[0])
        assert_equal(before, frozen(self.model), f"{how} shares its state, which")

    @precondition(lambda self: self.rounds and not self.is_adapter)
    @rule(name=st.sampled_from(sorted(BAD_ROWS)), method=st.sampled_from(["partial_fit", "predict"]))
    def bad_rows(self, name, method):
        report_step()
        rows = BAD_ROWS[name](self.variant.d)
        refuses(self.model, lambda: getattr(self.model, method)(rows))
