"""Rounds that rounding might decide, and which are therefore left out."""

import numpy as np
from inputs import make_rows

from budgetron import BudgetClassifier, ProjectronPlusPlus, SecondOrderProjectron, linear
from budgetron._base.access import hypotheses_of
from budgetron._base.learner_wrapper import LearnerWrapper
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.past_hypotheses import PastHypotheses
from budgetron.batch import PenalizedRiskClassifier
from budgetron.conformal import ConformalClassifier
from budgetron.conformal._classifier import scores_of
from budgetron.experts import ExpertClassifier
from budgetron.portfolio._views import Views

# Learners that update below a margin of 1, and not by a step that goes to 0 with the distance from 1.
UPDATE_BELOW_1 = (
    linear.OnlineSVM,
    linear.AROW,
    ProjectronPlusPlus,
    SecondOrderProjectron,
    BudgetClassifier,
)


def is_tie(model, row, gap):
    """Return whether a decision about an array of one row is closer than `gap`."""
    for margins, thresholds in decisions(model, row):
        if (np.abs(margins[:, None] - thresholds) < gap).any():
            return True
        if len(margins) > 1 and np.diff(np.sort(margins)).min() < gap:
            return True  # between classes
    return False


def thresholds_of(learner):
    """Return the margins at which a learner decides otherwise."""
    if isinstance(learner, linear.MarginPerceptron):
        return np.array([0.0, learner.margin, -learner.margin])
    return np.array([0.0, 1.0, -1.0] if isinstance(learner, UPDATE_BELOW_1) else [0.0])


def decisions(model, row):
    """Yield the margins of each part of a model at a row, and the margins where it decides otherwise.

    A part that is 0 everywhere has a margin of exactly 0 in every computation, and is left out.
    """
    if isinstance(model, ExpertClassifier):
        for learner in model.learners_:
            if isinstance(learner, OnlineClassifier):
                yield from decisions(learner, row)
            if np.any(learner.decision_function(probe_rows(row))):
                yield learner.decision_function(row).reshape(-1), np.zeros(1)
    elif isinstance(model, LearnerWrapper):
        yield from decisions(model.learner_, row)
        if isinstance(model, PenalizedRiskClassifier):
            yield from past_decisions(model, row)
        if isinstance(model, ConformalClassifier) and np.isfinite(model.threshold_):
            for score in scores_of(model.decision_function(row))[0][0]:
                yield np.array([score]), np.array([model.threshold_])
    else:
        parts = [part for part in hypotheses_of(model) if not is_zero(part, row)]
        margins = np.array([part.open_round(row[0]) for part in parts]).reshape(-1)
        yield margins, thresholds_of(model)
        if isinstance(model, SecondOrderProjectron) and model.loss_ == "logistic" and len(margins):
            # A row is learned if the probability of the other classes is at least 0.01.
            yield doubts(margins), np.array([0.01])
        if isinstance(model, BudgetClassifier):
            for portfolio in parts:
                yield from expert_decisions(portfolio, row)


def expert_decisions(portfolio, row):
    """Yield the scores of each active expert of a portfolio, and where the expert decides otherwise."""
    pool = portfolio.pool
    views = Views(row, None if pool.scaler is None else pool.scaler.apply(row))
    first = np.empty((1, len(pool.first_order_experts.kinds), pool.outputs))
    pool.first_order_experts.decide(views.with_constant(), first)
    for weights, scores in zip(pool.first_order_experts.weights, first[0], strict=True):
        if weights.any():
            yield scores, np.zeros(1)
    for expert in pool.experts:
        if expert.learner is not None and not is_zero(expert.learner, expert.rows(views)):
            scores = expert.learner.decide(expert.rows(views)).reshape(-1)
            yield scores, np.array([0.0, 1.0, -1.0])
            if expert.loss == "logistic":
                yield doubts(scores), np.array([0.01])


def doubts(scores):
    """Return the probability of the other classes, for each class of one row."""
    scores = np.array([-scores[0], scores[0]]) / 2.0 if len(scores) == 1 else scores
    shares = np.exp(scores - scores.max())
    return 1.0 - shares / shares.sum()


def past_decisions(model, row):
    """Yield the margins of all past hypotheses but the first, which is 0 everywhere."""
    for hypothesis in hypotheses_of(model):
        past = PastHypotheses(hypothesis)
        for margins in past.margins(row, past.rounds + 1)[1:]:
            yield margins, np.zeros(1)


def is_zero(hypothesis, row):
    """Return whether a hypothesis is 0 everywhere."""
    if hasattr(hypothesis, "weights"):
        return not np.any(hypothesis.weights)
    if hasattr(hypothesis, "pool"):
        return False
    return hypothesis.n_supports == 0 and not np.any(hypothesis.decide(probe_rows(row)))


def probe_rows(row):
    """Return rows to predict, of the width and type of a row."""
    d = row.shape[1]
    rows = [make_rows(0, 4, d, "real", "grid"), make_rows(1, 6, d, "real", "fresh")]
    return np.vstack(rows).astype(row.dtype)
